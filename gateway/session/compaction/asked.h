// Asked: what a request says of compactions and of edits to its prompt. Providers have several ways
// of asking for one; what is asked for is read here, and answered by whoever serves the request.
// Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "gateway/session/compaction/edits.h"
#include "gateway/session/transcript/message.h"

namespace kvgate::session::compaction {

using transcript::Dialect;

// In which way the whole answer is to be a compaction.
enum class Surface : uint8_t {
  kNone,
  kCompact,    // POST /v1/responses/compact
  kTrigger,    // the last item of a Responses request's input is a compaction_trigger
  kSummarize,  // the member `compaction` of a Messages request
  kPaused,     // a threshold of Messages has been reached, and ends the answer
};

// A compaction in front of the answer, if the prompt has at least so many tokens.
struct Threshold {
  int64_t tokens = 0;   // 0: as many as the model takes well
  bool pauses = false;  // the answer ends with the compaction
  std::string instructions = {};
};

struct Asked {
  Surface surface = Surface::kNone;
  std::string instructions = {};  // of its caller, for the summary
  std::optional<Threshold> threshold = {};
  Edits edits = {};         // of Messages, besides a threshold
  bool is_chained = false;  // what comes before is kept elsewhere, and named
};

// True if the body may have an item of a compaction in it, or ask for one; a glance, without
// reading JSON.
bool MayConcern(std::string_view body);

// Reads a body. `is_compact`: it came to the path of that. Fails with kInvalidArgument and the
// field's name; for `compaction` with the provider's name for what is wrong in front.
Result<Asked> ReadAsked(Dialect dialect, bool is_compact, std::string_view body);

// The body as a request for an answer: without what asks for compactions.
std::string WithoutAsking(Dialect dialect, std::string_view body);

}  // namespace kvgate::session::compaction
