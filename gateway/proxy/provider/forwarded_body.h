// ForwardedBody: an upstream's answer that is passed on as it comes, byte for byte, but for three
// things: the operator's key is masked in failures, which may repeat the request; a caller that
// asked for an explanation gets it at the end; and hop-by-hop framing is the sink's.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "gateway/dialect/form/answer_extension.h"
#include "gateway/proxy/provider/answer.h"
#include "gateway/proxy/provider/upstream_exchange.h"

namespace kvgate::proxy::provider {

class ForwardedBody {
 public:
  // The answer's head has been taken.
  explicit ForwardedBody(UpstreamExchange& exchange) : exchange_(exchange) {}

  // An encoded failure is read as a whole here, because it can be searched only so.
  Task<Begun> Begin();
  // The pieces that came before count as delivered.
  Task<Result<Piece>> Next();
  // The last piece was delivered.
  void Finish() { Account(); }

 private:
  // Returns nullopt if no secret can be in the answer.
  std::optional<upstream::SecretMask> FailureMask() const;
  // True if the caller asked for an explanation and the answer has a place for it.
  bool IsExtended(std::string_view content_type) const;
  Task<Begun> BeginEncodedFailure();
  // Notes the piece that was delivered.
  void Account();

  UpstreamExchange& exchange_;
  std::string reason_;
  std::optional<upstream::SecretMask> mask_;
  std::optional<dialect::form::AnswerExtension> extension_;
  bool is_first_ = true;
  bool is_whole_ = false;   // piece_ is all of the body
  bool is_broken_ = false;  // the piece that went out was all that could be said
  bool is_due_ = false;     // piece_ is to be accounted for
  std::string piece_;
};

}  // namespace kvgate::proxy::provider
