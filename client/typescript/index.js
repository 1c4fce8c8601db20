/** Asks a Routerweb server which agents a query needs. Needs nothing but fetch: Node 18, Deno, Bun, browsers, edge workers. */

/** Answers that say the server cannot just now, and may a moment later. */
const BUSY = new Set([429, 502, 503, 504]);

/** The server refused the call: `status`, `code` for programs, `field` says where, `hint` what to do. */
export class Refused extends Error {
  constructor(status, { code = "", message = "", field = "", hint = "" } = {}) {
    super(`${message} ${hint}`.trim() || `The server answered ${status}.`);
    Object.assign(this, { name: "Refused", status, code, field, hint });
  }
}

/** Nobody answered in time, as often as was tried. */
export class Unreachable extends Error {
  name = "Unreachable";
}

const body = (query) => (typeof query === "string" ? { query } : { messages: query });
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

/** `key` opens the API; `pool` may be left out where the key opens one; `timeout` is in seconds, for a call with all its tries. */
export class Client {
  constructor(baseUrl, key, { pool, timeout = 5, retries = 2, fetch = globalThis.fetch } = {}) {
    Object.assign(this, { baseUrl: baseUrl.replace(/\/+$/, ""), key, pool, timeout, retries, fetch });
  }

  /** The agents that a text, or the last message of a conversation, needs. */
  route(query, options = {}) {
    return this.call("POST", "/route/", { pool: this.pool, ...options, ...body(query) });
  }

  /** The answers to many queries of one pool, in their order. */
  async routeBatch(queries, options = {}) {
    const asked = queries.map((query) => (typeof query === "string" ? query : body(query)));
    return (await this.call("POST", "/route/batch/", { pool: this.pool, ...options, queries: asked })).results;
  }

  /** What became of an answer; `more` is `rating`, `comment`, `agents_used`, `served`, and `pool` where it is not the client's own. */
  async report(decisionId, success, more = {}) {
    await this.call("POST", "/outcomes/", { pool: this.pool, decision_id: decisionId, success, ...more });
  }

  /** The pool's agents. */
  async agents(pool = this.pool) {
    return (await this.call("GET", "/agents/" + (pool ? `?pool=${encodeURIComponent(pool)}` : ""))).agents;
  }

  /** One call of the API, tried again while the server is busy. Throws Refused and Unreachable. */
  async call(method, path, sent) {
    const end = Date.now() + 1000 * this.timeout;
    for (let tried = 0; ; tried++) {
      const { reply, error } = await this.tried(method, path, sent, end);
      if (reply && !BUSY.has(reply.status)) return read(reply);
      const pause = reply?.headers.get("Retry-After") ? 1000 * Number(reply.headers.get("Retry-After")) : 100 * 2 ** tried;
      if (tried >= this.retries || !(Date.now() + pause < end)) {
        if (reply?.status === 429) return read(reply);
        throw new Unreachable(reply ? `The server answered ${reply.status}.` : `The server did not answer: ${error.cause?.message || error.message}`);
      }
      await sleep(pause);
    }
  }

  async tried(method, path, sent, end) {
    const headers = { Authorization: `Bearer ${this.key}`, ...(sent && { "Content-Type": "application/json" }) };
    const signal = AbortSignal.timeout(Math.max(1, end - Date.now()));
    try {
      const { fetch } = this; // a browser's fetch is not called as a method of another object
      const address = `${this.baseUrl}/api${path}`;
      const reply = await fetch(address, { method, headers, body: sent && JSON.stringify(sent), signal, redirect: "manual" });
      return { reply: { status: reply.status, headers: reply.headers, text: await reply.text() } };
    } catch (error) {
      return { error };
    }
  }
}

function read({ status, text }) {
  if (status < 200 || (status >= 300 && status < 400)) {
    throw new Refused(status, { message: "The server leads to another address, which gets nothing: give the client that one." });
  }
  let content;
  try {
    content = JSON.parse(text);
  } catch {
    throw new Refused(status, { message: "The answer is not JSON: is this the address of a Routerweb server?" });
  }
  if (status >= 400) throw new Refused(status, content.error);
  return content;
}
