#include "gateway/prompt/parse/request_layout.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "gateway/prompt/parse/element_reader.h"
#include "gateway/prompt/parse/segment_memo.h"
#include "gateway/prompt/parse/segment_text.h"
#include "gateway/prompt/parse/sources.h"

namespace kvgate::prompt::parse {
namespace {

using dialect::form::Endpoint;

constexpr std::string_view kSource = "prompt.layout";

// The names that a dialect gives to the parts of a prompt.
struct Fields {
  std::string_view system;    // empty: the system prompt stands among the messages
  std::string_view messages;  // the list of turns
  // Another spelling of `system`.
  std::string_view system_too = {};
  // With parts, the system prompt is one object, as a turn is, and a turn without a role is the
  // user's.
  BlockForm form = BlockForm::kContent;
  bool has_parts() const { return form == BlockForm::kParts; }
};
std::optional<Fields> FieldsOf(Endpoint endpoint) {
  switch (endpoint) {
    case Endpoint::kChatCompletions:
      return Fields{"", "messages"};
    case Endpoint::kResponses:
      return Fields{"instructions", "input"};
    case Endpoint::kMessages:
    case Endpoint::kCountTokens:
      return Fields{"system", "messages"};
    case Endpoint::kGenerateContent:
    case Endpoint::kCountContent:
      return Fields{"systemInstruction", "contents", "system_instruction", BlockForm::kParts};
    default:
      return std::nullopt;
  }
}

class RequestLayoutReader {
 public:
  // A body that is new by more than `new_bytes_max` bytes is refused.
  RequestLayoutReader(std::string_view body, const Fields& fields, SegmentMemo& memo,
                      size_t new_bytes_max, RequestLayout& layout)
      : body_(body),
        fields_(fields),
        memo_(memo),
        new_bytes_left_(new_bytes_max),
        layout_(layout),
        scanner_(body) {}

  Result<void> Run() {
    scanner_.Peek();
    layout_.object.begin = scanner_.at();
    const bool whole = scanner_.Object([&](const JsonScanner::Name& name) { return Member(name); });
    layout_.object.end = scanner_.at();
    if (!whole) return Refused(why_.empty() ? "no JSON object" : why_, field_);
    scanner_.SkipSpace();
    if (scanner_.at() != body_.size()) return Refused("something stands behind the object", "");
    for (auto* part : {&tools_, &system_, &messages_}) {
      for (Found& found : *part) {
        if (found.is_read || Identify(found.segment)) continue;
        return Refused("no JSON, or nested too deeply", PathOf(found.segment.place));
      }
    }
    FindNotices();
    Join();
    KeepKnown();
    for (Parameter& parameter : layout_.parameters) {
      const std::optional<CanonicalFacts> facts =
          Facts(parameter.value.In(body_), Content::kOther, nullptr);
      if (!facts) return Refused("no JSON, or nested too deeply", parameter.name);
      parameter.same = facts->same;
    }
    return {};
  }

 private:
  static Error Refused(std::string_view why, const std::string& field) {
    return MakeError(ErrorCode::kInvalidArgument, kSource, std::string(why), field);
  }

  bool Member(const JsonScanner::Name& name) {
    const std::string_view raw = name.span.In(body_);
    const uint32_t begin = name.span.begin - 1;
    const bool is_other = !fields_.system_too.empty() && NameIs(raw, fields_.system_too);
    const std::array<std::string_view, 4> fields = {
        "tools", is_other ? fields_.system_too : fields_.system, fields_.messages, "model"};
    for (size_t i = 0; i < fields.size(); ++i) {
      const std::string_view field = fields[i];
      if (field.empty() || !NameIs(raw, field)) continue;
      field_ = field;
      if (std::exchange(seen_[i], true)) {
        why_ = "the field stands twice";
        return false;
      }
      if (field == "model") return Model(begin, raw);
      return Part(field);
    }
    field_ = raw;
    return OtherMember(begin, raw);
  }

  bool Model(uint32_t begin, std::string_view raw) {
    const std::optional<Span> value = scanner_.Value();
    layout_.model.clear();  // the body's own counts
    if (!value || !DecodeString(value->In(body_), layout_.model)) return false;
    layout_.parameters.push_back({std::string(raw), {begin, value->end}, *value, {}});
    return true;
  }

  bool OtherMember(uint32_t begin, std::string_view raw) {
    const std::optional<Span> value = scanner_.Value();
    if (!value) return false;
    layout_.parameters.push_back({std::string(raw), {begin, value->end}, *value, {}});
    if (fields_.system == "system" && NameIs(raw, "cache_control")) {
      layout_.automatic = ReadBreakpoint("cache_control", value->In(body_));
    }
    return true;
  }

  // Reads tools, system or messages: a list of objects, a string, or null.
  bool Part(std::string_view field) {
    const char first = scanner_.Peek();
    const uint32_t begin = scanner_.at();
    const bool is_tools = field == "tools";
    bool read = false;
    const bool is_system = !is_tools && field != fields_.messages;
    if (first == '[') {
      read = List(field);
    } else if (first == '{' && is_system && fields_.has_parts()) {
      read = Instruction(field);
    } else if (const std::optional<Span> value = scanner_.Value(); value) {
      read = value->In(body_) == "null" || (!is_tools && first == '"');
      if (first == '"' && !is_tools) AddString(field, *value);
    }
    if (!read && why_.empty()) why_ = "neither a list of objects nor a string";
    const Span span = {begin, scanner_.at()};
    (is_tools                    ? layout_.tools
     : field == fields_.messages ? layout_.messages
                                 : layout_.system) = span;
    return read;
  }

  // Reads the one object that is the whole system prompt.
  bool Instruction(std::string_view field) {
    ReadObject object;
    blocks_.clear();
    why_ = ReadElement(body_, scanner_, object, &blocks_, fields_.form);
    if (!why_.empty()) return false;
    object.role = {};  // clients write "user" there
    AddElement({Section::kSystem, field, -1, -1}, object, blocks_);
    return true;
  }

  void AddString(std::string_view field, Span value) {
    const bool is_system = field == fields_.system;
    Segment segment;
    segment.place = {is_system ? Section::kSystem : Section::kMessages, field, -1, -1};
    segment.role = is_system ? Role::kSystem : Role::kUser;
    segment.content = Content::kText;
    segment.span = segment.element = segment.text = value;
    (is_system ? system_ : messages_).push_back({segment, std::nullopt, "", ""});
  }

  bool List(std::string_view field) {
    int32_t index = 0;
    if (field == fields_.messages) {
      index = TakeKnown(field);
      if (index == 0 && body_.size() - scanner_.at() > new_bytes_left_) return false;
      if (index > 0 && scanner_.Take(']')) return true;
      if (index > 0 && scanner_.Peek() != ',') return false;
    }
    // After known turns, the rest of the list begins with a comma instead of a bracket.
    return scanner_.List(index > 0 ? ',' : '[', [&] {
      if (scanner_.Peek() != '{') return false;
      ReadObject object;
      blocks_.clear();
      const bool is_turn = field == fields_.messages;
      why_ = ReadElement(body_, scanner_, object, is_turn ? &blocks_ : nullptr, fields_.form);
      if (!why_.empty()) return false;
      if (is_turn && fields_.has_parts() && object.role.empty()) object.role = "user";
      const Place place = {field == "tools"  ? Section::kTools
                           : !is_turn        ? Section::kSystem
                           : LeadsIn(object) ? Section::kSystem
                                             : Section::kMessages,
                           field, index++, -1};
      AddElement(place, object, blocks_);
      return true;
    });
  }

  // Skips the beginning of the list that the memo knows, and returns how many elements that covers.
  int32_t TakeKnown(std::string_view field) {
    const uint32_t begin = scanner_.at();
    known_ = memo_.turns().Find(body_.substr(begin), field);
    if (known_.num_cuts == 0) return 0;
    const TurnCut& cut = known_.known->cuts[known_.num_cuts - 1];
    num_known_ = cut.num_segments;
    const SharedList<Found>& turns = known_.known->segments;
    const auto leads_in = [&](size_t i) {
      return i < num_known_ && turns[i].segment.place.section == Section::kSystem;
    };
    for (; leads_in(num_leading_); ++num_leading_) {
      system_.push_back(turns[num_leading_]);
      Shift(system_.back().segment, begin);
    }
    leading_ = leading_ && num_leading_ == num_known_;
    scanner_ = JsonScanner(body_, begin + cut.bytes);
    return cut.num_elements;
  }

  // Keeps all turns in the memo for the next body that begins with them. It runs last, because it
  // clears and shifts the segments found.
  void KeepKnown() {
    if (layout_.messages.size() < TurnMemo::kListBytesMin) return;
    if (layout_.messages.In(body_).front() != '[') return;
    SharedList<Found> turns;
    if (num_known_ > 0) {
      const SharedList<Found>& before = known_.known->segments;
      const size_t size = SharedList<Found>::kChunkSize;
      while (turns.size() + size <= num_known_ && turns.CanShare(before)) turns.Share(before);
      while (turns.size() < num_known_) turns.push_back(before[turns.size()]);
    }
    const auto keep = [&](Found& found) {
      found.source.reset();
      found.name = found.type = {};
      Shift(found.segment, -layout_.messages.begin);
      turns.push_back(found);
    };
    size_t num_kept = num_leading_;  // leading system turns that are among the known ones
    for (Found& found : system_) {
      if (found.segment.place.field != fields_.messages) continue;
      if (num_kept > 0) {
        --num_kept;
      } else {
        keep(found);
      }
    }
    for (Found& found : messages_) keep(found);
    memo_.turns().Keep(layout_.messages.In(body_), fields_.messages, known_, std::move(turns));
  }

  static void Shift(Segment& segment, uint32_t by) {
    for (Span* span : {&segment.span, &segment.element, &segment.breakpoint_span,
                       &segment.source_span, &segment.text, &segment.notice, &segment.blocks}) {
      if (span->empty()) continue;
      span->begin += by;
      span->end += by;
    }
  }

  // System turns in front of all others are the system prompt, if the dialect has no field for it.
  bool LeadsIn(const ReadObject& object) {
    const bool is_system = object.role == "system" || object.role == "developer";
    leading_ = leading_ && is_system && fields_.system != "system";
    return leading_;
  }

  void AddElement(const Place& place, const ReadObject& object,
                  const std::vector<ReadObject>& blocks) {
    std::vector<Found>& into = place.section == Section::kTools    ? tools_
                               : place.section == Section::kSystem ? system_
                                                                   : messages_;
    Segment segment = SegmentOf(place, object);
    segment.role = RoleOf(place, object);
    segment.element = object.span;
    if (object.blocks.empty()) {
      segment.content = ContentOf(place, object);
      into.push_back({segment, object.source, object.name, object.type});
      return;
    }
    segment.content = Content::kMessageHead;
    segment.blocks = object.blocks;
    into.push_back({segment, object.source, object.name, ""});
    for (size_t i = 0; i < blocks.size(); ++i) {
      Place at = place;
      at.block = static_cast<int32_t>(i);
      Segment block = SegmentOf(at, blocks[i]);
      block.role = segment.role;
      block.element = object.span;
      block.content = ContentOf(at, blocks[i]);
      into.push_back({block, blocks[i].source ? blocks[i].source : object.source, object.name,
                      blocks[i].type});
    }
  }

  static Segment SegmentOf(const Place& place, const ReadObject& object) {
    Segment segment;
    segment.place = place;
    segment.span = object.span;
    segment.breakpoint = object.breakpoint;
    segment.breakpoint_span = object.breakpoint_span;
    segment.source_span = object.source_span;
    segment.text = object.text;
    return segment;
  }

  // Fills the layout's segments in render order, each with its source.
  void Join() {
    FrontTurns front;
    if (num_known_ > 0) front = ReadFront(known_.known->segments, num_leading_, num_known_);
    const int32_t last_user = AssignSources(body_, front, system_, messages_);
    layout_.segments.reserve(tools_.size() + system_.size() + num_known_ + messages_.size());
    for (const Found& found : tools_) {
      layout_.segments.push_back(found.segment);
      layout_.segments.back().source = Source::kTools;
    }
    for (const Found& found : system_) layout_.segments.push_back(found.segment);
    for (size_t i = num_leading_; i < num_known_; ++i) {
      const Found& found = known_.known->segments[i];
      Segment& segment = layout_.segments.emplace_back(found.segment);
      Shift(segment, layout_.messages.begin);
      segment.source = SourceOf(found, last_user);
    }
    for (const Found& found : messages_) layout_.segments.push_back(found.segment);
  }

  // Only blocks at the end of a message are notices.
  void FindNotices() {
    for (size_t i = messages_.size(); i-- > 1;) {
      Segment& segment = messages_[i - 1].segment;
      const Segment& next = messages_[i].segment;
      const bool is_last = next.place.element != segment.place.element;
      segment.is_notice = segment.is_notice && (is_last || next.is_notice);
    }
  }

  bool Identify(Segment& segment) {
    std::string assembled;
    const std::string_view raw = BytesOf(body_, segment, assembled);
    const std::optional<CanonicalFacts> facts = Facts(raw, segment.content, &segment.raw);
    if (!facts) return false;
    segment.same = facts->same;
    segment.stable = facts->stable;
    segment.said = facts->said;
    segment.is_volatile = facts->is_volatile && segment.role != Role::kAssistant;
    segment.has_volatile = facts->has_volatile;
    segment.is_notice = facts->is_tagged && segment.place.block > 0 &&
                        (segment.role == Role::kUser || segment.role == Role::kTool);
    segment.num_tokens = facts->num_tokens;
    const bool is_string = segment.content == Content::kText && segment.place.block < 0;
    if (is_string && segment.role == Role::kUser) segment.notice = NoticeIn(body_, segment.text);
    return true;
  }

  std::optional<CanonicalFacts> Facts(std::string_view raw, Content content, Identity* hash) {
    const Identity key = HashBytes(raw, Domain::kRaw);
    if (hash != nullptr) *hash = key;
    std::optional<CanonicalFacts> facts = memo_.Find(key, content);
    if (facts || raw.size() > new_bytes_left_) return facts;
    new_bytes_left_ -= raw.size();
    facts = ReadCanonical(raw, content);
    if (facts) memo_.Insert(key, content, *facts);
    return facts;
  }

  std::string_view body_;
  Fields fields_;
  SegmentMemo& memo_;
  size_t new_bytes_left_;
  RequestLayout& layout_;
  JsonScanner scanner_;
  std::array<bool, 4> seen_{};  // tools, system, messages, model
  std::string field_;
  std::string why_;
  bool leading_ = true;
  std::vector<ReadObject> blocks_;  // of the message being read
  std::vector<Found> tools_;
  std::vector<Found> system_;
  std::vector<Found> messages_;  // those behind the known ones
  TurnMemo::Match known_;
  size_t num_known_ = 0;    // segments at the front of the turns that the memo provides
  size_t num_leading_ = 0;  // how many of them are in system_ as well
};

}  // namespace

const Parameter* RequestLayout::Find(std::string_view name) const {
  for (const Parameter& parameter : parameters) {
    if (NameIs(parameter.name, name)) return &parameter;
  }
  return nullptr;
}

std::shared_ptr<SegmentMemo> MakeSegmentMemo(size_t entries_max) {
  return std::make_shared<SegmentMemo>(entries_max);
}

Result<RequestLayout> ReadRequestLayout(Endpoint endpoint, std::string_view body, SegmentMemo& memo,
                                        std::string_view model) {
  const std::optional<Fields> fields = FieldsOf(endpoint);
  if (!fields) {
    return MakeError(ErrorCode::kInvalidArgument, kSource, "not an endpoint with a prompt");
  }
  if (body.size() > std::numeric_limits<uint32_t>::max()) {
    return MakeError(ErrorCode::kInvalidArgument, kSource, "a body of more than 4 GiB");
  }
  RequestLayout layout;
  layout.endpoint = endpoint;
  layout.model = model;
  RequestLayoutReader reader(body, *fields, memo, std::numeric_limits<size_t>::max(), layout);
  KVGATE_TRY_VOID(reader.Run());
  return layout;
}

std::optional<RequestLayout> ReadKnownLayout(Endpoint endpoint, std::string_view body,
                                             SegmentMemo& memo, size_t new_bytes_max,
                                             std::string_view model) {
  const std::optional<Fields> fields = FieldsOf(endpoint);
  if (!fields || body.size() > std::numeric_limits<uint32_t>::max()) return std::nullopt;
  RequestLayout layout;
  layout.endpoint = endpoint;
  layout.model = model;
  RequestLayoutReader reader(body, *fields, memo, new_bytes_max, layout);
  if (!reader.Run()) return std::nullopt;
  return layout;
}

bool HoldsHistory(std::string_view body, const RequestLayout& layout) {
  if (layout.endpoint == Endpoint::kGenerateContent) {
    return layout.Find("cachedContent") == nullptr && layout.Find("cached_content") == nullptr;
  }
  if (layout.endpoint != Endpoint::kResponses) return true;
  for (const std::string_view name : {"previous_response_id", "conversation"}) {
    const Parameter* parameter = layout.Find(name);
    if (parameter != nullptr && parameter->value.In(body) != "null") return false;
  }
  return true;
}

std::string PathOf(const Place& place) {
  std::string path(place.field);
  if (place.element >= 0) path += "[" + std::to_string(place.element) + "]";
  const bool has_parts = place.field == "contents" || place.field.starts_with("system_") ||
                         place.field == "systemInstruction";
  const std::string_view list = has_parts ? ".parts[" : ".content[";
  if (place.block >= 0) path.append(list).append(std::to_string(place.block)).append("]");
  return path;
}

}  // namespace kvgate::prompt::parse
