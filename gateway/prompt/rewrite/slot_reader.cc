#include "gateway/prompt/rewrite/slot_reader.h"

#include <algorithm>
#include <optional>
#include <unordered_set>
#include <utility>

#include "gateway/prompt/parse/json_scanner.h"
#include "gateway/prompt/parse/segment_text.h"
#include "gateway/prompt/parse/volatile_text.h"
#include "gateway/prompt/templates/masked_line.h"

namespace kvgate::prompt::rewrite {

using parse::Rule;
using templates::LineChange;
using templates::LineForm;
using templates::LinePair;
using templates::SlotLine;
using templates::TextLines;
using templates::TextState;

namespace {

// Lines of one text whose words are compared; of more, the text is another one.
constexpr size_t kWordChangesMax = 16;
// Bounds of one text: its slots, and the changes from which the templates learn.
constexpr size_t kSlotsMax = 256;
constexpr size_t kChangesMax = 64;
constexpr uint32_t kBytesPerToken = 4;

// The text of a segment that was sent before, as its caller wrote it.
class SentText {
 public:
  SentText(const std::string* json, parse::Content content) : json_(json), content_(content) {}

  // Returns false if the text is not remembered.
  bool Read() {
    if (is_read_) return !decoded_.offsets.empty();
    is_read_ = true;
    return json_ != nullptr && decoded_.Read(*json_, parse::TextIn(*json_, content_));
  }
  std::string_view text() const { return decoded_.text; }
  // Returns true if the line stands in the text, which may be spelt otherwise than when the line
  // was read.
  bool Has(const templates::TextLine& line) const {
    return line.end <= decoded_.text.size() &&
           templates::HashOf(line.In(decoded_.text)) == line.hash;
  }
  // Returns a line in JSON spelling.
  std::string JsonOf(const templates::TextLine& line) const {
    return std::string(decoded_.RawOf(line.begin, line.end).In(*json_));
  }

 private:
  const std::string* json_;
  parse::Content content_;
  bool is_read_ = false;
  DecodedText decoded_;
};

class SlotReader {
 public:
  SlotReader(const SlotReaderArgs& args, Learning& learning)
      : args_(args),
        learning_(learning),
        form_(args.draft.FormBefore(args.segment)),
        sent_(form_ == nullptr
                  ? nullptr
                  : CallerBytes(*args.draft.branch, static_cast<size_t>(args.segment.before)),
              args.segment.now->content),
        state_(std::make_shared<TextState>()) {}

  std::shared_ptr<TextState> Run() {
    const TextLines* before = form_ != nullptr && form_->text ? &form_->text->lines : nullptr;
    state_->lines = TextLines(args_.decoded.text, before);
    open_.assign(lines().size(), true);
    CloseByForm();
    if (before != nullptr) GoOn(*before);
    FindKnown();
    std::sort(state_->slots.begin(), state_->slots.end(),
              [](const SlotLine& a, const SlotLine& b) { return a.line < b.line; });
    return std::move(state_);
  }

 private:
  const TextLines& lines() const { return state_->lines; }
  std::string_view text() const { return args_.decoded.text; }
  bool MayHold() const {
    return args_.draft.Allows(Rule::kVolatileHeld) && args_.draft.Allows(args_.rule);
  }

  void CloseByForm() {
    size_t i = 0;
    for (const auto& [begin, end] : args_.by_form) {
      while (i < lines().size() && lines()[i].end <= begin) ++i;
      for (size_t k = i; k < lines().size() && lines()[k].begin < end; ++k) open_[k] = false;
    }
  }

  std::string OwnJson(uint32_t line) const {
    return std::string(
        args_.decoded.RawOf(lines()[line].begin, lines()[line].end).In(args_.draft.body));
  }

  void Add(SlotLine line) {
    open_[line.line] = false;
    if (state_->slots.size() >= kSlotsMax) return;
    if (!ids_.insert(line.slot).second) return;  // which of two lines is the slot is not known
    line.moved = line.moved && args_.may_move;
    if (!line.moved && line.first.empty()) line.first = OwnJson(line.line);
    if (line.moved) line.first.clear();
    state_->slots.push_back(std::move(line));
  }

  // Follows the lines that the conversation has sent.
  void GoOn(const TextLines& before) {
    std::vector<const SlotLine*> known(before.size(), nullptr);
    for (const SlotLine& slot : form_->text->slots) known[slot.line] = &slot;
    size_t num_words = 0;
    for (const LinePair& pair : templates::AlignLines(before, lines())) {
      if (!open_[pair.now]) continue;
      open_[pair.now] = false;
      const SlotLine* slot = known[pair.before];
      if (pair.change == LineChange::kNone) {
        if (slot != nullptr) Inherit(*slot, pair.now);
      } else if (pair.change == LineChange::kValues || ++num_words <= kWordChangesMax) {
        Changed(before, pair, slot);
      }
    }
  }
  void Inherit(const SlotLine& slot, uint32_t line) {
    Add({.line = line, .slot = slot.slot, .moved = slot.moved, .first = slot.first});
  }

  // `slot` is null if the line was none so far.
  void Changed(const TextLines& before, const LinePair& pair, const SlotLine* slot) {
    if (!sent_.Read() || !sent_.Has(before[pair.before])) return;
    const templates::TextLine& line = lines()[pair.now];
    templates::Observation seen{
        .before = templates::FormOf(args_.place, before, pair.before, sent_.text()),
        .now = templates::FormOf(args_.place, lines(), pair.now, text()),
        .change = pair.change,
        .pattern = templates::MaskLine(line.In(text())).text,
        .line_tokens = (line.end - line.begin) / kBytesPerToken + 1,
        .stake_tokens = args_.stake_tokens,
        .is_first = slot == nullptr};
    if (slot == nullptr && MayBeEdit(seen)) return;
    const uint64_t id = SlotAfter(seen, slot);
    Learn(std::move(seen));
    if (id == 0) return;
    if (slot != nullptr) {
      Inherit(*slot, pair.now);
    } else if (MayHold()) {
      Add({.line = pair.now, .slot = id, .first = sent_.JsonOf(before[pair.before])});
    }
  }
  // A line of a user's text with other words is taken for a program's only if it keeps half of
  // them; else a person may have written another sentence.
  static bool MayBeEdit(const templates::Observation& seen) {
    if (seen.now.place != templates::Place::kFirstUser || seen.change != LineChange::kWords) {
      return false;
    }
    const size_t common =
        templates::NumConstant(templates::CommonTokens(seen.before.tokens, seen.now.tokens));
    return common == 0 || common * 2 < seen.before.tokens.size();
  }
  // A text may be read twice for one request, but its change has happened once.
  void Learn(templates::Observation seen) {
    std::vector<templates::Observation>& changes = learning_.lesson.changes;
    const bool is_known = std::any_of(changes.begin(), changes.end(), [&](const auto& other) {
      return other.before == seen.before && other.now == seen.now;
    });
    if (!is_known && changes.size() < kChangesMax) changes.push_back(std::move(seen));
  }
  // Returns the id of the slot that the line is after its change; 0 if it is none. Words that its
  // caller has replaced are not held until they are known to change, because they may be a secret
  // or a permission; a line that has moved only has to be the same one.
  uint64_t SlotAfter(const templates::Observation& seen, const SlotLine* slot) const {
    if (seen.change == LineChange::kValues && slot != nullptr) return slot->slot;
    if (seen.change == LineChange::kWords && slot != nullptr && slot->moved) {
      return templates::IsOf(seen.before, seen.now) ? slot->slot : 0;
    }
    return learning_.templates.SlotAfter(learning_.scope, seen.before, seen.now, seen.change);
  }

  // Finds the slots among lines that the conversation has not sent: first the lines that are a
  // slot's but for their values, because a line beside them may have most of its words.
  void FindKnown() {
    if (!args_.draft.slots || !args_.draft.Allows(args_.rule)) return;
    FindKnown(true);
    FindKnown(false);
  }
  void FindKnown(bool same_mask) {
    for (uint32_t i = 0; i < lines().size(); ++i) {
      if (!open_[i]) continue;
      const auto slot = args_.draft.slots->Find(args_.place, lines(), i, text());
      if (!slot || ids_.contains(slot->id)) continue;
      if (same_mask && slot->form.mask != lines().KeyOf(i)) continue;
      if (!args_.draft.branch) {
        learning_.lesson.beginnings.push_back({.slot = slot->id, .line = lines()[i].hash});
      }
      Add({.line = i, .slot = slot->id, .moved = slot->moves, .first = {}});
    }
  }

  const SlotReaderArgs& args_;
  Learning& learning_;
  const history::CallerForm* form_;
  SentText sent_;
  std::shared_ptr<TextState> state_;
  std::vector<bool> open_;  // by line: it may still become a slot
  std::unordered_set<uint64_t> ids_;
};

}  // namespace

bool DecodedText::Read(std::string_view json, parse::Span span) {
  begin = span.begin;
  return !span.empty() && parse::DecodeString(span.In(json), text, &offsets);
}

std::optional<int32_t> FirstUserElement(const parse::RequestLayout& layout) {
  for (const parse::Segment& segment : layout.segments) {
    if (segment.place.section != parse::Section::kMessages) continue;
    if (segment.role == parse::Role::kUser) return segment.place.element;
    if (segment.role == parse::Role::kAssistant) break;
  }
  return std::nullopt;
}

bool IsFirstUserText(const parse::Segment& segment, std::optional<int32_t> first_user) {
  return segment.place.section == parse::Section::kMessages &&
         segment.content == parse::Content::kText && segment.role == parse::Role::kUser &&
         first_user == segment.place.element;
}

std::shared_ptr<TextState> ReadSlots(const SlotReaderArgs& args, Learning& learning) {
  return SlotReader(args, learning).Run();
}

std::shared_ptr<TextState> ReadUserSlots(const Draft& draft, const DecodedText& decoded,
                                         const DraftSegment& segment, Learning& learning) {
  std::vector<std::pair<size_t, size_t>> by_form;
  if (segment.now->has_volatile) {
    for (const parse::VolatileSpan& span : parse::FindVolatile(decoded.text)) {
      const bool begins = span.begin == 0 || decoded.text[span.begin - 1] == '\n';
      const bool ends = span.end == decoded.text.size() || decoded.text[span.end] == '\n';
      const bool is_whole = span.whole_lines || (begins && ends);
      if (is_whole && parse::MayBeHeld(span)) by_form.emplace_back(span.begin, span.end);
    }
  }
  return ReadSlots({.draft = draft,
                    .segment = segment,
                    .decoded = decoded,
                    .place = templates::Place::kFirstUser,
                    .rule = Rule::kUserSlots,
                    .by_form = by_form,
                    .may_move = draft.lines_move,
                    .stake_tokens = segment.now->num_tokens},
                   learning);
}

}  // namespace kvgate::prompt::rewrite
