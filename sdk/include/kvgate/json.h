// Just enough JSON for requests and small answers: texts are written, values are found by their
// pointers. Programs that have a JSON library of their own use that; everything here is text.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <kvgate/result.h>

namespace kvgate {
inline namespace v1 {

// "say \"hi\"" with its quotes. The text is UTF-8.
inline std::string Quote(std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string quoted = "\"";
  quoted.reserve(text.size() + 2);
  for (const char c : text) {
    switch (c) {
      case '"':
        quoted += "\\\"";
        break;
      case '\\':
        quoted += "\\\\";
        break;
      case '\n':
        quoted += "\\n";
        break;
      case '\r':
        quoted += "\\r";
        break;
      case '\t':
        quoted += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          quoted += "\\u00";
          quoted += kHex[static_cast<unsigned char>(c) >> 4];
          quoted += kHex[c & 15];
        } else {
          quoted += c;
        }
    }
  }
  return quoted += '"';
}

// A JSON text, such as a tool's arguments or the gateway's own numbers. Each look reads it anew.
class Json {
 public:
  Json() = default;
  // What is no JSON shows when it is looked into.
  explicit Json(std::string text) : text_(std::move(text)) {}
  // All of it.
  const std::string& text() const { return text_; }

  // The value at an RFC 6901 pointer, "/data/0/id": the text of a string, the JSON of anything
  // else. Fails with kNotFound, and with kInvalidArgument for what is no JSON.
  Result<std::string> At(const std::string& pointer) const {
    kvgate_response* value = nullptr;
    kvgate_error* error = nullptr;
    const kvgate_status status =
        kvgate_json_find(text_.data(), text_.size(), pointer.c_str(), &value, &error);
    if (status != KVGATE_OK) return detail::TakeError(status, error);
    size_t size = 0;
    const char* body = kvgate_response_body(value, &size);
    std::string found(body, size);
    kvgate_response_free(value);
    return found;
  }
  // The same, or what is given for what is not there.
  std::string String(const std::string& pointer, std::string otherwise = {}) const {
    Result<std::string> found = At(pointer);
    return found ? *std::move(found) : std::move(otherwise);
  }
  // A whole number.
  int64_t Int(const std::string& pointer, int64_t otherwise = 0) const {
    return Number<int64_t>(pointer, otherwise);
  }
  // Any number.
  double Double(const std::string& pointer, double otherwise = 0) const {
    return Number<double>(pointer, otherwise);
  }
  // True for `true` alone.
  bool Bool(const std::string& pointer, bool otherwise = false) const {
    const Result<std::string> found = At(pointer);
    return found ? *found == "true" : otherwise;
  }
  // The elements of a list, in order; none if there is no list.
  std::vector<Json> Items(const std::string& pointer = {}) const {
    std::vector<Json> items;
    const Result<std::string> list = At(pointer);
    // A text may look like a list, but has no elements.
    if (!list || !list->starts_with('[') || !At(pointer + "/0")) return items;
    size_t begin = 1;
    int depth = 0;
    bool is_text = false;
    for (size_t i = 0; i < list->size(); ++i) {
      const char c = (*list)[i];
      if (is_text) {
        if (c == '\\') ++i;
        if (c == '"') is_text = false;
      } else if (c == '"') {
        is_text = true;
      } else if (c == '[' || c == '{') {
        ++depth;
      } else if ((c == ',' && depth == 1) || ((c == ']' || c == '}') && --depth == 0)) {
        items.emplace_back(list->substr(begin, i - begin));
        begin = i + 1;
      }
    }
    return items;
  }

 private:
  template <typename T>
  T Number(const std::string& pointer, T otherwise) const {
    const Result<std::string> found = At(pointer);
    T number{};
    if (!found) return otherwise;
    const char* const end = found->data() + found->size();
    const auto read = std::from_chars(found->data(), end, number);
    return read.ec == std::errc() ? number : otherwise;
  }

  std::string text_;
};

}  // namespace v1
}  // namespace kvgate
