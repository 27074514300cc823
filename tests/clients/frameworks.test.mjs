// Agent frameworks against the real binary, by their base URL alone: the AI SDK with OpenAI's and
// Anthropic's providers, and the OpenAI Agents SDK. The model has random weights: that it calls a
// tool is asked for.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import {
  Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, setTracingDisabled,
  tool as agentTool,
} from "@openai/agents";
import { APICallError, generateText, stepCountIs, streamText, tool } from "ai";
import OpenAI from "openai";
import { z } from "zod";

import { startKvgate, TINY_SHAPE, waitIdle } from "./kvgate.mjs";

let server;
let models;

before(async () => {
  server = await startKvgate(TINY_SHAPE);
  setTracingDisabled(true);
  const openai = createOpenAI({ baseURL: server.baseURL, apiKey: "test-key" });
  const anthropic = createAnthropic({ baseURL: server.baseURL, apiKey: "test-key" });
  models = {
    chat: (id) => openai.chat(id), responses: (id) => openai.responses(id),
    messages: (id) => anthropic(id),
  };
});
after(() => server.stop());

const schema = z.object({ city: z.string().max(8), days: z.number().int().min(1).max(9) }).strict();
const runs = [];
const weather = tool({
  description: "Tells the weather.",
  inputSchema: schema,
  execute: async (input) => {
    runs.push(input);
    return `Rain in ${input.city}.`;
  },
});

// Two turns: the first must call, the second says something.
const asked = (dialect, more = {}) => ({
  model: models[dialect]("local"), system: "Be brief.", prompt: "Go.", tools: { weather },
  stopWhen: stepCountIs(2), maxOutputTokens: 200, temperature: 0, maxRetries: 0,
  providerOptions: {
    openai: { parallelToolCalls: false }, anthropic: { disableParallelToolUse: true },
  },
  prepareStep: ({ stepNumber }) => ({ toolChoice: stepNumber === 0 ? "required" : "none" }),
  ...more,
});

for (const dialect of ["chat", "responses", "messages"]) {
  test(`AI SDK, ${dialect}: a loop of two turns`, async () => {
    runs.length = 0;
    const { steps, finishReason, usage } = await generateText(asked(dialect));
    assert.equal(steps.length, 2);
    assert.equal(steps[0].finishReason, "tool-calls");
    assert.equal(runs.length, steps[0].toolCalls.length);
    assert.ok(runs.length >= 1);
    for (const input of runs) schema.parse(input);
    assert.equal(steps[0].toolResults[0].output, `Rain in ${runs[0].city}.`);
    assert.ok(["stop", "length"].includes(finishReason));
    assert.ok(usage.inputTokens > 0 && usage.outputTokens > 0);
    assert.ok(steps[1].usage.inputTokenDetails.cacheReadTokens > 0);
  });

  test(`AI SDK, ${dialect}: the same, streamed`, async () => {
    runs.length = 0;
    const kinds = new Set();
    const streamed = streamText(asked(dialect));
    let input = "";
    for await (const part of streamed.fullStream) {
      kinds.add(part.type);
      if (part.type === "error") throw part.error;
      if (part.type === "tool-input-delta") input += part.delta;
    }
    const steps = await streamed.steps;
    assert.equal(steps.length, 2);
    assert.ok(runs.length >= 1);
    for (const kind of ["tool-input-start", "tool-call", "tool-result", "finish"]) {
      assert.ok(kinds.has(kind), kind);
    }
    if (runs.length === 1) assert.deepEqual(JSON.parse(input), runs[0]);
  });

  test(`AI SDK, ${dialect}: errors name what is wrong`, async () => {
    await assert.rejects(generateText(asked(dialect, { model: models[dialect]("none") })),
      (error) => APICallError.isInstance(error) && error.statusCode === 404
        && /none/.test(error.message));
  });

  test(`AI SDK, ${dialect}: an abort stops the engine`, async () => {
    const abort = new AbortController();
    const streamed = streamText(asked(dialect, {
      tools: undefined, prepareStep: undefined, maxOutputTokens: 7000, onError: () => {},
      abortSignal: abort.signal,
    }));
    for await (const _ of streamed.fullStream) abort.abort();
    await waitIdle(server, 1000);
  });
}

// An output of a type: a model of random weights would write until its budget is spent, at which
// the framework throws. The tool is there until it has run: such a model would call it at random
// for as long as it may.
const answerType = z.object({ answer: z.string().max(20) }).strict();
const agent = (model) => new Agent({
  name: "Weather", instructions: "Be brief.", model, outputType: answerType,
  modelSettings: { toolChoice: "required", parallelToolCalls: false, maxTokens: 200 },
  tools: [agentTool({
    name: "weather", description: "Tells the weather.", parameters: schema,
    isEnabled: () => runs.length === 0,
    execute: async (input) => {
      runs.push(input);
      return `Rain in ${input.city}.`;
    },
  })],
});

const kinds = { chat: OpenAIChatCompletionsModel, responses: OpenAIResponsesModel };
for (const [dialect, stream] of [
  ["chat", false], ["chat", true], ["responses", false], ["responses", true],
]) {
  test(`OpenAI Agents, ${dialect}${stream ? ", streamed" : ""}: a loop of two turns`, async () => {
    runs.length = 0;
    const client = new OpenAI({ baseURL: server.baseURL, apiKey: "test-key", maxRetries: 0 });
    const model = new kinds[dialect](client, "local");
    const result = await new Runner().run(agent(model), "Go.", { stream, maxTurns: 2 });
    if (stream) {
      for await (const _ of result) { /* to its end */ }
      await result.completed;
    }
    assert.ok(runs.length >= 1);
    for (const input of runs) schema.parse(input);
    const items = result.newItems.map((item) => item.type);
    assert.ok(items.includes("tool_call_item") && items.includes("tool_call_output_item"));
    answerType.parse(result.finalOutput);
  });
}
