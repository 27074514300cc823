// LocalRecord is the ledger's record of one request to the local engine, from its arrival to its
// end. Exactly one record is added for each request, whatever its outcome, unless Drop is called.
// One thread may use it at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "gateway/dialect/form/completion.h"
#include "gateway/ledger/ledger.h"
#include "gateway/service/prompts.h"
#include "gateway/session/log/logged_turn.h"
#include "gateway/upstream/wire/trace_context.h"

namespace kvgate::service {

class LocalRecord {
 public:
  struct Args {
    ledger::Ledger* ledger = nullptr;  // null: nothing is kept
    dialect::form::Dialect dialect = dialect::form::Dialect::kChatCompletions;
    bool is_embedding = false;  // of no dialect of generation
    std::string_view request_id;
    std::string tenant = {};
    std::string_view key = {};                            // the name of the caller's [[key]]
    std::string_view session = {};                        // as the caller named it
    std::optional<session::log::TurnPrompt> prompt = {};  // the gateway's
    std::string_view purpose = {};                        // as RequestRecord::purpose
    std::optional<upstream::wire::TraceContext> caller_trace = {};
  };
  explicit LocalRecord(const Args& args);
  // Records that the client left if the request has not finished by then.
  ~LocalRecord();
  LocalRecord(const LocalRecord&) = delete;
  LocalRecord& operator=(const LocalRecord&) = delete;

  // Call it again if the request is decoded anew.
  void OnRequest(const dialect::form::CompletionRequest& request);
  // The engine's model has this name, whatever the request has called it.
  void OnModel(std::string_view name);
  // A request for embeddings that names a model so, or none, and is answered by this one.
  void OnNamed(std::string_view asked, std::string_view model);
  // Hashes the body, so it takes time with its size: call it while the engine works.
  void OnBody(std::string_view body);
  const std::string& tenant() const { return record_.tenant; }
  dialect::form::Endpoint endpoint() const { return record_.endpoint; }
  void OnAnswer(size_t bytes) { record_.answer_bytes += bytes; }
  // Takes what was prepared for this request, so that the record tells of it. `preparation` may be
  // null.
  void OnPrepared(Prompts& prompts, std::shared_ptr<upstream::ExchangePreparation> preparation);
  // `begun` says that a part of the answer has gone out under a status of success.
  void OnFinish(const dialect::form::FinishEvent& finish, bool begun);
  struct VectorStats {
    uint64_t num_tokens = 0;
    double queue_seconds = 0;
    double compute_seconds = 0;
  };
  // End a request for embeddings, with its vectors or without.
  void OnVectors(const VectorStats& stats);
  void OnFailed(const Error& error);
  // Returns why no more of the prompt was cached, as a JSON object; empty if that is unknown or no
  // tokens were lost.
  std::string BreakJson() const;
  // Returns the prompt's tokens by source, or an empty list if the body does not tell them.
  std::vector<dialect::form::PromptSegment> Segments() const;
  // Ends the record and adds it to the ledger.
  void End();
  // Ends it without a record, because another target answers.
  void Drop() { ledger_ = nullptr; }
  // Ends it for a request that was refused before the engine saw it.
  void OnRefused(const Error& error);

 private:
  ledger::Ledger* ledger_;  // null once it has ended
  Prompts* prompts_ = nullptr;
  std::shared_ptr<upstream::ExchangePreparation> preparation_;  // null: nothing is known of it
  ledger::RequestRecord record_;
  bool finished_ = false;
};

}  // namespace kvgate::service
