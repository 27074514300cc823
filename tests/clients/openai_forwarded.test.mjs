// The official OpenAI client through kvgate to a provider: as if there were no kvgate.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import OpenAI from "openai";

import {
  answerHeaders, bothWays, describe, freedAfter, lastRequestId, outcomeOf, startProvider,
} from "./provider.mjs";

let provider;
before(async () => { provider = await startProvider(); });
after(() => provider.stop());

const makeClient = (url, apiKey, options = {}) =>
  new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0, ...options });
const compare = (name, run, check, options) => bothWays(name, {
  world: () => provider, makeClient: (url, key) => makeClient(url, key, options), run, check,
});

const chat = {
  model: "gpt-5.5",
  messages: [{ role: "system", content: "rules ".repeat(3000) },
    { role: "user", content: "é 😀 \u2028 \"quoted\" 9007199254740993" }],
};
const tool = {
  type: "function",
  function: {
    name: "look_up", parameters: { type: "object", properties: { q: { type: "string" } } },
  },
};
const failing = (fault) => ({ headers: { "x-sim-fault": fault } });

async function collect(stream) {
  const events = [];
  for await (const event of stream) events.push(event);
  return events;
}

compare("a chat completion, cold and cached", async ({ client }) => [
  await client.chat.completions.create(chat), await client.chat.completions.create(chat),
], ([cold, cached]) => {
  assert.equal(cold.choices[0].finish_reason, "stop");
  assert.ok(cached.usage.prompt_tokens_details.cached_tokens > 1000);
  assert.equal(cached._request_id, "req_…");
});

compare("a streamed chat, event by event, with usage", async ({ client }) => collect(
  await client.chat.completions.create(
    { ...chat, stream: true, stream_options: { include_usage: true } })),
(events) => assert.ok(events.length > 5 && events.at(-1).usage.total_tokens > 0));

compare("a streamed chat in pieces of three bytes", async ({ client }) => collect(
  await client.chat.completions.create({ ...chat, stream: true },
    { headers: { "x-sim-chunk": "3" } })),
(events) => assert.ok(events.some((event) => /🦉|é|ï/.test(event.choices[0].delta.content ?? ""))));

compare("the stream helper's final completion, with a tool call", async ({ client }) => {
  const asked = { ...chat, tools: [tool], messages: [{ role: "user", content: "call the tool" }] };
  return client.chat.completions.stream(asked).finalChatCompletion();
}, (whole) => assert.equal(whole.choices[0].message.tool_calls[0].function.arguments,
  "{\"q\": \"naïve \\u00e9\", \"n\": 12345678901234567890}"));

compare("runTools: the call, its result and the answer", async ({ client }) => {
  const called = [];
  const runner = client.chat.completions.runTools({
    model: "gpt-5.5", messages: [{ role: "user", content: "call the tool" }],
    tools: [{ type: "function", function: {
      name: "look_up", parameters: tool.function.parameters, parse: (text) => text,
      function: (text) => { called.push(text); return "found"; },
    } }],
  });
  return { content: await runner.finalContent(), called, messages: runner.messages };
}, ({ called, content }, sent) => {
  assert.equal(called.length, 1);
  assert.ok(content.length > 0);
  assert.equal(sent.length, 2);
});

compare("completions, whole and streamed", async ({ client }) => {
  const asked = { model: "gpt-4o", prompt: "Once upon a time" };
  return [await client.completions.create(asked),
    await collect(await client.completions.create({ ...asked, stream: true }))];
}, ([whole, events]) => {
  assert.ok(whole.choices[0].text.length > 0);
  assert.ok(events.map((event) => event.choices[0].text).join("").length > 0);
});

compare("embeddings, in the client's own base64 and as numbers", async ({ client }) => {
  const asked = { model: "text-embedding-3-small", input: ["one", "zwei", "三"] };
  return [await client.embeddings.create(asked),
    await client.embeddings.create({ ...asked, encoding_format: "float" })];
}, ([packed, plain]) => {
  assert.equal(plain.data.length, 3);
  for (const [index, value] of packed.data[2].embedding.entries()) {
    assert.ok(Math.abs(value - plain.data[2].embedding[index]) < 1e-6);
  }
});

compare("responses: whole, streamed, by the helper, with a tool", async ({ client }) => {
  const asked = { model: "gpt-6-sol", instructions: "Be short.", input: "Tell me." };
  const { name, parameters } = tool.function;
  const withTool = { ...asked, input: [{ role: "user", content: "call the tool" }],
    tools: [{ type: "function", name, parameters, strict: false }] };
  return [await client.responses.create(asked),
    await collect(await client.responses.create({ ...asked, stream: true })),
    await client.responses.stream(asked).finalResponse(),
    await client.responses.stream(withTool).finalResponse()];
}, ([whole, events, final, called]) => {
  assert.ok(whole.output_text.length > 0);
  assert.equal(events.at(-1).type, "response.completed");
  assert.ok(final.output_text.length > 0);
  assert.equal(called.output[0].type, "function_call");
});

compare("a response is found by its id, and deleted", async ({ client }) => {
  const made = await client.responses.create({ model: "gpt-6-sol", input: "Keep this." });
  const found = await client.responses.retrieve(made.id);
  const gone = await client.responses.delete(made.id);
  return [found.output_text === made.output_text, gone,
    await outcomeOf(() => client.responses.retrieve(made.id))];
}, ([same, , missing]) => {
  assert.ok(same);
  assert.equal(missing.error, "NotFoundError");
});

test("the list of models has the provider's own, as they are there", async () => {
  const lists = {};
  for (const way of ["direct", "through"]) {
    const client = makeClient(provider.urls[way], "sk-list");
    lists[way] = await collect(client.models.list());
    lists[`${way} one`] = await client.models.retrieve("gpt-5.5");
    lists[`${way} none`] = await outcomeOf(() => client.models.retrieve("gpt-none"));
  }
  assert.ok(lists.direct.length >= 4);
  const ids = lists.direct.map((model) => model.id);
  assert.deepEqual(lists.through.filter((model) => ids.includes(model.id)), lists.direct);
  assert.ok(lists.through.some((model) => model.id.startsWith("claude-")), "and the other one's");
  assert.deepEqual({ ...lists["through one"], _request_id: 0 },
    { ...lists["direct one"], _request_id: 0 });
  assert.deepEqual(lists["through none"].error, lists["direct none"].error);
});

compare("an endpoint that kvgate does not know", async ({ client }) =>
  client.post("/unknown/thing?x=%2F", { body: { model: "gpt-5.5", n: 1, deep: [{ a: null }] } }));

compare("the raw answer and its headers", async ({ client }) => {
  const raw = await client.chat.completions.create(chat).asResponse();
  const { response, data } = await client.chat.completions.create(chat).withResponse();
  return { status: raw.status, headers: answerHeaders(raw), text: (await raw.json()).choices,
    second: answerHeaders(response), content: data.choices[0].message.content };
}, ({ headers }) => assert.ok(headers.some(([name]) => name === "openai-processing-ms")));

test("_request_id is the provider's own, and kvgate's record has it", async () => {
  const client = makeClient(provider.urls.through, "sk-ids");
  const { data, response } = await client.chat.completions.create(chat).withResponse();
  assert.equal(data._request_id, await lastRequestId(provider));
  const record = await provider.record(response.headers.get("x-kvgate-request-id"));
  assert.equal(record.upstream_request_id, data._request_id);
  assert.equal(record.usage.output_tokens, data.usage.completion_tokens);
});

for (const zipped of [false, true]) {
  compare(`compressed answers, streamed: ${zipped}`, async ({ client }) => {
    const asked = { ...chat, stream: zipped };
    const options = { headers: { "x-sim-gzip": "1" } };
    const answer = await client.chat.completions.create(asked, options);
    return zipped ? collect(answer) : answer;
  }, (answer) => assert.ok((answer.length ?? 0) > 5 || answer.usage.total_tokens > 0));
}

for (const [status, type] of [[400, "BadRequestError"], [401, "AuthenticationError"],
  [403, "PermissionDeniedError"], [404, "NotFoundError"], [409, "ConflictError"],
  [422, "UnprocessableEntityError"], [429, "RateLimitError"], [500, "InternalServerError"],
  [503, "InternalServerError"], [529, "InternalServerError"]]) {
  compare(`${status} becomes ${type}`, ({ client }) =>
    client.chat.completions.create(chat, failing(`status:${status}:7`)),
  (error) => {
    assert.equal(error.error, type);
    assert.equal(error.status, status);
    assert.equal(error.retryAfter, "7");
    assert.equal(error.requestId, "string");
  });
}

compare("a field that the provider refuses", ({ client }) =>
  client.chat.completions.create({ ...chat, nonsense: 1 }),
(error) => assert.match(error.message, /nonsense/));

compare("429 with retry-after is tried again after that time, once", async ({ client }) => {
  await provider.failNext("status:429:1");
  const begin = Date.now();
  const whole = await client.chat.completions.create(chat);
  const waited = Date.now() - begin;
  return { whole, inTime: waited >= 950 && waited < 3000 };
}, ({ inTime }, sent) => {
  assert.ok(inTime);
  assert.equal(sent.length, 2);
  assert.ok(sent[1].headers.some(([name, value]) =>
    name.toLowerCase() === "x-stainless-retry-count" && value === "1"));
}, { maxRetries: 2 });

compare("500 is tried maxRetries times, and the last error is told", async ({ client }) => {
  await provider.failNext("status:500", "status:500", "status:500", "status:500");
  const error = await outcomeOf(() => client.chat.completions.create(chat));
  await provider.failNext();
  return error;
}, (error, sent) => {
  assert.equal(error.error, "InternalServerError");
  assert.equal(sent.length, 3);
}, { maxRetries: 2 });

compare("x-should-retry: false is heeded", async ({ client }) => {
  await provider.failNext("status:500:1");
  return outcomeOf(() => client.chat.completions.create(chat));
}, (_, sent) => assert.equal(sent.length, 1), { maxRetries: 2 });

compare("the client's own timeout is its own, and each try reaches the provider", ({ client }) =>
  client.chat.completions.create(chat, { ...failing("hang:20"), timeout: 300, maxRetries: 1 }),
(error, sent) => {
  assert.equal(error.error, "APIConnectionTimeoutError");
  assert.equal(sent.length, 2);
});

compare("a stream that breaks off breaks off", async ({ client }) => {
  const events = [];
  const outcome = await outcomeOf(async () => {
    const stream = await client.chat.completions.create({ ...chat, stream: true },
      failing("cut:4"));
    for await (const event of stream) events.push(event);
  });
  return { events, outcome };
}, ({ events, outcome }) => {
  assert.equal(events.length, 4);
  assert.ok(outcome.error);
});

compare("an error inside a stream", async ({ client }) => {
  const events = [];
  const outcome = await outcomeOf(async () => {
    const stream = await client.chat.completions.create({ ...chat, stream: true },
      failing("error_event:3"));
    for await (const event of stream) events.push(event);
  });
  return { events, outcome };
}, ({ events, outcome }) => {
  assert.equal(events.length, 3);
  assert.ok(outcome.error);
});

compare("an answer that is no JSON", ({ client }) =>
  client.chat.completions.create(chat, failing("malformed:json")));

// Here the two must differ: kvgate can say what went wrong on a connection that is not the
// client's. The client tries again as often either way.
test("a provider that hangs up is an error that names it", async () => {
  for (const fault of ["close", "rst", "malformed:garbage"]) {
    await provider.forget();
    const client = makeClient(provider.urls.through, "sk-down", { maxRetries: 1 });
    const error = await outcomeOf(() => client.chat.completions.create(chat, failing(fault)));
    assert.equal(error.error, "InternalServerError");
    assert.equal(error.status, 502);
    assert.match(error.message, /upstream 'open' failed/);
    assert.equal((await provider.requests()).length, 2);
  }
});

test("an aborted stream frees the provider within a second, either way", async () => {
  for (const way of ["direct", "through"]) {
    await provider.forget();
    const client = makeClient(provider.urls[way], "sk-abort");
    const stream = await client.chat.completions.create({ ...chat, stream: true },
      { headers: { "x-sim-fault": "drip:0.05", "x-sim-words": "2000" } });
    let events = 0;
    for await (const _ of stream) {
      events += 1;
      if (events === 4) break;
    }
    stream.controller.abort();
    assert.ok(await freedAfter(provider) < 1000, way);
  }
});

test("an aborted request that waits for its head frees the provider too", async () => {
  for (const way of ["direct", "through"]) {
    await provider.forget();
    const client = makeClient(provider.urls[way], "sk-abort");
    const controller = new AbortController();
    const asked = client.chat.completions.create(chat, { ...failing("slow:0.6"),
      signal: controller.signal });
    setTimeout(() => controller.abort(), 200);
    const error = await asked.catch(describe);
    assert.equal(error.error, "APIUserAbortError");
    await freedAfter(provider);
  }
});
