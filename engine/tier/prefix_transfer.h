// Stored prefixes as a whole: reads them and moves them from one data directory to another. Knows
// stores and hashes, not engines, sockets or files.
//
// Stored keys are not trusted: keys are computed from token ids and the tenant's salt and compared
// with the stored ones by digest. One block is in memory at a time. Not thread-safe; the store is.
//
// The stored window blocks of a prefix (KV groups other than the full one) move with it. A missing
// window shortens the part that can be resumed, but never makes it wrong.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "base/seal.h"
#include "engine/kv/block_hasher.h"
#include "store/kv/kv_store.h"
#include "store/kv/prefix_file.h"

namespace kvgate::tier {

// Returns the keys of the full blocks of `tokens`, first to last.
std::vector<kv::BlockKey> PrefixKeys(const kv::BlockHasher::Options& options, std::string_view salt,
                                     std::span<const TokenId> tokens);

// A stored prefix with its token ids and tenant.
struct StoredPrefix {
  std::vector<store::kv::KvKey> keys;  // first block to last
  std::vector<TokenId> tokens;
  std::string tenant;
};
// The secrets from which a data directory's keys are made. The keyring must outlive its users.
struct DirectoryKeys {
  uint64_t hash_seed = 0;
  const Keyring& ring;
};
// Reads the prefix that ends with block `id` and proves which of `tenants` it belongs to. Fails
// with kNotFound if it is not stored, kPermissionDenied if it belongs to none of them, kUnsupported
// if it was stored without its token ids, and kDataLoss if a record failed a check.
Result<StoredPrefix> ReadPrefix(store::kv::KvStore& kv, const DirectoryKeys& keys,
                                const BlockHash& id, std::span<const std::string> tenants);

// Writes an exported prefix piece by piece.
class PrefixExporter {
 public:
  PrefixExporter(store::kv::KvStore& kv, const Keyring& ring, StoredPrefix prefix);
  // Replaces `out` by the next piece, about one block. Returns false if that was the last one.
  // Fails as KvStore::Read does if a block has been evicted meanwhile.
  Result<bool> Next(std::string& out);

 private:
  store::kv::KvStore& kv_;
  const StoredPrefix prefix_;
  store::kv::PrefixFileWriter writer_;
  size_t num_done_ = 0;
  bool started_ = false;
  PrefixDigest last_digest_;
};

struct ImportReport {
  BlockHash id;  // of the last block that is stored; zero if none is
  // The engine that computed the KV; only an engine with the same fingerprint finds it.
  Fingerprint fingerprint;
  uint32_t num_blocks = 0;    // in the file
  uint32_t num_imported = 0;  // leading blocks that are stored
  std::string reason;         // why fewer were imported; empty if all were
  uint32_t num_dropped() const { return num_blocks - num_imported; }
};

// A model that can use imported KV.
struct ImportTarget {
  Fingerprint fingerprint;
  std::string name;  // "this server's (NAME)"
};

// Takes an exported prefix in arbitrary pieces and stores its valid leading blocks. Everything from
// the first block on that fails a check is dropped, because blocks behind it could not be reached.
class PrefixImporter {
 public:
  // An empty `targets` accepts any model's KV.
  PrefixImporter(store::kv::KvStore& kv, const DirectoryKeys& keys,
                 std::vector<ImportTarget> targets = {})
      : kv_(kv), keys_(keys), targets_(std::move(targets)), reader_(keys.ring) {}

  // Fails with kUnsupported if it is not an exported prefix, has another version, or holds KV of a
  // model that none of the targets uses (field "fingerprint"); with kPermissionDenied if it is
  // sealed with another secret; and with the store's own errors (kIo and the like). Damaged bytes
  // are not an error here.
  Result<void> Feed(std::string_view bytes);
  // Flushes the store. Fails with kUnsupported if no header of an exported prefix has arrived.
  Result<ImportReport> Finish();

 private:
  Result<void> Take(store::kv::PrefixFileReader::Frame frame);
  Result<void> CheckModel(const Fingerprint& fingerprint) const;
  Result<void> TakeHeader(const store::kv::PrefixFileHeader& header);
  Result<void> TakeBlock(store::kv::KvBlock block);
  Result<void> TakeWindow(store::kv::KvBlock window);
  Result<void> Append(store::kv::KvBlock block);
  Result<void> Store();
  void Stop(std::string reason);

  store::kv::KvStore& kv_;
  const DirectoryKeys keys_;
  const std::vector<ImportTarget> targets_;
  store::kv::PrefixFileReader reader_;
  std::optional<store::kv::PrefixFileHeader> header_;
  std::optional<kv::BlockHasher> hasher_;
  kv::BlockKey last_;                      // key of the last verified block
  std::vector<store::kv::KvBlock> batch_;  // verified, not yet stored
  uint64_t batch_bytes_ = 0;
  std::vector<store::kv::KvKey> stored_;
  uint32_t num_proved_ = 0;
  bool stopped_ = false;
  bool ended_ = false;
  std::string reason_;
};

}  // namespace kvgate::tier
