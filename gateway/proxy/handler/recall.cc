#include "gateway/proxy/handler/recall.h"

#include <fmt/format.h>

#include <functional>
#include <utility>

#include "base/log.h"
#include "base/utf8.h"
#include "gateway/session/retrieval/embedding_call.h"
#include "gateway/session/session_ask.h"

namespace kvgate::proxy::handler {

using session::retrieval::EmbeddingPace;
using session::retrieval::EmbeddingWork;
using session::retrieval::Meaning;

namespace {

constexpr std::string_view kTarget = "/v1/embeddings";
constexpr int kCutsMax = 2;  // of a text that is refused, each time to half of it

constexpr std::chrono::seconds kQuestionTime{2};
// A model that takes longer for some dozen texts is taken for one that is down.
constexpr std::chrono::seconds kRequestTime{60};

bool IsRefusal(int status) { return status == 400 || status == 413 || status == 422; }

// Has vectors made of a session's passages, and keeps them.
class PassageEmbedder final : public work::BackgroundJob {
 public:
  PassageEmbedder(const RequestContext& request,
                  std::unique_ptr<session::retrieval::EmbeddingWork> work);

  Task<void> Run() override;
  void Cancel() override { requests_.requests().sink().Cancel(); }

 private:
  Task<Result<void>> Make();
  // Runs a step that waits for the disk.
  Task<Result<void>> OnDisk(Result<void> (session::retrieval::EmbeddingWork::*step)());

  const std::shared_ptr<session::retrieval::EmbeddingWork> work_;
  VectorRequests requests_;
  request::Environment& environment_;
  session::SessionMemory& memory_;
};

}  // namespace

bool MayAskFor(const RequestContext& request, std::string_view model) {
  const local::embeddings::PublishedProvider* const local =
      request.environment().options.embeddings;
  if (local != nullptr) {
    // Until it has loaded, nobody knows which names are its own.
    if (local->get() == nullptr) return false;
    if (local->Serves(model)) return true;
  }
  return request.Header("x-kvgate-private") != "1" &&
         request.targets().upstreams->Serves({.dialect = dialect::form::Api::kOpenAi,
                                              .endpoint = dialect::form::Endpoint::kEmbeddings,
                                              .model = model});
}

VectorRequests::VectorRequests(const RequestContext& request, const Args& args)
    : model_(args.model),
      requests_(request, /*is_background=*/true, OwnRequests::Fields::kTrace),
      timer_(request.sink().executor()) {
  requests_.Add("content-type", "application/json");
  requests_.Add("accept-encoding", "identity");
  requests_.Add(session::kKeyHeader, std::string(args.session));
}

void VectorRequests::GiveUpIn(std::chrono::seconds time) {
  timer_.expires_after(time);
  timer_.async_wait([weak = requests_.sink().weak_from_this(),
                     is_late = is_late_](const boost::system::error_code& code) {
    const auto sink = weak.lock();
    if (code || sink == nullptr) return;
    *is_late = true;
    sink->Cancel();
  });
}

Task<Result<VectorRequests::Meanings>> VectorRequests::AskOnce(std::vector<std::string> texts) {
  const std::unique_ptr<RequestContext> context = requests_.Open(kTarget, kRetrievalPurpose);
  const KeepingSink& sink = requests_.sink();
  const Result<void> replaced =
      context->ReplaceBody(session::retrieval::EmbeddingBody(model_, texts));
  if (!replaced) co_return replaced.error();
  co_await Embeddings().Serve(*context);
  if (sink.is_gone()) {
    co_return MakeError(ErrorCode::kUnavailable, "proxy", "they did not come in time");
  }
  if (sink.status != 200) {
    co_return MakeError(
        IsRefusal(sink.status) ? ErrorCode::kInvalidArgument : ErrorCode::kUnavailable, "proxy",
        fmt::format("request {} was answered with status {}", context->head().request_id,
                    sink.status));
  }
  Result<Meanings> read = Meanings();
  std::function<void()> work = [&] {
    read = session::retrieval::ReadEmbeddings(sink.body, texts.size());
  };
  const Result<void> ran =
      co_await context->work().RunOn(requests_.environment().pools.request, std::move(work));
  if (!ran) co_return ran.error();
  co_return read;
}

Task<Result<VectorRequests::Meanings>> VectorRequests::AskCut(std::string text) {
  Result<Meanings> made = Meanings();
  for (int i = 0; i < kCutsMax; ++i) {
    text.resize(Utf8CutBefore(text, text.size() / 2));
    if (text.empty()) break;
    std::vector<std::string> texts = {text};
    made = co_await AskOnce(std::move(texts));
    if (made || made.error().code != ErrorCode::kInvalidArgument) break;
  }
  co_return made;
}

Task<Result<VectorRequests::Meanings>> VectorRequests::Ask(std::vector<std::string> texts) {
  Result<Meanings> made = co_await AskOnce(texts);
  if (made || made.error().code != ErrorCode::kInvalidArgument) co_return made;
  // One of them is too long for the model.
  const Error refusal = made.error();
  Meanings all;
  size_t num_taken = 0;
  for (std::string& text : texts) {
    std::vector<std::string> alone = {text};
    Result<Meanings> one = co_await AskOnce(std::move(alone));
    if (!one && one.error().code == ErrorCode::kInvalidArgument) {
      one = co_await AskCut(std::move(text));
    }
    if (!one && one.error().code != ErrorCode::kInvalidArgument) co_return one.error();
    const bool is_taken = one && !one->empty();
    num_taken += is_taken ? 1 : 0;
    all.push_back(is_taken ? std::move(one->front()) : Meaning());
  }
  // A model that refuses all of them refuses something else.
  if (num_taken == 0) co_return refusal;
  co_return all;
}

Task<Meaning> AskForQuestion(RequestContext& request, const session::SessionTurn& turn) {
  session::SessionMemory& memory = request.environment().options.sessions->memory();
  if (memory.model().empty() || !MayAskFor(request, memory.model())) co_return Meaning();
  std::string text;
  std::function<void()> read = [&] {
    text = memory.AskedBy(turn.tenant, turn.remembered, turn.request.messages);
  };
  co_await request.work().RunSized(request.body().text().size(), std::move(read));
  if (text.empty() || request.sink().is_gone()) co_return Meaning();
  VectorRequests requests(request, {.model = std::string(memory.model()), .session = turn.ask.key});
  KeepingSink& sink = requests.requests().sink();
  requests.GiveUpIn(kQuestionTime);
  Leaving leaving(sink);
  request.sink().Watch(&leaving);
  std::vector<std::string> texts = {std::move(text)};
  Result<std::vector<Meaning>> made = co_await requests.Ask(std::move(texts));
  request.sink().Watch(nullptr);
  if (request.sink().is_gone()) co_return Meaning();
  const bool is_made = made && made->front().is_known();
  memory.NoteVectors(turn.tenant, EmbeddingPace::Use::kQuestion, is_made ? 1 : 0);
  if (is_made) co_return std::move(made->front());
  KVGATE_LOG(kWarning, "proxy", "session '{}' is searched by words: {}", turn.ask.key,
             made ? "the question has no vector" : made.error().detail);
  co_return Meaning();
}

PassageEmbedder::PassageEmbedder(const RequestContext& request, std::unique_ptr<EmbeddingWork> work)
    : work_(std::move(work)),
      requests_(request, {.model = work_->model(), .session = work_->key()}),
      environment_(request.environment()),
      memory_(environment_.options.sessions->memory()) {}

Task<void> PassageEmbedder::Run() {
  const Result<void> made = co_await Make();
  if (made) co_return;
  KVGATE_LOG(kWarning, "proxy", "session '{}': passages are found by words alone: {}", work_->key(),
             made.error().detail);
}

Task<Result<void>> PassageEmbedder::Make() {
  Result<void> done = co_await OnDisk(&EmbeddingWork::Plan);
  while (done) {
    std::vector<std::string> texts = work_->Next();
    if (texts.empty()) break;
    requests_.GiveUpIn(kRequestTime);
    Result<std::vector<Meaning>> made = co_await requests_.Ask(std::move(texts));
    // The server ends.
    if (requests_.requests().sink().is_gone() && !requests_.is_late()) break;
    memory_.NoteVectors(work_->tenant(), EmbeddingPace::Use::kPassages, made ? made->size() : 0);
    if (!made) co_return made.error();
    work_->Take(*std::move(made));
    done = co_await OnDisk(&EmbeddingWork::Store);
  }
  co_return done;
}

// The disk may answer when this has given up, so what it does shares the work.
Task<Result<void>> PassageEmbedder::OnDisk(Result<void> (EmbeddingWork::*step)()) {
  const std::unique_ptr<RequestContext> context =
      requests_.requests().Open("/v1/embeddings", kRetrievalPurpose);
  auto done = std::make_shared<Result<void>>();
  std::function<void()> run = [work = work_, step, done] { *done = (work.get()->*step)(); };
  const Result<void> ran =
      co_await context->work().RunOnDisk(environment_.pools.store, std::move(run));
  co_return ran ? *done : ran;
}

void BeginEmbedding(const RequestContext& request, session::SessionTurn& turn) {
  const request::Environment& environment = request.environment();
  session::SessionMemory& memory = environment.options.sessions->memory();
  session::Unembedded unembedded = std::exchange(turn.unembedded, {});
  const bool is_wanted = unembedded.is_wanted || !unembedded.turns.empty();
  if (!is_wanted || !MayAskFor(request, memory.model())) return;
  auto work = memory.BeginEmbedding(turn.place(), std::move(unembedded), turn.turn);
  if (work == nullptr) return;
  environment.background->Spawn(std::make_shared<PassageEmbedder>(request, std::move(work)),
                                request.sink().executor());
}

}  // namespace kvgate::proxy::handler
