// A RecordSegment is what the ledger keeps of one part of a prompt: where it stands, what it is,
// and its tokens by what the cache did for them. It holds no text of the prompt.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace kvgate::ledger::segment {

// Of a stored count, time or amount; more is damage. Every double, and so every JSON number, is
// exact up to here, and a thousand of them add up without an overflow.
inline constexpr int64_t kStoredNumberMax = int64_t{1} << 53;
// As many rows are kept of one prompt; the last one stands for all that follow.
inline constexpr size_t kSegmentsMax = 256;

struct RecordSegment {
  std::string source = {};  // "tools", "history" …
  std::string name = {};    // of the tool that it defines or whose result it is; else empty
  std::string server = {};  // the MCP server of that tool; empty: none
  std::string role = {};    // empty: it has none
  std::string path = {};    // a JSON pointer into the body as it was sent
  int64_t bytes = 0;        // 0: they are not known any more
  int64_t cached = 0;
  int64_t written = 0;
  int64_t uncached = 0;
  uint64_t hash = 0;  // of its bytes; equal bytes have equal hashes
  int64_t tokens() const { return cached + written + uncached; }
  friend bool operator==(const RecordSegment&, const RecordSegment&) = default;
};

}  // namespace kvgate::ledger::segment
