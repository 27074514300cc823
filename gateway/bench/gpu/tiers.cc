#include "gateway/bench/gpu/tiers.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "gateway/bench/bench_file.h"
#include "gateway/bench/bench_work.h"

namespace kvgate::bench::gpu {
namespace {

constexpr uint64_t kSeed = uint64_t{1} << 32;  // apart from other parts' seeds
constexpr size_t kAskedPrefix = 20480;         // its device hit has a bound of its own

struct Prefix {
  std::vector<TokenId> tokens;
  double cold_ms = 0;
  double device_ms = 0;
  double host_ms = 0;
  double disk_ms = 0;
  // The sources of the requests above.
  std::string device_source;
  std::string host_source;
  std::string disk_source;
};

class TierMeasurement {
 public:
  TierMeasurement(Run& run, std::shared_ptr<const modelfile::ModelFile> file, std::string part)
      : run_(run), file_(std::move(file)), part_(std::move(part)) {}

  // Adds the figures that were measured even if an error ends the measurement.
  Result<void> Measure() {
    const Result<void> asked = AskThroughTiers();
    AddFigures();
    return asked;
  }

 private:
  Result<void> AskThroughTiers() {
    KVGATE_TRY_VOID(SizeMemory());
    KVGATE_TRY_VOID(OpenEngine());
    KVGATE_TRY_VOID(AskCold());
    run_.Say("tiers: writing to disk");
    if (!opened_->engine->Drain(std::chrono::minutes(2))) {
      run_.figures().AddFact("tiers", "not all was on disk after 2 minutes");
    }
    // The pool evicts first the blocks that were used once and longest ago, which are these
    // prefixes.
    KVGATE_TRY_VOID(Fill(pool_tokens_));
    KVGATE_TRY_VOID(AskAll("host", &Prefix::host_ms, &Prefix::host_source));
    for (int i = 0; i < 3; ++i) {
      KVGATE_TRY_VOID(AskAll("device", &Prefix::device_ms, &Prefix::device_source));
    }
    KVGATE_TRY_VOID(OpenAnew());
    return AskAll("disk", &Prefix::disk_ms, &Prefix::disk_source);
  }

  Result<void> SizeMemory() {
    const Sizes& sizes = run_.sizes();
    const int64_t held =
        std::accumulate(sizes.prefixes.begin(), sizes.prefixes.end(), int64_t{0}) +
        std::ssize(sizes.prefixes) * 8 * kernels::kKvBlockTokens;  // and the tails after them
    pool_tokens_ = held + held / 4;
    KVGATE_TRY(config_, model::ReadModelConfig(*file_));
    token_bytes_ = config_.kv_shape(kernels::DType::kF16).block_bytes() / kernels::kKvBlockTokens;
    const uint64_t held_bytes = static_cast<uint64_t>(held) * token_bytes_;
    // The write budget's bucket has room for the prefixes, which are stable and written first. It
    // is below half when the fillers come, so those are not admitted to the disk.
    auto admission = std::make_shared<tier::WriteAdmission>(tier::WriteAdmission::Options{
        .bytes_per_day = 1, .burst_bytes_min = held_bytes + held_bytes / 2});
    size_ = {.kv_bytes = static_cast<uint64_t>(pool_tokens_) * token_bytes_,
             .host_bytes = 2 * held_bytes,
             .disk_bytes = 3 * held_bytes + (uint64_t{64} << 20),
             .disk_directory = run_.directory() / "tiers",
             .context_tokens = longest() + 8 * kernels::kKvBlockTokens,
             .write_back_bytes = 2 * held_bytes,
             .write_admission = admission};
    return {};
  }

  Result<void> OpenEngine() {
    KVGATE_TRY(OpenedEngine opened, run_.OpenEngine(file_, size_));
    opened_.emplace(std::move(opened));
    return Fill(1);  // an engine's first request pays one-time costs
  }

  // Closes the engine with its memory, drops the page cache, and opens a new engine.
  Result<void> OpenAnew() {
    opened_.reset();
    ForgetFiles(size_.disk_directory);
    return OpenEngine();
  }

  int longest() const { return *std::ranges::max_element(run_.sizes().prefixes); }

  // Requests the prefix followed by a tail that was never requested before.
  Result<Answer> AskFor(const Prefix& prefix) {
    std::vector<TokenId> prompt = prefix.tokens;
    const std::vector<TokenId> tail =
        RandomTokens(run_.sizes().tail_tokens, config_.vocab_size, kSeed + next_seed_++);
    prompt.insert(prompt.end(), tail.begin(), tail.end());
    return AskOne(
        *opened_->engine,
        {.prompt = std::move(prompt), .num_stable_tokens = static_cast<int>(prefix.tokens.size())},
        run_.seconds_left());
  }

  Result<void> AskCold() {
    for (const int num_tokens : run_.sizes().prefixes) {
      Prefix& prefix = prefixes_.emplace_back();
      prefix.tokens = RandomTokens(num_tokens, config_.vocab_size, kSeed + next_seed_++);
      run_.Say(fmt::format("tiers: {} tokens cold", num_tokens));
      KVGATE_TRY(const Answer cold, AskFor(prefix));
      prefix.cold_ms = 1e3 * cold.stats.ttft_seconds;
    }
    return {};
  }

  // Keeps the fastest time so far.
  Result<void> AskAll(const char* tier, double Prefix::*ms, std::string Prefix::*source) {
    for (Prefix& prefix : prefixes_) {
      run_.Say(fmt::format("tiers: {} tokens from the {}", prefix.tokens.size(), tier));
      KVGATE_TRY(const Answer answer, AskFor(prefix));
      const double new_ms = 1e3 * answer.stats.ttft_seconds;
      if (prefix.*ms > 0 && new_ms >= prefix.*ms) continue;
      prefix.*ms = new_ms;
      prefix.*source = SourceText(answer.stats);
    }
    return {};
  }

  // Requests prompts of `num_tokens` in all that are not requested again.
  Result<void> Fill(int64_t num_tokens) {
    const int at_once = std::max(longest() / 8, kernels::kKvBlockTokens);
    for (int64_t done = 0; done < num_tokens; done += at_once) {
      if (num_tokens > 1 && done % (8 * at_once) == 0) {
        run_.Say(
            fmt::format("tiers: {} of {} tokens that push the prefixes down", done, num_tokens));
      }
      KVGATE_TRY_VOID(
          AskOne(*opened_->engine,
                 {.prompt = RandomTokens(at_once, config_.vocab_size, kSeed + next_seed_++)},
                 run_.seconds_left()));
    }
    return {};
  }

  // Skips figures that were not measured.
  void Add(const Prefix& prefix, const char* name, Figure figure) {
    if (figure.measured == 0) return;
    figure.part = part_;
    figure.name = fmt::format("{} tokens, {}", prefix.tokens.size(), name);
    figure.unit = "ms";
    figure.bound = run_.Asked(figure.bound);
    run_.figures().Add(std::move(figure));
  }

  void AddFigures() {
    const Limits& limits = run_.limits();
    for (const Prefix& prefix : prefixes_) {
      const auto num_tokens = static_cast<double>(prefix.tokens.size());
      const double prompt_tokens = num_tokens + run_.sizes().tail_tokens;
      Add(prefix, "cold",
          {.measured = prefix.cold_ms,
           .limit = 1e3 * PrefillOperations(config_, prompt_tokens) / limits.operations_per_second,
           .limit_name = "operations / measured peak"});
      const Bound asked{.kind = BoundKind::kMax, .value = 30};
      Add(prefix, "GPU hit",
          {.measured = prefix.device_ms,
           .bound = prefix.tokens.size() == kAskedPrefix ? asked : Bound{},
           .note = prefix.device_source});
      const double copy_ms = 1e3 * num_tokens * static_cast<double>(token_bytes_) /
                             limits.host_to_device_bytes_per_second;
      Add(prefix, "host hit",
          {.measured = prefix.host_ms,
           .limit = prefix.device_ms > 0 ? 1.3 * copy_ms + prefix.device_ms : 0,
           .limit_name = "1.3 x pinned copy + one step (a GPU hit)",
           .bound = {.kind = BoundKind::kRatioMax, .value = 1},
           .note = prefix.host_source});
      Add(prefix, "disk hit",
          {.measured = prefix.disk_ms,
           .limit = prefix.cold_ms,
           .limit_name = "cold",
           .bound = {.kind = BoundKind::kRatioMax, .value = 1},
           .note = prefix.disk_source});
    }
  }

  Run& run_;
  std::shared_ptr<const modelfile::ModelFile> file_;
  const std::string part_;
  model::ModelConfig config_;
  uint64_t token_bytes_ = 0;  // of KV
  EngineSize size_;
  std::optional<OpenedEngine> opened_;
  std::vector<Prefix> prefixes_;
  int64_t pool_tokens_ = 0;
  uint64_t next_seed_ = 0;
};

}  // namespace

std::string SourceText(const engine::RequestStats& stats) {
  const std::pair<const char*, int> sources[] = {{"device", stats.num_device_tokens},
                                                 {"host", stats.num_host_tokens},
                                                 {"disk", stats.num_disk_tokens},
                                                 {"computed", stats.num_computed_tokens}};
  std::string text;
  for (const auto& [name, count] : sources) {
    if (count == 0) continue;
    if (!text.empty()) text += ", ";
    text += fmt::format("{} {:.1f} %", name, 100.0 * count / std::max(1, stats.num_prompt_tokens));
  }
  return text;
}

Result<void> MeasureTiers(Run& run, std::shared_ptr<const modelfile::ModelFile> file,
                          const std::string& dtype) {
  return TierMeasurement(run, std::move(file), "TTFT of a prefix, " + dtype).Measure();
}

}  // namespace kvgate::bench::gpu
