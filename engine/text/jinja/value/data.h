// Data: the input that a template is rendered with. A tree of plain values, built by the caller.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace kvgate::jinja::value {

// Who wrote a byte of a rendering: the template or one of its inputs. Text that the template
// derives from an input (upper, replace, tojson, …) still counts as the input's.
enum class Origin : uint8_t { kTemplate, kInput, kTools };

class Data {
 public:
  using List = std::vector<Data>;
  // In insertion order; of equal keys the last one wins.
  using Dict = std::vector<std::pair<std::string, Data>>;
  // An integer beyond 64 bits. It can be printed, but not computed with.
  struct BigInteger {
    std::string digits;
  };
  // Text that the caller must keep alive until rendering is done.
  struct Borrowed {
    std::string_view text;
  };
  // Borrowed text in which the byte ranges [begin, end), ascending, count as the template's own.
  struct Part {
    size_t begin = 0;
    size_t end = 0;
  };
  struct Marked {
    std::string_view text;
    std::span<const Part> own;  // must live as long as the text
  };

  Data() = default;                                             // none
  Data(bool value) : value_(value) {}                           // NOLINT: meant to convert
  Data(int64_t value) : value_(value) {}                        // NOLINT
  Data(int value) : value_(int64_t{value}) {}                   // NOLINT
  Data(double value) : value_(value) {}                         // NOLINT
  Data(std::string value) : value_(std::move(value)) {}         // NOLINT
  Data(std::string_view value) : value_(std::string(value)) {}  // NOLINT
  Data(const char* value) : value_(std::string(value)) {}       // NOLINT
  Data(List value) : value_(std::move(value)) {}                // NOLINT
  Data(Dict value) : value_(std::move(value)) {}                // NOLINT
  Data(BigInteger value) : value_(std::move(value)) {}          // NOLINT
  Data(Borrowed value) : value_(value) {}                       // NOLINT
  Data(Marked value) : value_(value) {}                         // NOLINT
  // Text that counts as the template's own, such as a checked role or bos_token.
  static Data Trusted(std::string value) {
    Data data(std::move(value));
    data.trusted_ = true;
    return data;
  }

  using Variant = std::variant<std::monostate, bool, int64_t, double, std::string, List, Dict,
                               BigInteger, Borrowed, Marked>;
  const Variant& value() const { return value_; }
  bool trusted() const { return trusted_; }

 private:
  Variant value_;
  bool trusted_ = false;
};

}  // namespace kvgate::jinja::value
