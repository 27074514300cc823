#include "gateway/prompt/history/held_text.h"

#include <cstddef>
#include <iterator>
#include <utility>

#include "gateway/prompt/parse/canonical.h"
#include "gateway/prompt/parse/volatile_line.h"
#include "gateway/prompt/parse/volatile_text.h"
#include "gateway/prompt/templates/text_lines.h"

namespace kvgate::prompt::history {

using parse::VolatileSpan;

namespace {

std::vector<VolatileSpan> HeldSpans(std::string_view text) {
  std::vector<VolatileSpan> spans = parse::FindVolatile(text);
  std::erase_if(spans, [](const VolatileSpan& span) { return !parse::MayBeHeld(span); });
  return spans;
}

std::string_view In(std::string_view text, const VolatileSpan& span) {
  return text.substr(span.begin, span.end - span.begin);
}

// Returns true if both texts have equally many spans and the same bytes around them.
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

// Adds the differences to `held`; false if `now` has text that `before` lacks. REQUIRES: without
// their spans the texts are equal up to white space.
bool Compare(std::string_view before, std::string_view now, bool is_text, HeldText& held) {
  if (before == now) return true;
  const std::vector<VolatileSpan> old = HeldSpans(before);
  const std::vector<VolatileSpan> own = HeldSpans(now);
  if (own.size() > old.size()) return false;
  if (own.size() == old.size() && !StandAlike(before, old, now, own)) return false;
  const auto leave = [&](const VolatileSpan& span) {
    held.left.push_back({.text = std::string(In(before, span)), .kind = span.kind});
  };
  // Spans of `before` may be missing from `now`, but each of `now` must match one, perhaps with
  // other values.
  size_t at = 0;
  for (size_t i = 0; i < own.size(); ++i) {
    std::optional<std::vector<std::string>> changed;
    while (!changed && old.size() - at >= own.size() - i) {
      if (old[at].kind == own[i].kind) {
        changed = parse::ChangedLines(In(before, old[at]), In(now, own[i]), true);
        // An agent's sentences change too. A tool's output may only look like a reminder.
        if (!changed && is_text && own[i].kind == parse::VolatileKind::kReminder) {
          changed = templates::ChangedValues(In(before, old[at]), In(now, own[i]));
        }
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
                                    parse::Content content) {
  const parse::CanonicalForm form = {.newlines_folded = true, .cut = parse::Cut::kHeld};
  std::vector<std::string> old;
  std::vector<std::string> own;
  const std::optional<std::string> left = parse::CanonicalText(before, content, form, &old);
  if (!left || left != parse::CanonicalText(now, content, form, &own)) return std::nullopt;
  if (old.size() != own.size()) return std::nullopt;
  HeldText held;
  for (size_t i = 0; i < own.size(); ++i) {
    if (!Compare(old[i], own[i], content == parse::Content::kText, held)) return std::nullopt;
  }
  return held;
}

}  // namespace kvgate::prompt::history
