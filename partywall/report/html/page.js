// SPDX-License-Identifier: GPL-2.0-or-later
// Details of walls lie in the page packed: most are never opened, and together they are large.
"use strict";
{
	const rows = [...document.querySelectorAll("details[data-wall]")];
	const unpack = async () => {
		const packed = document.getElementById("packed").textContent.trim();
		const bytes = Uint8Array.from(atob(packed), (c) => c.charCodeAt(0));
		const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
		return JSON.parse(await new Response(stream).text());
	};
	let asked;
	const all = () => (asked ??= unpack());

	const fill = async (row) => {
		const place = row.querySelector(".detail");
		if (place.dataset.full) return;
		place.dataset.full = "yes";
		try {
			// Our own, made as the rest of the page was: every name in it is escaped.
			place.innerHTML = (await all())[row.dataset.wall];
		} catch {
			place.textContent = "This browser can't unpack it; partywall report --wall N tells the same.";
		}
	};
	for (const row of rows) row.addEventListener("toggle", () => row.open && fill(row));

	const open = () => {
		const row = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
		if (row instanceof HTMLDetailsElement) {
			for (let at = row; at; at = at.parentElement.closest("details")) at.open = true;
			row.scrollIntoView();
		}
	};
	addEventListener("hashchange", open);
	open();

	// What a row says and what is in it, without tags, in small letters.
	let texts;
	const index = async () => {
		let inside = {};
		try { inside = await all(); } catch { /* then by what rows say */ }
		return rows.map((row) => {
			const more = (inside[row.dataset.wall] ?? "").replace(/<[^>]*>/g, " ");
			return (row.textContent + " " + more).toLowerCase();
		});
	};
	const search = document.getElementById("search");
	const found = document.getElementById("found");
	search.addEventListener("input", async () => {
		const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
		texts ??= index();
		const every = await texts;
		let count = 0;
		rows.forEach((row, at) => {
			row.hidden = !words.every((word) => every[at].includes(word));
			count += !row.hidden;
		});
		found.textContent = words.length ? `${count} of ${rows.length}` : "";
	});
}
