// Value: the result of an expression. 16 bytes, copied freely. The objects it points to live in a
// Heap and, except for namespaces, iterators, cyclers and joiners, never change.
//
// Follows Python's rules for truth, equality (1 == 1.0 == True), order, hashing, str(), repr() and
// type names.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "engine/text/jinja/value/heap.h"
#include "engine/text/jinja/value/text.h"

namespace kvgate::jinja::runtime {
struct Loop;
struct Macro;
struct FunctionSpec;
}  // namespace kvgate::jinja::runtime

namespace kvgate::jinja::value {

enum class Tag : uint8_t {
  kFailed,   // evaluation failed; the Runtime holds the Failure
  kMissing,  // an argument that was not given, or a name without a value
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kBigInteger,  // `string` holds the digits
  kString,
  kList,
  kDict,
  kRange,
  kNamespace,
  kLoop,
  kMacro,
  kFunction,
  kMethod,
  kCycler,
  kJoiner,
};

struct UndefinedInfo;
struct List;
struct Dict;
struct Range;
struct Namespace;
struct Method;
struct Cycler;
struct Joiner;

struct Value {
  Tag tag = Tag::kMissing;
  bool markup = false;  // of strings: Markup, the result of |safe and |escape
  union {
    bool boolean;
    int64_t integer = 0;
    double number;
    const String* string;
    const UndefinedInfo* undefined;
    List* list;
    Dict* dict;
    const Range* range;
    Namespace* name_space;
    runtime::Loop* loop;
    const runtime::Macro* macro;
    const runtime::FunctionSpec* function;
    const Method* method;
    Cycler* cycler;
    Joiner* joiner;
  };

  bool is(Tag t) const { return tag == t; }
  bool failed() const { return tag == Tag::kFailed; }
  bool missing() const { return tag == Tag::kMissing; }
  bool is_string() const { return tag == Tag::kString; }
  // int or bool, because Python's bool is an int.
  bool is_integer() const { return tag == Tag::kInt || tag == Tag::kBool; }
  bool is_number() const { return is_integer() || tag == Tag::kFloat; }
  // REQUIRES: is_integer()
  int64_t as_integer() const { return tag == Tag::kBool ? int64_t{boolean} : integer; }
  // REQUIRES: is_number()
  double as_double() const {
    return tag == Tag::kFloat ? number : static_cast<double>(as_integer());
  }
  // REQUIRES: is_string()
  std::string_view text() const { return string->view(); }
};

inline Value MakeFailed() {
  Value value;
  value.tag = Tag::kFailed;
  return value;
}
inline Value MakeNone() {
  Value value;
  value.tag = Tag::kNone;
  return value;
}
inline Value MakeBool(bool boolean) {
  Value value;
  value.tag = Tag::kBool;
  value.boolean = boolean;
  return value;
}
inline Value MakeInt(int64_t integer) {
  Value value;
  value.tag = Tag::kInt;
  value.integer = integer;
  return value;
}
inline Value MakeFloat(double number) {
  Value value;
  value.tag = Tag::kFloat;
  value.number = number;
  return value;
}
inline Value MakeString(const String* string, bool markup = false) {
  Value value;
  value.tag = Tag::kString;
  value.markup = markup;
  value.string = string;
  return value;
}
// Copies the text.
Value MakeString(Heap& heap, std::string_view text, Origin origin = Origin::kTemplate);

// Why a value is undefined; reported when the value is used. The views must outlive the heap.
struct UndefinedInfo {
  enum class Kind : uint8_t { kName, kAttribute, kElement, kHint, kUnsafe };
  Kind kind;
  std::string_view name;   // of the variable or attribute, or the hint
  std::string_view owner;  // the type of the object
};
Value MakeUndefined(Heap& heap, UndefinedInfo info);
std::string UndefinedMessage(const UndefinedInfo& info);

enum class ListKind : uint8_t {
  kList,
  kTuple,
  kGroup,  // a tuple with .grouper and .list
  kDictKeys,
  kDictValues,
  kDictItems,
  kIterator,  // returned by map, select, …: read once, no length
};
struct List {
  Value* items = nullptr;
  size_t size = 0;
  ListKind kind = ListKind::kList;
  Origin origin = Origin::kTemplate;  // of the brackets and commas when printed
  size_t next = 0;                    // of iterators: index of the next item
  std::string_view type = {};         // of iterators: type name for printing

  std::span<Value> values() const { return {items, size}; }
};
inline Value MakeList(List* list) {
  Value value;
  value.tag = Tag::kList;
  value.list = list;
  return value;
}
Value MakeList(Heap& heap, std::span<const Value> items, ListKind kind = ListKind::kList);

struct DictEntry {
  Value key;
  Value value;
  uint64_t hash;
};
// A hash table that keeps insertion order.
struct Dict {
  DictEntry* entries = nullptr;
  size_t size = 0;
  size_t capacity = 0;
  uint32_t* slots = nullptr;  // open addressing: index + 1, 0 is free; null while small
  size_t num_slots = 0;
  Origin origin = Origin::kTemplate;  // see List::origin

  std::span<DictEntry> items() const { return {entries, size}; }
  // Look-up by any hashable key. Returns null if absent.
  const Value* Find(const Value& key) const;
  const Value* Find(std::string_view key) const;
  // REQUIRES: IsHashable(key). An equal key keeps its position and spelling; only its value
  // changes.
  void Set(Heap& heap, const Value& key, const Value& value);

 private:
  DictEntry* FindEntry(uint64_t hash, const Value& key) const;
  void Index(Heap& heap);
};
inline Value MakeDict(Dict* dict) {
  Value value;
  value.tag = Tag::kDict;
  value.dict = dict;
  return value;
}

struct Range {
  int64_t start;
  int64_t stop;
  int64_t step;
  int64_t size() const;
  int64_t at(int64_t index) const { return start + index * step; }
};
struct Namespace {
  Dict* attributes;
};
struct Cycler {
  List* items;
  size_t position = 0;
};
struct Joiner {
  Value separator;
  bool used = false;
};
struct Method {
  Value self;
  const runtime::FunctionSpec* function;
};

// Bounds a traversal of a value: lists can nest deeply, and one list can occur in many places.
struct ValueWalk {
  int depth_left;
  int64_t work_left;  // one per value, plus one per 64 bytes of text
  bool exhausted = false;

  // Returns false once a bound is exceeded.
  bool Enter(size_t bytes = 0) {
    work_left -= 1 + static_cast<int64_t>(bytes / 64);
    if (depth_left <= 0 || work_left <= 0) exhausted = true;
    return !exhausted;
  }
};

bool IsTrue(const Value& value);
// Returns false also for tuples of more than 1000 parts.
bool IsHashable(const Value& value);
uint64_t HashOf(const Value& value);
bool Equal(const Value& a, const Value& b, ValueWalk& walk);
// For keys and other small values: values of more than about a million parts, or nested deeper than
// 64 levels, count as unequal.
bool Equal(const Value& a, const Value& b);
enum class Ordering : uint8_t { kLess, kEqual, kGreater, kUnordered, kIncomparable };
// kUnordered: a NaN is involved. kIncomparable: Python's '<' would raise.
Ordering Compare(const Value& a, const Value& b, ValueWalk& walk);
// Returns "str", "int", "list", …
std::string_view TypeName(const Value& value);
// Returns true if iter(value), or len(value), would succeed.
bool IsIterable(const Value& value);
bool HasLength(const Value& value);

}  // namespace kvgate::jinja::value
