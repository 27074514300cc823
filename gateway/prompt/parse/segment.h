// A Segment is one part of a prompt as its caller wrote it: a tool, a system block, a content
// block, or a whole message whose content is a string. It consists of spans of the body and hashes
// only; nothing is unescaped or copied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/ids.h"

namespace kvgate::prompt::parse {

// XXH3-128 with a tag for the domain. It serves to group and find segments only: before one text is
// sent for another of the same identity, the two are compared.
using Identity = Hash128<struct IdentityTag>;

// The bytes [begin, end) of a body of at most 4 GiB.
struct Span {
  uint32_t begin = 0;
  uint32_t end = 0;
  uint32_t size() const { return end - begin; }
  bool empty() const { return begin == end; }
  std::string_view In(std::string_view body) const { return body.substr(begin, size()); }
  friend bool operator==(const Span&, const Span&) = default;
};

// Sections stand in the default render order; see CacheEffects::order.
enum class Section : uint8_t { kTools, kSystem, kMessages };

enum class Role : uint8_t { kNone, kSystem, kDeveloper, kUser, kAssistant, kTool };

// The category under which a token is counted.
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

// A segment's position in its body; `field` is the dialect's name for the section.
struct Place {
  Section section = Section::kMessages;
  std::string_view field;  // a literal: "tools", "system", "instructions", "messages", "input"
  int32_t element = -1;    // index in the list; -1: the field is no list
  int32_t block = -1;      // index in the element's content; -1: the whole element, or its head
  friend bool operator==(const Place&, const Place&) = default;
};

enum class BreakpointKind : uint8_t { kCacheControl, kBreakpoint };

// A cache breakpoint: Anthropic's cache_control or OpenAI's prompt_cache_breakpoint. It is not part
// of its segment's bytes or identity.
struct Breakpoint {
  BreakpointKind kind = BreakpointKind::kCacheControl;
  int32_t ttl_seconds = 300;  // 300 or 3600; 0 for a kBreakpoint
  friend bool operator==(const Breakpoint&, const Breakpoint&) = default;
};

struct Segment {
  Place place;
  Role role = Role::kNone;
  Source source = Source::kUser;
  Content content = Content::kOther;
  Span span;                             // the value in the body, including its breakpoint
  Span element;                          // the tool, system block or message that contains it
  std::optional<Breakpoint> breakpoint;  // set by the caller
  Span breakpoint_span;  // the member and one comma beside it; cutting it out leaves
                         // what would stand there without the breakpoint
  Span source_span;      // kvgate_source and one comma, likewise
  Span text;             // the only string that holds its text, with quotes; empty: none
  Span notice;           // at the end of `text`, without its closing quote: blocks in tags behind
                         // what a user says in a message that is a string; empty: none
  Span blocks;           // of a kMessageHead: the list of blocks, which `raw` treats as empty
  Identity raw;          // of the bytes without breakpoint and kvgate_source
  Identity same;         // of the parsed value: keys sorted, numbers and escapes in one spelling
  Identity stable;       // the same with volatile spans cut out
  Identity said;         // of the text's strings as in `stable`, equal for a string and for a block
  bool is_volatile = false;  // only white space is left without its volatile spans
  bool has_volatile = false;
  // A block in tags behind the others of a user's or tool's message. Programs write them, move them
  // on and take them back, so that it may not come again; what it says is its caller's all the
  // same.
  bool is_notice = false;
  uint32_t num_tokens = 0;  // estimated from its text
};

// Returns true for the thinking of an answer; for Segment, and for what is remembered of one.
template <typename S>
bool IsThinking(const S& segment) {
  return segment.content == Content::kThinking && segment.role == Role::kAssistant;
}

}  // namespace kvgate::prompt::parse
