// Misspelling: the first word of a command line that names no command or option there is, and what
// may have been meant.
#pragma once

#include <span>
#include <string>

namespace CLI {
class App;
}

namespace kvgate::cli {

// One line, "there is no command 'serv'; did you mean 'serve'?"; empty: all names are known.
// `words` are the arguments without the program's name.
std::string FindMisspelling(const CLI::App& app, std::span<const char* const> words);

}  // namespace kvgate::cli
