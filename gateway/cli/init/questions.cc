#include "gateway/cli/init/questions.h"

#include <fmt/format.h>

#include <istream>
#include <ostream>

namespace kvgate::cli::init {
namespace {

std::string Trimmed(const std::string& line) {
  constexpr std::string_view kBlanks = " \t\r";
  const size_t begin = line.find_first_not_of(kBlanks);
  if (begin == std::string::npos) return "";
  return line.substr(begin, line.find_last_not_of(kBlanks) - begin + 1);
}

}  // namespace

Result<std::string> Questions::Ask(std::string_view question, std::string_view otherwise,
                                   const Check& check) {
  for (int i = 0; i < kTries; ++i) {
    out_ << fmt::format("{} [{}]: ", question, otherwise) << std::flush;
    std::string line;
    if (!std::getline(in_, line)) {
      out_ << '\n';
      return MakeError(ErrorCode::kInvalidArgument, "cli", "no answer; nothing was written");
    }
    std::string answer = Trimmed(line);
    if (answer.empty()) answer = otherwise;
    const Result<void> checked = check(answer);
    if (checked) return answer;
    out_ << checked.error().detail << '\n';
  }
  return MakeError(ErrorCode::kInvalidArgument, "cli",
                   fmt::format("no usable answer to: {} Nothing was written", question));
}

}  // namespace kvgate::cli::init
