// The official clients through kvgate to a provider of another dialect: answers, streams, loops of
// two turns with tools, errors.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import Anthropic from "@anthropic-ai/sdk";
import { betaTool } from "@anthropic-ai/sdk/helpers/beta/json-schema";
import OpenAI from "openai";

import { startProvider } from "./provider.mjs";

let provider;
before(async () => { provider = await startProvider(); });
after(() => provider.stop());

const CLAUDE = "claude-sonnet-5";
const GPT = "gpt-4o";
const openai = () => new OpenAI(
  { baseURL: `${provider.urls.through}/v1`, apiKey: "sk-test", maxRetries: 0 });
const anthropic = () => new Anthropic(
  { baseURL: provider.urls.through, apiKey: "sk-test", maxRetries: 0 });
const parameters = { type: "object", properties: { q: { type: "string" } }, required: ["q"] };
const text = "é 😀 \u2028 \"quoted\"";

const lastSent = async () => {
  const sent = (await provider.requests()).at(-1);
  return { target: sent.target, body: JSON.parse(Buffer.from(sent.body, "base64")) };
};

test("openai chat to Anthropic: an answer and a stream", async () => {
  const asked = { model: CLAUDE, messages: [{ role: "user", content: text }] };
  const whole = await openai().chat.completions.create(asked);
  assert.equal((await lastSent()).target, "/v1/messages");
  assert.ok(whole.choices[0].message.content.length > 10);
  assert.ok(whole.usage.prompt_tokens > 0 && whole.usage.completion_tokens > 0);
  const stream = openai().chat.completions.stream(
    { ...asked, stream_options: { include_usage: true } });
  const final = await stream.finalChatCompletion();
  assert.equal(final.choices[0].finish_reason, "stop");
  assert.ok(final.usage.total_tokens > 0);
});

test("openai chat to Anthropic: the tool runner's loop, streamed and not", async () => {
  for (const stream of [false, true]) {
    const called = [];
    const runner = openai().chat.completions.runTools({
      model: CLAUDE, stream, messages: [{ role: "user", content: "call the tool" }],
      tools: [{ type: "function", function: { name: "look_up", parameters, parse: JSON.parse,
        description: "Looks up.", function: (input) => { called.push(input); return "found"; } } }],
    });
    const final = await runner.finalContent();
    assert.deepEqual(called, [{ q: "naïve", n: 2 ** 53 }]);
    assert.ok(final.length > 10);
    const { body } = await lastSent();
    assert.equal(body.messages.at(-1).content[0].type, "tool_result");
  }
});

test("openai responses to Anthropic: an answer, a stream and a loop", async () => {
  const asked = { model: CLAUDE, instructions: "Be short.", input: text };
  const whole = await openai().responses.create(asked);
  assert.equal(whole.status, "completed");
  assert.ok(whole.output_text.length > 10);
  const streamed = await openai().responses.stream(asked).finalResponse();
  assert.ok(streamed.output_text.length > 10);
  assert.deepEqual((await lastSent()).body.system, [{ type: "text", text: "Be short." }]);

  const tools = [{ type: "function", name: "look_up", parameters, strict: false }];
  const input = [{ role: "user", content: "call the tool" }];
  const first = await openai().responses.stream({ model: CLAUDE, input, tools }).finalResponse();
  const call = first.output.find((item) => item.type === "function_call");
  assert.deepEqual(JSON.parse(call.arguments), { q: "naïve", n: 2 ** 53 });
  const second = await openai().responses.create({
    model: CLAUDE, tools, input: [...input, ...first.output,
      { type: "function_call_output", call_id: call.call_id, output: "found" }] });
  assert.ok(second.output_text.length > 10);
});

test("Anthropic's client to OpenAI: an answer and a stream", async () => {
  const asked = { model: GPT, max_tokens: 64, system: "Be short.",
    messages: [{ role: "user", content: text }] };
  const whole = await anthropic().messages.create(asked);
  assert.equal((await lastSent()).target, "/v1/chat/completions");
  assert.equal(whole.stop_reason, "end_turn");
  assert.ok(whole.content[0].text.length > 10);
  const texts = [];
  const stream = anthropic().messages.stream(asked).on("text", (piece) => texts.push(piece));
  const final = await stream.finalMessage();
  assert.equal(texts.join(""), final.content[0].text);
  assert.ok(final.usage.input_tokens > 0 && final.usage.output_tokens > 1);
});

test("Anthropic's client to OpenAI: the tool runner's loop, streamed and not", async () => {
  for (const stream of [false, true]) {
    const called = [];
    const final = await anthropic().beta.messages.toolRunner({
      model: GPT, max_tokens: 64, max_iterations: 4, stream,
      messages: [{ role: "user", content: "call the tool" }],
      tools: [betaTool({ name: "look_up", description: "Looks up.", inputSchema: parameters,
        run: (input) => { called.push(input); return "found"; } })],
    }).runUntilDone();
    assert.equal(called.length, 1);
    assert.equal(called[0].q, "naïve é");
    assert.equal(final.content[0].type, "text");
    assert.equal((await lastSent()).body.messages.at(-1).role, "tool");
  }
});

test("Anthropic's client to OpenAI: tokens are estimated", async () => {
  const count = await anthropic().messages.countTokens(
    { model: GPT, messages: [{ role: "user", content: "word ".repeat(4000) }] });
  assert.ok(count.input_tokens > 5000 && count.input_tokens < 7000, count.input_tokens);
});

test("errors are those that each client knows", async () => {
  await provider.failNext("status:429", "status:529", "status:429", "error_event:3");
  const chat = { model: CLAUDE, messages: [{ role: "user", content: text }] };
  const message = { model: GPT, max_tokens: 9, messages: chat.messages };
  await assert.rejects(openai().chat.completions.create(chat), OpenAI.RateLimitError);
  await assert.rejects(openai().responses.create({ model: CLAUDE, input: text }),
    (error) => error.status === 503);
  await assert.rejects(anthropic().messages.create(message), Anthropic.RateLimitError);
  await assert.rejects(anthropic().messages.stream(message).finalMessage(), Anthropic.APIError);
});
