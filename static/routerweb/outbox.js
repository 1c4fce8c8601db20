// What was done in the browser and has not reached the server yet. Every entry stands under a key of its own in the local storage,
// so that nothing is lost by a reload, a crash or another tab; it is sent in order, and again until the server has answered.
// Sending twice is harmless: the server knows each entry by its key. Each tab sends what it has added, for it alone can ask its person
// what to do about a conflict; what a closed or crashed tab has left behind is sent by whichever tab finds it.

const FIRST_WAIT = 700;
const LONGEST_WAIT = 15000;
const ANSWER_WITHIN = 10000;
const SIGN_OF_LIFE = 20000;
const TAKEN_FOR_DEAD = 90000; // browsers slow the timers of hidden tabs down to one a minute

export class Outbox {
  // `answer(entry, status, body)` is told of every entry that the server has answered; `changed(state, waiting)` of every change:
  // "saved", "saving", "retrying" or "signed-out". `session.headers()` go with each request, and `session.renew()` says after a refusal
  // whether there is a new one.
  constructor(prefix, session, answer, changed) {
    Object.assign(this, { prefix: prefix + ".out.", session, answer, changed });
    this.wait = FIRST_WAIT;
    this.sending = null;
    this.timer = 0;
    for (const kind of ["online", "focus"]) addEventListener(kind, () => this.flush());
    this.owner = Math.random().toString(36).slice(2, 10) + Date.now().toString(36);
    this.life = prefix + ".tab.";
    const live = () => localStorage.setItem(this.life + this.owner, String(Date.now()));
    live();
    for (const key of Object.keys(localStorage)) if (key.startsWith(this.life) && this.dead(key)) localStorage.removeItem(key);
    setInterval(live, SIGN_OF_LIFE);
    addEventListener("pageshow", live);
    addEventListener("pagehide", () => localStorage.removeItem(this.life + this.owner));
    addEventListener("storage", (event) => event.key?.startsWith(this.life) && !event.newValue && this.flush());
  }

  // What this tab has to send, oldest first: its own, and what dead tabs have left.
  own() {
    return this.entries().filter((entry) => entry.owner === this.owner || this.dead(this.life + entry.owner));
  }

  dead(sign) {
    return Date.now() - Number(localStorage.getItem(sign) ?? 0) > TAKEN_FOR_DEAD;
  }

  // The entries of all tabs, oldest first.
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
    localStorage.setItem(at, JSON.stringify({ ...entry, owner: this.owner }));
    this.flush();
  }

  // Take back entries that have not been sent; returns how many. What is on its way stays.
  drop(matches) {
    const gone = this.own().filter((entry) => matches(entry) && entry.at !== this.sending);
    for (const entry of gone) localStorage.removeItem(entry.at);
    return gone.length;
  }

  async flush() {
    clearTimeout(this.timer);
    if (this.sending) return;
    const entry = this.own()[0];
    if (!entry) return this.changed("saved", 0);
    this.sending = entry.at;
    this.changed(this.wait > FIRST_WAIT ? "retrying" : "saving", this.own().length);
    let status = 0;
    let body = {};
    try {
      const response = await fetch(entry.url, {
        method: "POST",
        body: new URLSearchParams(entry.body),
        headers: this.session.headers(),
        redirect: "manual",
        signal: AbortSignal.timeout(ANSWER_WITHIN),
      });
      status = response.type === "opaqueredirect" ? 401 : response.status;
      body = await response.json().catch(() => ({}));
    } catch {
      status = 0; // no answer: dropped, timed out, offline
    }
    const signedOut = status === 401 || status === 403;
    const again = signedOut && (await this.session.renew());
    this.sending = null;
    if (status === 0 || status >= 500 || status === 429 || signedOut) {
      this.changed(signedOut && !again ? "signed-out" : "retrying", this.own().length);
      this.timer = setTimeout(() => this.flush(), again ? FIRST_WAIT : this.wait);
      this.wait = Math.min(this.wait * 2, LONGEST_WAIT);
      return;
    }
    localStorage.removeItem(entry.at);
    this.wait = FIRST_WAIT;
    this.answer(entry, status, body);
    this.flush();
  }
}
