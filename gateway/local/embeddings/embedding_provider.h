// EmbeddingProvider makes a model for embeddings a provider: names of the model, texts to token
// ids, limits, vectors of fewer dimensions. It knows no sockets and no JSON. Code of this process
// that wants vectors calls Embed; a request that must not block uses Start. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/embed/embedder.h"
#include "engine/text/tokenizer/tokenizer.h"
#include "gateway/dialect/embeddings/embeddings.h"

namespace kvgate::local::embeddings {

struct Vectors {
  std::vector<float> values = {};  // one vector after the other, each of length 1
  size_t dimensions = 0;           // of each
  uint64_t num_tokens = 0;
  double queue_seconds = 0;
  double compute_seconds = 0;
};

// A request on its way to its vectors. Destroying it early gives up what is left of it.
class EmbeddingRun {
 public:
  ~EmbeddingRun();
  EmbeddingRun(const EmbeddingRun&) = delete;
  EmbeddingRun& operator=(const EmbeddingRun&) = delete;

  uint64_t num_tokens() const { return num_tokens_; }
  // Never blocks. Returns true when Take can be called.
  bool is_done() const;
  // Call it once. REQUIRES: is_done().
  Result<Vectors> Take();

 private:
  friend class EmbeddingProvider;
  struct Shared;
  EmbeddingRun(embed::Embedder& embedder, size_t model_dimensions, size_t dimensions);

  embed::Embedder& embedder_;
  const size_t model_dimensions_;
  const size_t dimensions_;
  uint64_t num_tokens_ = 0;
  std::shared_ptr<Shared> shared_;
  RequestId id_;
};

class EmbeddingProvider {
 public:
  struct Parts {
    std::unique_ptr<embed::Embedder> embedder;
    std::unique_ptr<tokenizer::Tokenizer> tokenizer;
    std::vector<std::string> names;  // all names of the model; the first is its id
    int64_t created_unix = 0;
  };
  // REQUIRES: at least one name.
  explicit EmbeddingProvider(Parts parts) : parts_(std::move(parts)) {}

  const std::string& id() const { return parts_.names.front(); }
  const std::vector<std::string>& names() const { return parts_.names; }
  int64_t created_unix() const { return parts_.created_unix; }
  bool Serves(std::string_view model) const;
  const embed::Embedder& embedder() const { return *parts_.embedder; }
  int dimensions() const { return parts_.embedder->info().dimensions; }
  int context_tokens() const { return parts_.embedder->info().context_tokens; }

  struct Args {
    const std::vector<dialect::embeddings::EmbeddingInput>& inputs;  // not empty
    bool is_list = true;              // errors say which of the inputs they are about
    int dimensions = 0;               // of the vectors: the first ones, scaled anew; 0: all
    std::string tenant = {};          // whose turn it takes
    int64_t prompt_tokens_max = 0;    // of each input, by the caller's key; 0: no limit
    std::function<void()> wake = {};  // called on another thread when is_done() has become true
  };
  // Takes time with the length of the texts. Fails with kInvalidArgument, which names the field, or
  // with kOverloaded if a later try may succeed.
  Result<std::unique_ptr<EmbeddingRun>> Start(const Args& args) const;

  // Waits for the vectors of these texts, in their order. Not on an event loop. Fails as Start
  // does.
  Result<Vectors> Embed(const std::vector<std::string>& texts, std::string tenant) const;

 private:
  Result<std::vector<TokenId>> Encode(const dialect::embeddings::EmbeddingInput& input,
                                      const std::string& path) const;

  const Parts parts_;
};

}  // namespace kvgate::local::embeddings
