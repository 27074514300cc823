#include "gateway/prompt/diagnose/slot_loss.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

#include "gateway/prompt/parse/json_scanner.h"
#include "gateway/prompt/parse/segment_text.h"
#include "gateway/prompt/templates/masked_line.h"
#include "gateway/prompt/templates/text_lines.h"

namespace kvgate::prompt::diagnose {

using history::SentSegment;
using history::SentSegments;
using parse::Section;
using templates::LineChange;
using templates::Place;
using templates::TextLines;

namespace {

constexpr int64_t kBytesPerToken = 4;
// A longer text is not compared.
constexpr size_t kTextBytesMax = size_t{1} << 20;

// The text of a segment, and what stands around it.
struct Text {
  std::string text;
  std::string_view front;
  std::string_view back;
  bool Read(const SentSegment& segment) {
    if (!segment.bytes || segment.bytes->size() > kTextBytesMax) return false;
    const std::string_view bytes = *segment.bytes;
    const parse::Span span = parse::TextIn(bytes, segment.content);
    if (span.empty() || !parse::DecodeString(span.In(bytes), text)) return false;
    front = bytes.substr(0, span.begin);
    back = bytes.substr(span.end);
    return true;
  }
};

// Returns the element of the user's first turn; -1 if an answer stands in front of it.
int32_t FirstUser(const SentSegments& segments) {
  for (const SentSegment& segment : segments) {
    if (segment.place.section != Section::kMessages) continue;
    if (segment.role == parse::Role::kUser) return segment.place.element;
    if (segment.role == parse::Role::kAssistant) break;
  }
  return -1;
}

class SlotFinder {
 public:
  explicit SlotFinder(const SlotLossArgs& args)
      : args_(args), first_user_(FirstUser(args.now.segments)) {}

  std::vector<SlotLoss> Run() {
    const SentSegments& before = args_.before.segments;
    const SentSegments& now = args_.now.segments;
    int64_t reach = 0;  // estimated tokens up to a difference that is no line's
    for (size_t i = 0; i < before.size() && i < now.size(); ++i) {
      const bool is_equal = before[i].sent_raw == now[i].sent_raw || before[i].same == now[i].same;
      if (!is_equal && !AddLines(before[i], now[i], i)) break;
      reach += now[i].num_tokens;
    }
    if (!losses_.empty()) Share(reach);
    return std::move(losses_);
  }

 private:
  std::optional<Place> PlaceOf(const SentSegment& segment) const {
    if (segment.place.section == Section::kTools) return Place::kTool;
    if (segment.place.section == Section::kSystem) return Place::kSystem;
    const bool is_users = segment.role == parse::Role::kUser &&
                          segment.content == parse::Content::kText &&
                          segment.place.element == first_user_;
    return is_users ? std::optional(Place::kFirstUser) : std::nullopt;
  }

  // Adds the lines that differ; returns false if more than the values of lines does.
  bool AddLines(const SentSegment& before, const SentSegment& now, size_t index) {
    const std::optional<Place> place = PlaceOf(now);
    if (!place || before.content != now.content || before.place.section != now.place.section) {
      return false;
    }
    Text old;
    Text text;
    if (!old.Read(before) || !text.Read(now) || old.front != text.front || old.back != text.back) {
      return false;
    }
    const TextLines old_lines(old.text, nullptr);
    const TextLines lines(text.text, &old_lines);
    const std::vector<templates::LinePair> pairs = templates::AlignLines(old_lines, lines);
    const auto is_line = [&](const templates::LinePair& pair) {
      return pair.before == pair.now &&
             (pair.change == LineChange::kNone ||
              (pair.change == LineChange::kValues && lines[pair.now].may_change));
    };
    if (pairs.size() != lines.size() || pairs.size() != old_lines.size() ||
        !std::all_of(pairs.begin(), pairs.end(), is_line)) {
      return false;
    }
    for (const templates::LinePair& pair : pairs) {
      if (pair.change == LineChange::kNone) continue;
      const templates::TextLine& line = lines[pair.now];
      said_again_ += (line.end - line.begin) / kBytesPerToken + 1;
      losses_.push_back(
          {.place = *place, .mask = lines.KeyOf(pair.now), .segment = index, .line = pair.now});
    }
    return true;
  }

  // Shares what would have been saved among the lines. Their new text would have been said anew.
  void Share(int64_t reach) {
    int64_t estimate = 0;
    for (const SentSegment& segment : args_.now.segments) estimate += segment.num_tokens;
    if (estimate == 0 || args_.found.lost_tokens <= 0) return losses_.clear();
    const double scale = static_cast<double>(args_.input_tokens) / static_cast<double>(estimate);
    const int64_t within = std::llround(static_cast<double>(reach) * scale) - args_.cached_tokens;
    const int64_t again = std::llround(static_cast<double>(said_again_) * scale);
    const int64_t tokens = std::min(within, args_.found.lost_tokens) - again;
    if (tokens <= 0) return losses_.clear();
    const auto nanodollars = static_cast<int64_t>(
        static_cast<double>(args_.found.lost_nanodollars) * static_cast<double>(tokens) /
        static_cast<double>(args_.found.lost_tokens));
    const auto count = static_cast<int64_t>(losses_.size());
    for (SlotLoss& loss : losses_) {
      loss.tokens = tokens / count;
      loss.nanodollars = nanodollars / count;
    }
    losses_.front().tokens += tokens % count;
    losses_.front().nanodollars += nanodollars % count;
  }

  const SlotLossArgs& args_;
  const int32_t first_user_;
  int64_t said_again_ = 0;  // estimated tokens
  std::vector<SlotLoss> losses_;
};

}  // namespace

std::vector<SlotLoss> FindSlotLosses(const SlotLossArgs& args) {
  const BreakCause cause = args.found.cause;
  const bool may_be = args.found.lost_tokens > 0 && args.now.holds_history &&
                      (cause == BreakCause::kSystemChanged || cause == BreakCause::kToolChanged ||
                       cause == BreakCause::kHistoryEdited);
  return may_be ? SlotFinder(args).Run() : std::vector<SlotLoss>();
}

std::string LineWithoutValues(const SentSegment& segment, uint32_t line) {
  Text text;
  if (!text.Read(segment)) return "";
  const TextLines lines(text.text, nullptr);
  if (line >= lines.size()) return "";
  std::string shown;
  for (const char c : templates::MaskLine(lines[line].In(text.text)).text) {
    if (c == templates::kMark) {
      shown += "<*>";
    } else {
      shown += c;
    }
  }
  return shown;
}

}  // namespace kvgate::prompt::diagnose
