// BodyScan: the fields of a request's body that routing needs, found without building a tree and
// without changing the body.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace kvgate::upstream {

struct BodyScan {
  bool readable = false;   // a JSON object, as far as it had to be read
  std::string model;       // empty: none, or not a string
  size_t model_begin = 0;  // byte range of the value in the body, with quotes
  size_t model_end = 0;    // 0: there is none
  bool stream = false;
};

// Finds the fields in `body`. If a key appears twice, the last one counts, as in the parsers behind
// the providers' APIs; otherwise naming two models would get around a limit on models. Keys may be
// spelled with escapes. Other values are not checked, because the upstream does that. Reserves more
// capacity for `body` if it has less than kScanPadding to spare; its bytes do not change.
constexpr size_t kScanPadding = 64;
BodyScan ScanBody(std::string& body);

bool IsUtf8(std::string_view body);

// Returns the body with `model` in place of the one that `scan` found in it.
std::string WithModel(std::string_view body, const BodyScan& scan, std::string_view model);

// Decodes a body in gzip, zstd or br. Returns nullopt if it is in none of them, incomplete, or
// larger than `bytes_max` when decoded. Deflate is not decoded, because it has two interpretations
// and an upstream could use the other one.
std::optional<std::string> DecodeBody(std::string_view content_encoding, std::string_view body,
                                      size_t bytes_max);

// '*' matches any run of characters, '?' exactly one.
bool GlobMatches(std::string_view pattern, std::string_view text);

}  // namespace kvgate::upstream
