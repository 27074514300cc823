// RocksMetaStore: the MetaStore over MetaDatabase: when it is opened, tried again, or refused.
//
// Nothing is acknowledged that is not there: a log that lost acknowledged writes is said and
// counted, and so is a directory that was removed or replaced under an open database. Where the
// disk does not let it be written, what is there is read and writing is tried again with each
// write. Any thread. Memory: at most 32 MiB of write buffers and 8 MiB of table blocks.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>

#include <kvgate/result.h>

#include "store/meta/meta_store.h"

namespace rocksdb {
class Env;
}

namespace kvgate::store {

struct MetaStoreOptions {
  std::filesystem::path directory;  // of the database itself: DATA/meta
  bool sync = false;                // every write reaches the disk, not only the kernel
  bool read_only = false;
  std::chrono::milliseconds reopen_pause{1000};  // between attempts after an error of the disk
  rocksdb::Env* env = nullptr;                   // null: PrivateEnv()
  // Called when a store that was opened without being writable has become so; it may write.
  std::function<void(MetaStore&)> on_writable = {};
};

// A disk that is full or refuses to be written is no error unless nothing can be read either.
// kDataLoss: damaged; its contents cannot be made again, so it is left as it is for RepairMeta.
Result<std::unique_ptr<MetaStore>> OpenRocksMetaStore(const MetaStoreOptions& options);

// In place of one that cannot be opened: it has nothing, and refuses to be written because of that.
std::unique_ptr<MetaStore> MakeRefusingMetaStore(Error why);

}  // namespace kvgate::store
