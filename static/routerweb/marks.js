// Marks the words of a text that speak for an agent while its row or chip is pointed at or has the focus.

// Where the words of a text stand: its text nodes, each with the place at which it begins.
function nodes(text) {
  const walker = document.createTreeWalker(text, NodeFilter.SHOW_TEXT);
  const found = [];
  let at = 0;
  while (walker.nextNode()) {
    found.push([walker.currentNode, at]);
    at += walker.currentNode.length;
  }
  return found;
}

export function clear(text) {
  for (const mark of text.querySelectorAll("mark.rw-speaks")) mark.replaceWith(...mark.childNodes);
  text.normalize();
}

// `marks` are [start, end, strength]; returns the words. Backwards, so that places before a split stay.
export function draw(text, marks) {
  clear(text);
  const words = marks.map(([start, end]) => text.textContent.slice(start, end));
  for (const [start, end, strength] of [...marks].reverse()) {
    for (const [node, at] of nodes(text).reverse()) {
      const from = Math.max(start - at, 0);
      const to = Math.min(end - at, node.length);
      if (from >= to) continue;
      const part = node.splitText(from);
      part.splitText(to - from);
      const mark = Object.assign(document.createElement("mark"), { className: "rw-speaks" });
      mark.dataset.strength = strength;
      part.replaceWith(mark);
      mark.append(part);
    }
  }
  return words;
}

// Calls `show` with the agent that is pointed at or has the focus within `area`, null where none is. The focus outlasts the pointer.
export function follow(area, agentOf, show) {
  let pointed = null;
  let focused = null;
  let shown;
  const tell = () => {
    const agent = pointed ?? focused;
    if (agent !== shown) show((shown = agent));
  };
  area.addEventListener("pointerover", (event) => ((pointed = agentOf(event.target)), tell()));
  area.addEventListener("pointerleave", () => ((pointed = null), tell()));
  area.addEventListener("focusin", (event) => ((focused = event.target.matches(":focus-visible") ? agentOf(event.target) : null), tell()));
  area.addEventListener("focusout", () => ((focused = null), tell()));
}

// A page whose text stands still: a decision's, and the playground's, where each answer brings its marks.
function begin() {
  const data = document.getElementById("rw-marks");
  const text = document.querySelector("[data-marked-text]");
  if (!data || !text || data.dataset.begun) return;
  data.dataset.begun = "";
  const { words, names } = JSON.parse(data.textContent);
  const line = document.getElementById("rw-marks-said");
  const idle = line.textContent;
  const agentOf = (target) => target.closest(".rw-pick:not(.rw-pick-none)")?.value ?? null;
  function show(agent) {
    if (agent === null) {
      clear(text);
      line.textContent = idle;
      return;
    }
    const found = draw(text, words[agent] ?? []);
    line.textContent = (found.length ? line.dataset.said : line.dataset.none).replace("%name", names[agent] ?? "").replace("%words", found.join(", "));
  }
  for (const area of document.querySelectorAll("[data-marks-by]")) follow(area, agentOf, show);
}

begin();
document.addEventListener("htmx:afterSettle", begin);
