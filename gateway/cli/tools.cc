// The small commands: `make-model`, `quantize`, `tokenize`, `config check` and `config keys`.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "engine/model/architecture.h"
#include "engine/model/make_model.h"
#include "engine/model/quantize_model.h"
#include "engine/model/weight_recipe.h"
#include "engine/text/tokenizer/tokenizer.h"
#include "gateway/cli/commands.h"
#include "gateway/cli/terminal/config_meaning.h"
#include "gateway/config/config.h"
#include "gateway/config/keys.h"
#include "gateway/config/nearest.h"
#include "gateway/http/socket/listener_tls.h"
#include "gateway/runtime/config_version.h"
#include "gateway/runtime/data_tier.h"
#include "gateway/runtime/settings.h"
#include "gateway/runtime/shared_tier.h"

namespace kvgate::cli {
namespace {

struct MakeModelFlags {
  model::MakeModelOptions options;
  std::string type = "f16";
  std::string pooling;
  std::string out;
};

Result<int> MakeModelFile(MakeModelFlags flags) {
  const model::WeightRecipe recipe = model::FindRecipe(flags.type).value();
  flags.options.dtype = recipe.dtype;
  flags.options.is_mixed = recipe.is_mixed;
  for (const model::Pooling pooling :
       {model::Pooling::kMean, model::Pooling::kFirst, model::Pooling::kLast}) {
    if (flags.pooling == model::PoolingName(pooling)) flags.options.pooling = pooling;
  }
  fmt::print(stderr, "making {} ...\n", flags.out);
  KVGATE_TRY_VOID(model::MakeModel(flags.options, flags.out));
  fmt::print("{}\n", flags.out);
  return 0;
}

Result<int> Quantize(const std::string& in, const std::string& out, const std::string& type) {
  fmt::print(stderr, "making {} ...\n", out);
  KVGATE_TRY_VOID(model::QuantizeModel(in, out, kernels::FindDType(type).value()));
  fmt::print("{}\n", out);
  return 0;
}

Result<int> Tokenize(const std::string& path, bool add_special) {
  KVGATE_TRY(const std::unique_ptr<tokenizer::Tokenizer> tokenizer,
             tokenizer::Tokenizer::LoadFile(path));
  const std::string text((std::istreambuf_iterator<char>(std::cin)),
                         std::istreambuf_iterator<char>());
  const std::vector<TokenId> ids = tokenizer->Encode(text, {.add_special = add_special});
  fmt::print("{}\n", fmt::join(ids, " "));
  return 0;
}

Result<int> CheckConfig(const std::string& path) {
  const auto config = config::LoadConfig(path);
  if (config) {
    // The files that the configuration names must exist and be usable too.
    const auto tls =
        http::socket::ListenerTls::Open({.cert_file = config->server.tls_cert,
                                         .key_file = config->server.tls_key,
                                         .min_version = config->server.tls_min_version});
    if (!tls) {
      fmt::print(stderr, "{}: {}\n", path, tls.error().detail);
      return 1;
    }
    if (const auto conflict = config::FindConflict(*config)) {
      fmt::print(stderr, "{}: {}\n", path, *conflict);
      return 1;
    }
    const auto prompts = runtime::ReadPrompts(*config);
    if (!prompts) {
      fmt::print(stderr, "{}: {}\n", path, prompts.error().detail);
      return 1;
    }
    if (const auto shared = runtime::CheckShared(config->store); !shared) {
      fmt::print(stderr, "{}: {}\n", path, shared.error().detail);
      return 1;
    }
    fmt::print("ok\n");
    const std::vector<std::string> lines =
        terminal::ConfigMeaning(*config, {.has_local_model = runtime::HasLocalModel(*config),
                                          .data_dir = runtime::DataDirOf(*config)});
    for (const std::string& line : lines) fmt::print("  {}\n", line);
    fmt::print("  version {}, as servers that run it report it\n",
               runtime::VersionOf(*config, *prompts));
    return 0;
  }
  for (const std::string& message : config.error().messages) fmt::print(stderr, "{}\n", message);
  return 1;
}

// Prints the page in lines of 80 columns, only for keys with `word` in their name or meaning.
Result<int> PrintKeys(const std::string& word) {
  constexpr size_t kColumns = 80;
  constexpr size_t kIndent = 4;
  size_t num_shown = 0;
  std::vector<std::string> names;
  const std::vector<config::KeyLine> keys = config::ReadKeysPage(config::kKeysPage);
  for (const config::KeyLine& key : keys) {
    names.push_back(key.name);
    const bool is_meant =
        key.name.find(word) != std::string::npos || key.meaning.find(word) != std::string::npos;
    if (!is_meant) continue;
    ++num_shown;
    fmt::print("{} = {}\n", key.name, key.unset);
    std::string line(kIndent, ' ');
    std::istringstream words(key.meaning);
    for (std::string next; words >> next;) {
      if (line.size() + 1 + next.size() > kColumns) {
        fmt::print("{}\n", line);
        line = std::string(kIndent, ' ');
      }
      line += (line.size() == kIndent ? "" : " ") + next;
    }
    fmt::print("{}\n", line);
  }
  if (num_shown > 0) return 0;
  const std::vector<std::string_view> known(names.begin(), names.end());
  return MakeError(ErrorCode::kInvalidArgument, "cli",
                   fmt::format("no key has '{}' in its name or meaning{}", word,
                               config::DidYouMean(word, known)));
}

}  // namespace

void AddMakeModel(CLI::App& app, Run& chosen) {
  auto flags = std::make_shared<MakeModelFlags>();
  model::MakeModelOptions& options = flags->options;
  CLI::App* command = app.add_subcommand("make-model", "Make a random-weight model of any shape");
  command
      ->add_option("--arch", options.architecture,
                   model::ArchitectureNames() + "; for embeddings " +
                       model::ArchitectureNames(model::Encoders()))
      ->capture_default_str();
  command->add_option("--layers", options.num_layers)->capture_default_str();
  command->add_option("--hidden", options.hidden_dim)->capture_default_str();
  command->add_option("--heads", options.num_heads)->capture_default_str();
  command->add_option("--kv-heads", options.num_kv_heads)->capture_default_str();
  command->add_option("--ffn", options.ffn_dim, "of each expert, where there are")
      ->capture_default_str();
  command->add_option("--experts", options.num_experts,
                      "in each layer: of llama, and of what is named moe or gpt-oss [8 there]");
  command->add_option("--experts-used", options.num_experts_used, "by each token [2]");
  command->add_option("--window", options.window,
                      "sliding window in tokens, where the architecture has one [its models']");
  command->add_option("--rope-original", options.rope_original_context,
                      "context that rope is scaled from, in the architecture's way [unscaled]");
  command->add_option("--vocab", options.vocab_size)->capture_default_str();
  command->add_option("--context", options.context_length)->capture_default_str();
  command->add_option("--type", flags->type, "Format of the matrices; q4_k_m mixes q4_k and q6_k")
      ->check(CLI::IsMember(model::RecipeNames()))
      ->capture_default_str();
  command
      ->add_option("--pooling", flags->pooling,
                   "for embeddings: mean, cls or last [text; of encoders mean]")
      ->check(CLI::IsMember({"mean", "cls", "last"}));
  command->add_option("--seed", options.seed)->capture_default_str();
  command->add_option("--name", options.name, "general.name");
  command->add_option("--out", flags->out, "the GGUF file to write")->required();
  command->callback([flags, &chosen] { chosen = [flags] { return MakeModelFile(*flags); }; });
}

void AddQuantize(CLI::App& app, Run& chosen) {
  struct Flags {
    std::string in;
    std::string out;
    std::string type;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* command =
      app.add_subcommand("quantize", "Rewrite a model file with its matrices in another format");
  command
      ->add_option("in", flags->in, "GGUF file or Hugging Face folder of f32, f16 or bf16 weights")
      ->required();
  command->add_option("out", flags->out, "the GGUF file to write")->required();
  command->add_option("type", flags->type, "f16, bf16, q8_0, q4_0, q4_1, q5_0 or q5_1")
      ->check(CLI::IsMember({"f16", "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1"}))
      ->required();
  command->callback([flags, &chosen] {
    chosen = [flags] { return Quantize(flags->in, flags->out, flags->type); };
  });
}

void AddTokenize(CLI::App& app, Run& chosen) {
  struct Flags {
    std::string model;
    bool no_special = false;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("tokenize", "Token ids of the text on standard input");
  command
      ->add_option("--model", flags->model,
                   "a GGUF file, a tokenizer.json, or a folder that holds one")
      ->required();
  command->add_flag("--no-special", flags->no_special, "add no BOS or EOS");
  command->callback([flags, &chosen] {
    chosen = [flags] { return Tokenize(flags->model, !flags->no_special); };
  });
}

void AddConfig(CLI::App& app, Run& chosen) {
  auto path = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("config", "Configuration files");
  command->require_subcommand(1);
  CLI::App* check = command->add_subcommand("check", "Say ok, or what is wrong and where");
  check->add_option("file", *path, "TOML file")->required();
  check->callback([path, &chosen] { chosen = [path] { return CheckConfig(*path); }; });
  CLI::App* keys =
      command->add_subcommand("keys", "Every key, its default and its meaning (KEYS.md)");
  keys->add_option("word", *path, "those with this word in their name or meaning");
  keys->callback([path, &chosen] { chosen = [path] { return PrintKeys(*path); }; });
}

}  // namespace kvgate::cli
