#include "engine/text/jinja/builtins/builtins.h"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <unordered_map>

#include <fmt/format.h>

namespace kvgate::jinja::builtins {

using runtime::FunctionSpec;
using runtime::Runtime;
using value::Value;

namespace {

using Table = std::unordered_map<std::string_view, const FunctionSpec*>;

Table MakeTable(std::initializer_list<std::span<const FunctionSpec>> parts) {
  Table table;
  for (const auto& part : parts) {
    for (const FunctionSpec& function : part) table.emplace(function.name, &function);
  }
  return table;
}

const FunctionSpec* Find(const Table& table, std::string_view name) {
  const auto found = table.find(name);
  return found == table.end() ? nullptr : found->second;
}

}  // namespace

const FunctionSpec* FindFilter(std::string_view name) {
  static const Table table = MakeTable({TextFilters(), WrapFilters(), SequenceFilters(),
                                        SelectFilters(), NumberFilters(), JsonFilters()});
  return Find(table, name);
}

const FunctionSpec* FindTest(std::string_view name) {
  static const Table table = MakeTable({AllTests()});
  return Find(table, name);
}

const FunctionSpec* FindGlobal(std::string_view name) {
  static const Table table = MakeTable({Globals()});
  return Find(table, name);
}

const FunctionSpec* FindStringMethod(std::string_view name) {
  static const Table table = MakeTable({StringMethods(), StringPredicates()});
  return Find(table, name);
}

const FunctionSpec* FindListMethod(std::string_view name) {
  static const Table table = MakeTable({ListMethods()});
  return Find(table, name);
}

const FunctionSpec* FindDictMethod(std::string_view name) {
  static const Table table = MakeTable({DictMethods()});
  return Find(table, name);
}

std::optional<int64_t> IntegerArgument(Runtime& runtime, const Value& value, int64_t fallback) {
  if (value.missing()) return fallback;
  if (value.is_integer()) return value.as_integer();
  if (value.is(value::Tag::kUndefined)) {
    runtime.FailUndefined(value);
  } else {
    runtime.Fail(
        fmt::format("'{}' object cannot be interpreted as an integer", value::TypeName(value)));
  }
  return std::nullopt;
}

const value::String* StringArgument(Runtime& runtime, const Value& value,
                                    const value::String* fallback) {
  if (!IsGiven(value)) return fallback;
  if (value.is_string()) return value.string;
  runtime.Fail(fmt::format("a string was expected, not '{}'", value::TypeName(value)));
  return nullptr;
}

Value PartOf(Runtime& runtime, const Value& text, size_t begin, size_t end) {
  return value::MakeString(value::Part(runtime.heap(), *text.string, begin, end), text.markup);
}

AttributePath::AttributePath(Runtime& runtime, const Value& path) {
  value::Heap& heap = runtime.heap();
  if (!IsGiven(path)) return;
  if (!path.is_string()) {
    parts_ = value::MakeList(heap, {&path, 1}).list->values();
    return;
  }
  std::vector<Value> parts;
  const std::string_view text = path.text();
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('.', begin), text.size());
    const auto part = text.substr(begin, end - begin);
    const bool digits = !part.empty() && part.size() < 18 &&
                        part.find_first_not_of("0123456789") == std::string_view::npos;
    parts.push_back(digits ? value::MakeInt(*ParseInteger(part, 10))
                           : PartOf(runtime, path, begin, end));
    begin = end + 1;
  }
  parts_ = value::MakeList(heap, parts).list->values();
}

Value AttributePath::Get(Runtime& runtime, Value item, const Value& fallback) const {
  for (const Value& part : parts_) {
    item = runtime.Item(item, part);
    if (item.failed() || !runtime.Charge(1)) return value::MakeFailed();
    if (item.is(value::Tag::kUndefined) && IsGiven(fallback)) item = fallback;
  }
  return item;
}

Value IgnoreCase(Runtime& runtime, const Value& value) {
  return value.is_string() ? LowerText(runtime, value) : value;
}

Value MakeIterator(Runtime& runtime, std::span<const Value> items, std::string_view type) {
  Value value = value::MakeList(runtime.heap(), items, value::ListKind::kIterator);
  value.list->type = type;
  return runtime.Charge(static_cast<int64_t>(items.size() / 8)) ? value : value::MakeFailed();
}

}  // namespace kvgate::jinja::builtins
