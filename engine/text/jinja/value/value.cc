#include "engine/text/jinja/value/value.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <span>

#include <fmt/format.h>

#include "base/digest.h"

namespace kvgate::jinja::value {
namespace {

constexpr size_t kIndexedFrom = 12;  // smaller dicts are searched linearly

uint64_t Mix(uint64_t hash) {
  hash ^= hash >> 32;
  hash *= 0xd6e8feb86659fd93u;
  return hash ^ (hash >> 32);
}

uint64_t HashNumber(double number) {
  // Whole floats hash like integers, because they are equal to them.
  if (number == std::floor(number) && std::abs(number) < 9.2e18) {
    return Mix(static_cast<uint64_t>(static_cast<int64_t>(number)));
  }
  return Mix(std::bit_cast<uint64_t>(number));
}

bool IsSequence(const Value& value) { return value.is(Tag::kList); }

// Lists are equal and ordered only within a family; a kGroup is a tuple.
ListKind Family(ListKind kind) { return kind == ListKind::kGroup ? ListKind::kTuple : kind; }

bool EqualLists(const List& a, const List& b, ValueWalk& walk) {
  if (&a == &b) return true;
  if (Family(a.kind) != Family(b.kind) || a.size != b.size) return false;
  // Iterators and dict.values() are equal only to themselves.
  if (a.kind == ListKind::kIterator || a.kind == ListKind::kDictValues) return false;
  for (size_t i = 0; i < a.size; ++i) {
    if (!Equal(a.items[i], b.items[i], walk)) return false;
  }
  return true;
}

bool EqualDicts(const Dict& a, const Dict& b, ValueWalk& walk) {
  if (a.size != b.size) return false;
  for (const DictEntry& entry : a.items()) {
    const Value* other = b.Find(entry.key);
    if (other == nullptr || !Equal(entry.value, *other, walk)) return false;
  }
  return true;
}

bool EqualRanges(const Range& a, const Range& b) {
  const int64_t size = a.size();
  if (size != b.size()) return false;
  if (size == 0) return true;
  return a.start == b.start && (size == 1 || a.step == b.step);
}

Ordering OrderOf(int comparison) {
  return comparison < 0 ? Ordering::kLess : comparison > 0 ? Ordering::kGreater : Ordering::kEqual;
}

Ordering CompareNumbers(const Value& a, const Value& b) {
  if (a.is_integer() && b.is_integer()) {
    const int64_t left = a.as_integer();
    const int64_t right = b.as_integer();
    return left < right ? Ordering::kLess : left > right ? Ordering::kGreater : Ordering::kEqual;
  }
  // A 64-bit mantissa represents both int64 and double exactly, if long double has one (x86-64).
  const long double left = a.is_integer() ? static_cast<long double>(a.as_integer()) : a.number;
  const long double right = b.is_integer() ? static_cast<long double>(b.as_integer()) : b.number;
  if (left < right) return Ordering::kLess;
  if (left > right) return Ordering::kGreater;
  return left == right ? Ordering::kEqual : Ordering::kUnordered;
}

Ordering CompareLists(const List& a, const List& b, ValueWalk& walk) {
  const size_t common = std::min(a.size, b.size);
  for (size_t i = 0; i < common; ++i) {
    if (!Equal(a.items[i], b.items[i], walk)) return Compare(a.items[i], b.items[i], walk);
  }
  return a.size < b.size   ? Ordering::kLess
         : a.size > b.size ? Ordering::kGreater
                           : Ordering::kEqual;
}

// NOLINTNEXTLINE(misc-no-recursion): parts_left bounds it
bool IsHashable(const Value& value, int& parts_left) {
  if (--parts_left < 0 || value.is(Tag::kDict)) return false;
  if (!value.is(Tag::kList)) return true;
  switch (value.list->kind) {
    case ListKind::kTuple:
    case ListKind::kGroup:
      return std::all_of(value.list->items, value.list->items + value.list->size,
                         [&](const Value& item) { return IsHashable(item, parts_left); });
    case ListKind::kIterator:
    case ListKind::kDictValues:
      return true;
    default:
      return false;
  }
}

}  // namespace

Value MakeString(Heap& heap, std::string_view text, Origin origin) {
  TextBuilder builder(heap);
  builder.Append(text, origin);
  return MakeString(builder.Build());
}

Value MakeUndefined(Heap& heap, UndefinedInfo info) {
  Value value;
  value.tag = Tag::kUndefined;
  value.undefined = heap.New<UndefinedInfo>(info);
  return value;
}

std::string UndefinedMessage(const UndefinedInfo& info) {
  switch (info.kind) {
    case UndefinedInfo::Kind::kName:
      return fmt::format("'{}' is undefined", info.name);
    case UndefinedInfo::Kind::kAttribute:
      return fmt::format("'{} object' has no attribute '{}'", info.owner, info.name);
    case UndefinedInfo::Kind::kElement:
      return fmt::format("{} object has no element {}", info.owner, info.name);
    case UndefinedInfo::Kind::kUnsafe:
      return fmt::format("access to attribute '{}' of '{}' object is unsafe", info.name,
                         info.owner);
    case UndefinedInfo::Kind::kHint:
      break;
  }
  return std::string(info.name);
}

Value MakeList(Heap& heap, std::span<const Value> items, ListKind kind) {
  auto* list = heap.New<List>();
  list->kind = kind;
  if (!items.empty() && heap.Reserve(items.size_bytes())) {
    list->items = heap.NewArray<Value>(items.size());
    list->size = items.size();
    std::copy(items.begin(), items.end(), list->items);
  }
  return MakeList(list);
}

int64_t Range::size() const {
  if (step > 0) {
    return start >= stop ? 0
                         : static_cast<int64_t>(
                               (static_cast<uint64_t>(stop) - static_cast<uint64_t>(start) - 1) /
                                   static_cast<uint64_t>(step) +
                               1);
  }
  return start <= stop ? 0
                       : static_cast<int64_t>(
                             (static_cast<uint64_t>(start) - static_cast<uint64_t>(stop) - 1) /
                                 (0 - static_cast<uint64_t>(step)) +
                             1);
}

DictEntry* Dict::FindEntry(uint64_t hash, const Value& key) const {
  if (slots == nullptr) {
    for (DictEntry& entry : items()) {
      if (entry.hash == hash && Equal(entry.key, key)) return &entry;
    }
    return nullptr;
  }
  for (size_t slot = hash & (num_slots - 1); slots[slot] != 0;
       slot = (slot + 1) & (num_slots - 1)) {
    DictEntry& entry = entries[slots[slot] - 1];
    if (entry.hash == hash && Equal(entry.key, key)) return &entry;
  }
  return nullptr;
}

const Value* Dict::Find(const Value& key) const {
  const DictEntry* entry = size == 0 ? nullptr : FindEntry(HashOf(key), key);
  return entry == nullptr ? nullptr : &entry->value;
}

const Value* Dict::Find(std::string_view key) const {
  if (slots == nullptr) {
    for (const DictEntry& entry : items()) {
      if (entry.key.is_string() && entry.key.text() == key) return &entry.value;
    }
    return nullptr;
  }
  TextBuffer buffer;
  buffer.data = const_cast<char*>(key.data());
  buffer.size = key.size();
  const String string{.buffer = &buffer, .begin = 0, .size = key.size()};
  return Find(MakeString(&string));
}

void Dict::Index(Heap& heap) {
  num_slots = std::bit_ceil(4 * capacity);
  slots = heap.NewArray<uint32_t>(num_slots);
  std::fill_n(slots, num_slots, 0);
  for (size_t i = 0; i < size; ++i) {
    size_t slot = entries[i].hash & (num_slots - 1);
    while (slots[slot] != 0) slot = (slot + 1) & (num_slots - 1);
    slots[slot] = static_cast<uint32_t>(i + 1);
  }
}

void Dict::Set(Heap& heap, const Value& key, const Value& value) {
  const uint64_t hash = HashOf(key);
  if (DictEntry* entry = FindEntry(hash, key); entry != nullptr) {
    entry->value = value;
    return;
  }
  if (size == capacity) {
    const size_t larger = capacity == 0 ? 4 : 2 * capacity;
    if (!heap.Reserve(larger * sizeof(DictEntry))) return;
    auto* moved = heap.NewArray<DictEntry>(larger);
    std::copy_n(entries, size, moved);
    entries = moved;
    capacity = larger;
    if (capacity > kIndexedFrom) Index(heap);
  }
  entries[size] = {key, value, hash};
  ++size;
  if (slots == nullptr) return;
  size_t slot = hash & (num_slots - 1);
  while (slots[slot] != 0) slot = (slot + 1) & (num_slots - 1);
  slots[slot] = static_cast<uint32_t>(size);
}

bool IsTrue(const Value& value) {
  switch (value.tag) {
    case Tag::kFailed:
    case Tag::kMissing:
    case Tag::kUndefined:
    case Tag::kNone:
      return false;
    case Tag::kBool:
      return value.boolean;
    case Tag::kInt:
      return value.integer != 0;
    case Tag::kFloat:
      return value.number != 0;
    case Tag::kString:
      return value.string->size != 0;
    case Tag::kList:
      return value.list->kind == ListKind::kIterator || value.list->size != 0;
    case Tag::kDict:
      return value.dict->size != 0;
    case Tag::kRange:
      return value.range->size() != 0;
    default:
      return true;
  }
}

bool IsHashable(const Value& value) {
  int parts_left = 1000;
  return IsHashable(value, parts_left);
}

uint64_t HashOf(const Value& value) {
  switch (value.tag) {
    case Tag::kBool:
    case Tag::kInt:
      return Mix(static_cast<uint64_t>(value.as_integer()));
    case Tag::kFloat:
      return HashNumber(value.number);
    case Tag::kString:
    case Tag::kBigInteger:
      return SecretHash(value.text());
    case Tag::kNone:
    case Tag::kUndefined:
      return static_cast<uint64_t>(value.tag);
    case Tag::kList: {
      if (Family(value.list->kind) != ListKind::kTuple) break;
      uint64_t hash = value.list->size;
      for (const Value& item : value.list->values()) hash = Mix(hash * 31 + HashOf(item));
      return hash;
    }
    case Tag::kRange:
      return Mix(static_cast<uint64_t>(value.range->size()));
    default:
      break;
  }
  return Mix(static_cast<uint64_t>(value.integer));  // the address
}

bool Equal(const Value& a, const Value& b, ValueWalk& walk) {
  if (a.is_number() && b.is_number()) return CompareNumbers(a, b) == Ordering::kEqual;
  if (a.tag != b.tag) return false;
  if (!walk.Enter(a.is_string() ? a.string->size : 0)) return false;
  --walk.depth_left;
  bool equal;
  switch (a.tag) {
    case Tag::kNone:
    case Tag::kUndefined:
    case Tag::kMissing:
      equal = true;
      break;
    case Tag::kString:
    case Tag::kBigInteger:
      equal = a.string == b.string || a.text() == b.text();
      break;
    case Tag::kList:
      equal = EqualLists(*a.list, *b.list, walk);
      break;
    case Tag::kDict:
      equal = a.dict == b.dict || EqualDicts(*a.dict, *b.dict, walk);
      break;
    case Tag::kRange:
      equal = EqualRanges(*a.range, *b.range);
      break;
    case Tag::kMethod:
      equal =
          a.method->function == b.method->function && Equal(a.method->self, b.method->self, walk);
      break;
    default:
      equal = a.integer == b.integer;  // true if it is the same object
  }
  ++walk.depth_left;
  return equal;
}

bool Equal(const Value& a, const Value& b) {
  ValueWalk walk{.depth_left = 64, .work_left = int64_t{1} << 20};
  return Equal(a, b, walk);
}

Ordering Compare(const Value& a, const Value& b, ValueWalk& walk) {
  if (a.is_number() && b.is_number()) return CompareNumbers(a, b);
  if (a.is_string() && b.is_string() && walk.Enter(a.string->size))
    return OrderOf(a.text().compare(b.text()));
  const bool lists = IsSequence(a) && IsSequence(b) &&
                     Family(a.list->kind) == Family(b.list->kind) &&
                     Family(a.list->kind) <= ListKind::kTuple;
  if (!lists) return Ordering::kIncomparable;
  if (!walk.Enter()) return Ordering::kUnordered;
  --walk.depth_left;
  const Ordering ordering = CompareLists(*a.list, *b.list, walk);
  ++walk.depth_left;
  return ordering;
}

std::string_view TypeName(const Value& value) {
  switch (value.tag) {
    case Tag::kUndefined:
    case Tag::kMissing:
    case Tag::kFailed:
      return "jinja2.runtime.Undefined";
    case Tag::kNone:
      return "NoneType";
    case Tag::kBool:
      return "bool";
    case Tag::kInt:
    case Tag::kBigInteger:
      return "int";
    case Tag::kFloat:
      return "float";
    case Tag::kString:
      return value.markup ? "Markup" : "str";
    case Tag::kList: {
      static constexpr std::string_view kNames[] = {"list",      "tuple",       "_GroupTuple",
                                                    "dict_keys", "dict_values", "dict_items"};
      if (value.list->kind == ListKind::kIterator) return value.list->type;
      return kNames[static_cast<size_t>(value.list->kind)];
    }
    case Tag::kDict:
      return "dict";
    case Tag::kRange:
      return "range";
    case Tag::kNamespace:
      return "jinja2.utils.Namespace";
    case Tag::kLoop:
      return "jinja2.runtime.LoopContext";
    case Tag::kMacro:
      return "jinja2.runtime.Macro";
    case Tag::kFunction:
      return "function";
    case Tag::kMethod:
      return "builtin_function_or_method";
    case Tag::kCycler:
      return "jinja2.utils.Cycler";
    case Tag::kJoiner:
      return "jinja2.utils.Joiner";
  }
  return "object";
}

bool IsIterable(const Value& value) {
  switch (value.tag) {
    case Tag::kUndefined:
    case Tag::kString:
    case Tag::kList:
    case Tag::kDict:
    case Tag::kRange:
    case Tag::kLoop:
      return true;
    default:
      return false;
  }
}

bool HasLength(const Value& value) {
  if (value.is(Tag::kList)) return value.list->kind != ListKind::kIterator;
  return IsIterable(value);
}

}  // namespace kvgate::jinja::value
