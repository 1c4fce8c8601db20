// Compiles, and is not run: the declarations fit the AI SDK's.
import { generateText, type LanguageModel } from "ai";

import { Client, Refused, type Answer } from "../index.js";
import { modelByRouter, type Model } from "../ai.js";

export async function use(billing: Model): Promise<string> {
  const client = new Client("https://routes.example.com", "rw_key", { pool: "support", retries: 1 });
  const answer: Answer = await client.route([{ role: "user", content: "hello" }], { only: ["billing"], max_agents: 1 });
  if (answer.decision_id) await client.report(answer.decision_id, true, { rating: 5 });
  const model: LanguageModel = modelByRouter(client, { billing }, { otherwise: billing });
  try {
    return (await generateText({ model, prompt: "hello" })).text;
  } catch (error) {
    return error instanceof Refused ? error.code : "";
  }
}
