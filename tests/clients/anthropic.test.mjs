// The official Anthropic client against the local engine.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import Anthropic from "@anthropic-ai/sdk";

import { longText, startKvgate, waitIdle } from "./kvgate.mjs";
import { agentTools } from "./agent.mjs";

let server;
let client;

before(async () => {
  server = await startKvgate();
  client = new Anthropic({ baseURL: server.url, apiKey: "test-key", maxRetries: 0 });
});
after(() => server.stop());

const asked = (name, more = {}) => ({
  model: "local", max_tokens: 12, temperature: 0, system: longText(name),
  messages: [{ role: "user", content: "Go." }], ...more,
});
const inputOf = (usage) => usage.input_tokens + usage.cache_read_input_tokens
  + usage.cache_creation_input_tokens;
const textOf = (message) => message.content.map((block) => block.text ?? "").join("");

test("a message is whole, and the second one says how much was cached", async () => {
  const first = await client.messages.create(asked("whole"));
  assert.equal(first.type, "message");
  assert.equal(first.role, "assistant");
  assert.match(first.id, /^msg_/);
  assert.ok(["end_turn", "max_tokens"].includes(first.stop_reason));
  assert.equal(first.usage.cache_read_input_tokens, 0);
  assert.ok(first._request_id);
  const second = await client.messages.create(asked("whole"));
  assert.equal(textOf(second), textOf(first));
  assert.equal(inputOf(second.usage), inputOf(first.usage));
  assert.ok(second.usage.cache_read_input_tokens > 500);
});

test("marks say what is written to the cache", async () => {
  const system = [{ type: "text", text: longText("marks"), cache_control: { type: "ephemeral" } }];
  const first = await client.messages.create(asked("x", { system }));
  assert.ok(first.usage.cache_creation_input_tokens > 500);
  assert.equal(first.usage.cache_creation.ephemeral_5m_input_tokens,
    first.usage.cache_creation_input_tokens);
  const second = await client.messages.create(asked("x", { system }));
  assert.ok(second.usage.cache_read_input_tokens > 500);
  assert.equal(inputOf(second.usage), inputOf(first.usage));
});

test("a stream has the same text, events and usage", async () => {
  const whole = await client.messages.create(asked("stream"));
  const stream = client.messages.stream(asked("stream"));
  const kinds = [];
  stream.on("streamEvent", (event) => kinds.push(event.type));
  const message = await stream.finalMessage();
  assert.equal(textOf(message), textOf(whole));
  assert.equal(message.stop_reason, whole.stop_reason);
  assert.equal(kinds[0], "message_start");
  assert.deepEqual(kinds.slice(-2), ["message_delta", "message_stop"]);
  assert.ok(message.usage.cache_read_input_tokens > 500);
  assert.equal(message.usage.output_tokens, whole.usage.output_tokens);
});

test("counting gives the tokens that the message then has", async () => {
  const body = asked("count", { tools: agentTools(3).anthropic });
  const { max_tokens: _, temperature: __, ...counted } = body;
  const { input_tokens: count } = await client.messages.countTokens(counted);
  const message = await client.messages.create(body);
  assert.equal(inputOf(message.usage), count);
});

test("max_tokens 0 warms the cache and answers nothing", async () => {
  const warm = await client.messages.create(asked("warm", { max_tokens: 0 }));
  assert.deepEqual(warm.content, []);
  assert.equal(warm.stop_reason, "max_tokens");
  const message = await client.messages.create(asked("warm"));
  assert.ok(message.usage.cache_read_input_tokens > 500);
});

test("a stop sequence ends the answer and is named", async () => {
  const whole = await client.messages.create(asked("stop", { max_tokens: 40 }));
  const stop = textOf(whole).slice(8, 12);
  const cut = await client.messages.create(
    asked("stop", { max_tokens: 40, stop_sequences: [stop] }));
  assert.equal(cut.stop_reason, "stop_sequence");
  assert.equal(cut.stop_sequence, stop);
  assert.ok(!textOf(cut).includes(stop));
});

test("a conversation with tools, results, thinking and a system text among them", async () => {
  const message = await client.messages.create(asked("loop", {
    tools: agentTools(2).anthropic,
    tool_choice: { type: "auto", disable_parallel_tool_use: true },
    messages: [
      { role: "user", content: "Look." },
      { role: "assistant", content: [
        { type: "thinking", thinking: "I should look.", signature: "s" },
        { type: "text", text: "Looking." },
        { type: "tool_use", id: "toolu_1", name: "tool_0", input: { path: "a", count: 2 } },
      ] },
      { role: "user", content: [
        { type: "tool_result", tool_use_id: "toolu_1", content: [{ type: "text", text: "ok" }] },
        { type: "text", text: "So?" },
      ] },
      { role: "system", content: "Answer briefly." },
    ],
  }));
  assert.equal(message.role, "assistant");
});

test("ten turns of an agent with twenty tools read the prompt from the cache", async () => {
  const messages = [{ role: "user", content: "Begin." }];
  for (let turn = 0; turn < 10; ++turn) {
    const { usage } = await client.messages.create({
      model: "local", max_tokens: 4, temperature: 0, system: longText("agent"),
      tools: agentTools(20).anthropic, messages,
    });
    if (turn > 0) {
      const share = usage.cache_read_input_tokens / inputOf(usage);
      assert.ok(share >= 0.95, `turn ${turn}: ${share}`);
    }
    const id = `toolu_${turn}`;
    messages.push(
      { role: "assistant", content: [
        { type: "tool_use", id, name: "tool_3", input: { path: `f${turn}`, count: turn } }] },
      { role: "user", content: [{ type: "tool_result", tool_use_id: id, content: `r${turn}` }] });
  }
});

test("errors arrive as the client's own types and name the field", async () => {
  await assert.rejects(client.messages.create(asked("x", { model: "claude-none" })),
    (error) => error instanceof Anthropic.NotFoundError
      && error.error.error.type === "not_found_error");
  await assert.rejects(client.messages.create(asked("x", { temperature: "hot" })),
    (error) => error instanceof Anthropic.BadRequestError && /temperature/.test(error.message)
      && error.error.type === "error" && Boolean(error.requestID));
  await assert.rejects(client.messages.create(asked("x", {
    messages: [{ role: "user", content: [{ type: "smell" }] }],
  })), (error) => error instanceof Anthropic.BadRequestError && /smell/.test(error.message));
});

// An agent that has read an image once sends it in each turn from then on.
test("images are left out, said, and cost the prefix nothing", async () => {
  const image = { type: "image",
    source: { type: "base64", media_type: "image/png", data: "iVBORw0KGgo=" } };
  const messages = [
    { role: "user", content: "Read x.png." },
    { role: "assistant", content: [
      { type: "tool_use", id: "toolu_1", name: "Read", input: { path: "x.png" } }] },
    { role: "user", content: [{ type: "tool_result", tool_use_id: "toolu_1",
      content: [{ type: "text", text: "x.png" }, image] }] },
  ];
  const tools = [
    { name: "Read", description: "Reads.", input_schema: { type: "object", properties: {} } },
    { type: "web_search_20250305", name: "web_search" }];
  const ask = () => client.messages.create(asked("image", { messages, tools })).withResponse();
  const { data, response } = await ask();
  assert.deepEqual(response.headers.get("x-kvgate-left-out").split(", ").sort(),
    ["image", "web_search_20250305"]);
  const before = inputOf(data.usage);
  messages.push({ role: "assistant", content: "I see." },
    { role: "user", content: [image, { type: "text", text: "And now?" }] });
  const second = await ask();
  assert.ok(second.data.usage.cache_read_input_tokens >= before - 96,
    `${second.data.usage.cache_read_input_tokens} of ${before}`);
});

test("the tool runner goes on without threads", async () => {
  const runner = client.beta.messages.toolRunner({
    ...asked("runner"), max_iterations: 2,
    tools: [{ name: "look", description: "Looks.", input_schema: { type: "object", properties: {} },
      run: async () => "nothing", parse: (input) => input }],
  });
  const message = await runner.runUntilDone();
  assert.equal(message.role, "assistant");
});

test("models are listed", async () => {
  const ids = [];
  for await (const model of client.models.list()) ids.push(model.id);
  assert.ok(ids.length >= 1);
});

test("an aborted stream stops the engine within a second", async () => {
  const stream = client.messages.stream(asked("abort", { max_tokens: 4000, ignore_eos: true }));
  stream.on("error", () => {});
  let events = 0;
  try {
    for await (const _ of stream) {
      events += 1;
      if (events === 4) stream.abort();
    }
  } catch (error) {
    assert.ok(error instanceof Anthropic.APIUserAbortError);
  }
  await waitIdle(server, 1000);
});
