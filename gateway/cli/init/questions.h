// Questions asks what the command line has not said, one line each, of whoever sits at a terminal.
// It knows no terminal: it reads and writes streams.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>

#include "base/result.h"

namespace kvgate::cli::init {

class Questions {
 public:
  Questions(std::istream& in, std::ostream& out) : in_(in), out_(out) {}

  // Says what is wrong with an answer.
  using Check = std::function<Result<void>(const std::string& answer)>;
  // Asks until an answer passes the check; an empty one is `otherwise`. Fails with kInvalidArgument
  // after the third wrong answer, and where the input has ended.
  Result<std::string> Ask(std::string_view question, std::string_view otherwise,
                          const Check& check);

 private:
  static constexpr int kTries = 3;

  std::istream& in_;
  std::ostream& out_;
};

}  // namespace kvgate::cli::init
