// A provider simulator, and kvgate in front of it: what works with the one must work through the
// other, with the same results and the same requests: in observe, which changes no byte.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { listening, startGateway } from "./kvgate.mjs";

const SIMULATOR = fileURLToPath(new URL("../support/provider_simulator.py", import.meta.url));

// The provider with its upstreams as a configuration says them, whose @ is its address.
async function start(config) {
  const child = spawn("python3", [SIMULATOR], { stdio: ["pipe", "pipe", "inherit"] });
  const direct = `http://${await listening(child)}`;
  const gateway = await startGateway(config.replaceAll("@", direct));
  const control = async (path, options) => (await fetch(`${direct}/sim/${path}`, options)).json();
  return {
    urls: { direct, through: gateway.url },
    record: (requestId) => gateway.record(requestId),
    requests: async () => (await control("requests")).data,
    forget: () => control("requests", { method: "DELETE" }),
    failNext: (...faults) => control("faults",
      { method: "POST", body: JSON.stringify({ next: faults }) }),
    stop: async () => {
      await gateway.stop();
      child.stdin.end();
    },
  };
}

export const startProvider = () => start(`
[[upstream]]
name = "open"
dialect = "openai"
base_url = "@/v1"
models = ["gpt-*", "text-*"]
mode = "observe"
breaker_failures = 0
forward_unknown = true
[[upstream]]
name = "anthropic"
dialect = "anthropic"
base_url = "@"
models = ["claude-*"]
mode = "observe"
breaker_failures = 0
`);

// A server that knows only chats, whatever model it is asked for.
export const startChatProvider = () => start(`
[[upstream]]
name = "chat"
dialect = "openai"
provider = "vllm"
base_url = "@/v1"
endpoints = ["chat"]
`);

// Gemini's API, which has a list of models of its own.
export const startGeminiProvider = () => start(`
[[upstream]]
name = "gemini"
dialect = "gemini"
base_url = "@"
models = ["gemini-*"]
mode = "observe"
breaker_failures = 0
forward_unknown = true
`);

// Runs a case against the provider and through kvgate, each with a credential of its own (caches
// belong to credentials) and compares what came of it and what the provider was sent. `run` gets
// {client, provider, way} and returns plain data; `check` looks at it once, for what must be there.
export function bothWays(name, { world, makeClient, run, check }) {
  test(name, async () => {
    const provider = world();
    const seen = {};
    for (const way of ["direct", "through"]) {
      await provider.forget();
      const key = `sk-${createHash("sha256").update(name).digest("hex").slice(0, 12)}`;
      const client = makeClient(provider.urls[way], `${key}-${way === "direct" ? "a" : "b"}`);
      const result = normal(await outcomeOf(() => run({ client, provider, way })));
      seen[way] = { result, sent: (await provider.requests()).map(asSent) };
    }
    assert.deepEqual(seen.through.result, seen.direct.result);
    assert.deepEqual(seen.through.sent, seen.direct.sent);
    check?.(seen.through.result, seen.through.sent);
  });
}

// The result, or the error as its caller sees it.
export async function outcomeOf(run) {
  try {
    return await run();
  } catch (error) {
    return describe(error);
  }
}

export function describe(error) {
  const { status, code, param, type, message } = error;
  return {
    error: error.constructor.name, status, code, param, type, message,
    requestId: typeof (error.requestID ?? undefined), retryAfter: error.headers?.get("retry-after"),
  };
}

// Plain data, without what differs between any two runs: times, and ids that hash the whole head.
// `_request_id` is a property that JSON does not show.
export function normal(value) {
  if (Array.isArray(value)) return value.map(normal);
  if (value === null || typeof value !== "object") return value ?? null;
  const entries = Object.entries(value).map(([key, inner]) =>
    [key, ["created", "created_at"].includes(key) ? typeof inner : normal(inner)]);
  const id = value._request_id;
  if (id) entries.push(["_request_id", /^req_[0-9a-f]{20}$/.test(id) ? "req_…" : id]);
  return Object.fromEntries(entries);
}

// What a provider may look at in a request: all but the connection's own and the credential.
const PER_WAY = ["host", "connection", "authorization", "x-api-key", "x-goog-api-key"];
function asSent(request) {
  return {
    method: request.method, target: request.target, sha256: request.body_sha256,
    headers: request.headers.filter(([name]) => !PER_WAY.includes(name.toLowerCase())),
  };
}

// The headers of an answer that belong to it and not to one of its connections.
export function answerHeaders(response) {
  const dropped = ["date", "connection", "keep-alive", "transfer-encoding", "x-request-id",
    "request-id", "x-kvgate-request-id"];
  return [...response.headers].filter(([name]) => !dropped.includes(name));
}

// The provider's own id of its last request: it hashes the head that it got.
export async function lastRequestId(provider) {
  const head = Buffer.from((await provider.requests()).at(-1).head, "base64");
  return `req_${createHash("sha256").update(head).digest("hex").slice(0, 20)}`;
}

// How long until the provider noticed that its client had gone; throws after a second.
export async function freedAfter(provider) {
  const begin = Date.now();
  while (Date.now() - begin < 1000) {
    if ((await provider.requests()).at(-1).cut) return Date.now() - begin;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error("the upstream still works a second after its client has left");
}
