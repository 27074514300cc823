// UsageReader reads the usage of one answer from its body as it passes, either one JSON document or
// events. Compressed bodies are decoded for this purpose only. It does not allocate while bytes
// pass; its memory is this object and a decoder's window. It never guesses: a body that is cut off,
// in an unknown coding, or neither JSON nor events has no usage. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "gateway/dialect/reply/sse_reader.h"
#include "gateway/ledger/reply/reply_scanner.h"
#include "gateway/ledger/reply/usage.h"
#include "gateway/upstream/wire/content_decoder.h"

namespace kvgate::ledger::reply {

class UsageReader final : private dialect::reply::SseSink,
                          private upstream::wire::ContentDecoder::Sink {
 public:
  struct Body {
    dialect::form::Endpoint endpoint = dialect::form::Endpoint::kOther;
    std::string_view content_type;
    std::string_view content_encoding;
  };
  explicit UsageReader(const Body& body);
  UsageReader(const UsageReader&) = delete;
  UsageReader& operator=(const UsageReader&) = delete;

  void Feed(std::string_view piece);

  // Everything the answer has said so far, merged over its events.
  const ReplyFacts& facts() const { return facts_; }
  std::optional<TokenUsage> usage() const;
  uint64_t num_events() const { return num_events_; }
  // Empty if the body can be read, else the reason: "encoded" (in an unknown coding), "media type",
  // "broken encoding", "expands too much".
  std::string_view unreadable() const { return unreadable_; }

 private:
  void OnDecoded(std::string_view piece) override;
  void OnData(std::string_view piece) override;
  void OnEventEnd() override;
  void Merge();

  const dialect::form::Endpoint endpoint_;
  bool events_ = false;
  std::string_view unreadable_;  // a literal
  uint64_t num_events_ = 0;
  std::unique_ptr<upstream::wire::ContentDecoder> decoder_;  // null if the body is not encoded
  dialect::reply::SseReader sse_{*this};
  ReplyScanner scanner_;
  ReplyFacts facts_;
};

}  // namespace kvgate::ledger::reply
