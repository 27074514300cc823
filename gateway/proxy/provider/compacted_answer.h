// CompactedAnswer: an answer that says what was done to its prompt, because that has grown over a
// threshold. It passes the answer of any provider on, with that inserted.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "gateway/proxy/provider/answer.h"
#include "gateway/session/compaction/inserted.h"

namespace kvgate::proxy::provider {

class CompactedAnswer final : public Answer {
 public:
  // `inner` must outlive it, and is ended by it.
  CompactedAnswer(request::RequestContext& request, Answer& inner,
                  std::shared_ptr<const session::compaction::Insertion> insertion)
      : request_(request), inner_(inner), inserter_(std::move(insertion)) {}

  Task<Begun> Begin() override;
  Task<Result<Piece>> Next() override;
  void End(Fate fate) override { inner_.End(fate); }

 private:
  // Reads a body that comes in pieces as a whole, because its length changes.
  Task<Begun> BeginBody();

  request::RequestContext& request_;
  Answer& inner_;
  session::compaction::Inserter inserter_;
  bool has_events_ = false;
  std::string text_;
};

}  // namespace kvgate::proxy::provider
