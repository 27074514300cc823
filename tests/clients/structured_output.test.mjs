// Structured output as the official OpenAI client asks for it, judged by ajv.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import Ajv from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import OpenAI from "openai";

import { startKvgate, TINY_SHAPE } from "./kvgate.mjs";
import { randomSchema } from "./random_schema.mjs";

const NUM_SCHEMAS = 500;
const IN_FLIGHT = 8;

let server;
let client;

before(async () => {
  server = await startKvgate(TINY_SHAPE);
  client = new OpenAI({ baseURL: server.baseURL, apiKey: "test-key", maxRetries: 0 });
});
after(() => server.stop());

const ask = (fields) => client.chat.completions.create({
  model: "local", messages: [{ role: "user", content: "Go." }], max_tokens: 1000, ...fields });
const formatOf = (schema) => (
  { type: "json_schema", json_schema: { name: "answer", strict: true, schema } });

test("answers to 500 random schemas parse and validate", async () => {
  const ajv = new Ajv({ strict: false, allErrors: true });
  addFormats(ajv);
  const failures = [];
  let next = 0;
  const work = async () => {
    while (next < NUM_SCHEMAS) {
      const seed = next++;
      const schema = randomSchema(seed);
      let content;
      try {
        const reply = await ask({ seed, response_format: formatOf(schema) });
        content = reply.choices[0].message.content;
        const validate = ajv.compile(schema);
        if (!validate(JSON.parse(content))) throw new Error(ajv.errorsText(validate.errors));
      } catch (error) {
        // A schema that nothing can meet is told from one that we fail.
        if (/no value/.test(error.message)) continue;
        failures.push({ seed, schema: JSON.stringify(schema), content, error: error.message });
      }
    }
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, work));
  assert.deepEqual(failures.slice(0, 5), [], `${failures.length} failures`);
});

test("an object is an object, streamed too", async () => {
  const stream = await ask({ response_format: { type: "json_object" }, stream: true, seed: 3 });
  let text = "";
  for await (const chunk of stream) text += chunk.choices[0]?.delta?.content ?? "";
  assert.equal(typeof JSON.parse(text), "object");
});

test("an unsupported keyword is an error of the client's class that names it", async () => {
  await assert.rejects(
    ask({ response_format: formatOf({ type: "object", properties: { x: { foo: 1 } } }) }),
    (error) => error instanceof OpenAI.BadRequestError &&
      error.param === "response_format.json_schema.schema.properties.x.foo");
});
