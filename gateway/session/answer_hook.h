// What is to happen when an answer is complete, before its last bytes go out.
#pragma once

#include <functional>
#include <span>

#include <kvgate/result.h>

#include "gateway/protocol/form/completion.h"
#include "gateway/protocol/reply_choice.h"

namespace kvgate::service {

struct Answer {
  const protocol::FinishEvent& finish;
  std::span<const protocol::ReplyChoice> choices;
};

// Called once, with time to wait: what is kept of an answer is durable before its client knows that
// it has ended. An error becomes the answer's end.
using AnswerHook = std::function<Result<void>(const Answer&)>;

}  // namespace kvgate::service
