// ElementReader: one object of a body (a tool, a block, a message or item) skimmed once: the
// members that matter here, as spans. It knows no dialect. Pure; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/prompt/skimmer.h"

namespace kvgate::prompt {

// String members are raw, without their quotes; empty: not there, or no string.
struct ReadObject {
  Span span;
  std::string_view type;
  std::string_view role;
  std::string_view name;
  std::optional<std::string_view> source;  // kvgate_source
  Span text;                               // a string: text, content or output
  Span blocks;                             // content, where it is a list of objects
  bool has_content = false;
  bool has_tool_calls = false;
  std::optional<Marker> marker;
  Span marker_span;
  Span source_span;
};

// The object in front of the skimmer. `blocks`: those of its content, if that is a list of objects;
// null: content is not looked into. Empty string: it was read; else why not.
std::string ReadElement(std::string_view body, Skimmer& skimmer, ReadObject& object,
                        std::vector<ReadObject>* blocks);

// The marker that a member's value states; nothing: no member of that name is one, or another form.
std::optional<Marker> ReadMarker(std::string_view name, std::string_view value);

}  // namespace kvgate::prompt
