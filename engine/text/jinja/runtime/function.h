// FunctionSpec: a filter, test, method or global function, and how arguments reach it.
#pragma once

#include <span>
#include <string_view>

#include "engine/jinja/value.h"

namespace kvgate::jinja {

class Runtime;

struct Keyword {
  const String* name;
  Value value;
};
struct Arguments {
  std::span<const Value> positional = {};
  std::span<const Keyword> keywords = {};
};

// `self`: what a filter or test is applied to, or the object of a method.
using FunctionPointer = Value (*)(Runtime& runtime, const Value& self, const Arguments& arguments);

inline constexpr size_t kParametersMax = 8;

struct FunctionSpec {
  std::string_view name;
  // "width? first? blank?": the parameters by name, optional ones with '?'. The function gets one
  // positional argument for each, missing where not given. "*": the arguments as they came.
  std::string_view parameters;
  FunctionPointer call;
};

// Puts the arguments in the parameters' places and calls. Fails as Python does for too many,
// unknown, doubled and missing arguments.
Value CallFunction(Runtime& runtime, const FunctionSpec& function, const Value& self,
                   const Arguments& arguments);

// By name; null when there is none.
const FunctionSpec* FindFilter(std::string_view name);
const FunctionSpec* FindTest(std::string_view name);
const FunctionSpec* FindGlobal(std::string_view name);
const FunctionSpec* FindStringMethod(std::string_view name);
const FunctionSpec* FindListMethod(std::string_view name);
const FunctionSpec* FindDictMethod(std::string_view name);

}  // namespace kvgate::jinja
