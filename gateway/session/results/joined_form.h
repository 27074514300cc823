// JoinedForm: what joining the answers of several rounds is in one dialect. It holds back what says
// that a round ends, and numbers what the caller gets. Not thread-safe.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "gateway/session/transcript/message.h"

namespace kvgate::session::results {

using transcript::Dialect;

class JoinedForm {
 public:
  virtual ~JoinedForm() = default;
  // Takes the data of an event; appends what goes to the caller.
  virtual void TakeEvent(nlohmann::ordered_json event, std::string& out) = 0;
  // Takes an event that is no JSON object, as it is written.
  virtual void TakeOther(std::string_view event, std::string& out) { out += event; }
  // Takes the whole body of a round.
  virtual void TakeBody(nlohmann::ordered_json body) = 0;
  // Another round follows: what was held back says nothing any more, but for its usage.
  virtual void BeginRound() = 0;
  // Returns what was held back of the last round, with the usage of all.
  virtual std::string Finish(bool is_cut) = 0;
  // The bodies of all rounds as one. REQUIRES: TakeBody was called for the last one.
  virtual nlohmann::ordered_json JoinBodies(bool is_cut) = 0;
};

// REQUIRES: the dialect has messages, so not kCompletions.
std::unique_ptr<JoinedForm> MakeJoinedForm(Dialect dialect);

// One for each dialect.
std::unique_ptr<JoinedForm> MakeJoinedChat();
std::unique_ptr<JoinedForm> MakeJoinedMessages();
std::unique_ptr<JoinedForm> MakeJoinedResponses();

// Adds the numbers of one usage to another's, also of those inside.
void AddUsage(const nlohmann::ordered_json& more, nlohmann::ordered_json& usage);

}  // namespace kvgate::session::results
