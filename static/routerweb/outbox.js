// What was done in the browser and has not reached the server yet. Every entry stands under a key of its own in the local storage,
// so that nothing is lost by a reload, a crash or another tab; it is sent in order, and again until the server has answered.
// Sending twice is harmless: the server knows each entry by its key.

const FIRST_WAIT = 700;
const LONGEST_WAIT = 15000;
const ANSWER_WITHIN = 10000;

export class Outbox {
  // `answer(entry, status, body)` is told of every entry that the server has answered; `changed(state, waiting)` of every change:
  // "saved", "saving", "retrying" or "signed-out".
  constructor(prefix, csrf, answer, changed) {
    Object.assign(this, { prefix: prefix + ".out.", csrf, answer, changed });
    this.wait = FIRST_WAIT;
    this.sending = null;
    this.timer = 0;
    addEventListener("online", () => this.flush());
  }

  // Entries, oldest first.
  entries() {
    return Object.keys(localStorage)
      .filter((key) => key.startsWith(this.prefix))
      .sort()
      .map((key) => ({ ...JSON.parse(localStorage.getItem(key)), at: key }));
  }

  // `kind`, `query`, `url` and `body` (form fields). A draft takes the place of an unsent draft of the same query.
  add(entry) {
    if (entry.kind === "draft") this.drop((old) => old.kind === "draft" && old.query === entry.query);
    this.count = (this.count ?? 0) + 1; // two entries of one millisecond keep their order too
    const moment = String(Date.now()).padStart(14, "0") + "." + String(this.count).padStart(6, "0");
    const at = this.prefix + moment + "." + Math.random().toString(36).slice(2, 8);
    localStorage.setItem(at, JSON.stringify(entry));
    this.flush();
  }

  // Take back entries that have not been sent; returns how many. What is on its way stays.
  drop(matches) {
    const gone = this.entries().filter((entry) => matches(entry) && entry.at !== this.sending);
    for (const entry of gone) localStorage.removeItem(entry.at);
    return gone.length;
  }

  async flush() {
    clearTimeout(this.timer);
    if (this.sending) return;
    const entry = this.entries()[0];
    if (!entry) return this.changed("saved", 0);
    this.sending = entry.at;
    this.changed(this.wait > FIRST_WAIT ? "retrying" : "saving", this.entries().length);
    let status = 0;
    let body = {};
    try {
      const response = await fetch(entry.url, {
        method: "POST",
        body: new URLSearchParams(entry.body),
        headers: { Accept: "application/json", "X-CSRFToken": this.csrf() },
        redirect: "manual",
        signal: AbortSignal.timeout(ANSWER_WITHIN),
      });
      status = response.type === "opaqueredirect" ? 401 : response.status;
      body = await response.json().catch(() => ({}));
    } catch {
      status = 0; // no answer: dropped, timed out, offline
    }
    this.sending = null;
    if (status === 0 || status >= 500 || status === 429 || status === 401 || status === 403) {
      this.changed(status === 401 || status === 403 ? "signed-out" : "retrying", this.entries().length);
      this.timer = setTimeout(() => this.flush(), this.wait);
      this.wait = Math.min(this.wait * 2, LONGEST_WAIT);
      return;
    }
    localStorage.removeItem(entry.at);
    this.wait = FIRST_WAIT;
    this.answer(entry, status, body);
    this.flush();
  }
}
