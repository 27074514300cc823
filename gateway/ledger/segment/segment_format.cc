#include "gateway/ledger/segment/segment_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "store/file/byte_codec.h"

namespace kvgate::ledger::segment {
namespace {

using store::file::AppendVarint;

constexpr char kVersion = 1;
constexpr size_t kTextBytesMax = 128;

bool TakeCount(std::string_view& bytes, int64_t& count) {
  const std::optional<uint64_t> value = store::file::TakeVarint(bytes);
  if (!value) return false;
  count = static_cast<int64_t>(*value);
  return count >= 0 && count <= kStoredNumberMax;
}

template <typename Segment>
auto TextsOf(Segment& segment) {
  return std::array{&segment.source, &segment.name, &segment.server, &segment.role, &segment.path};
}

template <typename Segment>
auto CountsOf(Segment& segment) {
  return std::array{&segment.bytes, &segment.cached, &segment.written, &segment.uncached};
}

bool TakeSegment(std::string_view& bytes, RecordSegment& segment) {
  for (std::string* text : TextsOf(segment)) {
    const auto taken = store::file::TakeVarText(bytes);
    if (!taken) return false;
    *text = *taken;
  }
  for (int64_t* count : CountsOf(segment)) {
    if (!TakeCount(bytes, *count)) return false;
  }
  if (bytes.size() < sizeof(segment.hash)) return false;
  segment.hash = store::file::LoadValue<uint64_t>(bytes, 0);
  bytes.remove_prefix(sizeof(segment.hash));
  return true;
}

}  // namespace

std::string EncodeSegments(std::span<const RecordSegment> segments) {
  segments = segments.first(std::min(segments.size(), kSegmentsMax));
  std::string out(1, kVersion);
  out.reserve(16 + segments.size() * 64);
  AppendVarint(out, segments.size());
  for (const RecordSegment& segment : segments) {
    for (const std::string* text : TextsOf(segment)) {
      store::file::AppendVarText(out, std::string_view(*text).substr(0, kTextBytesMax));
    }
    for (const int64_t* count : CountsOf(segment)) AppendVarint(out, static_cast<uint64_t>(*count));
    store::file::AppendValue(out, segment.hash);
  }
  return out;
}

std::optional<std::vector<RecordSegment>> DecodeSegments(std::string_view bytes) {
  if (bytes.empty() || bytes.front() != kVersion) return std::nullopt;
  bytes.remove_prefix(1);
  const std::optional<uint64_t> count = store::file::TakeVarint(bytes);
  if (!count || *count > kSegmentsMax) return std::nullopt;
  std::vector<RecordSegment> segments(*count);
  for (RecordSegment& segment : segments) {
    if (!TakeSegment(bytes, segment)) return std::nullopt;
  }
  if (!bytes.empty()) return std::nullopt;
  return segments;
}

void WriteSegments(std::span<const RecordSegment> segments, dialect::form::JsonWriter& json) {
  const auto write = [&](std::string_view key, std::string_view text) {
    if (!text.empty()) json.Key(key).String(text.substr(0, kTextBytesMax));
  };
  json.BeginArray();
  for (const RecordSegment& segment : segments) {
    json.BeginObject().Key("source").String(segment.source);
    write("name", segment.name);
    write("server", segment.server);
    write("role", segment.role);
    write("path", segment.path);
    json.Key("bytes").Integer(segment.bytes).Key("tokens").Integer(segment.tokens());
    json.Key("cached").Integer(segment.cached).Key("written").Integer(segment.written);
    json.Key("uncached").Integer(segment.uncached);
    json.Key("hash").String(fmt::format("{:016x}", segment.hash)).EndObject();
  }
  json.EndArray();
}

}  // namespace kvgate::ledger::segment
