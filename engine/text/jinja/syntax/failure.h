// Failure: why a template could not be parsed or rendered, and where.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

namespace kvgate::jinja {

struct Failure {
  enum class Kind : uint8_t {
    kSyntax,   // the template is no template
    kRuntime,  // what Jinja2 or Python would have raised
    kRaised,   // the template called raise_exception; `message` is what it said
    kLimit,    // steps, depth or memory (limits.h)
  };
  Kind kind = Kind::kRuntime;
  // From 1; a column is a character, not a byte.
  int line = 0;
  int column = 0;
  std::string message;

  // "chat.jinja:3:14: 'messages' is undefined"
  std::string ToString(std::string_view template_name) const;
};

template <typename T>
using Outcome = tl::expected<T, Failure>;

}  // namespace kvgate::jinja
