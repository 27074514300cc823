#include "store/remote/exchange.h"

#include <utility>

namespace kvgate::store::remote {

Result<void> Exchange::Connect(size_t num_others) {
  connection_ = pool_.TakeKept(endpoint_);
  was_kept_ = connection_ != nullptr;
  if (was_kept_) return {};
  auto made = pool_.Connect(endpoint_, deadline_, num_others);
  if (!made) return std::move(made).error();
  connection_ = *std::move(made);
  return {};
}

void Exchange::Start(std::span<const RespCommand> commands) {
  commands_ = commands;
  connection_->Start(commands);
}

void Exchange::PutBack() { pool_.Return(std::move(connection_)); }

Result<RespReplies> Exchange::Finish() {
  Result<RespReplies> replies = connection_->Finish(deadline_);
  if (!replies && was_kept_ && connection_->is_closed_unanswered()) {
    pool_.Forget(endpoint_);
    was_kept_ = false;
    auto made = pool_.Connect(endpoint_, deadline_, 0);
    may_ask_another_ = !made;
    if (!made) return std::move(made).error();
    connection_ = *std::move(made);
    connection_->Start(commands_);
    replies = connection_->Finish(deadline_);
  }
  if (replies) {
    pool_.Return(std::move(connection_));
  } else {
    pool_.Forget(endpoint_);
  }
  return replies;
}

}  // namespace kvgate::store::remote
