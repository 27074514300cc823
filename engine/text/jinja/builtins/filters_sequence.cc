// Filters over whole sequences: first, join, sort, batch, groupby, …
#include <algorithm>

#include <fmt/format.h>

#include "engine/text/jinja/builtins/builtins.h"
#include "engine/text/jinja/value/unicode.h"

namespace kvgate::jinja::builtins {

using runtime::Arguments;
using runtime::Runtime;
using value::ListKind;
using value::MakeFailed;
using value::MakeList;
using value::Tag;
using value::Value;

namespace {

Value Length(Runtime& runtime, const Value& value, const Arguments&) {
  return runtime.Length(value);
}

Value First(Runtime& runtime, const Value& value, const Arguments&) {
  if (value.is(Tag::kList) && value.list->kind == ListKind::kIterator) {
    value::List& list = *value.list;
    if (list.next < list.size) return list.items[list.next++];
  } else if (value.is_string() && value.string->size > 0) {
    return runtime.Character(value, 0);
  } else {
    const auto items = runtime.Iterate(value);
    if (!items) return MakeFailed();
    if (!items->empty()) return items->front();
  }
  return value::MakeUndefined(
      runtime.heap(),
      {value::UndefinedInfo::Kind::kHint, "No first item, sequence was empty.", {}});
}

// Returns true if reversed() accepts the value, which needs an order and a length.
bool IsReversible(const Value& value) {
  switch (value.tag) {
    case Tag::kString:
    case Tag::kDict:
    case Tag::kRange:
      return true;
    case Tag::kList:
      return value.list->kind != ListKind::kIterator;
    default:
      return false;
  }
}

Value Last(Runtime& runtime, const Value& value, const Arguments&) {
  if (value.is(Tag::kUndefined)) return runtime.FailUndefined(value);
  if (!IsReversible(value)) {
    return runtime.Fail(fmt::format("'{}' object is not reversible", value::TypeName(value)));
  }
  if (value.is_string() && value.string->size > 0) {
    const size_t size = value.string->size;
    return PartOf(runtime, value, value::CharacterBefore(value.text(), size), size);
  }
  const auto items = runtime.Iterate(value);
  if (!items) return MakeFailed();
  if (!items->empty()) return items->back();
  return value::MakeUndefined(
      runtime.heap(), {value::UndefinedInfo::Kind::kHint, "No last item, sequence was empty.", {}});
}

Value Reverse(Runtime& runtime, const Value& value, const Arguments&) {
  if (value.is_string()) return runtime.Slice(value, {}, {}, value::MakeInt(-1));
  const auto items = runtime.Iterate(value);
  if (!items) return MakeFailed();
  std::vector<Value> reversed(items->rbegin(), items->rend());
  if (!runtime.Charge(static_cast<int64_t>(reversed.size() / 8))) return MakeFailed();
  if (IsReversible(value)) return MakeIterator(runtime, reversed, "list_reverseiterator");
  return MakeList(runtime.heap(), reversed);
}

Value ToList(Runtime& runtime, const Value& value, const Arguments&) {
  const auto items = runtime.Iterate(value);
  return items ? MakeList(runtime.heap(), *items) : MakeFailed();
}

Value Join(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Value& given = arguments.positional[0];
  const value::String* separator = given.missing() ? value::EmptyString() : runtime.ToText(given);
  const auto items = separator == nullptr ? std::nullopt : runtime.Iterate(value);
  if (!items) return MakeFailed();
  const Value& attribute = arguments.positional[1];
  if (!IsGiven(attribute)) return JoinTexts(runtime, value::MakeString(separator), *items, true);
  const AttributePath path(runtime, attribute);
  std::vector<Value> parts;
  for (const Value& item : *items) {
    parts.push_back(path.Get(runtime, item));
    if (parts.back().failed()) return MakeFailed();
  }
  return JoinTexts(runtime, value::MakeString(separator), parts, true);
}

// --- ordering ----------------------------------------------------------------------------------

bool Flag(const Value& value) { return !value.missing() && value::IsTrue(value); }

Value Sort(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const auto items = runtime.Iterate(value);
  if (!items) return MakeFailed();
  const bool case_sensitive = Flag(arguments.positional[1]);
  // "a,b" sorts by a, then by b.
  std::vector<AttributePath> paths;
  const Value& attribute = arguments.positional[2];
  if (attribute.is_string()) {
    const std::string_view text = attribute.text();
    for (size_t begin = 0; begin <= text.size();) {
      const size_t end = std::min(text.find(',', begin), text.size());
      paths.emplace_back(runtime, PartOf(runtime, attribute, begin, end));
      begin = end + 1;
    }
  } else {
    paths.emplace_back(runtime, attribute);
  }
  Value sorted = MakeList(runtime.heap(), *items);
  std::vector<Value> keys;
  for (const Value& item : *items) {
    std::vector<Value> key;
    for (const AttributePath& path : paths) {
      const Value part = path.Get(runtime, item);
      if (part.failed()) return part;
      key.push_back(case_sensitive ? part : IgnoreCase(runtime, part));
      if (!runtime.Charge(1)) return MakeFailed();
    }
    keys.push_back(MakeList(runtime.heap(), key));
  }
  if (!runtime.Sort(keys, sorted.list->values(), Flag(arguments.positional[0]))) {
    return MakeFailed();
  }
  return sorted;
}

Value DictSort(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Value& by = arguments.positional[1];
  size_t position = 0;
  if (!by.missing()) {
    if (!by.is_string() || (by.text() != "key" && by.text() != "value")) {
      return runtime.Fail("You can only sort by either \"key\" or \"value\"");
    }
    position = by.text() == "value" ? 1 : 0;
  }
  if (value.is(Tag::kUndefined)) return runtime.FailUndefined(value);
  if (!value.is(Tag::kDict)) return runtime.Fail("dictsort wants a mapping");
  std::vector<Value> keys;
  std::vector<Value> pairs;
  for (const value::DictEntry& entry : value.dict->items()) {
    const Value pair[] = {entry.key, entry.value};
    pairs.push_back(MakeList(runtime.heap(), pair, ListKind::kTuple));
    keys.push_back(Flag(arguments.positional[0]) ? pair[position]
                                                 : IgnoreCase(runtime, pair[position]));
    if (keys.back().failed() || !runtime.Charge(1)) return MakeFailed();
  }
  if (!runtime.Sort(keys, pairs, Flag(arguments.positional[2]))) return MakeFailed();
  return MakeList(runtime.heap(), pairs);
}

Value Unique(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const auto items = runtime.Iterate(value);
  if (!items) return MakeFailed();
  const AttributePath path(runtime, arguments.positional[1]);
  auto* seen = runtime.heap().New<value::Dict>();
  std::vector<Value> unique;
  for (const Value& item : *items) {
    Value key = path.Get(runtime, item);
    if (!Flag(arguments.positional[0])) key = IgnoreCase(runtime, key);
    if (key.failed() || !runtime.Charge(2) || !runtime.ChargeKey(key)) return MakeFailed();
    if (!value::IsHashable(key))
      return runtime.Fail(fmt::format("unhashable type: '{}'", value::TypeName(key)));
    if (seen->Find(key) != nullptr) continue;
    seen->Set(runtime.heap(), key, value::MakeNone());
    unique.push_back(item);
  }
  return MakeIterator(runtime, unique, "generator");
}

template <bool kLargest>
Value Extreme(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const auto items = runtime.Iterate(value);
  if (!items) return MakeFailed();
  const AttributePath path(runtime, arguments.positional[1]);
  Value best;
  Value best_key;
  for (const Value& item : *items) {
    Value key = path.Get(runtime, item);
    if (!Flag(arguments.positional[0])) key = IgnoreCase(runtime, key);
    if (key.failed() || !runtime.Charge(1)) return MakeFailed();
    if (!best.missing()) {
      const auto better = runtime.Compare(
          kLargest ? syntax::CompareOperator::kGreater : syntax::CompareOperator::kLess, key,
          best_key);
      if (!better) return MakeFailed();
      if (!*better) continue;
    }
    best = item;
    best_key = key;
  }
  if (!best.missing()) return best;
  return value::MakeUndefined(
      runtime.heap(),
      {value::UndefinedInfo::Kind::kHint, "No aggregated item, sequence was empty.", {}});
}

Value GroupBy(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const auto items = runtime.Iterate(value);
  if (!items) return MakeFailed();
  const AttributePath path(runtime, arguments.positional[0]);
  const Value& fallback = arguments.positional[1];
  const bool case_sensitive = Flag(arguments.positional[2]);
  std::vector<Value> keys;
  for (const Value& item : *items) {
    Value key = path.Get(runtime, item, fallback);
    if (!case_sensitive) key = IgnoreCase(runtime, key);
    if (key.failed() || !runtime.Charge(1)) return MakeFailed();
    keys.push_back(key);
  }
  std::vector<Value> sorted(items->begin(), items->end());
  if (!runtime.Sort(keys, sorted, false)) return MakeFailed();
  std::vector<Value> groups;
  for (size_t begin = 0; begin < sorted.size();) {
    size_t end = begin + 1;
    while (end < sorted.size()) {
      const auto equal = runtime.Equals(keys[begin], keys[end]);
      if (!equal) return MakeFailed();
      if (!*equal) break;
      ++end;
    }
    const auto members = std::span<const Value>(sorted).subspan(begin, end - begin);
    // The group's name is spelled as in its first member.
    const Value name = case_sensitive ? keys[begin] : path.Get(runtime, members[0], fallback);
    if (name.failed()) return name;
    const Value group[] = {name, MakeList(runtime.heap(), members)};
    groups.push_back(MakeList(runtime.heap(), group, ListKind::kGroup));
    begin = end;
  }
  return MakeList(runtime.heap(), groups);
}

// --- splitting ---------------------------------------------------------------------------------

Value Batch(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const auto items = runtime.Iterate(value);
  const auto size = items ? IntegerArgument(runtime, arguments.positional[0], 1) : std::nullopt;
  if (!size) return MakeFailed();
  const Value& fill = arguments.positional[1];
  std::vector<Value> batches;
  std::vector<Value> batch;
  const auto finish = [&] { batches.push_back(MakeList(runtime.heap(), batch)); };
  for (const Value& item : *items) {
    if (!runtime.Charge(1)) return MakeFailed();
    if (static_cast<int64_t>(batch.size()) == *size) {
      finish();
      batch.clear();
    }
    batch.push_back(item);
  }
  if (!batch.empty()) {
    const auto missing = *size - static_cast<int64_t>(batch.size());
    if (IsGiven(fill) && missing > 0) {
      if (!runtime.Charge(missing)) return MakeFailed();
      batch.insert(batch.end(), static_cast<size_t>(missing), fill);
    }
    finish();
  }
  return MakeIterator(runtime, batches, "generator");
}

Value Slice(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const auto items = runtime.Iterate(value);
  const auto slices = items ? IntegerArgument(runtime, arguments.positional[0], 1) : std::nullopt;
  if (!slices || !runtime.Charge(std::max<int64_t>(*slices, 0))) return MakeFailed();
  if (*slices == 0) return runtime.Fail("integer division or modulo by zero");
  const Value& fill = arguments.positional[1];
  std::vector<Value> parts;
  const auto size = static_cast<int64_t>(items->size());
  size_t begin = 0;
  for (int64_t i = 0; i < *slices; ++i) {
    const bool longer = i < size % *slices;
    const auto count = static_cast<size_t>(size / *slices + (longer ? 1 : 0));
    const auto members = items->subspan(begin, count);
    std::vector<Value> part(members.begin(), members.end());
    if (IsGiven(fill) && !longer) part.push_back(fill);
    parts.push_back(MakeList(runtime.heap(), part));
    begin += count;
  }
  return MakeIterator(runtime, parts, "generator");
}

Value Items(Runtime& runtime, const Value& value, const Arguments&) {
  if (value.is(Tag::kUndefined)) return MakeIterator(runtime, {}, "generator");
  if (!value.is(Tag::kDict)) return runtime.Fail("Can only get item pairs from a mapping.");
  const Value view = FindDictMethod("items")->call(runtime, value, {});
  return view.failed() ? view : MakeIterator(runtime, view.list->values(), "generator");
}

constexpr runtime::FunctionSpec kFilters[] = {
    {"length", "", Length},
    {"count", "", Length},
    {"first", "", First},
    {"last", "", Last},
    {"reverse", "", Reverse},
    {"list", "", ToList},
    {"join", "d? attribute?", Join},
    {"sort", "reverse? case_sensitive? attribute?", Sort},
    {"dictsort", "case_sensitive? by? reverse?", DictSort},
    {"unique", "case_sensitive? attribute?", Unique},
    {"min", "case_sensitive? attribute?", Extreme<false>},
    {"max", "case_sensitive? attribute?", Extreme<true>},
    {"groupby", "attribute default? case_sensitive?", GroupBy},
    {"batch", "linecount fill_with?", Batch},
    {"slice", "slices fill_with?", Slice},
    {"items", "", Items},
};

}  // namespace

std::span<const runtime::FunctionSpec> SequenceFilters() { return kFilters; }

}  // namespace kvgate::jinja::builtins
