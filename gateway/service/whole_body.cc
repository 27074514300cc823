#include "gateway/service/whole_body.h"

#include <algorithm>
#include <array>

#include "gateway/prompt/parse/json_scanner.h"

namespace kvgate::service {

using prompt::parse::JsonScanner;
using prompt::parse::Span;
using protocol::form::ResponsesItem;

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
                    [&](std::string_view other) { return prompt::parse::NameIs(name, other); });
    if (is_left_out) return true;
    out += '"';
    out += name;
    out += "\":";
    out += value->In(json);
    out += ',';
    return true;
  });
}

bool AppendItems(std::span<const ResponsesItem> items, std::string& out) {
  static constexpr std::array<std::string_view, 1> kId = {"id"};
  return std::all_of(items.begin(), items.end(), [&](const ResponsesItem& item) {
    out += '{';
    if (!AppendMembers(item.json, kId, out)) return false;
    if (out.back() == ',') out.pop_back();
    out += "},";
    return true;
  });
}

}  // namespace

std::optional<std::string> WholeBody(std::string_view body, std::span<const ResponsesItem> context,
                                     std::span<const ResponsesItem> input) {
  static constexpr std::array<std::string_view, 3> kElsewhere = {"input", "previous_response_id",
                                                                 "conversation"};
  std::string whole = "{";
  if (!AppendMembers(body, kElsewhere, whole)) return std::nullopt;
  whole += "\"input\":[";
  if (!AppendItems(context, whole) || !AppendItems(input, whole)) return std::nullopt;
  if (whole.back() == ',') whole.pop_back();
  whole += "]}";
  return whole;
}

}  // namespace kvgate::service
