// The AI SDK through @ai-sdk/openai-compatible against the real binary.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { APICallError, generateText, streamText } from "ai";

import { longText, startKvgate, waitIdle } from "./kvgate.mjs";

let server;
let provider;

before(async () => {
  server = await startKvgate();
  provider = createOpenAICompatible({
    name: "kvgate", baseURL: server.baseURL, apiKey: "test-key", includeUsage: true,
  });
});
after(() => server.stop());

const asked = (name) => ({
  model: provider("local"), system: longText(name), prompt: "Go.", maxOutputTokens: 12,
  temperature: 0, maxRetries: 0,
});

test("generateText works and its second usage counts cached tokens", async () => {
  const first = await generateText(asked("generate"));
  const second = await generateText(asked("generate"));
  assert.ok(first.text.length > 0);
  assert.equal(second.text, first.text);
  assert.equal(first.usage.inputTokens, second.usage.inputTokens);
  assert.ok(second.usage.inputTokenDetails.cacheReadTokens > 500);
});

test("streamText gives the same text, a finish reason and the usage", async () => {
  const whole = await generateText(asked("stream"));
  const streamed = streamText(asked("stream"));
  let text = "";
  for await (const part of streamed.textStream) text += part;
  assert.equal(text, whole.text);
  assert.equal(await streamed.finishReason, whole.finishReason);
  const usage = await streamed.usage;
  assert.ok(usage.inputTokenDetails.cacheReadTokens > 500);
  assert.equal(usage.outputTokens, whole.usage.outputTokens);
});

test("an unknown model is an API error with its status, not retried", async () => {
  await assert.rejects(generateText({ ...asked("x"), model: provider("gpt-none") }),
    (error) => APICallError.isInstance(error) && error.statusCode === 404 && !error.isRetryable);
});

test("an aborted stream stops the engine within a second", async () => {
  const abort = new AbortController();
  const streamed = streamText({
    ...asked("abort"), maxOutputTokens: 4000, abortSignal: abort.signal,
    providerOptions: { kvgate: { ignore_eos: true } }, onError: () => {},
  });
  let parts = 0;
  for await (const _ of streamed.textStream) {
    parts += 1;
    if (parts === 3) abort.abort();
  }
  assert.ok(parts >= 3);
  await waitIdle(server, 1000);
});
