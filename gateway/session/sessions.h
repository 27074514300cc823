// Sessions: a request that names a session, from its body to its turn in the log. What its caller
// sent becomes a whole transcript, of which the window leaves out what does not fit; the answer
// becomes the session's next turn.
//
// Its four steps belong to different threads: Read and Compose compute, Load and Commit wait for
// the disk. Thread-safe, but for the turn that is handed from step to step.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gateway/metrics/registry.h"
#include "gateway/session/answer/answer_reader.h"
#include "gateway/session/compose.h"
#include "gateway/session/log/history.h"
#include "gateway/session/log/session_locks.h"
#include "gateway/session/log/session_log.h"
#include "gateway/session/results/turn_results.h"
#include "gateway/session/session_ask.h"
#include "gateway/session/session_fold.h"
#include "gateway/session/session_memory.h"
#include "gateway/session/summary/folds.h"
#include "gateway/session/summary/idle.h"
#include "gateway/session/summary/summary_prompt.h"
#include "gateway/session/transcript/request_body.h"
#include "gateway/session/window/window.h"
#include "store/meta/turn_store.h"

namespace kvgate::session {

using transcript::Dialect;

// A turn that is being made. It holds the session until it is released.
struct SessionTurn {
  std::string tenant;
  SessionAsk ask;
  transcript::RequestBody request;
  std::vector<log::LoggedTurn> stored;  // that its branch has, as far as they are needed
  Remembered remembered;
  log::LoggedTurn turn;             // what will be added
  std::string compaction = "none";  // x-kvgate-compaction
  // The prompt that its request names, or that the session has.
  std::optional<log::TurnPrompt> prompt = {};
  std::optional<FoldPlan> fold;  // that is due
  Unembedded unembedded;         // what is to be found by its meaning later
  std::string received;  // the body as it came, without what names its session; if a fold is due
  // Bytes that its model may read at once by the tool that reads results (results/read_tool.h); 0:
  // it has no such tool.
  size_t read_bytes = 0;
  // What was answered in all rounds that the tool took, which is more than its caller saw.
  std::optional<answer::RecordedAnswer> said = {};
  // A stored response or an answer in a conversation, whose store writes its entry. Its session
  // has further branches, and nobody holds it.
  bool is_kept = false;
  std::atomic<bool> is_stored{false};  // with its answer
  std::shared_ptr<void> lock;
  // What other gateways had added when it was read; nothing before that.
  std::optional<log::SharedTurns::Seen> seen = {};
  log::SessionLog::Place place() const { return {.tenant = tenant, .key = ask.key}; }
};

// What is known of the model of this machine, in tokens; 0: nothing.
struct LocalModel {
  int64_t context_tokens = 0;
  int64_t output_tokens = 0;  // of answers whose request sets no limit
};

// Counts what sessions have done since the start.
struct SessionCounts {
  uint64_t num_turns = 0;        // stored
  uint64_t num_compactions = 0;  // of those, that left out rounds
  uint64_t num_conflicts = 0;    // requests refused because another one held the session
};

class Sessions {
 public:
  struct Options {
    store::meta::TurnStore* turns = nullptr;  // null: none are kept
    log::SharedTurns* shared = nullptr;       // null: no other gateway has them
    window::Settings window = {};
    int wait_seconds_max = 60;
    summary::SummaryPrompt prompt = {};
    std::string summary_model = {};  // that writes summaries; empty: each session's own
    int summary_wait_seconds = 30;   // that a prompt beyond the window waits for its summary
    bool folds_idle = false;  // sessions are folded before their prefix leaves a provider's cache
    bool lends_callers_key = false;  // summaries may be asked for with a caller's own key
    SessionMemory::Options memory = {};
    results::Settings results = {};
  };
  // The turn store must outlive it.
  explicit Sessions(const Options& options)
      : options_(options), log_(options.turns, options.shared), memory_(options.memory) {}

  bool keeps() const { return log_.keeps(); }
  // Call it once the model has loaded.
  void SetLocalModel(const LocalModel& model) {
    context_tokens_ = model.context_tokens;
    output_tokens_ = model.output_tokens;
  }
  LocalModel local_model() const {
    return {.context_tokens = context_tokens_, .output_tokens = output_tokens_};
  }
  const window::Settings& window() const { return options_.window; }
  int wait_seconds_max() const { return options_.wait_seconds_max; }
  const std::string& summary_model() const { return options_.summary_model; }
  int summary_wait_seconds() const { return options_.summary_wait_seconds; }
  // True if a summary may be asked for with the key of the caller, within its request.
  bool lends_callers_key() const { return options_.lends_callers_key; }

  // As SessionLocks::TryLock. Refuse makes the error for a caller that has waited long enough; its
  // source makes it a 409. No turn: another gateway was quicker than its request.
  log::SessionLocks::Outcome TryLock(log::SessionLocks::Args args) {
    return locks_.TryLock(std::move(args));
  }
  Error Refuse(std::string_view key, std::string_view turn);
  // As SessionLocks::AdmitEvents, for the holder of the turn's session.
  void AdmitEvents(const SessionTurn& turn, bool admits) {
    locks_.AdmitEvents(turn.tenant, turn.ask.key, admits);
  }

  struct ReadArgs {
    std::string tenant = {};
    SessionAsk ask = {};
    std::string_view request_id = {};
    Dialect dialect = Dialect::kChatCompletions;
    std::string_view body = {};
  };
  // Fails as transcript::ReadBody does, and with NotKept.
  Result<std::shared_ptr<SessionTurn>> Read(ReadArgs args) const;

  // Reads what the session has. Fails with kInvalidArgument if it is of another dialect.
  Result<void> Load(SessionTurn& turn);

  struct ComposeArgs {
    std::string_view body;   // as received
    int64_t context = 0;     // of the model, in tokens; 0: not known
    int64_t output_max = 0;  // tokens of its answer where the request sets no limit
    CountTokens count = {};  // empty: they are estimated
    bool is_forced = false;  // a fold is due whatever the prompt's length
    bool keeps_all = false;  // nothing may be left out that is not already
    bool drops = false;      // rounds are left out whatever the prompt's length, if any may be
  };
  // Returns the body to be answered. Fails as ComposeTurns and ApplyWindow do.
  Result<std::string> Compose(SessionTurn& turn, const ComposeArgs& args);
  // The second half of Compose, for a turn whose prompt is composed elsewhere.
  Result<std::string> FitWindow(SessionTurn& turn, const Composed& composed,
                                const ComposeArgs& args) const;

  // Stores the turn. It is durable on return, whole or not at all.
  // `kv_block`: see LoggedTurn.
  Result<void> Commit(SessionTurn& turn, answer::RecordedAnswer answer, BlockHash kv_block = {});

  // A session as it is, as if its next turn were asked for; nothing is made of that turn. Fails
  // with kNotFound, and with kInvalidArgument for a session without turns.
  struct Stored {
    std::shared_ptr<SessionTurn> turn;
    std::string body;
  };
  Result<Stored> ReadStored(std::string_view tenant, std::string_view key);

  // Begins the fold that is due for a turn; `body` is its request's, as received. Before the turn
  // is answered, what is new in it is no part of that. Returns null if none is due, or another one
  // is under way.
  std::unique_ptr<SessionFold> BeginFold(
      const SessionTurn& turn, std::string_view body,
      summary::Folds::Trigger trigger = summary::Folds::Trigger::kThreshold);
  summary::Folds& folds() { return folds_; }
  summary::IdleSessions& idle() { return idle_; }
  bool folds_idle() const {
    return options_.folds_idle && options_.window.mode == window::Mode::kSummary;
  }

  log::SessionLog& session_log() { return log_; }
  SessionMemory& memory() { return memory_; }
  SessionCounts counts() const;
  // Writes them as metrics.
  void Collect(metrics::TextWriter& writer) const;

 private:
  const Options options_;
  log::SessionLog log_;
  SessionMemory memory_;
  log::SessionLocks locks_;
  summary::Folds folds_;
  summary::IdleSessions idle_;
  std::atomic<int64_t> context_tokens_{0};
  std::atomic<int64_t> output_tokens_{0};
  std::atomic<uint64_t> num_turns_{0};
  std::atomic<uint64_t> num_compactions_{0};
  std::atomic<uint64_t> num_conflicts_{0};
};

}  // namespace kvgate::session
