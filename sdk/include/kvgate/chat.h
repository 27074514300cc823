// A chat: messages, tools, the request made of them, and what comes back.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <kvgate/json.h>

namespace kvgate {
inline namespace v1 {

// A call of a tool that the model asks for.
struct ToolCall {
  std::string id;                // what its result refers to
  std::string name;              // of the tool
  std::string arguments = "{}";  // JSON
};

// One turn of a conversation.
struct Message {
  // Who says it.
  enum class Role { kSystem, kUser, kAssistant, kTool };
  Role role = Role::kUser;                // who says it
  std::string text = {};                  // what is said
  std::vector<ToolCall> tool_calls = {};  // of an assistant
  std::string reasoning = {};             // of an assistant: as it came, for models that want it
  std::string tool_call_id = {};          // of a tool: whose result this is
  // Instead of the text: parts as /v1/chat/completions takes them, a JSON array. For images.
  std::string content_json = {};

  // Rules for the model, at the beginning.
  static Message System(std::string text) {
    return {.role = Role::kSystem, .text = std::move(text)};
  }
  // What a person says.
  static Message User(std::string text) { return {.role = Role::kUser, .text = std::move(text)}; }
  // What the model said; Reply::ToMessage has calls and reasoning too.
  static Message Assistant(std::string text) {
    return {.role = Role::kAssistant, .text = std::move(text)};
  }
  // What a tool returned for the call of that id.
  static Message ToolResult(std::string call_id, std::string text) {
    return {.role = Role::kTool, .text = std::move(text), .tool_call_id = std::move(call_id)};
  }
};

// A tool that the model may call. Its arguments are an object of this JSON schema.
struct Tool {
  std::string name;              // letters, digits, _ and -
  std::string description = {};  // what it does, for the model
  // The JSON schema; by default there are no arguments.
  std::string parameters = R"({"type":"object","properties":{}})";
};

// How one request is made. A default leaves it to the gateway.
struct CallOptions {
  std::chrono::milliseconds timeout{0};                           // of the whole answer; 0: none
  std::stop_token stop = {};                                      // ends it with kCancelled
  std::vector<std::pair<std::string, std::string>> headers = {};  // further ones: name, value
};

// What is asked. A default leaves it to the model or the gateway.
struct ChatRequest {
  std::string model = "local";             // "local": the engine's, whatever its name is
  std::vector<Message> messages = {};      // with Session: only those that are new
  std::vector<Tool> tools = {};            // that the model may call
  std::string tool_choice = {};            // "auto", "none", "required", or a tool's name
  std::optional<int64_t> max_tokens = {};  // of the answer
  std::optional<double> temperature = {};  // 0: the likeliest token, always
  std::optional<double> top_p = {};        // only the likeliest tokens of this total probability
  std::optional<int64_t> seed = {};        // equal requests with a seed have equal answers
  std::vector<std::string> stop = {};      // texts at which the answer ends
  std::string reasoning_effort = {};       // "low", "medium", "high"
  // The answer is JSON of this schema; empty: any text.
  std::string json_schema = {};
  bool explain = false;  // an event says what was cached, what was not, and why
  // Further fields of the body: {"top_k":40}. They stand before the others, which win.
  std::string more_json = {};
  CallOptions options = {};  // deadline, cancelling, headers
};

// How many tokens an answer took.
struct Usage {
  int64_t prompt_tokens = -1;       // with the cached ones; -1: not known, here and below
  int64_t cached_tokens = -1;       // of the prompt: read from a cache
  int64_t cache_write_tokens = -1;  // of the prompt: written to a cache
  int64_t output_tokens = -1;       // with those of reasoning
  int64_t reasoning_tokens = -1;    // of the output: what the model thought
};

// One event of an answer on its way.
struct Event {
  // Which members count.
  enum class Kind {
    kText = KVGATE_EVENT_TEXT,             // text
    kReasoning = KVGATE_EVENT_REASONING,   // text
    kToolDelta = KVGATE_EVENT_TOOL_DELTA,  // text: a piece of the arguments of call `tool_index`
    kToolCall = KVGATE_EVENT_TOOL_CALL,    // tool_call: a whole one
    kFinish = KVGATE_EVENT_FINISH,         // text: "stop", "length", "tool_calls"
    kUsage = KVGATE_EVENT_USAGE,           // usage
    kExplain = KVGATE_EVENT_EXPLAIN,       // text: JSON
  };
  Kind kind = Kind::kText;  // kinds that are not named here can come from a later library
  std::string text = {};    // empty where the kind has none
  int choice = 0;           // which answer it belongs to, where a request asks for several (`n`)
  int tool_index = 0;       // which call of the answer, from 0
  ToolCall tool_call = {};  // with kToolCall; with kToolDelta its arguments are the piece
  Usage usage = {};         // with kUsage

  // True for a piece of the answer.
  bool is_text() const { return kind == Kind::kText; }
};

// A whole answer.
struct Reply {
  std::string text;                       // what was said
  std::string reasoning = {};             // what was thought
  std::vector<ToolCall> tool_calls = {};  // that are asked for
  std::string finish_reason = {};         // "stop", "length", "tool_calls", "content_filter"
  Usage usage = {};                       // what it took
  Json explanation = {};                  // with ChatRequest::explain
  std::string request_id = {};            // names its record: /kvgate/v1/requests/ID

  // The turn that goes into the next request.
  Message ToMessage() const {
    return {.role = Message::Role::kAssistant,
            .text = text,
            .tool_calls = tool_calls,
            .reasoning = reasoning};
  }
};

namespace detail {

inline const char* RoleName(Message::Role role) {
  switch (role) {
    case Message::Role::kSystem:
      return "system";
    case Message::Role::kUser:
      return "user";
    case Message::Role::kAssistant:
      return "assistant";
    case Message::Role::kTool:
      return "tool";
  }
  return "user";
}

inline void AppendField(std::string& json, const char* name, const std::string& value) {
  if (json.size() > 1 && json.back() != '{') json += ',';
  ((json += '"') += name) += "\":";
  json += value;
}

inline std::string NumberText(double number) {
  char text[32];
  const auto written = std::to_chars(text, text + sizeof text, number);
  return std::string(text, written.ptr);
}

inline std::string ToJson(const Message& message) {
  std::string json = "{";
  AppendField(json, "role", Quote(RoleName(message.role)));
  const bool only_calls =
      message.text.empty() && message.content_json.empty() && !message.tool_calls.empty();
  AppendField(json, "content",
              only_calls                      ? "null"
              : !message.content_json.empty() ? message.content_json
                                              : Quote(message.text));
  if (!message.reasoning.empty()) {
    AppendField(json, "reasoning_content", Quote(message.reasoning));
  }
  if (!message.tool_calls.empty()) {
    std::string calls = "[";
    for (const ToolCall& call : message.tool_calls) {
      if (calls.size() > 1) calls += ',';
      calls += R"({"id":)" + Quote(call.id) + R"(,"type":"function","function":{"name":)" +
               Quote(call.name) + R"(,"arguments":)" + Quote(call.arguments) + "}}";
    }
    AppendField(json, "tool_calls", calls + "]");
  }
  if (!message.tool_call_id.empty()) {
    AppendField(json, "tool_call_id", Quote(message.tool_call_id));
  }
  return json += '}';
}

inline std::string ToJson(const Tool& tool) {
  std::string function = "{";
  AppendField(function, "name", Quote(tool.name));
  if (!tool.description.empty()) AppendField(function, "description", Quote(tool.description));
  AppendField(function, "parameters", tool.parameters);
  return R"({"type":"function","function":)" + function + "}}";
}

inline std::string ToJson(const std::string& text) { return Quote(text); }

template <typename T>
std::string ToJsonList(const std::vector<T>& values) {
  std::string json = "[";
  for (const T& value : values) {
    if (json.size() > 1) json += ',';
    json += ToJson(value);
  }
  return json += ']';
}
inline std::string ToolChoiceJson(const std::string& choice) {
  if (choice == "auto" || choice == "none" || choice == "required") return Quote(choice);
  return R"({"type":"function","function":{"name":)" + Quote(choice) + "}}";
}

// The same prompt as POST /v1/responses/input_tokens takes it.
inline std::string ToInputTokensJson(const ChatRequest& request) {
  std::string items = "[";
  const auto add = [&items](const std::string& item) {
    if (items.size() > 1) items += ',';
    items += item;
  };
  for (const Message& message : request.messages) {
    if (message.role == Message::Role::kTool) {
      add(R"({"type":"function_call_output","call_id":)" + Quote(message.tool_call_id) +
          R"(,"output":)" + Quote(message.text) + "}");
      continue;
    }
    if (!message.text.empty() || message.tool_calls.empty()) {
      add(R"({"role":")" + std::string(RoleName(message.role)) + R"(","content":)" +
          Quote(message.text) + "}");
    }
    for (const ToolCall& call : message.tool_calls) {
      add(R"({"type":"function_call","call_id":)" + Quote(call.id) + R"(,"name":)" +
          Quote(call.name) + R"(,"arguments":)" + Quote(call.arguments) + "}");
    }
  }
  std::string tools = "[";
  for (const Tool& tool : request.tools) {
    if (tools.size() > 1) tools += ',';
    tools += R"({"type":"function","name":)" + Quote(tool.name) + R"(,"description":)" +
             Quote(tool.description) + R"(,"parameters":)" + tool.parameters + "}";
  }
  std::string json = "{";
  AppendField(json, "model", Quote(request.model));
  AppendField(json, "input", items + "]");
  if (!request.tools.empty()) AppendField(json, "tools", tools + "]");
  return json += '}';
}

// Reads "[0.5,-1,2e-3]".
inline std::vector<float> ToFloats(std::string_view json) {
  std::vector<float> numbers;
  const char* at = json.data();
  const char* const end = at + json.size();
  while (at < end) {
    float number = 0;
    const auto read = std::from_chars(at, end, number);
    if (read.ec == std::errc::invalid_argument) {
      ++at;  // a bracket, a comma, a space
    } else {
      numbers.push_back(number);
      at = read.ptr;
    }
  }
  return numbers;
}

}  // namespace detail

// The body of POST /v1/chat/completions.
inline std::string ToJson(const ChatRequest& request) {
  // Further fields come first: of names that stand twice, the last one counts.
  std::string json = "{";
  const std::string& more = request.more_json;
  const size_t begin = more.find('{');
  const size_t end = more.rfind('}');
  if (begin != std::string::npos && end != std::string::npos && begin < end) {
    json += more.substr(begin + 1, end - begin - 1);
  }
  using detail::AppendField;
  AppendField(json, "model", Quote(request.model));
  AppendField(json, "messages", detail::ToJsonList(request.messages));
  if (!request.tools.empty()) AppendField(json, "tools", detail::ToJsonList(request.tools));
  if (!request.tool_choice.empty()) {
    AppendField(json, "tool_choice", detail::ToolChoiceJson(request.tool_choice));
  }
  if (request.max_tokens) AppendField(json, "max_tokens", std::to_string(*request.max_tokens));
  if (request.temperature) {
    AppendField(json, "temperature", detail::NumberText(*request.temperature));
  }
  if (request.top_p) AppendField(json, "top_p", detail::NumberText(*request.top_p));
  if (request.seed) AppendField(json, "seed", std::to_string(*request.seed));
  if (!request.stop.empty()) AppendField(json, "stop", detail::ToJsonList(request.stop));
  if (!request.reasoning_effort.empty()) {
    AppendField(json, "reasoning_effort", Quote(request.reasoning_effort));
  }
  if (!request.json_schema.empty()) {
    AppendField(json, "response_format",
                R"({"type":"json_schema","json_schema":{"name":"answer","strict":true,"schema":)" +
                    request.json_schema + "}}");
  }
  return json += '}';
}

}  // namespace v1
}  // namespace kvgate
