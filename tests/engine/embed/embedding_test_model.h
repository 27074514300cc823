// Small models for embeddings, written to a scratch folder and loaded.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include "engine/embed/embedding_model.h"
#include "engine/modelfile/gguf.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/engine/embed/plain_encoder.h"
#include "tests/engine/model/test_paths.h"

namespace kvgate::embed {

inline std::shared_ptr<const modelfile::ModelFile> OpenFile(const modelfile::GgufWriter& writer,
                                                            const modelfile::GgufWriter::Fill& fill,
                                                            const std::filesystem::path& path) {
  const auto written = writer.Write(path, fill);
  EXPECT_TRUE(written.has_value()) << written.error().ToString();
  auto file = modelfile::GgufFile::Open(path);
  EXPECT_TRUE(file.has_value()) << file.error().ToString();
  return *std::move(file);
}

inline std::unique_ptr<kernels::Backend> CpuBackend(int num_threads = 2) {
  auto backend = kernels::cpu::MakeCpuBackend({.num_threads = num_threads, .target = ""});
  EXPECT_TRUE(backend.has_value());
  return *std::move(backend);
}

inline std::vector<TokenId> RandomText(size_t length, int vocab, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<TokenId> text(length);
  for (TokenId& token : text) token = static_cast<TokenId>(random() % static_cast<unsigned>(vocab));
  return text;
}

// Returns the vectors of these texts, computed in one step.
inline std::vector<std::vector<float>> EmbedTogether(
    EmbeddingModel& model, const std::vector<std::vector<TokenId>>& texts) {
  std::vector<EmbeddingModel::Text> views(texts.begin(), texts.end());
  const auto width = static_cast<size_t>(model.dimensions());
  std::vector<float> vectors(texts.size() * width);
  const auto embedded = model.Embed(views, vectors);
  EXPECT_TRUE(embedded.has_value()) << embedded.error().ToString();
  std::vector<std::vector<float>> rows;
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto begin = vectors.begin() + static_cast<ptrdiff_t>(i * width);
    rows.emplace_back(begin, begin + static_cast<ptrdiff_t>(width));
  }
  return rows;
}

template <typename A, typename B>
double Cosine(const A& a, const B& b) {
  EXPECT_EQ(a.size(), b.size());
  double sum = 0;
  double squares_a = 0;
  double squares_b = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    sum += static_cast<double>(a[i]) * b[i];
    squares_a += static_cast<double>(a[i]) * a[i];
    squares_b += static_cast<double>(b[i]) * b[i];
  }
  return sum / std::sqrt(squares_a * squares_b);
}

}  // namespace kvgate::embed
