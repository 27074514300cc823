// A RenderedPrompt is what a provider makes of a request's body: blocks of bytes in render order,
// with the cache breakpoints beside them. Spelling that does not reach the model (escapes, a string
// for a list of one text) makes no difference; the order of tools and of their keys does.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "gateway/prompt/planner/plan.h"

namespace kvgate::prompt::traffic {

struct RenderedBlock {
  parse::Section section = parse::Section::kMessages;
  parse::Role role = parse::Role::kUser;
  parse::Content content = parse::Content::kText;
  std::string bytes = {};
  bool is_marked = false;
  int32_t ttl_seconds = 300;
  std::string signature = {};  // of thinking
  bool clears = false;         // it is shown until the next user message only
  bool is_cleared = false;     // and there is one
};

struct RenderedPrompt {
  std::vector<RenderedBlock> blocks;
  bool is_automatic = false;  // a breakpoint for the whole request
  std::string cache_key;
};

// The blocks that count as a prompt.
enum class Blocks : uint8_t {
  kAll,
  kShown,  // to the model
  kBound,  // to later thinking: neither thinking itself nor what is shown for a while only
};

// Returns, for each block, the identity of the prompt up to its end.
inline std::vector<parse::Identity> PrefixesOf(const RenderedPrompt& prompt,
                                               Blocks blocks = Blocks::kAll) {
  std::vector<parse::Identity> prefixes;
  parse::Identity chain;
  std::string joined;
  for (const RenderedBlock& block : prompt.blocks) {
    const bool is_left_out =
        (blocks == Blocks::kShown && block.is_cleared) ||
        (blocks == Blocks::kBound && (block.clears || block.content == parse::Content::kThinking));
    if (!is_left_out) {
      joined.assign(reinterpret_cast<const char*>(&chain), sizeof chain);
      joined += block.bytes;
      const auto [low, high] = Xxh3(std::as_bytes(std::span(joined)));
      chain = {low, high};
    }
    prefixes.push_back(chain);
  }
  return prefixes;
}

// Returns true if `now` begins with all of `before`.
inline bool Extends(const std::vector<parse::Identity>& before,
                    const std::vector<parse::Identity>& now) {
  return before.empty() || (now.size() >= before.size() && now[before.size() - 1] == before.back());
}

class BodyRenderer {
 public:
  using Json = nlohmann::ordered_json;

  static RenderedPrompt Render(const Json& body) {
    BodyRenderer renderer;
    RenderedPrompt& prompt = renderer.prompt_;
    if (body.contains("tools")) {
      for (const Json& tool : body["tools"]) {
        renderer.Add(parse::Section::kTools, parse::Role::kNone, parse::Content::kTool, tool,
                     Unmarked(tool).dump());
      }
    }
    for (const char* field : {"system", "instructions"}) {
      if (body.contains(field)) renderer.AddContent(parse::Role::kSystem, body[field]);
    }
    renderer.is_front_ = true;
    for (const char* field : {"messages", "input"}) {
      if (!body.contains(field)) continue;
      for (const Json& item : body[field]) renderer.AddItem(item);
    }
    renderer.Clear();
    prompt.is_automatic = body.contains("cache_control");
    prompt.cache_key = body.value("prompt_cache_key", "");
    return std::move(prompt);
  }

  static parse::Role RoleOf(std::string_view name) {
    if (name == "assistant") return parse::Role::kAssistant;
    if (name == "tool") return parse::Role::kTool;
    if (name == "system") return parse::Role::kSystem;
    return name == "developer" ? parse::Role::kDeveloper : parse::Role::kUser;
  }

 private:
  static Json Unmarked(Json value) {
    if (value.is_object()) {
      value.erase("cache_control");
      value.erase("prompt_cache_breakpoint");
    }
    return value;
  }
  // Returns a text for a string and for a list of texts alike.
  static std::string TextOf(const Json& content) {
    if (content.is_string()) return content.get<std::string>();
    if (!content.is_array()) return Unmarked(content).dump();
    std::string text;
    for (const Json& block : content) {
      text += (text.empty() ? "" : "\x1f") +
              (block.contains("text") ? block["text"].get<std::string>() : Unmarked(block).dump());
    }
    return text;
  }

  void Add(parse::Section section, parse::Role role, parse::Content content, const Json& holder,
           std::string bytes) {
    RenderedBlock block = {
        .section = section, .role = role, .content = content, .bytes = std::move(bytes)};
    if (holder.is_object()) {
      block.is_marked =
          holder.contains("cache_control") || holder.contains("prompt_cache_breakpoint");
      if (holder.contains("cache_control") && holder["cache_control"].value("ttl", "") == "1h") {
        block.ttl_seconds = 3600;
      }
      if (content == parse::Content::kThinking) block.signature = holder.value("signature", "");
    }
    prompt_.blocks.push_back(std::move(block));
  }
  // Adds the content of a system prompt or message. The first block also holds the role.
  void AddContent(parse::Role role, const Json& content) {
    const bool is_system =
        is_front_ && (role == parse::Role::kSystem || role == parse::Role::kDeveloper);
    const auto section = is_system ? parse::Section::kSystem : parse::Section::kMessages;
    const std::string head = "<" + std::to_string(static_cast<int>(role)) + ">";
    if (!content.is_array()) {
      return Add(section, role, parse::Content::kText, content, head + TextOf(content));
    }
    bool is_first = true;
    for (const Json& block : content) {
      AddBlock(section, role, block, std::exchange(is_first, false) ? head : "");
    }
  }
  void AddBlock(parse::Section section, parse::Role role, const Json& block,
                const std::string& head) {
    const std::string type = block.value("type", "");
    if (type == "tool_result") {
      return Add(section, parse::Role::kTool, parse::Content::kToolResult, block,
                 head + block.value("tool_use_id", "") + ":" + TextOf(block["content"]));
    }
    if (type == "thinking") {
      return Add(section, role, parse::Content::kThinking, block, head + block.dump());
    }
    if (type == "tool_use") {
      return Add(section, role, parse::Content::kToolCall, block, head + Unmarked(block).dump());
    }
    const bool is_text = block.contains("text");
    Add(section, role, is_text ? parse::Content::kText : parse::Content::kOther, block,
        head + (is_text ? block["text"].get<std::string>() : Unmarked(block).dump()));
  }
  // Adds a message, or an item of the dialect Responses.
  void AddItem(const Json& item) {
    const std::string type = item.value("type", "message");
    const parse::Role role = RoleOf(item.value("role", "user"));
    if (role != parse::Role::kSystem && role != parse::Role::kDeveloper) is_front_ = false;
    if (type == "function_call_output" || role == parse::Role::kTool) {
      const Json& output = type == "function_call_output" ? item["output"] : item["content"];
      const std::string id = item.value("call_id", item.value("tool_call_id", ""));
      return Add(parse::Section::kMessages, parse::Role::kTool, parse::Content::kToolResult,
                 output.is_array() && !output.empty() ? output.back() : output,
                 id + ":" + TextOf(output));
    }
    if (type != "message") {
      return Add(parse::Section::kMessages, parse::Role::kAssistant, parse::Content::kToolCall,
                 item, Unmarked(item).dump());
    }
    const size_t first = prompt_.blocks.size();
    AddContent(role, item["content"]);
    for (size_t i = first; i < prompt_.blocks.size(); ++i) {
      prompt_.blocks[i].clears = item.contains("clear_at");
    }
    if (!item.contains("tool_calls")) return;
    for (const Json& call : item["tool_calls"]) {
      Add(parse::Section::kMessages, role, parse::Content::kToolCall, call, call.dump());
    }
  }

  void Clear() {
    bool is_followed = false;
    for (size_t i = prompt_.blocks.size(); i-- > 0;) {
      RenderedBlock& block = prompt_.blocks[i];
      block.is_cleared = block.clears && is_followed;
      is_followed =
          is_followed || block.role == parse::Role::kUser || block.role == parse::Role::kTool;
    }
  }

  RenderedPrompt prompt_;
  bool is_front_ = true;  // only system messages stand in front of the present one
};

}  // namespace kvgate::prompt::traffic
