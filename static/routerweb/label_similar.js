// Similar queries that wait, in a dialog of the item: what is ticked gets the item's answer, with its submit. How many there are is asked
// once an item; leases are taken when the dialog opens, and those on what stays unticked end with the submit or when nothing is ticked.
import { chosen, drawChosen, inWords, suggestion, waitsForOneKey } from "./label_form.js";

export class Similar {
  // `item()`: the form on screen; `ahead()`: queries that this tab holds anyway; `send()` submits the item; `post(query, fields)` takes
  // leases on its similar queries, or ends those in `let_go`.
  constructor({ item, ahead, send, post, at, words }) {
    Object.assign(this, { item, ahead, send, post, at, words });
    document.addEventListener("click", (event) => {
      const button = event.target.closest("[data-similar]");
      if (button) this[button.dataset.similar]();
    });
    document.addEventListener("change", (event) => event.target.name === "similar" && this.draw());
  }

  link(form) {
    return form.querySelector(".lb-similar-link");
  }

  // Called when an item comes on screen: the link appears once it is known that some wait.
  async look() {
    const form = this.item();
    const link = form && this.link(form);
    if (!link || form.querySelector("section.lb-similar")) return;
    if (form.alike === undefined) {
      link.hidden = true;
      form.alike = await fetch(`${this.at}${form.dataset.query}/similar/`, { headers: { Accept: "application/json" } })
        .then((answer) => answer.json()).catch(() => ({ count: 0 }));
    }
    const { count } = form.alike;
    const text = link.querySelector("[data-many]");
    text.textContent = (count === 1 ? text.dataset.one : text.dataset.many).replace("%n", count);
    link.hidden = !count;
  }

  async open() {
    const form = this.item();
    if (!form || !form.alike?.count) return;
    let dialog = this.dialog(form);
    if (!dialog) {
      const reply = await this.post(form.dataset.query, {}).catch(() => null);
      if (!reply || form !== this.item()) return;
      form.alike = { ...form.alike, count: reply.count, taken: reply.queries.map(String) };
      dialog = Object.assign(document.createElement("dialog"), { className: "lb-dialog lb-similar", innerHTML: reply.html });
      dialog.setAttribute("aria-labelledby", "lb-similar-title");
      dialog.addEventListener("close", () => this.closed(form));
      form.append(dialog);
    }
    if (dialog.open) return;
    dialog.showModal();
    (dialog.querySelector('[name="similar"]') ?? dialog.querySelector("button")).focus();
    this.draw();
  }

  dialog(form) {
    return form?.querySelector("dialog.lb-similar");
  }

  boxes(form = this.item()) {
    return [...(form?.querySelectorAll('[name="similar"]') ?? [])];
  }

  ticked(form = this.item()) {
    return this.boxes(form).filter((box) => box.checked).map((box) => box.value);
  }

  // Queries that this item's dialog holds, for the next items not to be among them.
  held(form = this.item()) {
    return form?.alike?.taken ?? [];
  }

  // The fields of the submit: what is ticked, and whose leases end because it is not.
  fields(form) {
    const ticked = this.ticked(form);
    return [...ticked.map((query) => ["similar", query]), ["let_go", this.held(form).filter((query) => !ticked.includes(query) && !this.ahead().includes(query)).join(",")]].filter(([, value]) => value);
  }

  tick(place) {
    const box = this.boxes()[place];
    if (!box) return;
    box.checked = !box.checked;
    box.focus();
    this.draw();
  }

  all() {
    const boxes = this.boxes();
    const every = boxes.every((box) => box.checked);
    for (const box of boxes) box.checked = !every;
    this.draw();
  }

  draw() {
    const form = this.item();
    const dialog = this.dialog(form);
    const count = this.ticked().length;
    const link = form && this.link(form);
    link?.classList.toggle("lb-similar-some", count > 0);
    const send = dialog?.querySelector('[data-similar="submit"] > span');
    if (!send) return;
    send.textContent = count ? this.words.submitMany.replace("%n", count + 1) : this.words.submitOne;
    const { agents, none } = waitsForOneKey(form) ? suggestion(form) : chosen(form);
    dialog.querySelector("[data-answer]").textContent = inWords({ required: agents, none }, form, this.words);
    drawChosen(form, this.words);
  }

  submit() {
    this.dialog(this.item())?.close();
    this.send();
  }

  close() {
    this.dialog(this.item())?.close();
  }

  closed(form) {
    if (form === this.item() && !this.ticked(form).length) this.release(form);
  }

  // Nothing gets this item's answer: others may have what was looked at.
  release(form) {
    const free = this.held(form).filter((query) => !this.ahead().includes(query));
    this.dialog(form)?.remove();
    if (form.alike) delete form.alike.taken;
    if (free.length) this.post(form.dataset.query, { let_go: free.join(",") }).catch(() => {});
  }
}
