#include "engine/text/jinja/runtime/function.h"

#include <algorithm>
#include <array>
#include <string>
#include <unordered_map>

#include <fmt/format.h>

#include "engine/text/jinja/builtins/builtins.h"

namespace kvgate::jinja {
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

struct Parameter {
  std::string_view name;
  bool optional;
};

// The next of "a b? c?"; false at the end.
bool NextParameter(std::string_view& parameters, Parameter& parameter) {
  if (parameters.empty()) return false;
  const size_t space = std::min(parameters.find(' '), parameters.size());
  parameter.name = parameters.substr(0, space);
  parameter.optional = parameter.name.ends_with('?');
  if (parameter.optional) parameter.name.remove_suffix(1);
  parameters.remove_prefix(std::min(space + 1, parameters.size()));
  return true;
}

// Whatever a function does with texts that it is given: counts, hashes or compares them once.
bool ChargeTexts(Runtime& runtime, const Value& self, const Arguments& arguments) {
  size_t bytes = self.is_string() ? self.string->size : 0;
  for (const Value& value : arguments.positional) {
    if (value.is_string()) bytes += value.string->size;
  }
  for (const Keyword& keyword : arguments.keywords) {
    bytes += keyword.name->size;
    if (keyword.value.is_string()) bytes += keyword.value.string->size;
  }
  return runtime.ChargeBytes(bytes) &&
         runtime.Charge(
             static_cast<int64_t>((arguments.positional.size() + arguments.keywords.size()) / 8));
}

}  // namespace

Value CallFunction(Runtime& runtime, const FunctionSpec& function, const Value& self,
                   const Arguments& arguments) {
  if (!runtime.Charge(1) || !ChargeTexts(runtime, self, arguments)) return MakeFailed();
  if (function.parameters == "*") return function.call(runtime, self, arguments);
  std::array<Value, kParametersMax> values;
  size_t count = 0;
  size_t num_keywords = 0;
  std::string_view left = function.parameters;
  for (Parameter parameter; NextParameter(left, parameter); ++count) {
    if (count < arguments.positional.size()) values[count] = arguments.positional[count];
    for (const Keyword& keyword : arguments.keywords) {
      if (keyword.name->view() != parameter.name) continue;
      if (!values[count].missing()) {
        return runtime.Fail(fmt::format("{}() got multiple values for argument '{}'", function.name,
                                        parameter.name));
      }
      values[count] = keyword.value;
      ++num_keywords;
    }
    if (values[count].missing() && !parameter.optional) {
      return runtime.Fail(
          fmt::format("{}() missing required argument: '{}'", function.name, parameter.name));
    }
  }
  if (arguments.positional.size() > count) {
    return runtime.Fail(fmt::format("{}() takes at most {} arguments ({} given)", function.name,
                                    count, arguments.positional.size()));
  }
  for (const Keyword& keyword : arguments.keywords) {
    if (num_keywords == arguments.keywords.size()) break;
    bool known = false;
    left = function.parameters;
    for (Parameter parameter; NextParameter(left, parameter);) {
      known = known || parameter.name == keyword.name->view();
    }
    if (known) continue;
    return runtime.Fail(fmt::format("{}() got an unexpected keyword argument '{}'", function.name,
                                    keyword.name->view()));
  }
  return function.call(runtime, self, {.positional = std::span(values).first(count)});
}

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
  if (value.is(Tag::kUndefined)) {
    runtime.FailUndefined(value);
  } else {
    runtime.Fail(fmt::format("'{}' object cannot be interpreted as an integer", TypeName(value)));
  }
  return std::nullopt;
}

const String* StringArgument(Runtime& runtime, const Value& value, const String* fallback) {
  if (!IsGiven(value)) return fallback;
  if (value.is_string()) return value.string;
  runtime.Fail(fmt::format("a string was expected, not '{}'", TypeName(value)));
  return nullptr;
}

Value PartOf(Runtime& runtime, const Value& text, size_t begin, size_t end) {
  return MakeString(Part(runtime.heap(), *text.string, begin, end), text.markup);
}

AttributePath::AttributePath(Runtime& runtime, const Value& path) {
  Heap& heap = runtime.heap();
  if (!IsGiven(path)) return;
  if (!path.is_string()) {
    parts_ = MakeList(heap, {&path, 1}).list->values();
    return;
  }
  std::vector<Value> parts;
  const std::string_view text = path.text();
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('.', begin), text.size());
    const auto part = text.substr(begin, end - begin);
    const bool digits = !part.empty() && part.size() < 18 &&
                        part.find_first_not_of("0123456789") == std::string_view::npos;
    parts.push_back(digits ? MakeInt(*ParseInteger(part, 10)) : PartOf(runtime, path, begin, end));
    begin = end + 1;
  }
  parts_ = MakeList(heap, parts).list->values();
}

Value AttributePath::Get(Runtime& runtime, Value item, const Value& fallback) const {
  for (const Value& part : parts_) {
    item = runtime.Item(item, part);
    if (item.failed() || !runtime.Charge(1)) return MakeFailed();
    if (item.is(Tag::kUndefined) && IsGiven(fallback)) item = fallback;
  }
  return item;
}

Value IgnoreCase(Runtime& runtime, const Value& value) {
  return value.is_string() ? LowerText(runtime, value) : value;
}

Value MakeIterator(Runtime& runtime, std::span<const Value> items, std::string_view type) {
  Value value = MakeList(runtime.heap(), items, ListKind::kIterator);
  value.list->type = type;
  return runtime.Charge(static_cast<int64_t>(items.size() / 8)) ? value : MakeFailed();
}

}  // namespace kvgate::jinja
