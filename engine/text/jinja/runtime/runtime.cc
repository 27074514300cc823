#include "engine/text/jinja/runtime/runtime.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "engine/text/jinja/value/unicode.h"

namespace kvgate::jinja::runtime {

using value::ListKind;
using value::MakeFailed;
using value::MakeInt;
using value::MakeString;
using value::MakeUndefined;
using value::String;
using value::Tag;
using value::TextBuilder;
using value::TypeName;
using value::UndefinedInfo;
using value::Value;

namespace {

// Mutating methods of lists and dicts: they exist, but calling them fails, as in transformers'
// sandbox.
constexpr std::string_view kListMutators[] = {"append", "clear", "pop",    "reverse",
                                              "insert", "sort",  "extend", "remove"};
constexpr std::string_view kDictMutators[] = {"clear", "pop", "popitem", "setdefault", "update"};

template <size_t N>
bool IsOneOf(const std::string_view (&names)[N], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

constexpr int kKeyPartsMax = 1000;  // the same limit as in IsHashable

// NOLINTNEXTLINE(misc-no-recursion): parts_left bounds it
void AddKeyBytes(const Value& key, int& parts_left, size_t& bytes) {
  if (--parts_left < 0) return;
  if (key.is_string()) bytes += key.string->size;
  if (!key.is(Tag::kList)) return;
  for (const Value& item : key.list->values()) {
    if (parts_left < 0) return;
    AddKeyBytes(item, parts_left, bytes);
  }
}

}  // namespace

Runtime::Runtime(const Options& options)
    : depth_left_(options.limits.depth_max),
      heap_(options.limits.memory_bytes_max +
            options.limits.memory_per_input_byte * options.input_bytes),
      steps_left_(options.limits.steps_max +
                  options.limits.steps_per_input_value * options.input_values +
                  static_cast<int64_t>(options.input_bytes)),
      value_depth_max_(options.limits.value_depth_max),
      now_(options.now) {}

Value Runtime::Fail(std::string message, syntax::Failure::Kind kind) {
  if (!failed_) {
    failed_ = true;
    failure_offset_ = offset_;
    failure_.kind = kind;
    failure_.message = std::move(message);
  }
  return MakeFailed();
}

Value Runtime::FailUndefined(const Value& undefined) {
  return Fail(value::UndefinedMessage(*undefined.undefined));
}

bool Runtime::FailLimit() {
  Fail(heap_.exhausted() ? "the template makes more text and lists than is allowed"
                         : "the template takes more steps than are allowed",
       syntax::Failure::Kind::kLimit);
  return false;
}

value::ValueWalk Runtime::StartWalk() const {
  return {.depth_left = value_depth_max_, .work_left = 4 * std::max<int64_t>(steps_left_, 0) + 4};
}

bool Runtime::EndWalk(const value::ValueWalk& walk) {
  if (walk.exhausted && walk.work_left > 0) {
    Fail("a value is nested too deeply", syntax::Failure::Kind::kLimit);
    return false;
  }
  const int64_t work = 4 * std::max<int64_t>(steps_left_, 0) + 4 - walk.work_left;
  return Charge(work / 4);
}

// A tuple used as a key has at most 1000 parts, which may all be the same long text.
bool Runtime::ChargeKey(const Value& key) {
  size_t bytes = 0;
  int parts_left = kKeyPartsMax;
  AddKeyBytes(key, parts_left, bytes);
  return ChargeBytes(2 * bytes);
}

const String* Runtime::ToText(const Value& value) {
  if (value.is_string()) return value.string;
  TextBuilder builder(heap_);
  if (!AppendText(value, builder) || !Charge(0)) return nullptr;
  return builder.Build();
}

Value Runtime::Finish(TextBuilder& builder, bool markup) {
  if (!ChargeBytes(builder.size())) return MakeFailed();
  return MakeString(builder.Build(), markup);
}

// --- attributes -------------------------------------------------------------------------------

Value Runtime::MakeMethod(const Value& self, const FunctionSpec& function) {
  Value value;
  value.tag = Tag::kMethod;
  value.method = heap_.New<value::Method>(self, &function);
  return value;
}

Value Runtime::AttributeOfList(const Value& object, std::string_view name) {
  const value::List& list = *object.list;
  if (list.kind == ListKind::kGroup && (name == "grouper" || name == "list")) {
    return list.items[name == "grouper" ? 0 : 1];
  }
  if (list.kind > ListKind::kGroup) return {};
  if (list.kind == ListKind::kList && IsOneOf(kListMutators, name)) {
    return MakeUndefined(heap_, {UndefinedInfo::Kind::kUnsafe, name, TypeName(object)});
  }
  const FunctionSpec* method = builtins::FindListMethod(name);
  const bool of_list_only = list.kind != ListKind::kList && name == "copy";
  return method == nullptr || of_list_only ? Value() : MakeMethod(object, *method);
}

// Returns what getattr() finds, or missing.
Value Runtime::AttributeOfObject(const Value& object, std::string_view name) {
  switch (object.tag) {
    case Tag::kString: {
      const FunctionSpec* method = builtins::FindStringMethod(name);
      return method == nullptr ? Value() : MakeMethod(object, *method);
    }
    case Tag::kDict: {
      if (IsOneOf(kDictMutators, name)) {
        return MakeUndefined(heap_, {UndefinedInfo::Kind::kUnsafe, name, "dict"});
      }
      const FunctionSpec* method = builtins::FindDictMethod(name);
      return method == nullptr ? Value() : MakeMethod(object, *method);
    }
    case Tag::kList:
      return AttributeOfList(object, name);
    case Tag::kNamespace: {
      const Value* value = object.name_space->attributes->Find(name);
      return value == nullptr ? Value() : *value;
    }
    case Tag::kRange:
      if (name == "start") return MakeInt(object.range->start);
      if (name == "stop") return MakeInt(object.range->stop);
      if (name == "step") return MakeInt(object.range->step);
      return {};
    case Tag::kLoop:
      return LoopAttribute(*this, *object.loop, name);
    case Tag::kMacro:
      return MacroAttribute(*this, *object.macro, name);
    case Tag::kCycler: {
      const value::Cycler& cycler = *object.cycler;
      if (name == "current") return cycler.items->items[cycler.position];
      if (name == "pos") return MakeInt(static_cast<int64_t>(cycler.position));
      const FunctionSpec* method = builtins::FindGlobal(name == "next"    ? "cycler.next"
                                                        : name == "reset" ? "cycler.reset"
                                                                          : "cycler.");
      return method == nullptr ? Value() : MakeMethod(object, *method);
    }
    case Tag::kBool:
    case Tag::kInt:
      if (name == "real" || name == "numerator") return MakeInt(object.as_integer());
      if (name == "imag") return MakeInt(0);
      return name == "denominator" ? MakeInt(1) : Value();
    case Tag::kFloat:
      if (name == "real") return object;
      return name == "imag" ? value::MakeFloat(0) : Value();
    default:
      return {};
  }
}

Value Runtime::Attribute(const Value& object, const Value& name) {
  if (object.is(Tag::kUndefined)) return FailUndefined(object);
  if (!ChargeBytes(2 * name.text().size())) return MakeFailed();
  const Value found = AttributeOfObject(object, name.text());
  if (!found.missing()) return found;
  if (object.is(Tag::kDict)) {
    if (const Value* item = object.dict->Find(name.text()); item != nullptr) return *item;
  }
  return MakeUndefined(heap_, {UndefinedInfo::Kind::kAttribute, name.text(), TypeName(object)});
}

// --- items ------------------------------------------------------------------------------------

Value Runtime::Character(const Value& text, int64_t index) {
  const String& string = *text.string;
  if (!ChargeLength(string)) return MakeFailed();
  if (!string.is_ascii() && !ChargeBytes(string.size)) return MakeFailed();
  const size_t begin = string.OffsetOf(index);
  const size_t size = value::DecodeAt(string.view(), begin).size;
  return MakeString(value::Part(heap_, string, begin, begin + size), text.markup);
}

// Returns missing if there is no such index or the object has no items.
Value Runtime::ItemAt(const Value& object, int64_t index) {
  int64_t size = 0;
  if (object.is_string()) {
    if (!ChargeLength(*object.string)) return MakeFailed();
    size = object.string->length();
  } else if (object.is(Tag::kRange)) {
    size = object.range->size();
  } else if (object.is(Tag::kList) && object.list->kind <= ListKind::kGroup) {
    size = static_cast<int64_t>(object.list->size);
  }
  if (index < 0) index += size;
  if (index < 0 || index >= size) return {};
  if (object.is_string()) return Character(object, index);
  if (object.is(Tag::kRange)) return MakeInt(object.range->at(index));
  return object.list->items[index];
}

Value Runtime::Item(const Value& object, const Value& key) {
  if (object.is(Tag::kUndefined)) return FailUndefined(object);
  Value found;
  if (object.is(Tag::kDict)) {
    if (!ChargeKey(key)) return MakeFailed();
    if (key.is_string()) {
      const Value* item = object.dict->Find(key.text());
      if (item != nullptr) return *item;
    } else if (value::IsHashable(key)) {
      const Value* item = object.dict->Find(key);
      if (item != nullptr) return *item;
    }
  } else if (key.is_integer()) {
    found = ItemAt(object, key.as_integer());
  }
  if (found.missing() && key.is_string()) found = AttributeOfObject(object, key.text());
  if (!found.missing()) return found;
  if (key.is_string()) {
    return MakeUndefined(heap_, {UndefinedInfo::Kind::kAttribute, key.text(), TypeName(object)});
  }
  TextBuilder repr(heap_);
  if (!AppendRepr(key, repr)) return MakeFailed();
  const std::string_view name = repr.Build()->view();
  return MakeUndefined(heap_, {UndefinedInfo::Kind::kElement, name, TypeName(object)});
}

// --- length and iteration ---------------------------------------------------------------------

Value Runtime::Length(const Value& value) {
  switch (value.tag) {
    case Tag::kUndefined:
      return MakeInt(0);
    case Tag::kString:
      if (value.string->num_characters < 0 && !ChargeBytes(value.string->size)) return MakeFailed();
      return MakeInt(value.string->length());
    case Tag::kDict:
      return MakeInt(static_cast<int64_t>(value.dict->size));
    case Tag::kRange:
      return MakeInt(value.range->size());
    case Tag::kLoop:
      return LoopAttribute(*this, *value.loop, "length");
    case Tag::kList:
      if (value::HasLength(value)) return MakeInt(static_cast<int64_t>(value.list->size));
      break;
    default:
      break;
  }
  return Fail(fmt::format("object of type '{}' has no len()", TypeName(value)));
}

std::optional<std::span<const Value>> Runtime::Iterate(const Value& value) {
  if (value.is(Tag::kUndefined)) return std::span<const Value>();
  if (value.is(Tag::kList)) {
    value::List& list = *value.list;
    const size_t begin = list.kind == ListKind::kIterator ? list.next : 0;
    list.next = list.size;
    if (!Charge(static_cast<int64_t>((list.size - begin) / 8))) return std::nullopt;
    return std::span<const Value>(list.items + begin, list.size - begin);
  }
  size_t size = 0;
  if (value.is(Tag::kDict)) {
    size = value.dict->size;
  } else if (value.is_string()) {
    if (!ChargeLength(*value.string)) return std::nullopt;
    size = static_cast<size_t>(value.string->length());
  } else if (value.is(Tag::kRange)) {
    size = static_cast<size_t>(value.range->size());
  } else {
    Fail(fmt::format("'{}' object is not iterable", TypeName(value)));
    return std::nullopt;
  }
  if (!Charge(static_cast<int64_t>(size / 4)) || !heap_.Reserve(size * 64)) {
    Charge(0);
    return std::nullopt;
  }
  auto* items = heap_.NewArray<Value>(size);
  if (value.is_string()) {
    const String& text = *value.string;
    size_t at = 0;
    for (size_t i = 0; i < size; ++i) {
      const size_t end = at + value::DecodeAt(text.view(), at).size;
      items[i] = MakeString(value::Part(heap_, text, at, end), value.markup);
      at = end;
    }
  } else {
    for (size_t i = 0; i < size; ++i) {
      items[i] = value.is(Tag::kDict) ? value.dict->entries[i].key
                                      : MakeInt(value.range->at(static_cast<int64_t>(i)));
    }
  }
  return std::span<const Value>(items, size);
}

// --- slices -----------------------------------------------------------------------------------

namespace {

struct Bounds {
  int64_t start;
  int64_t count;
  int64_t step;
};

// Same result as Python's slice.indices().
Bounds FindBounds(const Value& start, const Value& stop, int64_t step, int64_t size) {
  const auto clamp = [&](const Value& bound, int64_t fallback) {
    if (!bound.is_integer()) return fallback;
    int64_t index = bound.as_integer();
    if (index < 0) index += size;
    const int64_t low = step > 0 ? 0 : -1;
    return std::clamp(index, low, step > 0 ? size : size - 1);
  };
  const int64_t first = clamp(start, step > 0 ? 0 : size - 1);
  const int64_t last = clamp(stop, step > 0 ? size : -1);
  const value::Range range{.start = first, .stop = last, .step = step};
  return {.start = first, .count = range.size(), .step = step};
}

}  // namespace

Value Runtime::SliceString(const Value& object, int64_t start, int64_t count, int64_t step) {
  const String& text = *object.string;
  if (count == 0) return MakeString(value::EmptyString(), object.markup);
  if (step == 1) {
    if (!text.is_ascii() && !ChargeBytes(text.size)) return MakeFailed();
    const size_t begin = text.OffsetOf(start);
    const size_t end = text.is_ascii()
                           ? begin + static_cast<size_t>(count)
                           : begin + value::OffsetOfCharacter(text.view().substr(begin),
                                                              static_cast<size_t>(count));
    return MakeString(value::Part(heap_, text, begin, end), object.markup);
  }
  const auto characters = Iterate(object);
  if (!characters) return MakeFailed();
  TextBuilder builder(heap_);
  for (int64_t i = 0; i < count; ++i) {
    builder.Append(*(*characters)[static_cast<size_t>(start + i * step)].string);
  }
  return Finish(builder, object.markup);
}

Value Runtime::Slice(const Value& object, const Value& start, const Value& stop,
                     const Value& step) {
  if (object.is(Tag::kUndefined)) return FailUndefined(object);
  for (const Value* bound : {&start, &stop, &step}) {
    if (bound->missing() || bound->is(Tag::kNone) || bound->is_integer()) continue;
    return Fail("slice indices must be integers or None or have an __index__ method");
  }
  const bool is_list = object.is(Tag::kList) && object.list->kind <= ListKind::kGroup;
  if (!is_list && !object.is_string() && !object.is(Tag::kRange)) {
    return Fail(fmt::format("'{}' object is not subscriptable with a slice", TypeName(object)));
  }
  const int64_t stride = step.is_integer() ? step.as_integer() : 1;
  if (stride == 0) return Fail("slice step cannot be zero");
  const Value length = Length(object);
  if (length.failed()) return length;
  const Bounds bounds = FindBounds(start, stop, std::max(stride, -INT64_MAX), length.integer);
  if (object.is_string()) return SliceString(object, bounds.start, bounds.count, bounds.step);
  if (object.is(Tag::kRange)) {
    const value::Range& range = *object.range;
    int64_t inner = 0;
    int64_t end = 0;
    if (__builtin_mul_overflow(range.step, bounds.step, &inner) ||
        __builtin_mul_overflow(inner, bounds.count, &end)) {
      return Fail("the range is too large");
    }
    Value value;
    value.tag = Tag::kRange;
    const int64_t first = range.at(bounds.start);
    value.range = heap_.New<value::Range>(first, first + end, inner);
    return value;
  }
  if (!Charge(bounds.count / 8)) return MakeFailed();
  const ListKind kind = object.list->kind == ListKind::kList ? ListKind::kList : ListKind::kTuple;
  Value result = value::MakeList(heap_, {}, kind);
  if (!heap_.Reserve(static_cast<size_t>(bounds.count) * sizeof(Value)) && !Charge(0)) {
    return MakeFailed();
  }
  result.list->items = heap_.NewArray<Value>(static_cast<size_t>(bounds.count));
  result.list->size = static_cast<size_t>(bounds.count);
  result.list->origin = object.list->origin;
  for (int64_t i = 0; i < bounds.count; ++i) {
    result.list->items[i] = object.list->items[bounds.start + i * bounds.step];
  }
  return result;
}

}  // namespace kvgate::jinja::runtime
