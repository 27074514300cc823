// ElementReader skims one object of a body (a tool, block, message or item) once and returns the
// members that matter here as spans. It knows no dialect. Pure; may be called from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/prompt/parse/json_scanner.h"

namespace kvgate::prompt::parse {

// String members are raw and without quotes; empty if they are missing or no strings.
struct ReadObject {
  Span span;
  std::string_view type;
  std::string_view role;
  std::string_view name;
  std::optional<std::string_view> source;  // kvgate_source
  Span text;                               // the string in text, content or output, with its quotes
  Span blocks;                             // content, if it is a list of objects
  bool has_content = false;
  bool has_tool_calls = false;
  std::string_view part;    // of Gemini: the member that says what it is, "functionCall"
  bool is_thought = false;  // of Gemini: its text is the model's thought
  std::optional<Breakpoint> breakpoint;
  Span breakpoint_span;
  Span source_span;
};

// Where an object holds its blocks, and how a block says what it is: a list `content` of objects
// with a `type`, or Gemini's list `parts` of objects with a telling member.
enum class BlockForm : uint8_t { kContent, kParts };

// Reads the object in front of the scanner. Objects in its list of blocks are added to `blocks`; if
// that is null, the list is not read. Returns an empty string on success, else the reason for the
// failure.
std::string ReadElement(std::string_view body, JsonScanner& scanner, ReadObject& object,
                        std::vector<ReadObject>* blocks, BlockForm form = BlockForm::kContent);

// Parses the cache breakpoint that a member states; nullopt if the name or the form is not one.
std::optional<Breakpoint> ReadBreakpoint(std::string_view name, std::string_view value);

}  // namespace kvgate::prompt::parse
