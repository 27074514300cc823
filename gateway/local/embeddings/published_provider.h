// PublishedProvider: the provider of local embeddings, for all who look at it from when it has
// loaded. Thread-safe.
#pragma once

#include <atomic>
#include <memory>
#include <string_view>

#include "gateway/local/embeddings/embedding_provider.h"
#include "gateway/metrics/registry.h"

namespace kvgate::local::embeddings {

class PublishedProvider {
 public:
  // Call it once, from the thread that loads the model.
  void Publish(std::unique_ptr<EmbeddingProvider> provider);
  // Null until then.
  const EmbeddingProvider* get() const { return is_ready_.load() ? provider_.get() : nullptr; }
  // Returns true if the model is loaded and answers to that name.
  bool Serves(std::string_view model) const;
  // No new requests are to be taken from now on.
  void BeginDrain() { is_draining_.store(true); }
  bool is_draining() const { return is_draining_.load(); }

  void Collect(metrics::TextWriter& writer) const;

 private:
  std::unique_ptr<EmbeddingProvider> provider_;  // published by is_ready_
  std::atomic<bool> is_ready_{false};
  std::atomic<bool> is_draining_{false};
};

}  // namespace kvgate::local::embeddings
