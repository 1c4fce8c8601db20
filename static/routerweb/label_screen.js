// What keeps the labeling page in view, and what it says while the connection is away.

// The query, what is chosen and None stay on screen: the item is as high as the window leaves, and only the agents scroll in it.
export function fitScreen(root, stage) {
  const fit = () => root.style.setProperty("--lb-top", `${Math.round(stage.getBoundingClientRect().top + scrollY)}px`);
  addEventListener("resize", fit);
  new ResizeObserver(fit).observe(document.querySelector(".rw-header"));
  fit();
}

// In plain sight, above the query: how many answers wait for the connection, and how many more queries are here until then.
export function drawWaiting(note, away, answers, ahead, words) {
  note.hidden = !away;
  if (!away) return;
  const told = answers === 1 ? words.waitsOne : answers ? words.waits.replace("%n", answers) : `${words.retrying}.`;
  const more = ahead === 1 ? words.moreOne : ahead ? words.more.replace("%n", ahead) : words.noMore;
  note.textContent = `${told} ${more}`;
}
