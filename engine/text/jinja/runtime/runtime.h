// Runtime: the services of a rendering for filters, tests, methods and operators: the heap, the
// limits, and Python's operations on Values. Not thread-safe; each rendering has its own.
//
// Failing: an operation that has no result calls Fail and returns the failed Value (or false, null,
// nullopt). The first failure is kept. Callers return a failed Value at once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "engine/text/jinja/runtime/function.h"
#include "engine/text/jinja/syntax/ast.h"
#include "engine/text/jinja/syntax/failure.h"
#include "engine/text/jinja/syntax/limits.h"
#include "engine/text/jinja/value/value.h"

namespace kvgate::jinja::runtime {

class Runtime {
 public:
  struct Options {
    syntax::Limits limits = {};
    int64_t input_values = 0;
    size_t input_bytes = 0;
    std::optional<std::tm> now = {};  // absent: the system clock
  };
  explicit Runtime(const Options& options);
  virtual ~Runtime() = default;
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  value::Heap& heap() { return heap_; }
  const std::optional<std::tm>& now() const { return now_; }

  // --- failing and bounds ---
  value::Value Fail(std::string message,
                    syntax::Failure::Kind kind = syntax::Failure::Kind::kRuntime);
  // Fails with the message for an undefined value, such as "'x' is undefined".
  value::Value FailUndefined(const value::Value& undefined);
  bool failed() const { return failed_; }
  // Charges steps. Returns false if too few are left or the heap is exhausted.
  bool Charge(int64_t steps) {
    steps_left_ -= steps;
    return (steps_left_ >= 0 && !heap_.exhausted()) || FailLimit();
  }
  // Charges a search for `part` bytes in `bytes` of text.
  bool ChargeSearch(size_t bytes, size_t part) {
    return ChargeBytes(bytes * (1 + std::min<size_t>(part, 256) / 32) + 4 * part);
  }
  // Charges the counting of the characters unless the count is known already.
  bool ChargeLength(const value::String& text) {
    return text.num_characters >= 0 || ChargeBytes(text.size);
  }
  // Charges hashing a key and comparing it with an equal one.
  bool ChargeKey(const value::Value& key);
  bool ChargeBytes(size_t bytes) { return Charge(static_cast<int64_t>(bytes / 64)); }
  // Starts a traversal of values, bounded by the remaining steps.
  value::ValueWalk StartWalk() const;
  // Charges the traversal. Returns false if it exceeded a limit.
  bool EndWalk(const value::ValueWalk& walk);

  // --- text ---
  // str(value). Returns null if it failed.
  const value::String* ToText(const value::Value& value);
  bool AppendText(const value::Value& value, value::TextBuilder& out);
  bool AppendRepr(const value::Value& value, value::TextBuilder& out);
  // Returns the built text, or failed if the heap is exhausted.
  value::Value Finish(value::TextBuilder& builder, bool markup = false);
  value::Value MakeText(std::string_view text) { return value::MakeString(heap_, text); }

  // --- access ---
  value::Value Attribute(const value::Value& object, const value::Value& name);
  value::Value Item(const value::Value& object, const value::Value& key);
  // Missing bounds count as None.
  value::Value Slice(const value::Value& object, const value::Value& start,
                     const value::Value& stop, const value::Value& step);
  // len(value). Fails for values without a length.
  value::Value Length(const value::Value& value);
  // The items that iter(value) gives. An iterator is consumed.
  std::optional<std::span<const value::Value>> Iterate(const value::Value& value);
  // The character at an index. REQUIRES: text is a string, 0 <= index < length.
  value::Value Character(const value::Value& text, int64_t index);

  // --- operators ---
  value::Value Binary(syntax::BinaryOperator op, const value::Value& left,
                      const value::Value& right);
  value::Value Negative(const value::Value& value);
  value::Value Positive(const value::Value& value);
  std::optional<bool> Equals(const value::Value& left, const value::Value& right);
  std::optional<bool> Compare(syntax::CompareOperator op, const value::Value& left,
                              const value::Value& right);
  std::optional<bool> Contains(const value::Value& container, const value::Value& item);
  // Stable sort by `keys`; `items` are permuted alike. Returns false if two keys cannot be ordered.
  bool Sort(std::span<value::Value> keys, std::span<value::Value> items, bool reverse);

  // --- calls ---
  virtual value::Value Call(const value::Value& callee, const Arguments& arguments) = 0;

 protected:
  // Source offset of the current evaluation, for error messages.
  uint32_t offset_ = 0;
  uint32_t failure_offset_ = 0;
  syntax::Failure failure_;
  int depth_left_;

 private:
  bool FailLimit();
  value::Value FailOperands(std::string_view symbol, const value::Value& left,
                            const value::Value& right);
  value::Value BinaryInteger(syntax::BinaryOperator op, int64_t left, int64_t right);
  value::Value BinaryFloat(syntax::BinaryOperator op, double left, double right);
  value::Value PowerInteger(int64_t base, int64_t exponent);
  value::Value Add(const value::Value& left, const value::Value& right);
  value::Value RepeatSequence(const value::Value& sequence, const value::Value& count);
  std::optional<bool> OrderedAs(syntax::CompareOperator op, const value::Value& left,
                                const value::Value& right);
  value::Value AttributeOfList(const value::Value& object, std::string_view name);
  value::Value AttributeOfObject(const value::Value& object, std::string_view name);
  value::Value MakeMethod(const value::Value& self, const FunctionSpec& function);
  value::Value ItemAt(const value::Value& object, int64_t index);
  value::Value SliceString(const value::Value& object, int64_t start, int64_t count, int64_t step);

  value::Heap heap_;
  int64_t steps_left_;
  int value_depth_max_;
  bool failed_ = false;
  std::optional<std::tm> now_;
};

}  // namespace kvgate::jinja::runtime

// The room above defines these for the runtime, in printing.cc and evaluator.cc.
namespace kvgate::jinja {

// str(number) and repr(number) as in Python: "1.0", "1e-05", "inf".
std::string FloatText(double number);
// An attribute ("index", "last", …) of a running loop; missing if there is none of that name.
value::Value LoopAttribute(runtime::Runtime& runtime, runtime::Loop& loop, std::string_view name);
value::Value MacroAttribute(runtime::Runtime& runtime, const runtime::Macro& macro,
                            std::string_view name);

}  // namespace kvgate::jinja
