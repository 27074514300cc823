// The byte format of an exported prefix, as specified in store/FORMAT.md. It consists of frames,
// each with its own checksum and sealed separately, so that a file can be written and read in
// pieces with one block in memory. A frame opens only with the writer's secret, in its own file and
// at its own position, so nobody else can forge a file or assemble one from frames of others.
//
// It holds no block hashes, because these are seeded per data directory. It holds token ids and the
// tenant, from which the reader computes its own keys. It knows no store. Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "base/ids.h"
#include "base/result.h"
#include "base/seal.h"
#include "store/kv/kv_store.h"

namespace kvgate::store::kv {

inline constexpr uint32_t kPrefixFileVersion = 2;
// Limit on the body of one frame, because the reader holds a whole frame in memory.
inline constexpr uint64_t kPrefixFrameBytesMax = uint64_t{64} << 20;

struct PrefixFileHeader {
  Fingerprint fingerprint;
  std::string tenant;  // owner of the KV
  uint32_t num_blocks = 0;
  friend bool operator==(const PrefixFileHeader&, const PrefixFileHeader&) = default;
};
struct PrefixFileEnd {
  uint32_t num_blocks = 0;
  PrefixDigest digest;  // of the last block
  friend bool operator==(const PrefixFileEnd&, const PrefixFileEnd&) = default;
};

// Distinguishes the frames of one file from those of another.
using PrefixFileId = std::array<uint8_t, 16>;

// Appends frames: a header, its blocks in order, and an end.
class PrefixFileWriter {
 public:
  // The keyring must outlive the writer.
  explicit PrefixFileWriter(const Keyring& ring);
  void Header(const PrefixFileHeader& header, std::string& out);
  // The block's key and parent are not written.
  void Block(const KvBlock& block, std::string& out);
  void End(const PrefixFileEnd& end, std::string& out);

 private:
  void Frame(uint32_t kind, std::string_view clear, std::string_view body, std::string& out);

  const Keyring& ring_;
  PrefixFileId file_{};
  uint64_t num_frames_ = 0;
};

// Takes bytes in pieces of any size and returns frames. Do not use it after an error.
class PrefixFileReader {
 public:
  using Frame = std::variant<PrefixFileHeader, KvBlock, PrefixFileEnd>;
  // The keyring must outlive the reader.
  explicit PrefixFileReader(const Keyring& ring) : ring_(ring) {}

  void Feed(std::string_view bytes);
  // Returns null if more bytes are needed. Errors: kUnsupported if this is not an exported prefix
  // or has another version; kPermissionDenied if it was sealed with a secret that is not in the
  // ring; kDataLoss if a checksum or size is wrong or the frame was not sealed for this position.
  Result<std::optional<Frame>> Next();

 private:
  // Reads the version and the file id, which precede the first frame in plain text.
  Result<std::string_view> TakeClear(std::string_view body);
  Result<std::string> OpenFrame(uint32_t kind, std::string_view sealed) const;
  Result<Frame> Decode(uint32_t kind, std::string_view body) const;

  const Keyring& ring_;
  PrefixFileId file_{};

  std::string pending_;
  size_t used_ = 0;  // bytes of pending_ that were consumed
  uint64_t num_frames_ = 0;
};

}  // namespace kvgate::store::kv
