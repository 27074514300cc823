#include "engine/text/tokenizer/unicode/charsmap.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <cstring>

#include "base/utf8.h"

namespace kvgate::tokenizer::unicode {
namespace {

// No real rule is longer. The bound keeps matching linear if a hostile table contains cycles.
constexpr size_t kRuleBytesMax = 256;

// The fields of a unit of the double array.
uint32_t BaseOf(uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); }
uint32_t LabelOf(uint32_t unit) { return unit & ((1u << 31) | 0xFF); }
bool HasLeaf(uint32_t unit) { return ((unit >> 8) & 1) != 0; }
uint32_t ValueOf(uint32_t unit) { return unit & ((1u << 31) - 1); }

// Returns the length of the grapheme at the start of `text`, which may contain invalid UTF-8.
size_t GraphemeBytes(std::string_view text) {
  utf8proc_int32_t state = 0;
  char32_t previous = 0;
  for (size_t position = 0; position < text.size();) {
    const Utf8Step step = NextUtf8(text.substr(position));
    if (step.status != Utf8Status::kValid) return std::max<size_t>(position, step.length);
    if (position > 0 &&
        utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(previous),
                                         static_cast<utf8proc_int32_t>(step.code_point), &state)) {
      return position;
    }
    previous = step.code_point;
    position += step.length;
  }
  return text.size();
}

}  // namespace

Result<Charsmap> Charsmap::Parse(std::string_view bytes, std::string_view source) {
  Charsmap map;
  if (bytes.empty()) return map;
  uint32_t units_bytes = 0;
  const auto bad = [&](std::string_view why) {
    return MakeError(ErrorCode::kDataLoss, "tokenizer", fmt::format("{}: {}", source, why));
  };
  if (bytes.size() < sizeof(units_bytes)) return bad("too short for its size field");
  std::memcpy(&units_bytes, bytes.data(), sizeof(units_bytes));
  bytes.remove_prefix(sizeof(units_bytes));
  if (units_bytes >= bytes.size() || units_bytes % sizeof(uint32_t) != 0) {
    return bad(fmt::format("a table of {} bytes does not fit into {}", units_bytes, bytes.size()));
  }
  map.units_.resize(units_bytes / sizeof(uint32_t));
  if (!map.units_.empty()) std::memcpy(map.units_.data(), bytes.data(), units_bytes);
  map.replacements_ = bytes.substr(units_bytes);
  if (map.replacements_.back() != '\0') return bad("the last replacement has no end");
  return map;
}

std::optional<Charsmap::Match> Charsmap::Find(std::string_view text, bool shortest) const {
  std::optional<Match> best;
  size_t node = BaseOf(unit(0));
  const size_t length_max = units_.empty() ? 0 : std::min(text.size(), kRuleBytesMax);
  for (size_t i = 0; i < length_max; ++i) {
    const uint8_t byte = static_cast<uint8_t>(text[i]);
    if (byte == 0) break;
    node ^= byte;
    const uint32_t found = unit(node);
    if (LabelOf(found) != byte) break;
    node ^= BaseOf(found);
    if (!HasLeaf(found)) continue;
    const uint32_t at = ValueOf(unit(node));
    if (at >= replacements_.size()) break;
    best = Match{.length = i + 1, .replacement = std::string_view(&replacements_[at])};
    if (shortest) break;
  }
  return best;
}

std::string Charsmap::Normalize(std::string_view text) const {
  std::string out;
  out.reserve(text.size() + text.size() / 4);
  for (size_t position = 0; position < text.size();) {
    const std::string_view rest = text.substr(position);
    if (const auto match = Longest(rest)) {
      out.append(match->replacement);
      position += match->length;
      continue;
    }
    const Utf8Step step = NextUtf8(rest);
    if (step.status == Utf8Status::kValid) {
      out.append(rest.substr(0, step.length));
      position += step.length;
    } else {
      out.append(kReplacementCharacter);
      ++position;
    }
  }
  return out;
}

std::string Charsmap::NormalizeGraphemes(std::string_view text) const {
  constexpr size_t kShortBytes = 6;
  std::string out;
  out.reserve(text.size() + text.size() / 4);
  while (!text.empty()) {
    std::string_view grapheme = text.substr(0, GraphemeBytes(text));
    text.remove_prefix(grapheme.size());
    if (grapheme.size() < kShortBytes) {
      if (const auto match = Shortest(grapheme)) {
        out.append(match->replacement);
        continue;
      }
    }
    while (!grapheme.empty()) {
      const std::string_view character = grapheme.substr(0, NextUtf8(grapheme).length);
      const auto match = Shortest(character);
      out.append(match ? match->replacement : character);
      grapheme.remove_prefix(character.size());
    }
  }
  return out;
}

}  // namespace kvgate::tokenizer::unicode
