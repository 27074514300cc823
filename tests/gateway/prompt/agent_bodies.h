// AgentBodies makes bodies of an agent's conversation in the three dialects, with tools, a system
// prompt and turns with calls.
#pragma once

#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "gateway/dialect/form/dialect.h"

namespace kvgate::prompt {

using OrderedJson = nlohmann::ordered_json;

class AgentBodies {
 public:
  AgentBodies(dialect::form::Endpoint endpoint, uint32_t seed)
      : endpoint_(endpoint), random_(seed) {}

  std::mt19937& random() { return random_; }
  size_t Below(size_t bound) { return random_() % bound; }
  const char* turns_field() const { return IsResponses() ? "input" : "messages"; }
  bool IsMessages() const { return endpoint_ == dialect::form::Endpoint::kMessages; }
  bool IsResponses() const { return endpoint_ == dialect::form::Endpoint::kResponses; }
  bool IsChat() const { return endpoint_ == dialect::form::Endpoint::kChatCompletions; }

  std::string Words(size_t count) {
    static constexpr const char* kWords[] = {
        "file",  "search", "the",     "module", "returns", "pattern", "when",   "given", "a",
        "path",  "edit",   "replace", "every",  "test",    "build",   "should", "never", "write",
        "after", "reads",  "branch",  "commit", "without", "number",  "option", "string"};
    std::string text;
    for (size_t i = 0; i < count; ++i) {
      if (i > 0) text += ' ';
      text += kWords[Below(std::size(kWords))];
    }
    return text;
  }

  OrderedJson Tool(const std::string& name) {
    OrderedJson properties;
    for (const char* key : {"path", "query", "limit"}) {
      properties[key] = {{"type", "string"}, {"description", Words(12)}};
    }
    const OrderedJson schema = {{"type", "object"},
                                {"properties", properties},
                                {"required", {"path", "query"}},
                                {"additionalProperties", false}};
    if (IsMessages()) {
      return {{"name", name}, {"description", Words(60)}, {"input_schema", schema}};
    }
    const OrderedJson function = {
        {"name", name}, {"description", Words(60)}, {"parameters", schema}};
    if (IsChat()) return {{"type", "function"}, {"function", function}};
    OrderedJson flat = {{"type", "function"}};
    flat.update(function);
    return flat;
  }

  // Returns a body that ends with a user's turn.
  OrderedJson Conversation(size_t num_tools, size_t num_turns) {
    OrderedJson body = {{"model", IsMessages() ? "claude-opus-5" : "gpt-6-sol"}, {"stream", true}};
    body["tools"] = OrderedJson::array();
    for (size_t i = 0; i < num_tools; ++i) body["tools"].push_back(Tool("t" + std::to_string(i)));
    if (IsMessages()) {
      body["system"] = OrderedJson::array();
      for (int i = 0; i < 3; ++i) {
        body["system"].push_back({{"type", "text"}, {"text", Words(500)}});
      }
    }
    if (IsResponses()) body["instructions"] = Words(1500);
    body[turns_field()] = OrderedJson::array();
    if (IsChat()) Turns(body).push_back({{"role", "system"}, {"content", Words(1500)}});
    AddUser(body);
    for (size_t i = 0; i < num_turns; ++i) GoOn(body);
    return body;
  }

  OrderedJson& Turns(OrderedJson& body) { return body[turns_field()]; }

  OrderedJson Text(const std::string& role, const std::string& text) {
    if (IsChat()) return {{"role", role}, {"content", text}};
    const char* type = IsMessages() ? "text" : role == "user" ? "input_text" : "output_text";
    OrderedJson turn = {{"role", role}, {"content", {{{"type", type}, {"text", text}}}}};
    if (IsResponses()) turn["type"] = "message";
    return turn;
  }

  // Adds a user's turn; short texts repeat often.
  void AddUser(OrderedJson& body) {
    Turns(body).push_back(Text("user", Below(4) == 0 ? "continue" : Words(80)));
  }
  std::string Result() { return Below(5) == 0 ? "ok" : Words(200); }

  // Adds the answer to the last turn, with a call, and the user's next turn.
  void GoOn(OrderedJson& body) {
    OrderedJson& turns = Turns(body);
    const std::string id = "call" + std::to_string(++num_calls_);
    const OrderedJson input = {{"path", Words(2)}, {"query", Words(8)}};
    if (IsMessages()) {
      OrderedJson call = {{"type", "tool_use"}, {"id", id}, {"name", "t0"}, {"input", input}};
      turns.push_back(
          {{"role", "assistant"}, {"content", {{{"type", "text"}, {"text", Words(30)}}, call}}});
      OrderedJson result = {{"type", "tool_result"}, {"tool_use_id", id}, {"content", Result()}};
      turns.push_back({{"role", "user"}, {"content", {result}}});
    } else if (IsChat()) {
      OrderedJson call = {{"id", id},
                          {"type", "function"},
                          {"function", {{"name", "t0"}, {"arguments", input.dump()}}}};
      turns.push_back({{"role", "assistant"},
                       {"content", Words(30)},
                       {"tool_calls", OrderedJson::array({call})}});
      turns.push_back({{"role", "tool"}, {"tool_call_id", id}, {"content", Result()}});
    } else {
      turns.push_back({{"type", "function_call"},
                       {"call_id", id},
                       {"name", "t0"},
                       {"arguments", input.dump()}});
      turns.push_back({{"type", "function_call_output"}, {"call_id", id}, {"output", Result()}});
    }
    turns.push_back(Text("assistant", Words(60)));
    AddUser(body);
  }

 private:
  const dialect::form::Endpoint endpoint_;
  std::mt19937 random_;
  int num_calls_ = 0;
};

}  // namespace kvgate::prompt
