// LocalRecord: the ledger's record of one request to the local engine, from its arrival to its end.
// Exactly one record is added, whatever becomes of the request. One thread at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include <kvgate/result.h>

#include "gateway/ledger/ledger.h"
#include "gateway/protocol/form/completion.h"
#include "gateway/service/prompts.h"

namespace kvgate::service {

class LocalRecord {
 public:
  struct Args {
    ledger::Ledger* ledger = nullptr;  // null: nothing is kept
    protocol::Dialect dialect = protocol::Dialect::kChatCompletions;
    std::string_view request_id;
    std::string tenant = {};
  };
  explicit LocalRecord(const Args& args);
  // One whose end is not known by then was left by its client.
  ~LocalRecord();
  LocalRecord(const LocalRecord&) = delete;
  LocalRecord& operator=(const LocalRecord&) = delete;

  void OnRequest(const protocol::CompletionRequest& request);
  // Costs with the body's size: to be called while the engine works.
  void OnBody(std::string_view body);
  void OnAnswer(size_t bytes) { record_.answer_bytes += bytes; }
  // What its prompt is compared with, and remembered for; not at all for what the gateway itself
  // adds turns to. Costs with what is new in the body: to be called while the engine works.
  void Watch(Prompts& prompts, std::string_view body);
  // Its end is known. `begun`: a part of the answer has gone out under a status of success.
  void OnFinish(const protocol::FinishEvent& finish, bool begun);
  // Why no more of the prompt was cached, as a JSON object; empty: not known, or nothing is lost.
  std::string BreakJson() const;
  // The prompt's tokens by source, where its body tells them; else empty.
  std::vector<protocol::PromptSegment> Segments() const;
  // Ends it.
  void End();
  // Ends it without a record: someone else answers.
  void Drop() { ledger_ = nullptr; }
  // Ends it before the engine saw it.
  void OnRefused(const Error& error);

 private:
  ledger::Ledger* ledger_;  // null once it has ended
  Prompts* prompts_ = nullptr;
  std::shared_ptr<upstream::ExchangePreparation> preparation_;  // null: it is not watched
  ledger::RequestRecord record_;
  bool finished_ = false;
};

}  // namespace kvgate::service
