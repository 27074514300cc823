// The official OpenAI client's Responses and Conversations against the real binary.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import OpenAI from "openai";

import { agentTools } from "./agent.mjs";
import { longText, startKvgate, waitIdle } from "./kvgate.mjs";

let server;
let client;

before(async () => {
  server = await startKvgate();
  client = new OpenAI({ baseURL: server.baseURL, apiKey: "test-key", maxRetries: 0 });
});
after(() => server.stop());

const asked = (name) => ({
  model: "local", instructions: longText(name), input: "Go.", max_output_tokens: 12,
  temperature: 0,
});
const weather = {
  type: "function", name: "weather", strict: true, description: "The weather of a city.",
  parameters: {
    type: "object", properties: { city: { type: "string", maxLength: 8 } }, required: ["city"],
    additionalProperties: false,
  },
};

test("a response is whole, and the second one says how much was cached", async () => {
  const first = await client.responses.create(asked("whole"));
  assert.equal(first.object, "response");
  assert.ok(first.output_text.length > 0);
  assert.ok(["completed", "incomplete"].includes(first.status));
  assert.equal(first.output[0].role, "assistant");
  assert.equal(first.usage.input_tokens_details.cached_tokens, 0);
  const second = await client.responses.create(asked("whole"));
  assert.equal(second.output_text, first.output_text);
  assert.ok(second.usage.input_tokens_details.cached_tokens > 500);
});

test("a stream gives the same text, in events that belong together", async () => {
  const whole = await client.responses.create(asked("stream"));
  let text = "";
  const types = [];
  let last;
  for await (const event of await client.responses.create({ ...asked("stream"), stream: true })) {
    types.push(event.type);
    assert.equal(event.sequence_number, types.length - 1);
    if (event.type === "response.output_text.delta") text += event.delta;
    last = event;
  }
  assert.equal(text, whole.output_text);
  assert.equal(types[0], "response.created");
  assert.equal(last.type, `response.${whole.status}`);
  assert.deepEqual(last.response.output.map((item) => item.content), whole.output.map(
    (item) => item.content));
});

test("the client's own stream helper assembles the final response", async () => {
  const whole = await client.responses.create(asked("helper"));
  const seen = [];
  const stream = client.responses.stream(asked("helper"))
    .on("response.output_text.delta", (event) => seen.push(event.snapshot));
  const final = await stream.finalResponse();
  assert.equal(final.output_text, whole.output_text);
  assert.equal(seen.at(-1), whole.output_text);
});

test("parse gives what the schema asks for", async () => {
  const parsed = await client.responses.parse({
    model: "local", input: "A person, please.", max_output_tokens: 400,
    text: { format: {
      type: "json_schema", name: "person", strict: true,
      schema: {
        type: "object", additionalProperties: false, required: ["age", "kind"],
        properties: { age: { type: "integer", minimum: 0, maximum: 150 },
          kind: { enum: ["red", "green"] } },
      },
    } },
  });
  assert.equal(parsed.status, "completed");
  assert.equal(parsed.text.format.name, "person");
  const person = JSON.parse(parsed.output_text);
  assert.ok(Number.isInteger(person.age) && ["red", "green"].includes(person.kind));
});

test("a response is found by its id, listed, and deleted", async () => {
  const made = await client.responses.create({ model: "local", max_output_tokens: 4, input: [
    { role: "user", content: "one" }, { role: "user", content: "two" }] });
  const found = await client.responses.retrieve(made.id);
  assert.deepEqual(found.output, made.output);
  assert.equal(found.output_text, made.output_text);
  const texts = [];
  for await (const item of client.responses.inputItems.list(made.id, { limit: 1, order: "asc" })) {
    assert.ok(item.id);
    texts.push(item.content[0].text);
  }
  assert.deepEqual(texts, ["one", "two"]);
  const counted = await client.responses.inputTokens.count({ model: "local", input: "one" });
  assert.ok(counted.input_tokens > 0);
  await assert.rejects(client.responses.cancel(made.id), (error) => error.status === 400);
  await client.responses.delete(made.id);
  await assert.rejects(client.responses.retrieve(made.id), OpenAI.NotFoundError);
});

test("a chain of responses holds what was said before", async () => {
  const first = await client.responses.create({ ...asked("chain"), store: true });
  const second = await client.responses.create(
    { ...asked("chain"), input: "And then?", previous_response_id: first.id });
  assert.equal(second.previous_response_id, first.id);
  assert.ok(second.usage.input_tokens > first.usage.input_tokens);
  await assert.rejects(
    client.responses.create({ ...asked("chain"), previous_response_id: "resp_none" }),
    (error) => error.status === 400 && error.code === "previous_response_not_found"
      && error.param === "previous_response_id");
});

test("a loop of two turns with a tool that must be called", async () => {
  for (const stored of [true, false]) {
    const history = [{ role: "user", content: "What is the weather in Rome?" }];
    const common = { model: "local", tools: [weather], max_output_tokens: 300, store: stored };
    const first = await client.responses.stream(
      { ...common, input: history, tool_choice: "required" }).finalResponse();
    const call = first.output.find((item) => item.type === "function_call");
    assert.equal(call.name, "weather");
    assert.ok(call.call_id && call.id);
    assert.deepEqual(Object.keys(JSON.parse(call.arguments)), ["city"]);
    const output = { type: "function_call_output", call_id: call.call_id, output: "sunny" };
    const second = await client.responses.create(stored
      ? { ...common, previous_response_id: first.id, input: [output], tool_choice: "none" }
      : { ...common, input: [...history, ...first.output, output], tool_choice: "none" });
    assert.ok(second.usage.input_tokens > first.usage.input_tokens);
    assert.ok(second.output.every((item) => item.type !== "function_call"));
  }
});

test("ten turns of an agent with twenty tools come from the cache", async () => {
  const tools = agentTools(20).responses;
  let previous;
  for (let turn = 0; turn < 10; ++turn) {
    const response = await client.responses.create({
      model: "local", instructions: "Use the tools.", input: `Step ${turn}.`, tools,
      max_output_tokens: 8, previous_response_id: previous,
    });
    previous = response.id;
    const { input_tokens: all, input_tokens_details: { cached_tokens: cached } } = response.usage;
    if (turn > 0) assert.ok(cached >= 0.95 * all, `turn ${turn}: ${cached} of ${all}`);
  }
});

test("log-probabilities where they are asked for", async () => {
  const response = await client.responses.create({ ...asked("logprobs"), top_logprobs: 2,
    include: ["message.output_text.logprobs"] });
  const part = response.output[0].content[0];
  assert.ok(part.logprobs.length > 0);
  assert.equal(part.logprobs[0].top_logprobs.length, 2);
  assert.ok(part.logprobs.every((token) => token.logprob <= 0));
});

test("conversations are kept, changed and answered in", async () => {
  const made = await client.conversations.create({
    items: [{ type: "message", role: "user", content: "first" }], metadata: { topic: "x" } });
  assert.equal((await client.conversations.retrieve(made.id)).metadata.topic, "x");
  const response = await client.responses.create(
    { model: "local", input: "second", conversation: made.id, max_output_tokens: 4 });
  assert.equal(response.conversation.id, made.id);
  const added = await client.conversations.items.create(made.id,
    { items: [{ type: "message", role: "user", content: "third" }] });
  const texts = [];
  for await (const item of client.conversations.items.list(made.id, { order: "asc", limit: 2 })) {
    texts.push(item.content[0].text);
  }
  assert.deepEqual(texts, ["first", "second", response.output_text, "third"]);
  const { id } = added.data[0];
  assert.equal(
    (await client.conversations.items.retrieve(id, { conversation_id: made.id })).id, id);
  await client.conversations.items.delete(id, { conversation_id: made.id });
  const updated = await client.conversations.update(made.id, { metadata: { topic: "y" } });
  assert.equal(updated.metadata.topic, "y");
  assert.equal((await client.conversations.delete(made.id)).deleted, true);
  await assert.rejects(client.conversations.retrieve(made.id), OpenAI.NotFoundError);
});

const patch = {
  type: "custom", name: "apply_patch", description: "Edits files.",
  format: { type: "grammar", syntax: "lark",
    definition: 'start: "*** Begin" LF line+ "*** End"\n' +
      'line: ("+" | "-") /[a-z "]{1,6}/ LF\n%import common.LF\n' },
};
const isPatch = (text) => /^\*\*\* Begin\n([+-][a-z "]{1,6}\n)+\*\*\* End$/.test(text);

test("a custom tool's input follows its grammar, streamed and whole, and goes back", async () => {
  const fields = { ...asked("custom"), max_output_tokens: 200,
    tools: [patch, { type: "web_search" }], tool_choice: { type: "custom", name: "apply_patch" } };
  const { data: whole, response } = await client.responses.create(fields).withResponse();
  assert.equal(response.headers.get("x-kvgate-left-out"), "web_search");
  const call = whole.output.at(-1);
  assert.equal(call.type, "custom_tool_call");
  assert.ok(isPatch(call.input), call.input);
  let input = "";
  let done;
  for await (const event of client.responses.stream(fields)) {
    if (event.type === "response.custom_tool_call_input.delta") input += event.delta;
    if (event.type === "response.custom_tool_call_input.done") done = event.input;
  }
  assert.equal(input, call.input);
  assert.equal(done, call.input);
  const second = await client.responses.create({ ...fields, input: [
    { role: "user", content: "Go." }, ...whole.output,
    { type: "custom_tool_call_output", call_id: call.call_id, output: "done" }] });
  const used = whole.usage.input_tokens;
  assert.ok(second.usage.input_tokens_details.cached_tokens >= used - 64,
    `${second.usage.input_tokens_details.cached_tokens} of ${used}`);
});

test("a tool of a namespace comes back in it", async () => {
  const answer = await client.responses.create({ ...asked("namespace"), max_output_tokens: 200,
    tools: [{ type: "namespace", name: "agents", description: "A team.", tools: [weather] }],
    tool_choice: { type: "function", name: "weather", namespace: "agents" } });
  const call = answer.output.at(-1);
  assert.equal(call.type, "function_call");
  assert.equal(call.name, "weather");
  assert.equal(call.namespace, "agents");
  assert.ok(JSON.parse(call.arguments).city !== undefined);
});

test("errors arrive as the client's own, with the field at fault", async () => {
  const bad = async (fields, status, param) => assert.rejects(
    client.responses.create({ ...asked("errors"), ...fields }),
    (error) => error.status === status && error.param === param);
  await bad({ temperature: 7 }, 400, "temperature");
  await bad({ background: true }, 400, "background");
  await bad({ tools: [{ type: "web_search" }], tool_choice: { type: "web_search" } }, 400,
    "tool_choice.type");
  await bad({ model: "gpt-9" }, 404, "model");
  await bad({ stream: true, input: [] }, 400, "input");
});

test("a stream that is aborted stops the work", async () => {
  const stream = await client.responses.create(
    { ...asked("abort"), max_output_tokens: 4000, stream: true, ignore_eos: true });
  let num_deltas = 0;
  for await (const event of stream) {
    if (event.type === "response.output_text.delta" && ++num_deltas === 3) break;
  }
  stream.controller.abort();
  await waitIdle(server, 2000);
});
