// Finds sections that hold every word of a query, on the reader's machine alone.
"use strict";
const MOST_SHOWN = 25;
const home = document.body.dataset.home;
const field = document.getElementById("query");
const found = document.getElementById("found");
const lowered = INDEX.map(([page, place, title, text]) => ({
  page, place, title, text, low: text.toLowerCase(), head: `${page} ${title}`.toLowerCase(),
}));

function score(entry, words) {
  let total = 0;
  for (const word of words) {
    const inHead = entry.head.includes(word);
    const times = entry.low.split(word).length - 1;
    if (!inHead && !times) return 0;
    total += (inHead ? 20 : 0) + Math.min(times, 10);
  }
  return total;
}

function excerpt(entry, words) {
  const line = document.createElement("small");
  const first = Math.max(0, Math.min(...words.map((word) => {
    const place = entry.low.indexOf(word);
    return place < 0 ? Infinity : place;
  })));
  const start = Number.isFinite(first) ? Math.max(0, first - 60) : 0;
  line.textContent = (start ? "… " : "") + entry.text.slice(start, start + 180) + " …";
  return line;
}

function show() {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  found.replaceChildren();
  found.hidden = !words.length;
  if (!words.length) return;
  const hits = lowered
    .map((entry) => [score(entry, words), entry])
    .filter(([points]) => points)
    .sort((one, other) => other[0] - one[0]);
  const line = document.createElement("p");
  line.textContent = hits.length
    ? `${hits.length} section${hits.length > 1 ? "s" : ""}` + (hits.length > MOST_SHOWN ? `, the first ${MOST_SHOWN}:` : ":")
    : "Nothing holds all of these words.";
  const list = document.createElement("ol");
  for (const [, entry] of hits.slice(0, MOST_SHOWN)) {
    const item = document.createElement("li");
    const link = document.createElement("a");
    link.href = home + entry.place;
    link.textContent = entry.page === entry.title ? entry.page : `${entry.page}: ${entry.title}`;
    link.addEventListener("click", () => { found.hidden = true; });
    item.append(link, excerpt(entry, words));
    list.append(item);
  }
  found.append(line, list);
}

field.addEventListener("input", show);
show();
