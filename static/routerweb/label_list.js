// The list beside the task: what was done, the item on screen, what comes; a press goes there. And how far today's goal is.
import { inWords } from "./label_form.js";
import { drawGoal } from "./label_screen.js";

const SHOWN = 10;

export class List {
  #earlier = []; // what the person submitted before this page was loaded, oldest first, as the server lists it

  // `past()`: forms that left this page, `item()`: the one on screen, `coming()`: those to come.
  constructor({ at, store, past, item, coming, words }) {
    Object.assign(this, { at, store, past, item, coming, words });
    this.box = document.getElementById("lb-list");
  }

  turn() {
    const open = this.box.hidden;
    this.box.hidden = !open;
    localStorage.setItem(this.store + ".list", open ? "1" : "0");
    for (const button of document.querySelectorAll('[data-lb="list"][aria-expanded]')) button.setAttribute("aria-expanded", String(open));
    this.draw();
    if (open) this.#read();
  }

  async #read() {
    const answer = await fetch(`${this.at}done/`, { headers: { Accept: "application/json" } }).then((reply) => reply.json()).catch(() => null);
    if (!answer) return;
    this.#earlier = answer.done.map((one) => ({ ...one, query: String(one.query) })).reverse();
    this.draw();
  }

  draw() {
    drawGoal(this.store, this.words);
    if (this.box.hidden) return;
    const item = this.item();
    const here = [...this.past(), ...(item ? [item] : []), ...this.coming()].map((form) => form.dataset.query);
    const done = [...this.#earlier.filter((one) => !here.includes(one.query)).map((one) => [one, "done"]), ...this.past().map((form) => [read(form), "done"])];
    const rows = [...done.slice(-SHOWN), ...(item ? [[read(item), "now"]] : []), ...this.coming().slice(0, SHOWN).map((form) => [read(form), "next"])];
    document.getElementById("lb-list-items").replaceChildren(...rows.map(([one, state]) => this.#row(one, state)));
  }

  // The text's beginning, what was chosen, and where it stands.
  #row({ query, text, choice, form }, state) {
    const button = Object.assign(document.createElement("button"), { type: "button", className: `lb-listed lb-listed-${state}` });
    button.dataset.go = query;
    if (state === "now") button.setAttribute("aria-current", "true");
    button.append(Object.assign(document.createElement("span"), { textContent: text.slice(0, 90) }));
    if (choice) button.append(Object.assign(document.createElement("small"), { textContent: inWords(choice, form, this.words) }));
    const row = document.createElement("li");
    row.append(button);
    return row;
  }
}

// A form as a row of the list; no choice where none was made.
function read(form) {
  const required = [...form.querySelectorAll('[name="agent"]:checked')].map((box) => Number(box.value));
  const none = form.elements.none.checked;
  const text = form.querySelector(".rw-query-text").textContent.trim();
  return { query: form.dataset.query, text, choice: required.length || none ? { required, none } : null, form };
}
