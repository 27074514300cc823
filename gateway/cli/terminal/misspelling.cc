#include "gateway/cli/terminal/misspelling.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string_view>
#include <vector>

#include "gateway/config/nearest.h"

namespace kvgate::cli::terminal {
namespace {

// "kvgate cache ls"; argv[0] is not used, because it may be any path.
std::string Path(const CLI::App& app) {
  std::string path;
  for (const CLI::App* at = &app; at->get_parent() != nullptr; at = at->get_parent()) {
    path = " " + at->get_name() + path;
  }
  return "kvgate" + path;
}

std::string NoCommand(const CLI::App& app, std::string_view word) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands(nullptr)) names.push_back(command->get_name());
  const std::vector<std::string_view> known(names.begin(), names.end());
  const std::string near = config::DidYouMean(word, known);
  return fmt::format("there is no command '{}'{}", word,
                     near.empty() ? fmt::format("; `{} --help` lists them", Path(app)) : near);
}

std::string NoOption(const CLI::App& app, std::string_view word) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  const std::vector<std::string_view> known(names.begin(), names.end());
  const std::string near = config::DidYouMean(word, known);
  return fmt::format("{} has no option {}{}", Path(app), word,
                     near.empty() ? fmt::format("; `{} --help` lists them", Path(app)) : near);
}

}  // namespace

std::string FindMisspelling(const CLI::App& app, std::span<const char* const> words) {
  const CLI::App* at = &app;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string word = words[i];
    if (word == "--") return "";
    if (word.starts_with("--")) {
      const std::string name = word.substr(0, word.find('='));
      const CLI::Option* option = at->get_option_no_throw(name);
      if (option == nullptr) return NoOption(*at, name);
      if (name.size() == word.size()) i += static_cast<size_t>(option->get_items_expected_min());
      continue;
    }
    const std::vector<const CLI::App*> commands = at->get_subcommands(nullptr);
    if (commands.empty() || word.starts_with('-')) continue;
    const auto named = std::find_if(commands.begin(), commands.end(), [&](const CLI::App* command) {
      return command->get_name() == word;
    });
    if (named == commands.end()) return NoCommand(*at, word);
    at = *named;
  }
  return "";
}

}  // namespace kvgate::cli::terminal
