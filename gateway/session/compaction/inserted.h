// Inserted: an answer with what was done to its prompt: a compaction in front of it, where the
// prompt grew over a threshold that its request sets, and the edits that cleared something. It is
// written into the answer of whoever answers, in the caller's dialect: a body, or the events of a
// stream as they pass. Not thread-safe.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gateway/session/answer/event_cutter.h"
#include "gateway/session/compaction/cleared.h"
#include "gateway/session/compaction/written.h"

namespace kvgate::session::compaction {

struct Insertion {
  Dialect dialect = Dialect::kMessages;
  std::optional<Compaction> compaction = {};
  // Of Messages alone; none: no edits were asked for.
  std::optional<std::vector<AppliedEdit>> edits = {};
};

class Inserter {
 public:
  explicit Inserter(std::shared_ptr<const Insertion> insertion)
      : insertion_(std::move(insertion)) {}

  // Returns the body with what is to be inserted; as it is if it is no answer of the dialect. A
  // count of tokens gets what it was before the edits.
  std::string TakeBody(std::string_view body) const;
  // Takes a piece of a stream of events; returns what goes on to the caller. Events pass whole.
  std::string TakePiece(std::string_view piece);
  // The stream has ended: returns what was held back of it.
  std::string Finish();

 private:
  std::string TakeEvent(const std::string& event);
  // Returns the event as it goes on, and those that go in front of it.
  std::string ChangeResponses(nlohmann::ordered_json event);
  // Returns it as it goes on, and those that follow it.
  std::string ChangeMessages(nlohmann::ordered_json event) const;

  const std::shared_ptr<const Insertion> insertion_;
  answer::EventCutter events_;
  bool is_inserted_ = false;
};

}  // namespace kvgate::session::compaction
