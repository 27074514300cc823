// TranslatedBody: the answer of an upstream of another dialect, as its caller's dialect says it.
#pragma once

#include <optional>
#include <string>

#include "gateway/dialect/form/answer_extension.h"
#include "gateway/proxy/provider/answer.h"
#include "gateway/proxy/provider/translation.h"
#include "gateway/proxy/provider/upstream_exchange.h"

namespace kvgate::proxy::provider {

class TranslatedBody {
 public:
  // The answer's head has been taken. `translation` outlives this.
  TranslatedBody(UpstreamExchange& exchange, Translation& translation)
      : exchange_(exchange), translation_(translation) {}

  // A stream begins with its first translated event; all else is translated as a whole here.
  Task<Begun> Begin();
  Task<Result<Piece>> Next();

 private:
  enum class State : uint8_t { kOpen, kLast, kBroken };
  Task<Begun> BeginRefusal();
  // Reads until there is something to send; text_ is that.
  Task<void> Advance();
  void Finish();
  // The answer broke off.
  void Break(std::string why);
  Begun Whole(request::Response response);

  UpstreamExchange& exchange_;
  Translation& translation_;
  std::optional<dialect::form::AnswerExtension> extension_;
  State state_ = State::kOpen;
  bool is_first_ = true;      // nothing has been read yet
  bool is_first_due_ = true;  // text_ has not been passed on
  std::string text_;
};

}  // namespace kvgate::proxy::provider
