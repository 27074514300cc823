// FunctionSpec: a filter, test, method or global function, and how arguments are passed to it.
#pragma once

#include <span>
#include <string_view>

#include "engine/text/jinja/value/value.h"

namespace kvgate::jinja::runtime {

class Runtime;

struct Keyword {
  const value::String* name;
  value::Value value;
};
struct Arguments {
  std::span<const value::Value> positional = {};
  std::span<const Keyword> keywords = {};
};

// `self`: the value that a filter or test is applied to, or the object of a method.
using FunctionPointer = value::Value (*)(Runtime& runtime, const value::Value& self,
                                         const Arguments& arguments);

inline constexpr size_t kParametersMax = 8;

struct FunctionSpec {
  std::string_view name;
  // "width? first? blank?": the parameter names; '?' marks optional ones. The function gets one
  // positional argument per parameter, missing if not given. "*": the arguments are passed as they
  // are.
  std::string_view parameters;
  FunctionPointer call;
};

// Binds the arguments to the parameters and calls the function. Fails as Python does for too many,
// unknown, duplicate or missing arguments.
value::Value CallFunction(Runtime& runtime, const FunctionSpec& function, const value::Value& self,
                          const Arguments& arguments);

}  // namespace kvgate::jinja::runtime

namespace kvgate::jinja::builtins {

// Each returns the function of that name, or null if there is none. They are defined in
// builtins/builtins.cc, which knows all tables.
const runtime::FunctionSpec* FindFilter(std::string_view name);
const runtime::FunctionSpec* FindTest(std::string_view name);
const runtime::FunctionSpec* FindGlobal(std::string_view name);
const runtime::FunctionSpec* FindStringMethod(std::string_view name);
const runtime::FunctionSpec* FindListMethod(std::string_view name);
const runtime::FunctionSpec* FindDictMethod(std::string_view name);

}  // namespace kvgate::jinja::builtins
