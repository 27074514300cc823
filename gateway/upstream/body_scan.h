// BodyScan: what routing has to know of a request's body, without a tree and without a change.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace kvgate::upstream {

struct BodyScan {
  bool readable = false;   // a JSON object, as far as it had to be read
  std::string model;       // empty: none, or not a string
  size_t model_begin = 0;  // where it stands in the body, quotes included
  size_t model_end = 0;    // 0: nowhere
  bool stream = false;
};

// Of a key that stands twice the last one counts, as in the parsers behind the providers' APIs:
// otherwise a limit on models could be passed by naming two. A key may be spelled with escapes.
// What the values hold is not checked: the upstream judges that.
// `body` is given a larger capacity where it has less than kScanPadding to spare; its bytes stay.
constexpr size_t kScanPadding = 64;
BodyScan ScanBody(std::string& body);

// The body with another model in place of the one that `scan` found in it.
std::string WithModel(std::string_view body, const BodyScan& scan, std::string_view model);

// A body without its gzip, zstd or br; nothing where it is in none of them, not whole, or larger
// than `bytes_max`. Not deflate: there are two readings of that, and an upstream could have the
// other one.
std::optional<std::string> DecodeBody(std::string_view content_encoding, std::string_view body,
                                      size_t bytes_max);

// '*' stands for any run of characters, '?' for one.
bool GlobMatches(std::string_view pattern, std::string_view text);

}  // namespace kvgate::upstream
