// Fingerprints a database's MANIFEST when something is acknowledged, and later checks that the file
// still begins with the same bytes. RocksDB takes a MANIFEST that lost its end for an older state
// and deletes the tables that it does not name, without an error.
#pragma once

#include <filesystem>

#include "base/result.h"
#include "store/file/acked_sequence.h"

namespace rocksdb {
class Env;
}

namespace kvgate::store::file {

// Marks the MANIFEST that CURRENT names, which may be growing. kNotFound means there is no
// database.
Result<ManifestMark> MarkManifest(rocksdb::Env& env, const std::filesystem::path& directory);

// Returns kDataLoss if the row numbers in the MANIFEST decrease, as when a part occurs twice or
// comes from another MANIFEST, because RocksDB asserts that they do not. Succeeds if there is no
// database.
Result<void> CheckManifestOrder(rocksdb::Env& env, const std::filesystem::path& directory);

// How the current MANIFEST differs from a marked one.
enum class ManifestChange {
  kNone,
  kOther,  // it grew, was replaced by a later one, or none was marked
};
// Returns kDataLoss if it does not begin with the marked bytes, or is an earlier file.
Result<ManifestChange> CompareManifest(rocksdb::Env& env, const std::filesystem::path& directory,
                                       const ManifestMark& marked);

}  // namespace kvgate::store::file
