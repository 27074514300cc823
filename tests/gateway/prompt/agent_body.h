// An AgentBody is the request of an agent's conversation as its client writes it in one of three
// dialects, with tools and JSON keys in another order each time if that is the client's habit.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/gateway/prompt/agent_conversation.h"

namespace kvgate::prompt::traffic {

class AgentBody {
 public:
  AgentBody(const AgentShape& shape, Endpoint endpoint, RandomText& random)
      : shape_(shape), endpoint_(endpoint), random_(random) {}

  std::string Write(const AgentPrompt& prompt, const std::string& name) {
    OrderedJson body = {{"model", shape_.model}, {"stream", true}};
    if (shape_.naming == Naming::kField && IsMessages()) {
      body["metadata"] = {{"user_id", "user_1_account__session_" + name}};
    } else if (shape_.naming == Naming::kField) {
      body["prompt_cache_key"] = name;
    }
    body["tools"] = Tools(prompt);
    OrderedJson turns = OrderedJson::array();
    AddSystem(prompt, body, turns);
    for (const Turn& turn : prompt.turns) AddTurn(turn, turns);
    if (shape_.marks) turns.back()["content"].back()["cache_control"] = {{"type", "ephemeral"}};
    body[endpoint_ == Endpoint::kResponses ? "input" : "messages"] = std::move(turns);
    return body.dump();
  }

 private:
  bool IsMessages() const { return endpoint_ == Endpoint::kMessages; }
  bool IsChat() const { return endpoint_ == Endpoint::kChatCompletions; }

  template <typename List>
  void Shuffle(List& list) {
    for (size_t i = list.size(); i > 1; --i) std::swap(list[i - 1], list[random_.Below(i)]);
  }
  // Writes an object's keys in another order, and those of the objects in it.
  OrderedJson Shuffled(const OrderedJson& value) {
    if (!value.is_object()) return value;
    std::vector<std::string> keys;
    for (const auto& [key, member] : value.items()) keys.push_back(key);
    Shuffle(keys);
    OrderedJson shuffled = OrderedJson::object();
    for (const std::string& key : keys) shuffled[key] = Shuffled(value[key]);
    return shuffled;
  }

  OrderedJson Tools(const AgentPrompt& prompt) {
    std::vector<OrderedJson> tools;
    for (size_t i = 0; i < shape_.tools.size(); ++i) {
      OrderedJson tool = {{"name", shape_.tools[i].name},
                          {"description", TextOf(prompt.tools[i])},
                          {IsMessages() ? "input_schema" : "parameters", shape_.tools[i].schema}};
      if (IsChat()) tool = {{"type", "function"}, {"function", tool}};
      if (endpoint_ == Endpoint::kResponses) tool["type"] = "function";
      tools.push_back(shape_.shuffles_keys ? Shuffled(tool) : tool);
    }
    if (shape_.shuffles_tools) Shuffle(tools);
    return tools;
  }
  void AddSystem(const AgentPrompt& prompt, OrderedJson& body, OrderedJson& turns) {
    OrderedJson blocks = OrderedJson::array();
    for (const Lines& block : prompt.system) {
      blocks.push_back({{"type", "text"}, {"text", TextOf(block)}});
    }
    if (endpoint_ == Endpoint::kResponses) {
      body["instructions"] = TextOf(prompt.system.front());
    } else if (IsChat() && shape_.uses_system_blocks) {
      turns.push_back({{"role", "system"}, {"content", blocks}});
    } else if (IsChat()) {
      turns.push_back({{"role", "system"}, {"content", TextOf(prompt.system.front())}});
    } else if (shape_.uses_system_blocks || shape_.marks) {
      if (shape_.marks) blocks.back()["cache_control"] = {{"type", "ephemeral"}};
      body["system"] = blocks;
    } else {
      body["system"] = TextOf(prompt.system.front());
    }
  }

  OrderedJson TextBlock(const std::string& text, bool is_answer) const {
    const char* type = endpoint_ != Endpoint::kResponses ? "text"
                       : is_answer                       ? "output_text"
                                                         : "input_text";
    return {{"type", type}, {"text", text}};
  }
  OrderedJson Message(const char* role, OrderedJson content) {
    OrderedJson message = {{"role", role}, {"content", std::move(content)}};
    if (endpoint_ == Endpoint::kResponses) message["type"] = "message";
    return shape_.shuffles_keys ? Shuffled(message) : message;
  }

  void AddTurn(const Turn& turn, OrderedJson& turns) {
    switch (turn.speaker) {
      case Speaker::kUser:
        return AddUser(turn, turns);
      case Speaker::kAssistant:
        return AddAnswer(turn, turns);
      case Speaker::kTool:
        return AddResults(turn, turns);
    }
  }
  void AddUser(const Turn& turn, OrderedJson& turns) {
    std::string text;
    OrderedJson blocks = OrderedJson::array();
    for (const Piece& piece : turn.pieces) {
      text += (text.empty() ? "" : "\n\n") + TextOf(piece.lines);
      blocks.push_back(TextBlock(TextOf(piece.lines), false));
    }
    const bool is_string = shape_.joins_texts && !shape_.marks;
    turns.push_back(Message("user", is_string ? OrderedJson(text) : blocks));
  }
  void AddAnswer(const Turn& turn, OrderedJson& turns) {
    OrderedJson blocks = OrderedJson::array();
    OrderedJson calls = OrderedJson::array();
    for (const Piece& piece : turn.pieces) {
      const std::string text = TextOf(piece.lines);
      if (piece.part == Part::kAnswer) blocks.push_back(TextBlock(text, true));
      if (piece.part == Part::kThinking) {
        blocks.push_back({{"type", "thinking"}, {"thinking", text}, {"signature", piece.id}});
      }
      if (piece.part == Part::kCall) calls.push_back(Call(piece.id, text));
    }
    if (IsMessages()) blocks.insert(blocks.end(), calls.begin(), calls.end());
    OrderedJson message = Message("assistant", IsChat() ? blocks[0]["text"] : blocks);
    if (IsChat() && !calls.empty()) message["tool_calls"] = calls;
    turns.push_back(message);
    if (endpoint_ == Endpoint::kResponses) {
      turns.insert(turns.end(), calls.begin(), calls.end());
    }
  }
  OrderedJson Call(const std::string& id, const std::string& text) {
    const std::string& name = shape_.tools.front().name;
    const OrderedJson input = {{"query", text}, {"limit", 5}};
    if (IsMessages()) return {{"type", "tool_use"}, {"id", id}, {"name", name}, {"input", input}};
    if (IsChat()) {
      return {{"id", id},
              {"type", "function"},
              {"function", {{"name", name}, {"arguments", input.dump()}}}};
    }
    return {
        {"type", "function_call"}, {"call_id", id}, {"name", name}, {"arguments", input.dump()}};
  }
  void AddResults(const Turn& turn, OrderedJson& turns) {
    OrderedJson blocks = OrderedJson::array();
    for (const Piece& piece : turn.pieces) {
      const std::string text = TextOf(piece.lines);
      if (piece.part != Part::kResult) {
        blocks.push_back(TextBlock(text, false));
      } else if (IsMessages()) {
        blocks.push_back({{"type", "tool_result"}, {"tool_use_id", piece.id}, {"content", text}});
      } else if (IsChat()) {
        turns.push_back({{"role", "tool"}, {"tool_call_id", piece.id}, {"content", text}});
      } else {
        turns.push_back(
            {{"type", "function_call_output"}, {"call_id", piece.id}, {"output", text}});
      }
    }
    if (IsMessages()) turns.push_back(Message("user", blocks));
  }

  const AgentShape& shape_;
  const Endpoint endpoint_;
  RandomText& random_;
};

}  // namespace kvgate::prompt::traffic
