// Session-keyed chats by clients that know nothing of sessions: each turn is sent alone, under the
// header x-kvgate-session, and the answer is of the whole conversation.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import Anthropic from "@anthropic-ai/sdk";
import { ChatOpenAI } from "@langchain/openai";
import { generateText, streamText } from "ai";
import OpenAI from "openai";

import { startKvgate, TINY_SHAPE } from "./kvgate.mjs";

const TURNS = 6;
const TOKENS_MAX = 12;
const SYSTEM = "You are brief. ".repeat(20);

let server;
before(async () => { server = await startKvgate(TINY_SHAPE); });
after(() => server.stop());

const headers = (key) => ({ "x-kvgate-session": key });
// A credential is its header: a session belongs to the one that made it.
const credential = (name) => (name.startsWith("AI SDK, Anthropic")
  ? { "x-api-key": "k" } : { authorization: "Bearer k" });
const said = (turn) => `This is what is said in turn ${turn}, and it is new.`;
const text = async (stream) => {
  let all = "";
  for await (const piece of stream) all += piece;
  return all;
};

// What a client is asked with: a turn's text, returns {text, prompt, cached}.
const clients = {
  "openai, chat": (key) => {
    const client = new OpenAI({ baseURL: server.baseURL, apiKey: "k", maxRetries: 0,
      defaultHeaders: headers(key) });
    return async (turn) => {
      const answer = await client.chat.completions.create({ model: "local", temperature: 0,
        max_tokens: TOKENS_MAX, messages: [...(turn === 0 ? [{ role: "system", content: SYSTEM }]
          : []), { role: "user", content: said(turn) }] });
      return { text: answer.choices[0].message.content, prompt: answer.usage.prompt_tokens,
        cached: answer.usage.prompt_tokens_details.cached_tokens };
    };
  },
  "openai, chat streamed": (key) => {
    const client = new OpenAI({ baseURL: server.baseURL, apiKey: "k", maxRetries: 0,
      defaultHeaders: headers(key) });
    return async (turn) => {
      const stream = client.chat.completions.stream({ model: "local", temperature: 0,
        max_tokens: TOKENS_MAX, stream_options: { include_usage: true },
        messages: [{ role: "system", content: SYSTEM }, { role: "user", content: said(turn) }] });
      const answer = await stream.finalChatCompletion();
      return { text: answer.choices[0].message.content, prompt: answer.usage.prompt_tokens,
        cached: answer.usage.prompt_tokens_details.cached_tokens };
    };
  },
  "openai, responses": (key) => {
    const client = new OpenAI({ baseURL: server.baseURL, apiKey: "k", maxRetries: 0,
      defaultHeaders: headers(key) });
    return async (turn) => {
      const answer = await client.responses.create({ model: "local", temperature: 0,
        max_output_tokens: TOKENS_MAX, instructions: SYSTEM, input: said(turn) });
      return { text: answer.output_text, prompt: answer.usage.input_tokens,
        cached: answer.usage.input_tokens_details.cached_tokens };
    };
  },
  "@anthropic-ai/sdk": (key) => {
    const client = new Anthropic({ baseURL: server.url, apiKey: "k", maxRetries: 0,
      defaultHeaders: headers(key) });
    return async (turn) => {
      const answer = await client.messages.create({ model: "local", temperature: 0,
        max_tokens: TOKENS_MAX, system: SYSTEM,
        messages: [{ role: "user", content: said(turn) }] });
      const { input_tokens, cache_read_input_tokens, cache_creation_input_tokens } = answer.usage;
      return { text: answer.content.map((block) => block.text ?? "").join(""),
        prompt: input_tokens + cache_read_input_tokens + cache_creation_input_tokens,
        cached: cache_read_input_tokens };
    };
  },
  "AI SDK, OpenAI": (key) => {
    const openai = createOpenAI({ baseURL: server.baseURL, apiKey: "k", headers: headers(key) });
    return async (turn) => {
      const answer = await generateText({ model: openai.chat("local"), system: SYSTEM,
        prompt: said(turn), maxOutputTokens: TOKENS_MAX, temperature: 0, maxRetries: 0 });
      return { text: answer.text, prompt: answer.usage.inputTokens,
        cached: answer.usage.inputTokenDetails.cacheReadTokens ?? 0 };
    };
  },
  "AI SDK, Anthropic streamed": (key) => {
    const anthropic = createAnthropic({ baseURL: server.baseURL, apiKey: "k",
      headers: headers(key) });
    return async (turn) => {
      let failed;
      const stream = streamText({ model: anthropic("local"), system: SYSTEM, prompt: said(turn),
        maxOutputTokens: TOKENS_MAX, temperature: 0, maxRetries: 0,
        onError: ({ error }) => { failed = error; } });
      const all = await text(stream.textStream);
      if (failed) throw failed;
      const usage = await stream.usage;
      return { text: all, prompt: usage.inputTokens,
        cached: usage.inputTokenDetails.cacheReadTokens ?? 0 };
    };
  },
  "LangChain.js": (key) => {
    const model = new ChatOpenAI({ model: "local", apiKey: "k", temperature: 0, maxRetries: 0,
      maxTokens: TOKENS_MAX, useResponsesApi: false,
      configuration: { baseURL: server.baseURL, defaultHeaders: headers(key) } });
    return async (turn) => {
      const answer = await model.invoke([["system", SYSTEM], ["human", said(turn)]]);
      return { text: answer.content, prompt: answer.usage_metadata.input_tokens,
        cached: answer.usage_metadata.input_token_details?.cache_read ?? 0 };
    };
  },
};

for (const [name, client] of Object.entries(clients)) {
  test(`${name}: a chat of ${TURNS} turns, each sent alone`, async () => {
    const key = name.replace(/[^a-z]+/gi, "-");
    const ask = client(key);
    const answers = [];
    for (let turn = 0; turn < TURNS; ++turn) answers.push(await ask(turn));
    for (let turn = 1; turn < TURNS; ++turn) {
      const [last, answer] = [answers[turn - 1], answers[turn]];
      assert.ok(answer.prompt > last.prompt, `turn ${turn}: ${JSON.stringify(answers)}`);
      // All but the last block of what was computed before.
      assert.ok(answer.cached >= last.prompt - 32, `turn ${turn}: ${JSON.stringify(answers)}`);
    }
    const kept = await (await fetch(`${server.url}/kvgate/v1/sessions/${key}`,
      { headers: credential(name) })).json();
    assert.equal(kept.turns, TURNS);
    kept.data.forEach((entry, turn) => {
      assert.ok(JSON.stringify(entry.input).includes(said(turn)));
      const answered = JSON.stringify(entry.answer);
      const shown = JSON.stringify(answers[turn].text).slice(1, -1);
      assert.ok(answered.includes(shown), `${answered} has no ${shown}`);
    });
  });

  test(`${name}: another conversation under the same key is refused`, async () => {
    const key = `${name.replace(/[^a-z]+/gi, "-")}-other`;
    const made = await fetch(`${server.baseURL}/chat/completions`, { method: "POST",
      headers: { "content-type": "application/json", ...headers(key), ...credential(name) },
      body: JSON.stringify({ model: "local", max_tokens: 1, messages: [
        { role: "system", content: "Another one." }, { role: "user", content: "Hi" }] }) });
    assert.equal(made.status, 200);
    // The system text is another one; so is the dialect, for some.
    await assert.rejects(client(key)(0), (error) => {
      const status = error.status ?? error.statusCode;
      assert.ok([400, 409].includes(status), `${status}: ${error}`);
      return true;
    });
  });
}
