#include "gateway/replay/rendering.h"

#include <simdjson.h>

#include <algorithm>
#include <utility>

namespace kvgate::replay {
namespace {

using Element = simdjson::dom::element;
using Object = simdjson::dom::object;
using Array = simdjson::dom::array;

constexpr int32_t kFiveMinutes = 300;
constexpr int32_t kHour = 3600;
constexpr std::string_view kCacheControl = "cache_control";
constexpr std::string_view kBreakpoint = "prompt_cache_breakpoint";
constexpr std::string_view kBillingHeader = R"({"type":"text","text":"x-anthropic-billing-header:)";

std::string_view TextOr(Element value, std::string_view fallback) {
  std::string_view text;
  return value.get_string().get(text) == simdjson::SUCCESS ? text : fallback;
}

// Returns the member of that name; the last one if there are several.
std::optional<Element> Find(Object object, std::string_view name) {
  std::optional<Element> found;
  for (const auto field : object) {
    if (field.key == name) found = field.value;
  }
  return found;
}

std::optional<Element> Find(Element value, std::string_view name) {
  Object object;
  if (value.get_object().get(object) != simdjson::SUCCESS) return std::nullopt;
  return Find(object, name);
}

bool IsNull(const std::optional<Element>& value) { return !value || value->is_null(); }

std::string TextAt(Element value, std::string_view name) {
  const std::optional<Element> found = Find(value, name);
  return found ? std::string(TextOr(*found, "")) : std::string();
}

std::string ToJson(const std::optional<Element>& value) {
  return IsNull(value) ? "null" : std::string(simdjson::minify(*value));
}

std::string Quoted(std::string_view text) {
  // A key that needed escapes is written with its decoded bytes, because it is compared, not
  // parsed.
  return '"' + std::string(text) + '"';
}

// Returns the JSON of an object without one of its members; other values unchanged.
std::string JsonWithout(Element value, std::string_view name) {
  Object object;
  if (value.get_object().get(object) != simdjson::SUCCESS) return simdjson::minify(value);
  std::string out = "{";
  for (const auto field : object) {
    if (field.key == name) continue;
    if (out.size() > 1) out += ',';
    out += Quoted(field.key) + ':' + std::string(simdjson::minify(field.value));
  }
  return out + '}';
}

// Returns the elements of a list; none for other values.
std::vector<Element> ElementsOf(const std::optional<Element>& value) {
  std::vector<Element> elements;
  Array array;
  if (value && value->get_array().get(array) == simdjson::SUCCESS) {
    for (const Element element : array) elements.push_back(element);
  }
  return elements;
}

// --- Messages

std::optional<int32_t> TtlOf(const std::optional<Element>& control) {
  if (IsNull(control)) return std::nullopt;
  return TextAt(*control, "ttl") == "1h" ? kHour : kFiveMinutes;
}

std::string WhyUnmarkable(Element block) {
  const std::string type = TextAt(block, "type");
  if (type == "thinking" || type == "redacted_thinking") {
    return "cache_control cannot be set on thinking blocks.";
  }
  if (type == "text" && TextAt(block, "text").empty()) {
    return "cache_control cannot be set for empty text blocks.";
  }
  return "";
}

Item BlockItem(Part part, Element block, std::string_view role) {
  return {.part = part,
          .text = std::string(role) + JsonWithout(block, kCacheControl),
          .unmarkable = WhyUnmarkable(block),
          .breakpoint_ttl = TtlOf(Find(block, kCacheControl))};
}

// A string counts as one text block.
Item TextItem(Part part, Element text, std::string_view role) {
  return {.part = part,
          .text = std::string(role) + R"({"type":"text","text":)" +
                  std::string(simdjson::minify(text)) + '}'};
}

bool IsText(const std::optional<Element>& value) { return value && value->is_string(); }

void AddMessage(Element message, Rendering& out) {
  const std::string role = TextAt(message, "role") + ':';
  const std::optional<Element> content = Find(message, "content");
  const size_t before = out.items.size();
  if (IsText(content)) out.items.push_back(TextItem(Part::kMessages, *content, role));
  for (const Element block : ElementsOf(content)) {
    out.items.push_back(BlockItem(Part::kMessages, block, role));
  }
  if (out.items.size() == before) return;
  out.items.back().ends_message = true;
  out.items.back().ends_turn = role == "user:";
}

// Features whose first use or removal loses cached parts: citations in any document, and any image.
struct Toggles {
  bool citations = false;
  bool images = false;
};

void Look(Element value, Toggles& toggles) {
  if (const std::optional<Element> citations = Find(value, "citations")) {
    const std::optional<Element> enabled = Find(*citations, "enabled");
    bool is_on = false;
    if (enabled && enabled->get_bool().get(is_on) == simdjson::SUCCESS && is_on) {
      toggles.citations = true;
    }
  }
  if (TextAt(value, "type") == "image") toggles.images = true;
  for (const Element part : ElementsOf(Find(value, "content"))) Look(part, toggles);
}

// Asking for the default effort is the same as not asking.
std::string OutputConfig(const std::optional<Element>& config) {
  if (IsNull(config)) return "null";
  if (TextAt(*config, "effort") != "high") return ToJson(config);
  const std::string rest = JsonWithout(*config, "effort");
  return rest == "{}" ? "null" : rest;
}

Rendering RenderMessages(Object body) {
  Rendering out;
  Toggles toggles;
  std::string web_search;
  for (const Element tool : ElementsOf(Find(body, "tools"))) {
    if (TextAt(tool, "type").starts_with("web_search") && IsNull(Find(tool, kCacheControl))) {
      web_search += ToJson(tool);  // toggling it keeps the other tools' prefix
      continue;
    }
    out.items.push_back(BlockItem(Part::kTools, tool, ""));
  }
  const std::optional<Element> system = Find(body, "system");
  if (IsText(system)) out.items.push_back(TextItem(Part::kSystem, *system, ""));
  for (const Element block : ElementsOf(system)) {
    out.items.push_back(BlockItem(Part::kSystem, block, ""));
  }
  for (const Element message : ElementsOf(Find(body, "messages"))) {
    Look(message, toggles);
    AddMessage(message, out);
  }
  out.salts[1] = ToJson(Find(body, "speed")) + web_search + (toggles.citations ? "citations" : "");
  out.salts[2] = ToJson(Find(body, "tool_choice")) + ToJson(Find(body, "thinking")) +
                 OutputConfig(Find(body, "output_config")) + (toggles.images ? "images" : "");
  out.automatic_ttl = TtlOf(Find(body, kCacheControl));
  return out;
}

// --- OpenAI

// A text is the same prompt as a string and as the only member of its part.
std::string PartText(Element part) {
  Object object;
  std::string_view text;
  if (part.get_string().get(text) == simdjson::SUCCESS) return ToJson(part);
  if (part.get_object().get(object) != simdjson::SUCCESS) return ToJson(part);
  bool is_text = false;
  for (const auto field : object) {
    if (field.key == "text" && field.value.is_string()) is_text = true;
    if (field.key != "type" && field.key != "text" && field.key != kBreakpoint)
      return JsonWithout(part, kBreakpoint);
  }
  return is_text ? ToJson(Find(object, "text")) : JsonWithout(part, kBreakpoint);
}

void AddTurn(Element turn, Rendering& out) {
  Object object;
  if (turn.get_object().get(object) != simdjson::SUCCESS) {
    out.items.push_back({.part = Part::kMessages,
                         .text = simdjson::minify(turn),
                         .ends_turn = true,
                         .ends_message = true});
    return;
  }
  const std::string role = TextAt(turn, "role");
  const bool eligible =
      role == "user" || role == "tool" || TextAt(turn, "type").ends_with("_output");
  const bool in_front = out.items.empty() || out.items.back().part != Part::kMessages;
  const Part part =
      in_front && (role == "system" || role == "developer") ? Part::kSystem : Part::kMessages;
  const std::optional<Element> content = Find(object, "content");
  std::vector<std::pair<std::string, bool>> parts;  // text, and whether it has a breakpoint
  for (const Element element : ElementsOf(content)) {
    parts.emplace_back(PartText(element), Find(element, kBreakpoint).has_value());
  }
  if (parts.empty()) parts.emplace_back(ToJson(content), false);
  std::string head = JsonWithout(turn, "content");
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool last = i + 1 == parts.size();
    out.items.push_back({.part = part,
                         .text = (i == 0 ? head : "{}") + parts[i].first,
                         .ends_turn = eligible && last,
                         .ends_message = last,
                         .breakpoint_ttl = parts[i].second ? std::optional(0) : std::nullopt});
  }
}

Rendering RenderOpenAi(Object body) {
  Rendering out;
  for (const Element tool : ElementsOf(Find(body, "tools"))) {
    out.items.push_back({.part = Part::kTools, .text = simdjson::minify(tool)});
  }
  if (const std::optional<Element> text = Find(body, "instructions"); IsText(text)) {
    out.items.push_back({.part = Part::kSystem,
                         .text = std::string(TextOr(*text, "")),
                         .ends_message = true,
                         .unmarkable = "prompt_cache_breakpoint cannot be set on instructions."});
  }
  std::optional<Element> turns;
  for (const std::string_view name : {"messages", "input", "prompt"}) {
    if (!turns) turns = Find(body, name);
  }
  if (IsText(turns)) {
    out.items.push_back({.part = Part::kMessages,
                         .text = std::string(TextOr(*turns, "")),
                         .ends_turn = true,
                         .ends_message = true});
  }
  for (const Element turn : ElementsOf(turns)) AddTurn(turn, out);
  for (const std::string_view name : {"parallel_tool_calls", "text", "response_format", "reasoning",
                                      "reasoning_effort", "verbosity", "service_tier"}) {
    out.salts[0] += ToJson(Find(body, name)) + ';';
  }
  if (const std::optional<Element> key = Find(body, "prompt_cache_key")) {
    out.cache_key = TextOr(*key, "");
  }
  const std::optional<Element> options = Find(body, "prompt_cache_options");
  out.has_cache_options = options.has_value();
  out.is_explicit = options && TextAt(*options, "mode") == "explicit";
  return out;
}

}  // namespace

int64_t CountTokens(size_t bytes) {
  return (static_cast<int64_t>(bytes) + kTokenBytes - 1) / kTokenBytes;
}

int64_t Item::num_tokens() const { return CountTokens(text.size()); }

int Rendering::num_breakpoints() const {
  return static_cast<int>(std::count_if(items.begin(), items.end(), [](const Item& item) {
    return item.breakpoint_ttl.has_value();
  }));
}

void Rendering::DropBillingHeader() {
  std::erase_if(items, [](const Item& item) {
    if (item.part != Part::kSystem || !item.text.starts_with(kBillingHeader)) return false;
    // In JSON a line that follows the header's stands behind an escaped newline.
    const std::string_view behind = std::string_view(item.text).substr(kBillingHeader.size());
    const size_t line_end = behind.find(R"(\n)");
    return line_end == std::string_view::npos || behind.substr(line_end + 2).starts_with('"');
  });
}

Result<Rendering> Render(dialect::form::Endpoint endpoint, std::string_view body) {
  simdjson::dom::parser parser;
  Object object;
  if (parser.parse(simdjson::padded_string(body)).get_object().get(object) != simdjson::SUCCESS) {
    return MakeError(ErrorCode::kInvalidArgument, "replay", "the body is no JSON object");
  }
  const bool is_messages = endpoint == dialect::form::Endpoint::kMessages ||
                           endpoint == dialect::form::Endpoint::kCountTokens;
  Rendering out = is_messages ? RenderMessages(object) : RenderOpenAi(object);
  if (const std::optional<Element> model = Find(object, "model")) out.model = TextOr(*model, "");
  return out;
}

}  // namespace kvgate::replay
