#include "gateway/prompt/parse/element_reader.h"

#include <array>
#include <bitset>

namespace kvgate::prompt::parse {
namespace {

// The members that are distinguished; kOther stands for all the rest.
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
  kParts,
  kThought,
  kOther,
};
constexpr std::array<std::string_view, kOther> kFieldNames = {
    "type",          "role",          "name",
    "text",          "content",       "output",
    "tool_calls",    "cache_control", "prompt_cache_breakpoint",
    "kvgate_source", "parts",         "thought"};

// The members that say what a part of Gemini's is, in both of their spellings.
constexpr std::string_view kPartNames[] = {
    "functionCall",      "function_call",       "functionResponse",
    "function_response", "inlineData",          "inline_data",
    "fileData",          "file_data",           "executableCode",
    "executable_code",   "codeExecutionResult", "code_execution_result"};

// Length and first letter rule out most names without a string comparison.
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
    case 5 << 8 | 'p':
      return is(kParts);
    case 7 << 8 | 't':
      return is(kThought);
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
  Reader(std::string_view body, JsonScanner& scanner, ReadObject& object,
         std::vector<ReadObject>* blocks, BlockForm form)
      : body_(body), scanner_(scanner), object_(object), blocks_(blocks), form_(form) {}

  std::string Run() {
    scanner_.Peek();
    object_.span.begin = scanner_.at();
    const bool whole = scanner_.Object([&](const JsonScanner::Name& name) { return Member(name); });
    object_.span.end = scanner_.at();
    if (!whole && why_.empty()) why_ = "no whole object";
    return why_;
  }

 private:
  bool Member(const JsonScanner::Name& name) {
    Field field = FieldOf(name.span.In(body_));
    const bool has_parts = form_ == BlockForm::kParts;
    if (!has_parts && (field == kParts || field == kThought)) field = kOther;
    if (field != kOther && seen_.test(field)) {
      why_ = "twice the member \"" + std::string(kFieldNames[field]) + "\"";
      return false;
    }
    if (field != kOther) seen_.set(field);
    const bool is_list = field == (has_parts ? kParts : kContent);
    if (is_list && blocks_ != nullptr && scanner_.Peek() == '[') return Blocks();
    const std::optional<Span> value = scanner_.Value();
    if (!value) return false;
    const bool is_name = field == kType || field == kRole;
    if (is_name && value->In(body_).find('\\') != std::string_view::npos) {
      why_ = "a role or type that is spelled with escapes";
      return false;
    }
    if (!Lifted(field, name, *value)) {
      kept_ = true;
      if (has_parts && field == kOther) KeepPart(name.span.In(body_), *value);
      Keep(field, *value);
    }
    return true;
  }

  bool Blocks() {
    const uint32_t begin = scanner_.at();
    kept_ = true;
    object_.has_content = true;
    const bool whole = scanner_.List([&] {
      if (scanner_.Peek() != '{') {
        why_ = "a content that is no list of objects";
        return false;
      }
      why_ = ReadElement(body_, scanner_, blocks_->emplace_back(), nullptr, form_);
      return why_.empty();
    });
    object_.blocks = {begin, scanner_.at()};
    return whole;
  }

  bool Lifted(Field field, const JsonScanner::Name& name, Span value) {
    if (field == kKvgateSource) {
      object_.source = Unquoted(value.In(body_));
      object_.source_span = MemberSpan(body_, name, value.end, !kept_);
      return true;
    }
    if ((field != kCacheControl && field != kBreakpoint) || object_.breakpoint) return false;
    object_.breakpoint = ReadBreakpoint(kFieldNames[field], value.In(body_));
    if (object_.breakpoint) object_.breakpoint_span = MemberSpan(body_, name, value.end, !kept_);
    return object_.breakpoint.has_value();
  }

  void KeepPart(std::string_view name, Span value) {
    if (value.In(body_).front() != '{') return;
    for (const std::string_view known : kPartNames) {
      if (name == known) object_.part = known;
    }
  }

  void Keep(Field field, Span value) {
    const std::string_view text = Unquoted(value.In(body_));
    const bool is_string = value.In(body_).front() == '"';
    if (field == kType) object_.type = text;
    if (field == kRole) object_.role = text;
    if (field == kName) object_.name = text;
    if (field == kToolCalls) object_.has_tool_calls = value.In(body_).front() == '[';
    if (field == kContent) object_.has_content = true;
    if (field == kThought) object_.is_thought = value.In(body_) == "true";
    const bool holds_text = field == kText || field == kContent || field == kOutput;
    if (holds_text && is_string) object_.text = value;
  }

  std::string_view body_;
  JsonScanner& scanner_;
  ReadObject& object_;
  std::vector<ReadObject>* blocks_;
  const BlockForm form_;
  std::bitset<kOther> seen_;
  bool kept_ = false;  // a member that is not lifted out has been seen
  std::string why_;
};

}  // namespace

std::string ReadElement(std::string_view body, JsonScanner& scanner, ReadObject& object,
                        std::vector<ReadObject>* blocks, BlockForm form) {
  return Reader(body, scanner, object, blocks, form).Run();
}

std::optional<Breakpoint> ReadBreakpoint(std::string_view name, std::string_view value) {
  JsonScanner scanner(value);
  std::string_view kind;
  std::string_view ttl;
  const bool whole = scanner.Object([&](const JsonScanner::Name& member) {
    const std::optional<Span> inside = scanner.Value();
    if (!inside) return false;
    const std::string_view key = member.span.In(value);
    if (key == "type" || key == "mode") kind = Unquoted(inside->In(value));
    if (key == "ttl") ttl = Unquoted(inside->In(value));
    return true;
  });
  if (!whole) return std::nullopt;
  if (name == "prompt_cache_breakpoint") {
    if (kind != "explicit") return std::nullopt;
    return Breakpoint{.kind = BreakpointKind::kBreakpoint, .ttl_seconds = 0};
  }
  if (kind != "ephemeral" || (!ttl.empty() && ttl != "5m" && ttl != "1h")) return std::nullopt;
  return Breakpoint{.kind = BreakpointKind::kCacheControl, .ttl_seconds = ttl == "1h" ? 3600 : 300};
}

}  // namespace kvgate::prompt::parse
