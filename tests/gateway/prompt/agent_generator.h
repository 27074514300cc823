// An AgentGenerator makes the traffic of one agent's users: conversations after and beside each
// other, helpers that begin like the conversation that called them, resumes after hours, clients
// that edit, delete and compact, and a second tenant. All comes from one seed.
//
// The agents are not made of the rules under test: what is volatile in them is known by how it was
// generated, not by its form.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/gateway/prompt/agent_body.h"

namespace kvgate::prompt::traffic {

struct AgentRequest {
  size_t conversation = 0;
  size_t tenant = 0;
  int64_t time_us = 0;
  std::string body = {};
  std::string session = {};  // in a header; empty: none
  AgentPrompt prompt = {};
  size_t answer = 0;          // names the answer to it
  int parent = -1;            // of a helper's first request: the conversation that called it
  bool is_compacted = false;  // the client has begun its history afresh
};

struct AgentTraffic {
  Endpoint endpoint = Endpoint::kMessages;
  AgentShape shape;
  std::vector<AgentRequest> requests;
  size_t num_conversations = 0;
  // The first conversation of each tenant, from which the agent's slots can be learnt.
  std::vector<bool> is_first;
};

class AgentGenerator {
 public:
  struct Options {
    bool binds_thinking = false;  // a model that binds its thinking to the prompt before it
    size_t num_conversations = 7;
    uint32_t round = 0;  // other conversations of the same agent
  };
  AgentGenerator(uint32_t seed, Endpoint endpoint, const Options& options)
      : options_(options),
        random_(seed * uint64_t{0x9E3779B97F4A7C15} + static_cast<uint64_t>(endpoint)) {
    traffic_.endpoint = endpoint;
    traffic_.shape = AgentAuthor(random_, endpoint).Write(options.binds_thinking);
    if (options.round > 0) random_ = RandomText(seed ^ uint64_t{options.round} << 32);
  }
  AgentGenerator(const AgentGenerator&) = delete;
  AgentGenerator& operator=(const AgentGenerator&) = delete;

  AgentTraffic Generate() && {
    Begin(0, -1);
    // The first conversation has some of its calls before others begin beside it.
    for (size_t i = random_.Between(3, kCallsLeast - 1); i > 0; --i) Call(0);
    size_t num_begun = 1;
    while (num_begun < options_.num_conversations || !open_.empty()) {
      const bool begins = num_begun < options_.num_conversations &&
                          (open_.empty() || (open_.size() < 3 && random_.Chance(12)));
      if (begins) {
        ++num_begun;
        // The last one is another tenant's.
        const bool is_last = num_begun == options_.num_conversations;
        const bool forks = !is_last && !open_.empty() && random_.Chance(40);
        Begin(is_last ? 1 : 0, forks ? open_[0] : -1);
        // A helper is called while its parent waits, so that it begins with the parent's prompt.
        Call(open_.size() - 1);
        continue;
      }
      Call(random_.Below(open_.size()));
    }
    return std::move(traffic_);
  }

 private:
  static constexpr size_t kCallsLeast = 7;  // of a conversation

  struct State {
    AgentConversation conversation;
    size_t tenant = 0;
    size_t num_calls = 0;  // still to come
    size_t last_answer = 0;
    bool was_sent = false;
    int parent = -1;
  };

  void Begin(size_t tenant, int parent) {
    const auto number = static_cast<int>(states_.size());
    AgentConversation conversation =
        parent >= 0 ? states_[static_cast<size_t>(parent)].conversation.Fork()
                    : AgentConversation(traffic_.shape, traffic_.endpoint, random_, seconds_);
    states_.push_back(
        {.conversation = std::move(conversation),
         .tenant = tenant,
         .num_calls = random_.Between(7, 14),
         .last_answer = parent >= 0 ? states_[static_cast<size_t>(parent)].last_answer : 0,
         .was_sent = parent >= 0,
         .parent = parent});
    const bool is_first = std::none_of(states_.begin(), states_.end() - 1,
                                       [&](const State& other) { return other.tenant == tenant; });
    traffic_.is_first.push_back(is_first);
    traffic_.num_conversations = states_.size();
    open_.push_back(number);
  }

  // Lets the conversation at `index` of the open ones make its next request.
  void Call(size_t index) {
    const auto number = static_cast<size_t>(open_[index]);
    State& state = states_[number];
    seconds_ += static_cast<int64_t>(random_.Chance(3) ? random_.Between(7'000, 100'000)
                                                       : random_.Between(6, 50));
    AgentRequest request = {.conversation = number, .tenant = state.tenant};
    bool is_edited = false;
    if (state.was_sent) {
      state.conversation.GoOn(state.last_answer, options_.binds_thinking);
      is_edited = Edit(state.conversation, request);
      state.conversation.Advance(seconds_);
    }
    // A client that edits its history knows that the thinking behind the edit is void.
    const bool reminds_anew = traffic_.shape.reminder != ReminderHabit::kNone &&
                              traffic_.shape.reminder != ReminderHabit::kStays;
    if (is_edited || reminds_anew) state.conversation.DropThinking();
    request.time_us = seconds_ * 1'000'000;
    request.prompt = state.conversation.Prompt();
    request.body = AgentBody(traffic_.shape, traffic_.endpoint, random_)
                       .Write(request.prompt, state.conversation.name());
    if (traffic_.shape.naming == Naming::kHeader) request.session = state.conversation.name();
    request.answer = state.last_answer = traffic_.requests.size() + 1;
    request.parent = std::exchange(state.parent, -1);
    state.was_sent = true;
    traffic_.requests.push_back(std::move(request));
    if (--state.num_calls == 0) open_.erase(open_.begin() + static_cast<ptrdiff_t>(index));
  }

  // Returns true if the client has changed or taken away what it said before.
  bool Edit(AgentConversation& conversation, AgentRequest& request) {
    const AgentShape& shape = traffic_.shape;
    bool is_edited = false;
    if (random_.Chance(shape.percent_edits)) {
      is_edited = true;
      switch (random_.Below(4)) {
        case 0:
          conversation.EditWords();
          break;
        case 1:
          conversation.RemoveRound();
          break;
        case 2:
          conversation.ReplaceInstruction();
          break;
        default:
          conversation.RemoveInstruction();
      }
    }
    if (shape.turns_max > 0) is_edited = conversation.DropOldTurns(shape.turns_max) || is_edited;
    if (shape.compacts_after > 0 && conversation.turns().size() > shape.compacts_after) {
      conversation.Compact();
      request.is_compacted = is_edited = true;
    }
    return is_edited;
  }

  const Options options_;
  RandomText random_;
  AgentTraffic traffic_;
  int64_t seconds_ = 1'795'602'667;  // 2026-11-25 10:31:07
  std::vector<State> states_;
  std::vector<int> open_;  // the conversations that go on, by number
};

}  // namespace kvgate::prompt::traffic
