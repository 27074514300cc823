#include "gateway/runtime/local_embeddings.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <thread>
#include <utility>

#include "base/log.h"
#include "engine/model/model_config.h"
#include "engine/modelfile/hf_folder.h"
#include "gateway/local/local.h"
#include "kernels/cpu/cpu_backend.h"

namespace kvgate::runtime {
namespace {

int NumThreads(const config::EngineConfig& engine, bool beside_engine) {
  if (engine.embedding_threads > 0) return engine.embedding_threads;
  const int all =
      engine.threads > 0 ? engine.threads : static_cast<int>(std::thread::hardware_concurrency());
  return std::max(1, beside_engine ? all / 2 : all);
}

Result<embed::Embedder::Loaded> Load(std::shared_ptr<const modelfile::ModelFile> file,
                                     const config::EngineConfig& engine, int num_threads) {
  embed::Embedder::Loaded loaded;
  KVGATE_TRY(loaded.backend,
             kernels::cpu::MakeCpuBackend(
                 {.num_threads = num_threads,
                  .target = engine.cpu_target == "auto" ? std::string() : engine.cpu_target}));
  KVGATE_TRY(loaded.model,
             embed::EmbeddingModel::Load(std::move(file), *loaded.backend,
                                         {.context_tokens = engine.embedding_context}));
  return loaded;
}

}  // namespace

Result<void> SortModels(config::EngineConfig& engine) {
  if (engine.model.empty()) return {};
  const Result<std::unique_ptr<modelfile::ModelFile>> file = modelfile::OpenModelFile(engine.model);
  if (!file || !model::MakesEmbeddings(**file)) return {};
  if (!engine.embedding_model.empty()) {
    return MakeError(ErrorCode::kInvalidArgument, "runtime",
                     fmt::format("engine.model: {} makes embeddings and no text, and "
                                 "engine.embedding_model names {} already",
                                 engine.model, engine.embedding_model),
                     "engine.model");
  }
  engine.embedding_model = std::exchange(engine.model, std::string());
  engine.is_embedding_only = true;
  return {};
}

Result<std::string> DescribeEmbeddingModel(const config::EngineConfig& engine) {
  const std::string& path = engine.embedding_model;
  KVGATE_TRY(const auto file, modelfile::OpenModelFile(path));
  KVGATE_TRY([[maybe_unused]] const auto tokenizer, tokenizer::Tokenizer::Load(*file));
  KVGATE_TRY(const model::ModelConfig config,
             model::ReadModelConfig(*file, {.purpose = model::Purpose::kEmbeddings}));
  return fmt::format("{}: {}, {} layers, {} dimensions ({}), context {}", path, config.architecture,
                     config.num_layers, config.hidden_dim, model::PoolingName(*config.pooling),
                     config.context_length);
}

std::vector<std::string> NamesOfEmbeddingModel(const config::EngineConfig& engine) {
  const std::string& path = engine.embedding_model;
  if (path.empty()) return {};
  const auto file = modelfile::OpenModelFile(path);
  if (!file) return {};
  const auto config = model::ReadModelConfig(**file, {.purpose = model::Purpose::kEmbeddings});
  if (!config) return {};
  return local::LocalModelNames(config->name, path);
}

Result<std::unique_ptr<local::embeddings::EmbeddingProvider>> OpenEmbeddings(
    const config::EngineConfig& engine, bool beside_engine) {
  const auto started = std::chrono::steady_clock::now();
  const std::string& path = engine.embedding_model;
  KVGATE_LOG(kInfo, "runtime", "loading {} for embeddings", path);
  KVGATE_TRY(std::unique_ptr<modelfile::ModelFile> opened, modelfile::OpenModelFile(path));
  const std::shared_ptr<const modelfile::ModelFile> file = std::move(opened);
  KVGATE_TRY(auto tokenizer, tokenizer::Tokenizer::Load(*file));
  const int num_threads = NumThreads(engine, beside_engine);
  KVGATE_TRY(auto embedder,
             embed::Embedder::Open([&] { return Load(file, engine, num_threads); },
                                   {.queue_max = static_cast<size_t>(engine.embedding_queue)}));
  const embed::Embedder::Info& info = embedder->info();
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - started;
  KVGATE_LOG(kInfo, "runtime",
             "loaded in {:.1f} s: {} on {} ({}, {} threads), embeddings of {} dimensions ({}), {} "
             "tokens of a text (the model knows {})",
             elapsed.count(), info.model.architecture, info.backend.name, info.backend.target,
             info.backend.num_threads, info.dimensions, model::PoolingName(*info.model.pooling),
             info.context_tokens, info.model.context_length);
  std::vector<std::string> names = local::LocalModelNames(info.model.name, path);
  return std::make_unique<local::embeddings::EmbeddingProvider>(
      local::embeddings::EmbeddingProvider::Parts{
          .embedder = std::move(embedder),
          .tokenizer = std::move(tokenizer),
          .names = std::move(names),
          .created_unix = static_cast<int64_t>(std::time(nullptr))});
}

}  // namespace kvgate::runtime
