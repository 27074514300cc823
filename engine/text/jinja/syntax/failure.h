// Failure: why and where a template could not be parsed or rendered.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

namespace kvgate::jinja::syntax {

struct Failure {
  enum class Kind : uint8_t {
    kSyntax,   // the source is not a valid template
    kRuntime,  // an error that Jinja2 or Python would raise too
    kRaised,   // the template called raise_exception with `message`
    kLimit,    // steps, depth or memory (limits.h)
  };
  Kind kind = Kind::kRuntime;
  // Both start at 1. Columns count characters, not bytes.
  int line = 0;
  int column = 0;
  std::string message;

  // Formats it as "chat.jinja:3:14: 'messages' is undefined".
  std::string ToString(std::string_view template_name) const;
};

template <typename T>
using Outcome = tl::expected<T, Failure>;

}  // namespace kvgate::jinja::syntax
