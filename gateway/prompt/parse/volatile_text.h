// Volatile text: the parts of a text that change from request to request without meaning to: times,
// ids, counters, a git status, reminders. Found in decoded text (UTF-8), by kind.
//
// A find groups texts that are otherwise equal; it is no leave to change them. `machine` says that
// the form is one that only programs write (a tag, a labelled line, a line of nothing else), which
// the rules of the mode `stabilize` ask for. Pure; any thread; linear in the text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvgate::prompt {

// What the line begins with that Claude Code puts in front of its system text.
inline constexpr std::string_view kBillingHeaderName = "x-anthropic-billing-header:";

enum class VolatileKind : uint8_t {
  kTime,           // dates and times, ISO and spoken
  kEpoch,          // seconds or milliseconds since 1970
  kUuid,           //
  kRequestId,      // long hex, req_… and the like
  kCounter,        // tokens left, token usage
  kBudget,         // USD budget: $0.12/…
  kGitStatus,      // a block of it
  kFileList,       // a block of paths
  kEnvironment,    // a block of what an agent runs in
  kCwd,            // Working directory: …
  kBillingHeader,  // x-anthropic-billing-header: …
  kReminder,       // <system-reminder>…
};
inline constexpr size_t kNumVolatileKinds = 12;
// A literal: "time", "uuid", "git_status".
std::string_view VolatileKindName(VolatileKind kind);

struct VolatileSpan {
  size_t begin = 0;
  size_t end = 0;
  VolatileKind kind = VolatileKind::kTime;
  bool machine = false;
  bool whole_lines = false;  // nothing else stands on its lines; their last newline is not in it
};
// In order, without overlaps.
std::vector<VolatileSpan> FindVolatile(std::string_view text);

// Whether a turn that was sent before may keep its value of it: what only programs write. Paths are
// what a user may have asked about.
inline bool MayBeHeld(const VolatileSpan& span) {
  return span.machine && span.kind != VolatileKind::kFileList &&
         span.kind != VolatileKind::kEnvironment && span.kind != VolatileKind::kCwd;
}

// Whether `text` begins with the tag of a reminder or counter, which agents alone write.
bool BeginsWithAgentTag(std::string_view text);

// The text without the spans and the white space around each of them; what stood on both sides of
// one is kept apart by a newline.
std::string CutVolatile(std::string_view text, const std::vector<VolatileSpan>& spans);

}  // namespace kvgate::prompt
