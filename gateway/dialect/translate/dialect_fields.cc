#include "gateway/dialect/translate/dialect_fields.h"

#include <algorithm>
#include <array>
#include <utility>

namespace kvgate::dialect::translate {
namespace {

// Splits "A:B", of which B may be missing.
std::pair<std::string_view, std::string_view> Split(std::string_view text) {
  const size_t colon = std::min(text.find(':'), text.size());
  return {text.substr(0, colon), text.substr(std::min(colon + 1, text.size()))};
}

}  // namespace

bool Unseal(std::string_view sealed, RequestForm& form, Block& block) {
  const auto takes = [&](std::string_view prefix) {
    if (!sealed.starts_with(prefix)) return false;
    sealed.remove_prefix(prefix.size());
    return true;
  };
  if (takes(kSealedThinking)) {
    const auto [signature, text] = Split(sealed);
    block.signature = form.Quote(signature);
    block.text = form.Quote(text);
  } else if (takes(kSealedRedacted)) {
    block.redacted = form.Quote(sealed);
  } else if (takes(kSealedItem)) {
    const auto [id, encrypted] = Split(sealed);
    block.item_id = form.Quote(id);
    if (!encrypted.empty()) block.encrypted = form.Quote(encrypted);
  } else {
    return false;
  }
  return true;
}

Result<Literal> OptionalString(const RawObject& object, std::string_view name,
                               const std::string& path) {
  const RawJson value = object[name];
  if (value && !value.is_string()) return WrongShape(Sub(path, name), "must be a string");
  return value ? value.text() : Literal();
}

Result<Literal> NeededString(const RawObject& object, std::string_view name,
                             const std::string& path) {
  KVGATE_TRY(const Literal value, OptionalString(object, name, path));
  if (value.empty()) return WrongShape(Sub(path, name), "is missing");
  return value;
}

Result<RawObject> NeededObject(const RawJson& value, const std::string& path) {
  if (!value.is_object()) return WrongShape(path, "must be an object");
  return RawObject(value);
}

Result<bool> OptionalBool(const RawObject& object, std::string_view name, bool fallback) {
  const RawJson value = object[name];
  if (!value) return fallback;
  if (!value.is_bool()) return WrongShape(std::string(name), "must be true or false");
  return value.is_true();
}

Result<Given> OptionalNumber(const RawObject& object, std::string_view name) {
  const RawJson value = object[name];
  if (!value) return Given();
  if (!value.is_number()) return WrongShape(std::string(name), "must be a number");
  return Given{.value = value.text(), .path = std::string(name)};
}

Result<std::vector<Literal>> OptionalStrings(const RawJson& value, const std::string& path) {
  std::vector<Literal> strings;
  if (!value) return strings;
  if (value.is_string()) return std::vector<Literal>{value.text()};
  if (!value.is_array()) return WrongShape(path, "must be a string or an array of them");
  for (const RawJson& element : value.Elements()) {
    if (!element.is_string()) return WrongShape(At(path, strings.size()), "must be a string");
    strings.push_back(element.text());
  }
  return strings;
}

Result<void> ReadCommon(const RawObject& body, RequestForm& form) {
  KVGATE_TRY(form.model, NeededString(body, "model", ""));
  KVGATE_TRY(form.stream, OptionalBool(body, "stream", false));
  KVGATE_TRY(form.temperature, OptionalNumber(body, "temperature"));
  KVGATE_TRY(form.top_p, OptionalNumber(body, "top_p"));
  return {};
}

Result<void> RefuseOthers(const RawObject& body, std::initializer_list<std::string_view> known,
                          std::string_view target) {
  for (const auto& [name, value] : body.members()) {
    if (!value || std::find(known.begin(), known.end(), name) != known.end()) continue;
    return CannotSay(name, "this field", target);
  }
  return {};
}

Media MediaOf(Literal url) {
  constexpr std::string_view kScheme = "data:";
  constexpr std::string_view kCoding = ";base64,";
  const std::string_view inside = url.substr(1, url.size() - 2);
  const size_t comma = inside.find(kCoding);
  if (!inside.starts_with(kScheme) || comma == std::string_view::npos) return {.url = url};
  return {.media_type = inside.substr(kScheme.size(), comma - kScheme.size()),
          .base64 = inside.substr(comma + kCoding.size())};
}

int TtlOf(const RawObject& block) {
  const RawJson mark = block["cache_control"];
  if (!mark.is_object()) return 0;
  return RawObject(mark).String("ttl") == "1h" ? form::kLongTtlSeconds : form::kShortTtlSeconds;
}

bool HasBreakpoint(const RawObject& part) {
  return part["prompt_cache_breakpoint"].is_object() || part["cache_control"].is_object();
}

Result<std::string> ReadEffort(const RawJson& value, const std::string& path) {
  static constexpr std::array<std::string_view, 7> kEfforts = {"none", "minimal", "low", "medium",
                                                               "high", "xhigh",   "max"};
  if (!value) return std::string();
  std::string effort = value.String();
  if (std::find(kEfforts.begin(), kEfforts.end(), effort) == kEfforts.end()) {
    return WrongShape(path, "must be one of none, minimal, low, medium, high, xhigh, max");
  }
  return effort;
}

}  // namespace kvgate::dialect::translate
