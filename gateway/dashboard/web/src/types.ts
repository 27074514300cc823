// The shapes of the gateway's answers. Members that a gateway may leave out are optional.

export const SOURCES = [
  "tools", "system", "examples", "history", "summary", "retrieval", "tool_results", "media", "user",
] as const;
export type Source = (typeof SOURCES)[number];

export const STATES = ["cached", "written", "uncached"] as const;
export type State = (typeof STATES)[number];

export interface StateTokens {
  cached: number;
  written: number;
  uncached: number;
}

export interface SourceTokens extends StateTokens {
  nanodollars: number;
}

export interface Segment extends StateTokens {
  source: string;
  name?: string;
  server?: string;
  role?: string;
  path?: string;
  bytes?: number;
  tokens: number;
  hash?: string;
}

export interface Timings {
  queue_us?: number;
  first_byte_us?: number;
  ttft_us?: number;
  total_us?: number;
  prefill_us?: number;
  decode_us?: number;
  tpot_us?: number;
  itl_us_max?: number;
}

export interface Usage {
  input_tokens: number;
  uncached_tokens: number;
  cache_read_tokens: number;
  cache_write_tokens: number;
  cache_write_1h_tokens?: number;
  output_tokens: number;
  reasoning_tokens?: number;
}

export interface Break {
  cause: string;
  path?: string;
  volatile_kind?: string;
  before?: string;
  after?: string;
  reusable_tokens: number;
  lost_tokens: number;
  lost_nanodollars: number;
  verdict?: string;
}

export interface Request {
  id: string;
  time_us: number;
  dialect?: string;
  endpoint?: string;
  path?: string;
  upstream?: string;
  provider?: string;
  model?: string;
  asked_model?: string;
  answered_by?: string;
  tenant?: string;
  key?: string;
  session?: string;
  status: number;
  outcome?: string;
  error?: string;
  stream?: boolean;
  attempts?: number;
  upstream_request_id?: string;
  timings?: Timings;
  bytes?: { received: number; sent: number; answer: number };
  sha256?: { received?: string; sent?: string };
  mode?: string;
  edits?: { rule: string; count: number }[];
  conversation?: { id: string; origin: string };
  plan?: { reason: string; expected_reuse: number; markers: number };
  held_stale?: { lines: number; seconds: number };
  usage?: Usage | null;
  usage_unknown?: string;
  service_tier?: string;
  cost?: {
    nanodollars: number;
    direct_nanodollars?: number; // an estimate of what it would have cost without kvgate
    uncached_nanodollars: number;
    price_date?: string;
  } | null;
  tiers?: Record<string, number>;
  attribution?: Record<string, SourceTokens>;
  estimated?: boolean;
  segments?: Segment[];
  break?: Break;
  provider_reason?: string;
}

export interface Page<T> {
  data: T[];
  has_more?: boolean;
  next?: string | null;
}

export interface Percentiles {
  p50?: number | null;
  p90?: number | null;
  p99?: number | null;
}

export interface Bucket {
  time_us: number;
  name: string;
  requests?: number;
  failed?: number;
  cached_tokens?: number;
  written_tokens?: number;
  uncached_tokens?: number;
  output_tokens?: number;
  nanodollars?: number;
  direct_nanodollars?: number;
  uncached_nanodollars?: number;
  breaks?: number;
  lost_tokens?: number;
  lost_nanodollars?: number;
  ttft_us?: Percentiles | null;
  tpot_us?: Percentiles | null;
}

export interface Rollup {
  step: string;
  by: string;
  from_us: number;
  to_us: number;
  data: Bucket[];
}

export interface Clock {
  conversation?: string;
  session?: string;
  tenant?: string;
  model: string;
  upstream: string;
  tokens: number;
  last_us: number;
  expires_us: number;
  cold_nanodollars: number;
}

export interface UpstreamState {
  name: string;
  provider?: string;
  dialect?: string;
  mode?: string;
  models?: string[];
  breaker?: string;
  retry_us?: number;
  requests_active?: number;
  requests?: number;
  failed?: number;
  ttft_us?: Percentiles | null;
  tpot_us?: Percentiles | null;
}

export interface ModelState {
  model: string;
  upstream: string;
  requests: number;
  ttft_us?: Percentiles | null;
  tpot_us?: Percentiles | null;
  output_tokens_per_second?: number | null;
}

export interface Saving {
  requests: number;
  tokens: number;
  nanodollars: number;
}

export interface Slot extends Saving {
  tenant?: string;
  model: string;
  place: string;
  line: string | null;
  path: string;
}

export interface Stats {
  ready?: boolean;
  engine?: Record<string, unknown> | null;
  store?: Record<string, unknown> | null;
  turns?: Record<string, unknown> | null;
  ledger?: { clocks?: Clock[]; price_date?: string; records_dropped?: number } | null;
  upstreams?: UpstreamState[];
  models?: ModelState[];
  stabilize_would_save?: Saving & { since_us?: number; slots: Slot[] };
}

export interface Minute {
  requests: number;
  failed: number;
  cached_tokens: number;
  written_tokens: number;
  uncached_tokens: number;
  output_tokens: number;
  nanodollars: number;
  direct_nanodollars?: number;
  uncached_nanodollars: number;
}

export interface Tier {
  tier: string;
  used_bytes: number;
  capacity_bytes: number;
}

export interface LiveStats {
  time_us: number;
  // What others do shows in these, so that only admins have them.
  requests_running?: number; // in the engine
  requests_waiting?: number; // for the engine
  requests_active?: number; // at upstreams
  connections?: number;
  minute: Minute;
  tiers?: Tier[];
}

export interface PrefixPage extends Page<Prefix> {
  hits_since?: number; // microseconds; absent without an engine
}

export interface Prefix {
  id: string;
  fingerprint?: string;
  model?: string;
  preview?: string;
  blocks: number;
  tokens: number;
  bytes: number;
  last_used: number;
  tier?: string | null; // the fastest one that has its last block
  tiers?: { device: number; host: number; disk: number }; // tokens by the fastest tier
  hits?: number;
  shared_hits?: number; // that read only what it shares with others
  saved_tokens?: number;
  saved_ms?: number;
  pinned: boolean;
  name?: string;
  version?: string;
  priority?: number;
  expires_at?: number | null;
}

export interface Budget {
  budget: string;
  limit: number;
  used: number;
  left: number;
  share: number;
  period_start: string;
  renews_at: string;
}

export interface TenantBudgets {
  tenant: string;
  is_key: boolean;
  dollars_today: number;
  dollars_this_month: number;
  tokens_today: number;
  tokens_this_month: number;
  budgets: Budget[];
}

export interface Budgets {
  thresholds?: number[];
  data: TenantBudgets[];
}

export interface Compaction {
  mode: string;
  messages_left_out: number;
  tokens_before: number;
  tokens_after: number;
  prompt?: string;
  nanodollars?: number | null;
}

export interface Turn {
  id: string;
  parent: string | null;
  created_at: number;
  model: string;
  tokens: { input: number; cached: number; output: number };
  compaction: Compaction | null;
  undoes?: string;
  input: unknown[];
  answer: unknown[];
}

export interface Session {
  key: string;
  dialect: string;
  created_at: number;
  updated_at: number;
  turns: number;
  head: string | null;
  model: string;
  messages_left_out?: number;
  window?: { mode: string; low?: number; high?: number; hard?: number };
  data?: Turn[];
  has_more?: boolean;
}

export interface Template {
  model: string;
  place: string;
  line: string;
  is_slot: boolean;
  moves: boolean;
  why: string;
  value_changes: number;
  conversations_changed: number;
  line_tokens: number;
  tokens_at_stake: number;
}

export interface Advice {
  id: string;
  title: string;
  what: string;
  where?: { model?: string; upstream?: string; key?: string; path?: string };
  requests: number;
  evidence: string[];
  tokens_per_day: number;
  nanodollars_per_day: number;
  fix: string;
  setting: { key: string; value: unknown } | null;
}
