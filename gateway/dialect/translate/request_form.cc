#include "gateway/dialect/translate/request_form.h"

#include <fmt/format.h>

#include <algorithm>

#include "gateway/dialect/form/json_writer.h"
#include "gateway/dialect/form/left_out.h"
#include "gateway/dialect/translate/raw_json.h"

namespace kvgate::dialect::translate {

Literal RequestForm::Quote(std::string_view text) {
  std::string quoted;
  form::AppendJsonString(text, quoted);
  return Keep(std::move(quoted));
}

std::string Meant(Literal literal) {
  const Result<RawJson> value = RawJson::Parse(literal);
  return value ? value->String() : std::string();
}

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

namespace {

// Names are compared decoded, because they may be spelled with escapes.
bool MeanTheSame(Literal a, Literal b) { return a == b || Meant(a) == Meant(b); }

}  // namespace

void LeaveOutTool(std::string_view type, RequestForm& form) {
  form::AddLeftOut(type, form.left_out);
  form.lost_tools = true;
}

Result<void> CheckChoice(const RequestForm& form, std::string_view dialect) {
  const ChoiceForm& choice = form.choice;
  if (!form.lost_tools || choice.mode != ChoiceMode::kRequired) return {};
  const auto is_asked_for = [&](const ToolForm& tool) {
    return choice.allowed.empty() ||
           std::any_of(choice.allowed.begin(), choice.allowed.end(),
                       [&](Literal name) { return MeanTheSame(name, tool.name); });
  };
  if (std::any_of(form.tools.begin(), form.tools.end(), is_asked_for)) return {};
  return CannotSay("tool_choice", "a choice that only a tool of a provider's own could meet",
                   dialect);
}

std::string OpeningOf(const RequestForm& form) {
  const auto turn = std::find_if(form.turns.begin(), form.turns.end(),
                                 [](const Turn& any) { return any.role == Role::kUser; });
  std::string opening;
  if (turn == form.turns.end()) return opening;
  for (const Block& block : turn->blocks) opening += block.text;
  return opening;
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

}  // namespace kvgate::dialect::translate
