// Turns of a session for tests: what is said is a word, and answers are "A1", "A2", …
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/session/log/logged_turn.h"

namespace kvgate::test {

inline session::transcript::Message Said(std::string_view role, std::string_view text) {
  using session::transcript::Kind;
  return {.kind = role == "user"        ? Kind::kUser
                  : role == "assistant" ? Kind::kAssistant
                  : role == "tool"      ? Kind::kTool
                                        : Kind::kSystem,
          .json = fmt::format(R"({{"role":"{}","content":"{}"}})", role, text)};
}

inline session::log::LoggedTurn TurnOf(int number, const std::vector<std::string>& said) {
  session::log::LoggedTurn turn;
  turn.id = fmt::format("turn_{}", number);
  if (number > 1) turn.parent = fmt::format("turn_{}", number - 1);
  turn.depth = static_cast<uint64_t>(number);
  for (const std::string& text : said) turn.input.push_back(Said("user", text));
  turn.answer = {Said("assistant", fmt::format("A{}", number))};
  return turn;
}

// The texts of messages whose content is a string.
inline std::vector<std::string> SaidOf(std::span<const session::transcript::Message> messages) {
  std::vector<std::string> texts;
  for (const auto& message : messages) {
    const auto json = nlohmann::json::parse(message.json);
    const auto& content = json["content"];
    texts.push_back(content.is_string() ? content.get<std::string>() : content.dump());
  }
  return texts;
}

}  // namespace kvgate::test
