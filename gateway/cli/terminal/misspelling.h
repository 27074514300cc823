// Misspelling: finds the first word of a command line that is no known command or option, and
// suggests a known one.
#pragma once

#include <span>
#include <string>

namespace CLI {
class App;
}

namespace kvgate::cli::terminal {

// Returns one line, "there is no command 'serv'; did you mean 'serve'?"; empty if all names are
// known. `words` are the arguments without the program's name.
std::string FindMisspelling(const CLI::App& app, std::span<const char* const> words);

}  // namespace kvgate::cli::terminal
