// These encoders make the input for tests of decoders.
#pragma once

#include <brotli/encode.h>
#include <zlib.h>
#include <zstd.h>

#include <string>
#include <string_view>

namespace kvgate::upstream {

// `window_bits` is zlib's: 31 for gzip, 15 for a zlib stream, -15 for bare deflate.
inline std::string Deflate(std::string_view text, int window_bits) {
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

inline std::string Zstd(std::string_view text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

inline std::string Brotli(std::string_view text) {
  size_t size = text.size() + 1024;
  std::string out(size, '\0');
  BrotliEncoderCompress(5, BROTLI_DEFAULT_WINDOW, BROTLI_MODE_TEXT, text.size(),
                        reinterpret_cast<const uint8_t*>(text.data()), &size,
                        reinterpret_cast<uint8_t*>(out.data()));
  out.resize(size);
  return out;
}

// `coding` is "gzip", "deflate", "bare deflate", "zstd" or "br".
inline std::string Encode(std::string_view coding, std::string_view text) {
  if (coding == "gzip") return Deflate(text, 31);
  if (coding == "deflate") return Deflate(text, 15);
  if (coding == "bare deflate") return Deflate(text, -15);
  return coding == "zstd" ? Zstd(text) : Brotli(text);
}

}  // namespace kvgate::upstream
