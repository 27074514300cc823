// A provider of embeddings over a small made model.
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "engine/model/make_model.h"
#include "engine/modelfile/gguf.h"
#include "gateway/local/embeddings/embedding_provider.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/engine/model/test_paths.h"

namespace kvgate::local::embeddings {

struct MadeProvider {
  explicit MadeProvider(const embed::EmbedderOptions& options = {}) {
    const TempFolder folder;
    const auto path = folder / "m.gguf";
    EXPECT_TRUE(model::MakeModel({.architecture = "bert",
                                  .num_layers = 2,
                                  .hidden_dim = 64,
                                  .num_heads = 2,
                                  .num_kv_heads = 2,
                                  .ffn_dim = 96,
                                  .vocab_size = 512,
                                  .context_length = 64,
                                  .name = "made"},
                                 path)
                    .has_value());
    const std::shared_ptr<const modelfile::ModelFile> file = *modelfile::GgufFile::Open(path);
    auto embedder = embed::Embedder::Open(
        [&]() -> Result<embed::Embedder::Loaded> {
          embed::Embedder::Loaded loaded;
          KVGATE_TRY(loaded.backend,
                     kernels::cpu::MakeCpuBackend({.num_threads = 1, .target = ""}));
          KVGATE_TRY(loaded.model, embed::EmbeddingModel::Load(file, *loaded.backend));
          return loaded;
        },
        options);
    EXPECT_TRUE(embedder.has_value()) << embedder.error().ToString();
    provider = std::make_unique<EmbeddingProvider>(
        EmbeddingProvider::Parts{.embedder = std::move(*embedder),
                                 .tokenizer = *tokenizer::Tokenizer::Load(*file),
                                 .names = {"made", "m.gguf", "local"},
                                 .created_unix = 1});
  }
  std::unique_ptr<EmbeddingProvider> provider;
};

}  // namespace kvgate::local::embeddings
