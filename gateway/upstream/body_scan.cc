#include "gateway/upstream/body_scan.h"

#include <simdjson.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "gateway/dialect/form/json_writer.h"
#include "gateway/upstream/wire/content_decoder.h"
#include "gateway/upstream/wire/header_rules.h"

namespace kvgate::upstream {
namespace {

namespace ondemand = simdjson::ondemand;

// The parser's index takes four bytes for each byte of the body. It is kept for bodies up to this
// size, so that a larger one does not stay in memory.
constexpr size_t kKeptBytes = size_t{2} << 20;

BodyScan Scan(ondemand::parser& parser, const std::string& body) {
  BodyScan scan;
  ondemand::document document;
  const simdjson::padded_string_view padded(body.data(), body.size(), body.capacity());
  if (parser.iterate(padded).get(document) != simdjson::SUCCESS) return scan;
  ondemand::object object;
  if (document.get_object().get(object) != simdjson::SUCCESS) return scan;
  for (auto entry : object) {
    ondemand::field field;
    std::string_view key;
    if (std::move(entry).get(field) != simdjson::SUCCESS) return scan;
    if (field.unescaped_key().get(key) != simdjson::SUCCESS) return scan;
    if (key == "model") {
      std::string_view model;
      const std::string_view token = field.value().raw_json_token();
      if (field.value().get_string().get(model) != simdjson::SUCCESS) model = "";
      scan.model = std::string(model);
      scan.model_begin = static_cast<size_t>(token.data() - body.data());
      scan.model_end = token.starts_with('"') ? scan.model_begin + token.rfind('"') + 1 : 0;
    } else if (key == "stream") {
      bool stream = false;
      if (field.value().get_bool().get(stream) != simdjson::SUCCESS) stream = false;
      scan.stream = stream;
    }
  }
  // If a second document follows, it is unclear which one counts, so the body is unreadable.
  const char* behind = nullptr;
  scan.readable = document.current_location().get(behind) == simdjson::OUT_OF_BOUNDS;
  return scan;
}

class Collector final : public wire::ContentDecoder::Sink {
 public:
  explicit Collector(size_t bytes_max) : bytes_max_(bytes_max) {}
  void OnDecoded(std::string_view piece) override {
    full_ = full_ || text_.size() + piece.size() > bytes_max_;
    if (!full_) text_.append(piece);
  }
  bool full() const { return full_; }
  std::string Take() { return std::move(text_); }

 private:
  const size_t bytes_max_;
  bool full_ = false;
  std::string text_;
};

// Bytes decoded at once, so that a body that expands beyond the limit is given up early.
constexpr size_t kFedBytes = 64 * 1024;

}  // namespace

std::optional<std::string> DecodeBody(std::string_view content_encoding, std::string_view body,
                                      size_t bytes_max) {
  if (wire::SameName(content_encoding, "deflate")) return std::nullopt;
  const auto decoder = wire::ContentDecoder::For(content_encoding);
  if (!decoder) return std::nullopt;
  Collector collector(bytes_max);
  while (!body.empty() && !collector.full()) {
    decoder->Feed(body.substr(0, kFedBytes), collector);
    body.remove_prefix(std::min(body.size(), kFedBytes));
  }
  if (collector.full() || decoder->state() != wire::ContentDecoder::State::kWhole)
    return std::nullopt;
  return collector.Take();
}

bool IsUtf8(std::string_view body) { return simdjson::validate_utf8(body.data(), body.size()); }

std::string WithModel(std::string_view body, const BodyScan& scan, std::string_view model) {
  std::string changed(body.substr(0, scan.model_begin));
  dialect::form::AppendJsonString(model, changed);
  return changed.append(body.substr(scan.model_end));
}

BodyScan ScanBody(std::string& body) {
  static_assert(kScanPadding >= simdjson::SIMDJSON_PADDING);
  body.reserve(body.size() + kScanPadding);
  thread_local std::unique_ptr<ondemand::parser> parser;
  if (!parser) parser = std::make_unique<ondemand::parser>();
  BodyScan scan = Scan(*parser, body);
  if (body.size() > kKeptBytes) parser.reset();
  return scan;
}

bool GlobMatches(std::string_view pattern, std::string_view text) {
  // Returns to the last star on a mismatch: linear in practice, and without recursion.
  size_t p = 0;
  size_t t = 0;
  size_t star = std::string_view::npos;
  size_t star_text = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_text = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++star_text;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace kvgate::upstream
