// Filters that apply other filters and tests (map, select, reject and their variants), and attr and
// default.
#include <algorithm>

#include <fmt/format.h>

#include "engine/text/jinja/builtins/builtins.h"

namespace kvgate::jinja::builtins {

using runtime::Arguments;
using runtime::FunctionSpec;
using runtime::Runtime;
using value::IsTrue;
using value::MakeFailed;
using value::Value;

namespace {

Value Default(Runtime&, const Value& value, const Arguments& arguments) {
  const Value& fallback = arguments.positional[0];
  const bool boolean = !arguments.positional[1].missing() && IsTrue(arguments.positional[1]);
  if (!value.is(value::Tag::kUndefined) && !(boolean && !IsTrue(value))) return value;
  return fallback.missing() ? value::MakeString(value::EmptyString()) : fallback;
}

// Looks up attributes only, never items.
Value Attr(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Value& name = arguments.positional[0];
  if (!name.is_string()) return runtime.Fail("attribute name must be string");
  if (value.is(value::Tag::kUndefined)) return runtime.FailUndefined(value);
  if (value.is(value::Tag::kDict) && FindDictMethod(name.text()) == nullptr) {
    return value::MakeUndefined(runtime.heap(), {value::UndefinedInfo::Kind::kAttribute,
                                                 name.text(), value::TypeName(value)});
  }
  return runtime.Attribute(value, name);
}

const FunctionSpec* FindNamed(Runtime& runtime, const Value& name, bool is_filter) {
  const FunctionSpec* function = nullptr;
  if (name.is_string()) function = is_filter ? FindFilter(name.text()) : FindTest(name.text());
  if (function == nullptr) {
    const value::String* text = runtime.ToText(name);
    runtime.Fail(fmt::format("No {} named '{}'.", is_filter ? "filter" : "test",
                             text == nullptr ? "" : text->view()));
  }
  return function;
}

Value MapAttribute(Runtime& runtime, std::span<const Value> items, const Arguments& arguments) {
  Value attribute;
  Value fallback;
  for (const runtime::Keyword& keyword : arguments.keywords) {
    if (keyword.name->view() == "attribute") {
      attribute = keyword.value;
    } else if (keyword.name->view() == "default") {
      fallback = keyword.value;
    } else {
      return runtime.Fail(fmt::format("Unexpected keyword argument '{}'", keyword.name->view()));
    }
  }
  const AttributePath path(runtime, attribute);
  std::vector<Value> mapped;
  for (const Value& item : items) {
    mapped.push_back(path.Get(runtime, item, fallback));
    if (mapped.back().failed() || !runtime.Charge(1)) return MakeFailed();
  }
  return MakeIterator(runtime, mapped, "generator");
}

Value Map(Runtime& runtime, const Value& value, const Arguments& arguments) {
  if (!IsTrue(value)) return MakeIterator(runtime, {}, "generator");
  const auto items = runtime.Iterate(value);
  if (!items) return MakeFailed();
  const bool by_attribute = arguments.positional.empty() &&
                            std::any_of(arguments.keywords.begin(), arguments.keywords.end(),
                                        [](const runtime::Keyword& keyword) {
                                          return keyword.name->view() == "attribute";
                                        });
  if (by_attribute) return MapAttribute(runtime, *items, arguments);
  if (arguments.positional.empty()) return runtime.Fail("map requires a filter argument");
  const FunctionSpec* filter = FindNamed(runtime, arguments.positional[0], true);
  if (filter == nullptr) return MakeFailed();
  const Arguments rest{arguments.positional.subspan(1), arguments.keywords};
  std::vector<Value> mapped;
  for (const Value& item : *items) {
    mapped.push_back(runtime::CallFunction(runtime, *filter, item, rest));
    if (mapped.back().failed()) return MakeFailed();
  }
  return MakeIterator(runtime, mapped, "generator");
}

// select, reject, selectattr and rejectattr: filter by the named test, or by truth if none is
// named.
template <bool kKeeps, bool kByAttribute>
Value Select(Runtime& runtime, const Value& value, const Arguments& arguments) {
  if (!IsTrue(value)) return MakeIterator(runtime, {}, "generator");
  const auto items = runtime.Iterate(value);
  if (!items) return MakeFailed();
  std::span<const Value> positional = arguments.positional;
  if (kByAttribute && positional.empty()) {
    return runtime.Fail("Missing parameter for attribute name");
  }
  const AttributePath path(runtime, kByAttribute ? positional[0] : Value());
  if (kByAttribute) positional = positional.subspan(1);
  const FunctionSpec* test = nullptr;
  if (!positional.empty()) {
    test = FindNamed(runtime, positional[0], false);
    if (test == nullptr) return MakeFailed();
    positional = positional.subspan(1);
  }
  const Arguments rest{positional, arguments.keywords};
  std::vector<Value> selected;
  for (const Value& item : *items) {
    if (!runtime.Charge(1)) return MakeFailed();
    Value result = path.Get(runtime, item);
    if (!result.failed() && test != nullptr)
      result = runtime::CallFunction(runtime, *test, result, rest);
    if (result.failed()) return result;
    if (IsTrue(result) == kKeeps) selected.push_back(item);
  }
  return MakeIterator(runtime, selected, "generator");
}

constexpr FunctionSpec kFilters[] = {
    {"default", "default_value? boolean?", Default},
    {"d", "default_value? boolean?", Default},
    {"attr", "name", Attr},
    {"map", "*", Map},
    {"select", "*", Select<true, false>},
    {"reject", "*", Select<false, false>},
    {"selectattr", "*", Select<true, true>},
    {"rejectattr", "*", Select<false, true>},
};

}  // namespace

std::span<const FunctionSpec> SelectFilters() { return kFilters; }

}  // namespace kvgate::jinja::builtins
