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
		show(words.length, (row, at) => words.every((word) => texts[at].includes(word)));
	};
	const show = (some, shown) => {
		let count = 0;
		rows.forEach((row, at) => {
			row.hidden = !shown(row, at);
			count += !row.hidden;
		});
		for (const family of families)
			family.hidden = !family.querySelector("[data-row]:not([hidden])");
		found.textContent = some ? `${count} of ${rows.length}` : "";
	};
	search.addEventListener("input", filter);

	// An object's name shows the operations that it is a wall of, and no others that its words are in.
	for (const link of document.querySelectorAll("a[data-object]"))
		link.addEventListener("click", () => {
			const name = link.dataset.object;
			search.value = name;
			show(true, (row) => row.dataset.walls.split("\n").includes(name));
		});

	const open = () => {
		let name = location.hash.slice(1);
		try {
			name = decodeURIComponent(name);
		} catch {
			// A title with a percent sign.
		}
		const row = name && document.getElementById(name);
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
