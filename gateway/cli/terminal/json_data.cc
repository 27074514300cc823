#include "gateway/cli/terminal/json_data.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace kvgate::cli::terminal {
namespace {

using jinja::value::Data;

// Builds values bottom up from nlohmann's events, which need no recursion.
class Builder final : public nlohmann::json_sax<nlohmann::ordered_json> {
 public:
  bool null() override { return Add(Data()); }
  bool boolean(bool value) override { return Add(Data(value)); }
  bool number_integer(int64_t value) override { return Add(Data(value)); }
  bool number_unsigned(uint64_t value) override {
    if (value <= INT64_MAX) return Add(Data(static_cast<int64_t>(value)));
    return Add(Data(Data::BigInteger{std::to_string(value)}));
  }
  bool number_float(double value, const std::string& text) override {
    const bool whole = text.find_first_of(".eE") == std::string::npos;
    return Add(whole ? Data(Data::BigInteger{text}) : Data(value));
  }
  bool string(std::string& value) override { return Add(Data(std::move(value))); }
  bool binary(nlohmann::ordered_json::binary_t&) override { return false; }
  bool start_object(size_t) override { return Open(true); }
  bool key(std::string& value) override {
    open_.back().key = std::move(value);
    return true;
  }
  bool end_object() override { return Close(); }
  bool start_array(size_t) override { return Open(false); }
  bool end_array() override { return Close(); }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& error) override {
    message = error.what();
    return false;
  }

  Data root;
  std::string message;

 private:
  static constexpr size_t kDepthMax = 200;
  struct Level {
    bool is_object;
    std::string key;
    Data::List list;
    Data::Dict dict;
  };

  bool Add(Data value) {
    if (open_.empty()) {
      root = std::move(value);
    } else if (open_.back().is_object) {
      open_.back().dict.emplace_back(std::move(open_.back().key), std::move(value));
    } else {
      open_.back().list.push_back(std::move(value));
    }
    return true;
  }
  bool Open(bool is_object) {
    if (open_.size() == kDepthMax) {
      message = fmt::format("nested deeper than {} levels", kDepthMax);
      return false;
    }
    open_.push_back({.is_object = is_object, .key = {}, .list = {}, .dict = {}});
    return true;
  }
  bool Close() {
    Level closed = std::move(open_.back());
    open_.pop_back();
    return Add(closed.is_object ? Data(std::move(closed.dict)) : Data(std::move(closed.list)));
  }

  std::vector<Level> open_;
};

}  // namespace

Result<Data> ParseJsonData(std::string_view text) {
  Builder builder;
  if (nlohmann::ordered_json::sax_parse(text, &builder)) return std::move(builder.root);
  return MakeError(ErrorCode::kInvalidArgument, "json", builder.message);
}

}  // namespace kvgate::cli::terminal
