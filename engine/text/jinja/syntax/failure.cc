#include "engine/text/jinja/syntax/failure.h"

#include <fmt/format.h>

namespace kvgate::jinja::syntax {

std::string Failure::ToString(std::string_view template_name) const {
  return fmt::format("{}:{}:{}: {}", template_name, line, column, message);
}

}  // namespace kvgate::jinja::syntax
