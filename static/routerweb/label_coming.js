// The items to come: fetched while one is on screen, as many as the server spares, for when the connection goes.
import { parsed } from "./label_form.js";

// Queries that an entry of the outbox answers or lets go of together with its own.
export const together = (entry) => entry.body.filter(([name]) => ["similar", "let_go"].includes(name)).flatMap(([, value]) => value.split(","));

export class Coming {
  forms = []; // fetched already or put back by undo, nearest first
  #fetching = null;
  #hold = 3;

  // `item()`: the form on screen; `sending()`: the outbox's entries; `held(form)`: queries that a form's dialog holds; `came(reply)` is
  // called with each answer of the server.
  constructor({ at, narrow, session, item, sending, held, came }) {
    Object.assign(this, { at, narrow, session, item, sending, held, came });
  }

  queries() {
    return this.forms.map((one) => one.dataset.query);
  }

  putBack(form) {
    this.forms.unshift(form);
  }

  // The form of that query, which is then no longer to come; undefined where it is not here.
  take(query) {
    const index = this.queries().indexOf(query);
    return index < 0 ? undefined : this.forms.splice(index, 1)[0];
  }

  leaveOut(queries) {
    this.forms = this.forms.filter((one) => !queries.includes(one.dataset.query));
  }

  keep(queries) {
    this.forms = this.forms.filter((one) => queries.includes(one.dataset.query));
  }

  // Fetch the next one, and on until enough are here. The server's answer; undefined where enough are here already.
  fetch() {
    if (this.forms.length >= this.#hold || this.#fetching) return this.#fetching;
    let added = false; // not told by how many are here: the item on screen may leave, and the next take its place, meanwhile
    this.#fetching = this.post(`${this.at}next/${this.narrow}`, { beside: this.#notAgain() })
      .then((item) => {
        this.#hold = item.hold ?? this.#hold;
        const known = this.#here().some((one) => one.dataset.query === String(item.query));
        added = Boolean(item.query) && !known;
        if (added) this.forms.push(parsed(item.html));
        this.came(item);
        return item;
      })
      .finally(() => {
        this.#fetching = null;
        if (this.item() && added) this.fetch();
      });
    this.#fetching.catch((error) => error.signedOut || setTimeout(() => this.item() && this.fetch(), 5000));
    return this.#fetching;
  }

  // The server's answer. Throws an error that says whether the person is signed out.
  async post(url, sent = {}) {
    const response = await fetch(url, {
      method: "POST", headers: this.session.headers(), body: new URLSearchParams(sent), signal: AbortSignal.timeout(10000),
    });
    if (!response.ok || response.redirected) {
      const signedOut = (response.redirected || [401, 403].includes(response.status)) && !(await this.session.renew());
      throw Object.assign(new Error(String(response.status)), { signedOut });
    }
    return response.json();
  }

  #here() {
    return this.item() ? [this.item(), ...this.forms] : this.forms;
  }

  // Keys of queries that must not be given out again: on screen, fetched, or sent and not yet answered.
  #notAgain() {
    const keys = this.sending().filter((entry) => entry.kind !== "undo").flatMap((entry) => [entry.query, ...together(entry)]);
    for (const one of this.#here()) keys.push(one.dataset.query, ...this.held(one));
    return [...new Set(keys.filter(Boolean))].join(",");
  }
}
