#include "gateway/prompt/history/held_text.h"

#include <cstddef>
#include <iterator>
#include <utility>

#include "gateway/prompt/parse/canonical.h"
#include "gateway/prompt/parse/volatile_line.h"
#include "gateway/prompt/parse/volatile_text.h"

namespace kvgate::prompt {
namespace {

std::vector<VolatileSpan> HeldSpans(std::string_view text) {
  std::vector<VolatileSpan> spans = FindVolatile(text);
  std::erase_if(spans, [](const VolatileSpan& span) { return !MayBeHeld(span); });
  return spans;
}

std::string_view In(std::string_view text, const VolatileSpan& span) {
  return text.substr(span.begin, span.end - span.begin);
}

// Whether both have the same bytes around as many spans.
bool StandAlike(std::string_view a, const std::vector<VolatileSpan>& in_a, std::string_view b,
                const std::vector<VolatileSpan>& in_b) {
  size_t at_a = 0;
  size_t at_b = 0;
  for (size_t i = 0; i <= in_a.size(); ++i) {
    const size_t end_a = i < in_a.size() ? in_a[i].begin : a.size();
    const size_t end_b = i < in_b.size() ? in_b[i].begin : b.size();
    if (a.substr(at_a, end_a - at_a) != b.substr(at_b, end_b - at_b)) return false;
    if (i < in_a.size()) at_a = in_a[i].end;
    if (i < in_b.size()) at_b = in_b[i].end;
  }
  return true;
}

// Adds to `held`; false: `now` has text that is not in `before`. Texts without their spans are
// known to be equal but for white space.
bool Compare(std::string_view before, std::string_view now, HeldText& held) {
  if (before == now) return true;
  const std::vector<VolatileSpan> old = HeldSpans(before);
  const std::vector<VolatileSpan> own = HeldSpans(now);
  if (own.size() > old.size()) return false;
  if (own.size() == old.size() && !StandAlike(before, old, now, own)) return false;
  const auto leave = [&](const VolatileSpan& span) {
    held.left.push_back({.text = std::string(In(before, span)), .kind = span.kind});
  };
  // What has left may be anywhere; what is there has to be one that was, with other values perhaps.
  size_t at = 0;
  for (size_t i = 0; i < own.size(); ++i) {
    std::optional<std::vector<std::string>> changed;
    while (!changed && old.size() - at >= own.size() - i) {
      if (old[at].kind == own[i].kind) {
        changed = ChangedLines(In(before, old[at]), In(now, own[i]), true);
      }
      if (!changed) leave(old[at]);
      ++at;
    }
    if (!changed) return false;
    held.changed.insert(held.changed.end(), std::make_move_iterator(changed->begin()),
                        std::make_move_iterator(changed->end()));
  }
  for (; at < old.size(); ++at) leave(old[at]);
  return true;
}

}  // namespace

std::optional<HeldText> CompareHeld(std::string_view before, std::string_view now,
                                    Content content) {
  const CanonicalForm form = {.newlines_folded = true, .cut = Cut::kHeld};
  std::vector<std::string> old;
  std::vector<std::string> own;
  const std::optional<std::string> left = CanonicalText(before, content, form, &old);
  if (!left || left != CanonicalText(now, content, form, &own)) return std::nullopt;
  if (old.size() != own.size()) return std::nullopt;
  HeldText held;
  for (size_t i = 0; i < own.size(); ++i) {
    if (!Compare(old[i], own[i], held)) return std::nullopt;
  }
  return held;
}

}  // namespace kvgate::prompt
