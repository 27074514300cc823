// Converts tool calls between the model's form and the client's. A model knows every tool by one
// flat name and writes an object of arguments. Clients of the OpenAI dialects also have tools in
// namespaces, and custom tools, which take one text.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/dialect/form/completion.h"

namespace kvgate::dialect::form {

// The name of a custom tool's only argument when it is shown to the model as a function.
inline constexpr std::string_view kInputName = "input";

// The nesting depth of namespaces; clients name the inner one by both names, joined.
inline constexpr int kNamespaceDepthMax = 4;

// Returns "agents__spawn" for "spawn" in "agents", and the plain name without a namespace.
std::string FlatName(std::string_view space, std::string_view name);
// Returns {"input": "…"} in the same spelling that the grammar of calls enforces, so that a turn
// rendered again is what the model wrote.
std::string InputArguments(std::string_view input);

// Extracts the text from such an object as it streams. Input that is not such an object is passed
// through as the text.
class InputReader {
 public:
  // Appends to `input` the part of the text that these bytes complete.
  void Push(std::string_view arguments, std::string& input);

 private:
  enum class State : uint8_t { kHead, kText, kEscape, kEnd, kRaw };

  void Step(char byte, std::string& input);
  void StepHead(char byte, std::string& input);
  void StepEscape(char byte, std::string& input);

  State state_ = State::kHead;
  std::string pending_;     // the incomplete head or escape so far
  size_t num_matched_ = 0;  // matched bytes of the head, without blanks
};
// Does the same for complete arguments.
std::string InputOf(std::string_view arguments);

// Converts the deltas of one answer from the model's form into the client's. Not thread-safe.
class CallNamer {
 public:
  CallNamer() = default;
  explicit CallNamer(std::span<const Tool> tools);
  void Apply(DeltaEvent& event);

 private:
  struct Name {
    std::string flat;
    std::string space;
    bool is_custom = false;
  };
  std::vector<Name> names_;  // only tools whose client form differs: custom or namespaced
  bool is_custom_ = false;   // kind of the current call
  InputReader input_;
};

}  // namespace kvgate::dialect::form
