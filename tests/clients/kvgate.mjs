// Starts the real binary for the client tests and stops it: what tests/e2e/server.py is to Python.
import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const BINARY = process.env.KVGATE_BIN ?? join(ROOT, "build/release/bin/kvgate");
const READY_MS_MAX = 120_000;
// Slow enough that a long stream is still running when a test aborts it.
const SHAPE = {
  arch: "qwen2", layers: 8, hidden: 512, heads: 8, "kv-heads": 4, ffn: 1536, vocab: 4096,
  context: 16384, type: "f16", seed: 7,
};

// Quick: for tests of many requests.
export const TINY_SHAPE = {
  arch: "llama", layers: 2, hidden: 128, heads: 4, "kv-heads": 2, ffn: 256, vocab: 512,
  context: 8192, type: "f32", seed: 7,
};

const CALLING_SHAPE = {
  arch: "qwen2", layers: 1, hidden: 256, heads: 4, "kv-heads": 1, ffn: 64, vocab: 4096,
  context: 32768, type: "f16", seed: 7,
};

function makeModel(made, out) {
  const shape = Object.entries(made).flatMap(([key, value]) => [`--${key}`, String(value)]);
  execFileSync(BINARY, ["make-model", ...shape, "--out", out]);
}

export async function startKvgate(made = SHAPE) {
  if (!existsSync(BINARY)) throw new Error(`${BINARY} is not built`);
  const folder = mkdtempSync(join(tmpdir(), "kvgate-clients-"));
  const model = join(folder, "model.gguf");
  makeModel(made, model);
  return serve(folder, ["--model", model, "--set", "engine.kv_memory=192MiB"]);
}

// With a model that says the pieces behind every prompt, each as one token: calls of tools.
export async function startCalling(pieces) {
  if (!existsSync(BINARY)) throw new Error(`${BINARY} is not built`);
  const folder = mkdtempSync(join(tmpdir(), "kvgate-clients-"));
  const base = join(folder, "base.gguf");
  const model = join(folder, "model.gguf");
  makeModel(CALLING_SHAPE, base);
  execFileSync("python3", [join(ROOT, "tests/support/calling_model.py"), base, model, ...pieces]);
  return serve(folder, ["--model", model, "--set", "engine.kv_memory=192MiB"]);
}

// Without a model, in front of the upstreams of a configuration.
export async function startGateway(config) {
  if (!existsSync(BINARY)) throw new Error(`${BINARY} is not built`);
  const folder = mkdtempSync(join(tmpdir(), "kvgate-clients-"));
  writeFileSync(join(folder, "kvgate.toml"), config);
  return serve(folder, ["--config", join(folder, "kvgate.toml")]);
}

async function serve(folder, args) {
  const child = spawn(BINARY, ["serve", "--listen", "127.0.0.1:0", "--data-dir",
    join(folder, "data"), ...args], { stdio: ["ignore", "pipe", "inherit"] });
  const address = await listening(child);
  const ask = (path) => fetch(`http://${address}/kvgate/v1/${path}`);
  return {
    url: `http://${address}`,
    baseURL: `http://${address}/v1`,
    stats: async () => (await ask("stats")).json(),
    // The ledger's; it is there within a second.
    record: async (requestId) => {
      for (let tries = 0; tries < 100; ++tries) {
        const found = await ask(`requests/${requestId}`);
        if (found.status === 200) return found.json();
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
      throw new Error(`no record of ${requestId}`);
    },
    stop: async () => {
      const ended = new Promise((resolve) => child.once("exit", resolve));
      child.kill("SIGTERM");
      await ended;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

export function listening(child) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error("it did not listen")), READY_MS_MAX);
    child.once("exit", (code) => reject(new Error(`it ended with ${code}`)));
    createInterface({ input: child.stdout }).on("line", (line) => {
      const match = /listening on http:\/\/(\S+)/.exec(line);
      if (!match) return;
      clearTimeout(timer);
      resolve(match[1]);
    });
  });
}

// Polls until no request runs; throws after `milliseconds`.
export async function waitIdle(server, milliseconds) {
  const end = Date.now() + milliseconds;
  let running;
  do {
    ({ running } = (await server.stats()).engine);
    if (running === 0) return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  } while (Date.now() < end);
  throw new Error(`${running} requests still run after ${milliseconds} ms`);
}

// A few hundred tokens, the same for the same name.
export function longText(name) {
  return Array.from({ length: 120 }, (_, i) => `${name} rule ${i}: read before you write.`)
    .join(" ");
}
