// ContentDecoder: takes a content-coding off bytes that are only looked at: the usage in an answer,
// the model in a request. What is forwarded never comes through here.
//
// gzip, deflate (with zlib's header or without), br, zstd; one coding, not a list. Members and
// frames behind each other are one body, as decoders of HTTP read them; bytes behind them that are
// none make the body broken. Memory: a decoder's window (32 KiB; br 16 MiB, zstd 8 MiB at most) and
// one piece. What comes out is bounded by what went in: see Options. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace kvgate::upstream {

class ContentDecoder {
 public:
  struct Options {
    // Decoded bytes are at most `slack_bytes` and this many times the encoded ones: JSON shrinks to
    // a tenth or so; a bomb would cost whoever reads it seconds.
    uint64_t ratio_max = 100;
    uint64_t slack_bytes = uint64_t{1} << 20;
  };
  enum class State : uint8_t {
    kOpen,      // more is needed
    kWhole,     // what came is a whole body; more members may follow
    kBroken,    // it is not in this coding
    kTooLarge,  // it expands beyond the bound
  };

  // Gets the decoded bytes, 16 KiB or less at a time; the view ends with the call.
  class Sink {
   public:
    virtual ~Sink() = default;
    virtual void OnDecoded(std::string_view piece) = 0;
  };

  // Null: none of the codings. "identity" and nothing are none: there is nothing to take off.
  static std::unique_ptr<ContentDecoder> For(std::string_view content_encoding, Options options);
  static std::unique_ptr<ContentDecoder> For(std::string_view content_encoding) {
    return For(content_encoding, Options());
  }
  virtual ~ContentDecoder() = default;
  ContentDecoder(const ContentDecoder&) = delete;
  ContentDecoder& operator=(const ContentDecoder&) = delete;

  // After kBroken or kTooLarge further bytes are passed over.
  State Feed(std::string_view encoded, Sink& sink);
  State state() const { return state_; }

 protected:
  explicit ContentDecoder(const Options& options) : options_(options) {}

  // One step of a library: takes from the front of `encoded`, writes at most `capacity` bytes.
  struct Step {
    size_t num_written = 0;
    State state = State::kOpen;
  };
  virtual Step Decode(std::string_view& encoded, char* out, size_t capacity) = 0;

 private:
  const Options options_;
  State state_ = State::kOpen;
  uint64_t encoded_bytes_ = 0;
  uint64_t decoded_bytes_ = 0;
};

// Whether a Content-Encoding says that nothing was encoded.
bool IsIdentity(std::string_view content_encoding);

}  // namespace kvgate::upstream
