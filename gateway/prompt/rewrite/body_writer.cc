#include "gateway/prompt/rewrite/body_writer.h"

#include <algorithm>
#include <utility>

#include "gateway/prompt/parse/breakpoints.h"
#include "gateway/prompt/parse/canonical.h"
#include "gateway/prompt/parse/json_scanner.h"
#include "gateway/prompt/parse/segment_text.h"
#include "gateway/prompt/rewrite/list_form.h"
#include "gateway/prompt/rewrite/system_turn.h"

namespace kvgate::prompt::rewrite {

using history::CallerForm;
using history::SentSegment;
using parse::BreakpointMember;
using parse::Content;
using parse::Edit;
using parse::PathOf;
using parse::Place;
using parse::Rule;
using parse::Segment;
using parse::Span;

namespace {

using dialect::form::Endpoint;

bool InOneList(const Segment& a, const Segment& b) {
  if (a.place.field != b.place.field || (a.place.block < 0) != (b.place.block < 0)) return false;
  return a.place.block < 0 || a.place.element == b.place.element;
}

Span ListedSpan(const Segment& segment) {
  return segment.place.block < 0 ? segment.element : segment.span;
}

// Returns true if the block's whole message is dropped, so that it needs no edit of its own.
bool DroppedWithHead(const Draft& draft, size_t index) {
  const Place& place = draft.segments[index].slot->place;
  if (place.block < 0) return false;
  while (index-- > 0) {
    const DraftSegment& other = draft.segments[index];
    if (other.now == nullptr || other.now->place.element != place.element) return false;
    if (other.now->place.block < 0) return other.dropped;
  }
  return false;
}

std::shared_ptr<const std::string> InArena(const std::shared_ptr<std::deque<std::string>>& arena,
                                           std::string text) {
  return {arena, &arena->emplace_back(std::move(text))};
}

// `bytes` are those that go out, of the identity `raw`; null: the segment's own.
PlannedString PlannedOf(const Draft& draft, const DraftSegment& segment, const std::string* bytes,
                        const parse::Identity& raw) {
  const bool is_string = segment.now != nullptr && IsString(*segment.now) &&
                         segment.now->role != parse::Role::kAssistant;
  if (!is_string) return {.words = raw, .rest = {}};
  const Segment& now = *segment.now;
  if (bytes == nullptr && now.source_span.empty()) {
    const auto within = [&](Span span) {
      return span.empty() ? span : Span{span.begin - now.span.begin, span.end - now.span.begin};
    };
    return PlannedStringOf(now.span.In(draft.body), within(now.text), within(now.notice));
  }
  std::string assembled;
  const std::string_view own =
      bytes == nullptr ? parse::BytesOf(draft.body, now, assembled) : std::string_view(*bytes);
  const std::string string = segment.as_list
                                 ? StringFormOf(draft.layout.endpoint, own, segment.head_split)
                                 : std::string(own);
  const Span text = parse::TextIn(string, Content::kText);
  if (text.empty()) return {.words = raw, .rest = {}};
  const bool is_users = now.role == parse::Role::kUser;
  return PlannedStringOf(string, text, is_users ? parse::NoticeIn(string, text) : Span());
}

}  // namespace

BodyWriter::BodyWriter(Draft& draft, const Options& options) : draft_(draft), options_(options) {
  Collect();
}

void BodyWriter::Add(Rule rule, Span span, std::string bytes, std::string path) {
  edits_.push_back({rule, span, std::move(bytes), std::move(path)});
}

std::string BodyWriter::OwnBytes(const DraftSegment& segment) const {
  std::string assembled;
  if (segment.inner.empty()) {
    return std::string(parse::BytesOf(draft_.body, *segment.now, assembled));
  }
  std::vector<Edit> edits = segment.inner;
  for (const Span& lifted : {segment.now->breakpoint_span, segment.now->source_span}) {
    if (!lifted.empty()) edits.push_back({Rule::kCacheControl, lifted, "", ""});
  }
  parse::SortEdits(edits);
  return parse::ApplyEdits(draft_.body, edits, segment.now->span);
}

bool BodyWriter::MayBecomeList(const DraftSegment& segment) const {
  const Segment& now = *segment.now;
  if (segment.as_list) return true;
  // A value that was sent as a string stays one, because a list would change the cached prefix.
  if (segment.before >= 0 || segment.bytes || now.content != Content::kText) return false;
  if (now.text.empty() || now.text.size() <= 2 || now.place.block >= 0) return false;
  if (now.place.field == "system") return now.place.element < 0;
  return now.place.element >= 0 && now.role != parse::Role::kAssistant &&
         now.role != parse::Role::kNone;
}

bool BodyWriter::Markable(const DraftSegment& segment) const {
  if (segment.now == nullptr || segment.slot == nullptr) return false;
  const Segment& now = *segment.now;
  if (segment.slot->breakpoint) return true;
  const bool is_messages = draft_.layout.endpoint == Endpoint::kMessages ||
                           draft_.layout.endpoint == Endpoint::kCountTokens;
  switch (now.content) {
    case Content::kTool:
      return is_messages;
    case Content::kThinking:
    case Content::kMessageHead:
      return false;
    case Content::kText:
      if (now.place.block >= 0 || (now.place.field == "system" && now.place.element >= 0)) {
        return now.text.size() > 2 && (is_messages || now.role != parse::Role::kAssistant);
      }
      return MayBecomeList(segment);
    case Content::kMedia:
      return now.place.block >= 0;
    default:
      return is_messages && now.place.block >= 0;
  }
}

void BodyWriter::AddOutgoing(size_t index) {
  const DraftSegment& segment = draft_.segments[index];
  Outgoing out;
  out.draft = index;
  if (segment.now != nullptr && segment.slot != nullptr) out.caller = segment.slot->breakpoint;
  if (segment.bytes) {
    out.bytes = segment.bytes;
    const SentSegment* before = draft_.Before(segment);
    out.raw = before != nullptr && before->bytes == segment.bytes
                  ? before->sent_raw
                  : parse::HashBytes(*segment.bytes, parse::Domain::kRaw);
  } else if (!segment.inner.empty()) {
    out.bytes = std::make_shared<const std::string>(OwnBytes(segment));
    out.raw = parse::HashBytes(*out.bytes, parse::Domain::kRaw);
  } else {
    out.raw = segment.now->raw;
  }
  outgoing_.push_back(std::move(out));
}

void BodyWriter::AddPlanSegment(const Outgoing& out) {
  const DraftSegment& segment = draft_.segments[out.draft];
  planner::PlanSegment& plan = plan_segments_.emplace_back();
  const auto describe = [&](const auto& as) {
    plan.section = as.place.section;
    plan.role = as.role;
    plan.content = as.content;
    plan.num_tokens = as.num_tokens;
    plan.is_volatile = as.is_volatile || as.is_notice;
    plan.is_summary = as.source == parse::Source::kSummary;
  };
  if (segment.now != nullptr) {
    describe(*segment.now);
  } else {
    describe(draft_.Added(segment));
    // It stays as it is from now on.
    if (draft_.Added(segment).is_ours) plan.is_volatile = false;
    if (IsCleared(draft_, out.draft)) plan.num_tokens = 0;
  }
  plan.markable = Markable(segment);
  plan.breakpoint = out.caller;
  const PlannedString planned = PlannedOf(draft_, segment, out.bytes.get(), out.raw);
  plan.prefix = plan_end_ = parse::Chain(plan_end_, planned.words);
  if (planned.rest != parse::Identity()) plan_end_ = parse::Chain(plan_end_, planned.rest);
  if (planned.has_notice) plan.notice = plan_end_;
}

void BodyWriter::Collect() {
  outgoing_.reserve(draft_.segments.size());
  plan_segments_.reserve(draft_.segments.size());
  for (size_t i = 0; i < draft_.segments.size(); ++i) {
    const DraftSegment& segment = draft_.segments[i];
    if (!segment.dropped) {
      AddOutgoing(i);
    } else if (segment.slot->breakpoint && !outgoing_.empty() && !outgoing_.back().caller &&
               Markable(draft_.segments[outgoing_.back().draft])) {
      // The breakpoint of a dropped block moves to the block in front of it.
      outgoing_.back().caller = segment.slot->breakpoint;
    }
  }
  for (Outgoing& out : outgoing_) {
    out.planned = out.caller;
    AddPlanSegment(out);
  }
}

std::vector<Edit> BodyWriter::Write(const planner::Plan& plan) {
  edits_.clear();
  if (!options_.edits) return {};
  const bool planned = draft_.Allows(Rule::kCacheControl) && draft_.Allows(Rule::kBreakpoints);
  if (planned) {
    for (Outgoing& out : outgoing_) out.planned.reset();
    for (const planner::PlannedBreakpoint& breakpoint : plan.breakpoints) {
      if (breakpoint.segment < outgoing_.size() && plan_segments_[breakpoint.segment].markable) {
        outgoing_[breakpoint.segment].planned = breakpoint.breakpoint;
      }
    }
  }
  for (Outgoing& out : outgoing_) WriteSegment(out);
  for (size_t i = 0; i < draft_.segments.size(); ++i) {
    if (draft_.segments[i].now == nullptr) WritePutBack(i);
    if (draft_.segments[i].dropped) WriteDropped(i);
  }
  WriteFields(plan);
  parse::SortEdits(edits_);
  return std::exchange(edits_, {});
}

void BodyWriter::WriteSegment(Outgoing& out) {
  const DraftSegment& segment = draft_.segments[out.draft];
  if (segment.now == nullptr) return;
  if (segment.now->content == Content::kMessageHead) {
    WriteHead(segment);
    return;
  }
  const bool elsewhere = segment.slot != segment.now;
  if (segment.bytes || elsewhere) {
    WriteInstead(out);
  } else {
    WriteOwn(out);
  }
}

void BodyWriter::WriteOwn(Outgoing& out) {
  const DraftSegment& segment = draft_.segments[out.draft];
  const Segment& now = *segment.now;
  edits_.insert(edits_.end(), segment.inner.begin(), segment.inner.end());
  if (!now.source_span.empty() && draft_.Allows(Rule::kSourceField)) {
    Add(Rule::kSourceField, now.source_span, "", PathOf(now.place));
  }
  if (IsString(now) && out.planned && !now.breakpoint) {
    WriteList(out);
  } else {
    WriteBreakpoint(out);
  }
}

void BodyWriter::WriteList(Outgoing& out) {
  const DraftSegment& segment = draft_.segments[out.draft];
  const Segment& now = *segment.now;
  out.to_list = true;
  const Rule rule = parse::BreakpointRule(*out.planned);
  const std::string path = PathOf(now.place);
  ListForm form = ListFormOf(draft_, segment);
  for (size_t i = 0; i < form.edits.size(); ++i) {
    Edit& edit = form.edits[i];
    if (i == 1) edit.bytes.insert(form.breakpoint_in_edit, "," + BreakpointMember(*out.planned));
    Add(rule, edit.span, std::move(edit.bytes), path);
  }
  // The remembered bytes hold the list, but not the breakpoint.
  out.bytes = std::make_shared<const std::string>(std::move(form.bytes));
  out.breakpoint_at = form.breakpoint_at;
  out.raw = parse::HashBytes(*out.bytes, parse::Domain::kRaw);
}

void BodyWriter::WriteBreakpoint(const Outgoing& out) {
  const Segment& slot = *draft_.segments[out.draft].slot;
  if (!slot.breakpoint && !out.planned) return;
  const bool has_ttl =
      slot.breakpoint && !options_.ttl_supported &&
      slot.breakpoint_span.In(draft_.body).find("\"ttl\"") != std::string_view::npos;
  if (slot.breakpoint == out.planned && !(has_ttl && draft_.Allows(Rule::kTtlDropped))) return;
  const Rule rule = has_ttl && out.planned
                        ? Rule::kTtlDropped
                        : parse::BreakpointRule(out.planned ? *out.planned : *slot.breakpoint);
  const std::string path = PathOf(slot.place);
  if (slot.breakpoint) Add(rule, slot.breakpoint_span, "", path);
  if (!out.planned) return;
  const uint32_t end = slot.span.end - 1;
  Add(rule, {end, end}, "," + BreakpointMember(*out.planned), path);
}

void BodyWriter::WriteInstead(const Outgoing& out) {
  const DraftSegment& segment = draft_.segments[out.draft];
  const Segment& slot = *segment.slot;
  const std::string bytes = segment.bytes ? *segment.bytes : OwnBytes(segment);
  const std::string path = PathOf(slot.place);
  const bool moved = segment.slot != segment.now;
  const Rule rule = moved ? Rule::kToolsOrder : segment.rule;
  if (segment.as_list) {
    std::string list = bytes;
    if (out.planned) list.insert(segment.head_split, "," + BreakpointMember(*out.planned));
    Add(rule, slot.span, std::move(list), path);
    return;
  }
  if (bytes.back() != '}' || slot.span.In(draft_.body).back() != '}') {
    Add(rule, slot.span, bytes, path);
    return;
  }
  // The breakpoint goes in front of the last brace. One that is not the caller's is written as a
  // separate edit, so that it is reported under its own rule.
  std::string front = bytes.substr(0, bytes.size() - 1);
  const bool callers = out.planned && out.planned == slot.breakpoint && options_.ttl_supported;
  if (callers) front += "," + std::string(parse::BreakpointText(draft_.body, slot));
  const Span front_span = {slot.span.begin, slot.span.end - 1};
  if (front_span.In(draft_.body) != front) Add(rule, front_span, std::move(front), path);
  if (out.planned && !callers) {
    const uint32_t end = slot.span.end - 1;
    Add(parse::BreakpointRule(*out.planned), {end, end}, "," + BreakpointMember(*out.planned),
        path);
  }
}

void BodyWriter::WriteHead(const DraftSegment& segment) {
  const Segment& slot = *segment.slot;
  if (!segment.bytes && slot.source_span.empty()) return;
  const std::string path = PathOf(slot.place);
  if (!segment.bytes) {
    if (draft_.Allows(Rule::kSourceField)) {
      Add(Rule::kSourceField, slot.source_span, "", path);
    }
    return;
  }
  const std::string_view bytes = *segment.bytes;
  const Span front = {slot.span.begin, slot.blocks.begin + 1};
  const Span back = {slot.blocks.end - 1, slot.span.end};
  const std::string_view new_front = bytes.substr(0, segment.head_split);
  const std::string_view new_back = bytes.substr(segment.head_split);
  if (front.In(draft_.body) != new_front) Add(segment.rule, front, std::string(new_front), path);
  if (back.In(draft_.body) != new_back) Add(segment.rule, back, std::string(new_back), path);
}

void BodyWriter::WritePutBack(size_t index) {
  const DraftSegment& segment = draft_.segments[index];
  const SentSegment& before = draft_.Added(segment);
  if (segment.slot == nullptr && before.place.block >= 0) return;  // written with its head
  std::string bytes = *segment.bytes;
  if (segment.slot == nullptr && before.content == Content::kMessageHead) {
    std::string blocks;
    for (size_t i = index + 1; i < draft_.segments.size(); ++i) {
      const DraftSegment& block = draft_.segments[i];
      if (block.now != nullptr || draft_.Added(block).place.block < 0) break;
      blocks += (blocks.empty() ? "" : ",") + *block.bytes;
    }
    bytes.insert(segment.head_split, blocks);
  }
  // The bytes go in front of the next segment that stays; a block may also be its message's last.
  for (size_t i = index + 1; i < draft_.segments.size(); ++i) {
    const DraftSegment& next = draft_.segments[i];
    if (next.now == nullptr || next.dropped) continue;
    const bool is_block = segment.slot != nullptr;
    if (is_block && next.now->place.element != segment.slot->place.element) break;
    const uint32_t at = is_block ? next.now->span.begin : next.now->element.begin;
    Add(segment.rule, {at, at}, bytes + ",", PathOf(next.now->place));
    return;
  }
  if (segment.slot == nullptr) {
    if (!before.is_ours) return;
    const uint32_t end = draft_.layout.messages.end - 1;
    Add(segment.rule, {end, end}, "," + bytes, PathOf(before.place));
    return;
  }
  const uint32_t at = segment.slot->blocks.end - 1;
  Add(Rule::kReminderKept, {at, at}, "," + bytes, PathOf(segment.slot->place));
}

void BodyWriter::WriteDropped(size_t index) {
  const DraftSegment& segment = draft_.segments[index];
  const Segment& slot = *segment.slot;
  if (DroppedWithHead(draft_, index)) return;
  const Segment* next = nullptr;
  const Segment* previous = nullptr;
  bool kept_behind = false;
  for (size_t i = 0; i < draft_.segments.size(); ++i) {
    const DraftSegment& other = draft_.segments[i];
    if (other.now == nullptr || i == index || !InOneList(*other.now, slot)) continue;
    if (i < index) previous = other.now;
    if (i > index && next == nullptr) next = other.now;
    kept_behind = kept_behind || (i > index && !other.dropped);
  }
  Span cut = ListedSpan(slot);
  if (kept_behind) {
    cut.end = ListedSpan(*next).begin;
  } else if (previous != nullptr) {
    cut.begin = ListedSpan(*previous).end;
  }
  Add(segment.rule, cut, "", PathOf(slot.place));
}

void BodyWriter::WriteFields(const planner::Plan& plan) {
  const uint32_t end = draft_.layout.object.end - 1;
  const std::optional<parse::Breakpoint>& automatic = draft_.layout.automatic;
  if (draft_.Allows(Rule::kCacheControl) && automatic != plan.automatic) {
    if (automatic) {
      const parse::Parameter* member = draft_.layout.Find("cache_control");
      Add(Rule::kCacheControl, parse::WithComma(draft_.body, member->member), "", "cache_control");
    }
    if (plan.automatic) {
      Add(Rule::kCacheControl, {end, end}, "," + BreakpointMember(*plan.automatic),
          "cache_control");
    }
  }
  if (!plan.prompt_cache_key.empty() && draft_.Allows(Rule::kPromptCacheKey) &&
      draft_.layout.Find("prompt_cache_key") == nullptr) {
    Add(Rule::kPromptCacheKey, {end, end},
        ",\"prompt_cache_key\":" + parse::QuotedJson(plan.prompt_cache_key), "prompt_cache_key");
  }
}

uint32_t BodyWriter::HeadSplit(const Segment& head) const {
  uint32_t split = head.blocks.begin + 1 - head.span.begin;
  if (!head.source_span.empty() && head.source_span.begin < head.blocks.begin) {
    split -= head.source_span.size();
  }
  return split;
}

SentSegment BodyWriter::SentOf(const Outgoing& out, const Arena& arena) const {
  const DraftSegment& segment = draft_.segments[out.draft];
  const SentSegment* before = draft_.Before(segment);
  SentSegment sent;
  if (segment.now != nullptr) {
    const Segment& now = *segment.now;
    sent = {.place = segment.slot->place,
            .role = now.role,
            .source = now.source,
            .content = now.content,
            .same = now.same,
            .stable = now.stable,
            .said = now.said,
            .sent_raw = {},
            .bytes = nullptr,
            .breakpoint = {},
            .is_volatile = now.is_volatile,
            .has_volatile = now.has_volatile,
            .is_notice = now.is_notice,
            .num_tokens = now.num_tokens};
  } else {
    sent = draft_.Added(segment);
  }
  sent.breakpoint = out.planned;
  sent.sent_raw = out.raw;
  if (before != nullptr && before->sent_raw == out.raw) {
    sent.bytes = before->bytes;
  } else if (out.bytes) {
    sent.bytes = out.bytes;
  } else {
    sent.bytes = segment.own ? segment.own : InArena(arena, OwnBytes(segment));
  }
  return sent;
}

CallerForm BodyWriter::FormOf(const Outgoing& out, const SentSegment& sent) const {
  const DraftSegment& segment = draft_.segments[out.draft];
  const CallerForm* before = draft_.FormBefore(segment);
  CallerForm form;
  if (segment.now == nullptr) {
    if (before != nullptr) return *before;
    form.rule = segment.rule;
    form.carried = segment.carried;
    return form;
  }
  form.raw = segment.now->raw;
  form.rule = segment.rule;
  form.as_list = segment.as_list || out.to_list;
  form.head_split = out.to_list ? out.breakpoint_at : segment.head_split;
  form.held = segment.held;
  for (const UnsaidLine& line : segment.unsaid) form.unsaid.push_back(line.json);
  if (form.held.empty() && before != nullptr && !before->held.empty()) form.held = before->held;
  form.text = segment.text;
  if (!form.text && before != nullptr && before->raw == form.raw) form.text = before->text;
  const bool own = !segment.bytes && !out.bytes;
  form.carried = segment.carried;
  form.left = segment.left;
  if (own) {
    if (segment.now->content == Content::kMessageHead) form.head_split = HeadSplit(*segment.now);
    return form;
  }
  const bool as_before =
      before != nullptr && sent.bytes == draft_.Before(segment)->bytes && segment.bytes;
  if (as_before) form.carried = before->carried;
  if (as_before && draft_.Before(segment)->same == segment.now->same) {
    form.left = before->left;
    form.caller = before->caller;  // equal to what this caller wrote
  } else if (!segment.bytes || segment.as_list || segment.rule == Rule::kVolatileHeld ||
             segment.rule == Rule::kVolatileMoved || segment.rule == Rule::kUserSlots) {
    std::string assembled;
    form.caller =
        std::make_shared<const std::string>(parse::BytesOf(draft_.body, *segment.now, assembled));
    if (!segment.bytes) form.rule = out.to_list ? Rule::kCacheControl : segment.inner[0].rule;
  }
  return form;
}

size_t BodyWriter::FirstChange() const {
  const history::SentSegments& sent = draft_.branch->request.segments;
  for (size_t i = 0; i < outgoing_.size() && i < sent.size(); ++i) {
    if (outgoing_[i].raw != sent[i].sent_raw) return outgoing_[i].draft;
  }
  return draft_.segments.size();
}

int64_t BodyWriter::num_tokens() const {
  int64_t tokens = 0;
  for (const planner::PlanSegment& segment : plan_segments_) tokens += segment.num_tokens;
  return tokens;
}

int64_t BodyWriter::ttl_seconds() const {
  int64_t ttl = 0;
  for (const Outgoing& out : outgoing_) {
    if (out.planned) ttl = std::max<int64_t>(ttl, out.planned->ttl_seconds);
  }
  return ttl;
}

Place BodyWriter::PlaceOf(const Outgoing& out, const Place& last) const {
  const DraftSegment& segment = draft_.segments[out.draft];
  Place place = segment.now != nullptr ? segment.slot->place : draft_.Added(segment).place;
  if (place.element < 0) return place;
  const bool is_block = place.block >= 0;
  place.element = last.field == place.field ? last.element + (is_block ? 0 : 1) : 0;
  if (is_block) place.block = last.block + 1;
  return place;
}

bool BodyWriter::IsAsBefore(size_t begin, size_t end, Place last) const {
  for (size_t i = begin; i < end; ++i) {
    const Outgoing& out = outgoing_[i];
    const DraftSegment& segment = draft_.segments[out.draft];
    if (segment.before != static_cast<int32_t>(i)) return false;
    const SentSegment& before = *draft_.Before(segment);
    last = PlaceOf(out, last);
    if (before.sent_raw != out.raw || before.breakpoint != out.planned || !(before.place == last)) {
      return false;
    }
    if (segment.now == nullptr) continue;
    const Segment& now = *segment.now;
    const bool same_value = before.same == now.same && before.source == now.source &&
                            before.role == now.role && before.content == now.content;
    if (!same_value || !segment.held.empty() || draft_.FormBefore(segment)->raw != now.raw) {
      return false;
    }
  }
  return true;
}

void BodyWriter::Fill(history::Branch& branch) const {
  const Arena arena = std::make_shared<std::deque<std::string>>();
  history::SentSegments& segments = branch.request.segments;
  const history::Branch* before = draft_.branch.get();
  Place last;
  for (size_t i = 0; i < outgoing_.size();) {
    const size_t end = i + history::SentSegments::kChunkSize;
    if (before != nullptr && end <= outgoing_.size() &&
        segments.CanShare(before->request.segments) && IsAsBefore(i, end, last)) {
      segments.Share(before->request.segments);
      branch.forms.Share(before->forms);
      last = segments.back().place;
      i = end;
      continue;
    }
    const Outgoing& out = outgoing_[i++];
    SentSegment sent = SentOf(out, arena);
    CallerForm form = FormOf(out, sent);
    last = sent.place = PlaceOf(out, last);
    const size_t sent_bytes = sizeof(sent) + (sent.bytes ? sent.bytes->size() : 0);
    segments.push_back(std::move(sent), sent_bytes);
    size_t form_bytes = sizeof(form) + (form.caller ? form.caller->size() : 0);
    for (const templates::CarriedLine& line : form.carried) form_bytes += line.json.size();
    if (form.text) form_bytes += form.text->num_bytes();
    for (const history::Ephemeral& left : form.left) form_bytes += left.text.size();
    branch.forms.push_back(std::move(form), form_bytes);
  }
  branch.bytes += sizeof(history::Branch) + segments.num_bytes() + branch.forms.num_bytes();
}

}  // namespace kvgate::prompt::rewrite
