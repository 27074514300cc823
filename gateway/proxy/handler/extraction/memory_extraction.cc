// Facts that a session's model finds in its conversation, by a request of the gateway's own in the
// name of the caller.
#include <fmt/format.h>

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gateway/local/prefix_service.h"
#include "gateway/proxy/handler/fold_runner.h"
#include "gateway/proxy/handler/handler.h"
#include "gateway/proxy/handler/own_request.h"
#include "gateway/proxy/handler/session_step.h"
#include "gateway/session/compaction/summary_request.h"
#include "gateway/session/memory/extraction.h"
#include "gateway/session/memory/memory_admin.h"
#include "gateway/session/summary/summary_call.h"

namespace kvgate::proxy::handler::extraction {

using dialect::form::Dialect;
using request::Response;
using session::Sessions;
using session::memory::Extraction;
using session::memory::MemoryAdmin;
using session::memory::MemoryBook;
using session::transcript::Json;
using session::transcript::Member;

namespace {

// What such a request is for, as a source of the ledger.
constexpr std::string_view kMemoryPurpose = "memory";
constexpr int kAnswerTokens = 2048;

// Makes the local engine write an object of the schema, or null for a fact. It changes no prompt
// there, while a provider may tell it to its model in front of everything.
Member FormatOf(Dialect dialect, const session::memory::FactSchema& schema) {
  Json properties = Json::object();
  for (const auto& [name, of] : schema.json()["properties"].items()) {
    properties[name] = {{"anyOf", Json::array({of, {{"type", "null"}}})}};
  }
  const Json object = {
      {"type", "object"}, {"properties", std::move(properties)}, {"additionalProperties", false}};
  Json format = {{"type", "json_schema"}};
  if (dialect == Dialect::kChatCompletions) {
    format["json_schema"] = {{"name", "facts"}, {"schema", object}};
    return {.name = "response_format", .value = session::transcript::Dump(format)};
  }
  if (dialect == Dialect::kResponses) format["name"] = "facts";
  format["schema"] = object;
  const Json of = {{"format", std::move(format)}};
  return {.name = dialect == Dialect::kResponses ? "text" : "output_config",
          .value = session::transcript::Dump(of)};
}

class MemoryExtraction {
 public:
  MemoryExtraction(RequestContext& request, Sessions& sessions, MemoryBook& book)
      : request_(request),
        sessions_(sessions),
        book_(book),
        tenant_(local::TenantOf(request.caller().credential())),
        key_(request.place().argument) {}

  Task<Result<std::string>> Run() {
    Result<Extraction> extraction = Extraction::Read(request_.body().text());
    if (!extraction) co_return extraction.error();
    const Result<std::string> body = co_await Compose(*extraction);
    if (!body) co_return body.error();
    const Result<std::string> answer = co_await Ask(*body);
    if (!answer) co_return answer.error();
    Result<Extraction::Found> found = extraction->ReadAnswer(*answer);
    if (!found) co_return found.error();
    Result<std::string> changed = co_await Change(*std::move(found));
    co_return changed;
  }

 private:
  // What the disk has to say; the work may outlive this.
  struct Stored {
    Result<Sessions::Stored> session = MakeError(ErrorCode::kInternal, "proxy", "");
    Result<session::memory::Memory> memory = MakeError(ErrorCode::kInternal, "proxy", "");
  };

  // The session's prompt with the question behind it.
  Task<Result<std::string>> Compose(const Extraction& extraction) {
    auto stored = std::make_shared<Stored>();
    std::function<void()> read = [&sessions = sessions_, &book = book_, stored, tenant = tenant_,
                                  key = key_] {
      stored->session = sessions.ReadStored(tenant, key);
      stored->memory = book.Get({.tenant = tenant, .session = key});
    };
    Result<void> done =
        co_await request_.work().RunOnDisk(request_.work().pools().store, std::move(read));
    if (!done) co_return done.error();
    if (!stored->session) co_return stored->session.error();
    if (!stored->memory) co_return stored->memory.error();
    session::SessionTurn& turn = *stored->session->turn;
    dialect_ = turn.request.dialect;
    const std::string question = extraction.Question(stored->memory->entries);
    // It takes part in the window, as what is said next.
    const Json said = {{"role", "user"}, {"content", question}};
    turn.request.messages = {{.json = session::transcript::Dump(said)}};
    Sessions::ComposeArgs args{.body = stored->session->body};
    const bool is_local = FoldTargetOf(request_, dialect_, turn.request.model).is_local;
    if (is_local) {
      CountWithLocalModel(request_, dialect_, args);
    } else {
      FitUpstreamModel(request_, dialect_, turn.request.model, args);
    }
    Result<std::string> body = std::string();
    std::function<void()> compose = [&] {
      body = sessions_.Compose(turn, args);
      if (body) body = Asking(*body, question, extraction, is_local);
    };
    done = co_await request_.work().RunOn(request_.work().pools().request, std::move(compose));
    if (!done) co_return done.error();
    co_return body;
  }

  // The request for an answer to the question, made as one for a summary is.
  Result<std::string> Asking(std::string_view body, const std::string& question,
                             const Extraction& extraction, bool is_local) const {
    KVGATE_TRY(session::transcript::RequestBody read,
               session::transcript::ReadBody(dialect_, body));
    read.messages.pop_back();
    const auto prompt = session::summary::SummaryPrompt::OfWhole(question);
    const std::string asking = session::summary::MakeCall({.dialect = dialect_,
                                                           .body = body,
                                                           .frame = read.frame,
                                                           .messages = read.messages,
                                                           .folded = read.messages,
                                                           .prompt = prompt,
                                                           .tokens_max = kAnswerTokens})
                                   .body;
    if (!is_local) return asking;
    const Member format = FormatOf(dialect_, extraction.schema());
    return session::transcript::WithMembers(asking, std::span(&format, 1));
  }

  Task<Result<std::string>> Ask(const std::string& body) {
    OwnRequests requests(request_, /*is_background=*/false);
    // The session is only recognised, as the conversation whose prefix this is.
    requests.Add(session::kKeyHeader, key_);
    requests.Add(session::kModeHeader, "recognise");
    KeepingSink& sink = requests.sink();
    const std::unique_ptr<RequestContext> context = requests.Open(PathOf(dialect_), kMemoryPurpose);
    const Result<void> replaced = context->ReplaceBody(body);
    if (!replaced) co_return replaced.error();
    co_await requests.Serve(Generation(), *context, request_.sink());
    if (sink.is_gone()) {
      co_return MakeError(ErrorCode::kUnavailable, "proxy", "The server ends; try again.");
    }
    if (sink.status != 200) {
      co_return MakeError(
          ErrorCode::kUnavailable, "proxy",
          fmt::format("The request to the session's model was answered with status {}: {}",
                      sink.status, sink.body.substr(0, 500)));
    }
    const auto said = session::compaction::ReadSummary(dialect_, sink.body);
    if (!said) {
      co_return MakeError(
          ErrorCode::kUnavailable, "proxy",
          fmt::format("The model has not answered the question: {}.", said.error().detail));
    }
    co_return said->text;
  }

  // Returns the memory, and what of it has changed.
  Task<Result<std::string>> Change(Extraction::Found found) {
    auto shown = std::make_shared<Result<std::string>>(
        MakeError(ErrorCode::kInternal, "proxy", "changing the memory failed"));
    std::function<void()> change = [&book = book_, shown, tenant = tenant_, key = key_,
                                    found = std::move(found)] {
      const MemoryBook::Place place{.tenant = tenant, .session = key};
      *shown = Apply(book, place, found);
    };
    const Result<void> ran =
        co_await request_.work().RunOnDisk(request_.work().pools().store, std::move(change));
    if (!ran) co_return ran.error();
    co_return *shown;
  }

  static Result<std::string> Apply(MemoryBook& book, const MemoryBook::Place& place,
                                   const Extraction::Found& found) {
    Json changed = Json::array();
    if (!found.changes.empty()) {
      KVGATE_TRY_VOID(book.Update(place, [&](session::memory::Memory& memory) -> Result<void> {
        changed = Json::array();  // it is called again where another gateway was faster
        const session::memory::Entries before = memory.entries;
        std::vector<session::memory::Entry> changes = found.changes;
        for (session::memory::Entry& entry : changes) {
          const bool is_removed = entry.value == "null";
          const session::memory::Entry* const known = session::memory::Find(before, entry.name);
          if (is_removed ? known != nullptr : known == nullptr || known->value != entry.value) {
            changed.push_back(entry.name);
          }
          if (is_removed) entry.value.clear();
        }
        session::memory::Apply(changes, memory.entries);
        return {};
      }));
    }
    KVGATE_TRY(const std::string shown, MemoryAdmin(&book).Show(place));
    Json body = Json::parse(shown);
    body["changed"] = std::move(changed);
    body["refused"] = found.refused;
    return session::transcript::Dump(body);
  }

  RequestContext& request_;
  Sessions& sessions_;
  MemoryBook& book_;
  const std::string tenant_;
  const std::string key_;
  Dialect dialect_ = Dialect::kChatCompletions;
};

class ExtractionHandler final : public Handler {
 public:
  Task<void> Serve(RequestContext& request) const override {
    Result<std::string> body = std::string();
    Sessions* const sessions = request.environment().options.sessions;
    MemoryBook* const book = sessions == nullptr ? nullptr : sessions->memory().book();
    const Result<void> admitted = request::AdmitOwnData(request);
    const Result<void> checked = session::CheckKey(request.place().argument, "key");
    if (!admitted) {
      body = admitted.error();
    } else if (!checked) {
      body = checked.error();
    } else if (book == nullptr) {
      body = session::log::SessionLog::NotKept();
    } else {
      MemoryExtraction extraction(request, *sessions, *book);
      body = co_await extraction.Run();
    }
    Response response =
        body ? Response{.body = *std::move(body)} : request::ErrorResponse(body.error());
    co_await request.Reply(std::move(response));
  }
};

}  // namespace

const Handler& ExtractMemory() {
  static const ExtractionHandler handler;
  return handler;
}

}  // namespace kvgate::proxy::handler::extraction
