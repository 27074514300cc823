// A made-up day of a gateway, the same each time for the same seed: records, sums over time,
// clocks, sessions, prefixes, upstreams and advice, in the shapes of the gateway's own answers.

export const SOURCES = ["tools", "system", "examples", "history", "summary", "retrieval",
  "tool_results", "media", "user"];
const MODELS = [
  { model: "claude-opus-5-5", upstream: "anthropic", dialect: "anthropic", endpoint: "messages",
    price: 5000, out: 25000, tps: 78 },
  { model: "claude-sonnet-5", upstream: "anthropic", dialect: "anthropic", endpoint: "messages",
    price: 3000, out: 15000, tps: 104 },
  { model: "gpt-6-sol", upstream: "openai", dialect: "openai", endpoint: "responses",
    price: 2500, out: 12000, tps: 121 },
  { model: "deepseek-v4", upstream: "deepseek", dialect: "openai",
    endpoint: "chat_completions", price: 280, out: 420, tps: 64 },
  { model: "Qwen3.5-9B-Instruct", upstream: "local", dialect: "openai",
    endpoint: "chat_completions", price: 0, out: 0, tps: 38 },
];
const PATHS = { messages: "/v1/messages", responses: "/v1/responses",
  chat_completions: "/v1/chat/completions" };
const TOOLS = [["github", "create_pull_request"], ["github", "search_code"],
  ["github", "get_issue"], ["linear", "list_issues"], ["linear", "update_issue"],
  ["sentry", "get_event"],
  ["", "bash"], ["", "read_file"], ["", "edit_file"], ["", "web_search"]];
const CAUSES = [
  ["system_changed", "messages[0].content", "It holds a value that changes with each request: take "
    + "it out or send it last, or let the mode stabilize do it."],
  ["tools_reordered", "tools[3].name", "Send the tools in a fixed order, for example by name."],
  ["ttl_lapsed", "", "More time passed than the cache lives: ask for a longer lifetime where gaps "
    + "are this long."],
  ["provider_miss", "", "Nothing you did: the same prefix was sent in time, and the provider had "
    + "evicted it or routed the request elsewhere."],
  ["compacted", "messages[1].content", "A summary took the place of earlier turns: what is kept "
    + "behind it is paid once more, so compact rarely and much at once."],
  ["history_edited", "messages[12].content[0].text", "A turn that had been sent was rewritten: "
    + "append instead, or rewrite rarely and much at once."],
];
const BEFORE = "You are a careful engineer who works in the repository kvgate. Today is Wednesday, "
  + "25 November 2026, 21:14:07 UTC. The branch is i23dash, 3 files are changed. Answer briefly.";
const AFTER = "You are a careful engineer who works in the repository kvgate. Today is Thursday, "
  + "26 November 2026, 08:02:51 UTC. The branch is i23dash, 5 files are changed. Answer briefly.";

// mulberry32
export function randomOf(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let value = Math.imul(state ^ (state >>> 15), 1 | state);
    value = (value + Math.imul(value ^ (value >>> 7), 61 | value)) ^ value;
    return ((value ^ (value >>> 14)) >>> 0) / 4294967296;
  };
}

const hex = (random, digits) => Array.from({ length: digits },
  () => Math.floor(random() * 16).toString(16)).join("");
const int = (random, from, to) => Math.floor(from + random() * (to - from + 1));
const pick = (random, list) => list[Math.floor(random() * list.length)];

const idAt = (timeUs, random) => timeUs.toString(16).padStart(14, "0") + hex(random, 10);

// Segments in prompt order; all in front of `readTokens` is cached.
function segmentsOf(random, turn, isLocal) {
  const list = TOOLS.map(([server, name], index) => ({ source: "tools", name,
    ...(server ? { server } : {}), role: "system", path: `/tools/${index}`,
    tokens: int(random, 90, 900) }));
  const add = (source, role, path, tokens, more = {}) =>
    list.push({ source, role, path, tokens, ...more });
  add("system", "system", "/system/0", int(random, 1800, 4200));
  add("examples", "user", "/messages/0", int(random, 300, 900));
  if (turn > 12) add("summary", "user", "/messages/1", 1420);
  for (let i = 0; i < Math.min(turn, 14); ++i) {
    add("history", i % 2 ? "assistant" : "user", `/messages/${2 + 2 * i}`, int(random, 60, 700));
    const [server, name] = pick(random, TOOLS);
    add("tool_results", "tool", `/messages/${3 + 2 * i}`, int(random, 80, 2600),
      { name, ...(server ? { server } : {}) });
  }
  if (random() < 0.35) {
    add("retrieval", "user", `/messages/${turn + 40}`, int(random, 200, 1600));
  }
  if (random() < 0.15 && !isLocal) {
    add("media", "user", `/messages/${turn + 41}/content/0`, int(random, 260, 1200));
  }
  add("user", "user", `/messages/${turn + 42}`, int(random, 20, 420));
  return list;
}

function split(random, segments, readTokens, writes) {
  let left = readTokens;
  for (const segment of segments) {
    const cached = Math.min(left, segment.tokens);
    left -= cached;
    const rest = segment.tokens - cached;
    const written = writes && segment.source !== "user" ? rest : 0;
    Object.assign(segment, { bytes: segment.tokens * 4 + int(random, 0, 3), cached, written,
      uncached: rest - written, hash: hex(random, 16) });
  }
}

// What is read of a prompt that broke so.
function readUntil(segments, cause, random) {
  const of = (source) => segments.filter((one) => one.source === source)
    .reduce((all, one) => all + one.tokens, 0);
  if (cause === "tools_reordered") return segments[0].tokens + segments[1].tokens;
  const tools = of("tools");
  if (cause === "system_changed") return tools + Math.floor(of("system") * (0.2 + random() / 2));
  if (cause === "ttl_lapsed" || cause === "provider_miss") return 0;
  return tools + of("system") + of("examples");
}

const sum = (list, member) => list.reduce((all, one) => all + one[member], 0);

export function recordAt(random, timeUs, shape = {}) {
  const kind = shape.kind ?? pick(random, [0, 0, 0, 1, 1, 2, 2, 3, 4].map((i) => MODELS[i]));
  const isLocal = kind.upstream === "local";
  const turn = shape.turn ?? int(random, 1, 24);
  const isFailed = shape.failed ?? random() < 0.02;
  const cause = shape.cause !== undefined ? shape.cause
    : random() < 0.1 ? pick(random, CAUSES) : null;
  const segments = segmentsOf(random, turn, isLocal);
  const prompt = sum(segments, "tokens");
  const read = cause ? readUntil(segments, cause[0], random)
    : turn === 1 ? 0 : Math.floor(prompt * (0.82 + random() * 0.16));
  split(random, segments, read, !isLocal && kind.dialect === "anthropic");
  const cached = sum(segments, "cached");
  const written = sum(segments, "written");
  const uncached = prompt - cached - written;
  const output = int(random, 20, 900);
  const cost = (tokens, factor) => Math.round(tokens * kind.price * factor);
  const attribution = {};
  for (const segment of segments) {
    const row = attribution[segment.source] ??= { cached: 0, written: 0, uncached: 0,
      nanodollars: 0 };
    row.cached += segment.cached;
    row.written += segment.written;
    row.uncached += segment.uncached;
    row.nanodollars += cost(segment.cached, 0.1) + cost(segment.written, 1.25)
      + cost(segment.uncached, 1);
  }
  const nanodollars = sum(Object.values(attribution), "nanodollars") + output * kind.out;
  const queue = int(random, 40, 900);
  const ttft = queue + Math.round((isLocal ? 90e3 : 320e3) * (0.6 + random() * 1.8)
    + uncached * (isLocal ? 220 : 28));
  const tpot = Math.round(1e6 / kind.tps * (0.8 + random() * 0.5));
  const decode = tpot * (output - 1);
  const session = shape.session ?? (random() < 0.7
    ? pick(random, ["agent-refactor-7f3", "nightly-triage", "docs-writer", "support-bot:42"])
    : undefined);
  const record = {
    id: idAt(timeUs, random), time_us: timeUs, dialect: kind.dialect, endpoint: kind.endpoint,
    path: PATHS[kind.endpoint], upstream: kind.upstream, provider: kind.upstream,
    model: kind.model, answered_by: kind.model, tenant: pick(random, ["platform", "research"]),
    key: pick(random, ["ci", "agents", "alice"]), ...(session ? { session } : {}),
    status: isFailed ? pick(random, [429, 500, 529]) : 200,
    outcome: isFailed ? "failed" : "complete", stream: true, attempts: isFailed ? 3 : 1,
    ...(isFailed ? { error: "The upstream answered with an error after 3 attempts." } : {}),
    upstream_request_id: `req_${hex(random, 20)}`,
    timings: { queue_us: queue, ...(isLocal ? { prefill_us: ttft - queue - 400 }
      : { first_byte_us: ttft - 2100 }), ttft_us: ttft, total_us: ttft + decode + 900,
      decode_us: decode, tpot_us: tpot, itl_us_max: tpot * int(random, 3, 9) },
    bytes: { received: prompt * 4, sent: isLocal ? 0 : prompt * 4 + 48, answer: output * 5 },
    sha256: { received: hex(random, 64), sent: hex(random, 64) },
    mode: "pin", edits: cause ? [{ rule: "first_seen_bytes", count: 2 },
      { rule: "cache_control", count: 3 }] : [{ rule: "cache_control", count: 1 }],
    conversation: { id: hex(random, 32), origin: session ? "x-kvgate-session" : "content" },
    plan: { reason: "reuse expected", expected_reuse: 3.4 + random(), markers: 3 },
    usage: isFailed ? null : { input_tokens: prompt, uncached_tokens: uncached,
      cache_read_tokens: cached, cache_write_tokens: written, cache_write_1h_tokens: 0,
      output_tokens: output, reasoning_tokens: Math.floor(output / 3) },
    ...(isFailed ? { usage_unknown: "not reported" } : {}),
    cost: isFailed ? null : { nanodollars,
      direct_nanodollars: Math.round(nanodollars * 1.42),
      uncached_nanodollars: cost(prompt, 1) + output * kind.out, price_date: "2026-11" },
    ...(isLocal ? { tiers: { device: Math.floor(cached / 2), host: Math.floor(cached / 4),
      disk: cached - Math.floor(cached / 2) - Math.floor(cached / 4), computed: prompt - cached } }
      : {}),
    attribution: isFailed ? {} : attribution, estimated: !isLocal, segments,
  };
  const text = cause && cause[1] ? { path: cause[1], before: BEFORE, after: AFTER,
    ...(cause[0] === "system_changed" ? { volatile_kind: "time" } : {}) } : {};
  record.break = cause ? { cause: cause[0], ...text,
    reusable_tokens: cause[1] ? cached : prompt - 300,
    lost_tokens: prompt - 300 - cached, lost_nanodollars: cost(prompt - 300 - cached, 0.9),
    verdict: cause[2] }
    : { cause: turn === 1 ? "first_seen" : "none", reusable_tokens: cached, lost_tokens: 0,
      lost_nanodollars: 0, verdict: turn === 1
        ? "Nothing like it was sent before: the next request can read what this one stored."
        : "All that was sent before was read, to within a block of the provider's cache." };
  if (isFailed) delete record.break;
  return record;
}

export function recordsOf(random, nowUs, number) {
  const records = [];
  let time = nowUs - 2e6;
  for (let i = 0; i < number; ++i) {
    records.push(recordAt(random, Math.floor(time)));
    time -= 1e6 + random() * 9e6;
  }
  return records;
}

const percentiles = (random, base) => ({ p50: Math.round(base), p90: Math.round(base * (1.7
  + random() * 0.4)), p99: Math.round(base * (2.8 + random())) });

const UNIT = { minute: 60e6, hour: 3600e6, day: 86400e6 };
const LENGTH = { minute: 60, hour: 48, day: 30 };

// One bucket's sums: traffic swells over a day, and the hit rate sags in one part of it.
function bucketAt(random, step, timeUs, age, share = 1) {
  const scale = UNIT[step] / 60e6 * share * (1 + 0.55 * Math.sin(timeUs / 86400e6 * 6.28)
    + 0.25 * random());
  const prompt = Math.round(148_000 * scale);
  const sag = age > 0.42 && age < 0.55 ? 0.34 : 0;
  const cached = Math.round(prompt * Math.max(0.2, 0.86 - sag - random() * 0.05));
  const written = Math.round((prompt - cached) * (0.45 + random() * 0.15));
  const output = Math.round(prompt * 0.031);
  const uncached = prompt - cached - written;
  const nanodollars = Math.round(3000 * (cached * 0.1 + written * 1.25 + uncached)
    + output * 15000);
  return {
    time_us: timeUs, requests: Math.round(9 * scale), failed: random() < 0.2 ? 1 : 0,
    cached_tokens: cached, written_tokens: written, uncached_tokens: uncached,
    output_tokens: output, nanodollars, uncached_nanodollars: 3000 * prompt + output * 15000,
    // Sent directly, a third of what is read here would be missed.
    direct_nanodollars: Math.round(3000 * (cached * 0.4 + written * 1.25 + uncached)
      + output * 15000),
    breaks: Math.round(0.7 * scale), lost_tokens: Math.round(prompt * sag),
    lost_nanodollars: Math.round(prompt * sag * 2700),
    ttft_us: percentiles(random, 620e3 + sag * 1.6e6), tpot_us: percentiles(random, 11_800),
  };
}

const SHARES = {
  source: [["tools", 0.21], ["system", 0.11], ["examples", 0.03], ["history", 0.24],
    ["summary", 0.03], ["retrieval", 0.05], ["tool_results", 0.27], ["media", 0.03],
    ["user", 0.03]],
  break: [["system_changed", 0.41], ["tools_reordered", 0.2], ["ttl_lapsed", 0.16],
    ["provider_miss", 0.12], ["compacted", 0.07], ["history_edited", 0.04]],
  model: MODELS.map(({ model }, i) => [model, [0.36, 0.27, 0.22, 0.1, 0.05][i]]),
};

export function rollupOf(random, nowUs, query) {
  const by = query.get("by") ?? "total";
  const step = query.get("step");
  const unit = UNIT[step === "all" ? "minute" : step];
  const toUs = Number(query.get("to_us") ?? (Math.floor(nowUs / unit) + 1) * unit);
  const fromUs = Number(query.get("from_us") ?? toUs - (LENGTH[step] ?? 60) * unit);
  const names = SHARES[by] ?? [["total", 1]];
  const data = [];
  if (step === "all") {
    const scale = (toUs - fromUs) / 60e6;
    for (const [name, share] of names) {
      const row = bucketAt(random, "minute", fromUs, 0, share * scale);
      const rate = { tools: 0.95, system: 0.9, user: 0.06, tool_results: 0.8 }[name];
      if (rate !== undefined) {
        const all = row.cached_tokens + row.written_tokens + row.uncached_tokens;
        row.cached_tokens = Math.round(all * rate);
        row.written_tokens = Math.round((all - row.cached_tokens) * 0.6);
        row.uncached_tokens = all - row.cached_tokens - row.written_tokens;
      }
      row.lost_tokens = Math.round(2e5 * share * scale / 10);
      row.lost_nanodollars = row.lost_tokens * 2700;
      row.breaks = Math.max(1, Math.round(8 * share * scale / 6));
      data.push({ ...row, name });
    }
  } else {
    const many = Math.round((toUs - fromUs) / unit);
    for (let i = 0; i < many; ++i) {
      if (i === many - 8) continue; // a bucket without requests is left out
      for (const [name, share] of names) {
        const bucket = bucketAt(random, step, fromUs + i * unit, i / many, share);
        if (i === 3) Object.assign(bucket, { ttft_us: null, tpot_us: null }); // all have failed
        data.push({ ...bucket, name });
      }
    }
  }
  return { step, by, from_us: fromUs, to_us: toUs, data };
}

export function clocksOf(random, nowUs) {
  const named = ["agent-refactor-7f3", "docs-writer", "support-bot:42", "nightly-triage"];
  return Array.from({ length: 11 }, (_, i) => {
    const life = i % 3 === 2 ? 3600e6 : 300e6;
    const left = 24e6 + i * i * 21e6 + random() * 9e6;
    const tokens = int(random, 6_000, 180_000);
    return { conversation: hex(random, 32), ...(named[i] ? { session: named[i] } : {}),
      tenant: "platform", model: MODELS[i % 3].model, upstream: MODELS[i % 3].upstream, tokens,
      last_us: Math.round(nowUs + left - Math.max(life, left + 10e6)),
      expires_us: Math.round(nowUs + left), cold_nanodollars: tokens * 3375 };
  });
}

export function statsOf(random, nowUs) {
  return {
    ready: true,
    engine: { requests: 4213, running: 2, waiting: 1, preemptions: 3, device_tokens: 1_840_210,
      host_tokens: 402_113, disk_tokens: 611_002, computed_tokens: 520_771, blocks_free: 2210,
      blocks_cached: 5120, blocks_used: 862, host_blocks: 9100, host_blocks_max: 16384,
      prefill_tokens_per_second: 1840, refused_by_slo: 2, single_flight: 41, backend: "cpu",
      target: "AVX512_VNNI", threads: 16, architecture: "qwen3", context_tokens_max: 32768,
      kv_blocks: 8192, kv_block_bytes: 1835008 },
    store: { records: 88_120, disk_bytes: 12_873_400_211, capacity_bytes: 17179869184 },
    turns: { enabled: true, turns: 1822, conversations: 96 },
    ledger: { price_date: "2026-11-24", records_queued: 0, records_dropped: 0,
      clocks: clocksOf(random, nowUs) },
    upstreams: [
      { name: "anthropic", provider: "anthropic", dialect: "anthropic", mode: "pin",
        models: ["claude-*"], breaker: "closed", requests_active: 4, requests: 5120, failed: 9,
        ttft_us: percentiles(random, 710e3), tpot_us: percentiles(random, 11_900) },
      { name: "openai", provider: "openai", dialect: "openai", mode: "stabilize",
        models: ["gpt-*", "o5-*"], breaker: "half_open", retry_us: Math.round(nowUs + 12e6),
        requests_active: 1, requests: 3377, failed: 61, ttft_us: percentiles(random, 540e3),
        tpot_us: percentiles(random, 8_300) },
      { name: "deepseek", provider: "deepseek", dialect: "openai", mode: "observe",
        models: ["deepseek-*"], breaker: "open", retry_us: Math.round(nowUs + 48e6),
        requests_active: 0, requests: 871, failed: 214, ttft_us: percentiles(random, 1.9e6),
        tpot_us: percentiles(random, 15_600) },
    ],
    models: MODELS.map(({ model, upstream, tps }, i) => ({ model, upstream,
      requests: [311, 240, 198, 77, 41][i],
      ttft_us: percentiles(random, 400e3 + i * 160e3),
      tpot_us: percentiles(random, 1e6 / tps), output_tokens_per_second: tps })),
    stabilize_would_save: { since_us: nowUs - 86400e6, requests: 212, tokens: 1_911_000,
      nanodollars: 5_240_000_000, slots: [
        { model: "gpt-6-sol", place: "system", line: "Today is …, … UTC.",
          path: "messages[0].content", requests: 188, tokens: 1_702_000, nanodollars: 4.8e9 },
        { model: "claude-sonnet-5", place: "system", line: null, path: "system[1].text",
          requests: 24, tokens: 209_000, nanodollars: 4.4e8 }] },
  };
}

export function templatesOf() {
  return [
    { model: "gpt-6-sol", place: "system", line: "Today is …, … UTC.", is_slot: true, moves: true,
      why: "its value changes in most requests", value_changes: 188, conversations_changed: 31,
      line_tokens: 22, tokens_at_stake: 9050 },
    { model: "claude-opus-5-5", place: "system", line: "The branch is …, … files are changed.",
      is_slot: false, moves: false, why: "it was seen to change too rarely", value_changes: 2,
      conversations_changed: 2, line_tokens: 14, tokens_at_stake: 4100 },
  ];
}

// The newest lie in the engine's memory; each that was hit spared the prefill of about itself.
function usesOf(random, blocks, i) {
  const hits = i === 2 ? 0 : int(random, 1, i === 0 ? 900 : 40);
  const host = i === 1 ? Math.floor(blocks / 4) : 0;
  return { tier: ["device", "host", "disk", "disk"][i],
    tiers: { device: i < 2 ? (blocks - host) * 32 : 0, host: host * 32,
      disk: i < 2 ? 0 : blocks * 32 },
    hits, shared_hits: i === 0 ? 0 : int(random, 0, 60), saved_tokens: hits * blocks * 31,
    saved_ms: hits * blocks * 31 / 1.84 };
}

export function budgetsOf(nowUs) {
  const now = new Date(nowUs / 1000);
  const iso = (months, day) => new Date(Date.UTC(now.getUTCFullYear(),
    now.getUTCMonth() + months, day)).toISOString().replace(".000Z", "Z");
  const today = now.getUTCDate();
  // At these hours a time in two units is the widest.
  const later = (minutes) => new Date(now.getTime() + minutes * 60_000).toISOString();
  const budget = (name, used, limit) => ({ budget: name, limit, used,
    left: Math.max(0, limit - used), share: used / limit,
    ...(name.endsWith("day") ? { period_start: iso(0, today), renews_at: later(82) }
      : { period_start: iso(0, 1), renews_at: later(29 * 60) }) });
  const tenant = (name, dollars, tokens, budgets) => ({ tenant: name, is_key: true,
    dollars_today: dollars, dollars_this_month: dollars * 17, tokens_today: tokens,
    tokens_this_month: tokens * 17, budgets });
  return { thresholds: [0.5, 0.8, 1], data: [
    tenant("agents", 8.71, 31_200_000, [budget("dollars_per_day", 8.71, 10),
      budget("tokens_per_month", 530_400_000, 1_000_000_000)]),
    tenant("alice", 0.42, 1_410_000, [budget("dollars_per_day", 0.42, 5)]),
    tenant("ci", 2.06, 9_800_000, [budget("tokens_per_day", 9_800_000, 9_000_000)]),
    tenant("nightly", 0, 0, []),
  ] };
}

export function prefixesOf(random, nowUs) {
  const previews = ["You are a careful engineer who works in the r",
    "You answer customers of a shop",
    "Translate the following text. Keep names as t"];
  return previews.flatMap((preview, p) => Array.from({ length: [4, 3, 1][p] }, (_, i) => {
    const blocks = Math.round((p === 0 ? 420 : 130) / (i + 1)) + int(random, 0, 30);
    return { id: hex(random, 32), object: "prefix", fingerprint: "efb6975b41b320f057aa06c0fc69580f",
      model: p === 2 ? "stories260K" : "Qwen3.5-9B-Instruct", preview, blocks, tokens: blocks * 32,
      bytes: blocks * 1835008, last_used: Math.floor(nowUs / 1e6) - int(random, 5, 90_000),
      ...usesOf(random, blocks, i),
      pinned: i === 0 && p < 2, ...(i === 0 && p < 2 ? { name: ["engineer", "shop"][p],
        ...(p ? {} : { version: "3" }), priority: 1,
        expires_at: p ? Math.floor(nowUs / 1e6) + 7200 : null } : {}) };
  }));
}

export function sessionOf(random, nowUs, key, turns) {
  let context = 9000;
  const data = [];
  const records = [];
  let parent = null;
  for (let i = 0; i < turns; ++i) {
    const timeUs = Math.floor(nowUs - (turns - i) * 47e6 - random() * 9e6);
    const record = recordAt(random, timeUs, { session: key, turn: 1 + i % 17, failed: false,
      kind: MODELS[1] });
    records.push(record);
    const isFold = i > 0 && i % 17 === 0;
    context = record.usage.input_tokens;
    const id = `turn_${record.id}`;
    data.push({ id, parent, created_at: Math.floor(timeUs / 1e6), model: record.model,
      tokens: { input: context, cached: record.usage.cache_read_tokens,
        output: record.usage.output_tokens },
      compaction: isFold ? { mode: "summary", messages_left_out: 14, tokens_before: 31_200,
        tokens_after: 12_040, prompt: "default@2", nanodollars: 9_400_000 } : null,
      input: [{ role: "user", content: `Turn ${i + 1}: read the file and say why it fails.` }],
      answer: [{ role: "assistant", content: [{ type: "text",
        text: "The header is not included where it is used." }] }] });
    parent = id;
  }
  return { records, session: { key, dialect: "messages", created_at: data[0]?.created_at
    ?? Math.floor(nowUs / 1e6), updated_at: data[data.length - 1]?.created_at
    ?? Math.floor(nowUs / 1e6), turns, head: parent, model: MODELS[1].model,
    messages_left_out: turns > 17 ? 14 : 0,
    window: { mode: "summary", low: 12_000, high: 36_000, hard: 48_000 }, data, has_more: false } };
}

export function adviceOf(records) {
  const evidence = (n) => records.slice(n, n + 3).map((record) => record.id);
  return [
    { id: "volatile_system", title: "The system prompt changes with each request",
      what: "A line with the time stands in front of 9,050 tokens, which are computed anew each "
        + "time.", where: { model: "gpt-6-sol", upstream: "openai", path: "messages[0].content" },
      requests: 188, evidence: evidence(0), tokens_per_day: 1_702_000,
      nanodollars_per_day: 4_810_000_000, fix: "Send the time with the newest user message, or let "
        + "the gateway move it.", setting: { key: "mode", value: "stabilize" } },
    { id: "unused_tools", title: "31 tools are sent and never called",
      what: "The servers linear and sentry take 41 % of the prompt; in 214 turns they were called "
        + "twice.", where: { model: "claude-opus-5-5", key: "agents" }, requests: 214,
      evidence: evidence(3), tokens_per_day: 2_900_000, nanodollars_per_day: 1_450_000_000,
      fix: "Leave them out of this agent's list, or load them when they are searched for.",
      setting: null },
    { id: "tool_order", title: "The tools come in another order each time",
      what: "The same 10 tools are sent in 17 orders, so that nothing behind them can be read.",
      where: { model: "claude-sonnet-5", path: "tools" }, requests: 63, evidence: evidence(6),
      tokens_per_day: 402_000, nanodollars_per_day: 610_000_000,
      fix: "Sort them by name before they are sent.", setting: { key: "mode", value: "pin" } },
    { id: "wrong_ttl", title: "Caches go cold between turns",
      what: "Gaps of 6 to 20 minutes are common in these sessions, and the cache lives 5.",
      where: { upstream: "anthropic", key: "alice" }, requests: 38, evidence: evidence(9),
      tokens_per_day: 310_000, nanodollars_per_day: 88_000_000,
      fix: "Ask for a lifetime of one hour where people, not loops, send the next turn.",
      setting: { key: "cache_ttl", value: "1h" } },
  ];
}
