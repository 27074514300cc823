// SessionFold: one summary of a session on its way: the request that asks for it, and its answer,
// which becomes an event in the log. Who sends that request, and to whom, it does not know.
//
// MakeCall and Read compute; Store waits for the disk. Used by one thread at a time.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gateway/session/compose.h"
#include "gateway/session/log/session_log.h"
#include "gateway/session/summary/folds.h"
#include "gateway/session/summary/summary_call.h"

namespace kvgate::session {

class SessionFold {
 public:
  struct Args {
    log::SessionLog& log;  // outlives it, as the prompt does
    const summary::SummaryPrompt& prompt;
    std::unique_ptr<summary::Folds::Ticket> ticket;
    std::string tenant = {};
    std::string key = {};
    std::string turn = {};  // the stored response that was last answered; empty: the newest turn
    transcript::Dialect dialect = transcript::Dialect::kChatCompletions;
    std::string body = {};   // of the last request, as its caller wrote it
    std::string model = {};  // that is to write; empty: the body's
    FoldPlan plan = {};
    std::vector<transcript::Message> answer = {};  // to the prompt of the plan
  };
  explicit SessionFold(Args args) : args_(std::move(args)) {}

  const std::string& tenant() const { return args_.tenant; }
  const std::string& key() const { return args_.key; }
  transcript::Dialect dialect() const { return args_.dialect; }
  const std::string& model() const { return args_.model; }
  // The session's own model writes, whatever was configured.
  void UseOwnModel() { args_.model.clear(); }

  summary::Call MakeCall() const;
  // Reads the answer to the call. Fails if it is no summary.
  Result<void> Read(std::string_view answer);
  // The session's prompt with the summary that was read, as a body of its dialect.
  std::string NextBody() const;
  // Adds the event to the log; `request_id` is the call's. REQUIRES: Read, and the session is held.
  // Fails with kCancelled if the session went on elsewhere, so that nothing has changed.
  Result<void> Store(std::string_view request_id);

 private:
  Result<void> Append(std::string_view request_id);
  // Adds the event to the branch that the key names. Fails with kCancelled as Store does.
  Result<void> AppendTo(std::string_view key, std::string_view request_id);

  Args args_;
  log::Summary summary_;
};

}  // namespace kvgate::session
