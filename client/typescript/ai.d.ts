import type { LanguageModel } from "ai";
import type { Client, Message, RouteOptions } from "./index.js";

/** A language model as the AI SDK's providers make it, not its name. */
export type Model = Exclude<LanguageModel, string>;

/** A prompt of the AI SDK as the API takes it, up to the user's last words. Throws where the user said nothing. */
export function conversation(prompt: readonly { role: string; content: unknown }[]): Message[];

/** A language model that is the model of whichever agent the conversation needs; `models` are by the agents' keys. */
export function modelByRouter(
  client: Client,
  models: Record<string, Model>,
  options?: RouteOptions & { otherwise?: Model },
): Model;
