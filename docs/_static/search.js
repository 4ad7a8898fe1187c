"use strict";
// Results of the search show text around the words found; formulas there would be raw LaTeX.
document.addEventListener("DOMContentLoaded", () => {
  if (typeof Search === "undefined") return;
  const plain = Search.htmlToText;
  Search.htmlToText = (page, anchor) => {
    const unformed = page.replace(/\\\([\s\S]*?\\\)|\\\[[\s\S]*?\\\]/g, "…");
    return plain.call(Search, unformed, anchor);
  };
});
