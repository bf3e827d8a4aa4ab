// OpenAI's client for Node against our server. Run by run.sh, which brings the client and says where server and models are.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";
import OpenAI from "openai";

const KEY = "sesame";
const GOLDEN = process.env.QUERN_GOLDEN;
const MESSAGES = [{ role: "user", content: "the tide" }];
const GREEDY = { model: "llama", messages: MESSAGES, temperature: 0, max_tokens: 8 };
const WEATHER = {
  type: "object", properties: { city: { const: "Paris" }, days: { const: 3 } }, required: ["city", "days"], additionalProperties: false,
};
const PARIS = { city: "Paris", days: 3 };
let server, home, client;

before(async () => {
  home = mkdtempSync(join(tmpdir(), "quern-"));
  server = spawn(process.env.QUERN_BINARY, ["serve", join(GOLDEN, "models/llama"), join(GOLDEN, "models/bert"), "-t", "1", "--port", "0"], {
    env: { ...process.env, QUERN_API_KEY: KEY, QUERN_HOME: home },
    stdio: ["ignore", "ignore", "pipe"],
  });
  let url;
  for await (const line of createInterface({ input: server.stderr })) {
    url = line.match(/listening on (http:\S+)/)?.[1];
    if (url) break;
  }
  assert.ok(url, "the server did not start");
  server.stderr.resume();
  client = new OpenAI({ baseURL: `${url}/v1`, apiKey: KEY, maxRetries: 0 });
});

after(async () => {
  const ended = new Promise((resolve) => server.once("exit", resolve));
  server.kill("SIGTERM");
  assert.equal(await ended, 0);
  rmSync(home, { recursive: true });
});

test("chat, whole and streamed", async () => {
  const whole = await client.chat.completions.create(GREEDY);
  const stream = await client.chat.completions.create({ ...GREEDY, stream: true, stream_options: { include_usage: true } });
  let text = "", usage;
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta.content ?? "";
    usage = chunk.usage ?? usage;
  }
  assert.equal(text, whole.choices[0].message.content);
  assert.deepEqual(usage, whole.usage && { ...whole.usage, prompt_tokens_details: usage.prompt_tokens_details });
  const several = await client.chat.completions.create({ ...GREEDY, n: 3, seed: 5, temperature: 1 });
  assert.deepEqual(several.choices.map((c) => c.index), [0, 1, 2]);
});

test("a stream that is broken off", async () => {
  const stream = await client.chat.completions.create({ ...GREEDY, max_tokens: 400, stream: true });
  for await (const chunk of stream) {
    assert.equal(chunk.object, "chat.completion.chunk");
    break;
  }
  assert.ok((await client.models.list()).data.length === 2);
});

test("completions and models", async () => {
  const answer = await client.completions.create({ model: "llama", prompt: ["the", "mill"], max_tokens: 3 });
  assert.equal(answer.choices.length, 2);
  assert.equal((await client.models.retrieve("bert")).id, "bert");
});

test("tools, whole and streamed by the client's own reader", async () => {
  const body = {
    ...GREEDY, max_tokens: 200, parallel_tool_calls: false, tool_choice: "required",
    tools: [{ type: "function", function: { name: "get_weather", parameters: WEATHER } }],
  };
  const whole = await client.chat.completions.create(body);
  const streamed = await client.chat.completions.stream(body).finalChatCompletion();
  for (const answer of [whole, streamed]) {
    assert.equal(answer.choices[0].finish_reason, "tool_calls");
    const [call] = answer.choices[0].message.tool_calls;
    assert.equal(call.function.name, "get_weather");
    assert.deepEqual(JSON.parse(call.function.arguments), PARIS);
  }
  const { message } = whole.choices[0];
  const history = [...MESSAGES, message, { role: "tool", tool_call_id: message.tool_calls[0].id, content: "21" }];
  const next = await client.chat.completions.create({ ...GREEDY, messages: history, tools: body.tools, tool_choice: "none" });
  assert.equal(next.choices[0].message.role, "assistant");
});

test("structured output", async () => {
  const response_format = { type: "json_schema", json_schema: { name: "weather", schema: WEATHER, strict: true } };
  const answer = await client.chat.completions.parse({ ...GREEDY, max_tokens: 200, response_format });
  assert.deepEqual(answer.choices[0].message.parsed, PARIS);
});

test("embeddings, base64 by default", async () => {
  const input = ["grain", "flour"];
  const packed = await client.embeddings.create({ model: "bert", input });
  const plain = await client.embeddings.create({ model: "bert", input, encoding_format: "float" });
  for (const [i, { embedding }] of packed.data.entries()) {
    assert.deepEqual(Float32Array.from(embedding), Float32Array.from(plain.data[i].embedding));
  }
  const half = plain.data[0].embedding.length / 2;
  const cut = await client.embeddings.create({ model: "bert", input, dimensions: half });
  const norm = Math.hypot(...cut.data[0].embedding);
  assert.equal(cut.data[0].embedding.length, half);
  assert.ok(Math.abs(norm - 1) < 1e-5);
});

test("responses", async () => {
  const body = { model: "llama", input: "the tide", temperature: 0, max_output_tokens: 8 };
  const first = await client.responses.create(body);
  assert.ok(first.output_text);
  const stream = client.responses.stream(body);
  let text = "";
  for await (const event of stream) if (event.type === "response.output_text.delta") text += event.delta;
  assert.equal(text, first.output_text);
  assert.equal((await stream.finalResponse()).output_text, first.output_text);
  const second = await client.responses.create({ ...body, input: "more", previous_response_id: first.id });
  assert.equal((await client.responses.retrieve(second.id)).id, second.id);
  await client.responses.delete(first.id);
  await assert.rejects(client.responses.retrieve(first.id), OpenAI.NotFoundError);
});

test("errors", async () => {
  await assert.rejects(client.chat.completions.create({ ...GREEDY, model: "gpt" }), (error) =>
    error instanceof OpenAI.NotFoundError && error.code === "model_not_found");
  await assert.rejects(client.chat.completions.create({ ...GREEDY, temperature: -1 }), (error) =>
    error instanceof OpenAI.BadRequestError && error.param === "temperature");
  const other = new OpenAI({ baseURL: client.baseURL, apiKey: "no", maxRetries: 0 });
  await assert.rejects(other.models.list(), OpenAI.AuthenticationError);
});
