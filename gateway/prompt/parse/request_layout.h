// A RequestLayout locates the parts of a request body: fields, tools, system blocks, messages and
// their blocks, as spans with identities. It points into no memory of the body, so it holds for any
// copy of it. Reading is pure apart from the memo; any thread may call it.
//
// The cost follows what is new: a segment whose raw bytes the memo knows from an earlier layout is
// skimmed and hashed, but not parsed.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gateway/dialect/form/dialect.h"
#include "gateway/prompt/parse/segment.h"

namespace kvgate::prompt::parse {

// A top-level field that is not part of the prompt, such as a setting that affects caching.
struct Parameter {
  std::string name;  // raw, as in the body
  Span member;       // "name": value
  Span value;
  Identity same;
};

struct RequestLayout {
  dialect::form::Endpoint endpoint = dialect::form::Endpoint::kOther;
  std::vector<Segment> segments;                       // in render order: tools, system, messages
  std::vector<Parameter> parameters;                   // all other fields, in the body's order
  Span object;                                         // the body from { to }
  Span tools;                                          // the list; empty: there is none
  Span system;                                         // "system" or "instructions"
  Span messages;                                       // "messages" or "input"
  std::string model;                                   // unescaped
  std::optional<Breakpoint> automatic;                 // Anthropic's top-level cache_control
  const Parameter* Find(std::string_view name) const;  // null if it is missing
};

// Remembers facts about segments by their raw bytes. Bounded and thread-safe.
class SegmentMemo;
std::shared_ptr<SegmentMemo> MakeSegmentMemo(size_t entries_max);

// Reads Chat Completions, Responses, Messages (and count_tokens) and Gemini's generateContent,
// whose path names the `model` instead of the body. Fails with kInvalidArgument if the body is no
// JSON object, repeats a field that matters here, or has an unknown form. Such a body is forwarded
// unchanged, and no statement is made about it.
Result<RequestLayout> ReadRequestLayout(dialect::form::Endpoint endpoint, std::string_view body,
                                        SegmentMemo& memo, std::string_view model = {});
// The same for a body of which the memo knows all but `new_bytes_max` bytes; nullopt for any other
// one, found at little cost.
std::optional<RequestLayout> ReadKnownLayout(dialect::form::Endpoint endpoint,
                                             std::string_view body, SegmentMemo& memo,
                                             size_t new_bytes_max, std::string_view model = {});

// Returns true if the body holds the earlier turns. If false, the provider holds them: the body
// names them by the id of a response or conversation, and holds only the new turns.
bool HoldsHistory(std::string_view body, const RequestLayout& layout);

// "tools[3]", "system", "messages[4].content[1]", "input[2]".
std::string PathOf(const Place& place);

}  // namespace kvgate::prompt::parse
