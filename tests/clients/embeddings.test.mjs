// The official OpenAI client asks a local model for embeddings.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import OpenAI from "openai";

import { startKvgate } from "./kvgate.mjs";

const SHAPE = {
  arch: "bert", layers: 2, hidden: 64, heads: 2, ffn: 96, vocab: 1000, context: 128, type: "f32",
  seed: 3,
};

let server;
let client;

before(async () => {
  server = await startKvgate(SHAPE);
  client = new OpenAI({ baseURL: server.baseURL, apiKey: "test-key", maxRetries: 0 });
});
after(() => server.stop());

test("vectors in the client's own base64 are those in numbers", async () => {
  const asked = { model: "local", input: ["one text", "zwei", "三"] };
  const packed = await client.embeddings.create(asked);
  const plain = await client.embeddings.create({ ...asked, encoding_format: "float" });
  assert.equal(packed.object, "list");
  assert.deepEqual(packed.usage, plain.usage);
  for (const [index, one] of packed.data.entries()) {
    assert.equal(one.index, index);
    assert.deepEqual(one.embedding, plain.data[index].embedding.map(Math.fround));
    assert.ok(Math.abs(Math.hypot(...one.embedding) - 1) < 1e-5);
  }
});

test("fewer dimensions, and errors that the client knows by their class", async () => {
  const short = await client.embeddings.create({ model: "local", input: "one", dimensions: 8 });
  assert.equal(short.data[0].embedding.length, 8);
  await assert.rejects(client.embeddings.create({ model: "local", input: ["a", ""] }),
    (error) => error instanceof OpenAI.BadRequestError && error.param === "input[1]");
  await assert.rejects(
    client.chat.completions.create({ model: "local", messages: [{ role: "user", content: "a" }] }),
    (error) => error instanceof OpenAI.BadRequestError && error.param === "model");
});
