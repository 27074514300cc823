// Sessions of ten tool calls on the local engine, by a model that calls a tool in every turn: each
// call arrives as the client knows it, and each turn finds all of the turn before in the cache.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";

import { agentTools } from "./agent.mjs";
import { longText, startCalling } from "./kvgate.mjs";

const TURNS = 10;
const INPUT = { path: "src/main.cc", count: 3 };
let server;
let openai;
let anthropic;

before(async () => {
  server = await startCalling(["<tool_call>\n", '{"name": "tool_3", ',
    `"arguments": ${JSON.stringify(INPUT)}}`, "\n</tool_call>"]);
  openai = new OpenAI({ baseURL: server.baseURL, apiKey: "test-key", maxRetries: 0 });
  anthropic = new Anthropic({ baseURL: server.url, apiKey: "test-key", maxRetries: 0 });
});
after(() => server.stop());

// What a tool gives back: some lines, of another length in each turn.
const resultOf = (turn) => `The file of turn ${turn}.\n${"a line of it\n".repeat(20 + 7 * turn)}`;

// Each turn's prompt holds the one before it, which is in the cache but for a last block.
function assertCached(prompts) {
  assert.equal(prompts.length, TURNS);
  for (let i = 1; i < TURNS; ++i) {
    const { total, cached } = prompts[i];
    assert.ok(total > prompts[i - 1].total);
    assert.ok(cached > prompts[i - 1].total - 32, `turn ${i}: ${cached} of ${total} cached`);
  }
}

for (const stream of [false, true]) {
  const how = stream ? "streamed" : "whole";

  test(`chat: a session of ten tool calls, ${how}`, async () => {
    const messages = [{ role: "system", content: longText(`chat ${how}`) },
      { role: "user", content: "Read the files." }];
    const prompts = [];
    for (let turn = 0; turn < TURNS; ++turn) {
      const asked = { model: "local", temperature: 0, tools: agentTools(5).chat, messages };
      const counted = { ...asked, stream_options: { include_usage: true } };
      const completion = stream
        ? await openai.chat.completions.stream(counted).finalChatCompletion()
        : await openai.chat.completions.create(asked);
      const { message, finish_reason } = completion.choices[0];
      assert.equal(finish_reason, "tool_calls");
      assert.equal(message.tool_calls.length, 1);
      assert.equal(message.tool_calls[0].function.name, "tool_3");
      assert.deepEqual(JSON.parse(message.tool_calls[0].function.arguments), INPUT);
      messages.push({ role: "assistant", content: message.content,
        tool_calls: message.tool_calls.map(({ id, type, function: { name, arguments: args } }) =>
          ({ id, type, function: { name, arguments: args } })) });
      messages.push({ role: "tool", tool_call_id: message.tool_calls[0].id,
        content: resultOf(turn) });
      prompts.push({ total: completion.usage.prompt_tokens,
        cached: completion.usage.prompt_tokens_details.cached_tokens });
    }
    assertCached(prompts);
  });

  test(`messages: a session of ten tool calls, ${how}`, async () => {
    const messages = [{ role: "user", content: "Read the files." }];
    const prompts = [];
    for (let turn = 0; turn < TURNS; ++turn) {
      const asked = { model: "local", max_tokens: 1000, temperature: 0,
        system: longText(`messages ${how}`), tools: agentTools(5).anthropic, messages };
      const message = stream ? await anthropic.messages.stream(asked).finalMessage()
        : await anthropic.messages.create(asked);
      assert.equal(message.stop_reason, "tool_use");
      const call = message.content.find((block) => block.type === "tool_use");
      assert.equal(call.name, "tool_3");
      assert.deepEqual(call.input, INPUT);
      messages.push({ role: "assistant", content: message.content });
      messages.push({ role: "user", content: [
        { type: "tool_result", tool_use_id: call.id, content: resultOf(turn) }] });
      const usage = message.usage;
      prompts.push({ total: usage.input_tokens + usage.cache_read_input_tokens
        + usage.cache_creation_input_tokens, cached: usage.cache_read_input_tokens });
    }
    assertCached(prompts);
  });

  test(`responses: a session of ten tool calls, ${how}`, async () => {
    let input = "Read the files.";
    let previous;
    const prompts = [];
    for (let turn = 0; turn < TURNS; ++turn) {
      const asked = { model: "local", temperature: 0, tools: agentTools(5).responses, input,
        instructions: longText(`responses ${how}`), previous_response_id: previous };
      const response = stream ? await openai.responses.stream(asked).finalResponse()
        : await openai.responses.create(asked);
      const call = response.output.find((item) => item.type === "function_call");
      assert.equal(call.name, "tool_3");
      assert.deepEqual(JSON.parse(call.arguments), INPUT);
      previous = response.id;
      input = [{ type: "function_call_output", call_id: call.call_id, output: resultOf(turn) }];
      prompts.push({ total: response.usage.input_tokens,
        cached: response.usage.input_tokens_details.cached_tokens });
    }
    assertCached(prompts);
  });
}
