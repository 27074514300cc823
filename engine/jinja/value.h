// Value: what an expression gives. 16 bytes, copied freely; what it points to lives in a Heap and,
// but for namespaces, iterators, cyclers and joiners, never changes.
//
// Python's rules: truth, equality (1 == 1.0 == True), order, hashing, str() and repr(), type names.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "engine/jinja/heap.h"
#include "engine/jinja/text.h"

namespace kvgate::jinja {

enum class Tag : uint8_t {
  kFailed,   // no value: the evaluator holds the Failure
  kMissing,  // an argument that was not given, a name that has no value yet
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kBigInteger,  // `string` has the digits
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
struct Loop;
struct Macro;
struct FunctionSpec;
struct Method;
struct Cycler;
struct Joiner;

struct Value {
  Tag tag = Tag::kMissing;
  bool markup = false;  // of strings: Markup, as |safe and |escape make it
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
    Loop* loop;
    const Macro* macro;
    const FunctionSpec* function;
    const Method* method;
    Cycler* cycler;
    Joiner* joiner;
  };

  bool is(Tag t) const { return tag == t; }
  bool failed() const { return tag == Tag::kFailed; }
  bool missing() const { return tag == Tag::kMissing; }
  bool is_string() const { return tag == Tag::kString; }
  // int or bool, as Python's ints
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
// Copied, as the template's own.
Value MakeString(Heap& heap, std::string_view text, Origin origin = Origin::kTemplate);

// Why a value is undefined; told when it is used. The views outlive the heap.
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
  kIterator,  // what map, select, … give: read once, without a length
};
struct List {
  Value* items = nullptr;
  size_t size = 0;
  ListKind kind = ListKind::kList;
  Origin origin = Origin::kTemplate;  // of the brackets and commas, when it is printed
  size_t next = 0;                    // of iterators: what is read next
  std::string_view type = {};         // of iterators, to be printed

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
// Insertion-ordered.
struct Dict {
  DictEntry* entries = nullptr;
  size_t size = 0;
  size_t capacity = 0;
  uint32_t* slots = nullptr;  // of open addressing, once it is worth it: index + 1, 0 is free
  size_t num_slots = 0;
  Origin origin = Origin::kTemplate;  // as List::origin

  std::span<DictEntry> items() const { return {entries, size}; }
  // By any hashable key; null when absent.
  const Value* Find(const Value& key) const;
  const Value* Find(std::string_view key) const;
  // REQUIRES: IsHashable(key). An equal key keeps its place and spelling.
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
  const FunctionSpec* function;
};

// Bounds what walks through a value: lists may lie deep in lists, and one list in many places.
struct ValueWalk {
  int depth_left;
  int64_t work_left;  // values, and some 64 bytes of text each
  bool exhausted = false;

  // False, once there is too much.
  bool Enter(size_t bytes = 0) {
    work_left -= 1 + static_cast<int64_t>(bytes / 64);
    if (depth_left <= 0 || work_left <= 0) exhausted = true;
    return !exhausted;
  }
};

bool IsTrue(const Value& value);
// False also for tuples of more than a thousand parts.
bool IsHashable(const Value& value);
uint64_t HashOf(const Value& value);
bool Equal(const Value& a, const Value& b, ValueWalk& walk);
// For keys and other small values: what is larger than a few thousand parts is unequal.
bool Equal(const Value& a, const Value& b);
enum class Ordering : uint8_t { kLess, kEqual, kGreater, kUnordered, kIncomparable };
// kUnordered: a NaN is involved. kIncomparable: '<' raises.
Ordering Compare(const Value& a, const Value& b, ValueWalk& walk);
// "str", "int", "list", …
std::string_view TypeName(const Value& value);
// Whether iter(value) works; whether len(value) does.
bool IsIterable(const Value& value);
bool HasLength(const Value& value);

}  // namespace kvgate::jinja
