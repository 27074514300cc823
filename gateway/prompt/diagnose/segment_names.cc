#include "gateway/prompt/diagnose/segment_names.h"

#include "gateway/ledger/segment/tool_server.h"
#include "gateway/prompt/parse/json_scanner.h"

namespace kvgate::prompt::diagnose {
namespace {

using parse::Content;
using parse::JsonScanner;
using parse::Span;

constexpr size_t kNameBytesMax = 128;

bool MayName(const history::SentSegment& segment) {
  return segment.content == Content::kTool || segment.content == Content::kToolCall ||
         segment.content == Content::kToolResult || segment.content == Content::kMessageHead;
}

// Calls visit(name, value) for each member of the object that `bytes` begin with.
template <typename Visit>
void ForEachMember(std::string_view bytes, Visit visit) {
  JsonScanner scanner(bytes);
  (void)scanner.Object([&](const JsonScanner::Name& name) {
    const std::optional<Span> value = scanner.Value();
    if (!value) return false;
    visit(name.span.In(bytes), value->In(bytes));
    return true;
  });
}

template <typename Visit>
void ForEachElement(std::string_view bytes, Visit visit) {
  JsonScanner scanner(bytes);
  (void)scanner.List([&] {
    const std::optional<Span> value = scanner.Value();
    if (value) visit(value->In(bytes));
    return value.has_value();
  });
}

void TakeText(std::string_view json, std::string& text) {
  std::string read;
  if (!parse::DecodeString(json, read)) return;
  text = read.substr(0, kNameBytesMax);
}

// {"id", "function": {"name"}} of Chat Completions.
void ReadCall(std::string_view bytes, ToolFacts& facts) {
  std::pair<std::string, std::string> call;
  ForEachMember(bytes, [&](std::string_view name, std::string_view value) {
    if (parse::NameIs(name, "id")) TakeText(value, call.first);
    if (!parse::NameIs(name, "function") && !parse::NameIs(name, "custom")) return;
    ForEachMember(value, [&](std::string_view inner, std::string_view held) {
      if (parse::NameIs(inner, "name")) TakeText(held, call.second);
    });
  });
  if (!call.first.empty()) facts.calls.push_back(std::move(call));
}

void ReadTool(std::string_view name, std::string_view value, ToolFacts& facts) {
  if (parse::NameIs(name, "function") || parse::NameIs(name, "custom")) {
    ForEachMember(value, [&](std::string_view inner, std::string_view held) {
      if (parse::NameIs(inner, "name")) TakeText(held, facts.name);
    });
  } else if (parse::NameIs(name, "server_label")) {
    TakeText(value, facts.server);
  } else if (parse::NameIs(name, "name")) {
    TakeText(value, facts.name);
  }
}

}  // namespace

ToolFacts ReadToolFacts(std::string_view bytes, Content content) {
  ToolFacts facts;
  std::string id;
  std::string name;
  std::string type;
  ForEachMember(bytes, [&](std::string_view member, std::string_view value) {
    if (content == Content::kTool) ReadTool(member, value, facts);
    if (content == Content::kTool && parse::NameIs(member, "type")) TakeText(value, type);
    const bool is_result = parse::NameIs(member, "tool_call_id") ||
                           parse::NameIs(member, "tool_use_id") ||
                           (content == Content::kToolResult && parse::NameIs(member, "call_id"));
    if (is_result) TakeText(value, facts.result);
    if (parse::NameIs(member, "tool_calls")) {
      ForEachElement(value, [&](std::string_view call) { ReadCall(call, facts); });
    }
    if (content != Content::kToolCall) return;
    // A function_call has both an item's id and its call's.
    const bool is_id = parse::NameIs(member, "call_id") ||
                       (id.empty() && parse::NameIs(member, "id"));
    if (is_id) TakeText(value, id);
    if (parse::NameIs(member, "name")) TakeText(value, name);
  });
  if (!id.empty() && !name.empty()) facts.calls.emplace_back(std::move(id), std::move(name));
  if (content != Content::kTool) return facts;
  if (type == "namespace") facts.server = facts.name;
  // Tools of the provider's own have a type alone: "web_search".
  if (facts.name.empty()) facts.name = facts.server.empty() ? type : facts.server;
  return facts;
}

SegmentNames::Facts SegmentNames::Find(const history::SentSegment& segment) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = young_.find(segment.sent_raw); found != young_.end()) {
      return found->second;
    }
    if (const auto found = old_.find(segment.sent_raw); found != old_.end()) {
      Facts facts = found->second;
      young_.emplace(segment.sent_raw, facts);
      return facts;
    }
  }
  if (segment.bytes == nullptr) return std::make_shared<const ToolFacts>();
  auto facts = std::make_shared<const ToolFacts>(ReadToolFacts(*segment.bytes, segment.content));
  const std::lock_guard lock(mutex_);
  if (young_.size() >= generation_max_) {
    old_ = std::move(young_);
    young_.clear();
  }
  young_.emplace(segment.sent_raw, facts);
  return facts;
}

std::vector<SegmentNames::Named> SegmentNames::Of(const history::SentSegments& segments) {
  std::vector<Named> names(segments.size());
  std::unordered_map<std::string, std::string> called;  // names of tools by call
  for (size_t i = 0; i < segments.size(); ++i) {
    if (!MayName(segments[i])) continue;
    const Facts facts = Find(segments[i]);
    for (const auto& [id, name] : facts->calls) called.insert_or_assign(id, name);
    Named& named = names[i];
    if (segments[i].content == Content::kTool) {
      named.name = facts->name;
      named.server = facts->server;
    } else if (!facts->result.empty()) {
      const auto found = called.find(facts->result);
      if (found != called.end()) named.name = found->second;
    }
    if (named.server.empty()) named.server = ledger::segment::ServerOf(named.name);
  }
  return names;
}

}  // namespace kvgate::prompt::diagnose
