/**
 * A language model of Vercel's AI SDK that is the model of whichever agent the conversation needs.
 *
 *     const model = modelByRouter(client, { billing: billingModel, shipping: shippingModel }, { otherwise: smallTalk });
 *     await generateText({ model, prompt: "I was charged twice" });
 *
 * What became of an answer is reported by itself: a success when the model has answered, a failure when it has not.
 */

const words = ({ content }) =>
  typeof content === "string" ? content : content.filter((part) => part.type === "text").map((part) => part.text).join("\n");

/** A prompt of the AI SDK as the API takes it, up to the user's last words. */
export function conversation(prompt) {
  const turns = prompt.map((message) => ({ role: message.role, content: words(message).trim() })).filter((turn) => turn.content);
  const last = turns.findLastIndex((turn) => turn.role === "user");
  if (last < 0) throw new Error("There is no message of the user's to route.");
  return turns.slice(0, last + 1);
}

/** `models` are by the agents' keys; `otherwise` answers what needs none of them, else that is an Error; other options are a request's. */
export function modelByRouter(client, models, { otherwise, ...options } = {}) {
  const call = async (method, asked) => {
    const answer = await client.route(conversation(asked.prompt), { only: Object.keys(models), ...options });
    const model = models[answer.agent_keys.find((key) => key in models)] ?? otherwise;
    if (!model) throw new Error("The query needs none of these agents, and there is no model for the rest.");
    const report = (success) => answer.decision_id && client.report(answer.decision_id, success).catch(() => {});
    try {
      const result = await model[method](asked);
      if (method === "doGenerate") await report(true);
      return method === "doGenerate" ? result : { ...result, stream: result.stream.pipeThrough(watched(report)) };
    } catch (error) {
      await report(false);
      throw error;
    }
  };
  const [first] = Object.values(models);
  return {
    specificationVersion: first.specificationVersion,
    provider: "routerweb",
    modelId: client.pool ?? "router",
    supportedUrls: {},
    doGenerate: (asked) => call("doGenerate", asked),
    doStream: (asked) => call("doStream", asked),
  };
}

function watched(report) {
  let failed = false;
  return new TransformStream({
    transform(part, controller) {
      failed ||= part.type === "error";
      controller.enqueue(part);
    },
    flush: () => report(!failed),
  });
}
