// SessionWay is an agent that keeps no history: it sends a session's key and what is new, and
// kvgate keeps the rest, bounded by the session's window. The steps are those of
// gateway/proxy/handler/session_step, and of idle_fold where idle sessions are folded.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "gateway/session/answer/answer_reader.h"
#include "gateway/session/sessions.h"
#include "gateway/session/transcript/spoken.h"
#include "tests/gateway/service/kept_responses.h"
#include "tests/gateway/session/workday/workday_ways.h"
#include "tests/store/memory_meta_store.h"

namespace kvgate::session::workday {

// The sessions of one team.
class TeamSessions {
 public:
  TeamSessions(window::Mode mode, bool folds_idle)
      : turns_(test::OpenTurns(meta_)),
        sessions({.turns = turns_.get(),
                  .window = {.mode = mode, .high = kThreshold, .hard = kThreshold * 5 / 4},
                  .folds_idle = folds_idle}) {}

 private:
  store::MemoryMetaStore meta_;
  const std::unique_ptr<store::meta::TurnStore> turns_;

 public:
  Sessions sessions;
};

class SessionWay final : public Way {
 public:
  struct Args {
    WorkdayGateway& gateway;
    Sessions& sessions;
  };
  SessionWay(const Team& team, const WorkdayScript& script, Args args)
      : Way(team, script), args_(args), say_us_(begin_us()) {}

  std::optional<int64_t> Step(int64_t now_us) override {
    if (fold_us_ <= now_us) {
      Store();
    } else if (say_us_ <= now_us) {
      Say(now_us);
    } else if (idle_us_ <= now_us) {
      FoldIdle(now_us);
    }
    const int64_t next_us = std::min({fold_us_, say_us_, idle_us_});
    return next_us == kNever ? std::nullopt : std::optional(next_us);
  }

 private:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
  static constexpr auto kDialect = Dialect::kMessages;

  void Say(int64_t now_us) {
    const std::string body = Joined(team_.front, Said(turn()));
    const std::shared_ptr<SessionTurn> made = Begin(body);
    Result<std::string> composed =
        args_.sessions.Compose(*made, {.body = body, .context = kContext});
    ASSERT_TRUE(composed) << composed.error().detail;
    // What does not fit waits for the summary that is under way, or is begun for it.
    if (made->turn.compaction && args_.sessions.window().mode == window::Mode::kSummary) {
      if (fold_ == nullptr && made->fold) Fold(now_us, args_.sessions.BeginFold(*made, body));
      if (fold_ != nullptr) {
        say_us_ = fold_us_ + kSecond;
        return;
      }
    }
    const bool is_done = made->compaction.starts_with("done");
    if (is_done) ++bill().num_compactions;
    const ledger::reply::TokenUsage usage =
        AskForAnswer(now_us, *composed, [&](const WorkdayProvider::Request& request) {
          return args_.gateway.Ask(script_.name, is_done, request);
        });
    Commit(*made, usage);
    turn_id_ = made->turn.id;
    idle_us_ = args_.sessions.folds_idle() ? now_us + kLife * 9 / 10 : kNever;
    if (made->fold) {
      const bool is_open = transcript::CallsTool(made->turn.answer.back());
      if (!is_open || !made->fold->has_room) {
        Fold(now_us + turn().answer_us, args_.sessions.BeginFold(*made, body));
      }
    }
    say_us_ = Next(now_us).value_or(kNever);
  }

  std::shared_ptr<SessionTurn> Begin(const std::string& body) {
    auto read = args_.sessions.Read({.tenant = team_.name,
                                     .ask = {.key = script_.name},
                                     .request_id = NextId(),
                                     .dialect = kDialect,
                                     .body = body});
    EXPECT_TRUE(read) << read.error().detail;
    const Result<void> loaded = args_.sessions.Load(**read);
    EXPECT_TRUE(loaded) << loaded.error().detail;
    return *read;
  }
  void Commit(SessionTurn& made, const ledger::reply::TokenUsage& usage) {
    const auto reader = answer::MakeAnswerReader(kDialect);
    ASSERT_TRUE(reader->OnBody(WholeAnswer(AnswerOf(turn()), turn().calls, usage)));
    const Result<void> stored = args_.sessions.Commit(made, reader->Take());
    ASSERT_TRUE(stored) << stored.error().detail;
    made.is_stored = true;
  }
  std::string NextId() { return fmt::format("{}-{:06}", script_.name, ++num_ids_); }

  // Asks for the summary; it is stored once it is written, whatever is said meanwhile.
  void Fold(int64_t now_us, std::unique_ptr<SessionFold> fold) {
    if (fold == nullptr) return;
    const summary::Call call = fold->MakeCall();
    const ledger::reply::TokenUsage usage =
        AskForSummary(now_us, call.body, [&](const WorkdayProvider::Request& request) {
          return args_.gateway.Ask(script_.name, false, request);
        });
    const Result<void> read = fold->Read(WholeAnswer(TextBlock(SummaryText(turn())), false, usage));
    ASSERT_TRUE(read) << read.error().detail;
    fold_ = std::move(fold);
    fold_us_ = now_us + kSummaryTime;
  }
  void Store() {
    const Result<void> stored = fold_->Store(NextId());
    EXPECT_TRUE(stored) << stored.error().detail;
    fold_.reset();
    fold_us_ = kNever;
  }

  // Shortly before the prefix leaves the cache, if that pays.
  void FoldIdle(int64_t now_us) {
    idle_us_ = kNever;
    if (fold_ != nullptr) return;
    Result<Sessions::Stored> stored = args_.sessions.ReadStored(team_.name, script_.name);
    ASSERT_TRUE(stored) << stored.error().detail;
    const Result<std::string> composed = args_.sessions.Compose(
        *stored->turn, {.body = stored->body, .context = kContext, .is_forced = true});
    ASSERT_TRUE(composed) << composed.error().detail;
    // What was folded since is in no cache.
    if (!stored->turn->fold || stored->turn->turn.parent != turn_id_) return;
    const FoldPlan& plan = *stored->turn->fold;
    if (!summary::Pays({.read = 0.1, .write = 1.25, .output = 5},
                       {.tokens_before = plan.event.tokens_before,
                        .tokens_after = plan.event.tokens_after + plan.tokens_max,
                        .summary_tokens = plan.tokens_max})) {
      return;
    }
    Fold(now_us,
         args_.sessions.BeginFold(*stored->turn, stored->body, summary::Folds::Trigger::kIdle));
  }

  const Args args_;
  int64_t say_us_;
  int64_t fold_us_ = kNever;  // when the summary that is being written can be stored
  int64_t idle_us_ = kNever;
  std::string turn_id_;  // that was answered last
  std::unique_ptr<SessionFold> fold_;
  uint64_t num_ids_ = 0;
};

}  // namespace kvgate::session::workday
