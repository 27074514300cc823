#include "gateway/local/embeddings/embedding_provider.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <span>
#include <utility>

#include "gateway/dialect/form/errors.h"

namespace kvgate::local::embeddings {
namespace {

Error Invalid(std::string detail, std::string field) {
  return MakeError(ErrorCode::kInvalidArgument, "embeddings", std::move(detail), std::move(field));
}

// Leaves the first dimensions of each vector, scaled to length 1: what models that were trained for
// it (Kusupati et al. 2022) and OpenAI's parameter mean by fewer dimensions.
void Shorten(size_t from, size_t to, std::vector<float>& values) {
  if (from == to) return;
  const size_t count = values.size() / from;
  for (size_t i = 0; i < count; ++i) {
    for (size_t k = 0; k < to; ++k) values[i * to + k] = values[i * from + k];
    embed::Normalize(std::span(values).subspan(i * to, to));
  }
  values.resize(count * to);
}

}  // namespace

// The embedder's thread writes the result and wakes; the run may be gone by then.
struct EmbeddingRun::Shared {
  std::mutex mutex;
  std::function<void()> wake;  // empty: nobody waits any more
  std::optional<Result<embed::Embeddings>> result;

  void Finish(Result<embed::Embeddings> done) {
    const std::lock_guard lock(mutex);
    result = std::move(done);
    if (wake) wake();
  }
};

EmbeddingRun::EmbeddingRun(embed::Embedder& embedder, size_t model_dimensions, size_t dimensions)
    : embedder_(embedder),
      model_dimensions_(model_dimensions),
      dimensions_(dimensions),
      shared_(std::make_shared<Shared>()) {}

EmbeddingRun::~EmbeddingRun() {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->wake = nullptr;
  }
  embedder_.Cancel(id_);
}

bool EmbeddingRun::is_done() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->result.has_value();
}

Result<Vectors> EmbeddingRun::Take() {
  const std::lock_guard lock(shared_->mutex);
  Result<embed::Embeddings>& result = *shared_->result;
  if (!result) return result.error();
  Shorten(model_dimensions_, dimensions_, result->vectors);
  return Vectors{.values = std::move(result->vectors),
                 .dimensions = dimensions_,
                 .num_tokens = result->num_tokens,
                 .queue_seconds = result->queue_seconds,
                 .compute_seconds = result->compute_seconds};
}

bool EmbeddingProvider::Serves(std::string_view model) const {
  return std::ranges::find(parts_.names, model) != parts_.names.end();
}

// A text stands between the model's special tokens, as its file says; tokens are taken as they are.
Result<std::vector<TokenId>> EmbeddingProvider::Encode(
    const dialect::embeddings::EmbeddingInput& input, const std::string& path) const {
  if (const auto* const text = std::get_if<std::string>(&input)) {
    std::vector<TokenId> tokens = parts_.tokenizer->Encode(*text, {});
    if (tokens.empty()) return Invalid(fmt::format("'{}' has no tokens.", path), path);
    return tokens;
  }
  const auto& tokens = std::get<std::vector<TokenId>>(input);
  const int vocab_size = parts_.embedder->info().model.vocab_size;
  const auto unknown =
      std::ranges::find_if(tokens, [&](TokenId token) { return token < 0 || token >= vocab_size; });
  if (unknown != tokens.end()) {
    return Invalid(fmt::format("'{}' has the token {}; the model '{}' has {} tokens.", path,
                               *unknown, id(), vocab_size),
                   path);
  }
  return tokens;
}

Result<std::unique_ptr<EmbeddingRun>> EmbeddingProvider::Start(const Args& args) const {
  const auto own_dimensions = static_cast<size_t>(dimensions());
  const auto wanted = args.dimensions == 0 ? own_dimensions : static_cast<size_t>(args.dimensions);
  if (wanted > own_dimensions) {
    return Invalid(fmt::format("'dimensions' is {}; the vectors of the model '{}' have {}.", wanted,
                               id(), own_dimensions),
                   "dimensions");
  }
  embed::Embedder::Request request = {.texts = {}, .tenant = args.tenant};
  std::unique_ptr<EmbeddingRun> run(new EmbeddingRun(*parts_.embedder, own_dimensions, wanted));
  // What is too much is refused before all of it has been encoded.
  const size_t tokens_max = parts_.embedder->options().request_tokens_max;
  for (size_t i = 0; i < args.inputs.size(); ++i) {
    const std::string path = dialect::embeddings::EmbeddingInputPath(args.is_list, i);
    KVGATE_TRY(std::vector<TokenId> tokens, Encode(args.inputs[i], path));
    if (tokens.size() > static_cast<size_t>(context_tokens())) {
      return Invalid(fmt::format("'{}' has {} tokens; the model '{}' takes {} of a text at most.",
                                 path, tokens.size(), id(), context_tokens()),
                     path);
    }
    if (args.prompt_tokens_max > 0 && std::ssize(tokens) > args.prompt_tokens_max) {
      return dialect::form::PromptLimitError(
          dialect::form::Dialect::kChatCompletions,
          {.num_tokens = std::ssize(tokens), .tokens_max = args.prompt_tokens_max});
    }
    run->num_tokens_ += tokens.size();
    if (run->num_tokens_ > tokens_max) {
      return Invalid(fmt::format("'input' has more than {} tokens in its texts together; send "
                                 "them in several requests.",
                                 tokens_max),
                     "input");
    }
    request.texts.push_back(std::move(tokens));
  }
  run->shared_->wake = args.wake;
  KVGATE_TRY(run->id_,
             parts_.embedder->Submit(std::move(request), [shared = run->shared_](auto result) {
               shared->Finish(std::move(result));
             }));
  return run;
}

Result<Vectors> EmbeddingProvider::Embed(const std::vector<std::string>& texts,
                                         std::string tenant) const {
  std::vector<dialect::embeddings::EmbeddingInput> inputs(texts.begin(), texts.end());
  if (inputs.empty()) return Vectors{.dimensions = static_cast<size_t>(dimensions())};
  std::mutex mutex;
  std::condition_variable done;
  bool is_done = false;
  KVGATE_TRY(const std::unique_ptr<EmbeddingRun> run,
             Start({.inputs = inputs, .tenant = std::move(tenant), .wake = [&] {
                      const std::lock_guard lock(mutex);
                      is_done = true;
                      done.notify_all();
                    }}));
  std::unique_lock lock(mutex);
  done.wait(lock, [&] { return is_done; });
  lock.unlock();
  return run->Take();
}

}  // namespace kvgate::local::embeddings
