// The ways in which one agent's long conversation is kept bounded, step by step on the team's
// clock: by the provider's own compactions; by kvgate's at a provider that has none; by sessions of
// kvgate's; and, to have something that is known to be dear, by a client that asks for its summary
// with another prompt.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/seal.h"
#include "gateway/prompt/optimizer.h"
#include "gateway/session/compaction/asked.h"
#include "gateway/session/compaction/opened.h"
#include "gateway/session/compaction/sealed_summary.h"
#include "gateway/session/compaction/summary_request.h"
#include "gateway/session/compaction/written.h"
#include "tests/gateway/session/workday/workday_bodies.h"
#include "tests/gateway/session/workday/workday_provider.h"
#include "tests/gateway/session/workday/workday_script.h"

namespace kvgate::session::workday {

// A team: whose front and whose provider its agents share.
struct Team {
  std::string name;
  std::string front;
  WorkdayProvider& provider;
};

// The gateway's way to the provider, as for any request: the optimizer in its default mode.
class WorkdayGateway {
 public:
  explicit WorkdayGateway(const Team& team) : team_(team) {}

  ledger::reply::TokenUsage Ask(const std::string& agent, bool begins_anew,
                                WorkdayProvider::Request request) {
    const prompt::Prepared prepared = optimizer_.Prepare({.body = request.body,
                                                          .endpoint = kEndpoint,
                                                          .tenant = team_.name,
                                                          .session = agent,
                                                          .upstream = "main",
                                                          .provider = kProvider,
                                                          .mode = prompt::Mode::kPin,
                                                          .begins_anew = begins_anew,
                                                          .now_us = request.now_us});
    EXPECT_TRUE(prepared.unreadable.empty()) << prepared.unreadable;
    if (prepared.body) request.body = *prepared.body;
    const ledger::reply::TokenUsage usage = team_.provider.Ask(request);
    optimizer_.Finish(
        prepared, {.usage = usage, .provider_reason = {}, .now_us = request.now_us + kFirstByte});
    return usage;
  }

 private:
  const Team& team_;
  // As much as is set for a gateway of a team; the default is one for all teams.
  prompt::Optimizer optimizer_{{.memory_bytes = size_t{256} << 20}};
};

class Way {
 public:
  Way(const Team& team, const WorkdayScript& script) : team_(team), script_(script) {}
  virtual ~Way() = default;
  Way(const Way&) = delete;
  Way& operator=(const Way&) = delete;

  // When the first step is due.
  int64_t begin_us() const { return kMorning + script_.turns.front().pause_us; }
  // Takes the step that is due; returns when the next one is, or nothing at the end of the day.
  virtual std::optional<int64_t> Step(int64_t now_us) = 0;

 protected:
  const Turn& turn() const { return script_.turns[index_]; }
  Bill& bill() { return team_.provider.bill; }
  // Asks for the answer to the turn by `ask`, which takes a request and returns its usage.
  template <typename Ask>
  ledger::reply::TokenUsage AskForAnswer(int64_t now_us, std::string_view body, const Ask& ask) {
    const bool is_return = now_us >= script_.lunch_end_us && !has_returned_;
    has_returned_ = has_returned_ || is_return;
    return Note(ask({.now_us = now_us,
                     .body = body,
                     .output_tokens = turn().answer_tokens,
                     .is_return = is_return}),
                now_us);
  }
  // The same for a summary.
  template <typename Ask>
  ledger::reply::TokenUsage AskForSummary(int64_t now_us, std::string_view body, const Ask& ask) {
    const bool is_warm =
        now_us >= last_us_ + kFirstByte && now_us < last_us_ + kLife && last_tokens_ > 0;
    return Note(ask({.now_us = now_us,
                     .body = body,
                     .output_tokens = kSummaryTokens,
                     .is_summary = true,
                     .num_warm = is_warm ? last_tokens_ : 0,
                     .is_alone = IsAlone(now_us)}),
                now_us);
  }
  // The turn is answered: returns when the next one is said.
  std::optional<int64_t> Next(int64_t now_us) {
    answered_us_ = now_us + turn().answer_us;
    if (index_ + 1 == script_.turns.size()) {
      is_over_ = true;
      return std::nullopt;
    }
    ++index_;
    due_us_ = answered_us_ + turn().pause_us;
    return due_us_;
  }
  static constexpr int64_t kLife = 5 * kMinute;  // of an entry that nobody reads

  const Team& team_;
  const WorkdayScript& script_;

 private:
  // True while the turn that is due next is one after lunch, or there is none. What belongs to the
  // last answer is done two minutes after it.
  bool IsAlone(int64_t now_us) const {
    const bool is_at_lunch = turn().is_after_lunch && now_us < due_us_;
    return (is_at_lunch || is_over_) && now_us > answered_us_ + 2 * kMinute;
  }
  ledger::reply::TokenUsage Note(ledger::reply::TokenUsage usage, int64_t now_us) {
    last_us_ = now_us;
    last_tokens_ = usage.input_tokens();
    return usage;
  }

  size_t index_ = 0;
  int64_t answered_us_ = 0;  // when the last answer ended
  int64_t due_us_ = 0;       // when the next turn is said
  bool is_over_ = false;
  bool has_returned_ = false;  // from lunch
  // Of the last request.
  int64_t last_us_ = 0;
  int64_t last_tokens_ = 0;
};

// A client that keeps and sends the whole conversation. Where its prompt has grown over the
// threshold, a summary is asked for first, and the answer made from that.
class TranscriptWay : public Way {
 public:
  using Way::Way;

  std::optional<int64_t> Step(int64_t now_us) override {
    if (!is_summarised_) Append(messages_, Said(turn()));
    std::string body = is_summarised_ ? std::move(short_body_) : Opened();
    if (!is_summarised_ && TokensOf(body) >= kThreshold) {
      short_body_ = Summarise(now_us, body);
      ++bill().num_compactions;
      is_summarised_ = true;
      return now_us + kSummaryTime;
    }
    Answer(now_us, body);
    std::string blocks = AnswerOf(turn());
    if (is_summarised_) {
      // The client leaves out what the block in front of the answer stands for.
      messages_.clear();
      blocks = block_ + blocks;
    }
    Append(messages_, AfterSummary(AssistantMessage(blocks)));
    is_summarised_ = false;
    return Next(now_us);
  }

 protected:
  // The body that asks for the answer, as who answers it has to read it.
  virtual std::string Opened() = 0;
  // Asks for the summary; returns the body with it.
  virtual std::string Summarise(int64_t now_us, const std::string& body) = 0;
  virtual void Answer(int64_t now_us, const std::string& body) = 0;
  // The first message after a summary, as the client keeps it.
  virtual std::string AfterSummary(std::string message) { return message; }

  bool is_summarised_ = false;  // the turn's prompt is short
  std::string short_body_;
  std::string block_;     // what the client is given of the summary, in front of the answer
  std::string messages_;  // of the client's list
};

// No gateway: the client and the provider see to it. Nothing of kvgate is used.
class DirectWay : public TranscriptWay {
 public:
  using TranscriptWay::TranscriptWay;

 protected:
  // The body that asks for the summary of a body's conversation.
  virtual std::string Asking(const std::string& body) = 0;
  static std::string Instruction() { return UserMessage(TextBlock(TextOf(3, 150))); }

 private:
  std::string Opened() override { return Joined(team_.front, messages_); }
  std::string Summarise(int64_t now_us, const std::string& body) override {
    const std::string asking = Asking(body);
    AskForSummary(now_us, asking, [&](WorkdayProvider::Request request) {
      request.has_front = asking.starts_with(team_.front);
      return team_.provider.Ask(request);
    });
    summary_ = UserMessage(TextBlock("<summary>" + SummaryText(turn()) + "</summary>"));
    return Joined(team_.front, summary_);
  }
  void Answer(int64_t now_us, const std::string& body) override {
    AskForAnswer(now_us, body, [&](const WorkdayProvider::Request& request) {
      return team_.provider.Ask(request);
    });
  }
  // The block is read as the text that it stands for.
  std::string AfterSummary(std::string message) override {
    return is_summarised_ ? summary_ + "," + message : message;
  }

  std::string summary_;
};

// The provider compacts: it has the summary written behind the prompt as it is, by an instruction
// of its own, leaves out what is in front of the block, and goes on.
class NativeWay final : public DirectWay {
 public:
  using DirectWay::DirectWay;

 private:
  std::string Asking(const std::string& body) override {
    return body.substr(0, body.size() - 2) + "," + Instruction() + "]}";
  }
};

// A client that asks for its summary with a prompt made for that: nothing of it is in the cache.
class OwnPromptWay final : public DirectWay {
 public:
  using DirectWay::DirectWay;

 private:
  std::string Asking(const std::string& /*body*/) override {
    return fmt::format(R"({{"model":"{}","max_tokens":4096,"cache_control":{{"type":"ephemeral"}},)"
                       R"("system":"You write summaries.","messages":[{},{}]}})",
                       kModel, messages_, Instruction());
  }
};

// The same client as of NativeWay, at a provider that has no compactions: kvgate makes them, step
// by step as gateway/proxy/handler/compaction_step does.
class EmulatedWay final : public TranscriptWay {
 public:
  struct Args {
    WorkdayGateway& gateway;
    const Keyring& ring;
  };
  EmulatedWay(const Team& team, const WorkdayScript& script, Args args)
      : TranscriptWay(team, script), args_(args) {}

 private:
  static constexpr auto kDialect = compaction::Dialect::kMessages;

  std::string Opened() override {
    const std::string body = Joined(team_.front + Threshold(), messages_);
    EXPECT_TRUE(compaction::MayConcern(body));
    const Result<compaction::Asked> asked = compaction::ReadAsked(kDialect, false, body);
    EXPECT_TRUE(asked && asked->threshold && asked->threshold->tokens == kThreshold);
    Result<std::optional<std::string>> opened = compaction::OpenBody(
        {.dialect = kDialect, .body = body, .open = [&](std::string_view sealed) {
           return compaction::Open(args_.ring, team_.name, sealed);
         }});
    EXPECT_TRUE(opened) << opened.error().detail;
    return opened && *opened ? **std::move(opened) : body;
  }
  std::string Summarise(int64_t now_us, const std::string& body) override {
    const Result<std::string> asking =
        compaction::WriteRequest({.dialect = kDialect, .body = body, .tokens_max = 4'096});
    EXPECT_TRUE(asking) << asking.error().detail;
    const ledger::reply::TokenUsage usage =
        AskForSummary(now_us, *asking, [&](const WorkdayProvider::Request& request) {
          return args_.gateway.Ask(script_.name, false, request);
        });
    const std::string answer = WholeAnswer(TextBlock(SummaryText(turn())), false, usage);
    const Result<log::Summary> summary = compaction::ReadSummary(kDialect, answer);
    EXPECT_TRUE(summary) << summary.error().detail;
    const std::string rest = compaction::WithoutAsking(kDialect, body);
    compaction::Compaction made{.dialect = kDialect, .request_id = "r", .answer = answer};
    made.summary = compaction::WithNewest(kDialect, rest, summary->text);
    made.sealed = compaction::Seal(args_.ring, team_.name, {.text = made.summary});
    block_ = compaction::BlockOf(made).dump() + ",";
    return compaction::InPlace(kDialect, rest, made.summary);
  }
  void Answer(int64_t now_us, const std::string& body) override {
    const std::string rest = compaction::WithoutAsking(kDialect, body);
    AskForAnswer(now_us, rest, [&](const WorkdayProvider::Request& request) {
      return args_.gateway.Ask(script_.name, is_summarised_, request);
    });
  }

  const Args args_;
};

}  // namespace kvgate::session::workday
