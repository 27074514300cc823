#include "gateway/bench/gpu/agents.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace kvgate::bench::gpu {
namespace {

constexpr uint64_t kSeed = uint64_t{1} << 33;  // apart from other parts' seeds

using TurnKey = std::pair<int, int>;  // session, turn

// Sessions that send a prompt, append the answer and a tool's output, and ask again.
class AgentDriver {
 public:
  AgentDriver(engine::Engine& engine, const AgentRun& agents)
      : engine_(engine), agents_(agents), requests_(engine) {}

  Result<AgentReport> Drive() {
    const auto begin = Clock::now();
    report_.num_turns_wanted = agents_.num_sessions * agents_.sizes.num_turns;
    for (int session = 0; session < agents_.num_sessions; ++session) {
      texts_.push_back(Made(agents_.sizes.common_tokens, 0));
      Append(session, Made(agents_.sizes.first_tokens, SeedOf(session, 0)));
      KVGATE_TRY_VOID(Submit(session, 0));
    }
    while (requests_.num_running() > 0) {
      std::optional<Answer> answer = requests_.Next(agents_.until);
      if (!answer) break;
      if (answer->error) return *std::move(answer->error);
      KVGATE_TRY_VOID(Take(*answer));
    }
    report_.seconds = SecondsBetween(begin, Clock::now());
    TakeCut();
    return std::move(report_);
  }

 private:
  std::vector<TokenId> Made(int count, uint64_t seed) const {
    return RandomTokens(count, engine_.info().model.vocab_size, kSeed + seed);
  }
  static uint64_t SeedOf(int session, int turn) {
    return 1 + (static_cast<uint64_t>(session) << 16) + static_cast<uint64_t>(turn);
  }
  void Append(int session, const std::vector<TokenId>& tokens) {
    std::vector<TokenId>& text = texts_[static_cast<size_t>(session)];
    text.insert(text.end(), tokens.begin(), tokens.end());
  }

  Result<void> Submit(int session, int turn) {
    const std::vector<TokenId>& text = texts_[static_cast<size_t>(session)];
    const std::string salt = agents_.has_prefix_cache
                                 ? agents_.salt
                                 : fmt::format("{}-{}-{}", agents_.salt, session, turn);
    const size_t id = static_cast<size_t>(session) * 65536 + static_cast<size_t>(turn);
    return requests_.Submit(id, {.prompt = text,
                                 .max_tokens = agents_.sizes.output_tokens,
                                 .salt = salt,
                                 .num_stable_tokens = static_cast<int>(text.size())});
  }

  Result<void> Take(const Answer& answer) {
    const int session = static_cast<int>(answer.id / 65536);
    const int turn = static_cast<int>(answer.id % 65536);
    Note(answer);
    if (turn + 1 == agents_.sizes.num_turns) return {};
    Append(session, answer.tokens);
    Append(session, Made(agents_.sizes.turn_tokens, SeedOf(session, turn + 1)));
    return Submit(session, turn + 1);
  }

  void Note(const Answer& answer) {
    report_.turns.push_back({.session = static_cast<int>(answer.id / 65536),
                             .turn = static_cast<int>(answer.id % 65536),
                             .ttft_ms = answer.ttft_ms(),
                             .is_whole = !answer.error,
                             .stats = answer.stats});
    report_.num_output_tokens += answer.tokens.size();
  }

  // Requests that still run when the time is over also contribute the tokens they produced.
  void TakeCut() {
    requests_.CancelAll();
    while (requests_.num_running() > 0) {
      const std::optional<Answer> answer = requests_.Next(After(60));
      if (!answer) return;
      if (!answer->tokens.empty()) Note(*answer);
    }
  }

  engine::Engine& engine_;
  const AgentRun& agents_;
  Requests requests_;
  AgentReport report_;
  std::vector<std::vector<TokenId>> texts_;  // of each session, so far
};

double Percentile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const auto last = static_cast<double>(values.size() - 1);
  return values[static_cast<size_t>(std::ceil(share * last))];
}

// Returns the TTFTs of the turns that both runs began.
std::vector<double> TtftMs(const AgentReport& report, const std::map<TurnKey, int>& keys) {
  std::vector<double> ms;
  for (const AgentTurn& turn : report.turns) {
    const auto found = keys.find({turn.session, turn.turn});
    if (found != keys.end() && found->second == 2) ms.push_back(turn.ttft_ms);
  }
  return ms;
}

// The member's share of the prompt tokens, in percent.
double Percent(const AgentReport& report, int engine::RequestStats::*member) {
  double part = 0;
  double all = 0;
  for (const AgentTurn& turn : report.turns) {
    part += turn.stats.*member;
    all += turn.stats.num_prompt_tokens;
  }
  return all > 0 ? 100 * part / all : 0;
}

// The hit rate of a cache that evicts nothing: all tokens except those new in each turn.
double PercentPossible(const AgentReport& report, const AgentSizes& sizes) {
  double fresh = 0;
  double all = 0;
  bool has_common = false;
  for (const AgentTurn& turn : report.turns) {
    all += turn.stats.num_prompt_tokens;
    fresh += turn.turn == 0 ? sizes.first_tokens : sizes.turn_tokens;
    if (!has_common) fresh += sizes.common_tokens;
    has_common = true;
  }
  return all > 0 ? 100 * (1 - fresh / all) : 0;
}

double OutputSpeed(const AgentReport& report) {
  return static_cast<double>(report.num_output_tokens) / report.seconds;
}

std::string CutText(const AgentReport& report) {
  if (!report.is_cut()) return "";
  return fmt::format("cut after {:.0f} s: {} of {} turns", report.seconds, report.num_answered(),
                     report.num_turns_wanted);
}

void AddAgentFigures(Run& run, const std::string& part, const AgentReport& with,
                     const AgentReport& without) {
  std::map<TurnKey, int> answered;
  for (const AgentReport* report : {&with, &without}) {
    for (const AgentTurn& turn : report->turns) ++answered[{turn.session, turn.turn}];
  }
  const std::vector<double> with_ms = TtftMs(with, answered);
  const std::vector<double> without_ms = TtftMs(without, answered);
  for (const auto& [name, share] : {std::pair("TTFT p50", 0.5), std::pair("TTFT p99", 0.99)}) {
    run.figures().Add({.part = part,
                       .name = name,
                       .measured = Percentile(with_ms, share),
                       .unit = "ms",
                       .limit = Percentile(without_ms, share),
                       .limit_name = "without the prefix cache",
                       .note = fmt::format("of the {} turns that both began", with_ms.size())});
  }
  run.figures().Add({.part = part,
                     .name = "output",
                     .measured = OutputSpeed(with),
                     .unit = "tok/s",
                     .limit = OutputSpeed(without),
                     .limit_name = "without the prefix cache",
                     .note = CutText(with)});
  run.figures().Add({.part = part,
                     .name = "turns answered",
                     .measured = static_cast<double>(with.num_answered()),
                     .unit = "",
                     .limit = static_cast<double>(without.num_answered()),
                     .limit_name = "without the prefix cache",
                     .note = CutText(without)});
  run.figures().Add({.part = part,
                     .name = "hit rate in tokens",
                     .measured = Percent(with, &engine::RequestStats::num_cached_tokens),
                     .unit = "%",
                     .limit = PercentPossible(with, run.sizes().agents),
                     .limit_name = "all but each turn's new tokens"});
  for (const auto& [name, member] :
       {std::pair("from the device", &engine::RequestStats::num_device_tokens),
        std::pair("from the host", &engine::RequestStats::num_host_tokens),
        std::pair("from disk", &engine::RequestStats::num_disk_tokens)}) {
    run.figures().Add({.part = part, .name = name, .measured = Percent(with, member), .unit = "%"});
  }
}

int ContextTokens(const AgentSizes& sizes) {
  return sizes.common_tokens + sizes.first_tokens +
         sizes.num_turns * (sizes.turn_tokens + sizes.output_tokens);
}

}  // namespace

Result<AgentReport> RunAgents(engine::Engine& engine, const AgentRun& agents) {
  return AgentDriver(engine, agents).Drive();
}

Result<void> MeasureAgents(Run& run, std::shared_ptr<const modelfile::ModelFile> file,
                           const std::string& dtype) {
  const AgentSizes& sizes = run.sizes().agents;
  std::vector<AgentReport> reports[2];  // without and with the prefix cache
  size_t num_runs = 2 * sizes.sessions.size();
  for (const bool has_prefix_cache : {false, true}) {
    EngineSize size{.context_tokens = ContextTokens(sizes),
                    .mixed_step_tokens = run.sizes().step_tokens / 4};
    if (has_prefix_cache) {
      size.host_bytes = run.host_bytes();
      size.disk_bytes = run.options().disk_bytes;
    }
    KVGATE_TRY(OpenedEngine opened, run.OpenEngine(file, size));
    for (const int num_sessions : sizes.sessions) {
      const double seconds = run.seconds_left() / static_cast<double>(num_runs--);
      run.Say(fmt::format("agents: sessions at once: {}, {} the prefix cache, at most {:.0f} s",
                          num_sessions, has_prefix_cache ? "with" : "without", seconds));
      const AgentRun agents{.sizes = sizes,
                            .num_sessions = num_sessions,
                            .has_prefix_cache = has_prefix_cache,
                            .salt = fmt::format("agents-{}", num_sessions),
                            .until = After(seconds)};
      KVGATE_TRY(AgentReport report, RunAgents(*opened.engine, agents));
      reports[has_prefix_cache ? 1 : 0].push_back(std::move(report));
    }
  }
  for (size_t i = 0; i < sizes.sessions.size(); ++i) {
    const std::string part = fmt::format("agents {}, {} {}", dtype, sizes.sessions[i],
                                         sizes.sessions[i] == 1 ? "session" : "sessions");
    AddAgentFigures(run, part, reports[1][i], reports[0][i]);
  }
  return {};
}

}  // namespace kvgate::bench::gpu
