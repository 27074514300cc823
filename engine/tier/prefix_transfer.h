// Stored prefixes as a whole: what a prefix is of, and how it moves from one data directory to
// another. It knows stores and hashes; not engines, sockets or files.
//
// Nothing is believed: keys are computed from token ids and the tenant's salt and compared with
// what is stored, by digest. One block is in memory at a time. Not thread-safe; the store is.
//
// The windows that are stored of a prefix's blocks (KV groups other than 0) move with them; one
// that is missing shortens what can be gone on from, never what is right.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <kvgate/ids.h>
#include <kvgate/result.h>
#include "base/seal.h"

#include "engine/kv/block_hasher.h"
#include "store/kv/kv_store.h"
#include "store/prefix_file.h"

namespace kvgate::tier {

// The keys of the full blocks of `tokens`, first to last.
std::vector<kv::BlockKey> PrefixKeys(const kv::BlockHasher::Options& options, std::string_view salt,
                                     std::span<const TokenId> tokens);

// A stored prefix with what it was computed from.
struct StoredPrefix {
  std::vector<store::KvKey> keys;  // first block to last
  std::vector<TokenId> tokens;
  std::string tenant;
};
// What a data directory's keys are made with. The keyring outlives its users.
struct DirectoryKeys {
  uint64_t hash_seed = 0;
  const Keyring& ring;
};
// Reads the prefix that ends with block `id` and proves which of `tenants` it belongs to.
// kNotFound: not stored; kPermissionDenied: it is none of theirs; kUnsupported: it was stored
// without its token ids; kDataLoss: a record failed a check.
Result<StoredPrefix> ReadPrefix(store::KvStore& kv, const DirectoryKeys& keys, const BlockHash& id,
                                std::span<const std::string> tenants);

// Gives an exported prefix piece by piece.
class PrefixExporter {
 public:
  PrefixExporter(store::KvStore& kv, const Keyring& ring, StoredPrefix prefix);
  // Replaces `out` by the next piece: about one block. False: that was the last one. Errors as
  // KvStore::Read's, where a block has gone meanwhile.
  Result<bool> Next(std::string& out);

 private:
  store::KvStore& kv_;
  const StoredPrefix prefix_;
  store::PrefixFileWriter writer_;
  size_t num_done_ = 0;
  bool started_ = false;
  PrefixDigest last_digest_;
};

struct ImportReport {
  BlockHash id;               // of the last block that is stored now; zero: none is
  Fingerprint fingerprint;    // whose KV it is; another engine than that never finds it
  uint32_t num_blocks = 0;    // the file's
  uint32_t num_imported = 0;  // from the first block on
  std::string reason;         // why there are fewer
  uint32_t num_dropped() const { return num_blocks - num_imported; }
};

// A model whose KV is of use where a file goes.
struct ImportTarget {
  Fingerprint fingerprint;
  std::string name;  // "this server's (NAME)"
};

// Takes an exported prefix in any pieces and stores what holds. From the first block on that fails
// a check everything is dropped, because nothing behind it could be reached.
class PrefixImporter {
 public:
  // No targets: any model's KV is taken.
  PrefixImporter(store::KvStore& kv, const DirectoryKeys& keys,
                 std::vector<ImportTarget> targets = {})
      : kv_(kv), keys_(keys), targets_(std::move(targets)), reader_(keys.ring) {}

  // kUnsupported: not an exported prefix, or of another version; kPermissionDenied: sealed with
  // another secret; kInvalidArgument (field "fingerprint"): it is another model's KV, which none of
  // the targets would ever find; kIo and the like: the store's own.
  // What is damaged is no error here.
  Result<void> Feed(std::string_view bytes);
  // Flushes. kUnsupported: nothing that could be an exported prefix has come.
  Result<ImportReport> Finish();

 private:
  Result<void> Take(store::PrefixFileReader::Frame frame);
  Result<void> CheckModel(const Fingerprint& fingerprint) const;
  Result<void> TakeHeader(const store::PrefixFileHeader& header);
  Result<void> TakeBlock(store::KvBlock block);
  Result<void> TakeWindow(store::KvBlock window);
  Result<void> Append(store::KvBlock block);
  Result<void> Store();
  void Stop(std::string reason);

  store::KvStore& kv_;
  const DirectoryKeys keys_;
  const std::vector<ImportTarget> targets_;
  store::PrefixFileReader reader_;
  std::optional<store::PrefixFileHeader> header_;
  std::optional<kv::BlockHasher> hasher_;
  kv::BlockKey last_;                  // of the newest block that was proved
  std::vector<store::KvBlock> batch_;  // proved, not yet stored
  uint64_t batch_bytes_ = 0;
  std::vector<store::KvKey> stored_;
  uint32_t num_proved_ = 0;
  bool stopped_ = false;
  bool ended_ = false;
  std::string reason_;
};

}  // namespace kvgate::tier
