// Calls between the model's form and the client's. A model knows every tool by one flat name and
// writes an object of arguments; clients of the OpenAI dialects also have tools in namespaces, and
// custom ones, which take one text.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/protocol/form/completion.h"

namespace kvgate::protocol {

// The one argument that a custom tool has as a function.
inline constexpr std::string_view kInputName = "input";

// Namespaces may stand in namespaces, so deep; clients name the inner one by both names, joined.
inline constexpr int kNamespaceDepthMax = 4;

// "agents__spawn" of "spawn" in "agents"; without a namespace the name itself.
std::string FlatName(std::string_view space, std::string_view name);
// {"input": "…"}, in the one spelling that the grammar of calls has, too: a turn that is rendered
// again is what the model wrote.
std::string InputArguments(std::string_view input);

// The text in such an object, as it comes. What is no such object is the text itself.
class InputReader {
 public:
  // Appends what these bytes add to the text.
  void Push(std::string_view arguments, std::string& input);

 private:
  enum class State : uint8_t { kHead, kText, kEscape, kEnd, kRaw };

  void Step(char byte, std::string& input);
  void StepHead(char byte, std::string& input);
  void StepEscape(char byte, std::string& input);

  State state_ = State::kHead;
  std::string pending_;     // of the head or of an escape, what has come of it
  size_t num_matched_ = 0;  // of the head, without blanks
};
// Of arguments that are there as a whole.
std::string InputOf(std::string_view arguments);

// One answer's deltas from the model's form into the client's. Not thread-safe.
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
  std::vector<Name> names_;  // those that are not functions of their own name
  bool is_custom_ = false;   // the call under way
  InputReader input_;
};

}  // namespace kvgate::protocol
