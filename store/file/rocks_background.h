// BackgroundEnv: an Env whose background work runs on threads of its own, which end when there is
// none. RocksDB's default has threads that stay until the process ends and belong to whoever else
// in the process uses RocksDB, which is not for a library to start.
#pragma once

#include <memory>

namespace rocksdb {
class Env;
}

namespace kvgate::store::file {

// Everything else is `base`'s. Its databases are closed before it is destroyed.
std::unique_ptr<rocksdb::Env> MakeBackgroundEnv(std::unique_ptr<rocksdb::Env> base);

}  // namespace kvgate::store::file
