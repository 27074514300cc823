// DataDirectory: the only place that opens the data directory, with its mode, lock and two
// databases.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/seal.h"
#include "store/kv/kv_store.h"
#include "store/meta/meta_store.h"
#include "store/meta/pin_book.h"
#include "store/meta/rocks_meta_repair.h"

namespace rocksdb {
class Env;
}

namespace kvgate::store {

struct StoreOptions {
  std::filesystem::path directory;
  uint64_t kv_bytes_max = uint64_t{16} << 30;  // disk budget of kv/, kept by eviction
  std::chrono::milliseconds flush_interval{
      1000};               // bounds the KV that kill -9 loses because it was not flushed
  bool sync = false;       // meta/: fsync every write
  bool read_only = false;  // for CLI commands that only read
  // Pause between attempts to write to a failed disk. For kv/ it grows up to 16 times this value;
  // for meta/ it is four times this value.
  std::chrono::milliseconds retry_pause{250};
  rocksdb::Env* env = nullptr;  // null means the system's; tests inject failures
  // Name of the environment variable with the secrets. If empty, the one that the directory was
  // created with is used, else its file secret.key (secret_file.h).
  std::string secret_env = {};
};

struct ServerAddress {
  std::string url;
  // SHA-256 in hex of its TLS certificate, so that whoever can read this directory need not trust a
  // host name. Empty without TLS.
  std::string certificate_sha256 = {};
  std::string admin_token = {};  // gives a command admin rights; see ServerInfo
};

struct RepairReport {
  meta::MetaRepairReport meta;
  kv::KvVerifyReport kv;
  bool kv_began_anew = false;  // the old one was set aside
};

class DataDirectory {
 public:
  // Creates the directory (mode 0700) and both databases if they are missing. A directory that
  // other users may enter is set to 0700 if it is empty or was a data directory before, else
  // refused. Errors: kUnavailable if another process holds it (the detail names it if known);
  // kPermissionDenied or kIo if it cannot be created or written; kInvalidArgument if secret_env
  // names a variable without a secret; kUnsupported if its format is newer, or older and read_only
  // is set. A damaged database does not keep the other from opening. A damaged kv/ is set aside as
  // kv.damaged-TIME and replaced by a new one, since it is a cache. A damaged meta/ stays for
  // Repair, and meta_error() says why it neither finds nor keeps anything. While the disk is full
  // or refuses writes, only what has to be written is lost. An older format is migrated and the log
  // says what was done; if killed meanwhile, the next opening continues. Values sealed with a
  // missing secret are counted, logged and treated as absent.
  static Result<std::unique_ptr<DataDirectory>> Open(const StoreOptions& options);
  virtual ~DataDirectory() = default;

  virtual kv::KvStore& kv() = 0;
  virtual meta::MetaStore& meta() = 0;
  // Says why meta() is empty and keeps nothing; null if no damage was found.
  virtual const Error* meta_error() const = 0;
  virtual meta::PinBook& pins() = 0;
  // Returns the seed of block hashes in this directory: random, generated once and kept in meta/.
  virtual uint64_t hash_seed() const = 0;
  // Returns the keyring that seals values and from which salts are derived.
  virtual const Keyring& keyring() const = 0;

  // Writes DIR/server.json, in which CLI commands find the server that holds the directory.
  virtual Result<void> PublishAddress(const ServerAddress& address) = 0;
  // Builds a new meta/ from what can be read of a damaged one, and verifies every record of kv/.
  // Keeps the old files beside it. Returns kUnavailable if another process holds the directory.
  static Result<RepairReport> Repair(const StoreOptions& options);
  // Returns the address published by the process that holds the directory; kNotFound if there is
  // none.
  static Result<ServerAddress> FindServer(const std::filesystem::path& directory);
};

}  // namespace kvgate::store
