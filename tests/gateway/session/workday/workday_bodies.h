// The bodies of a team's agents in the Messages dialect, put together from texts: a working day has
// gigabytes of them. A client marks the end of its system prompt and asks for an automatic
// breakpoint, which is what the provider recommends for agents.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "tests/gateway/session/workday/workday_provider.h"
#include "tests/gateway/session/workday/workday_script.h"

namespace kvgate::session::workday {

// Everything in front of the list of messages; the same for all agents of a team.
inline std::string FrontOf(uint64_t team) {
  std::string front = fmt::format(
      R"({{"model":"{}","max_tokens":8192,"cache_control":{{"type":"ephemeral"}},"tools":[)",
      kModel);
  for (int i = 0; i < 16; ++i) {
    front += fmt::format(
        R"({}{{"name":"tool_{}","description":"{}","input_schema":{{"type":"object","properties":)"
        R"({{"path":{{"type":"string"}}}}}}}})",
        i == 0 ? "" : ",", i, TextOf(team * 100 + static_cast<uint64_t>(i), 450));
  }
  return front + fmt::format(R"(],"system":[{{"type":"text","text":"{}","cache_control":)"
                             R"({{"type":"ephemeral"}}}}],)",
                             TextOf(team * 100 + 99, 4'000));
}

// What asks the provider, or a gateway in front of one that has none, for compactions.
inline std::string Threshold() {
  return fmt::format(R"("context_management":{{"edits":[{{"type":"compact_20260112","trigger":)"
                     R"({{"type":"input_tokens","value":{}}}}}]}},)",
                     kThreshold);
}

inline std::string Joined(std::string_view front, std::string_view messages) {
  return fmt::format(R"({}"messages":[{}]}})", front, messages);
}
// Appends a message to a list.
inline void Append(std::string& messages, std::string_view message) {
  if (!messages.empty()) messages += ',';
  messages += message;
}

inline std::string TextBlock(std::string_view text) {
  return fmt::format(R"({{"type":"text","text":"{}"}})", text);
}
inline std::string UserMessage(std::string_view blocks) {
  return fmt::format(R"({{"role":"user","content":[{}]}})", blocks);
}
inline std::string Said(const Turn& turn) {
  const std::string text = TextOf(turn.seed, turn.said_tokens);
  if (turn.is_user) return UserMessage(TextBlock(text));
  return UserMessage(fmt::format(
      R"({{"type":"tool_result","tool_use_id":"toolu_{}","content":"{}"}})", turn.seed - 1, text));
}
// The blocks of the answer to a turn.
inline std::string AnswerOf(const Turn& turn) {
  const std::string text = TextOf(turn.seed + 7, turn.answer_tokens);
  if (!turn.calls) return TextBlock(text);
  const size_t spoken = text.size() / 3;
  return fmt::format(
      R"({},{{"type":"tool_use","id":"toolu_{}","name":"tool_{}","input":{{"path":"{}"}}}})",
      TextBlock(std::string_view(text).substr(0, spoken)), turn.seed, turn.seed % 16,
      std::string_view(text).substr(spoken));
}
inline std::string AssistantMessage(std::string_view blocks) {
  return fmt::format(R"({{"role":"assistant","content":[{}]}})", blocks);
}
// A whole answer of the provider's.
inline std::string WholeAnswer(std::string_view blocks, bool calls,
                               const ledger::reply::TokenUsage& usage) {
  return fmt::format(
      R"({{"id":"msg_1","type":"message","role":"assistant","model":"{}","content":[{}],)"
      R"("stop_reason":"{}","stop_sequence":null,"usage":{{"input_tokens":{},)"
      R"("cache_read_input_tokens":{},"cache_creation_input_tokens":{},"output_tokens":{}}}}})",
      kModel, blocks, calls ? "tool_use" : "end_turn", usage.uncached_tokens,
      usage.cache_read_tokens, usage.cache_write_tokens + usage.cache_write_1h_tokens,
      usage.output_tokens);
}
// A model's summary of what came before a turn.
inline std::string SummaryText(const Turn& turn) {
  return "Goals: " + TextOf(turn.seed + 11, kSummaryTokens - 2);
}

}  // namespace kvgate::session::workday
