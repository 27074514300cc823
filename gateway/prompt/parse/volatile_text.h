// Volatile text is the part of a text that changes between requests without a change of meaning:
// times, ids, counters, a git status, reminders. It is found in decoded UTF-8 text, by kind.
//
// A find only groups texts that are otherwise equal; it does not allow a change. `machine` says
// that only programs write that form (a tag, a labelled line, a line of nothing else), which the
// rules of the mode `stabilize` require. Pure; any thread; linear in the text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvgate::prompt::parse {

// The beginning of the line that Claude Code puts in front of its system text.
inline constexpr std::string_view kBillingHeaderName = "x-anthropic-billing-header:";

enum class VolatileKind : uint8_t {
  kTime,   // dates and times, ISO and spoken
  kEpoch,  // seconds or milliseconds since 1970
  kUuid,
  kRequestId,      // long hex, req_… and the like
  kCounter,        // tokens left, token usage
  kBudget,         // USD budget: $0.12/…
  kGitStatus,      // the block that git status prints
  kFileList,       // a block of paths
  kEnvironment,    // a block that describes an agent's environment
  kCwd,            // Working directory: …
  kBillingHeader,  // x-anthropic-billing-header: …
  kReminder,       // <system-reminder>…
};
inline constexpr size_t kNumVolatileKinds = static_cast<size_t>(VolatileKind::kReminder) + 1;
// A literal: "time", "uuid", "git_status".
std::string_view VolatileKindName(VolatileKind kind);

struct VolatileSpan {
  size_t begin = 0;
  size_t end = 0;
  VolatileKind kind = VolatileKind::kTime;
  bool machine = false;
  bool whole_lines = false;  // nothing else stands on its lines; excludes their last newline
};
// Returns the spans in order and without overlaps.
std::vector<VolatileSpan> FindVolatile(std::string_view text);

// Returns true if a turn that was sent before may keep its value: only programs write it. Paths are
// excluded, because a user may have asked about them.
inline bool MayBeHeld(const VolatileSpan& span) {
  return span.machine && span.kind != VolatileKind::kFileList &&
         span.kind != VolatileKind::kEnvironment && span.kind != VolatileKind::kCwd;
}

// Returns true if `text` begins with the tag of a reminder or counter, which only agents write.
bool BeginsWithAgentTag(std::string_view text);

// Returns `text` without the blocks in tags of any name at its end, each of which begins a line,
// and without the white space around them. Programs put such notices behind what a person or a tool
// said; many move on with the newest turn, or are written anew there.
std::string_view WithoutTaggedEnd(std::string_view text);
// Returns true if the text consists of such blocks only, and is short enough for a notice.
inline constexpr size_t kNoticeBytesMax = 8192;
bool IsTagged(std::string_view text);

// Returns the text without the spans and the white space around them; a newline separates the parts
// on both sides of a span.
std::string CutVolatile(std::string_view text, const std::vector<VolatileSpan>& spans);

}  // namespace kvgate::prompt::parse
