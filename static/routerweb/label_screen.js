// What keeps the labeling page in view, and what it says while the connection is away.

// The query, what is chosen and None stay on screen: the item is as high as the window leaves, and only the agents scroll in it.
export function fitScreen(root, stage) {
  const fit = () => root.style.setProperty("--lb-top", `${Math.round(stage.getBoundingClientRect().top + scrollY)}px`);
  addEventListener("resize", fit);
  new ResizeObserver(fit).observe(document.querySelector(".rw-header"));
  fit();
}

// A form that a word in the header unfolds: Escape or a press elsewhere folds it again.
export function foldsAgain(details) {
  details?.addEventListener("keydown", (event) => {
    if (event.code !== "Escape") return;
    details.open = false;
    details.querySelector("summary").focus();
  });
  document.addEventListener("click", (event) => details && !details.contains(event.target) && (details.open = false));
}

// In plain sight, above the query: how many answers wait for the connection, and how many more queries are here until then.
export function drawWaiting(note, away, answers, ahead, words) {
  note.hidden = !away;
  if (!away) return;
  const told = answers === 1 ? words.waitsOne : answers ? words.waits.replace("%n", answers) : `${words.retrying}.`;
  const more = ahead === 1 ? words.moreOne : ahead ? words.more.replace("%n", ahead) : words.noMore;
  note.textContent = `${told} ${more}`;
}

// Where one signs in again: in another tab, as this one keeps what is not sent.
export function drawSignedOut(line, told, words) {
  if (line.textContent === told) return; // who is about to click the link keeps it
  const link = Object.assign(document.createElement("a"), { href: words.signIn, target: "_blank", textContent: told });
  line.replaceChildren(link);
}

// Today's goal: a bar and a number that this person sets; `today` is how many are done, where it has just changed.
export function drawGoal(store, words, today) {
  const bar = document.getElementById("lb-goal-bar");
  const input = document.getElementById("lb-goal");
  if (document.activeElement !== input) input.value = localStorage.getItem(store + ".goal") ?? input.defaultValue;
  const goal = Math.max(1, Number(input.value) || 1);
  if (today !== undefined) bar.dataset.today = String(today);
  const done = Number(bar.dataset.today);
  bar.max = goal;
  bar.value = Math.min(done, goal);
  document.getElementById("lb-goal-said").textContent = words.goal.replace("%done", done).replace("%goal", goal) + (done >= goal ? " ✓" : "");
}
