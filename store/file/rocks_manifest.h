// A database's MANIFEST as a file: how it was when something was acknowledged, and whether it still
// begins so. RocksDB takes one that lost its end for an older state, deletes the tables that it
// does not name, and says nothing.
#pragma once

#include <filesystem>

#include <kvgate/result.h>

#include "store/file/acked_sequence.h"

namespace rocksdb {
class Env;
}

namespace kvgate::store {

// The one that CURRENT names, which may be growing. kNotFound: there is no database.
Result<ManifestMark> MarkManifest(rocksdb::Env& env, const std::filesystem::path& directory);

// kDataLoss: its numbers run backwards, as where parts of it or of another one stand twice. RocksDB
// asserts that they do not. Fine where there is no database.
Result<void> CheckManifestOrder(rocksdb::Env& env, const std::filesystem::path& directory);

// How the MANIFEST of now is to one that was marked.
enum class ManifestChange {
  kNone,
  kOther,  // it has grown since, or a later one has taken its place, or none was marked
};
// kDataLoss: it does not begin with what had been there, or is an earlier one.
Result<ManifestChange> CompareManifest(rocksdb::Env& env, const std::filesystem::path& directory,
                                       const ManifestMark& marked);

}  // namespace kvgate::store
