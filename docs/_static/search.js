"use strict";
// Below each result of the search: the text around the words found. Pages opened from a disk may
// not fetch each other, so the texts of all pages come as a script, which is loaded here alone.
document.addEventListener("DOMContentLoaded", () => {
  const results = document.getElementById("search-results");
  if (typeof Search === "undefined" || !results) return;
  const query = new URLSearchParams(window.location.search).get("q") || "";
  const words = query.toLowerCase().match(/[\p{Letter}\p{Number}_]+/gu) || [];
  const terms = words.concat(words.map((word) => new Stemmer().stemWord(word)));
  const before = 100, after = 180;

  const place = (text) => {
    for (const term of terms) {
      const start = text.toLowerCase().indexOf(term);
      if (start >= 0) return [start, start + term.length];
    }
    return [0, 0];
  };

  const around = (text, [start, end]) => {
    const first = Math.max(start - before, 0), last = end + after;
    const mark = document.createElement("mark");
    mark.textContent = text.slice(start, end);
    const line = document.createElement("p");
    line.className = "context";
    line.append((first ? "…" : "") + text.slice(first, start), mark);
    line.append(text.slice(end, last) + (last < text.length ? "…" : ""));
    return line;
  };

  const show = (item) => {
    const link = item.querySelector("a[data-score]");
    if (!link || item.querySelector(".context")) return;
    const [page, anchor] = link.getAttribute("href").split("#");
    const parts = window.searchTexts[page.replace(/\.html$/, "")] || {};
    const text = parts[anchor] || Object.values(parts).join(" ");
    if (text) item.append(around(text, place(text)));
  };

  const script = document.createElement("script");
  script.src = document.documentElement.dataset.content_root + "_static/search_texts.js";
  script.onload = () => {
    const all = () => results.querySelectorAll("ul.search > li").forEach(show);
    new MutationObserver(all).observe(results, { childList: true, subtree: true });
    all();
  };
  document.head.append(script);
});
