import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before, test } from "node:test";

import { Client, Refused, Unreachable } from "../index.js";

const ANSWER = { agents: [0], agent_keys: ["billing"], agent_names: ["Billing"], decision_id: "d", confidence: 0.9, scores: { 0: 0.9 } };
const seen = [];
let replies = [];
let server;
let address;

before(async () => {
  server = createServer(async (request, response) => {
    let sent = "";
    for await (const part of request) sent += part;
    seen.push({ method: request.method, url: request.url, key: request.headers.authorization, body: sent && JSON.parse(sent) });
    const [status, content, headers = {}] = replies.shift() ?? [200, ANSWER];
    response.writeHead(status, { "Content-Type": "application/json", ...headers });
    response.end(typeof content === "string" ? content : JSON.stringify(content));
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  address = `http://127.0.0.1:${server.address().port}/`;
});
after(() => server.close());

const client = (options) => new Client(address, "rw_key", { pool: "support", ...options });

test("a text and a conversation are routed", async () => {
  const answer = await client().route("I was charged twice", { only: ["billing"] });
  assert.deepEqual(answer.agent_keys, ["billing"]);
  const { url, key, body } = seen.at(-1);
  assert.deepEqual([url, key], ["/api/route/", "Bearer rw_key"]);
  assert.deepEqual(body, { pool: "support", only: ["billing"], query: "I was charged twice" });
  await client().route([{ role: "user", content: "hello" }]);
  assert.deepEqual(seen.at(-1).body.messages, [{ role: "user", content: "hello" }]);
});

test("many queries, an outcome, the agents", async () => {
  replies = [[200, { results: [ANSWER, ANSWER] }], [200, {}], [200, { agents: [{ id: 0, name: "Billing" }] }]];
  assert.equal((await client().routeBatch(["one", [{ role: "user", content: "two" }]])).length, 2);
  assert.deepEqual(seen.at(-1).body.queries, ["one", { messages: [{ role: "user", content: "two" }] }]);
  await client().report("d", false, { rating: 2 });
  assert.deepEqual(seen.at(-1).body, { pool: "support", decision_id: "d", success: false, rating: 2 });
  replies.unshift([200, {}]);
  await client().report("d", true, { pool: "sales" });
  assert.equal(seen.at(-1).body.pool, "sales");
  assert.equal((await client().agents())[0].name, "Billing");
  assert.equal(seen.at(-1).url, "/api/agents/?pool=support");
});

test("a redirect gets neither key nor query", async () => {
  const elsewhere = [];
  const other = createServer((request, response) => {
    elsewhere.push(request.url);
    response.end(JSON.stringify(ANSWER));
  });
  await new Promise((done) => other.listen(0, "127.0.0.1", done));
  try {
    for (const status of [302, 307, 308]) {
      replies = [[status, ANSWER, { Location: `http://127.0.0.1:${other.address().port}/api/route/` }]];
      await assert.rejects(client().route("x"), (error) => error instanceof Refused && error.status === status);
    }
    assert.deepEqual(elsewhere, []);
  } finally {
    other.closeAllConnections();
    other.close();
  }
});

test("a refusal says why, and is not tried again", async () => {
  replies = [[422, { error: { code: "unknown_field", message: "no such field.", field: "x", hint: "Leave it out." } }]];
  const calls = seen.length;
  await assert.rejects(client().route("x"), (error) => {
    assert.ok(error instanceof Refused);
    assert.deepEqual([error.status, error.code, error.field], [422, "unknown_field", "x"]);
    return error.message === "no such field. Leave it out.";
  });
  assert.equal(seen.length, calls + 1);
  replies = [[200, "<html>"]];
  await assert.rejects(client().route("x"), /not JSON/);
});

test("a busy server is asked again, and a server that is away is unreachable", async () => {
  replies = [[503, {}, { "Retry-After": "0.01" }]];
  assert.equal((await client().route("x")).decision_id, "d");
  replies = [[503, {}], [503, {}], [503, {}]];
  await assert.rejects(client().route("x"), Unreachable);
  replies = [[503, {}, { "Retry-After": "60" }]];
  await assert.rejects(client().route("x"), Unreachable);
  const away = new Client("http://127.0.0.1:9", "k", { retries: 0 }).route("x");
  await assert.rejects(away, (error) => error instanceof Unreachable && !error.message.includes("fetch failed"));
});
