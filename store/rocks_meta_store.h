// RocksMetaStore: the MetaStore over RocksDB with a write-ahead log; one column family per table.
// Any thread. Memory: at most 32 MiB of write buffers and 8 MiB of table blocks.
#pragma once

#include <filesystem>
#include <memory>

#include <kvgate/result.h>

#include "store/meta_store.h"

namespace kvgate::store {

struct MetaStoreOptions {
  std::filesystem::path directory;  // of the database itself: DATA/meta
  bool sync = false;                // every write reaches the disk, not only the kernel
  bool read_only = false;
};

// kDataLoss: damaged; its contents cannot be made again, so it is left for the user to judge.
Result<std::unique_ptr<MetaStore>> OpenRocksMetaStore(const MetaStoreOptions& options);

}  // namespace kvgate::store
