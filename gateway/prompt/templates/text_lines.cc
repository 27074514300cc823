#include "gateway/prompt/templates/text_lines.h"

#include <algorithm>
#include <array>
#include <unordered_map>
#include <utility>

#include "gateway/prompt/parse/volatile_text.h"
#include "gateway/prompt/templates/masked_line.h"

namespace kvgate::prompt::templates {
namespace {

constexpr uint32_t kNone = UINT32_MAX;
// How far the lines of an earlier version are looked for; beyond, a line is masked again.
constexpr size_t kLookAhead = 16;
// A value of this length is an id or a time.
constexpr size_t kTellingValueBytes = 8;
// A line with words stands so near in front of a value that it says what the value is of.
constexpr size_t kContextLines = 4;

bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

// Returns true if the line opens or closes a code fence.
bool IsFence(std::string_view line) { return line.starts_with("```") || line.starts_with("~~~"); }

// Pairs lines step by step, the surest first.
class Aligner {
 public:
  Aligner(const TextLines& before, const TextLines& now)
      : before_(before),
        now_(now),
        partner_(now.size(), kNone),
        taken_(before.size(), kNone),
        change_(now.size(), LineChange::kNone) {}

  std::vector<LinePair> Run() {
    PairEqual();
    PairByKey();
    PairBetween();
    std::vector<LinePair> pairs;
    pairs.reserve(now_.size());
    for (uint32_t n = 0; n < now_.size(); ++n) {
      if (partner_[n] != kNone) pairs.push_back({partner_[n], n, change_[n]});
    }
    return pairs;
  }

 private:
  void Pair(uint32_t b, uint32_t n, LineChange change) {
    partner_[n] = b;
    taken_[b] = n;
    change_[n] = change;
  }

  void PairEqual() {
    const auto num_before = static_cast<uint32_t>(before_.size());
    const auto num_now = static_cast<uint32_t>(now_.size());
    const uint32_t most = std::min(num_before, num_now);
    uint32_t front = 0;
    while (front < most && before_[front].hash == now_[front].hash) {
      Pair(front, front, LineChange::kNone);
      ++front;
    }
    uint32_t back = 0;
    while (back < most - front &&
           before_[num_before - 1 - back].hash == now_[num_now - 1 - back].hash) {
      ++back;
      Pair(num_before - back, num_now - back, LineChange::kNone);
    }
    if (front + back == most && num_before == num_now) return;
    // Equal lines are taken in their order.
    std::unordered_map<uint64_t, std::pair<uint32_t, uint32_t>> first;  // hash -> first, last
    std::vector<uint32_t> next(num_before, kNone);
    for (uint32_t b = front; b < num_before - back; ++b) {
      const auto [place, is_new] = first.try_emplace(before_[b].hash, b, b);
      if (is_new) continue;
      next[place->second.second] = b;
      place->second.second = b;
    }
    for (uint32_t n = front; n < num_now - back; ++n) {
      const auto place = first.find(now_[n].hash);
      if (place == first.end() || place->second.first == kNone) continue;
      Pair(place->second.first, n, LineChange::kNone);
      place->second.first = next[place->second.first];
    }
  }

  bool HasEqualNeighbour(uint32_t b, uint32_t n) const {
    return before_.MaskBefore(b) == now_.MaskBefore(n) || before_.MaskAfter(b) == now_.MaskAfter(n);
  }
  void PairByKey() {
    std::unordered_map<uint64_t, uint32_t> by_key;
    for (uint32_t b = 0; b < before_.size(); ++b) {
      if (taken_[b] == kNone && before_[b].may_change) by_key.emplace(before_.KeyOf(b), b);
    }
    if (by_key.empty()) return;
    for (uint32_t n = 0; n < now_.size(); ++n) {
      if (partner_[n] != kNone || !now_[n].may_change) continue;
      const auto found = by_key.find(now_.KeyOf(n));
      if (found == by_key.end()) continue;
      const uint32_t b = found->second;
      if (now_[n].num_words < kTellingWords && !HasEqualNeighbour(b, n)) continue;
      Pair(b, n, LineChange::kValues);
    }
  }

  static bool MayHaveOtherWords(const TextLine& line) {
    return line.may_change && !line.is_repeated;
  }
  // As many lines as stood between two paired lines stand there again: they are the same lines.
  void PairBetween() {
    const auto num_now = static_cast<uint32_t>(now_.size());
    const auto num_before = static_cast<uint32_t>(before_.size());
    for (uint32_t n = 0; n < num_now;) {
      if (partner_[n] != kNone) {
        ++n;
        continue;
      }
      uint32_t end = n;
      while (end < num_now && partner_[end] == kNone) ++end;
      const uint32_t b = n == 0 ? 0 : partner_[n - 1] + 1;
      const uint32_t b_end = end == num_now ? num_before : partner_[end];
      const bool is_anchored = n > 0 || end < num_now;
      bool fits = is_anchored && b_end >= b && b_end - b == end - n && end - n < now_.size();
      for (uint32_t i = b; fits && i < b_end; ++i) {
        fits = taken_[i] == kNone && MayHaveOtherWords(before_[i]) &&
               MayHaveOtherWords(now_[n + i - b]);
      }
      for (uint32_t i = b; fits && i < b_end; ++i) Pair(i, n + i - b, LineChange::kWords);
      n = end;
    }
  }

  const TextLines& before_;
  const TextLines& now_;
  std::vector<uint32_t> partner_;  // by line of `now`
  std::vector<uint32_t> taken_;    // by line of `before`
  std::vector<LineChange> change_;
};

}  // namespace

TextLines::TextLines(std::string_view text, const TextLines* before) {
  size_t cursor = 0;
  bool in_fence = false;
  for (size_t at = 0; at < text.size();) {
    const size_t line_end = std::min(text.find('\n', at), text.size());
    size_t begin = at;
    size_t end = line_end;
    at = line_end + 1;
    while (begin < end && IsBlank(text[begin])) ++begin;
    while (end > begin && IsBlank(text[end - 1])) --end;
    if (begin == end) continue;
    TextLine& line = lines_.emplace_back();
    line.begin = static_cast<uint32_t>(begin);
    line.end = static_cast<uint32_t>(end);
    const std::string_view own = line.In(text);
    line.hash = HashOf(own);
    const size_t last = before == nullptr ? 0 : std::min(before->size(), cursor + kLookAhead);
    size_t known = cursor;
    while (known < last && (*before)[known].hash != line.hash) ++known;
    if (known < last) {
      line.mask = (*before)[known].mask;
      line.head = (*before)[known].head;
      line.num_words = (*before)[known].num_words;
      cursor = known + 1;
    } else {
      const MaskedLine masked = MaskLine(own);
      line.mask = HashOf(masked.text);
      line.head = HeadOf(TokensOf(masked.text, 2));
      line.num_words = masked.num_words;
    }
    const bool is_fence = IsFence(own);
    line.stands_alone = line.num_words > 0 || own.size() >= kTellingValueBytes;
    line.may_change = (line.stands_alone || ContextOf(lines_.size() - 1)) && !in_fence &&
                      !is_fence && !own.starts_with(parse::kBillingHeaderName);
    if (is_fence) in_fence = !in_fence;
  }
  MarkRepeated();
}

std::optional<size_t> TextLines::ContextOf(size_t i) const {
  for (size_t at = i; at > 0 && i - at < kContextLines; --at) {
    if (lines_[at - 1].num_words > 0) return at - 1;
  }
  return std::nullopt;
}

uint64_t TextLines::KeyOf(size_t i) const {
  const TextLine& line = lines_[i];
  if (!line.is_repeated) return line.mask;
  const std::array<uint64_t, 3> masks = {MaskBefore(i), line.mask, MaskAfter(i)};
  return HashOf({reinterpret_cast<const char*>(masks.data()), sizeof masks});
}

// One of several lines beside each other is an item of a list, and may be any of them.
void TextLines::MarkRepeated() {
  std::vector<std::pair<uint64_t, uint32_t>> masks;
  masks.reserve(lines_.size());
  for (uint32_t i = 0; i < lines_.size(); ++i) masks.emplace_back(lines_[i].mask, i);
  std::sort(masks.begin(), masks.end());
  std::unordered_map<uint64_t, uint32_t> by_key;
  for (size_t i = 0; i < masks.size(); ++i) {
    const bool is_repeated = (i > 0 && masks[i - 1].first == masks[i].first) ||
                             (i + 1 < masks.size() && masks[i + 1].first == masks[i].first);
    const uint32_t at = masks[i].second;
    TextLine& line = lines_[at];
    if (!is_repeated || !line.may_change) continue;
    line.is_repeated = true;
    const auto [other, is_new] = by_key.try_emplace(KeyOf(at), at);
    if (is_new && MaskBefore(at) != line.mask && MaskAfter(at) != line.mask) continue;
    line.may_change = false;
    lines_[other->second].may_change = false;
  }
}

std::optional<std::vector<std::string>> ChangedValues(std::string_view before,
                                                      std::string_view now) {
  const TextLines old(before, nullptr);
  const TextLines own(now, &old);
  if (old.size() != own.size()) return std::nullopt;
  std::vector<std::string> changed;
  for (size_t i = 0; i < own.size(); ++i) {
    if (old[i].hash == own[i].hash) continue;
    const bool is_value = old.KeyOf(i) == own.KeyOf(i) && own[i].num_words >= kTellingWords &&
                          old[i].may_change && own[i].may_change;
    if (!is_value) return std::nullopt;
    changed.emplace_back(own[i].In(now));
  }
  return changed;
}

std::vector<LinePair> AlignLines(const TextLines& before, const TextLines& now) {
  return Aligner(before, now).Run();
}

}  // namespace kvgate::prompt::templates
