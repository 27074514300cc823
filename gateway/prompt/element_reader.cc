#include "gateway/prompt/parse/element_reader.h"

#include <array>
#include <bitset>

namespace kvgate::prompt {
namespace {

// The members that are told apart; the last one is any other.
enum Field : uint8_t {
  kType,
  kRole,
  kName,
  kText,
  kContent,
  kOutput,
  kToolCalls,
  kCacheControl,
  kBreakpoint,
  kKvgateSource,
  kOther,
};
constexpr std::array<std::string_view, kOther> kFieldNames = {
    "type",         "role",          "name",
    "text",         "content",       "output",
    "tool_calls",   "cache_control", "prompt_cache_breakpoint",
    "kvgate_source"};

// Most members are none of them: a name's length and first letter say so.
Field FieldOf(std::string_view raw) {
  if (raw.empty()) return kOther;
  const auto is = [&](Field field) { return raw == kFieldNames[field] ? field : kOther; };
  switch (raw.size() << 8 | static_cast<unsigned char>(raw[0])) {
    case 4 << 8 | 't':
      return raw == "type" ? kType : is(kText);
    case 4 << 8 | 'r':
      return is(kRole);
    case 4 << 8 | 'n':
      return is(kName);
    case 7 << 8 | 'c':
      return is(kContent);
    case 6 << 8 | 'o':
      return is(kOutput);
    case 10 << 8 | 't':
      return is(kToolCalls);
    case 13 << 8 | 'c':
      return is(kCacheControl);
    case 23 << 8 | 'p':
      return is(kBreakpoint);
    case 13 << 8 | 'k':
      return is(kKvgateSource);
    default:
      break;
  }
  if (raw.find('\\') == std::string_view::npos) return kOther;
  for (size_t i = 0; i < kFieldNames.size(); ++i) {
    if (NameIs(raw, kFieldNames[i])) return static_cast<Field>(i);
  }
  return kOther;
}

std::string_view Unquoted(std::string_view value) {
  if (value.size() < 2 || value.front() != '"') return {};
  return value.substr(1, value.size() - 2);
}

class Reader {
 public:
  Reader(std::string_view body, Skimmer& skimmer, ReadObject& object,
         std::vector<ReadObject>* blocks)
      : body_(body), skimmer_(skimmer), object_(object), blocks_(blocks) {}

  std::string Run() {
    skimmer_.Peek();
    object_.span.begin = skimmer_.at();
    const bool whole = skimmer_.Object([&](const Skimmer::Name& name) { return Member(name); });
    object_.span.end = skimmer_.at();
    if (!whole && why_.empty()) why_ = "no whole object";
    return why_;
  }

 private:
  bool Member(const Skimmer::Name& name) {
    const Field field = FieldOf(name.span.In(body_));
    if (field != kOther && seen_.test(field)) {
      why_ = "twice the member \"" + std::string(kFieldNames[field]) + "\"";
      return false;
    }
    if (field != kOther) seen_.set(field);
    if (field == kContent && blocks_ != nullptr && skimmer_.Peek() == '[') return Blocks();
    const std::optional<Span> value = skimmer_.Value();
    if (!value) return false;
    const bool is_name = field == kType || field == kRole;
    if (is_name && value->In(body_).find('\\') != std::string_view::npos) {
      why_ = "a role or type that is spelled with escapes";
      return false;
    }
    if (!Lifted(field, name, *value)) {
      kept_ = true;
      Keep(field, *value);
    }
    return true;
  }

  bool Blocks() {
    const uint32_t begin = skimmer_.at();
    kept_ = true;
    object_.has_content = true;
    const bool whole = skimmer_.List([&] {
      if (skimmer_.Peek() != '{') {
        why_ = "a content that is no list of objects";
        return false;
      }
      why_ = ReadElement(body_, skimmer_, blocks_->emplace_back(), nullptr);
      return why_.empty();
    });
    object_.blocks = {begin, skimmer_.at()};
    return whole;
  }

  bool Lifted(Field field, const Skimmer::Name& name, Span value) {
    if (field == kKvgateSource) {
      object_.source = Unquoted(value.In(body_));
      object_.source_span = MemberSpan(body_, name, value.end, !kept_);
      return true;
    }
    if ((field != kCacheControl && field != kBreakpoint) || object_.marker) return false;
    object_.marker = ReadMarker(kFieldNames[field], value.In(body_));
    if (object_.marker) object_.marker_span = MemberSpan(body_, name, value.end, !kept_);
    return object_.marker.has_value();
  }

  void Keep(Field field, Span value) {
    const std::string_view text = Unquoted(value.In(body_));
    const bool is_string = value.In(body_).front() == '"';
    if (field == kType) object_.type = text;
    if (field == kRole) object_.role = text;
    if (field == kName) object_.name = text;
    if (field == kToolCalls) object_.has_tool_calls = value.In(body_).front() == '[';
    if (field == kContent) object_.has_content = true;
    const bool holds_text = field == kText || field == kContent || field == kOutput;
    if (holds_text && is_string) object_.text = value;
  }

  std::string_view body_;
  Skimmer& skimmer_;
  ReadObject& object_;
  std::vector<ReadObject>* blocks_;
  std::bitset<kOther> seen_;
  bool kept_ = false;  // a member that stays has been seen
  std::string why_;
};

}  // namespace

std::string ReadElement(std::string_view body, Skimmer& skimmer, ReadObject& object,
                        std::vector<ReadObject>* blocks) {
  return Reader(body, skimmer, object, blocks).Run();
}

std::optional<Marker> ReadMarker(std::string_view name, std::string_view value) {
  Skimmer skimmer(value);
  std::string_view kind;
  std::string_view ttl;
  const bool whole = skimmer.Object([&](const Skimmer::Name& member) {
    const std::optional<Span> inside = skimmer.Value();
    if (!inside) return false;
    const std::string_view key = member.span.In(value);
    if (key == "type" || key == "mode") kind = Unquoted(inside->In(value));
    if (key == "ttl") ttl = Unquoted(inside->In(value));
    return true;
  });
  if (!whole) return std::nullopt;
  if (name == "prompt_cache_breakpoint") {
    if (kind != "explicit") return std::nullopt;
    return Marker{.kind = MarkerKind::kBreakpoint, .ttl_seconds = 0};
  }
  if (kind != "ephemeral" || (!ttl.empty() && ttl != "5m" && ttl != "1h")) return std::nullopt;
  return Marker{.kind = MarkerKind::kCacheControl, .ttl_seconds = ttl == "1h" ? 3600 : 300};
}

}  // namespace kvgate::prompt
