// The official OpenAI client against the real binary.
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
  model: "local",
  messages: [{ role: "system", content: longText(name) }, { role: "user", content: "Go." }],
  max_tokens: 12,
  temperature: 0,
});

test("a chat completion is whole, and the second one says how much was cached", async () => {
  const first = await client.chat.completions.create(asked("whole"));
  assert.equal(first.object, "chat.completion");
  assert.equal(first.choices[0].message.role, "assistant");
  assert.ok(first.choices[0].message.content.length > 0);
  assert.ok(["length", "stop"].includes(first.choices[0].finish_reason));
  assert.equal(first.usage.total_tokens,
    first.usage.prompt_tokens + first.usage.completion_tokens);
  assert.equal(first.usage.prompt_tokens_details.cached_tokens, 0);
  const second = await client.chat.completions.create(asked("whole"));
  assert.equal(second.choices[0].message.content, first.choices[0].message.content);
  assert.ok(second.usage.prompt_tokens_details.cached_tokens > 500);
});

test("a streamed chat gives the same text, its usage last, and caches alike", async () => {
  const whole = await client.chat.completions.create(asked("stream"));
  const stream = await client.chat.completions.create(
    { ...asked("stream"), stream: true, stream_options: { include_usage: true } });
  let text = "";
  let usage = null;
  let finish = null;
  for await (const chunk of stream) {
    assert.equal(chunk.object, "chat.completion.chunk");
    text += chunk.choices[0]?.delta?.content ?? "";
    finish = chunk.choices[0]?.finish_reason ?? finish;
    if (chunk.usage) {
      assert.equal(chunk.choices.length, 0);
      usage = chunk.usage;
    }
  }
  assert.equal(text, whole.choices[0].message.content);
  assert.equal(finish, whole.choices[0].finish_reason);
  assert.ok(usage.prompt_tokens_details.cached_tokens > 500);
});

test("the client's own stream helper assembles the final message", async () => {
  const whole = await client.chat.completions.create(asked("helper"));
  const stream = client.chat.completions.stream(asked("helper"));
  const message = await stream.finalMessage();
  assert.equal(message.content, whole.choices[0].message.content);
});

test("completions, whole and streamed, with log-probabilities", async () => {
  const body = { model: "local", prompt: longText("text"), max_tokens: 8, temperature: 0 };
  const whole = await client.completions.create({ ...body, logprobs: 3 });
  assert.equal(whole.object, "text_completion");
  const { tokens, token_logprobs: values, top_logprobs: top } = whole.choices[0].logprobs;
  assert.equal(tokens.length, whole.usage.completion_tokens);
  assert.equal(tokens.length, values.length);
  assert.equal(tokens.length, top.length);
  assert.ok(values.every((value) => value <= 0));
  let text = "";
  for await (const chunk of await client.completions.create({ ...body, stream: true })) {
    text += chunk.choices[0]?.text ?? "";
  }
  assert.equal(text, whole.choices[0].text);
});

test("chat log-probabilities have the chosen token and its rivals", async () => {
  const reply = await client.chat.completions.create(
    { ...asked("logprobs"), logprobs: true, top_logprobs: 5 });
  const { content } = reply.choices[0].logprobs;
  assert.equal(content.length, reply.usage.completion_tokens);
  for (const item of content) {
    assert.equal(item.top_logprobs.length, 5);
    assert.ok(item.top_logprobs[0].logprob >= item.logprob - 1e-6);
    assert.equal(typeof item.token, "string");
  }
});

test("a stop string ends the answer and is not part of it", async () => {
  const whole = await client.completions.create(
    { model: "local", prompt: "stop here", max_tokens: 24, temperature: 0 });
  const { text } = whole.choices[0];
  const stop = text.slice(4, 6);
  const cut = await client.completions.create(
    { model: "local", prompt: "stop here", max_tokens: 24, temperature: 0, stop: [stop] });
  assert.equal(cut.choices[0].text, text.slice(0, text.indexOf(stop)));
  assert.equal(cut.choices[0].finish_reason, "stop");
});

test("two answers of one request stand in their order, whole and streamed", async () => {
  const body = { ...asked("two"), temperature: 1, seed: 5, n: 2 };
  const whole = await client.chat.completions.create(body);
  assert.deepEqual(whole.choices.map((choice) => choice.index), [0, 1]);
  const said = whole.choices.map((choice) => choice.message.content);
  assert.notEqual(said[0], said[1]);
  assert.ok(whole.usage.completion_tokens > 12);
  const texts = ["", ""];
  const reasons = [null, null];
  for await (const chunk of await client.chat.completions.create({ ...body, stream: true })) {
    const [choice] = chunk.choices;
    texts[choice.index] += choice.delta.content ?? "";
    reasons[choice.index] = choice.finish_reason ?? reasons[choice.index];
  }
  assert.deepEqual(texts, said);
  assert.deepEqual(reasons, whole.choices.map((choice) => choice.finish_reason));
  const final = await client.chat.completions.stream(body).finalChatCompletion();
  assert.deepEqual(final.choices.map((choice) => choice.message.content), said);
});

test("several prompts are answered in one completion", async () => {
  const body = { model: "local", max_tokens: 8, temperature: 0 };
  const both = await client.completions.create({ ...body, prompt: ["one", "two"] });
  assert.equal(both.choices.length, 2);
  for (const [index, prompt] of ["one", "two"].entries()) {
    const alone = await client.completions.create({ ...body, prompt });
    assert.equal(both.choices[index].index, index);
    assert.equal(both.choices[index].text, alone.choices[0].text);
  }
});

test("a logit bias forces a token, and one of no token is the client's own error", async () => {
  const forced = await client.completions.create({
    model: "local", prompt: "bias", max_tokens: 4, temperature: 0, logit_bias: { 300: 100 },
    logprobs: 1,
  });
  const { tokens } = forced.choices[0].logprobs;
  assert.equal(new Set(tokens).size, 1);
  await assert.rejects(
    client.chat.completions.create({ ...asked("x"), logit_bias: { 99999999: 1 } }),
    (error) => error instanceof OpenAI.BadRequestError && error.param === "logit_bias");
});

test("ten turns of an agent with twenty tools read the prompt from the cache", async () => {
  const messages = [{ role: "system", content: longText("agent") },
    { role: "user", content: "Begin." }];
  for (let turn = 0; turn < 10; ++turn) {
    const { usage } = await client.chat.completions.create({
      model: "local", max_tokens: 4, temperature: 0, tools: agentTools(20).chat, messages,
    });
    const share = usage.prompt_tokens_details.cached_tokens / usage.prompt_tokens;
    if (turn > 0) assert.ok(share >= 0.95, `turn ${turn}: ${share}`);
    const id = `call_${turn}`;
    messages.push(
      { role: "assistant", content: null, tool_calls: [{ id, type: "function", function: {
        name: "tool_3", arguments: JSON.stringify({ path: `f${turn}`, count: turn }) } }] },
      { role: "tool", tool_call_id: id, content: `result ${turn}` });
  }
});

test("a result that answers no call is the client's own error", async () => {
  await assert.rejects(client.chat.completions.create({ ...asked("x"),
    messages: [{ role: "user", content: "x" },
      { role: "tool", tool_call_id: "call_1", content: "y" }] }),
  (error) => error instanceof OpenAI.BadRequestError && error.param === "messages[1].tool_call_id");
});

test("models are listed and found by id", async () => {
  const listed = [];
  for await (const model of client.models.list()) listed.push(model.id);
  assert.ok(listed.length >= 1);
  assert.equal((await client.models.retrieve(listed[0])).object, "model");
});

test("errors arrive as the client's own types, with field and code", async () => {
  await assert.rejects(client.chat.completions.create({ ...asked("x"), model: "gpt-none" }),
    (error) => error instanceof OpenAI.NotFoundError && error.status === 404);
  await assert.rejects(client.chat.completions.create({ ...asked("x"), temperature: "hot" }),
    (error) => error instanceof OpenAI.BadRequestError && error.param === "temperature");
  const tooLong = Array.from({ length: 20_000 }, () => 300);
  await assert.rejects(
    client.completions.create({ model: "local", prompt: tooLong, max_tokens: 1 }),
    (error) => error instanceof OpenAI.BadRequestError
      && error.code === "context_length_exceeded");
});

test("an aborted stream stops the engine within a second", async () => {
  const stream = await client.completions.create({
    model: "local", prompt: "abort", max_tokens: 4000, temperature: 0, stream: true,
    ignore_eos: true,
  });
  let chunks = 0;
  for await (const _ of stream) {
    chunks += 1;
    if (chunks === 3) break;
  }
  stream.controller.abort();
  await waitIdle(server, 1000);
});
