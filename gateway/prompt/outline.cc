#include "gateway/prompt/parse/request_layout.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "gateway/prompt/parse/element_reader.h"
#include "gateway/prompt/segment_memo.h"
#include "gateway/prompt/parse/segment_text.h"
#include "gateway/prompt/parse/sources.h"

namespace kvgate::prompt {
namespace {

using upstream::Endpoint;

constexpr std::string_view kSource = "prompt.outline";

// How a dialect calls its parts.
struct Fields {
  std::string_view system;    // empty: only among the messages
  std::string_view messages;  // the list of turns
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
    default:
      return std::nullopt;
  }
}

class OutlineReader {
 public:
  OutlineReader(std::string_view body, const Fields& fields, SegmentMemo& memo, Outline& outline)
      : body_(body), fields_(fields), memo_(memo), outline_(outline), skimmer_(body) {}

  Result<void> Run() {
    skimmer_.Peek();
    outline_.object.begin = skimmer_.at();
    const bool whole = skimmer_.Object([&](const Skimmer::Name& name) { return Member(name); });
    outline_.object.end = skimmer_.at();
    if (!whole) return Refused(why_.empty() ? "no JSON object" : why_, field_);
    skimmer_.SkipSpace();
    if (skimmer_.at() != body_.size()) return Refused("something stands behind the object", "");
    for (auto* part : {&tools_, &system_, &messages_}) {
      for (Found& found : *part) {
        if (found.is_read || Identify(found.segment)) continue;
        return Refused("no JSON, or nested too deeply", PathOf(found.segment.place));
      }
    }
    Join();
    KeepKnown();
    for (Parameter& parameter : outline_.parameters) {
      const std::optional<CanonicalFacts> facts =
          Facts(parameter.value.In(body_), Content::kOther, nullptr);
      if (!facts) return Refused("no JSON, or nested too deeply", std::string(parameter.name));
      parameter.same = facts->same;
    }
    return {};
  }

 private:
  static Error Refused(std::string_view why, const std::string& field) {
    return MakeError(ErrorCode::kInvalidArgument, kSource, std::string(why), field);
  }

  bool Member(const Skimmer::Name& name) {
    const std::string_view raw = name.span.In(body_);
    const uint32_t begin = name.span.begin - 1;
    const std::array<std::string_view, 4> fields = {"tools", fields_.system, fields_.messages,
                                                    "model"};
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
    const std::optional<Span> value = skimmer_.Value();
    if (!value || !DecodeString(value->In(body_), outline_.model)) return false;
    outline_.parameters.push_back({raw, {begin, value->end}, *value, {}});
    return true;
  }

  bool OtherMember(uint32_t begin, std::string_view raw) {
    const std::optional<Span> value = skimmer_.Value();
    if (!value) return false;
    outline_.parameters.push_back({raw, {begin, value->end}, *value, {}});
    if (fields_.system == "system" && NameIs(raw, "cache_control")) {
      outline_.automatic = ReadMarker("cache_control", value->In(body_));
    }
    return true;
  }

  // One of tools, system and messages: a list of objects, a string, or null.
  bool Part(std::string_view field) {
    const char first = skimmer_.Peek();
    const uint32_t begin = skimmer_.at();
    const bool is_tools = field == "tools";
    bool read = false;
    if (first == '[') {
      read = List(field);
    } else if (const std::optional<Span> value = skimmer_.Value(); value) {
      read = value->In(body_) == "null" || (!is_tools && first == '"');
      if (first == '"' && !is_tools) AddString(field, *value);
    }
    if (!read && why_.empty()) why_ = "neither a list of objects nor a string";
    const Span span = {begin, skimmer_.at()};
    (is_tools                    ? outline_.tools
     : field == fields_.messages ? outline_.messages
                                 : outline_.system) = span;
    return read;
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
      if (index > 0 && skimmer_.Take(']')) return true;
      if (index > 0 && skimmer_.Peek() != ',') return false;
    }
    // Behind known turns a comma stands where a list's bracket does.
    return skimmer_.List(index > 0 ? ',' : '[', [&] {
      if (skimmer_.Peek() != '{') return false;
      ReadObject object;
      blocks_.clear();
      const bool is_turn = field == fields_.messages;
      why_ = ReadElement(body_, skimmer_, object, is_turn ? &blocks_ : nullptr);
      if (!why_.empty()) return false;
      const Place place = {field == "tools"  ? Section::kTools
                           : !is_turn        ? Section::kSystem
                           : LeadsIn(object) ? Section::kSystem
                                             : Section::kMessages,
                           field, index++, -1};
      AddElement(place, object, blocks_);
      return true;
    });
  }

  // Finds what is known of the list's beginning; how many of its elements that are.
  int32_t TakeKnown(std::string_view field) {
    const uint32_t begin = skimmer_.at();
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
    skimmer_ = Skimmer(body_, begin + cut.bytes);
    return cut.num_elements;
  }

  // All turns as they are known now, for the next body that begins with them. Nothing needs them
  // any more.
  void KeepKnown() {
    if (outline_.messages.size() < TurnMemo::kListBytesMin) return;
    if (outline_.messages.In(body_).front() != '[') return;
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
      Shift(found.segment, -outline_.messages.begin);
      turns.push_back(found);
    };
    size_t num_kept = num_leading_;  // of the system turns: they are among the known ones
    for (Found& found : system_) {
      if (found.segment.place.field != fields_.messages) continue;
      if (num_kept > 0) {
        --num_kept;
      } else {
        keep(found);
      }
    }
    for (Found& found : messages_) keep(found);
    memo_.turns().Keep(outline_.messages.In(body_), fields_.messages, known_, std::move(turns));
  }

  static void Shift(Segment& segment, uint32_t by) {
    for (Span* span : {&segment.span, &segment.element, &segment.marker_span, &segment.source_span,
                       &segment.text, &segment.blocks}) {
      if (span->empty()) continue;
      span->begin += by;
      span->end += by;
    }
  }

  // A system turn in front of all others is the system prompt.
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
    segment.marker = object.marker;
    segment.marker_span = object.marker_span;
    segment.source_span = object.source_span;
    segment.text = object.text;
    return segment;
  }

  // In render order, each with its source.
  void Join() {
    FrontTurns front;
    if (num_known_ > 0) front = ReadFront(known_.known->segments, num_leading_, num_known_);
    const int32_t last_user = AssignSources(body_, front, system_, messages_);
    outline_.segments.reserve(tools_.size() + system_.size() + num_known_ + messages_.size());
    for (const Found& found : tools_) {
      outline_.segments.push_back(found.segment);
      outline_.segments.back().source = Source::kTools;
    }
    for (const Found& found : system_) outline_.segments.push_back(found.segment);
    for (size_t i = num_leading_; i < num_known_; ++i) {
      const Found& found = known_.known->segments[i];
      Segment& segment = outline_.segments.emplace_back(found.segment);
      Shift(segment, outline_.messages.begin);
      segment.source = SourceOf(found, last_user);
    }
    for (const Found& found : messages_) outline_.segments.push_back(found.segment);
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
    segment.num_tokens = facts->num_tokens;
    return true;
  }

  std::optional<CanonicalFacts> Facts(std::string_view raw, Content content, Identity* hash) {
    const Identity key = HashBytes(raw, Domain::kRaw);
    if (hash != nullptr) *hash = key;
    std::optional<CanonicalFacts> facts = memo_.Find(key, content);
    if (facts) return facts;
    facts = ReadCanonical(raw, content);
    if (facts) memo_.Insert(key, content, *facts);
    return facts;
  }

  std::string_view body_;
  Fields fields_;
  SegmentMemo& memo_;
  Outline& outline_;
  Skimmer skimmer_;
  std::array<bool, 4> seen_{};  // tools, system, messages, model
  std::string field_;
  std::string why_;
  bool leading_ = true;
  std::vector<ReadObject> blocks_;  // of one message at a time
  std::vector<Found> tools_;
  std::vector<Found> system_;
  std::vector<Found> messages_;  // behind the known ones
  TurnMemo::Match known_;
  size_t num_known_ = 0;    // segments at the front of the list of turns that are taken over, …
  size_t num_leading_ = 0;  // … of which so many are in system_ as well
};

}  // namespace

const Parameter* Outline::Find(std::string_view name) const {
  for (const Parameter& parameter : parameters) {
    if (NameIs(parameter.name, name)) return &parameter;
  }
  return nullptr;
}

std::shared_ptr<SegmentMemo> MakeSegmentMemo(size_t entries_max) {
  return std::make_shared<SegmentMemo>(entries_max);
}

Result<Outline> ReadOutline(Endpoint endpoint, std::string_view body, SegmentMemo& memo) {
  const std::optional<Fields> fields = FieldsOf(endpoint);
  if (!fields) {
    return MakeError(ErrorCode::kInvalidArgument, kSource, "not an endpoint with a prompt");
  }
  if (body.size() > std::numeric_limits<uint32_t>::max()) {
    return MakeError(ErrorCode::kInvalidArgument, kSource, "a body of more than 4 GiB");
  }
  Outline outline;
  outline.endpoint = endpoint;
  OutlineReader reader(body, *fields, memo, outline);
  KVGATE_TRY_VOID(reader.Run());
  return outline;
}

bool HoldsHistory(std::string_view body, const Outline& outline) {
  if (outline.endpoint != Endpoint::kResponses) return true;
  for (const std::string_view name : {"previous_response_id", "conversation"}) {
    const Parameter* parameter = outline.Find(name);
    if (parameter != nullptr && parameter->value.In(body) != "null") return false;
  }
  return true;
}

std::string PathOf(const Place& place) {
  std::string path(place.field);
  if (place.element >= 0) path += "[" + std::to_string(place.element) + "]";
  if (place.block >= 0) path += ".content[" + std::to_string(place.block) + "]";
  return path;
}

}  // namespace kvgate::prompt
