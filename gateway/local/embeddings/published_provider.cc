#include "gateway/local/embeddings/published_provider.h"

#include <utility>

namespace kvgate::local::embeddings {

void PublishedProvider::Publish(std::unique_ptr<EmbeddingProvider> provider) {
  provider_ = std::move(provider);
  is_ready_.store(true);
}

bool PublishedProvider::Serves(std::string_view model) const {
  const EmbeddingProvider* const own = get();
  return own != nullptr && own->Serves(model);
}

void PublishedProvider::Collect(metrics::TextWriter& writer) const {
  const EmbeddingProvider* const own = get();
  if (own == nullptr) return;
  const embed::EmbedderStats stats = own->embedder().Stats();
  const auto write = [&](std::string_view name, std::string_view type, std::string_view help,
                         uint64_t value) {
    writer.Family(name, type, help);
    writer.Sample(name, {}, value);
  };
  write("kvgate_embedding_requests_total", "counter", "Requests for local embeddings that ended.",
        stats.num_requests);
  write("kvgate_embedding_requests_waiting", "gauge", "Those that have not ended.",
        stats.num_waiting);
  write("kvgate_embedding_refused_total", "counter", "Those refused for lack of capacity.",
        stats.num_refused);
  write("kvgate_embedding_texts_total", "counter", "Texts that local vectors were made of.",
        stats.num_texts);
  write("kvgate_embedding_tokens_total", "counter", "Tokens of these texts.", stats.num_tokens);
  write("kvgate_embedding_steps_total", "counter", "Steps that computed them.", stats.num_steps);
}

}  // namespace kvgate::local::embeddings
