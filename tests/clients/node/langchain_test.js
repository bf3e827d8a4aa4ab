// LangChain for JavaScript, which n8n's nodes OpenAI Chat Model and Embeddings OpenAI are made of, against our server. Run
// by run.sh, which brings it and says where server and models are.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";
import { ChatOpenAI, OpenAIEmbeddings } from "@langchain/openai";

const KEY = "sesame";
const GOLDEN = process.env.QUERN_GOLDEN;
const WEATHER = {
  title: "Weather", type: "object", properties: { city: { const: "Paris" } }, required: ["city"], additionalProperties: false,
};
let server, settings;

before(async () => {
  const models = [join(GOLDEN, "models/llama"), join(GOLDEN, "models/bert")];
  server = spawn(process.env.QUERN_BINARY, ["serve", ...models, "-t", "1", "--port", "0", "--store", ":memory:"], {
    env: { ...process.env, QUERN_API_KEY: KEY },
    stdio: ["ignore", "ignore", "pipe"],
  });
  let url;
  for await (const line of createInterface({ input: server.stderr })) {
    url = line.match(/listening on (http:\S+)/)?.[1];
    if (url) break;
  }
  assert.ok(url, "the server did not start");
  server.stderr.resume();
  settings = { apiKey: KEY, maxRetries: 0, configuration: { baseURL: `${url}/v1` } };
});

after(async () => {
  const ended = new Promise((resolve) => server.once("exit", resolve));
  server.kill("SIGTERM");
  assert.equal(await ended, 0);
});

// As n8n's node sets it up: its options' defaults, the model by id.
function chat(more) {
  return new ChatOpenAI({
    ...settings, model: "llama", temperature: 0, topP: 1, frequencyPenalty: 0, presencePenalty: 0, maxTokens: 8, timeout: 60000, ...more,
  });
}

for (const useResponsesApi of [false, true]) {
  test(`chat, whole and streamed, useResponsesApi: ${useResponsesApi}`, async () => {
    const model = chat({ useResponsesApi });
    const whole = await model.invoke("the tide");
    assert.ok(whole.text.length > 0);
    let streamed = "";
    for await (const part of await model.stream("the tide")) streamed += part.text;
    assert.equal(streamed, whole.text);
    assert.ok(whole.usage_metadata.output_tokens > 0);
  });
}

test("structured output", async () => {
  const answer = await chat({ maxTokens: 64 }).withStructuredOutput(WEATHER, { method: "jsonSchema" }).invoke("Paris");
  assert.deepEqual(answer, { city: "Paris" });
});

test("a tool that must be called", async () => {
  const tool = { type: "function", function: { name: "weather", parameters: WEATHER } };
  const answer = await chat({ maxTokens: 64 }).bindTools([tool], { tool_choice: "weather" }).invoke("Paris");
  assert.equal(answer.tool_calls[0].name, "weather");
  assert.deepEqual(answer.tool_calls[0].args, { city: "Paris" });
});

test("embeddings", async () => {
  const embeddings = new OpenAIEmbeddings({ ...settings, model: "bert" });
  const vectors = await embeddings.embedDocuments(["grain", "flour"]);
  assert.equal(vectors.length, 2);
  assert.ok(vectors[0].every(Number.isFinite));
});
