// A run's page is brought anew every two seconds while it trains: what was unfolded stays so, and the log where it was scrolled to.
"use strict";

(() => {
  let open = [], scrolled = 0;
  const folds = (root) => [...root.querySelectorAll("details")];
  const live = (event) => event.target.id === "run-live";

  document.addEventListener("htmx:beforeSwap", (event) => {
    if (!live(event)) return;
    open = folds(event.target).map((fold) => fold.open);
    scrolled = event.target.querySelector(".rw-log")?.scrollTop ?? 0;
  });
  document.addEventListener("htmx:afterSettle", () => {
    const root = document.getElementById("run-live");
    if (!root || !open.length && !scrolled) return;
    folds(root).forEach((fold, i) => { fold.open = Boolean(open[i]); });
    const log = root.querySelector(".rw-log");
    if (log) log.scrollTop = scrolled;
  });
})();
