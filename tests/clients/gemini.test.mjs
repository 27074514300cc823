// The official Gemini client against the local engine, a server that knows only chats, and a
// provider that speaks Gemini's own dialect: each case is the same three times.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";

import { ApiError, GoogleGenAI, Type } from "@google/genai";

import { agentTools } from "./agent.mjs";
import { longText, startCalling, startKvgate, waitIdle } from "./kvgate.mjs";
import { freedAfter, startChatProvider, startGeminiProvider } from "./provider.mjs";

const makeClient = (baseUrl) => new GoogleGenAI({ apiKey: "sk-test", httpOptions: { baseUrl } });
const SCHEMA = {
  type: Type.OBJECT, required: ["color", "ok"], propertyOrdering: ["color", "ok"],
  properties: { color: { type: Type.STRING, enum: ["red", "green"] }, ok: { type: Type.BOOLEAN } },
};
const JSON_SCHEMA = {
  type: "object", required: ["color", "ok"], additionalProperties: false,
  properties: { color: { type: "string", enum: ["red", "green"] }, ok: { type: "boolean" } },
};
const tools = [{ functionDeclarations: [{
  name: "look_up", description: "Looks up.",
  parameters: { type: Type.OBJECT, properties: { q: { type: Type.STRING } }, required: ["q"] },
}] }];
const said = (text, role = "user") => ({ role, parts: [{ text }] });

const targets = [{
  name: "the local engine", start: startKvgate, url: (world) => world.url, model: "local",
}, {
  name: "a chat-only server", start: startChatProvider, url: (world) => world.urls.through,
  model: "gemini-3-flash",
}, {
  name: "Gemini", start: startGeminiProvider, url: (world) => world.urls.through,
  model: "gemini-3-flash",
}];

// The error's own status, and what it makes of the body.
async function errorOf(run) {
  let error;
  await assert.rejects(run, (found) => { error = found; return found instanceof ApiError; });
  const body = JSON.parse(error.message).error;
  assert.equal(body.code, error.status);
  assert.ok(body.message.length > 0);
  return body;
}

// A call, its answer and the text behind it; with `ids` as the model gave them, or without any.
async function toolLoop({ client, model, ids, stream }) {
  const bare = ({ id: _, ...rest }) => rest;
  const contents = [said("call the tool")];
  const ask = async () => {
    const asked = { model, contents, config: { tools } };
    if (!stream) return client.models.generateContent(asked);
    const parts = [];
    let last;
    for await (const chunk of await client.models.generateContentStream(asked)) {
      parts.push(...chunk.candidates[0].content?.parts ?? []);
      last = chunk;
    }
    last.candidates[0].content = { role: "model", parts };
    return last;
  };
  const first = await ask();
  assert.equal(first.candidates[0].finishReason, "STOP");
  assert.equal(first.functionCalls.length, 1);
  const [call] = first.functionCalls;
  assert.equal(call.name, "look_up");
  assert.match(call.args.q, /^naïve/);
  const content = first.candidates[0].content;
  const response = { id: call.id, name: call.name, response: { output: "found" } };
  contents.push(
    ids ? content : { ...content, parts: content.parts.map((part) => part.functionCall
      ? { ...part, functionCall: bare(part.functionCall) } : part) },
    { role: "user", parts: [{ functionResponse: ids ? response : bare(response) }] });
  const final = await ask();
  assert.equal(final.functionCalls, undefined);
  assert.ok(final.text.length > 10);
}

for (const { name, start, url, model } of targets) {
  const isLocal = model === "local";
  const isChat = name === "a chat-only server";

  describe(name, () => {
    let world;
    let client;
    before(async () => { world = await start(); client = makeClient(url(world)); });
    after(() => world.stop());

    const lastSent = async () => {
      const sent = (await world.requests()).at(-1);
      return { target: sent.target, body: JSON.parse(Buffer.from(sent.body, "base64")) };
    };
    const asked = (about, config = {}) => ({
      model, contents: "Go.", config: { maxOutputTokens: 12, temperature: 0,
        systemInstruction: longText(about) + longText(`${about} more`), ...config },
    });

    test("an answer has its text and usage, and the next one what was cached", async () => {
      const first = await client.models.generateContent(asked("whole"));
      const [candidate] = first.candidates;
      assert.equal(candidate.content.role, "model");
      assert.ok(["STOP", "MAX_TOKENS"].includes(candidate.finishReason));
      assert.ok(first.text.length > 0);
      assert.ok(first.responseId && first.modelVersion);
      const usage = first.usageMetadata;
      assert.ok(usage.promptTokenCount > 500 && usage.candidatesTokenCount > 0);
      assert.equal(usage.totalTokenCount, usage.promptTokenCount + usage.candidatesTokenCount
        + (usage.thoughtsTokenCount ?? 0));
      assert.equal(usage.cachedContentTokenCount ?? 0, 0);
      const second = await client.models.generateContent({ ...asked("whole"),
        contents: [said("Go."), candidate.content, said("And now?")] });
      assert.ok(second.usageMetadata.promptTokenCount > usage.promptTokenCount);
      if (!isChat) assert.ok(second.usageMetadata.cachedContentTokenCount > 500);
    });

    test("a stream has the same text, and says at its end why and how much", async () => {
      const whole = await client.models.generateContent(asked("stream"));
      const chunks = [];
      for await (const chunk of await client.models.generateContentStream(asked("stream"))) {
        chunks.push(chunk);
      }
      assert.ok(chunks.length > 1);
      const text = chunks.map((chunk) => chunk.text ?? "").join("");
      assert.ok(text.length > 0);
      // The simulated chat server answers a streamed request with other words than a whole one.
      if (!isChat) assert.equal(text, whole.text);
      const reasons = chunks.map((chunk) => chunk.candidates?.[0]?.finishReason);
      assert.equal(reasons.at(-1), whole.candidates[0].finishReason);
      assert.ok(reasons.slice(0, -1).every((reason) => reason === undefined));
      const usage = chunks.at(-1).usageMetadata;
      assert.equal(usage.promptTokenCount, whole.usageMetadata.promptTokenCount);
      assert.ok(usage.candidatesTokenCount > 0);
      if (!isChat) assert.ok(usage.cachedContentTokenCount > 500);
    });

    for (const ids of isLocal ? [] : [true, false]) {
      for (const stream of [false, true]) {
        const how = `${ids ? "with" : "without"} ids, ${stream ? "streamed" : "whole"}`;
        test(`a call, its answer and the text behind it, ${how}`, async () => {
          await toolLoop({ client, model, ids, stream });
          if (isChat) {
            const { messages } = (await lastSent()).body;
            assert.equal(messages.at(-1).role, "tool");
            assert.equal(messages.at(-1).tool_call_id, messages.at(-2).tool_calls[0].id);
          }
        });
      }
    }

    test("structured output, by either kind of schema", async () => {
      for (const schema of [{ responseSchema: SCHEMA }, { responseJsonSchema: JSON_SCHEMA }]) {
        const answer = await client.models.generateContent({ model, contents: "Choose.",
          config: { responseMimeType: "application/json", maxOutputTokens: 200, ...schema } });
        if (isChat) {  // it answers in words, whatever it is asked for
          const format = (await lastSent()).body.response_format;
          assert.equal(format.type, "json_schema");
          const { type, properties, required } = format.json_schema.schema;
          const expected = JSON_SCHEMA;
          assert.deepEqual({ type, properties, required }, { type: expected.type,
            properties: expected.properties, required: expected.required });
          continue;
        }
        const value = JSON.parse(answer.text);
        assert.deepEqual(Object.keys(value).sort(), ["color", "ok"]);
        assert.ok(["red", "green"].includes(value.color));
        assert.equal(typeof value.ok, "boolean");
      }
    });

    test("the system instruction is part of the prompt", async () => {
      const config = { maxOutputTokens: 8 };
      const without = await client.models.generateContent({ model, contents: "Go.", config });
      const systemInstruction = "Be brief, and say only what you know.";
      const withIt = await client.models.generateContent(
        { model, contents: "Go.", config: { ...config, systemInstruction } });
      assert.ok(withIt.usageMetadata.promptTokenCount > without.usageMetadata.promptTokenCount + 5);
      if (isLocal) return;
      const { target, body } = await lastSent();
      assert.equal(target, isChat ? "/v1/chat/completions"
        : `/v1beta/models/${model}:generateContent`);
      if (isChat) assert.equal(body.messages[0].content, systemInstruction);
      else assert.equal(body.systemInstruction.parts[0].text, systemInstruction);
    });

    test("counting gives the tokens that the answer then has", async () => {
      const contents = longText("count");
      const { totalTokens } = await client.models.countTokens({ model, contents });
      assert.ok(totalTokens > 200);
      if (isChat) return;  // estimated: such a server has nothing that counts
      const answer = await client.models.generateContent(
        { model, contents, config: { maxOutputTokens: 4 } });
      assert.equal(totalTokens, answer.usageMetadata.promptTokenCount);
    });

    test("models are listed, and each is found by its name", async () => {
      const names = [];
      for await (const found of await client.models.list()) names.push(found.name);
      assert.ok(names.length >= 1 && names.every((found) => found.startsWith("models/")), names);
      const one = await client.models.get({ model: names[0] });
      assert.equal(one.name, names[0]);
      assert.ok(one.supportedActions.includes("generateContent"));
      const error = await errorOf(() => client.models.get({ model: "gemini-none" }));
      assert.deepEqual([error.code, error.status], [404, "NOT_FOUND"]);
    });

    test("errors arrive as the client's own type, in Google's form", async () => {
      const bad = { contents: "Go.", model,
        config: { httpOptions: { extraBody: { contents: [{ role: "user", parts: [7] }] } } } };
      for (const method of ["generateContent", "generateContentStream"]) {
        const error = await errorOf(() => client.models[method](bad));
        assert.deepEqual([error.code, error.status], [400, "INVALID_ARGUMENT"]);
        assert.match(error.message, /contents/);
      }
      if (isChat) return;  // it takes any temperature, and answers for any model
      const hot = await errorOf(
        () => client.models.generateContent(asked("x", { temperature: "hot" })));
      assert.equal(hot.code, 400);
      assert.match(hot.message, /temperature/);
      const none = await errorOf(
        () => client.models.generateContent({ ...asked("x"), model: "gemini-none" }));
      assert.deepEqual([none.code, none.status], [404, "NOT_FOUND"]);
    });

    test("an error of the server behind it has its status", { skip: isLocal }, async () => {
      await world.failNext("status:429:1", "status:503");
      for (const [code, status] of [[429, "RESOURCE_EXHAUSTED"], [503, "UNAVAILABLE"]]) {
        const error = await errorOf(() => client.models.generateContent(asked("failing")));
        assert.deepEqual([error.code, error.status], [code, status]);
      }
      await world.failNext("error_event:3");
      const texts = [];
      await assert.rejects(async () => {
        const stream = await client.models.generateContentStream(asked("failing"));
        for await (const chunk of stream) texts.push(chunk.text);
      }, (error) => error instanceof ApiError && error.status >= 500);
      assert.ok(texts.length > 0);
    });

    test("an aborted stream frees who answers within a second", async () => {
      const abort = new AbortController();
      const stream = await client.models.generateContentStream(asked("abort", {
        maxOutputTokens: 4000, abortSignal: abort.signal,
        httpOptions: { headers: { "x-sim-fault": "drip:0.05", "x-sim-words": "2000" } },
      }));
      let chunks = 0;
      await assert.rejects(async () => {
        for await (const _ of stream) {
          chunks += 1;
          if (chunks === 4) abort.abort();
        }
      }, (error) => error.name === "AbortError");
      if (isLocal) await waitIdle(world, 1000);
      else assert.ok(await freedAfter(world) < 1000);
    });
  });
}

const INPUT = { path: "src/main.cc", count: 3 };

test("a session of tool calls on the local engine, each turn read from the cache", async () => {
  const server = await startCalling(["<tool_call>\n", '{"name": "tool_3", ',
    `"arguments": ${JSON.stringify(INPUT)}}`, "\n</tool_call>"]);
  const client = makeClient(server.url);
  const declared = agentTools(5).chat.map(({ function: { parameters, ...rest } }) =>
    ({ ...rest, parametersJsonSchema: parameters }));
  try {
    for (const ids of [true, false]) {
      const contents = [said("Read the files.")];
      let before = 0;
      for (let turn = 0; turn < 5; ++turn) {
        const answer = await client.models.generateContent({ model: "local", contents, config: {
          temperature: 0, systemInstruction: longText(`session ${ids}`),
          tools: [{ functionDeclarations: declared }] } });
        assert.equal(answer.functionCalls.length, 1);
        const { id, name, args } = answer.functionCalls[0];
        assert.deepEqual([name, args], ["tool_3", INPUT]);
        const usage = answer.usageMetadata;
        if (turn > 0) assert.ok(usage.cachedContentTokenCount > before - 32, `turn ${turn}`);
        before = usage.promptTokenCount;
        const response = { output: "a line of it\n".repeat(20 + 7 * turn) };
        contents.push(
          ids ? answer.candidates[0].content
            : { role: "model", parts: [{ functionCall: { name, args } }] },
          { role: "user", parts: [{ functionResponse: { ...ids && { id }, name, response } }] });
      }
    }
  } finally {
    await server.stop();
  }
});
