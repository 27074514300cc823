// `kvgate replay`: replays a trace against simulated providers and shows what each mode would have
// read from caches and its cost, compared with the unchanged requests and with the optimum.
#include "gateway/replay/replay.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gateway/cli/commands.h"
#include "gateway/cli/terminal/progress.h"
#include "gateway/dialect/form/json_writer.h"

namespace kvgate::cli {
namespace {

constexpr const char* kFooter =
    "Exit status: 0 where every bound given is met, 1 where one is not, 2 for wrong usage or a "
    "trace that cannot be read.\n"
    "Tokens are counted as four bytes each: ratios say more than sums.";

struct ReplayFlags {
  std::string trace;
  std::vector<std::string> modes = {"observe", "pin", "stabilize"};
  std::vector<std::string> rules_off;
  std::string prices;
  std::string sent;
  replay::ReplayOptions options;
  std::string provider;
  bool overflows = false;
  int num_servers = 1;
  replay::Thresholds thresholds;
  bool json = false;
};

std::string KnownModes() {
  std::string names;
  for (const prompt::Mode mode :
       {prompt::Mode::kObserve, prompt::Mode::kPin, prompt::Mode::kStabilize}) {
    names += (names.empty() ? "" : ", ") + std::string(prompt::ModeName(mode));
  }
  return names;
}

Result<std::vector<prompt::Mode>> ReadModes(const std::vector<std::string>& names) {
  std::vector<prompt::Mode> modes;
  for (const std::string& name : names) {
    const std::optional<prompt::Mode> mode = prompt::ParseMode(name);
    if (!mode) {
      return MakeError(ErrorCode::kInvalidArgument, "cli",
                       fmt::format("--modes: '{}' is none of {}", name, KnownModes()));
    }
    modes.push_back(*mode);
  }
  return modes;
}

Result<uint32_t> ReadRules(const std::vector<std::string>& names) {
  uint32_t bits = 0;
  for (const std::string& name : names) {
    size_t rule = 0;
    while (rule < prompt::parse::kNumRules &&
           prompt::parse::RuleName(static_cast<prompt::parse::Rule>(rule)) != name) {
      ++rule;
    }
    if (rule == prompt::parse::kNumRules) {
      return MakeError(ErrorCode::kInvalidArgument, "cli",
                       fmt::format("--rules-off: there is no rule '{}'", name));
    }
    bits |= uint32_t{1} << rule;
  }
  return bits;
}

// Writes JSON lines of requests and answers. They hold prompt text, so only the owner may read
// them.
class SentFile {
 public:
  static Result<std::unique_ptr<SentFile>> Open(const std::string& path) {
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    std::FILE* const stream = file < 0 ? nullptr : ::fdopen(file, "w");
    if (stream == nullptr) {
      return MakeError(ErrorCode::kIo, "cli", fmt::format("{} cannot be written", path));
    }
    return std::unique_ptr<SentFile>(new SentFile(stream));
  }
  ~SentFile() { std::fclose(file_); }
  SentFile(const SentFile&) = delete;
  SentFile& operator=(const SentFile&) = delete;

  void Write(const replay::SentBody& sent) {
    std::string line;
    dialect::form::JsonWriter json(line);
    json.BeginObject();
    json.Key("column").String(sent.column);
    json.Key("request").Unsigned(sent.request);
    json.Key("refusal").String(sent.answer.refusal);
    const ledger::reply::TokenUsage& usage = sent.answer.usage;
    json.Key("uncached_tokens").Integer(usage.uncached_tokens);
    json.Key("cache_read_tokens").Integer(usage.cache_read_tokens);
    json.Key("cache_write_tokens").Integer(usage.cache_write_tokens);
    json.Key("cache_write_1h_tokens").Integer(usage.cache_write_1h_tokens);
    json.Key("edits").BeginArray();
    for (const prompt::parse::Edit& edit : sent.prepared.edits) {
      json.BeginObject();
      json.Key("rule").String(prompt::parse::RuleName(edit.rule));
      json.Key("path").String(edit.path);
      json.Key("begin").Unsigned(edit.span.begin);
      json.Key("end").Unsigned(edit.span.end);
      json.Key("bytes").String(edit.bytes);
      json.EndObject();
    }
    json.EndArray();
    json.Key("notes").BeginArray();
    for (const std::string& note : sent.prepared.notes) json.String(note);
    json.EndArray();
    json.Key("body").String(sent.body);
    json.EndObject();
    fmt::print(file_, "{}\n", line);
  }

 private:
  explicit SentFile(std::FILE* file) : file_(file) {}
  std::FILE* const file_;
};

Result<int> Replay(ReplayFlags flags) {
  ledger::Prices prices = ledger::Prices::Builtin();
  if (!flags.prices.empty()) {
    KVGATE_TRY(prices, ledger::Prices::Load(flags.prices));
  }
  KVGATE_TRY(flags.options.modes, ReadModes(flags.modes));
  KVGATE_TRY(const uint32_t rules_off, ReadRules(flags.rules_off));
  std::unique_ptr<SentFile> sent;
  replay::SentSink sink;
  if (!flags.sent.empty()) {
    KVGATE_TRY(sent, SentFile::Open(flags.sent));
    sink = [&sent](const replay::SentBody& body) { sent->Write(body); };
  }
  auto opened = replay::TraceReader::Open(flags.trace);
  if (!opened) {
    Error error = std::move(opened).error();
    error.code = ErrorCode::kInvalidArgument;  // the argument is wrong, whatever the cause
    return error;
  }
  replay::TraceReader& trace = **opened;
  const replay::ReplayOptions options{.columns = {.prices = prices,
                                                  .overflows = flags.overflows,
                                                  .num_servers = flags.num_servers,
                                                  .provider = flags.provider,
                                                  .rules_off = rules_off,
                                                  .sent = sink},
                                      .modes = flags.options.modes,
                                      .model = flags.options.model,
                                      .num_warmup = flags.options.num_warmup};
  std::optional<terminal::Progress> progress(std::in_place, "replaying", "requests");
  const auto result = replay::RunReplay(
      trace, options, [&](size_t done) { progress->Set(done, trace.num_requests()); });
  progress.reset();
  if (!result) return result.error();
  fmt::print("{}", flags.json ? ReplayJson(*result) : ReplayText(*result));
  const std::vector<std::string> misses = Misses(*result, flags.thresholds);
  for (const std::string& miss : misses) fmt::print(stderr, "not met: {}\n", miss);
  return misses.empty() ? 0 : 1;
}

void AddThresholds(CLI::App& command, replay::Thresholds& thresholds) {
  command
      .add_option("--min-hit-rate", thresholds.hit_rate_min,
                  "of each mode: cached of all input tokens")
      ->check(CLI::Range(0.0, 1.0));
  command.add_option("--max-cost-ratio", thresholds.cost_ratio_max, "of each mode to direct")
      ->check(CLI::Range(0.0, 1000.0));
  command
      .add_option("--min-oracle-ratio", thresholds.oracle_ratio_min,
                  "of each mode's cached tokens to the oracle's")
      ->check(CLI::Range(0.0, 1.0));
}

}  // namespace

void AddReplay(CLI::App& app, Run& chosen) {
  auto flags = std::make_shared<ReplayFlags>();
  CLI::App* command = app.add_subcommand(
      "replay", "What the modes would have saved of recorded requests, at simulated providers");
  command->footer(kFooter);
  command->add_option("trace", flags->trace, "TRACE.jsonl, of `kvgate record`")->required();
  command->add_option("--provider", flags->provider,
                      "whose cache and prices, instead of each request's own; also 'raw', which "
                      "hashes bodies as they come");
  command->add_option("--model", flags->options.model, "instead of each request's own");
  command->add_option("--modes", flags->modes, KnownModes())->delimiter(',')->capture_default_str();
  command->add_option("--rules-off", flags->rules_off, "rules that are not applied")
      ->delimiter(',');
  command->add_option("--prices", flags->prices, "a price file, in front of the built-in one");
  command->add_option("--warmup", flags->options.num_warmup,
                      "requests at the front that teach and are not counted");
  command->add_flag(
      "--overflow", flags->overflows,
      "more requests a minute than a prompt_cache_key may have go to another machine");
  command
      ->add_option("--servers", flags->num_servers,
                   "among which a provider spreads requests that name no conversation")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->add_option("--sent", flags->sent,
                      "a file to be written with what was sent and answered; holds prompt text");
  AddThresholds(*command, flags->thresholds);
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->callback([flags, &chosen] { chosen = [flags] { return Replay(*flags); }; });
}

}  // namespace kvgate::cli
