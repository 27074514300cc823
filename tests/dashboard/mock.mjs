// A gateway that answers made-up data, so that each state of the dashboard can be seen and tested:
// busy, empty, slow, failing, hostile, with keys, for a user. It serves the committed bundle with
// the headers of the real one. As a program: node mock.mjs [--port N] [--state NAME] [--rate N].
import { readFileSync, readdirSync } from "node:fs";
import { createServer } from "node:http";
import { fileURLToPath } from "node:url";
import { gunzipSync } from "node:zlib";

import {
  adviceOf, budgetsOf, clocksOf, prefixesOf, randomOf, recordAt, recordsOf, rollupOf, sessionOf,
  statsOf, templatesOf,
} from "./mock_data.mjs";

const BUNDLE = fileURLToPath(new URL("../../gateway/dashboard/bundle/", import.meta.url));
export const CSP = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
  + "img-src 'self' data:; font-src 'self'; base-uri 'none'; form-action 'none'; "
  + "frame-ancestors 'none'";
const TYPES = { html: "text/html; charset=utf-8", js: "text/javascript; charset=utf-8",
  css: "text/css; charset=utf-8", svg: "image/svg+xml" };
export const KEY = "key-of-an-admin";
export const USER_KEY = "key-of-a-user";
// What would do harm if it were taken for HTML, a path or a format.
export const HOSTILE = "<img src=x onerror=\"document.title='owned'\">'\"&lt;%2e%2e%s‮\u0000";

function fileOf(path) {
  const name = path === "/dashboard/" ? "index.html" : /^\/dashboard\/assets\/([\w.-]+)$/
    .exec(path)?.[1];
  if (!name || !readdirSync(BUNDLE).includes(`${name}.gz`)) return null;
  return { body: gunzipSync(readFileSync(`${BUNDLE}${name}.gz`)),
    type: TYPES[name.split(".").pop()] };
}

export class Mock {
  // `state`: "busy", "empty", "hostile"; `keys`: a key is asked for.
  constructor({ state = "busy", keys = false, seed = 7, records = 500 } = {}) {
    this.random = randomOf(seed);
    this.keys = keys;
    this.state = state;
    this.calls = []; // {method, path, body} of all that would change something
    this.failures = new Map(); // path → status
    this.older = false; // it does not estimate what requests would have cost directly
    this.delays = new Map(); // path → milliseconds
    this.readers = new Set();
    this.nowUs = Date.now() * 1000;
    this.fill(records);
    this.server = createServer((request, response) => {
      this.answer(request, response).catch((error) => {
        response.writeHead(500).end(JSON.stringify({ error: { message: String(error) } }));
      });
    });
  }

  fill(number) {
    const isEmpty = this.state === "empty";
    const made = sessionOf(this.random, this.nowUs, "agent-refactor-7f3", 44);
    const others = ["nightly-triage", "docs-writer", "support-bot:42"].map((key, i) =>
      sessionOf(this.random, this.nowUs - i * 5e9, key, [9, 21, 3][i]).session);
    this.sessions = isEmpty ? [] : [made.session, ...others];
    this.records = isEmpty ? [] : [...recordsOf(this.random, this.nowUs, number), ...made.records]
      .sort((a, b) => (a.id < b.id ? 1 : -1));
    this.prefixes = isEmpty ? [] : prefixesOf(this.random, this.nowUs);
    this.advice = isEmpty ? [] : adviceOf(this.records);
    this.budgets = isEmpty ? { thresholds: [0.5, 0.8, 1], data: [] } : budgetsOf(this.nowUs);
    this.stats = statsOf(this.random, this.nowUs);
    if (isEmpty) {
      Object.assign(this.stats, { engine: null, store: null, upstreams: [], models: [],
        stabilize_would_save: undefined });
      this.stats.ledger.clocks = [];
    }
    if (this.state === "hostile") this.poison();
  }

  poison() {
    for (const record of this.records) {
      Object.assign(record, { model: HOSTILE, upstream: HOSTILE, path: HOSTILE, key: HOSTILE,
        session: HOSTILE, tenant: HOSTILE, error: HOSTILE, answered_by: `${HOSTILE}2` });
      record.break = { cause: HOSTILE, path: HOSTILE, before: HOSTILE, after: `${HOSTILE} 2`,
        verdict: HOSTILE, reusable_tokens: 1, lost_tokens: 1, lost_nanodollars: 1 };
      for (const segment of record.segments) {
        Object.assign(segment, { name: HOSTILE, server: HOSTILE, path: HOSTILE, source: HOSTILE });
      }
    }
    for (const prefix of this.prefixes) Object.assign(prefix, { preview: HOSTILE, name: HOSTILE });
    for (const session of this.sessions) Object.assign(session, { model: HOSTILE });
    this.sessions[0].key = HOSTILE;
    for (const one of this.advice) {
      Object.assign(one, { title: HOSTILE, what: HOSTILE, fix: HOSTILE,
        setting: { key: HOSTILE, value: HOSTILE }, where: { model: HOSTILE, path: HOSTILE } });
    }
    for (const one of this.stats.ledger.clocks) Object.assign(one, { session: HOSTILE });
    for (const one of this.budgets.data) {
      one.tenant = HOSTILE;
      for (const budget of one.budgets) {
        Object.assign(budget, { budget: HOSTILE, renews_at: HOSTILE });
      }
    }
    for (const prefix of this.prefixes) Object.assign(prefix, { tier: HOSTILE });
    for (const one of this.stats.upstreams) Object.assign(one, { name: HOSTILE, breaker: HOSTILE });
    for (const one of this.stats.models) one.model = HOSTILE;
  }

  listen(port = 0) {
    return new Promise((resolve) => {
      this.server.listen(port, "127.0.0.1", () => {
        this.url = `http://127.0.0.1:${this.server.address().port}`;
        this.timer = setInterval(() => this.tick(), 1000);
        resolve(this);
      });
    });
  }

  stop() {
    clearInterval(this.timer);
    for (const reader of this.readers) reader.end();
    this.server.closeAllConnections();
    return new Promise((resolve) => this.server.close(resolve));
  }

  // Sends a record of now to all who read events.
  emit(shape = {}) {
    const record = { ...recordAt(this.random, Date.now() * 1000, shape), ...(shape.set ?? {}) };
    this.records.unshift(record);
    const { segments: _, ...sent } = record;
    this.send("request", sent);
    return record;
  }

  send(event, data) {
    for (const reader of this.readers) {
      reader.write(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
    }
  }

  tick() {
    for (const reader of this.readers) {
      reader.write(`event: stats\ndata: ${JSON.stringify(this.live(reader.role))}\n\n`);
    }
  }

  // What others do shows in some of it, which users do not get.
  live(role) {
    const isEmpty = this.state === "empty";
    const from = Date.now() * 1000 - 60e6;
    const recent = this.records.filter((record) => record.time_us > from && record.usage);
    const all = (read) => recent.reduce((sum, record) => sum + read(record), 0);
    const load = { requests_running: isEmpty ? 0 : 2, requests_waiting: isEmpty ? 0 : 1,
      requests_active: isEmpty ? 0 : 5, connections: 12 };
    return { time_us: Date.now() * 1000, ...(role === "admin" ? load : {}),
      minute: { requests: recent.length, failed: 0,
        cached_tokens: all((one) => one.usage.cache_read_tokens),
        written_tokens: all((one) => one.usage.cache_write_tokens),
        uncached_tokens: all((one) => one.usage.uncached_tokens),
        output_tokens: all((one) => one.usage.output_tokens),
        nanodollars: all((one) => one.cost.nanodollars),
        ...(this.older ? {}
          : { direct_nanodollars: all((one) => one.cost.direct_nanodollars) }),
        uncached_nanodollars: all((one) => one.cost.uncached_nanodollars) },
      ...(isEmpty || role !== "admin" ? {} : { tiers: [
        { tier: "device", used_bytes: 10_978_590_720, capacity_bytes: 15_032_385_536 },
        { tier: "host", used_bytes: 16_698_572_800, capacity_bytes: 30_064_771_072 },
        { tier: "disk", used_bytes: 12_873_400_211, capacity_bytes: 17_179_869_184 }] }) };
  }

  roleOf(request) {
    if (!this.keys) return "admin";
    const shown = (request.headers.authorization ?? "").replace(/^Bearer /, "");
    return shown === KEY ? "admin" : shown === USER_KEY ? "user" : null;
  }

  async answer(request, response) {
    const url = new URL(request.url, this.url);
    const path = url.pathname;
    const say = (status, body, headers = {}) => response.writeHead(status,
      { "content-type": "application/json", ...headers }).end(JSON.stringify(body));
    const refuse = (status, message) => say(status, { error: { message } });
    if (path === "/dashboard") return response.writeHead(308, { location: "dashboard/" }).end();
    if (path.startsWith("/dashboard/")) {
      const file = fileOf(path);
      if (!file) return refuse(404, "There is no such file.");
      return response.writeHead(200, { "content-type": file.type, "content-security-policy": CSP,
        "x-content-type-options": "nosniff", "referrer-policy": "no-referrer" }).end(file.body);
    }
    const role = this.roleOf(request);
    if (!role) return refuse(401, "This gateway asks for a key, and this is none.");
    const name = path.replace("/kvgate/v1/", "");
    if (this.delays.has(name)) {
      await new Promise((resolve) => setTimeout(resolve, this.delays.get(name)));
    }
    if (this.failures.has(name)) {
      const status = this.failures.get(name);
      return refuse(status, status === 403 ? "This needs a key of the role admin."
        : "It failed on purpose.");
    }
    let body = "";
    for await (const piece of request) body += piece;
    if (request.method !== "GET") {
      this.calls.push({ method: request.method, path: name + url.search,
        body: body ? JSON.parse(body) : null, type: request.headers["content-type"] });
    }
    if (name === "events") return this.begin(response, role);
    const found = this.route(request.method, name, url.searchParams, body, role);
    if (found === undefined) return refuse(404, `There is no ${name} here.`);
    if (typeof found === "string") {
      return response.writeHead(200, { "content-type": "application/octet-stream" }).end(found);
    }
    return say(found.error ? found.status : 200, found);
  }

  begin(response, role) {
    response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-cache" });
    response.write(": hello\n\n");
    response.write(`event: stats\ndata: ${JSON.stringify(this.live(role))}\n\n`);
    response.role = role;
    this.readers.add(response);
    response.on("close", () => this.readers.delete(response));
  }

  route(method, name, query, body, role) {
    const [top, rawId, verb] = name.split("/");
    const id = rawId === undefined ? undefined : decodeURIComponent(rawId);
    switch (top) {
      case "stats": return this.statsFor(query, role);
      case "requests": return id ? this.records.find((one) => one.id === id)
        : this.page(query);
      case "templates": return { object: "list", data: this.state === "empty" ? []
        : templatesOf() };
      case "advice": return { from_us: this.nowUs - 86400e6, to_us: this.nowUs,
        data: this.advice };
      case "budgets": return role === "admin" ? this.budgets
        : { ...this.budgets, data: this.budgets.data.slice(0, 1) };
      case "prefixes": return this.prefix(method, id, verb, body);
      case "sessions": return this.session(method, id, verb, body);
      default: return undefined;
    }
  }

  statsFor(query, role) {
    if (!query.has("step")) {
      const { upstreams, ...rest } = this.stats;
      if (this.state === "busy") rest.ledger.clocks = clocksOf(randomOf(3), Date.now() * 1000);
      return role === "admin" ? { upstreams, ...rest } : rest;
    }
    const rollup = rollupOf(randomOf(5), Date.now() * 1000, query);
    if (this.state === "empty") rollup.data = [];
    if (this.older) for (const bucket of rollup.data) delete bucket.direct_nanodollars;
    if (this.state === "hostile" && rollup.by !== "total") {
      for (const bucket of rollup.data) bucket.name = HOSTILE;
    }
    return rollup;
  }

  page(query) {
    const known = ["limit", "before", "upstream", "model", "tenant", "key", "session",
      "conversation", "break", "status", "endpoint", "since_us", "until_us"];
    for (const name of query.keys()) {
      if (!known.includes(name)) {
        return { status: 400, error: { message: `unknown parameter '${name}'` } };
      }
    }
    const fits = (one) => [...query].every(([name, value]) => {
      if (name === "limit") return true;
      if (name === "before") return one.id < value;
      if (name === "break") {
        const cause = one.break?.cause ?? "none";
        return value === "any" ? cause !== "none" : cause === value;
      }
      if (name === "status") return value === "failed" ? one.status >= 400
        : String(one.status) === value;
      return name === "conversation" ? one.conversation.id === value : one[name] === value;
    });
    return { data: this.records.filter(fits).slice(0, Number(query.get("limit") ?? 20))
      .map(({ segments: _, ...record }) => record) };
  }

  prefix(method, id, verb, body) {
    if (!id) return { object: "list", hits_since: this.nowUs - 9e9, data: this.prefixes,
      has_more: false };
    if (id === "warm") return { object: "prefix", tokens: 320 };
    const prefix = this.prefixes.find((one) => one.id === id);
    if (!prefix) return undefined;
    if (verb === "export") return "KVGATE1";
    if (verb === "pin") {
      prefix.pinned = method === "POST";
      prefix.name = method === "POST" ? JSON.parse(body || "{}").name : undefined;
      return prefix;
    }
    this.prefixes = this.prefixes.filter((one) => one !== prefix);
    return { removed: prefix.blocks };
  }

  session(method, id, verb, body) {
    if (!id) return { object: "list", data: this.sessions.map(({ data: _, ...one }) => one),
      has_more: false, next: null };
    const session = this.sessions.find((one) => one.key === id);
    if (!session) return undefined;
    if (verb === "export") return `${JSON.stringify(session)}\n`;
    if (verb === "fork") {
      const fork = { ...session, key: JSON.parse(body).key };
      this.sessions.unshift(fork);
      return fork;
    }
    if (verb === "undo") session.messages_left_out = 0;
    if (verb) return { key: id };
    if (method === "DELETE") this.sessions = this.sessions.filter((one) => one !== session);
    return session;
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const option = (name, otherwise) => {
    const at = process.argv.indexOf(`--${name}`);
    return at < 0 ? otherwise : process.argv[at + 1];
  };
  const mock = await new Mock({ state: option("state", "busy"),
    keys: process.argv.includes("--keys") }).listen(Number(option("port", 8099)));
  const rate = Number(option("rate", 1));
  if (rate > 0) setInterval(() => mock.emit(), 1000 / rate);
  console.log(`listening on ${mock.url}/dashboard/`);
}
