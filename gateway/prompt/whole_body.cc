#include "gateway/prompt/whole_body.h"

#include <algorithm>
#include <array>

#include "gateway/prompt/parse/json_scanner.h"

namespace kvgate::prompt {

using parse::JsonScanner;
using parse::Span;

namespace {

// Appends an object's members without those of the given names, each followed by a comma. Returns
// false if `json` is no object.
bool AppendMembers(std::string_view json, std::span<const std::string_view> without,
                   std::string& out) {
  JsonScanner scanner(json);
  return scanner.Object([&](const JsonScanner::Name& member) {
    const std::optional<Span> value = scanner.Value();
    if (!value) return false;
    const std::string_view name = member.span.In(json);
    const bool is_left_out =
        std::any_of(without.begin(), without.end(),
                    [&](std::string_view other) { return parse::NameIs(name, other); });
    if (is_left_out) return true;
    out += '"';
    out += name;
    out += "\":";
    out += value->In(json);
    out += ',';
    return true;
  });
}

bool AppendItem(std::string_view item, std::string& out) {
  static constexpr std::array<std::string_view, 1> kId = {"id"};
  out += '{';
  if (!AppendMembers(item, kId, out)) return false;
  if (out.back() == ',') out.pop_back();
  out += "},";
  return true;
}

}  // namespace

std::optional<std::string> WholeBody(std::string_view body,
                                     std::span<const std::string_view> items) {
  static constexpr std::array<std::string_view, 3> kElsewhere = {"input", "previous_response_id",
                                                                 "conversation"};
  std::string whole = "{";
  if (!AppendMembers(body, kElsewhere, whole)) return std::nullopt;
  whole += "\"input\":[";
  for (const std::string_view item : items) {
    if (!AppendItem(item, whole)) return std::nullopt;
  }
  if (whole.back() == ',') whole.pop_back();
  whole += "]}";
  return whole;
}

}  // namespace kvgate::prompt
