#include "engine/text/tokenizer/split/normalizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "base/base64.h"
#include "engine/text/tokenizer/split/text_pattern.h"
#include "engine/text/tokenizer/unicode/char_class.h"
#include "engine/text/tokenizer/unicode/charsmap.h"
#include "engine/text/tokenizer/unicode/unicode_text.h"

namespace kvgate::tokenizer::split {

using unicode::NormalForm;

namespace {

// Limits nested sequences. Real files have at most one level.
constexpr int kDepthMax = 16;

Result<std::string> BytesOf(const JsonNode& node) {
  KVGATE_TRY(const std::string text, node.String());
  std::string out;
  const size_t num_digits = DecodeBase64(text, out);
  if (num_digits < text.size() && text[num_digits] != '=') return node.Bad("is no base64");
  return out;
}

std::string_view StripSpaces(std::string_view text, bool left, bool right) {
  if (left) text.remove_prefix(unicode::SkipSpaces(text, 0));
  if (right) text = text.substr(0, unicode::SkipSpacesBack(text, text.size()));
  return text;
}

}  // namespace

Result<void> Normalizer::Add(const JsonNode& node, int depth) {
  static constexpr std::array<std::pair<std::string_view, NormalForm>, 4> kForms = {
      {{"NFC", NormalForm::kNfc},
       {"NFD", NormalForm::kNfd},
       {"NFKC", NormalForm::kNfkc},
       {"NFKD", NormalForm::kNfkd}}};
  KVGATE_TRY(const std::string type, node.At("type").String());
  for (const auto& [name, form] : kForms) {
    if (type != name) continue;
    AddStep([form = form](std::string_view text) { return unicode::Normalize(text, form); });
    return {};
  }
  if (type == "Sequence") {
    if (depth == kDepthMax) return node.Bad("is nested too deeply");
    KVGATE_TRY(const std::vector<JsonNode> steps, node.At("normalizers").Elements());
    for (const JsonNode& step : steps) KVGATE_TRY_VOID(Add(step, depth + 1));
  } else if (type == "Lowercase") {
    AddStep(unicode::LowerCase);
  } else if (type == "StripAccents") {
    AddStep(unicode::StripMarks);
  } else if (type == "Strip") {
    KVGATE_TRY(const bool left, node.Bool("strip_left", true));
    KVGATE_TRY(const bool right, node.Bool("strip_right", true));
    AddStep([=](std::string_view text) { return std::string(StripSpaces(text, left, right)); });
  } else if (type == "Prepend") {
    KVGATE_TRY(const std::string prefix, node.At("prepend").String());
    AddStep([=](std::string_view text) {
      return text.empty() ? std::string() : prefix + std::string(text);
    });
    steps_.back().at_start_only = true;
  } else if (type == "Replace") {
    KVGATE_TRY(const TextPattern pattern, TextPattern::FromJson(node.At("pattern")));
    KVGATE_TRY(const std::string content, node.At("content").String());
    AddStep([=](std::string_view text) { return pattern.Replace(text, content); });
  } else if (type == "Precompiled") {
    const JsonNode field = node.At("precompiled_charsmap");
    if (field.is_null()) return {};
    KVGATE_TRY(const std::string bytes, BytesOf(field));
    KVGATE_TRY(unicode::Charsmap parsed,
               unicode::Charsmap::Parse(bytes, "tokenizer.json: " + field.path()));
    const auto map = std::make_shared<const unicode::Charsmap>(std::move(parsed));
    AddStep([map](std::string_view text) { return map->NormalizeGraphemes(text); });
  } else {
    return node.At("type").Unsupported(
        fmt::format("'{}' is not supported; supported are Sequence, NFC, NFD, NFKC, NFKD, "
                    "Lowercase, StripAccents, Strip, Prepend, Replace and Precompiled",
                    type));
  }
  return {};
}

Result<Normalizer> Normalizer::FromJson(const JsonNode& node) {
  Normalizer normalizer;
  if (!node.is_null()) KVGATE_TRY_VOID(normalizer.Add(node, 0));
  return normalizer;
}

std::string Normalizer::Apply(std::string_view text, bool continues) const {
  // Real steps grow the text by a small factor; those of a hostile file could double it repeatedly.
  const size_t bytes_max = 32 * text.size() + 4096;
  std::string out(text);
  for (const Step& step : steps_) {
    if (step.at_start_only && continues) continue;
    if (out.size() > bytes_max) break;
    out = step.apply(out);
  }
  return out;
}

}  // namespace kvgate::tokenizer::split
