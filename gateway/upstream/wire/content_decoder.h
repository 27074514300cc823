// ContentDecoder: removes a content-coding from bytes that are only inspected, such as the usage in
// an answer or the model in a request. Forwarded bytes never come through here.
//
// It handles gzip, deflate (with zlib's header or without), br and zstd; one coding, not a list.
// Consecutive members or frames form one body, as in other HTTP decoders; trailing bytes that are
// neither make the body broken. Memory: the decoder's window (32 KiB; at most 16 MiB for br, 8 MiB
// for zstd) and one piece. The output is bounded relative to the input: see Options. Not
// thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace kvgate::upstream::wire {

class ContentDecoder {
 public:
  struct Options {
    // Decoded bytes may be at most `slack_bytes` plus this many times the encoded bytes. JSON
    // shrinks to about a tenth; a decompression bomb would cost its reader seconds.
    uint64_t ratio_max = 100;
    uint64_t slack_bytes = uint64_t{1} << 20;
  };
  enum class State : uint8_t {
    kOpen,      // more input is needed
    kWhole,     // the input is a complete body; more members may follow
    kBroken,    // the input is not in this coding
    kTooLarge,  // the output exceeds the bound
  };

  // Receives the decoded bytes, at most 16 KiB at a time; the view is valid only during the call.
  class Sink {
   public:
    virtual ~Sink() = default;
    virtual void OnDecoded(std::string_view piece) = 0;
  };

  // Returns null if the value is none of the codings, which includes "identity" and an empty value.
  static std::unique_ptr<ContentDecoder> For(std::string_view content_encoding, Options options);
  static std::unique_ptr<ContentDecoder> For(std::string_view content_encoding) {
    return For(content_encoding, Options());
  }
  virtual ~ContentDecoder() = default;
  ContentDecoder(const ContentDecoder&) = delete;
  ContentDecoder& operator=(const ContentDecoder&) = delete;

  // After kBroken or kTooLarge further bytes are ignored.
  State Feed(std::string_view encoded, Sink& sink);
  State state() const { return state_; }

 protected:
  explicit ContentDecoder(const Options& options) : options_(options) {}

  // One step of the library: consumes bytes from the front of `encoded` and writes at most
  // `capacity`.
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

// True if the Content-Encoding is empty or "identity".
bool IsIdentity(std::string_view content_encoding);

}  // namespace kvgate::upstream::wire
