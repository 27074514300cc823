// The programs of examples/ that run in Node, as their readers run them.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { startKvgate, TINY_SHAPE } from "./kvgate.mjs";

const EXAMPLES = fileURLToPath(new URL("../../examples", import.meta.url));
// A folder from which the packages of these tests are found.
const folder = mkdtempSync(fileURLToPath(new URL("node_modules/.examples-", import.meta.url)));
let server;

before(async () => { server = await startKvgate(TINY_SHAPE); });
after(async () => {
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
});

async function run(name, ...args) {
  copyFileSync(join(EXAMPLES, name), join(folder, name));
  return promisify(execFile)(process.execPath, [join(folder, name), ...args]);
}

test("an agent framework runs its tool through the gateway", async () => {
  const { stdout } = await run("agent_framework.mjs", server.baseURL);
  assert.match(stdout, /^tool: weather of (Oslo|Lima) (today|tomorrow)$/m);
  assert.match(stdout, /^answer: ./m);
  const [, requests, cached] = /(\d+) requests, \d+ tokens of prompts, (\d+) from/.exec(stdout);
  assert.ok(Number(requests) >= 2, stdout);
  assert.ok(Number(cached) > 0, stdout);
});

test("a session of OpenAI's client is kept by the gateway", async () => {
  const { stdout } = await run("remote_session.mjs", server.baseURL, "node-test");
  const turns = [...stdout.matchAll(/\[(\d+) tokens of prompt, (\d+) from the cache\]/g)]
    .map((match) => match.slice(1).map(Number));
  assert.equal(turns.length, 2, stdout);
  assert.ok(turns[1][0] > turns[0][0] && turns[1][1] > 0, stdout);
  assert.match(stdout, /^kept: 2 turns$/m);
});

for (const name of ["agent_framework.mjs", "remote_session.mjs"]) {
  test(`${name} says why it cannot reach a gateway`, async () => {
    await assert.rejects(run(name, "http://127.0.0.1:9/v1"), (error) => {
      assert.equal(error.code, 1);
      assert.match(error.stderr, /^error: /m);
      return true;
    });
  });
}
