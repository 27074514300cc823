#include "gateway/prompt/history/restored_branch.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "gateway/prompt/parse/json_scanner.h"
#include "gateway/prompt/parse/segment_text.h"
#include "gateway/prompt/templates/text_state.h"

namespace kvgate::prompt::history {

using parse::Identity;
using parse::Role;
using parse::Section;
using parse::Segment;

namespace {

// Returns the number of an assistant's answers among the turns; one may consist of several blocks
// or items.
template <typename Segments>
size_t CountIn(const Segments& segments) {
  size_t count = 0;
  Role last = Role::kNone;
  for (const auto& segment : segments) {
    if (segment.place.section != Section::kMessages) continue;
    const bool is_empty = segment.content == parse::Content::kThinking ||
                          segment.content == parse::Content::kMessageHead;
    if (is_empty) continue;
    if (segment.role == Role::kAssistant && last != Role::kAssistant) ++count;
    last = segment.role;
  }
  return count;
}

class BytesOfBody {
 public:
  BytesOfBody(std::string_view body, const parse::RequestLayout& layout) : body_(body) {
    for (const Segment& segment : layout.segments) segments_.emplace(segment.raw, &segment);
  }
  // Returns null if the body does not have them.
  std::shared_ptr<const std::string> Find(const Identity& raw) const {
    const auto found = segments_.find(raw);
    if (found == segments_.end()) return nullptr;
    std::string assembled;
    return std::make_shared<const std::string>(parse::BytesOf(body_, *found->second, assembled));
  }

 private:
  const std::string_view body_;
  std::unordered_map<Identity, const Segment*> segments_;
};

// Returns the lines of a text, which are not kept, with the slots that are; null if the bytes hold
// no text any more.
std::shared_ptr<const templates::TextState> WithLines(const templates::TextState& kept,
                                                      const std::string& bytes,
                                                      parse::Content content) {
  std::string text;
  const parse::Span span = parse::TextIn(bytes, content);
  if (span.empty() || !parse::DecodeString(span.In(bytes), text)) return nullptr;
  auto state = std::make_shared<templates::TextState>(kept);
  state->lines = templates::TextLines(text, nullptr);
  const bool has_all =
      std::all_of(state->slots.begin(), state->slots.end(),
                  [&](const templates::SlotLine& slot) { return slot.line < state->lines.size(); });
  return has_all ? state : nullptr;
}

// Returns true if the chunks of both lists that hold element `i` are one.
template <typename T>
bool AreShared(const parse::SharedList<T>& a, const parse::SharedList<T>& b, size_t i) {
  return &a[i] == &b[i];
}

// Returns true if what the caller says now begins with all that it said before.
bool ClientExtends(const Branch& before, const Branch& now) {
  const SentSegments& old = before.request.segments;
  const SentSegments& sent = now.request.segments;
  size_t k = 0;
  for (size_t i = 0; i < old.size(); ++i) {
    if (old[i].is_ours) continue;
    while (k < sent.size() && sent[k].is_ours) ++k;
    if (k == sent.size()) return false;
    const bool is_shared = i == k && AreShared(old, sent, i);
    if (!is_shared && before.forms[i].raw != now.forms[k].raw) return false;
    ++k;
  }
  return true;
}

}  // namespace

std::shared_ptr<const Branch> FillFrom(const Branch& branch, std::string_view body,
                                       const parse::RequestLayout& layout) {
  const BytesOfBody bytes(body, layout);
  auto filled = std::make_shared<Branch>(branch);
  filled->is_restored = false;
  filled->request.segments = {};
  filled->forms = {};
  for (size_t i = 0; i < branch.request.segments.size(); ++i) {
    SentSegment segment = branch.request.segments[i];
    if (!segment.bytes) segment.bytes = bytes.Find(segment.sent_raw);
    CallerForm form = branch.forms[i];
    const std::string* const caller = form.caller ? form.caller.get() : segment.bytes.get();
    if (form.text)
      form.text = caller == nullptr ? nullptr : WithLines(*form.text, *caller, segment.content);
    const size_t size = sizeof(segment) + (segment.bytes ? segment.bytes->size() : 0);
    filled->request.segments.push_back(std::move(segment), size);
    filled->forms.push_back(std::move(form), sizeof(CallerForm));
  }
  return filled;
}

bool Follows(const Branch& branch, const parse::RequestLayout& layout) {
  return CountAnswers(layout) <= CountAnswers(branch) + 1;
}

size_t CountAnswers(const parse::RequestLayout& layout) { return CountIn(layout.segments); }
size_t CountAnswers(const Branch& branch) { return CountIn(branch.request.segments); }

bool IsUnderWay(const parse::RequestLayout& layout) {
  return std::any_of(layout.segments.begin(), layout.segments.end(), [](const Segment& segment) {
    return segment.place.section == Section::kMessages && segment.role == Role::kAssistant &&
           segment.source != parse::Source::kExamples;
  });
}

Rewrite RewriteOf(const Branch& before, const Branch& now) {
  const SentSegments& old = before.request.segments;
  const SentSegments& sent = now.request.segments;
  bool extends = sent.size() >= old.size();
  for (size_t i = 0; i < old.size() && extends; ++i) {
    extends = AreShared(old, sent, i) || old[i].sent_raw == sent[i].sent_raw;
  }
  if (extends) return Rewrite::kNone;
  return ClientExtends(before, now) ? Rewrite::kGateway : Rewrite::kClient;
}

namespace {

// What was said, without what moves or changes from one request to the next.
std::vector<Identity> TurnsOf(const Branch& branch) {
  std::vector<Identity> turns;
  for (const SentSegment& segment : branch.request.segments) {
    const bool is_turn = segment.place.section == Section::kMessages && !segment.is_volatile &&
                         !segment.is_ours && !segment.is_notice &&
                         segment.content != parse::Content::kMessageHead;
    if (is_turn) turns.push_back(segment.sent_raw);
  }
  return turns;
}

}  // namespace

std::vector<uint64_t> TokensWithin(const Branch* branch,
                                   std::span<const std::shared_ptr<const Branch>> others) {
  std::vector<uint64_t> tokens;
  if (branch == nullptr || !branch->is_restored) return tokens;
  const std::vector<Identity> all = TurnsOf(*branch);
  std::vector<std::pair<size_t, uint64_t>> within;  // turns, token
  for (const auto& other : others) {
    const std::vector<Identity> its = TurnsOf(*other);
    if (other->token == branch->token || its.size() > all.size()) continue;
    if (!std::equal(its.begin(), its.end(), all.begin())) continue;
    within.emplace_back(its.size(), other->token);
  }
  std::stable_sort(within.begin(), within.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  for (const auto& [num_turns, token] : within) tokens.push_back(token);
  return tokens;
}

}  // namespace kvgate::prompt::history
