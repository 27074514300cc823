#include "gateway/prompt/history/ephemeral.h"

#include <algorithm>

#include "gateway/prompt/parse/canonical.h"
#include "gateway/prompt/parse/segment_text.h"
#include "gateway/prompt/parse/volatile_line.h"

namespace kvgate::prompt::history {

using parse::Role;

namespace {

// Texts remembered per kind; at most a few of another form stand between two of the same form.
constexpr size_t kNewestMax = 32;

bool IsOfSystem(Role role) { return role == Role::kSystem || role == Role::kDeveloper; }

std::string_view Trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r\n") + 1 - begin);
}

}  // namespace

bool IsEphemeral(std::string_view text, parse::VolatileKind kind, Role role) {
  if (role == Role::kAssistant) return false;
  if (IsOfSystem(role)) {
    return parse::MayBeHeld({.begin = 0, .end = text.size(), .kind = kind, .machine = true});
  }
  return parse::BeginsWithAgentTag(Trimmed(text));
}

std::optional<std::vector<Ephemeral>> ReadEphemeral(std::string_view text, Role role) {
  std::vector<Ephemeral> found;
  const std::vector<parse::VolatileSpan> spans = parse::FindVolatile(text);
  if (!Trimmed(parse::CutVolatile(text, spans)).empty()) return std::nullopt;
  for (const parse::VolatileSpan& span : spans) {
    const std::string_view part = Trimmed(text.substr(span.begin, span.end - span.begin));
    if (!span.machine || !IsEphemeral(part, span.kind, role)) return std::nullopt;
    found.push_back({.text = std::string(part), .kind = span.kind});
  }
  return found;
}

SaidNow::SaidNow(std::string_view body, const std::vector<parse::Segment>& segments)
    : body_(body), segments_(segments) {}

void SaidNow::Read() {
  is_read_ = true;
  for (size_t i = segments_.size(); i-- > 0;) {
    const parse::Segment& segment = segments_[i];
    if (segment.place.section != parse::Section::kMessages) break;
    const bool is_text =
        segment.content == parse::Content::kText || segment.content == parse::Content::kToolResult;
    if (!segment.has_volatile || !is_text || segment.role == Role::kAssistant) continue;
    const std::string_view raw = segment.span.In(body_);
    const bool has_tag =
        raw.find("</") != std::string_view::npos || raw.find("<\\/") != std::string_view::npos;
    if (!has_tag && !IsOfSystem(segment.role)) continue;
    std::string assembled;
    std::vector<std::string> texts;
    const parse::CanonicalForm form = {.newlines_folded = true, .cut = parse::Cut::kAll};
    if (!parse::CanonicalText(parse::BytesOf(body_, segment, assembled), segment.content, form,
                              &texts))
      continue;
    for (const std::string& text : texts) {
      for (const parse::VolatileSpan& span : parse::FindVolatile(text)) {
        const std::string_view part =
            Trimmed(std::string_view(text).substr(span.begin, span.end - span.begin));
        if (!IsEphemeral(part, span.kind, segment.role)) continue;
        const std::string_view kept = texts_.emplace_back(part);
        known_.insert(kept);
        std::vector<Newest>& newest = newest_[static_cast<size_t>(span.kind)];
        if (newest.size() < kNewestMax) newest.push_back({i, kept});
      }
    }
  }
}

bool SaidNow::Covers(const Ephemeral& text, size_t from) {
  if (!is_read_) Read();
  const std::string_view asked = Trimmed(text.text);
  if (known_.contains(asked)) return true;
  const std::vector<Newest>& newest = newest_[static_cast<size_t>(text.kind)];
  return std::any_of(newest.begin(), newest.end(), [&](const Newest& now) {
    return now.segment >= from && parse::ChangedLines(asked, now.text, true).has_value();
  });
}

}  // namespace kvgate::prompt::history
