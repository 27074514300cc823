// Inserted: an answer with a compaction in front of it, where the prompt grew over a threshold that
// its request sets. It is written into the answer of whoever answers, in the caller's dialect: a
// body, or the events of a stream as they pass. Not thread-safe.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "gateway/session/transcript/message.h"
#include "store/meta/turn_format.h"

namespace kvgate::session::compaction {

using transcript::Dialect;

struct Insertion {
  Dialect dialect = Dialect::kResponses;
  std::string request_id = {};
  std::string summary = {};
  std::string sealed = {};
  store::meta::TurnTokens tokens = {};  // of the call that wrote the summary
};

class Inserter {
 public:
  explicit Inserter(Insertion insertion) : insertion_(std::move(insertion)) {}

  // Returns the body with the compaction in front; as it is if it is no answer of the dialect.
  std::string TakeBody(std::string_view body) const;
  // Takes a piece of a stream of events; returns what goes on to the caller. Events pass whole.
  std::string TakePiece(std::string_view piece);
  // The stream has ended: returns what was held back of it.
  std::string Finish();

 private:
  std::string TakeEvent(std::string_view event);
  // Changes the data of an event, and appends to `before` the events that come in front of it and
  // to `behind` those that follow it.
  void Change(nlohmann::ordered_json& data, std::string& before, std::string& behind);
  void ChangeResponses(nlohmann::ordered_json& data, std::string& before);
  void ChangeMessages(nlohmann::ordered_json& data, std::string& behind);

  const Insertion insertion_;
  std::string pending_;
  bool is_inserted_ = false;
};

// A whole answer that is the compaction and nothing else, for a threshold that pauses. Messages
// only: no other dialect has it.
std::string WritePaused(const Insertion& insertion, std::string_view model, bool streams);

}  // namespace kvgate::session::compaction
