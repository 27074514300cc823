// Config: everything that can be set, with its default. Read from TOML; command-line flags
// override. Every key has a default here, a unit in its name or its comment, and one row in
// config.cc's table.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <kvgate/result.h>

namespace kvgate::config {

struct ServerConfig {
  std::string listen = "127.0.0.1:8080";   // ADDRESS:PORT; port 0 picks a free one
  int threads = 2;                         // of the HTTP server
  std::string tls_cert;                    // PEM, with its chain; and tls_key: the listener's TLS
  std::string tls_key;                     // PEM, not encrypted; neither: plain HTTP
  std::string tls_min_version = "1.2";     // 1.2, 1.3
  std::vector<std::string> allowed_hosts;  // Host values accepted beside loopback's and `listen`'s
  int64_t drain_seconds = 30;              // grace for running requests at SIGTERM
  std::string log_level = "info";          // debug, info, warning, error
  std::string log_format = "text";         // text, json

  friend bool operator==(const ServerConfig&, const ServerConfig&) = default;
};

struct EngineConfig {
  std::string model;  // a GGUF file; empty: the embedded default
  // auto (a CUDA device where there is a usable one), cpu, cuda. What is "by device" below is
  // filled in when it is known: gateway/cli/device.h.
  std::string device = "auto";
  int device_ordinal = 0;  // found, not set: the first usable device of several
  // Of a device's sums: invariant (one order for every number of rows: a hit never changes an
  // answer), fast (CUDA only: the quickest there is; what decoding wrote is no hit afterwards).
  std::string numerics = "invariant";
  // Tokens of a request and its answer; 0: as many as the model knows and the KV memory holds.
  int context = 0;
  // Of answers whose request names no bound, and whose key has none; 0: what the context leaves.
  int64_t default_max_tokens = 4096;
  int threads = 0;  // of the CPU backend; 0: one per hardware thread
  // Of the CPU backend's instructions: auto (the best there are), amx, avx512_vnni, avx512, avx2,
  // sse4, neon, emu128 (none).
  std::string cpu_target = "auto";
  std::string kv_dtype = "f16";         // f32, f16, bf16, fp8_e4m3, q8_0, q4_0
  std::string context_policy = "none";  // none, sliding_window, attention_sink, least_attended
  int context_policy_tokens = 0;        // KV tokens that a sequence keeps under it; 0: all
  uint64_t kv_memory_bytes = 0;         // "kv_memory": the KV block pool; 0: by device
  // "grammar_memory": grammars, schemas and their masks, of all requests; beyond: 503
  uint64_t grammar_memory_bytes = uint64_t{256} << 20;
  std::string chat_template;  // a Jinja file, or a built-in's name; empty: the model's own
  std::string chat_format;    // a built-in instead of the model's template: chatml, llama2, …
  int step_tokens = 0;        // prefill and decode tokens of one step; 0: by device
  int mixed_step_tokens = 0;  // the same while a sequence decodes: bounds its gaps
  int step_ms = 1000;         // prefill of one step at most; a quarter while others wait for it
  int short_prompt_tokens = 1024;  // prompts with no more to prefill take the short lane
  int ttft_slo_ms = 0;             // refuse (429) what cannot have its first token by then; 0: off
  double tenant_kv_share = 1.0;    // of the KV memory, for one tenant's running requests
  int sequences = 64;              // running at once
  int queue = 1024;                // waiting; beyond: 503
  int io_threads = 2;              // restoring from disk

  friend bool operator==(const EngineConfig&, const EngineConfig&) = default;
};

struct CacheConfig {
  // "host_memory": the arena between KV memory and disk; 0: none; not set: by device.
  std::optional<uint64_t> host_memory_bytes;
  uint64_t write_back_bytes = uint64_t{256} << 20;  // "write_back": queued for disk at most
  uint64_t prompt_memory_bytes = uint64_t{256}
                                 << 20;  // "prompt_memory": of what conversations sent to upstreams

  friend bool operator==(const CacheConfig&, const CacheConfig&) = default;
};

struct StoreConfig {
  std::filesystem::path data_dir;                    // empty: $XDG_DATA_HOME/kvgate
  bool disk = true;                                  // false: no disk tier
  uint64_t disk_cache_bytes = uint64_t{16} << 30;    // "disk_cache": budget of KV on disk
  uint64_t write_budget_bytes = uint64_t{64} << 30;  // "write_budget": of KV a day; 0: unlimited
  int64_t flush_interval_ms = 1000;                  // KV lost by a crash: at most this much
  bool sync = false;                                 // durable against power loss, not just crashes
  bool turns = true;  // conversations may be kept; false: none is written
  int64_t turns_retention_seconds =
      2'592'000;                             // "turns_retention": after a conversation's last turn
  uint64_t turns_bytes = uint64_t{1} << 30;  // of all of them; the one silent longest goes first
  // Tools and system prompts as upstreams got them first, so that a restart sends them alike;
  // false: what is there is deleted.
  bool prompts = true;
  int64_t prompts_retention_seconds = 604'800;  // "prompts_retention": after it was written
  uint64_t prompts_bytes = uint64_t{64} << 20;  // of all of them; the oldest go first
  // Of the bytes for turns and for prompts, and of what can be pinned: a tenant above it makes room
  // first, and pins no more.
  double tenant_share = 0.5;
  int64_t timeout_seconds = 10;  // what waits for the disk gets 503 then
  // The environment variable with the secrets that seal what is stored and exported, which machines
  // that share it have alike; empty: DIR/secret.key, made at the first start.
  std::string secret_env;

  friend bool operator==(const StoreConfig&, const StoreConfig&) = default;
};

struct LedgerConfig {
  std::filesystem::path prices;  // a file whose rows stand in front of the built-in ones
  int64_t records = 100'000;     // of requests, kept; the sums go on counting
  int64_t retention_days = 30;   // the same, by age
  bool excerpts = true;          // records show a few words where a prefix broke

  friend bool operator==(const LedgerConfig&, const LedgerConfig&) = default;
};

// Who reads /metrics beside admins: nobody, or whoever has this key. One of both, or neither.
struct MetricsConfig {
  std::string key_env;  // the variable that holds the key; or:
  std::string sha256;   // its SHA-256 in hex

  friend bool operator==(const MetricsConfig&, const MetricsConfig&) = default;
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
  int64_t body_bytes_per_second_min = 1024;     // on average, from ten body_timeouts on; 0: any
  int64_t idle_timeout_seconds = 120;           // between requests of one connection
  int64_t write_timeout_seconds = 60;           // for a client that does not read
  int json_depth = 64;                          // nesting of a request body

  friend bool operator==(const LimitsConfig&, const LimitsConfig&) = default;
};

// One [[upstream]]: a provider that requests are forwarded to.
struct UpstreamConfig {
  std::string name;                         // required; unique
  std::string dialect = "openai";           // openai, anthropic
  std::string provider;                     // rules and prices; empty: guessed from base_url
  std::string base_url;                     // required; openai with /v1, anthropic without
  std::vector<std::string> models = {"*"};  // globs; the first upstream with a match is asked
  // Which of its dialects an openai one has: chat, responses; others are translated.
  std::vector<std::string> endpoints = {"chat", "responses"};
  std::string mode = "pin";              // observe, pin, stabilize
  std::vector<std::string> rules_off;    // rules of the modes that are not applied, by name
  bool cache_ttl = true;                 // false: it takes no ttl in a cache_control
  std::string api_key_env;               // empty: the caller's own credential is passed on
  std::string ca_file;                   // PEM; empty: the system's
  int connect_timeout_ms = 5'000;        // resolving apart
  int first_byte_timeout_seconds = 600;  // sending, then the answer's whole head
  int idle_timeout_seconds = 300;        // between two pieces of the answer
  int keep_alive_seconds = 30;           // an unused connection is kept so long
  int connections = 1024;                // at once; beyond: 503
  std::string retry = "connect";         // none, connect, reset (also what was dropped unread)
  int retries = 1;                       // of one request
  int breaker_failures = 5;              // in a row, then it is not asked for a while; 0: never
  int breaker_seconds = 5;               // that while
  // Paths under /v1 that are not known here go to it, from admins and from callers with a
  // credential of their own; false: they are a 404.
  bool forward_unknown = false;

  friend bool operator==(const UpstreamConfig&, const UpstreamConfig&) = default;
};

// One [[route]]: whom to ask for some models. The first that fits the model counts; models without
// one go to the first upstream that serves them.
struct RouteConfig {
  std::string name = {};  // for messages; may be empty
  std::vector<std::string> models = {"*"};
  std::vector<std::string> targets = {};   // "UPSTREAM", "UPSTREAM/MODEL" or "local": a pool
  std::vector<std::string> fallback = {};  // the same, asked in order when none of the pool answers
  std::string balance = "prefix";  // prefix: a prompt goes where its prefix went; order: as listed
  int affinity_seconds = 600;      // a conversation stays so long after its last answer
  double load_factor = 1.25;       // of the mean load; beyond: no new conversations
  int64_t local_tokens_max = 0;    // shorter prompts go to the local engine first; 0: none
  int single_flight_ms = 0;  // equal cold prefixes wait so long for the first one's answer; 0: off

  friend bool operator==(const RouteConfig&, const RouteConfig&) = default;
};

// One [[key]]: who may use this gateway, and how much of it. 0: no limit.
struct KeyConfig {
  std::string name;     // required; unique; the tenant
  std::string key_env;  // the variable that holds the key; or:
  std::string sha256;   // its SHA-256 in hex
  // user: its own completions, records and prefixes. admin: everybody's, imports, unknown paths.
  std::string role = "user";
  std::vector<std::string> models = {"*"};
  std::string mode;                    // as an upstream's; empty: the upstream's
  std::vector<std::string> rules_off;  // beside the upstream's
  // Of answers whose request names no bound; 0: the provider's own. Without output_tokens_max no
  // request gets more by naming more, unless it says `x-kvgate-intent: long-form`.
  int64_t default_max_tokens = 0;
  int64_t output_tokens_max = 0;  // no answer is longer, whatever its request says
  int64_t prompt_tokens_max = 0;  // larger prompts, as estimated, are refused
  int64_t requests_per_minute = 0;
  int64_t tokens_per_minute = 0;
  double dollars_per_day = 0;
  double dollars_per_month = 0;

  friend bool operator==(const KeyConfig&, const KeyConfig&) = default;
};

struct Config {
  ServerConfig server;
  EngineConfig engine;
  CacheConfig cache;
  StoreConfig store;
  LedgerConfig ledger;
  MetricsConfig metrics;
  LimitsConfig limits;
  std::vector<UpstreamConfig> upstreams;
  std::vector<RouteConfig> routes;
  std::vector<KeyConfig> keys;
};

// Errors in the order of the file, each "FILE:LINE: what is wrong"; never empty on failure.
struct ConfigErrors {
  std::vector<std::string> messages;
};

tl::expected<Config, ConfigErrors> ParseConfig(std::string_view toml, std::string_view file_name);
tl::expected<Config, ConfigErrors> LoadConfig(const std::filesystem::path& path);

// What of a file and flags together cannot be, each value being right by itself.
std::optional<std::string> FindConflict(const Config& config);

// The same checks for one value as for the file, for command-line flags: "engine", "kv_dtype",
// "f16".
Result<void> SetOption(std::string_view table, std::string_view key, std::string_view value,
                       Config& config);

// $XDG_DATA_HOME/kvgate, else ~/.local/share/kvgate.
std::filesystem::path DefaultDataDir();

// "1GiB", "256 MiB", "10GB", "4096": bytes. kInvalidArgument otherwise.
Result<uint64_t> ParseBytes(std::string_view text);

// "30d", "12h", "90m", "45s": seconds. kInvalidArgument otherwise.
Result<int64_t> ParseSeconds(std::string_view text);

struct Url {
  bool tls = false;
  std::string host;  // without brackets
  uint16_t port = 0;
  std::string path;  // "" or "/v1": no slash at its end
};
// "https://api.openai.com/v1". kInvalidArgument: another scheme, user names, a query, an unsafe
// character.
Result<Url> ParseUrl(std::string_view text);

struct HostPort {
  std::string host;  // without brackets
  uint16_t port = 0;
  bool is_loopback() const;
};
// "127.0.0.1:8080", "[::1]:0", "localhost:8080".
Result<HostPort> ParseHostPort(std::string_view text);

}  // namespace kvgate::config
