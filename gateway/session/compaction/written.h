// Written: a compaction as the answers of each dialect say it: alone, in each of the ways that it
// is asked for, or as the part that goes out in front of an answer. Pure; any thread.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "gateway/session/compaction/asked.h"

namespace kvgate::session::compaction {

struct Compaction {
  Dialect dialect = Dialect::kResponses;
  std::string request_id = {};
  std::string summary = {};  // its text
  std::string sealed = {};   // SealedSummary
  std::string answer = {};   // to the request for the summary, in the dialect: ids, model, usage
};

struct Written {
  Surface surface = Surface::kTrigger;
  bool streams = false;
  std::string_view body;  // of the caller's request
};
// Returns an answer that is the compaction and nothing else: a body, or the events of a stream.
std::string WriteAnswer(const Compaction& compaction, const Written& written);

// --- its parts

// As an item of Responses.
nlohmann::ordered_json ItemOf(const Compaction& compaction);
// As a block of Messages that a threshold makes; and as its events, the first of an answer.
nlohmann::ordered_json BlockOf(const Compaction& compaction);
void AppendBlock(const Compaction& compaction, std::string& out);
// What the summary took, as an iteration of a Messages answer's usage.
nlohmann::ordered_json CallOf(const Compaction& compaction);
// Appends an event, which is named by its type.
void AppendEvent(const nlohmann::ordered_json& event, std::string& out);

}  // namespace kvgate::session::compaction
