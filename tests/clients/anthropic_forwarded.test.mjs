// The official Anthropic client through kvgate to a provider: as if there were no kvgate.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import Anthropic from "@anthropic-ai/sdk";
import { betaTool } from "@anthropic-ai/sdk/helpers/beta/json-schema";

import {
  answerHeaders, bothWays, freedAfter, lastRequestId, outcomeOf, startProvider,
} from "./provider.mjs";

let provider;
before(async () => { provider = await startProvider(); });
after(() => provider.stop());

const makeClient = (baseURL, apiKey, options = {}) =>
  new Anthropic({ baseURL, apiKey, maxRetries: 0, ...options });
const compare = (name, run, check, options) => bothWays(name, {
  world: () => provider, makeClient: (url, key) => makeClient(url, key, options), run, check,
});

const asked = {
  model: "claude-sonnet-5", max_tokens: 64,
  system: [{ type: "text", text: "rules ".repeat(3000), cache_control: { type: "ephemeral" } }],
  messages: [{ role: "user", content: "é 😀 \u2028 \"quoted\"" }],
};
const schema = { type: "object", properties: { q: { type: "string" } }, required: ["q"] };
const failing = (fault) => ({ headers: { "x-sim-fault": fault } });

async function collect(stream) {
  const events = [];
  for await (const event of stream) events.push(event);
  return events;
}

compare("a message, written to the cache and read from it", async ({ client }) => [
  await client.messages.create(asked), await client.messages.create(asked),
], ([cold, cached]) => {
  assert.equal(cold.content[0].type, "text");
  assert.ok(cold.usage.cache_creation_input_tokens > 4000);
  assert.equal(cached.usage.cache_read_input_tokens, cold.usage.cache_creation_input_tokens);
  assert.equal(cached._request_id, "req_…");
});

compare("a streamed message, event by event", async ({ client }) =>
  collect(await client.messages.create({ ...asked, stream: true })),
(events) => assert.equal(events.at(-1).type, "message_stop"));

compare("the stream helper: texts, events and the final message", async ({ client }) => {
  const texts = [];
  const stream = client.messages.stream(asked).on("text", (text) => texts.push(text));
  const final = await stream.finalMessage();
  return { texts, final, text: await stream.finalText() };
}, ({ texts, final, text }) => {
  assert.equal(texts.join(""), text);
  assert.equal(final.stop_reason, "end_turn");
  assert.ok(final.usage.output_tokens > 1);
});

compare("a stream in pieces of three bytes", async ({ client }) =>
  client.messages.stream(asked, { headers: { "x-sim-chunk": "3" } }).finalMessage());

compare("a streamed tool call", async ({ client }) => client.messages.stream({
  ...asked, tools: [{ name: "look_up", input_schema: schema }],
  messages: [{ role: "user", content: "call the tool" }],
}).finalMessage(), (final) => assert.deepEqual(final.content[0].input, { q: "naïve", n: 2 ** 53 }));

compare("the tool runner: refused thread, call, result and answer", async ({ client }) => {
  const called = [];
  const runner = client.beta.messages.toolRunner({
    model: "claude-sonnet-5", max_tokens: 64, max_iterations: 4,
    messages: [{ role: "user", content: "call the tool" }],
    tools: [betaTool({ name: "look_up", description: "Looks up.", inputSchema: schema,
      run: (input) => { called.push(input); return "found"; } })],
  });
  const final = await runner.runUntilDone();
  return { called, content: final.content };
}, ({ called, content }, sent) => {
  assert.equal(called.length, 1);
  assert.equal(content[0].type, "text");
  assert.ok(sent.length >= 2);
  assert.ok(sent.every((request) => request.target.startsWith("/v1/messages")));
});

compare("tokens are counted", ({ client }) => client.messages.countTokens(
  { model: asked.model, system: asked.system, messages: asked.messages }),
(count) => assert.ok(count.input_tokens > 4000));

compare("max_tokens 0 warms the cache", async ({ client }) => [
  await client.messages.create({ ...asked, max_tokens: 0 }), await client.messages.create(asked),
], ([warm, read]) => {
  assert.deepEqual(warm.content, []);
  assert.ok(read.usage.cache_read_input_tokens > 4000);
});

test("the list of models has the provider's own, as they are there", async () => {
  const lists = {};
  for (const way of ["direct", "through"]) {
    const client = makeClient(provider.urls[way], "sk-list");
    lists[way] = await collect(client.models.list());
    lists[`${way} one`] = await client.models.retrieve("claude-sonnet-5");
    lists[`${way} none`] = await outcomeOf(() => client.models.retrieve("claude-none"));
  }
  assert.ok(lists.direct.length >= 3);
  const ids = lists.direct.map((model) => model.id);
  assert.deepEqual(lists.through.filter((model) => ids.includes(model.id)), lists.direct);
  assert.ok(lists.through.some((model) => model.id.startsWith("gpt-")), "and the other one's");
  assert.deepEqual({ ...lists["through one"], _request_id: 0 },
    { ...lists["direct one"], _request_id: 0 });
  assert.equal(lists["through none"].error, "NotFoundError");
  assert.equal(lists["direct none"].error, "NotFoundError");
});

compare("the raw answer and its headers", async ({ client }) => {
  const raw = await client.messages.create(asked).asResponse();
  const { response, data } = await client.messages.create(asked).withResponse();
  return { status: raw.status, headers: answerHeaders(raw), content: (await raw.json()).content,
    second: answerHeaders(response), same: data.content };
}, ({ headers }) => assert.ok(
  headers.some(([name]) => name === "anthropic-ratelimit-requests-remaining")));

test("_request_id is the provider's own, and kvgate's record has it", async () => {
  const client = makeClient(provider.urls.through, "sk-ids");
  const { data, response } = await client.messages.create(asked).withResponse();
  assert.equal(data._request_id, await lastRequestId(provider));
  const record = await provider.record(response.headers.get("x-kvgate-request-id"));
  assert.equal(record.upstream_request_id, data._request_id);
  assert.equal(record.usage.output_tokens, data.usage.output_tokens);
});

compare("compressed answers, whole and streamed", async ({ client }) => {
  const options = { headers: { "x-sim-gzip": "1" } };
  return [await client.messages.create(asked, options),
    await client.messages.stream(asked, options).finalMessage()];
}, ([whole, final]) => {
  assert.ok(whole.content[0].text.length > 0);
  assert.ok(final.content[0].text.length > 0);
});

for (const [status, type] of [[400, "BadRequestError"], [401, "AuthenticationError"],
  [403, "PermissionDeniedError"], [404, "NotFoundError"], [413, "ContentTooLargeError"],
  [429, "RateLimitError"], [500, "InternalServerError"], [529, "OverloadedError"]]) {
  compare(`${status} becomes ${type}`, ({ client }) =>
    client.messages.create(asked, failing(`status:${status}:7`)),
  (error) => {
    assert.equal(error.error, type);
    assert.equal(error.status, status);
    assert.equal(error.retryAfter, "7");
    assert.equal(error.requestId, "string");
    if (status === 529) assert.equal(error.type, "overloaded_error");
  });
}

compare("a field that the provider refuses", ({ client }) =>
  client.messages.create({ ...asked, nonsense: 1 }),
(error) => assert.match(error.message, /nonsense/));

for (const status of [429, 529]) {
  compare(`${status} with retry-after is tried again after that time, once`,
    async ({ client }) => {
      await provider.failNext(`status:${status}:1`);
      const begin = Date.now();
      const whole = await client.messages.create(asked);
      const waited = Date.now() - begin;
      return { whole, inTime: waited >= 950 && waited < 3000 };
    }, ({ inTime }, sent) => {
      assert.ok(inTime);
      assert.equal(sent.length, 2);
      assert.ok(sent[1].headers.some(([name, value]) =>
        name.toLowerCase() === "x-stainless-retry-count" && value === "1"));
    }, { maxRetries: 2 });
}

compare("500 is tried maxRetries times, and the last error is told", async ({ client }) => {
  await provider.failNext("status:500", "status:500", "status:500", "status:500");
  const error = await outcomeOf(() => client.messages.create(asked));
  await provider.failNext();
  return error;
}, (error, sent) => {
  assert.equal(error.error, "InternalServerError");
  assert.equal(sent.length, 3);
}, { maxRetries: 2 });

compare("x-should-retry: false is heeded", async ({ client }) => {
  await provider.failNext("status:500:1");
  return outcomeOf(() => client.messages.create(asked));
}, (_, sent) => assert.equal(sent.length, 1), { maxRetries: 2 });

compare("the client's own timeout is its own, and each try reaches the provider", ({ client }) =>
  client.messages.create(asked, { ...failing("hang:20"), timeout: 300, maxRetries: 1 }),
(error, sent) => {
  assert.equal(error.error, "APIConnectionTimeoutError");
  assert.equal(sent.length, 2);
});

for (const fault of ["cut:5", "error_event:4"]) {
  compare(`a stream with ${fault}`, async ({ client }) => {
    const events = [];
    const outcome = await outcomeOf(async () => {
      const stream = await client.messages.create({ ...asked, stream: true }, failing(fault));
      for await (const event of stream) events.push(event);
    });
    return { events, outcome };
  }, ({ events, outcome }) => {
    assert.ok(events.length >= 2);
    assert.ok(outcome.error);
  });
}

compare("an answer that is no JSON", ({ client }) =>
  client.messages.create(asked, failing("malformed:json")));

test("a provider that hangs up is an error in the client's dialect that names it", async () => {
  for (const fault of ["close", "rst", "malformed:both"]) {
    await provider.forget();
    const client = makeClient(provider.urls.through, "sk-down", { maxRetries: 1 });
    const error = await outcomeOf(() => client.messages.create(asked, failing(fault)));
    assert.equal(error.error, "InternalServerError");
    assert.equal(error.status, 502);
    assert.equal(error.type, "api_error");
    assert.equal(error.requestId, "string");
    assert.match(error.message, /upstream 'anthropic' failed/);
    assert.equal((await provider.requests()).length, 2);
  }
});

test("an aborted stream frees the provider within a second, either way", async () => {
  for (const way of ["direct", "through"]) {
    await provider.forget();
    const client = makeClient(provider.urls[way], "sk-abort");
    const stream = client.messages.stream(asked,
      { headers: { "x-sim-fault": "drip:0.05", "x-sim-words": "2000" } });
    let texts = 0;
    stream.on("text", () => {
      texts += 1;
      if (texts === 4) stream.abort();
    });
    const error = await outcomeOf(() => stream.finalMessage());
    assert.equal(error.error, "APIUserAbortError");
    assert.ok(await freedAfter(provider) < 1000, way);
  }
});
