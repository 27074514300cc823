// ReplyTranslator: an upstream's answer, whole or as events, in its client's dialect. Bytes in,
// bytes out: upstream bytes become CompletionEvents, which the client's ReplyEncoder writes.
//
// Memory: one event of the upstream, and of the answer what the client's dialect repeats at its end
// (Responses) or needs whole (a single body); both bounded by Options. Not thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/protocol/form/completion.h"
#include "gateway/protocol/reply_encoder.h"

namespace kvgate::translate {

class ReplyTranslator {
 public:
  struct Options {
    protocol::Dialect from = protocol::Dialect::kMessages;  // the upstream's
    bool events = false;  // what the upstream sends is a stream of events, not one body
    // The client's; `model` stands where the upstream names none.
    protocol::ReplyOptions reply = {};
    std::vector<protocol::Tool> tools = {};  // of the request: TranslatedRequest's
    size_t event_bytes_max = size_t{16} << 20;
    size_t answer_bytes_max = size_t{64} << 20;
  };
  enum class End {
    kWhole,   // the answer has its last event
    kFailed,  // … an error, told to the client in its dialect where that is a stream
    kCut,     // it broke off: whatever was sent, nothing more is to be said
  };

  static std::unique_ptr<ReplyTranslator> Make(Options options);
  virtual ~ReplyTranslator() = default;

  // The next bytes of the upstream's body, in identity coding. Appends what the client gets.
  virtual void Feed(std::string_view bytes, std::string& out) = 0;
  // The upstream's body has come to its end.
  virtual End Finish(std::string& out) = 0;
  // What went wrong; only after kFailed and kCut.
  virtual const Error& error() const = 0;
};

}  // namespace kvgate::translate
