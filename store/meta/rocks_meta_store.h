// RocksMetaStore: the MetaStore on top of MetaDatabase; it decides when to open, retry and refuse.
//
// It never acknowledges a write that is not stored. If a log lost acknowledged writes, or the
// directory was removed or replaced under an open database, this is logged and counted. If the disk
// refuses writes, existing rows stay readable and each write tries again. All functions may be
// called from any thread. Memory: at most 32 MiB of write buffers and 8 MiB of table blocks.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>

#include "base/result.h"
#include "store/meta/meta_store.h"

namespace rocksdb {
class Env;
}

namespace kvgate::store::meta {

struct MetaStoreOptions {
  std::filesystem::path directory;  // the database's own: DATA/meta
  bool sync = false;                // every write reaches the disk, not only the kernel
  bool read_only = false;
  std::chrono::milliseconds reopen_pause{1000};  // pause between attempts after a disk error
  rocksdb::Env* env = nullptr;                   // null means the shared one of EnvUse
  // Called when a store that was opened without being writable becomes writable; it may write.
  std::function<void(MetaStore&)> on_writable = {};
};

// A full or unwritable disk is an error only if the database cannot be read either. Returns
// kDataLoss if it is damaged; it is then left as it is for RepairMeta, since its content cannot be
// recreated.
Result<std::unique_ptr<MetaStore>> OpenRocksMetaStore(const MetaStoreOptions& options);

// Stands in for a database that cannot be opened: it is empty, and writes fail with `why`.
std::unique_ptr<MetaStore> MakeRefusingMetaStore(Error why);

}  // namespace kvgate::store::meta
