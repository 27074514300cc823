#include "gateway/proxy/handler/embedding/embedding_answer.h"

#include <fmt/format.h>

#include <utility>

#include "gateway/dialect/embeddings/embeddings.h"

namespace kvgate::proxy::handler::embedding {

using dialect::embeddings::EmbeddingRequest;
using local::embeddings::EmbeddingProvider;
using local::embeddings::EmbeddingRun;
using local::embeddings::Vectors;

namespace {

Result<std::unique_ptr<EmbeddingRun>> Submit(const EmbeddingAnswer::Args& args,
                                             const EmbeddingRequest& request) {
  if (args.local.is_draining()) {
    return MakeError(ErrorCode::kUnavailable, "embeddings",
                     "The server is shutting down and takes no new requests.");
  }
  const EmbeddingProvider& own = *args.local.get();
  if (!request.model.empty() && !own.Serves(request.model)) {
    return MakeError(
        ErrorCode::kNotFound, "embeddings",
        fmt::format("The model '{}' does not exist here; this server makes embeddings with '{}'.",
                    request.model, own.id()),
        "model");
  }
  return own.Start({.inputs = request.inputs,
                    .is_list = request.is_list,
                    .dimensions = request.dimensions,
                    .tenant = args.tenant,
                    .prompt_tokens_max = args.prompt_tokens_max,
                    .wake = args.wake});
}

}  // namespace

Result<std::unique_ptr<EmbeddingAnswer>> EmbeddingAnswer::Start(const Args& args) {
  std::unique_ptr<EmbeddingAnswer> answer(new EmbeddingAnswer);
  answer->record_ = std::make_unique<service::LocalRecord>(
      service::LocalRecord::Args{.ledger = args.ledger,
                                 .is_embedding = true,
                                 .request_id = args.request_id,
                                 .tenant = args.tenant,
                                 .key = args.key,
                                 .session = args.session,
                                 .purpose = args.purpose,
                                 .caller_trace = args.caller_trace});
  const Result<EmbeddingRequest> request =
      dialect::embeddings::DecodeEmbeddings(args.body, args.limits);
  if (!request) {
    answer->record_->OnRefused(request.error());
    return request.error();
  }
  const std::string& own = args.local.get()->id();
  answer->record_->OnNamed(request->model, own);
  answer->model_ = request->model.empty() ? own : request->model;
  answer->is_base64_ = request->is_base64;
  Result<std::unique_ptr<EmbeddingRun>> run = Submit(args, *request);
  if (!run) {
    answer->record_->OnRefused(run.error());
    return run.error();
  }
  answer->run_ = std::move(*run);
  answer->record_->OnBody(args.body);
  return answer;
}

Result<std::string> EmbeddingAnswer::Finish() {
  const Result<Vectors> vectors = run_->Take();
  if (!vectors) {
    record_->OnFailed(vectors.error());
    return vectors.error();
  }
  std::string body = dialect::embeddings::EncodeEmbeddings({.model = model_,
                                                            .vectors = vectors->values,
                                                            .dimensions = vectors->dimensions,
                                                            .is_base64 = is_base64_,
                                                            .num_tokens = vectors->num_tokens});
  record_->OnAnswer(body.size());
  record_->OnVectors({.num_tokens = vectors->num_tokens,
                      .queue_seconds = vectors->queue_seconds,
                      .compute_seconds = vectors->compute_seconds});
  return body;
}

}  // namespace kvgate::proxy::handler::embedding
