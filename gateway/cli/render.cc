// `kvgate render`: renders a chat template over a conversation in JSON, to show what a model sees.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>

#include "engine/text/jinja/template.h"
#include "gateway/cli/commands.h"
#include "gateway/cli/terminal/json_data.h"

namespace kvgate::cli {
namespace {

using jinja::Template;
using jinja::value::Data;

Error BadInput(std::string detail) {
  return MakeError(ErrorCode::kInvalidArgument, "render", std::move(detail));
}

Result<std::string> ReadText(const std::string& path) {
  if (path == "-") {
    return std::string(std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>());
  }
  std::error_code code;
  std::ifstream file(path, std::ios::binary);
  if (!file || std::filesystem::is_directory(path, code)) {
    return MakeError(ErrorCode::kNotFound, "render", fmt::format("{} cannot be read", path));
  }
  return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

// Variables that transformers always passes, followed by the input's.
Result<Data::Dict> ReadVariables(const std::string& path) {
  KVGATE_TRY(const std::string text, ReadText(path));
  auto input = terminal::ParseJsonData(text);
  if (!input) return BadInput(fmt::format("{}: {}", path, input.error().detail));
  const auto* given = std::get_if<Data::Dict>(&input->value());
  if (given == nullptr) return BadInput(fmt::format("{}: must be a JSON object", path));
  Data::Dict variables = {{"tools", {}}, {"documents", {}}, {"add_generation_prompt", false}};
  variables.insert(variables.end(), given->begin(), given->end());
  return variables;
}

Result<int> Render(const std::string& template_path, const std::string& input_path) {
  KVGATE_TRY(const std::string source, ReadText(template_path));
  const auto parsed = Template::Parse(source);
  if (!parsed) return BadInput(parsed.error().ToString(template_path));
  KVGATE_TRY(const Data::Dict variables, ReadVariables(input_path));
  Template::Input input;
  std::vector<Template::Variable> given;
  for (const auto& [name, value] : variables) {
    if (name != "now") {
      given.push_back({.name = name, .value = &value});
      continue;
    }
    const auto* text = std::get_if<std::string>(&value.value());
    if (text != nullptr) input.now = jinja::ParseTime(*text);
    if (!input.now) {
      return BadInput(
          fmt::format("{}: now must be a time like \"2026-03-14T09:26:53\"", input_path));
    }
  }
  input.variables = given;
  const auto rendered = (*parsed)->Render(input);
  if (!rendered) {
    const jinja::syntax::Failure& failure = rendered.error();
    return MakeError(ErrorCode::kInternal, "render", failure.ToString(template_path));
  }
  std::fwrite(rendered->text.data(), 1, rendered->text.size(), stdout);
  return 0;
}

}  // namespace

void AddRender(CLI::App& app, Run& chosen) {
  struct Flags {
    std::string template_path;
    std::string input_path;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("render", "A chat template over a conversation");
  command->add_option("--template", flags->template_path, "Jinja template")->required();
  command
      ->add_option("input", flags->input_path,
                   "JSON: {messages, tools, add_generation_prompt, bos_token, eos_token, now, …}; "
                   "any other key is a variable too; - is standard input")
      ->required();
  command->callback([flags, &chosen] {
    chosen = [flags] { return Render(flags->template_path, flags->input_path); };
  });
}

}  // namespace kvgate::cli
