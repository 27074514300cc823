#include "gateway/upstream/wire/content_decoder.h"

#include <brotli/decode.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <limits>

#include "gateway/upstream/wire/header_rules.h"

namespace kvgate::upstream::wire {
namespace {

using State = ContentDecoder::State;

constexpr size_t kPieceBytes = 16 * 1024;
// The largest window that an HTTP decoder must support (RFC 9659).
constexpr int kZstdWindowLogMax = 23;

// zlib reads through a non-const pointer.
Bytef* ToZlib(const char* bytes) { return reinterpret_cast<Bytef*>(const_cast<char*>(bytes)); }

class ZlibDecoder final : public ContentDecoder {
 public:
  // zlib's window bits: 15 + 16 is gzip, 15 a zlib stream, -15 raw deflate.
  static constexpr int kGzip = 15 + 16;
  static constexpr int kZlib = 15;
  static constexpr int kBare = -15;

  ZlibDecoder(const Options& options, bool gzip) : ContentDecoder(options), gzip_(gzip) {
    stream_.zalloc = nullptr;
    stream_.zfree = nullptr;
    stream_.opaque = nullptr;
    stream_.next_in = nullptr;
    stream_.avail_in = 0;
  }
  ~ZlibDecoder() override {
    if (begun_) inflateEnd(&stream_);
  }

 private:
  Step Decode(std::string_view& encoded, char* out, size_t capacity) override {
    if (ended_) {
      // Only gzip allows several members in a row.
      if (!gzip_ || inflateReset(&stream_) != Z_OK) return {.state = State::kBroken};
      ended_ = false;
    }
    if (!begun_ && !Begin(encoded.front())) return {.state = State::kBroken};
    stream_.next_in = ToZlib(encoded.data());
    stream_.avail_in =
        static_cast<uInt>(std::min<size_t>(encoded.size(), std::numeric_limits<uInt>::max()));
    stream_.next_out = reinterpret_cast<Bytef*>(out);
    stream_.avail_out = static_cast<uInt>(capacity);
    const uInt offered = stream_.avail_in;
    const int code = inflate(&stream_, Z_SYNC_FLUSH);
    encoded.remove_prefix(offered - stream_.avail_in);
    Step step{.num_written = capacity - stream_.avail_out};
    if (code == Z_STREAM_END) {
      ended_ = true;
      step.state = State::kWhole;
    } else if (code != Z_OK && code != Z_BUF_ERROR) {
      step.state = State::kBroken;
    }
    return step;
  }

  // "deflate" is a zlib stream by RFC 9110, but raw deflate from some servers. A zlib stream's
  // first byte has 8 in its low nibble; no encoder begins a raw stream with that, because it would
  // be a stored block with nonzero padding.
  bool Begin(char first) {
    const bool zlib = (static_cast<unsigned char>(first) & 0x0f) == 8;
    begun_ = inflateInit2(&stream_, gzip_ ? kGzip : zlib ? kZlib : kBare) == Z_OK;
    return begun_;
  }

  const bool gzip_;
  bool begun_ = false;
  bool ended_ = false;
  z_stream stream_;
};

class ZstdDecoder final : public ContentDecoder {
 public:
  explicit ZstdDecoder(const Options& options)
      : ContentDecoder(options), context_(ZSTD_createDCtx(), ZSTD_freeDCtx) {
    ZSTD_DCtx_setParameter(context_.get(), ZSTD_d_windowLogMax, kZstdWindowLogMax);
  }

 private:
  Step Decode(std::string_view& encoded, char* out, size_t capacity) override {
    ZSTD_inBuffer in{.src = encoded.data(), .size = encoded.size(), .pos = 0};
    ZSTD_outBuffer into{.dst = out, .size = capacity, .pos = 0};
    const size_t left = ZSTD_decompressStream(context_.get(), &into, &in);
    encoded.remove_prefix(in.pos);
    Step step{.num_written = into.pos};
    if (ZSTD_isError(left) != 0) {
      step.state = State::kBroken;
    } else if (left == 0) {
      step.state = State::kWhole;
    }
    return step;
  }

  const std::unique_ptr<ZSTD_DCtx, size_t (*)(ZSTD_DCtx*)> context_;
};

class BrotliDecoder final : public ContentDecoder {
 public:
  explicit BrotliDecoder(const Options& options)
      : ContentDecoder(options),
        decoder_(BrotliDecoderCreateInstance(nullptr, nullptr, nullptr),
                 BrotliDecoderDestroyInstance) {}

 private:
  Step Decode(std::string_view& encoded, char* out, size_t capacity) override {
    if (BrotliDecoderIsFinished(decoder_.get()) != BROTLI_FALSE) return {.state = State::kBroken};
    size_t num_left = encoded.size();
    const auto* next = reinterpret_cast<const uint8_t*>(encoded.data());
    size_t room = capacity;
    auto* into = reinterpret_cast<uint8_t*>(out);
    const BrotliDecoderResult result =
        BrotliDecoderDecompressStream(decoder_.get(), &num_left, &next, &room, &into, nullptr);
    encoded.remove_prefix(encoded.size() - num_left);
    Step step{.num_written = capacity - room};
    if (result == BROTLI_DECODER_RESULT_ERROR) {
      step.state = State::kBroken;
    } else if (result == BROTLI_DECODER_RESULT_SUCCESS) {
      step.state = State::kWhole;
    }
    return step;
  }

  const std::unique_ptr<BrotliDecoderState, void (*)(BrotliDecoderState*)> decoder_;
};

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

}  // namespace

std::unique_ptr<ContentDecoder> ContentDecoder::For(std::string_view content_encoding,
                                                    Options options) {
  const std::string_view coding = Trimmed(content_encoding);
  if (SameName(coding, "gzip") || SameName(coding, "x-gzip")) {
    return std::make_unique<ZlibDecoder>(options, true);
  }
  if (SameName(coding, "deflate")) return std::make_unique<ZlibDecoder>(options, false);
  if (SameName(coding, "br")) return std::make_unique<BrotliDecoder>(options);
  if (SameName(coding, "zstd")) return std::make_unique<ZstdDecoder>(options);
  return nullptr;
}

State ContentDecoder::Feed(std::string_view encoded, Sink& sink) {
  std::array<char, kPieceBytes> piece;
  if (state_ == State::kBroken || state_ == State::kTooLarge) return state_;
  encoded_bytes_ += encoded.size();
  const uint64_t decoded_max = options_.slack_bytes + options_.ratio_max * encoded_bytes_;
  // A full piece may mean that there is more output without further input.
  size_t num_written = 0;
  while (!encoded.empty() || num_written == piece.size()) {
    const size_t num_offered = encoded.size();
    const Step step = Decode(encoded, piece.data(), piece.size());
    num_written = step.num_written;
    decoded_bytes_ += num_written;
    if (decoded_bytes_ > decoded_max) return state_ = State::kTooLarge;
    if (num_written > 0) sink.OnDecoded({piece.data(), num_written});
    state_ = step.state;
    if (state_ == State::kWhole && encoded.empty()) break;
    const bool stuck = num_written == 0 && encoded.size() == num_offered;
    if (state_ == State::kBroken || (stuck && !encoded.empty())) return state_ = State::kBroken;
  }
  return state_;
}

bool IsIdentity(std::string_view content_encoding) {
  const std::string_view coding = Trimmed(content_encoding);
  return coding.empty() || SameName(coding, "identity");
}

}  // namespace kvgate::upstream::wire
