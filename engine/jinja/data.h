// Data: what a template is rendered with. A tree of plain values, made by the caller.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace kvgate::jinja {

// Who wrote a byte of a rendering: the template, or one of its inputs. What the template computes
// from an input (upper, replace, tojson, …) is still the input's.
enum class Origin : uint8_t { kTemplate, kInput, kTools };

class Data {
 public:
  using List = std::vector<Data>;
  // In order; of equal keys the last counts.
  using Dict = std::vector<std::pair<std::string, Data>>;
  // A whole number past 64 bits: printed as it is, never computed with.
  struct BigInteger {
    std::string digits;
  };
  // Text that the caller keeps alive until the rendering is done.
  struct Borrowed {
    std::string_view text;
  };
  // Likewise, with parts that count as the template's own: bytes [begin, end), ascending.
  struct Part {
    size_t begin = 0;
    size_t end = 0;
  };
  struct Marked {
    std::string_view text;
    std::span<const Part> own;  // kept alive as the text
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
  // Text that counts as the template's own: a role that was checked, bos_token.
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

}  // namespace kvgate::jinja
