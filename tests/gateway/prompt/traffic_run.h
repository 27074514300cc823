// A TrafficRun sends the traffic of an agent to a simulated provider: as it is, as an ideal client
// would, or through an Optimizer. It counts what was read from the cache, what was refused, and
// what was sent otherwise than it should have been.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gateway/prompt/optimizer.h"
#include "gateway/prompt/rewrite/system_turn.h"
#include "tests/gateway/prompt/ideal_client.h"
#include "tests/gateway/prompt/provider_model.h"
#include "tests/gateway/prompt/traffic_judge.h"

namespace kvgate::prompt::traffic {

struct TrafficResult {
  std::vector<double> read;  // cached tokens, by conversation
  simulation::Bill total;
  std::vector<std::string> faults;
  std::vector<std::string> refusals;
  size_t num_rewrites = 0;  // what is sent does not extend what was, although the client's does
  size_t num_held = 0;
  size_t num_system_turns = 0;  // requests with turns of the system's own

  double cached_tokens() const { return total.read; }
};

// What stands between the agent and its provider.
class TrafficGateway {
 public:
  virtual ~TrafficGateway() = default;
  virtual Prepared Prepare(const OptimizeArgs& args) = 0;
  virtual void Finish(const Prepared& prepared, const Optimizer::FinishArgs& args) = 0;
  virtual void Abandon(const Prepared& prepared) = 0;
};

// An Optimizer that lives as long as the traffic.
class LastingGateway final : public TrafficGateway {
 public:
  Prepared Prepare(const OptimizeArgs& args) override { return optimizer_.Prepare(args); }
  void Finish(const Prepared& prepared, const Optimizer::FinishArgs& args) override {
    optimizer_.Finish(prepared, args);
  }
  void Abandon(const Prepared& prepared) override { optimizer_.Abandon(prepared); }

 private:
  Optimizer optimizer_{Optimizer::Options{}};
};

class TrafficRun {
 public:
  explicit TrafficRun(const AgentTraffic& traffic)
      : traffic_(traffic), asked_(traffic.requests.size()) {}

  TrafficResult Directly() {
    Start();
    for (size_t i = 0; i < traffic_.requests.size(); ++i) {
      const AgentRequest& request = traffic_.requests[i];
      Serve(request, BodyRenderer::Render(Asked(i)));
    }
    return std::move(result_);
  }
  TrafficResult Ideally() {
    Start();
    IdealClient client(traffic_);
    for (const AgentRequest& request : traffic_.requests) Serve(request, client.Ask(request));
    return std::move(result_);
  }
  TrafficResult Through(Mode mode) {
    LastingGateway gateway;
    return Through(mode, gateway);
  }
  TrafficResult Through(Mode mode, TrafficGateway& gateway) {
    Start();
    TrafficJudge judge(traffic_.num_conversations);
    for (size_t i = 0; i < traffic_.requests.size(); ++i) {
      const AgentRequest& request = traffic_.requests[i];
      const Prepared prepared = gateway.Prepare(ArgsOf(request, mode));
      if (!prepared.unreadable.empty()) Fault(i, prepared.unreadable);
      const bool is_changed = prepared.body && *prepared.body != request.body;
      if (is_changed && mode == Mode::kObserve) Fault(i, "observe changes a body");
      const OrderedJson sent = is_changed ? OrderedJson::parse(*prepared.body) : Asked(i);
      for (const std::string& fault :
           judge.Judge(request, {.asked = Asked(i), .body = sent, .notes = prepared.notes})) {
        Fault(i, fault);
      }
      CheckBeta(i, prepared, sent);
      RenderedPrompt prompt = BodyRenderer::Render(sent);
      Compare(i, mode, prompt);
      const std::optional<simulation::Bill> bill = Serve(request, prompt);
      if (bill) {
        gateway.Finish(prepared, {.usage = ProviderModel::UsageOf(*bill),
                                  .provider_reason = {},
                                  .now_us = request.time_us + kAnswerUs});
      } else {
        gateway.Abandon(prepared);
      }
    }
    result_.num_held = judge.num_held();
    return std::move(result_);
  }

 private:
  static constexpr int64_t kAnswerUs = 4'000'000;

  // What was asked and sent last in a conversation.
  struct Last {
    std::vector<parse::Identity> asked;
    std::vector<parse::Identity> sent;
  };

  void Start() {
    result_ = {};
    result_.read.resize(traffic_.num_conversations);
    last_.assign(traffic_.num_conversations, {});
    providers_.clear();
    for (int tenant = 0; tenant < 2; ++tenant) {
      providers_.push_back(
          std::make_unique<ProviderModel>(traffic_.shape.provider, traffic_.shape.model));
    }
    binder_ = {};
    betas_.clear();
  }
  const OrderedJson& Asked(size_t index) {
    if (asked_[index].is_null()) asked_[index] = OrderedJson::parse(traffic_.requests[index].body);
    return asked_[index];
  }
  OptimizeArgs ArgsOf(const AgentRequest& request, Mode mode) const {
    OptimizeArgs args;
    args.body = request.body;
    args.endpoint = traffic_.endpoint;
    args.tenant = request.tenant == 0 ? "tenant" : "another tenant";
    args.session = request.session;
    args.upstream = "main";
    args.provider = traffic_.shape.provider;
    args.mode = mode;
    args.now_us = request.time_us;
    return args;
  }

  // Returns what the provider bills; nullopt if it refuses.
  std::optional<simulation::Bill> Serve(const AgentRequest& request, const RenderedPrompt& prompt) {
    const std::string refusal = binder_.Refusal(prompt);
    // The client goes on as if it had been answered, so that one refusal does not hide others.
    binder_.Bind("sig-" + std::to_string(request.answer), prompt);
    if (!refusal.empty()) {
      result_.refusals.push_back("request " + std::to_string(request.answer) + ": " + refusal);
      return std::nullopt;
    }
    const simulation::Bill bill = providers_[request.tenant]->Send(prompt, request.time_us);
    result_.read[request.conversation] += bill.read;
    result_.total.Add(bill);
    return bill;
  }

  // The beta header goes with each request of a conversation or with none, and with what needs it.
  void CheckBeta(size_t index, const Prepared& prepared, const OrderedJson& sent) {
    const bool has_beta =
        std::any_of(prepared.headers.begin(), prepared.headers.end(),
                    [](const Header& header) { return header.name == rewrite::kBetaHeader; });
    const size_t conversation = traffic_.requests[index].conversation;
    if (IsAnothersByRight(index)) betas_.erase(conversation);
    if (betas_.try_emplace(conversation, has_beta).first->second != has_beta) {
      Fault(index, "the beta header comes or goes within the conversation");
    }
    for (const OrderedJson& turn : sent[sent.contains("input") ? "input" : "messages"]) {
      if (turn.contains("clear_at") && !has_beta) {
        Fault(index, "clear_at goes out without its header");
      }
    }
    result_.num_system_turns += prepared.has_system_turn ? 1 : 0;
  }

  // Returns true if nobody can tell a request from one of another conversation: its client names
  // none, and has taken back or rewritten all that would prove it. It has no answer in common with
  // the request before it, which had some; or had none, and asked for something else, or began with
  // other values while a helper has gone on from it.
  bool IsAnothersByRight(size_t index) const {
    const AgentRequest& now = traffic_.requests[index];
    if (traffic_.shape.naming != Naming::kNone) return false;
    const AgentRequest* before = nullptr;
    for (size_t i = 0; i < index; ++i) {
      if (traffic_.requests[i].conversation == now.conversation) before = &traffic_.requests[i];
    }
    if (before == nullptr) return false;
    const std::vector<size_t> answers = AnswersOf(before->prompt);
    if (answers.empty()) {
      const bool is_shared = std::any_of(before, &now, [&](const AgentRequest& between) {
        return between.parent == static_cast<int>(now.conversation);
      });
      return FirstWordsOf(before->prompt) != FirstWordsOf(now.prompt) ||
             (is_shared && SystemTextOf(before->prompt) != SystemTextOf(now.prompt));
    }
    const std::vector<size_t> own = AnswersOf(now.prompt);
    return std::none_of(answers.begin(), answers.end(), [&](size_t answer) {
      return std::find(own.begin(), own.end(), answer) != own.end();
    });
  }
  static std::vector<size_t> AnswersOf(const AgentPrompt& prompt) {
    std::vector<size_t> answers;
    for (const Turn& turn : prompt.turns) {
      if (turn.speaker == Speaker::kAssistant) answers.push_back(turn.id);
    }
    return answers;
  }
  static std::string SystemTextOf(const AgentPrompt& prompt) {
    std::string text;
    for (const Lines& block : prompt.system) text += TextOf(block);
    return text;
  }
  static std::string FirstWordsOf(const AgentPrompt& prompt) {
    std::string words;
    for (const Piece& piece : prompt.turns.front().pieces) {
      if (piece.part == Part::kWords) words += TextOf(piece.lines);
    }
    return words;
  }

  // Counts a rewrite. `pin` undoes another order of tools and keys, so the client's request is then
  // compared as if it had none.
  void Compare(size_t index, Mode mode, const RenderedPrompt& prompt) {
    const AgentRequest& request = traffic_.requests[index];
    Last& last = last_[request.conversation];
    Last now = {.asked = PrefixesOf(mode == Mode::kObserve ? BodyRenderer::Render(Asked(index))
                                                           : Ordered(request.prompt)),
                .sent = PrefixesOf(prompt)};
    if (!last.sent.empty() && Extends(last.asked, now.asked) && !Extends(last.sent, now.sent)) {
      ++result_.num_rewrites;
      Fault(index, "the client's request extends its last one, but not what is sent");
    }
    last = std::move(now);
  }
  // A turn whose texts are one string is one block.
  RenderedPrompt Ordered(const AgentPrompt& prompt) const {
    RenderedPrompt ordered;
    for (const Lines& tool : prompt.tools) ordered.blocks.push_back({.bytes = TextOf(tool)});
    for (const Lines& block : prompt.system) ordered.blocks.push_back({.bytes = TextOf(block)});
    for (const Turn& turn : prompt.turns) {
      const bool is_string =
          turn.speaker == Speaker::kUser && traffic_.shape.joins_texts && !traffic_.shape.marks;
      const size_t first = ordered.blocks.size();
      for (const Piece& piece : turn.pieces) {
        const std::string text = std::to_string(turn.id) + TextOf(piece.lines);
        if (is_string && ordered.blocks.size() > first) {
          ordered.blocks.back().bytes += "\n\n" + text;
        } else {
          ordered.blocks.push_back({.bytes = text});
        }
      }
    }
    return ordered;
  }

  void Fault(size_t index, const std::string& what) {
    const AgentRequest& request = traffic_.requests[index];
    result_.faults.push_back("request " + std::to_string(index) + " of conversation " +
                             std::to_string(request.conversation) + ": " + what);
  }

  const AgentTraffic& traffic_;
  std::vector<OrderedJson> asked_;                         // the bodies as parsed
  std::vector<Last> last_;                                 // by conversation
  std::vector<std::unique_ptr<ProviderModel>> providers_;  // by tenant
  ThinkingBinder binder_;
  std::map<size_t, bool> betas_;  // by conversation
  TrafficResult result_;
};

}  // namespace kvgate::prompt::traffic
