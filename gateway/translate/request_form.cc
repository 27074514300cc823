#include "gateway/translate/request_form.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvgate::translate {

Error CannotSay(const std::string& path, std::string_view what, std::string_view dialect) {
  return MakeError(
      ErrorCode::kUnsupported, "translate",
      fmt::format("{}: {} cannot be said in the {} dialect, which the model's upstream speaks.",
                  path, what, dialect),
      path);
}

Error WrongShape(const std::string& path, std::string_view rule) {
  return MakeError(ErrorCode::kInvalidArgument, "translate", fmt::format("{} {}.", path, rule),
                   path);
}

Literal JoinTexts(const std::vector<Block>& blocks, RequestForm& form) {
  const auto num_texts = std::count_if(blocks.begin(), blocks.end(), [](const Block& block) {
    return block.kind == BlockKind::kText;
  });
  std::string joined = "\"";
  for (const Block& block : blocks) {
    if (block.kind != BlockKind::kText) continue;
    if (num_texts == 1) return block.text;
    const std::string_view inside = block.text.substr(1, block.text.size() - 2);
    if (joined.size() > 1 && !inside.empty()) joined += "\\n";
    joined += inside;
  }
  return form.Keep(joined + "\"");
}

bool IsTextOnly(const std::vector<Block>& blocks) {
  return std::all_of(blocks.begin(), blocks.end(),
                     [](const Block& block) { return block.kind == BlockKind::kText; });
}

bool HasMark(const std::vector<Block>& blocks) {
  return std::any_of(blocks.begin(), blocks.end(), [](const Block& block) {
    return block.ttl_seconds > 0 || HasMark(block.content);
  });
}

std::vector<Turn> ResultsFirst(const std::vector<Turn>& turns) {
  std::vector<Turn> ordered;
  auto begin = turns.begin();
  while (begin != turns.end()) {
    const auto is_answer = [](const Turn& turn) { return turn.role == Role::kAssistant; };
    const auto end = std::find_if(begin, turns.end(), is_answer);
    for (auto turn = begin; turn != end; ++turn) {
      for (const Block& block : turn->blocks) {
        if (block.kind != BlockKind::kResult) continue;
        ordered.push_back({.role = Role::kUser, .path = turn->path, .blocks = {block}});
      }
    }
    for (auto turn = begin; turn != end; ++turn) {
      Turn rest{.role = turn->role, .path = turn->path};
      for (const Block& block : turn->blocks) {
        if (block.kind != BlockKind::kResult) rest.blocks.push_back(block);
      }
      if (!rest.blocks.empty()) ordered.push_back(std::move(rest));
    }
    if (end != turns.end()) ordered.push_back(*end);
    begin = end == turns.end() ? end : end + 1;
  }
  return ordered;
}

}  // namespace kvgate::translate
