// A search box that hides what does not fit: `data-rw-finds` names the parts that it looks through. Folds open while something is sought.
"use strict";

(() => {
  const search = document.querySelector("[data-rw-finds]");
  if (!search) return;
  const parts = [...document.querySelectorAll(search.dataset.rwFinds)].filter((part) => !part.contains(search));
  const folds = [...new Set(parts.map((part) => part.closest("details")))].filter((fold) => fold && !fold.contains(search));
  const open = new Map(folds.map((fold) => [fold, fold.open]));
  search.addEventListener("input", (event) => {
    event.stopPropagation();
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const part of parts) part.hidden = !words.every((word) => part.textContent.toLowerCase().replaceAll("_", " ").includes(word));
    for (const fold of folds) {
      fold.open = words.length ? true : open.get(fold);
      fold.hidden = words.length > 0 && !parts.some((part) => fold.contains(part) && !part.hidden);
    }
    const nothing = document.querySelector("[data-rw-nothing]");
    if (nothing) nothing.hidden = parts.some((part) => !part.hidden);
  });
  search.addEventListener("change", (event) => event.stopPropagation());
  search.addEventListener("keydown", (event) => event.key === "Enter" && event.preventDefault());
})();
