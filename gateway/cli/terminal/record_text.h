// Records of requests, in the JSON form that the server gives them (gateway/ledger/request_record),
// as lines for a terminal. What a record lacks is shown as "-". Pure.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace kvgate::cli::terminal {

struct TextArgs {
  size_t columns = 80;
  bool is_styled = false;
};

// The heading over lines of RecordLine.
std::string RecordHeading(const TextArgs& args);
// "14:32:05  gpt-6-sol    openai   24.1K  95.1 %   312  $0.001230   310 ms  ok".
std::string RecordLine(const nlohmann::json& record, const TextArgs& args);

// One request in full: a sentence, the prompt as a ribbon of its segments (by source and by what
// the cache did), a table by source with the tools under it, why the cached prefix ended, what was
// changed, how long it took.
std::vector<std::string> ContextLines(const nlohmann::json& record, const TextArgs& args);

}  // namespace kvgate::cli::terminal
