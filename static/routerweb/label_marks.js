// The words that call for the agent that a labeler points at, has the focus on, or has just chosen. They are asked for once an item, and
// never come for a blind one.
import { clear, draw, follow } from "./marks.js";

export class Marks {
  constructor(stage, store, item, address, words) {
    Object.assign(this, { stage, item, address, words, off: store + ".marks-off" });
    follow(stage, (target) => target.closest(".lb-row[data-agent]")?.dataset.agent ?? null, (agent) => this.show(agent));
    this.drawButtons();
  }

  get on() {
    return localStorage.getItem(this.off) !== "1";
  }

  turn() {
    if (this.on) localStorage.setItem(this.off, "1");
    else localStorage.removeItem(this.off);
    this.show(null);
    this.drawButtons();
  }

  drawButtons() {
    document.documentElement.classList.toggle("lb-marking", this.on);
  }

  async show(agent) {
    const form = this.item();
    if (!form) return;
    this.asked = agent;
    const text = form.querySelector(".rw-query-text");
    const line = form.querySelector(".lb-marks");
    clear(text);
    line.textContent = "";
    if (agent === null || !this.on) return;
    form.words ??= fetch(this.address("words")).then((answer) => (answer.ok ? answer.json() : { words: null })).catch(() => ({ words: null }));
    const { words } = await form.words;
    if (!words || this.asked !== agent || form !== this.item()) return;
    const found = draw(text, words[agent] ?? []);
    const name = form.querySelector(`[data-agent="${agent}"] .lb-name`).textContent;
    line.textContent = (found.length ? this.words.calls : this.words.callsNone).replace("%name", name).replace("%words", found.join(", "));
  }
}
