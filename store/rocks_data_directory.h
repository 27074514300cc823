// DataDirectory: the one place that opens the data directory: its mode, its lock, its two
// databases.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include <kvgate/result.h>
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
  uint64_t kv_bytes_max = uint64_t{16} << 30;  // disk budget of kv/; eviction keeps it
  std::chrono::milliseconds flush_interval{
      1000};               // KV not yet flushed is lost by kill -9: at most this
  bool sync = false;       // meta/: fsync every write
  bool read_only = false;  // for CLI commands that only look
  // Between attempts to write to a disk that has failed: for kv/ it grows up to 16 times that, for
  // meta/ it is four times that.
  std::chrono::milliseconds retry_pause{250};
  rocksdb::Env* env = nullptr;  // null: the system's; tests make it fail
  // The environment variable with the secrets; empty: the one that the directory was made for, else
  // its file secret.key (secret_file.h).
  std::string secret_env = {};
};

struct ServerAddress {
  std::string url;
  // In hex, of the certificate that it shows over TLS: whoever can read this directory need not
  // trust a name. Empty without TLS.
  std::string certificate_sha256 = {};
  std::string admin_token = {};  // makes a command an admin there; see ServerInfo
};

struct RepairReport {
  MetaRepairReport meta;
  KvVerifyReport kv;
  bool kv_began_anew = false;  // the old one is set aside
};

class DataDirectory {
 public:
  // Creates the directory (mode 0700) and both databases when missing. One that others may enter is
  // made 0700 where it is empty or was a data directory before, and refused otherwise.
  // kUnavailable: another process holds it (detail names it when known); kPermissionDenied or kIo:
  // cannot be created or written. Neither database keeps the other from opening: a damaged kv/ is
  // set aside as kv.damaged-TIME and a new one begun, since it is a cache; a damaged meta/ stays as
  // it is for Repair, and meta_error() says why nothing is found or kept meanwhile. A disk that is
  // full or refuses to be written costs what has to be written, until it no longer does.
  // kInvalidArgument: no secret where secret_env names one; kUnsupported: it is of a newer format,
  // or of an older one and is only to be read. A directory of an older format is migrated, and the
  // log says what that was; killed meanwhile, the next opening goes on. What is sealed with a
  // secret that is not there is counted, said, and absent.
  static Result<std::unique_ptr<DataDirectory>> Open(const StoreOptions& options);
  virtual ~DataDirectory() = default;

  virtual KvStore& kv() = 0;
  virtual MetaStore& meta() = 0;
  // Why meta() has nothing and keeps nothing; null: it has not been found damaged.
  virtual const Error* meta_error() const = 0;
  virtual PinBook& pins() = 0;
  // The seed of block hashes in this directory: random, made once, kept in meta/.
  virtual uint64_t hash_seed() const = 0;
  // What it is sealed with, and salts are derived of.
  virtual const Keyring& keyring() const = 0;

  // DIR/server.json: where CLI commands find the server that holds the directory.
  virtual Result<void> PublishAddress(const ServerAddress& address) = 0;
  // Makes a new meta/ of what can be read of a damaged one, and reads every record of kv/. What was
  // there is kept beside it. kUnavailable: another process holds the directory.
  static Result<RepairReport> Repair(const StoreOptions& options);
  // The published address of a directory that another process holds; kNotFound when none is.
  static Result<ServerAddress> FindServer(const std::filesystem::path& directory);
};

}  // namespace kvgate::store
