#include "gateway/session/transcript/raw_object.h"

#include <charconv>

#include "gateway/prompt/parse/json_scanner.h"

namespace kvgate::session::transcript {

using prompt::parse::JsonScanner;
using prompt::parse::Span;

std::optional<RawObject> RawObject::Read(std::string_view json) {
  RawObject object;
  JsonScanner scanner(json);
  const bool is_read = scanner.Object([&](const JsonScanner::Name& member) {
    const std::optional<Span> value = scanner.Value();
    if (!value) return false;
    object.members_.emplace_back(member.span.In(json), value->In(json));
    return true;
  });
  return is_read ? std::optional(std::move(object)) : std::nullopt;
}

std::string_view RawObject::At(std::string_view name) const {
  for (const auto& [raw, value] : members_) {
    if (prompt::parse::NameIs(raw, name)) return value == "null" ? std::string_view() : value;
  }
  return {};
}

std::string RawObject::StringAt(std::string_view name) const {
  const std::string_view value = At(name);
  return value.starts_with('"') ? prompt::parse::TextOrJson(value) : "";
}

int64_t RawObject::IntegerAt(std::string_view name) const {
  const std::string_view value = At(name);
  int64_t number = 0;
  const auto [end, code] = std::from_chars(value.data(), value.data() + value.size(), number);
  return code == std::errc() && end == value.data() + value.size() ? number : 0;
}

std::vector<std::string_view> ElementsOf(std::string_view list) {
  std::vector<std::string_view> elements;
  JsonScanner scanner(list);
  const bool is_read = !list.empty() && scanner.Peek() == '[' && scanner.List([&] {
    const std::optional<Span> value = scanner.Value();
    if (value) elements.push_back(value->In(list));
    return value.has_value();
  });
  return is_read ? elements : std::vector<std::string_view>();
}

}  // namespace kvgate::session::transcript
