// Config: every setting, with its default. It is read from TOML; command-line flags override the
// file. Each key has a default here, a unit in its name or its comment, and one row in the tables
// of config.cc.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kvgate::config {

struct ServerConfig {
  std::string listen = "127.0.0.1:8080";   // ADDRESS:PORT; port 0 picks a free one
  int threads = 2;                         // event loops of the HTTP server
  std::string tls_cert;                    // PEM, with its chain; needs tls_key
  std::string tls_key;                     // PEM, not encrypted; neither: plain HTTP
  std::string tls_min_version = "1.2";     // 1.2 or 1.3
  std::vector<std::string> allowed_hosts;  // Host values accepted beside loopback's and `listen`'s
  // Without upstreams and keys, requests that carry a known provider's credential and name a model
  // of its go there with it (gateway/upstream/known_providers.json).
  bool known_providers = true;
  int64_t unready_seconds = 0;      // at SIGTERM /ready says no so long before the port closes
  int64_t drain_seconds = 30;       // grace for running requests once it has
  std::string log_level = "info";   // debug, info, warning, error
  std::string log_format = "text";  // text, json

  friend bool operator==(const ServerConfig&, const ServerConfig&) = default;
};

struct EngineConfig {
  std::string model;            // a GGUF file; empty: the embedded default
  std::string embedding_model;  // a GGUF file that makes embeddings; empty: none
  int embedding_context = 0;    // tokens of a text; 0: the model's own, 8192 at most
  int embedding_threads = 0;    // 0: `threads`, and half of them beside a model that generates text
  int embedding_queue = 256;    // requests for embeddings that wait; beyond: 503
  bool is_embedding_only = false;  // not a key: `model` named one that makes embeddings
  // auto (a CUDA device if a usable one exists), cpu or cuda. Settings marked "by device" below get
  // their defaults when the device is known: gateway/runtime/machine/device.h.
  std::string device = "auto";
  int device_ordinal = 0;  // not a key: the first usable device of several
  // The order of floating-point sums: invariant (the same for every number of rows, so a cache hit
  // never changes an answer) or fast (CUDA only: the fastest kernels; KV blocks written by decode
  // are not reused).
  std::string numerics = "invariant";
  // Tokens of a request and its answer; 0: as many as the model supports and the KV memory holds.
  int context = 0;
  // Output limit for requests that set none, if their key has none; 0: the rest of the context.
  int64_t default_max_tokens = 4096;
  int threads = 0;  // of the CPU backend; 0: one per hardware thread
  // Instruction set of the CPU backend: auto (the best available), amx, avx512_vnni, avx512, avx2,
  // sse4, neon or emu128 (none).
  std::string cpu_target = "auto";
  std::string kv_dtype = "f16";         // f32, f16, bf16, fp8_e4m3, q8_0, q4_0
  std::string context_policy = "none";  // none, sliding_window, attention_sink, least_attended
  int context_policy_tokens = 0;        // KV tokens that a sequence keeps under that policy; 0: all
  uint64_t kv_memory_bytes = 0;         // "kv_memory": the KV block pool; 0: by device
  // "grammar_memory": grammars, schemas and their token masks, of all requests; beyond: 503.
  uint64_t grammar_memory_bytes = uint64_t{256} << 20;
  std::string chat_template;  // a Jinja file, or a built-in's name; empty: the model's own
  std::string chat_format;    // a built-in instead of the model's template: chatml, llama2, …
  int step_tokens = 0;        // prefill and decode tokens of one step; 0: by device
  int mixed_step_tokens = 0;  // the same while a sequence decodes; bounds its ITL; 0: by device
  int step_ms = 1000;         // of prefill in one step at most; a quarter if others wait
  int short_prompt_tokens = 1024;  // prompts with at most this much to prefill take the short lane
  int ttft_slo_ms = 0;             // refuse (429) requests predicted to miss this TTFT; 0: off
  double tenant_kv_share = 1.0;    // of the KV memory, for one tenant's running requests
  int sequences = 64;              // running at once
  int queue = 1024;                // waiting; beyond: 503
  int io_threads = 2;              // for restoring KV from disk
  // What happens to prompts before they are rendered; read again by a reload.
  std::string mode = "pin";            // observe, pin, stabilize
  std::vector<std::string> rules_off;  // names of the modes' rules that are not applied

  friend bool operator==(const EngineConfig&, const EngineConfig&) = default;
};

struct CacheConfig {
  // "host_memory": the host arena between KV memory and disk; 0: none; not set: by device.
  std::optional<uint64_t> host_memory_bytes;
  uint64_t write_back_bytes = uint64_t{256} << 20;  // "write_back": bytes queued for disk at most
  // "prompt_memory": memory for the prompts that conversations have sent.
  uint64_t prompt_memory_bytes = uint64_t{256} << 20;

  friend bool operator==(const CacheConfig&, const CacheConfig&) = default;
};

struct StoreConfig {
  std::filesystem::path data_dir;                    // empty: $XDG_DATA_HOME/kvgate
  bool disk = true;                                  // false: no disk tier
  uint64_t disk_cache_bytes = uint64_t{16} << 30;    // "disk_cache": budget of KV on disk
  uint64_t write_budget_bytes = uint64_t{64} << 30;  // "write_budget": KV a day; 0: unlimited
  int64_t flush_interval_ms = 1000;                  // a crash loses at most the KV of this time
  bool sync = false;                                 // durable against power loss, not just crashes
  bool turns = true;                                 // conversations may be stored; false: none is
  int64_t turns_retention_seconds = 2'592'000;       // "turns_retention": after the last turn
  uint64_t turns_bytes = uint64_t{1} << 30;  // of all; the longest idle conversation goes first
  // Stores what was sent to upstreams and the engine, and what was learnt of it, so that after a
  // restart the same bytes are sent; false: it is deleted, and new conversations go out as they
  // are received.
  bool prompts = true;
  int64_t prompts_retention_seconds = 604'800;  // "prompts_retention": after it was stored
  uint64_t prompts_bytes = uint64_t{64} << 20;  // of all prompts; the oldest are evicted first
  // One tenant's share of turns_bytes, of prompts_bytes and of the bytes that can be pinned. A
  // tenant above it is evicted first and can pin no more.
  double tenant_share = 0.5;
  int64_t timeout_seconds = 10;  // a request that waits longer for the disk gets 503
  // The environment variable with the secrets that seal stored and exported data; machines that
  // share the data need the same secrets. Empty: DIR/secret.key, made at the first start.
  std::string secret_env;
  // What gateways share: redis://[USER@]HOST[:PORT][,HOST[:PORT]]...[/DATABASE], rediss:// with
  // TLS; empty: nothing. They need the same secret (secret_env).
  std::string shared;
  std::string shared_password_env;       // the variable with the server's password; empty: none
  std::string shared_ca_file;            // PEM; empty: the system's
  int64_t shared_ttl_seconds = 604'800;  // "shared_ttl": of KV since its last hit
  uint64_t shared_write_budget_bytes = uint64_t{64} << 30;  // "shared_write_budget": KV a day

  friend bool operator==(const StoreConfig&, const StoreConfig&) = default;
};

// Sessions that requests name (x-kvgate-session). They live in the turn store: their space, age and
// shares of tenants are store.turns_*. Windows are in tokens; 0: from the model's context, where
// that is known, and else none.
struct SessionsConfig {
  // summary: the oldest rounds are folded into a summary, or left out where none comes in time;
  // hard: they are left out of a prompt; off: nothing is.
  std::string mode = "hard";
  int64_t window_hard = 0;         // no prompt is longer
  int64_t window_high = 0;         // a longer one loses its oldest rounds, until it is
  int64_t window_low = 0;          // no longer than this
  bool keep_system = true;         // system messages stay when their round is left out
  int64_t keep_first_turns = 0;    // rounds at the beginning that stay
  int64_t wait_seconds_max = 60;   // limit of x-kvgate-session-wait
  int64_t summary_tokens_max = 0;  // of a summary; 0: an eighth of the window, 64 to 2048
  std::string summary_model;       // that writes summaries; empty: the session's own
  std::string summary_prompt;      // a file with the words that ask for one; empty: the built-in
  // Turns that are left out are searched for what the user says now, and the best passages stand in
  // front of it. A session's memory and x-kvgate-retrieval say otherwise.
  bool retrieval = false;
  int64_t retrieval_tokens = 1024;  // of all passages for one turn, at most
  // A model for embeddings, the local engine's or an upstream's, by whose vectors passages are
  // found too; empty: by words alone.
  std::string retrieval_model;
  // stub: a tool's result of more tokens than these is kept beside the prompt, where its beginning
  // and end stand, and the model reads the rest by a tool. x-kvgate-tool-results says otherwise.
  std::string tool_results = "whole";
  int64_t tool_result_tokens = 2048;
  // A prompt beyond window_hard waits this long for a summary that is being made.
  int64_t summary_wait_seconds = 30;
  // own: only the local engine and upstreams with api_key_env are asked for summaries; caller: also
  // others, with the key of the caller, within its next request.
  std::string summary_api_key = "own";
  // auto: with `summary`, a session of an upstream with api_key_env that nobody goes on with is
  // folded before its prefix leaves the provider's cache, where that is expected to pay.
  std::string idle_compact = "off";

  friend bool operator==(const SessionsConfig&, const SessionsConfig&) = default;
};

struct LedgerConfig {
  std::filesystem::path prices;  // a file whose rows take precedence over the built-in prices
  int64_t records = 100'000;     // request records kept; the totals go on counting
  int64_t retention_days = 30;   // records older than this are deleted
  int64_t segments = 20'000;     // of so many newest records the parts of the prompt are kept
  bool excerpts = true;          // records show a few words around the place where a prefix broke

  friend bool operator==(const LedgerConfig&, const LedgerConfig&) = default;
};

// Who may read /metrics besides admins: a caller with this key, or nobody. Set at most one of both.
struct MetricsConfig {
  std::string key_env;  // the variable that holds the key; or:
  std::string sha256;   // its SHA-256 in hex
  // Names of other engines under which the local engine's numbers stand as well: "vllm".
  std::vector<std::string> compat = {};

  friend bool operator==(const MetricsConfig&, const MetricsConfig&) = default;
};

// Where spans and metrics of requests are sent, as OTLP over HTTP in JSON.
struct TelemetryConfig {
  std::string endpoint;                 // a collector's, without /v1/traces; empty: nothing is sent
  std::string headers_env;              // the variable that holds more headers: "NAME=VALUE,…"
  std::string service_name = "kvgate";  // of the resource
  std::string ca_file;                  // PEM; empty: the system's
  bool spans = true;                    // one for each request
  bool metrics = true;
  int interval_seconds = 5;  // how often both are sent; spans also when many wait
  int timeout_seconds = 10;  // for the collector's answer
  int queue = 4096;          // requests that wait to be sent; further ones are dropped, and counted

  friend bool operator==(const TelemetryConfig&, const TelemetryConfig&) = default;
};

// What may be used in a calendar day or month of UTC; 0 means no limit.
struct BudgetLimits {
  double dollars_per_day = 0;
  double dollars_per_month = 0;
  int64_t tokens_per_day = 0;  // of prompts and answers; cached ones count
  int64_t tokens_per_month = 0;

  friend bool operator==(const BudgetLimits&, const BudgetLimits&) = default;
};

// What each tenant may use, and who is told of it.
struct BudgetsConfig {
  BudgetLimits tenant;                             // of each tenant whose key sets no such limit
  std::vector<double> thresholds = {0.5, 0.8, 1};  // shares of a budget that are reported
  std::string webhook;               // where reports are posted, as JSON; empty: the log alone
  std::string webhook_secret_env;    // the variable with the secret that signs them; empty: none
  std::string webhook_ca_file;       // PEM; empty: the system's
  int webhook_timeout_seconds = 10;  // for its answer

  friend bool operator==(const BudgetsConfig&, const BudgetsConfig&) = default;
};

struct LimitsConfig {
  uint64_t body_bytes = uint64_t{64} << 20;     // "body": larger requests get 413
  uint64_t bodies_bytes = uint64_t{512} << 20;  // "bodies": in memory at once; beyond: 503
  double tenant_bodies_share = 0.5;             // of that, for one tenant
  uint64_t import_bytes = uint64_t{16} << 30;   // "import": a larger prefix file gets 413
  uint64_t header_bytes = uint64_t{64} << 10;   // "headers": larger ones get 431
  int connections = 1024;                       // beyond: 503
  int64_t header_timeout_seconds = 15;          // for a whole request head
  int64_t body_timeout_seconds = 30;            // between two pieces of a body
  // Average, enforced after ten body_timeouts; 0: no limit.
  int64_t body_bytes_per_second_min = 1024;
  int64_t idle_timeout_seconds = 120;  // between requests of one connection
  int64_t write_timeout_seconds = 60;  // for a client that does not read
  int json_depth = 64;                 // nesting depth of a request body

  friend bool operator==(const LimitsConfig&, const LimitsConfig&) = default;
};

// One [[upstream]]: a provider that requests are forwarded to.
struct UpstreamConfig {
  std::string name;                // required; unique
  std::string dialect = "openai";  // openai, anthropic
  // Selects rules and prices; empty: guessed from base_url.
  std::string provider;
  std::string base_url;                     // required; openai with /v1, anthropic without
  std::vector<std::string> models = {"*"};  // globs; the first upstream with a match is asked
  // The endpoints that an openai upstream has: chat, responses; requests for others are translated.
  std::vector<std::string> endpoints = {"chat", "responses"};
  std::string mode = "pin";            // observe, pin, stabilize
  std::vector<std::string> rules_off;  // names of the modes' rules that are not applied
  bool cache_ttl = true;               // false: it accepts no ttl in a cache_control
  // Of its models, for the windows of sessions; 0: as its list of models or the prices file say.
  int context_tokens = 0;
  std::string api_key_env;               // empty: the caller's own credential is passed on
  std::string ca_file;                   // PEM; empty: the system's
  int connect_timeout_ms = 5'000;        // for name lookup, TCP, proxy tunnel and TLS together
  int first_byte_timeout_seconds = 600;  // from sending to the end of the answer's head
  int idle_timeout_seconds = 300;        // between two pieces of the answer
  int keep_alive_seconds = 30;           // how long an unused connection is kept
  int connections = 1024;                // at once; beyond: 503
  std::string retry = "connect";         // none, connect, reset (also if closed without an answer)
  int retries = 1;                       // at most, of one request
  int breaker_failures = 5;              // failures in a row that open the breaker; 0: never
  int breaker_seconds = 5;               // how long it stays open
  // Unknown paths under /v1 are forwarded to it, for admins and for callers with a credential of
  // their own; false: they get a 404.
  bool forward_unknown = false;

  friend bool operator==(const UpstreamConfig&, const UpstreamConfig&) = default;
};

// One [[route]]: the targets for some models. The first route that matches the model is used;
// models without one go to the first upstream that serves them.
struct RouteConfig {
  std::string name = {};  // for messages; may be empty
  std::vector<std::string> models = {"*"};
  std::vector<std::string> targets = {};  // "UPSTREAM", "UPSTREAM/MODEL" or "local": a pool
  // Like targets; tried in order if none of the pool answers.
  std::vector<std::string> fallback = {};
  std::string balance = "prefix";  // prefix: by prefix affinity; order: as listed
  int affinity_seconds = 600;      // a conversation keeps its target this long after an answer
  double load_factor = 1.25;       // times the mean load; a target above gets no new conversations
  int64_t local_tokens_max = 0;    // shorter prompts go to the local engine first; 0: none
  int single_flight_ms = 0;  // equal cold prefixes wait this long for the leader's answer; 0: off

  friend bool operator==(const RouteConfig&, const RouteConfig&) = default;
};

// One [[key]]: a caller of this gateway and its limits. 0 means no limit.
struct KeyConfig {
  std::string name;     // required; unique; the tenant
  std::string key_env;  // the variable that holds the key; or:
  std::string sha256;   // its SHA-256 in hex
  // user: its own completions, records and prefixes. admin: everybody's, imports, unknown paths.
  std::string role = "user";
  std::vector<std::string> models = {"*"};
  std::string mode;                    // as an upstream's; empty: the upstream's or the engine's
  std::vector<std::string> rules_off;  // in addition to those of the upstream or the engine
  // Output limit for requests that set none; 0: the provider's own. If output_tokens_max is not
  // set, it also caps requests that ask for more, unless they send `x-kvgate-intent: long-form`.
  int64_t default_max_tokens = 0;
  int64_t output_tokens_max = 0;  // caps every answer, whatever its request asks for
  int64_t prompt_tokens_max = 0;  // larger prompts, by estimate, are refused
  int64_t requests_per_minute = 0;
  int64_t tokens_per_minute = 0;
  BudgetLimits budgets;  // a limit of 0 is that of [budgets]

  friend bool operator==(const KeyConfig&, const KeyConfig&) = default;
};

// One [[prompt]]: a version of a prompt that requests name (x-kvgate-prompt).
struct PromptConfig {
  std::string name;            // required; a prompt has several versions
  std::string version;         // required; unique in its name
  std::filesystem::path file;  // required: its text; relative to the configuration's folder
  // Of what begins with the name alone, that begins with this version; not set: the newest version
  // without a share gets what others leave.
  std::optional<double> share;

  friend bool operator==(const PromptConfig&, const PromptConfig&) = default;
};

struct Config {
  ServerConfig server;
  EngineConfig engine;
  CacheConfig cache;
  StoreConfig store;
  SessionsConfig sessions;
  LedgerConfig ledger;
  MetricsConfig metrics;
  TelemetryConfig telemetry;
  BudgetsConfig budgets;
  LimitsConfig limits;
  std::vector<UpstreamConfig> upstreams;
  std::vector<RouteConfig> routes;
  std::vector<KeyConfig> keys;
  std::vector<PromptConfig> prompts;
};

// Errors in the order of the file, each "FILE:LINE: what is wrong"; never empty on failure.
struct ConfigErrors {
  std::vector<std::string> messages;
};

tl::expected<Config, ConfigErrors> ParseConfig(std::string_view toml, std::string_view file_name);
tl::expected<Config, ConfigErrors> LoadConfig(const std::filesystem::path& path);

// Returns a conflict between values that are each valid by themselves, from the file or flags;
// nullopt if there is none.
std::optional<std::string> FindConflict(const Config& config);

// Sets one value with the file's checks, for command-line flags: "engine", "kv_dtype", "f16".
Result<void> SetOption(std::string_view table, std::string_view key, std::string_view value,
                       Config& config);

// $XDG_DATA_HOME/kvgate, else ~/.local/share/kvgate.
std::filesystem::path DefaultDataDir();

// Parses "1GiB", "256 MiB", "10GB", "4096" into bytes; otherwise fails with kInvalidArgument.
Result<uint64_t> ParseBytes(std::string_view text);

// Parses "30d", "12h", "90m", "45s" into seconds; otherwise fails with kInvalidArgument.
Result<int64_t> ParseSeconds(std::string_view text);

struct Url {
  bool tls = false;
  std::string host;  // without brackets
  uint16_t port = 0;
  std::string path;  // "" or "/v1": no slash at its end
};
// Parses "https://api.openai.com/v1". Fails with kInvalidArgument for another scheme, a user name,
// a query or an unsafe character.
Result<Url> ParseUrl(std::string_view text);

struct HostPort {
  std::string host;  // without brackets
  uint16_t port = 0;
  bool is_loopback() const;
};
// Parses "127.0.0.1:8080", "[::1]:0", "localhost:8080".
Result<HostPort> ParseHostPort(std::string_view text);

}  // namespace kvgate::config
