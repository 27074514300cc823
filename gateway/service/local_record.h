// LocalRecord: the ledger's record of one request to the local engine, from its arrival to its end.
// Exactly one record is added, whatever becomes of the request. One thread at a time.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <kvgate/result.h>

#include "gateway/ledger/ledger.h"
#include "gateway/protocol/completion.h"

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
  // One that has not ended by then was left by its client.
  ~LocalRecord();
  LocalRecord(const LocalRecord&) = delete;
  LocalRecord& operator=(const LocalRecord&) = delete;

  void OnRequest(const protocol::CompletionRequest& request);
  // Costs with the body's size: to be called while the engine works.
  void OnBody(std::string_view body);
  void OnAnswer(size_t bytes) { record_.answer_bytes += bytes; }
  // Ends it. `begun`: a part of the answer has gone out under a status of success.
  void OnFinish(const protocol::FinishEvent& finish, bool begun);
  // Ends it without a record: someone else answers.
  void Drop() { ledger_ = nullptr; }
  // Ends it before the engine saw it.
  void OnRefused(const Error& error);

 private:
  void End();

  ledger::Ledger* ledger_;  // null once it has ended
  ledger::RequestRecord record_;
};

}  // namespace kvgate::service
