// The real binary with a local engine, in front of a provider simulator, and traffic of all kinds:
// chat completions, responses, messages, translated ones, a session, broken prefixes, failures.
import { execFileSync, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { listening, longText } from "../clients/kvgate.mjs";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const BINARY = process.env.KVGATE_BIN ?? join(ROOT, "build/release/bin/kvgate");
// The reason to skip; false if the binary is there.
export const NO_BINARY = existsSync(BINARY) ? false : `${BINARY} is not built`;
const SHAPE = ["--arch=llama", "--layers=2", "--hidden=128", "--heads=4", "--kv-heads=2",
  "--ffn=256", "--vocab=512", "--context=8192", "--type=f32", "--seed=7"];
export const SESSION = "agent:one";

const configOf = (provider, keys) => `
[sessions]
mode = "summary"
window_hard = 3000
window_high = 2600
window_low = 900
[budgets]
tokens_per_day = 50_000_000
${Object.entries(keys).map(([name, { key, role }]) => `
[[key]]
name = "${name}"
sha256 = "${createHash("sha256").update(key).digest("hex")}"
role = "${role}"
`).join("")}
[[upstream]]
name = "open"
dialect = "openai"
provider = "openai"
base_url = "${provider}/v1"
models = ["gpt-*"]
api_key_env = "KVGATE_TEST_PROVIDER_KEY"
[[upstream]]
name = "claude"
dialect = "anthropic"
provider = "anthropic"
base_url = "${provider}"
models = ["claude-*"]
api_key_env = "KVGATE_TEST_PROVIDER_KEY"
`;

export class Real {
  static async start(keys = {}) {
    const real = new Real();
    real.folder = mkdtempSync(join(tmpdir(), "kvgate-dashboard-"));
    real.provider = spawn("python3", [join(ROOT, "tests/support/provider_simulator.py")],
      { stdio: ["pipe", "pipe", "inherit"] });
    const direct = `http://${await listening(real.provider)}`;
    const model = join(real.folder, "tiny.gguf");
    execFileSync(BINARY, ["make-model", ...SHAPE, "--out", model]);
    const config = join(real.folder, "kvgate.toml");
    writeFileSync(config, configOf(direct, keys));
    real.child = spawn(BINARY, ["serve", "--listen", "127.0.0.1:0", "--config", config, "--model",
      model, "--data-dir", join(real.folder, "data"), "--set", "engine.kv_memory=64MiB"],
    { stdio: ["ignore", "pipe", "inherit"],
      env: { ...process.env, KVGATE_TEST_PROVIDER_KEY: "provider-key" } });
    real.url = `http://${await listening(real.child)}`;
    real.key = Object.values(keys)[0]?.key ?? "";
    return real;
  }

  async stop() {
    const ended = new Promise((resolve) => this.child.once("exit", resolve));
    this.child.kill("SIGTERM");
    await ended;
    this.provider.stdin.end();
    rmSync(this.folder, { recursive: true, force: true });
  }

  headers(more = {}) {
    return { ...(this.key ? { authorization: `Bearer ${this.key}` } : {}), ...more };
  }

  async ask(path) {
    const response = await fetch(`${this.url}/kvgate/v1/${path}`, { headers: this.headers() });
    return { status: response.status, body: await response.json() };
  }

  async post(path, body, headers = {}) {
    const response = await fetch(`${this.url}${path}`, { method: "POST", body: JSON.stringify(body),
      headers: this.headers({ "content-type": "application/json", ...headers }) });
    const text = await response.text();
    return { status: response.status, id: response.headers.get("x-kvgate-request-id"), text };
  }

  chat(model, system, user, more = {}) {
    return this.post("/v1/chat/completions", { model, max_tokens: 24, tools: toolsOf(),
      messages: [{ role: "system", content: system }, { role: "user", content: user }], ...more });
  }

  turn(text) {
    return this.post("/v1/chat/completions", { model: "local", max_tokens: 8,
      messages: [{ role: "user", content: text }] }, { "x-kvgate-session": SESSION });
  }

  // One of each; returns the ids by what they are.
  async traffic() {
    const rules = longText("engine");
    const ids = {};
    const took = async (name, sent) => {
      const answer = await sent;
      ids[name] = answer.id;
      if (answer.status !== 200) throw new Error(`${name}: ${answer.status} ${answer.text}`);
    };
    const at = (time) => `${rules} Now it is ${time}. ${longText("more")}`;
    await took("first", this.chat("gpt-5.5", at("12:00:00"), "one"));
    await took("broken", this.chat("gpt-5.5", at("12:07:31"), "two"));
    await took("responses", this.post("/v1/responses", { model: "gpt-5.5", instructions: rules,
      input: "three", max_output_tokens: 24 }));
    await took("messages", this.post("/v1/messages", { model: "claude-sonnet-4-5", max_tokens: 24,
      system: rules, messages: [{ role: "user", content: "four" }] }));
    await took("translated", this.chat("claude-sonnet-4-5", rules, "five", { tools: undefined }));
    await took("local", this.post("/v1/messages", { model: "local", max_tokens: 8,
      messages: [{ role: "user", content: longText("local").slice(0, 1200) }] }));
    for (let i = 0; i < 6; ++i) {
      await took("session", this.turn(`Turn ${i}: ${longText("turn").slice(0, 900)}`));
    }
    const failed = await this.chat("no-such-model", "a", "b");
    ids.failed = failed.id;
    await took("warm", this.post("/kvgate/v1/prefixes/warm", { model: "local",
      prompt: longText("warm").slice(0, 1500), kvgate: { name: "the-warm-one" } }));
    return ids;
  }
}

function toolsOf() {
  return ["mcp__github__search", "mcp__github__merge", "bash"].map((name) => ({ type: "function",
    function: { name, description: `Does ${name}. `.repeat(20),
      parameters: { type: "object", properties: { text: { type: "string" } } } } }));
}
