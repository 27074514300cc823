// EmbeddingAnswer takes a request for embeddings from its body to its answer's: decode, tokenize,
// wait for the vectors, encode, record. One thread may use it at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "gateway/dialect/form/decode_limits.h"
#include "gateway/ledger/ledger.h"
#include "gateway/local/embeddings/published_provider.h"
#include "gateway/service/local_record.h"

namespace kvgate::proxy::handler::embedding {

class EmbeddingAnswer {
 public:
  struct Args {
    const local::embeddings::PublishedProvider& local;  // has loaded; outlives the answer
    ledger::Ledger* ledger = nullptr;                   // null: nothing is recorded
    dialect::form::DecodeLimits limits = {};
    std::string_view body;
    std::string_view request_id;
    std::string tenant = {};        // in the ledger, and whose turn it takes
    std::string_view key = {};      // the name of the caller's [[key]]
    std::string_view session = {};  // as the caller named it
    std::string_view purpose = {};  // of a request of the gateway's own; empty: it is a client's
    std::optional<upstream::wire::TraceContext> caller_trace = {};
    int64_t prompt_tokens_max = 0;    // of the caller's key, for each input; 0: no limit
    std::function<void()> wake = {};  // called on the embedder's thread
  };
  // Decodes, tokenizes and submits. Takes time with the length of the body. A refusal is recorded.
  static Result<std::unique_ptr<EmbeddingAnswer>> Start(const Args& args);

  uint64_t num_tokens() const { return run_->num_tokens(); }
  // Never blocks. Returns true when Finish can be called.
  bool is_done() const { return run_->is_done(); }
  // Returns the body of the answer, and ends the record. Takes time with its length. Call it once.
  Result<std::string> Finish();

 private:
  EmbeddingAnswer() = default;

  std::unique_ptr<local::embeddings::EmbeddingRun> run_;
  std::unique_ptr<service::LocalRecord> record_;
  std::string model_;  // as the answer names it
  bool is_base64_ = false;
};

}  // namespace kvgate::proxy::handler::embedding
