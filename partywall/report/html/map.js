// SPDX-License-Identifier: GPL-2.0-or-later
"use strict";
{
	const rows = [...document.querySelectorAll("[data-row]")];
	const families = [...document.querySelectorAll("section.family")];
	const search = document.getElementById("search");
	const found = document.getElementById("found");
	let texts;
	const filter = () => {
		texts ??= rows.map((row) => row.textContent.toLowerCase());
		const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
		let count = 0;
		rows.forEach((row, at) => {
			row.hidden = !words.every((word) => texts[at].includes(word));
			count += !row.hidden;
		});
		for (const family of families)
			family.hidden = !family.querySelector("[data-row]:not([hidden])");
		found.textContent = words.length ? `${count} of ${rows.length}` : "";
	};
	search.addEventListener("input", filter);

	// An object's name looks for the operations that it is a wall of.
	for (const link of document.querySelectorAll("a[data-object]"))
		link.addEventListener("click", () => {
			search.value = link.dataset.object;
			filter();
		});

	const open = () => {
		const row = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
		if (row instanceof HTMLDetailsElement) {
			// It may have been filtered out, with all of its family.
			row.closest("section.family").hidden = row.hidden = false;
			row.open = true;
			row.scrollIntoView();
		}
	};
	addEventListener("hashchange", open);
	open();
}
