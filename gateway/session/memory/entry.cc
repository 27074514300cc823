#include "gateway/session/memory/entry.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/utf8.h"
#include "gateway/prompt/parse/json_scanner.h"
#include "gateway/session/transcript/bounded_json.h"

namespace kvgate::session::memory {

using prompt::parse::JsonScanner;
using prompt::parse::Span;

namespace {

constexpr std::string_view kSource = "session.memory";

Error Wrong(std::string_view field, std::string why) {
  return MakeError(ErrorCode::kInvalidArgument, kSource, std::move(why), std::string(field));
}

bool IsControl(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }

std::string NameOf(std::string_view raw) {
  return prompt::parse::TextOrJson(fmt::format("\"{}\"", raw));
}

std::string Compact(std::string_view json) {
  const auto parsed = transcript::ParseJson(json);
  return parsed ? transcript::Dump(*parsed) : std::string(json);
}

}  // namespace

const Entry* Find(std::span<const Entry> entries, std::string_view name) {
  const auto found = std::find_if(entries.begin(), entries.end(),
                                  [&](const Entry& entry) { return entry.name == name; });
  return found == entries.end() ? nullptr : &*found;
}

void Apply(std::span<const Entry> changes, Entries& entries) {
  for (const Entry& change : changes) {
    const auto found = std::find_if(entries.begin(), entries.end(),
                                    [&](const Entry& entry) { return entry.name == change.name; });
    const bool is_removed = change.value == "null" || change.value.empty();
    if (found == entries.end()) {
      if (!is_removed) entries.push_back(change);
    } else if (is_removed) {
      entries.erase(found);
    } else {
      found->value = change.value;
    }
  }
}

Result<void> Check(const Entry& entry) {
  const std::string& name = entry.name;
  if (name.empty() || name.size() > kNameBytesMax || !IsValidUtf8(name) ||
      std::any_of(name.begin(), name.end(), IsControl)) {
    return Wrong(name.substr(0, ValidUtf8Bytes(std::string_view(name).substr(0, kNameBytesMax))),
                 fmt::format("Invalid name in a memory: it has 1 to {} bytes of printable text.",
                             kNameBytesMax));
  }
  if (entry.value.size() > kValueBytesMax) {
    return Wrong(name, fmt::format("Invalid value for '{}': it has {} bytes, the limit is {}.",
                                   name, entry.value.size(), kValueBytesMax));
  }
  return {};
}

Result<void> CheckSize(std::span<const Entry> entries) {
  size_t bytes = 0;
  for (const Entry& entry : entries) bytes += entry.name.size() + entry.value.size();
  if (entries.size() <= kEntriesMax && bytes <= kBytesMax) return {};
  return Wrong(
      "facts",
      fmt::format("A memory has at most {} facts of {} bytes together; this one would have "
                  "{} of {}.",
                  kEntriesMax, kBytesMax, entries.size(), bytes));
}

Result<Entries> ReadEntries(std::string_view object, std::string_view field) {
  Entries entries;
  Result<void> checked;
  JsonScanner scanner(object);
  const bool is_read =
      !transcript::IsTooDeep(object) && scanner.Object([&](const JsonScanner::Name& member) {
        const std::optional<Span> value = scanner.Value();
        if (!value) return false;
        Entry entry{.name = NameOf(member.span.In(object)), .value = Compact(value->In(object))};
        if (checked) checked = Check(entry);
        std::erase_if(entries, [&](const Entry& it) { return it.name == entry.name; });
        entries.push_back(std::move(entry));
        return entries.size() <= 4 * kEntriesMax;
      });
  if (!checked) {
    Error error = checked.error();
    error.field = fmt::format("{}.{}", field, error.field);
    return error;
  }
  if (!is_read) {
    return Wrong(field, fmt::format("Invalid value for '{}': it is an object of at most {} names "
                                    "and values.",
                                    field, kEntriesMax));
  }
  return entries;
}

void WriteEntries(std::span<const Entry> entries, dialect::form::JsonWriter& json) {
  json.BeginObject();
  for (const Entry& entry : entries) json.Key(entry.name).Raw(entry.value);
  json.EndObject();
}

}  // namespace kvgate::session::memory
