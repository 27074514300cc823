// The bytes of an exported prefix, as written down in store/FORMAT.md: frames, each with its own
// checksum, so that a file can be written and read piece by piece with one block in memory.
//
// It holds no block hashes, which are seeded per data directory: token ids and salt stand in it,
// and whoever reads it computes the keys that hold there. It knows no store. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include <kvgate/ids.h>
#include <kvgate/result.h>

#include "store/kv_store.h"

namespace kvgate::store {

inline constexpr uint32_t kPrefixFileVersion = 1;
// The body of one frame; a greater one is not read into memory.
inline constexpr uint64_t kPrefixFrameBytesMax = uint64_t{64} << 20;

struct PrefixFileHeader {
  Fingerprint fingerprint;
  std::string salt;
  uint32_t num_blocks = 0;
  friend bool operator==(const PrefixFileHeader&, const PrefixFileHeader&) = default;
};
struct PrefixFileEnd {
  uint32_t num_blocks = 0;
  PrefixDigest digest;  // of the last block
  friend bool operator==(const PrefixFileEnd&, const PrefixFileEnd&) = default;
};

// Appends frames: a header, its blocks in order, an end.
class PrefixFileWriter {
 public:
  void Header(const PrefixFileHeader& header, std::string& out);
  // Key and parent are not written.
  void Block(const KvBlock& block, std::string& out);
  void End(const PrefixFileEnd& end, std::string& out);

 private:
  void Frame(uint32_t kind, std::string_view body, std::string& out);
  uint64_t num_frames_ = 0;
};

// Takes bytes in any pieces and gives frames. After an error it gives nothing more.
class PrefixFileReader {
 public:
  using Frame = std::variant<PrefixFileHeader, KvBlock, PrefixFileEnd>;

  void Feed(std::string_view bytes);
  // Nothing: feed more. kUnsupported: no such file, or of another version; kDataLoss: a checksum or
  // a size is wrong.
  Result<std::optional<Frame>> Next();

 private:
  Result<Frame> Decode(uint32_t kind, std::string_view body) const;

  std::string pending_;
  size_t used_ = 0;  // of pending_
  uint64_t num_frames_ = 0;
};

}  // namespace kvgate::store
