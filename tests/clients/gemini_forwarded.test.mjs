// The official Gemini client through kvgate to Gemini's own API: as if there were no kvgate.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { FunctionCallingConfigMode, GoogleGenAI } from "@google/genai";

import {
  answerHeaders, bothWays, freedAfter, outcomeOf, startGeminiProvider,
} from "./provider.mjs";

let provider;
before(async () => { provider = await startGeminiProvider(); });
after(() => provider.stop());

const makeClient = (baseUrl, apiKey, options = {}) =>
  new GoogleGenAI({ apiKey, httpOptions: { baseUrl, ...options } });
const compare = (name, run, check, options) => bothWays(name, {
  world: () => provider, makeClient: (url, key) => makeClient(url, key, options), run, check,
});

const FLASH = "gemini-2.5-flash";
const asked = (config = {}) => ({
  model: FLASH, contents: "é 😀 \u2028 \"quoted\"",
  config: { systemInstruction: "rules ".repeat(3000), ...config },
});
const failing = (fault) => asked({ httpOptions: { headers: { "x-sim-fault": fault } } });
const parameters = { type: "OBJECT", properties: { q: { type: "STRING" } }, required: ["q"] };
const tools = [{ functionDeclarations: [{ name: "look_up", parameters }] }];

// An answer without the headers of its connection.
const bare = ({ sdkHttpResponse: _, ...rest }) => rest;
async function collect(stream) {
  const chunks = [];
  for await (const chunk of await stream) chunks.push(bare(chunk));
  return chunks;
}

compare("an answer, and the same one from the cache", async ({ client }) => [
  bare(await client.models.generateContent(asked())),
  bare(await client.models.generateContent(asked())),
], ([cold, cached]) => {
  assert.equal(cold.candidates[0].finishReason, "STOP");
  assert.ok(cold.usageMetadata.thoughtsTokenCount > 0);
  assert.equal(cold.usageMetadata.cachedContentTokenCount, undefined);
  assert.ok(cached.usageMetadata.cachedContentTokenCount > 4000);
});

compare("a stream, chunk by chunk", ({ client }) =>
  collect(client.models.generateContentStream(asked())),
(chunks) => {
  assert.equal(chunks.at(-1).candidates[0].finishReason, "STOP");
  assert.ok(chunks.at(-1).usageMetadata.candidatesTokenCount > 0);
});

compare("a stream in pieces of three bytes", ({ client }) =>
  collect(client.models.generateContentStream(
    asked({ httpOptions: { headers: { "x-sim-chunk": "3" } } }))));

compare("thoughts and their signatures", async ({ client }) => {
  const request = { ...asked({ thinkingConfig: { includeThoughts: true } }),
    model: "gemini-3-flash" };
  return [bare(await client.models.generateContent(request)),
    await collect(client.models.generateContentStream(request))];
}, ([whole, chunks]) => {
  const [thought, text] = whole.candidates[0].content.parts;
  assert.equal(thought.thought, true);
  assert.equal(chunks.at(-1).candidates[0].content.parts[0].thoughtSignature,
    text.thoughtSignature);
});

for (const model of [FLASH, "gemini-3-flash"]) {
  compare(`a call, its answer and the text behind it: ${model}`, async ({ client }) => {
    const config = { tools };
    const contents = [{ role: "user", parts: [{ text: "call the tool" }] }];
    const first = await client.models.generateContent({ model, contents, config });
    const { id, name } = first.functionCalls[0];
    contents.push(first.candidates[0].content, { role: "user", parts: [
      { functionResponse: { id, name, response: { output: "found" } } }] });
    return [bare(first), bare(await client.models.generateContent({ model, contents, config }))];
  }, ([first, final]) => {
    const [part] = first.candidates[0].content.parts;
    assert.deepEqual(part.functionCall.args, { q: "naïve", n: 2 ** 53 });
    assert.ok(part.thoughtSignature.length > 0);
    assert.ok(final.candidates[0].content.parts[0].text.length > 10);
  });
}

compare("automatic function calling", async ({ client }) => {
  const called = [];
  const tool = {
    tool: async () => tools[0],
    callTool: async (calls) => calls.map(({ id, name, args }) => {
      called.push(args);
      return { functionResponse: { id, name, response: { output: "found" } } };
    }),
  };
  const answer = await client.models.generateContent(
    { model: FLASH, contents: "call the tool", config: { tools: [tool] } });
  return { called, text: answer.text };
}, ({ called, text }, sent) => {
  assert.equal(called.length, 1);
  assert.ok(text.length > 10);
  assert.equal(sent.length, 2);
});

compare("a call that is forced, and structured output", async ({ client }) => {
  const toolConfig = { functionCallingConfig: {
    mode: FunctionCallingConfigMode.ANY, allowedFunctionNames: ["look_up"] } };
  return [bare(await client.models.generateContent(asked({ tools, toolConfig }))),
    bare(await client.models.generateContent(
      asked({ responseMimeType: "application/json", responseSchema: parameters })))];
}, ([forced, structured]) => {
  assert.equal(forced.candidates[0].content.parts[0].functionCall.name, "look_up");
  assert.deepEqual(JSON.parse(structured.candidates[0].content.parts[0].text),
    { q: "naïve owls" });
});

compare("a chat, whole and streamed", async ({ client }) => {
  const chat = client.chats.create({ model: FLASH });
  await chat.sendMessage({ message: "one" });
  await collect(chat.sendMessageStream({ message: "two" }));
  return chat.getHistory();
}, (history) => assert.deepEqual(history.map(({ role }) => role).slice(0, 3),
  ["user", "model", "user"]));

compare("an explicit cache, made, used, changed and deleted", async ({ client }) => {
  const made = await client.caches.create({ model: FLASH, config: {
    systemInstruction: "rules ".repeat(3000), ttl: "300s", displayName: "rules" } });
  const answer = await client.models.generateContent(
    { model: FLASH, contents: "Go.", config: { cachedContent: made.name } });
  const changed = await client.caches.update({ name: made.name, config: { ttl: "900s" } });
  const found = await client.caches.get({ name: made.name });
  const later = changed.expireTime > made.expireTime && found.expireTime === changed.expireTime;
  await client.caches.delete({ name: made.name });
  const gone = await outcomeOf(() => client.models.generateContent(
    { model: FLASH, contents: "Go.", config: { cachedContent: made.name } }));
  return { tokens: made.usageMetadata.totalTokenCount, usage: answer.usageMetadata, later, gone };
}, ({ tokens, usage, later, gone }) => {
  assert.ok(tokens > 4000 && later);
  assert.equal(usage.cachedContentTokenCount, tokens);
  assert.equal(gone.status, 403);
});

compare("tokens are counted", async ({ client }) =>
  bare(await client.models.countTokens({ model: FLASH, contents: "word ".repeat(4000) })),
(count) => assert.equal(count.totalTokens > 4000, true));

test("the list of models has the provider's own, as they are there", async () => {
  const lists = {};
  for (const way of ["direct", "through"]) {
    const client = makeClient(provider.urls[way], "sk-list");
    lists[way] = [];
    for await (const model of await client.models.list()) lists[way].push(model);
    lists[`${way} one`] = bare(await client.models.get({ model: FLASH }));
  }
  assert.ok(lists.direct.length >= 3);
  assert.deepEqual(lists.through, lists.direct);
  assert.deepEqual(lists["through one"], lists["direct one"]);
});

test("the answer has the provider's headers, and kvgate's record its usage", async () => {
  const headers = {};
  let answer;
  for (const way of ["direct", "through"]) {
    const client = makeClient(provider.urls[way], `sk-ids-${way}`);
    answer = await client.models.generateContent(asked());
    headers[way] = new Headers(answer.sdkHttpResponse.headers);
  }
  assert.deepEqual(answerHeaders({ headers: headers.through }),
    answerHeaders({ headers: headers.direct }));
  const record = await provider.record(headers.through.get("x-kvgate-request-id"));
  const { candidatesTokenCount, thoughtsTokenCount } = answer.usageMetadata;
  assert.equal(record.usage.output_tokens, candidatesTokenCount + thoughtsTokenCount);
});

compare("compressed answers, whole and streamed", async ({ client }) => {
  const config = { httpOptions: { headers: { "x-sim-gzip": "1" } } };
  return [bare(await client.models.generateContent(asked(config))),
    await collect(client.models.generateContentStream(asked(config)))];
}, ([, chunks]) => assert.ok(chunks.length > 2));

for (const [status, name] of [[400, "INVALID_ARGUMENT"], [401, "UNAUTHENTICATED"],
  [403, "PERMISSION_DENIED"], [404, "NOT_FOUND"], [429, "RESOURCE_EXHAUSTED"], [500, "INTERNAL"],
  [503, "UNAVAILABLE"]]) {
  compare(`${status} is an ApiError with Google's own body`, ({ client }) =>
    outcomeOf(() => client.models.generateContent(failing(`status:${status}:7`))),
  (error) => {
    assert.equal(error.error, "ApiError");
    assert.equal(error.status, status);
    assert.equal(JSON.parse(error.message).error.status, name);
  });
}

compare("a field that the provider refuses, and a credential that is not valid",
  async ({ client, way }) => {
    const nonsense = asked({ httpOptions: { extraBody: { nonsense: 1 } } });
    const other = makeClient(provider.urls[way], "invalid");
    return [await outcomeOf(() => client.models.generateContent(nonsense)),
      await outcomeOf(() => other.models.generateContent(asked()))];
  }, ([refused, invalid]) => {
    assert.match(refused.message, /Unknown name \\"nonsense\\": Cannot find field/);
    assert.match(invalid.message, /API_KEY_INVALID/);
  });

compare("429 and 503 are tried again where the client asks for it", async ({ client }) => {
  await provider.failNext("status:429:1", "status:503");
  return bare(await client.models.generateContent(asked()));
}, (_, sent) => assert.equal(sent.length, 3),
{ retryOptions: { attempts: 3, initialDelay: 0.05, maxDelay: 0.1 } });

compare("the client's own timeout is its own", ({ client }) => outcomeOf(() =>
  client.models.generateContent(asked({ httpOptions: { timeout: 300,
    headers: { "x-sim-fault": "hang:20" } } }))),
(error, sent) => {
  assert.equal(error.error, "DOMException");
  assert.equal(sent.length, 1);
});

for (const fault of ["cut:5", "error_event:4"]) {
  compare(`a stream with ${fault}`, async ({ client }) => {
    const chunks = [];
    const outcome = await outcomeOf(async () => {
      for await (const chunk of await client.models.generateContentStream(failing(fault))) {
        chunks.push(bare(chunk));
      }
    });
    return { chunks, outcome };
  }, ({ chunks, outcome }) => {
    assert.ok(chunks.length >= 2);
    if (fault === "error_event:4") assert.equal(outcome.status, 503);
    assert.ok(outcome.error);
  });
}

test("a provider that hangs up is an error in the client's dialect that names it", async () => {
  const client = makeClient(provider.urls.through, "sk-down");
  for (const fault of ["close", "rst", "malformed:both"]) {
    const error = await outcomeOf(() => client.models.generateContent(failing(fault)));
    assert.deepEqual([error.error, error.status], ["ApiError", 502]);
    assert.match(JSON.parse(error.message).error.message, /upstream 'gemini' failed/);
  }
});

test("an aborted stream frees the provider within a second, either way", async () => {
  for (const way of ["direct", "through"]) {
    await provider.forget();
    const abort = new AbortController();
    const client = makeClient(provider.urls[way], "sk-abort");
    const stream = await client.models.generateContentStream(asked({
      abortSignal: abort.signal,
      httpOptions: { headers: { "x-sim-fault": "drip:0.05", "x-sim-words": "2000" } },
    }));
    let chunks = 0;
    const error = await outcomeOf(async () => {
      for await (const _ of stream) if (++chunks === 4) abort.abort();
    });
    assert.equal(error.error, "DOMException");
    assert.ok(await freedAfter(provider) < 1000, way);
  }
});
