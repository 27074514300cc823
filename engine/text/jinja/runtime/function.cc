#include "engine/text/jinja/runtime/function.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "engine/text/jinja/runtime/runtime.h"

namespace kvgate::jinja::runtime {

using value::Value;

namespace {

struct Parameter {
  std::string_view name;
  bool optional;
};

// Reads the next parameter of "a b? c?". Returns false at the end.
bool NextParameter(std::string_view& parameters, Parameter& parameter) {
  if (parameters.empty()) return false;
  const size_t space = std::min(parameters.find(' '), parameters.size());
  parameter.name = parameters.substr(0, space);
  parameter.optional = parameter.name.ends_with('?');
  if (parameter.optional) parameter.name.remove_suffix(1);
  parameters.remove_prefix(std::min(space + 1, parameters.size()));
  return true;
}

// Covers one pass over each text argument, such as counting, hashing or comparing it.
bool ChargeTexts(Runtime& runtime, const Value& self, const Arguments& arguments) {
  size_t bytes = self.is_string() ? self.string->size : 0;
  for (const Value& value : arguments.positional) {
    if (value.is_string()) bytes += value.string->size;
  }
  for (const Keyword& keyword : arguments.keywords) {
    bytes += keyword.name->size;
    if (keyword.value.is_string()) bytes += keyword.value.string->size;
  }
  return runtime.ChargeBytes(bytes) &&
         runtime.Charge(
             static_cast<int64_t>((arguments.positional.size() + arguments.keywords.size()) / 8));
}

}  // namespace

Value CallFunction(Runtime& runtime, const FunctionSpec& function, const Value& self,
                   const Arguments& arguments) {
  if (!runtime.Charge(1) || !ChargeTexts(runtime, self, arguments)) return value::MakeFailed();
  if (function.parameters == "*") return function.call(runtime, self, arguments);
  std::array<Value, kParametersMax> values;
  size_t count = 0;
  size_t num_keywords = 0;
  std::string_view left = function.parameters;
  for (Parameter parameter; NextParameter(left, parameter); ++count) {
    if (count < arguments.positional.size()) values[count] = arguments.positional[count];
    for (const Keyword& keyword : arguments.keywords) {
      if (keyword.name->view() != parameter.name) continue;
      if (!values[count].missing()) {
        return runtime.Fail(fmt::format("{}() got multiple values for argument '{}'", function.name,
                                        parameter.name));
      }
      values[count] = keyword.value;
      ++num_keywords;
    }
    if (values[count].missing() && !parameter.optional) {
      return runtime.Fail(
          fmt::format("{}() missing required argument: '{}'", function.name, parameter.name));
    }
  }
  if (arguments.positional.size() > count) {
    return runtime.Fail(fmt::format("{}() takes at most {} arguments ({} given)", function.name,
                                    count, arguments.positional.size()));
  }
  for (const Keyword& keyword : arguments.keywords) {
    if (num_keywords == arguments.keywords.size()) break;
    bool known = false;
    left = function.parameters;
    for (Parameter parameter; NextParameter(left, parameter);) {
      known = known || parameter.name == keyword.name->view();
    }
    if (known) continue;
    return runtime.Fail(fmt::format("{}() got an unexpected keyword argument '{}'", function.name,
                                    keyword.name->view()));
  }
  return function.call(runtime, self, {.positional = std::span(values).first(count)});
}

}  // namespace kvgate::jinja::runtime
