// ReplyTranslator turns an upstream's answer, whole or as events, into its client's dialect.
// Upstream bytes become CompletionEvents, which the client's ReplyEncoder writes as bytes.
//
// Memory: it holds one event of the upstream, and of the answer what the client's dialect repeats
// at its end (Responses) or needs whole (a single body). Options bounds both. Not thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/dialect/form/completion.h"
#include "gateway/dialect/reply/reply_encoder.h"

namespace kvgate::dialect {

class ReplyTranslator {
 public:
  struct Options {
    form::Dialect from = form::Dialect::kMessages;  // the upstream's
    bool events = false;  // the upstream sends an event stream, not one body
    // The client's options; `model` is used if the upstream names none.
    reply::ReplyOptions reply = {};
    std::vector<form::Tool> tools = {};  // the request's: TranslatedRequest::tools
    size_t event_bytes_max = size_t{16} << 20;
    size_t answer_bytes_max = size_t{64} << 20;
  };
  enum class End {
    kWhole,   // the answer has its last event
    kFailed,  // the upstream failed; in a stream the client has been told
    kCut,     // the upstream broke off; the client can be told no more
  };

  static std::unique_ptr<ReplyTranslator> Make(Options options);
  virtual ~ReplyTranslator() = default;

  // Takes the next bytes of the upstream's body, without content-encoding, and appends what the
  // client gets.
  virtual void Feed(std::string_view bytes, std::string& out) = 0;
  // Call it at the end of the upstream's body.
  virtual End Finish(std::string& out) = 0;
  // Returns the cause. REQUIRES: Finish returned kFailed or kCut.
  virtual const Error& error() const = 0;
};

}  // namespace kvgate::dialect
