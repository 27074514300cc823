#include "gateway/prompt/rewrite/pin.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "gateway/prompt/parse/canonical.h"
#include "gateway/prompt/parse/json_scanner.h"
#include "gateway/prompt/parse/segment_text.h"
#include "gateway/prompt/rewrite/thinking.h"

namespace kvgate::prompt::rewrite {

using history::TenantMemory;
using parse::Content;
using parse::Identity;
using parse::Rule;
using parse::Section;
using parse::Segment;

namespace {

// Providers accept a few hundred tools at a time.
constexpr size_t kToolsRememberedMax = 1024;

bool IsTool(const DraftSegment& segment) {
  return segment.slot != nullptr && segment.slot->place.section == Section::kTools;
}

// Other bytes would lose a kvgate_source that is to stay.
bool KeepsSource(const Draft& draft, const DraftSegment& segment) {
  return !segment.now->source_span.empty() && !draft.Allows(Rule::kSourceField);
}

bool HasNoSplice(const Draft& draft, const DraftSegment& segment) {
  const Content content = segment.now->content;
  return content == Content::kMedia || content == Content::kThinking || KeepsSource(draft, segment);
}

// Returns the rule under which two values of one identity are equal; nullopt if they are not.
std::optional<Rule> EqualBy(std::string_view now, std::string_view sent, Content content) {
  if (now == sent) return Rule::kFirstSeenBytes;
  for (const bool folded : {false, true}) {
    const parse::CanonicalForm form = {.newlines_folded = folded, .cut = parse::Cut::kNone};
    const std::optional<std::string> left = parse::CanonicalText(now, content, form);
    if (!left || left != parse::CanonicalText(sent, content, form)) continue;
    return folded ? Rule::kNewlines : Rule::kFirstSeenBytes;
  }
  return std::nullopt;
}

std::string_view NameOf(std::string_view json, int depth) {
  std::string_view name;
  parse::JsonScanner scanner(json);
  scanner.Object([&](const parse::JsonScanner::Name& member) {
    const std::optional<parse::Span> value = scanner.Value();
    if (!value) return false;
    const std::string_view key = member.span.In(json);
    if (key == "name") name = value->In(json);
    if (key == "function" && depth == 0 && name.empty()) name = NameOf(value->In(json), 1);
    return true;
  });
  return name;
}

// Returns the indexes of `tools` in the order of `known`; unknown tools follow in their own order.
std::vector<size_t> OrderBy(const std::vector<Identity>& known,
                            const std::vector<Identity>& tools) {
  std::unordered_map<Identity, size_t> rank;
  for (size_t i = 0; i < known.size(); ++i) rank.emplace(known[i], i);
  std::vector<size_t> order(tools.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto rank_of = [&](size_t i) {
    const auto found = rank.find(tools[i]);
    return found == rank.end() ? known.size() : found->second;
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return rank_of(a) < rank_of(b); });
  return order;
}

void OrderTools(Draft& draft, size_t num_tools, const std::vector<Identity>& known) {
  const std::vector<Identity> keys = draft.tool_keys;
  if (std::unordered_set<Identity>(keys.begin(), keys.end()).size() != keys.size()) {
    draft.notes.push_back("tools: two of one name, their order is left alone");
    return;
  }
  for (size_t i = 0; i < num_tools; ++i) {
    if (KeepsSource(draft, draft.segments[i])) return;
  }
  const std::vector<size_t> order = OrderBy(known, keys);
  const std::vector<DraftSegment> tools(draft.segments.begin(), draft.segments.begin() + num_tools);
  for (size_t i = 0; i < num_tools; ++i) {
    DraftSegment& out = draft.segments[i];
    const Segment* slot = out.slot;
    out = tools[order[i]];
    out.slot = slot;
    draft.tool_keys[i] = keys[order[i]];
  }
}

void UseTenantBytes(Draft& draft, DraftSegment& segment, TenantMemory& tenants,
                    const TenantMemory::Scope& scope) {
  const Segment& now = *segment.now;
  if (now.place.section == Section::kMessages || now.content == Content::kMessageHead) return;
  const std::shared_ptr<const std::string> bytes =
      draft.is_dry ? tenants.PeekBytes(scope, now.same) : tenants.FindBytes(scope, now.same);
  if (!bytes || KeepsSource(draft, segment)) return;
  std::string assembled;
  const std::string_view own = parse::BytesOf(draft.body, now, assembled);
  if (own == *bytes) {
    segment.own = bytes;
    return;
  }
  const std::optional<Rule> rule = EqualBy(own, *bytes, now.content);
  if (!rule || !draft.Allows(*rule)) return;
  segment.bytes = bytes;
  segment.rule = *rule;
}

// Pairs a turn with one that was sent, up to the first difference; false if there is one. Thinking
// that was not sent there stays out.
bool PairTurn(Draft& draft, const history::SentSegments& sent, const Element& before,
              const Element& turn) {
  const auto num_others = [&](const auto& segments, const Element& element) {
    size_t count = 0;
    for (size_t i = element.first; i < element.first + element.count; ++i) {
      count += draft.binds_thinking && parse::IsThinking(segments[i]) ? 0 : 1;
    }
    return count;
  };
  if (num_others(sent, before) != num_others(draft.layout.segments, turn)) return false;
  const size_t before_end = before.first + before.count;
  size_t b = before.first;
  for (size_t i = turn.first; i < turn.first + turn.count; ++i) {
    DraftSegment& out = draft.segments[i];
    if (b < before_end && sent[b].same == out.now->same && sent[b].content == out.now->content) {
      out.before = static_cast<int32_t>(b++);
    } else if (draft.binds_thinking && parse::IsThinking(*out.now)) {
      LeaveOut(out);
    } else {
      return false;
    }
  }
  return b == before_end;
}

// Pairs the turns from the front up to the first one that differs.
void PairTurns(Draft& draft, const history::SentSegments& sent) {
  const std::vector<Element> before = ElementsOf(sent, Section::kMessages);
  const std::vector<Element> turns = ElementsOf(draft.layout.segments, Section::kMessages);
  size_t b = 0;
  for (const Element& turn : turns) {
    while (b < before.size() && sent[before[b].first].is_ours) ++b;
    if (b == before.size()) return;
    if (WasLeftOut(draft, before[b], turn)) {
      std::for_each_n(draft.segments.begin() + static_cast<ptrdiff_t>(turn.first), turn.count,
                      LeaveOut);
    } else if (!PairTurn(draft, sent, before[b++], turn)) {
      return;
    }
  }
}

// Pairs parts of the system prompt by their stable identity, else by position.
void PairSystem(Draft& draft, const history::SentSegments& sent) {
  const std::vector<Segment>& now = draft.layout.segments;
  const std::vector<Element> before = ElementsOf(sent, Section::kSystem);
  const std::vector<Element> system = ElementsOf(now, Section::kSystem);
  const auto fits = [&](const Element& old, const Element& part, bool stable) {
    if (old.count != part.count) return false;
    for (size_t k = 0; k < part.count; ++k) {
      const history::SentSegment& one = sent[old.first + k];
      const Segment& other = now[part.first + k];
      if (one.content != other.content || (stable && one.stable != other.stable)) return false;
    }
    return true;
  };
  size_t cursor = 0;
  for (size_t i = 0; i < system.size(); ++i) {
    size_t b = cursor;
    while (b < before.size() && !fits(before[b], system[i], true)) ++b;
    if (b == before.size()) {
      if (before.size() != system.size() || !fits(before[i], system[i], false)) continue;
      b = i;
    }
    for (size_t k = 0; k < system[i].count; ++k) {
      draft.segments[system[i].first + k].before = static_cast<int32_t>(before[b].first + k);
    }
    cursor = b + 1;
  }
}

}  // namespace

std::vector<Identity> ToolsOrder(const history::Branch* before, const std::vector<Identity>& sent) {
  if (before == nullptr || before->tools_order.empty()) return sent;
  std::vector<Identity> order = before->tools_order;
  if (sent == before->tool_keys) return order;
  const std::unordered_set<Identity> known(order.begin(), order.end());
  std::copy_if(sent.begin(), sent.end(), std::back_inserter(order),
               [&](const Identity& tool) { return !known.contains(tool); });
  return order.size() <= kToolsRememberedMax ? order : sent;
}

Identity ToolKey(std::string_view body, const Segment& tool) {
  const std::string_view name = NameOf(tool.span.In(body), 0);
  return name.empty() ? tool.same : parse::HashBytes(name, parse::Domain::kTools);
}

void PairWithBranch(Draft& draft) {
  size_t num_tools = 0;
  while (num_tools < draft.segments.size() && IsTool(draft.segments[num_tools])) ++num_tools;
  for (size_t i = 0; i < num_tools; ++i) {
    draft.tool_keys.push_back(ToolKey(draft.body, *draft.segments[i].now));
  }
  if (!draft.branch) return;
  const std::vector<Identity>& before = draft.branch->tool_keys;
  for (size_t i = 0; i < num_tools; ++i) {
    const auto found = std::find(before.begin(), before.end(), draft.tool_keys[i]);
    if (found == before.end()) continue;
    draft.segments[i].before = static_cast<int32_t>(found - before.begin());
  }
  PairSystem(draft, draft.branch->request.segments);
  // If the provider holds the history, the turns of two requests do not continue one list.
  if (parse::HoldsHistory(draft.body, draft.layout))
    PairTurns(draft, draft.branch->request.segments);
}

bool UseSentBytes(Draft& draft, DraftSegment& segment) {
  const history::SentSegment* before = draft.Before(segment);
  if (before == nullptr || before->same != segment.now->same) return false;
  if (before->sent_raw == segment.now->raw) return true;
  if (!before->bytes || HasNoSplice(draft, segment)) return true;
  const history::CallerForm& form = *draft.FormBefore(segment);
  Rule rule = form.rule;
  if (segment.now->raw != form.raw) {
    std::string assembled;
    const std::string_view own = parse::BytesOf(draft.body, *segment.now, assembled);
    const std::string* caller = CallerBytes(*draft.branch, segment.before);
    const std::optional<Rule> equal =
        caller == nullptr ? std::nullopt : EqualBy(own, *caller, segment.now->content);
    if (!equal) return false;
    if (!form.caller) rule = *equal;
  }
  if (!draft.Allows(rule)) return true;
  segment.bytes = before->bytes;
  segment.head_split = form.head_split;
  segment.rule = rule;
  segment.as_list = form.as_list;
  return true;
}

void Pin(Draft& draft, TenantMemory& tenants, const TenantMemory::Scope& scope) {
  const size_t num_tools = draft.tool_keys.size();
  if (num_tools > 0 && draft.Allows(Rule::kToolsOrder)) {
    const bool has_before = draft.branch && !draft.branch->tools_order.empty();
    OrderTools(draft, num_tools,
               has_before ? draft.branch->tools_order : tenants.FindOrder(scope, draft.tool_keys));
  }
  for (DraftSegment& segment : draft.segments) {
    if (segment.now == nullptr || segment.dropped || segment.bytes) continue;
    if (!segment.inner.empty()) continue;
    if (!UseSentBytes(draft, segment)) UseTenantBytes(draft, segment, tenants, scope);
  }
}

}  // namespace kvgate::prompt::rewrite
