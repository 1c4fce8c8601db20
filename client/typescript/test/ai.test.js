import assert from "node:assert/strict";
import { test } from "node:test";

import { conversation, modelByRouter } from "../ai.js";

const sdk = await import("ai").catch(() => null);
const mocks = sdk && (await import("ai/test"));
const SKIP = sdk ? false : "The AI SDK is not installed: npm install ai";
if (!sdk && process.env.REQUIRE_ADAPTERS === "1") throw new Error(SKIP);

const USAGE = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };
const FINISH = { unified: "stop", raw: "stop" };
const asked = [];
const reports = [];
const client = {
  pool: "support",
  route: async (messages, options) => {
    asked.push({ messages, options });
    const keys = options.only.filter((key) => messages.at(-1).content.includes(key));
    return { agent_keys: keys, decision_id: keys.length ? "d" : null };
  },
  report: async (id, success) => reports.push(success),
};
const model = (name) =>
  new mocks.MockLanguageModelV3({
    doGenerate: async ({ prompt }) => {
      if (JSON.stringify(prompt).includes("explode")) throw new Error("it broke");
      return { content: [{ type: "text", text: `${name} here` }], finishReason: FINISH, usage: USAGE, warnings: [] };
    },
    doStream: async () => ({
      stream: sdk.simulateReadableStream({
        chunks: [
          { type: "text-start", id: "1" },
          { type: "text-delta", id: "1", delta: `${name} here` },
          { type: "text-end", id: "1" },
          { type: "finish", finishReason: FINISH, usage: USAGE },
        ],
      }),
    }),
  });
const models = () => ({ billing: model("billing"), shipping: model("shipping") });
const outcomes = () => reports.splice(0);

test("a prompt becomes a conversation up to the user's last words", () => {
  const prompt = [
    { role: "system", content: "be kind" },
    { role: "user", content: [{ type: "text", text: "hello" }, { type: "file", data: "x" }] },
    { role: "assistant", content: [{ type: "text", text: "Yes?" }] },
  ];
  assert.deepEqual(conversation(prompt), [{ role: "system", content: "be kind" }, { role: "user", content: "hello" }]);
  assert.throws(() => conversation([{ role: "system", content: "x" }]), /no message of the user/);
});

test("the model of the agent in charge answers, and the outcome is reported", { skip: SKIP }, async () => {
  const routed = modelByRouter(client, models(), { otherwise: model("talk"), max_agents: 1 });
  assert.equal((await sdk.generateText({ model: routed, prompt: "a shipping matter" })).text, "shipping here");
  assert.deepEqual(outcomes(), [true]);
  assert.deepEqual(asked.at(-1).options, { only: ["billing", "shipping"], max_agents: 1 });
  assert.equal((await sdk.generateText({ model: routed, prompt: "hello" })).text, "talk here");
  assert.deepEqual(outcomes(), []);
  await assert.rejects(sdk.generateText({ model: routed, prompt: "billing, explode", maxRetries: 0 }), /it broke/);
  assert.deepEqual(outcomes(), [false]);
  await assert.rejects(sdk.generateText({ model: modelByRouter(client, models()), prompt: "hello", maxRetries: 0 }), /none of these/);
});

test("it streams", { skip: SKIP }, async () => {
  const { textStream } = sdk.streamText({ model: modelByRouter(client, models()), prompt: "billing" });
  let text = "";
  for await (const part of textStream) text += part;
  assert.equal(text, "billing here");
  assert.deepEqual(outcomes(), [true]);
});
