// The bytes of an exported prefix, as written down in store/FORMAT.md: frames, each with its own
// checksum and sealed by itself, so that a file can be written and read piece by piece with one
// block in memory. A frame opens only with the writer's secret, in its own file and at its own
// number: nobody else can make a file, or a new one of the parts of others.
//
// It holds no block hashes, which are seeded per data directory: token ids and the tenant stand in
// it, and whoever reads it computes the keys that hold there. It knows no store. Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include <kvgate/ids.h>
#include <kvgate/result.h>
#include "base/seal.h"

#include "store/kv/kv_store.h"

namespace kvgate::store {

inline constexpr uint32_t kPrefixFileVersion = 2;
// The body of one frame; a greater one is not read into memory.
inline constexpr uint64_t kPrefixFrameBytesMax = uint64_t{64} << 20;

struct PrefixFileHeader {
  Fingerprint fingerprint;
  std::string tenant;  // whose KV it is
  uint32_t num_blocks = 0;
  friend bool operator==(const PrefixFileHeader&, const PrefixFileHeader&) = default;
};
struct PrefixFileEnd {
  uint32_t num_blocks = 0;
  PrefixDigest digest;  // of the last block
  friend bool operator==(const PrefixFileEnd&, const PrefixFileEnd&) = default;
};

// Tells one file's frames from another's.
using PrefixFileId = std::array<uint8_t, 16>;

// Appends frames: a header, its blocks in order, an end.
class PrefixFileWriter {
 public:
  // The keyring outlives it.
  explicit PrefixFileWriter(const Keyring& ring);
  void Header(const PrefixFileHeader& header, std::string& out);
  // Key and parent are not written.
  void Block(const KvBlock& block, std::string& out);
  void End(const PrefixFileEnd& end, std::string& out);

 private:
  void Frame(uint32_t kind, std::string_view clear, std::string_view body, std::string& out);

  const Keyring& ring_;
  PrefixFileId file_{};
  uint64_t num_frames_ = 0;
};

// Takes bytes in any pieces and gives frames. After an error it gives nothing more.
class PrefixFileReader {
 public:
  using Frame = std::variant<PrefixFileHeader, KvBlock, PrefixFileEnd>;
  // The keyring outlives it.
  explicit PrefixFileReader(const Keyring& ring) : ring_(ring) {}

  void Feed(std::string_view bytes);
  // Nothing: feed more. kUnsupported: no such file, or of another version; kPermissionDenied:
  // sealed with a secret that is not in the ring; kDataLoss: a checksum or a size is wrong, or the
  // frame was not sealed for this place.
  Result<std::optional<Frame>> Next();

 private:
  // The file's id stands in clear before its first frame.
  Result<std::string_view> TakeClear(std::string_view body);
  Result<std::string> OpenFrame(uint32_t kind, std::string_view sealed) const;
  Result<Frame> Decode(uint32_t kind, std::string_view body) const;

  const Keyring& ring_;
  PrefixFileId file_{};

  std::string pending_;
  size_t used_ = 0;  // of pending_
  uint64_t num_frames_ = 0;
};

}  // namespace kvgate::store
