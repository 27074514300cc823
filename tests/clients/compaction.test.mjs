// Compactions by the official clients and the OpenAI Agents SDK, at an upstream that knows only
// chats and at the local engine: neither has any of its own.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import Anthropic from "@anthropic-ai/sdk";
import { Agent, MemorySession, OpenAIResponsesCompactionSession, OpenAIResponsesModel, run,
  setTracingDisabled } from "@openai/agents";
import OpenAI from "openai";

import { startCalling } from "./kvgate.mjs";
import { startChatProvider } from "./provider.mjs";

let provider;
let local;
before(async () => {
  setTracingDisabled(true);
  provider = await startChatProvider();
  local = await startCalling(["All of it is mended."]);
});
after(async () => {
  await provider.stop();
  await local.stop();
});

const places = () => [["a chat-only upstream", provider.urls.through, "gpt-4o"],
  ["the local engine", local.url, "local"]];
const openai = (url) => new OpenAI({ baseURL: `${url}/v1`, apiKey: "sk-a", maxRetries: 0 });
const said = [
  { role: "user", content: "Mend the parser." },
  { role: "assistant", content: "It is mended." },
  { role: "user", content: "Now the tests." }];

test("responses.compact, and the conversation goes on from its output", async () => {
  for (const [place, url, model] of places()) {
    const client = openai(url);
    const compacted = await client.responses.compact({ model, input: said });
    assert.equal(compacted.object, "response.compaction", place);
    assert.deepEqual(compacted.output.map((item) => item.type),
      ["message", "message", "compaction"]);
    assert.ok(compacted.usage.total_tokens > 0);
    const next = await client.responses.create({ model, store: false, max_output_tokens: 16,
      input: [...compacted.output, { role: "user", content: "Go on." }] });
    assert.ok(next.output_text.length > 0, place);
  }
});

test("a compaction_trigger, whole and streamed", async () => {
  const input = [...said, { type: "compaction_trigger" }];
  for (const [place, url, model] of places()) {
    const client = openai(url);
    const whole = await client.responses.create({ model, store: false, input });
    assert.deepEqual(whole.output.map((item) => item.type), ["compaction"], place);
    const stream = client.responses.stream({ model, store: false, input });
    const types = [];
    for await (const event of stream) types.push(event.type);
    assert.equal(types.at(-1), "response.completed");
    const final = await stream.finalResponse();
    assert.equal(final.status, "completed");
    assert.match(final.output[0].encrypted_content, /^kvg1\./);
  }
});

test("the Agents SDK compacts its session and goes on", async () => {
  for (const [place, url, model] of places()) {
    const client = openai(url);
    // Its session insists on a model's name of OpenAI's; the server's is the agent's.
    const session = new OpenAIResponsesCompactionSession({
      client: { responses: { compact: (asked) => client.responses.compact({ ...asked, model }) } },
      underlyingSession: new MemorySession(),
      compactionMode: "input",
      shouldTriggerCompaction: ({ compactionCandidateItems }) =>
        compactionCandidateItems.length >= 2,
    });
    const agent = new Agent({ name: "a", instructions: "Be brief.",
      model: new OpenAIResponsesModel(client, model),
      modelSettings: { store: false, maxTokens: 16 } });
    for (const words of ["Mend the parser.", "Now the tests.", "And the names."]) {
      const result = await run(agent, words, { session });
      assert.equal(typeof result.finalOutput, "string", place);
    }
    const items = await session.getItems();
    assert.equal(items.filter((item) => item.type === "compaction").length, 1, place);
    assert.ok(JSON.stringify(items).includes("Now the tests."));
  }
});

test("Anthropic's compaction on demand, whole and streamed", async () => {
  for (const [place, url, model] of places()) {
    const client = new Anthropic({ baseURL: url, apiKey: "sk-a", maxRetries: 0 });
    const asked = { model, max_tokens: 64, messages: said, betas: ["compact-2026-09-04"] };
    const reply = await client.beta.messages.create(
      { ...asked, compaction: { type: "summarize" } });
    assert.equal(reply.stop_reason, "compaction", place);
    const [block] = reply.content;
    assert.equal(block.type, "compaction");
    assert.equal(reply.usage.iterations[0].type, "compaction");
    const stream = client.beta.messages.stream({ ...asked, compaction: { type: "summarize" } });
    const final = await stream.finalMessage();
    assert.deepEqual(final.content.map((part) => part.type), ["compaction"]);
    const next = await client.beta.messages.create({ ...asked,
      messages: [{ role: "assistant", content: [block] }, { role: "user", content: "Go on." }] });
    assert.ok(next.content.length > 0, place);
  }
});

test("old results of tools are cleared, whole, streamed and counted", async () => {
  const turns = [{ role: "user", content: "Mend the parser." }];
  for (let use = 0; use < 6; ++use) {
    turns.push({ role: "assistant", content: [
      { type: "tool_use", id: `toolu_${use}`, name: "look", input: { q: "parser" } }] });
    turns.push({ role: "user", content: [{ type: "tool_result", tool_use_id: `toolu_${use}`,
      content: "It has errors. ".repeat(20) }] });
  }
  for (const [place, url, model] of places()) {
    const client = new Anthropic({ baseURL: url, apiKey: "sk-a", maxRetries: 0 });
    const asked = { model, messages: turns, betas: ["context-management-2025-06-27"],
      tools: [{ name: "look", input_schema: { type: "object" } }],
      context_management: { edits: [{ type: "clear_tool_uses_20250919",
        trigger: { type: "tool_uses", value: 4 }, keep: { type: "tool_uses", value: 2 } }] } };
    const reply = await client.beta.messages.create({ ...asked, max_tokens: 64 });
    const [edit] = reply.context_management.applied_edits;
    assert.equal(edit.cleared_tool_uses, 4, place);
    assert.ok(edit.cleared_input_tokens > 100, place);
    const stream = client.beta.messages.stream({ ...asked, max_tokens: 64 });
    const final = await stream.finalMessage();
    assert.deepEqual(final.context_management.applied_edits, [edit], place);
    const count = await client.beta.messages.countTokens(asked);
    assert.equal(count.context_management.original_input_tokens - count.input_tokens,
      edit.cleared_input_tokens, place);
  }
});
