// Runtime: what filters, tests, methods and operators need of a rendering: its heap and bounds, and
// Python's operations on Values. Not thread-safe; one for each rendering.
//
// Failing: an operation that cannot give a value calls Fail and returns the failed Value (or false,
// null, nothing). The first failure stays. Callers hand a failed Value on at once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "engine/jinja/ast.h"
#include "engine/text/jinja/syntax/failure.h"
#include "engine/text/jinja/runtime/function.h"
#include "engine/text/jinja/syntax/limits.h"
#include "engine/jinja/value.h"

namespace kvgate::jinja {

class Runtime {
 public:
  struct Options {
    Limits limits = {};
    int64_t input_values = 0;
    size_t input_bytes = 0;
    std::optional<std::tm> now = {};  // absent: the clock's
  };
  explicit Runtime(const Options& options);
  virtual ~Runtime() = default;
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  Heap& heap() { return heap_; }
  const std::optional<std::tm>& now() const { return now_; }

  // --- failing and bounds ---
  Value Fail(std::string message, Failure::Kind kind = Failure::Kind::kRuntime);
  // 'x' is undefined, and the like.
  Value FailUndefined(const Value& undefined);
  bool failed() const { return failed_; }
  // Takes work off what is left; false: there is too little, or the heap is exhausted.
  bool Charge(int64_t steps) {
    steps_left_ -= steps;
    return (steps_left_ >= 0 && !heap_.exhausted()) || FailLimit();
  }
  // Looking for `part` in so much text.
  bool ChargeSearch(size_t bytes, size_t part) {
    return ChargeBytes(bytes * (1 + std::min<size_t>(part, 256) / 32) + 4 * part);
  }
  // What may have to be counted before its length is known.
  bool ChargeLength(const String& text) {
    return text.num_characters >= 0 || ChargeBytes(text.size);
  }
  // Hashing a key and comparing it with an equal one.
  bool ChargeKey(const Value& key);
  bool ChargeBytes(size_t bytes) { return Charge(static_cast<int64_t>(bytes / 64)); }
  // For walks through values: what may still be visited.
  ValueWalk StartWalk() const;
  // Charges what was visited; false when it was too much.
  bool EndWalk(const ValueWalk& walk);

  // --- text ---
  // str(value); null when failed.
  const String* ToText(const Value& value);
  bool AppendText(const Value& value, TextBuilder& out);
  bool AppendRepr(const Value& value, TextBuilder& out);
  // What was built; failed when the heap is exhausted.
  Value Finish(TextBuilder& builder, bool markup = false);
  Value MakeText(std::string_view text) { return MakeString(heap_, text); }

  // --- access ---
  Value Attribute(const Value& object, const Value& name);
  Value Item(const Value& object, const Value& key);
  // Missing bounds are None.
  Value Slice(const Value& object, const Value& start, const Value& stop, const Value& step);
  // len(); failed for what has none.
  Value Length(const Value& value);
  // The items that iter() gives; an iterator is read to its end.
  std::optional<std::span<const Value>> Iterate(const Value& value);
  // The item at an index of a string, in characters; REQUIRES: 0 <= index < length.
  Value Character(const Value& text, int64_t index);

  // --- operators ---
  Value Binary(BinaryOperator op, const Value& left, const Value& right);
  Value Negative(const Value& value);
  Value Positive(const Value& value);
  std::optional<bool> Equals(const Value& left, const Value& right);
  std::optional<bool> Compare(CompareOperator op, const Value& left, const Value& right);
  std::optional<bool> Contains(const Value& container, const Value& item);
  // Stably, by `keys`, which are moved along; false when two cannot be ordered.
  bool Sort(std::span<Value> keys, std::span<Value> items, bool reverse);

  // --- calls ---
  virtual Value Call(const Value& callee, const Arguments& arguments) = 0;

 protected:
  // Where in the source the evaluation is; for failures.
  uint32_t offset_ = 0;
  uint32_t failure_offset_ = 0;
  Failure failure_;
  int depth_left_;

 private:
  bool FailLimit();
  Value FailOperands(std::string_view symbol, const Value& left, const Value& right);
  Value BinaryInteger(BinaryOperator op, int64_t left, int64_t right);
  Value BinaryFloat(BinaryOperator op, double left, double right);
  Value PowerInteger(int64_t base, int64_t exponent);
  Value Add(const Value& left, const Value& right);
  Value RepeatSequence(const Value& sequence, const Value& count);
  std::optional<bool> OrderedAs(CompareOperator op, const Value& left, const Value& right);
  Value AttributeOfList(const Value& object, std::string_view name);
  Value AttributeOfObject(const Value& object, std::string_view name);
  Value MakeMethod(const Value& self, const FunctionSpec& function);
  Value ItemAt(const Value& object, int64_t index);
  Value SliceString(const Value& object, int64_t start, int64_t count, int64_t step);

  Heap heap_;
  int64_t steps_left_;
  int value_depth_max_;
  bool failed_ = false;
  std::optional<std::tm> now_;
};

// str(number) and repr(number) as Python has them: "1.0", "1e-05", "inf".
std::string FloatText(double number);
// Loop attributes ("index", "last", …) of a loop that runs; missing when there is none of the name.
Value LoopAttribute(Runtime& runtime, Loop& loop, std::string_view name);
Value MacroAttribute(Runtime& runtime, const Macro& macro, std::string_view name);

}  // namespace kvgate::jinja
