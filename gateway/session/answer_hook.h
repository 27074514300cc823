// AnswerHook: a function that runs when an answer is complete, before its last bytes go out.
#pragma once

#include <functional>
#include <span>

#include "base/result.h"
#include "gateway/dialect/form/completion.h"
#include "gateway/dialect/reply/reply_choice.h"

namespace kvgate::session {

struct Answer {
  const dialect::form::FinishEvent& finish;
  std::span<const dialect::reply::ReplyChoice> choices;
};

// It is called once, on a thread that may block: what is kept of an answer is durable before its
// client knows that it has ended. If it fails, the answer ends with that error.
using AnswerHook = std::function<Result<void>(const Answer&)>;

}  // namespace kvgate::session
