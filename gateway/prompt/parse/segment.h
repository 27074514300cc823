// Segment: one part of a prompt as its caller wrote it: a tool, a system block, a content block, a
// whole message whose content is a string. Everything about it is a span of the body or a hash;
// nothing is unescaped or copied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include <kvgate/ids.h>

namespace kvgate::prompt {

// XXH3-128, domain-tagged. It groups and finds; two texts of one identity are compared before one
// stands for the other.
using Identity = Hash128<struct IdentityTag>;

// Bytes [begin, end) of a body of at most 4 GiB.
struct Span {
  uint32_t begin = 0;
  uint32_t end = 0;
  uint32_t size() const { return end - begin; }
  bool empty() const { return begin == end; }
  std::string_view In(std::string_view body) const { return body.substr(begin, size()); }
  friend bool operator==(const Span&, const Span&) = default;
};

// In the order in which providers render them.
enum class Section : uint8_t { kTools, kSystem, kMessages };

enum class Role : uint8_t { kNone, kSystem, kDeveloper, kUser, kAssistant, kTool };

// What a token is counted under.
enum class Source : uint8_t {
  kTools,
  kSystem,
  kExamples,
  kHistory,
  kSummary,
  kRetrieval,
  kToolResults,
  kMedia,
  kUser,
};
inline constexpr size_t kNumSources = 9;
std::string_view SourceName(Source source);  // "tool_results"

enum class Content : uint8_t {
  kTool,         // a tool's definition
  kText,         // a text block, a string, or a message with a string as its content
  kMedia,        // images, audio, documents, files: the bytes are never touched
  kToolCall,     // tool_use, function_call: the bytes are never touched
  kToolResult,   // tool_result, function_call_output, a message of role tool
  kThinking,     // thinking, reasoning, encrypted content: the bytes are never touched
  kMessageHead,  // what a message holds beside its list of blocks: role, name, tool_calls …
  kOther,
};

// Where a segment stands in its body; `field` is how that dialect calls the section.
struct Place {
  Section section = Section::kMessages;
  std::string_view field;  // a literal: "tools", "system", "instructions", "messages", "input"
  int32_t element = -1;    // its index; -1: the field is no list
  int32_t block = -1;      // of the element's content; -1: the whole element, or its head
  friend bool operator==(const Place&, const Place&) = default;
};

enum class MarkerKind : uint8_t { kCacheControl, kBreakpoint };

// A cache marker: Anthropic's cache_control, OpenAI's prompt_cache_breakpoint. It is no part of its
// segment's bytes or identity.
struct Marker {
  MarkerKind kind = MarkerKind::kCacheControl;
  int32_t ttl_seconds = 300;  // 300 or 3600; of a breakpoint 0
  friend bool operator==(const Marker&, const Marker&) = default;
};

struct Segment {
  Place place;
  Role role = Role::kNone;
  Source source = Source::kUser;
  Content content = Content::kOther;
  Span span;                     // the value in the body, its marker included
  Span element;                  // the tool, system block or message that it is, or is a part of
  std::optional<Marker> marker;  // the caller's
  Span marker_span;  // the member and one comma beside it; cut out, the rest is what would stand
                     // there without the marker
  Span source_span;  // of kvgate_source, likewise
  Span text;         // the one string, with its quotes, that holds its text; empty: there is none
  Span blocks;       // of a kMessageHead: the list of blocks, which `raw` takes for empty
  Identity raw;      // of the bytes without marker and kvgate_source
  Identity same;     // of the parsed value: keys sorted, numbers and escapes in one spelling
  Identity stable;   // the same with volatile spans cut out
  Identity said;     // of a text: its string's, as `stable`, be it a message's content or a block's
  bool is_volatile = false;  // nothing is left without its volatile spans
  bool has_volatile = false;
  uint32_t num_tokens = 0;  // estimated from its text
};

}  // namespace kvgate::prompt
