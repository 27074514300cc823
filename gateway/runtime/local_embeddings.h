// LocalEmbeddings: which of a configuration's models makes embeddings, and how it is assembled:
// model file, tokenizer, backend, embedder.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "gateway/config/config.h"
#include "gateway/local/embeddings/embedding_provider.h"

namespace kvgate::runtime {

// If the file that engine.model names makes embeddings, makes it the embedding model of a gateway
// without an engine that generates text. Leaves files that cannot be opened to whoever loads them.
// Fails with kInvalidArgument if there is an embedding model already.
Result<void> SortModels(config::EngineConfig& engine);

// Says what engine.embedding_model is, for people, without loading its weights: "FILE: bert, 12
// layers, 384 dimensions (mean), context 512". Fails as loading would.
Result<std::string> DescribeEmbeddingModel(const config::EngineConfig& engine);

// The names to which it would answer; none if it cannot be read.
std::vector<std::string> NamesOfEmbeddingModel(const config::EngineConfig& engine);

// Loads engine.embedding_model, on the CPU: a device is left to the engine. `beside_engine`: an
// engine of this process generates text, so that by default the other half of the threads is left
// to it. Fails as model::Model::Load does.
Result<std::unique_ptr<local::embeddings::EmbeddingProvider>> OpenEmbeddings(
    const config::EngineConfig& engine, bool beside_engine);

}  // namespace kvgate::runtime
