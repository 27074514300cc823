// Fuzzes the reader of the Redis protocol: bytes in pieces of any size give the same replies as all
// at once, none larger than the limit; and commands are read back as they were written.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/remote/resp_protocol.h"

namespace {

using namespace kvgate::store::remote;  // NOLINT: a program of its own

struct Read {
  std::vector<RespReply> replies;
  bool has_failed = false;
  friend bool operator==(const Read&, const Read&) = default;
};

Read ReadPieces(std::string_view bytes, size_t piece_bytes, size_t limit) {
  RespReader reader(limit);
  Read read;
  while (!bytes.empty()) {
    const auto space = reader.Space();
    if (space.empty()) std::abort();
    const size_t size = std::min({space.size(), bytes.size(), piece_bytes});
    std::memcpy(space.data(), bytes.data(), size);
    reader.Add(size);
    bytes.remove_prefix(size);
    RespReply reply;
    while (true) {
      const auto is_whole = reader.Next(reply);
      read.has_failed = !is_whole;
      if (read.has_failed) return read;
      if (!*is_whole) break;
      read.replies.push_back(std::move(reply));
    }
  }
  return read;
}

// As the limit counts it: the items, without the reply itself, and their texts.
size_t Size(const RespReply& reply) {
  size_t size = reply.text.size();
  for (const RespReply& item : reply.items) size += sizeof(RespReply) + Size(item);
  return size;
}

void RoundTrip(std::string_view bytes) {
  std::vector<RespCommand> commands(1);
  std::vector<RespReply> expected(1);
  for (size_t at = 0; at <= bytes.size() && commands.size() < 100;) {
    const size_t end = std::min(bytes.find_first_of(std::string_view("\0\1", 2), at), bytes.size());
    commands.back().words.push_back(bytes.substr(at, end - at));
    expected.back().kind = RespReply::Kind::kArray;
    expected.back().items.push_back(
        {.kind = RespReply::Kind::kText, .text = std::string(bytes.substr(at, end - at))});
    if (end < bytes.size() && bytes[end] == '\1') {
      commands.emplace_back();
      expected.emplace_back();
    }
    at = end + 1;
  }
  if (commands.back().words.empty()) {
    commands.pop_back();
    expected.pop_back();
  }
  std::string sent;
  const RespRequest request(commands);
  for (const std::string_view piece : request.pieces()) sent += piece;
  const Read read = ReadPieces(sent, sent.size() + 1, size_t{1} << 30);
  if (read.has_failed || read.replies != expected) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const size_t limit = data[0] >= 128 ? size_t{1} << 20 : 1000;
  const Read whole = ReadPieces(bytes, size, limit);
  for (const RespReply& reply : whole.replies) {
    if (Size(reply) > limit) std::abort();
  }
  if (ReadPieces(bytes, 1 + data[0] % 16, limit) != whole) std::abort();
  RoundTrip(bytes);
  return 0;
}
