// DataTier: the data directory of a configuration and what is kept in it across restarts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "engine/tier/write_admission.h"
#include "gateway/config/config.h"
#include "store/rocks_data_directory.h"

namespace kvgate::runtime {

// The data directory, or the reason why there is none; serving then goes on without the disk tier.
struct DataTier {
  std::unique_ptr<store::DataDirectory> directory;  // null: no disk tier
  std::string reason;                               // why `directory` is null
  // The daily write-back budget, restored from the directory.
  std::shared_ptr<tier::WriteAdmission> write_admission = {};
  store::kv::KvStore* kv() const { return directory ? &directory->kv() : nullptr; }
  store::meta::PinBook* pins() const { return directory ? &directory->pins() : nullptr; }
  // Null also if meta/ is damaged, since kv/ can serve without it.
  store::meta::MetaStore* meta() const {
    return directory && directory->meta_error() == nullptr ? &directory->meta() : nullptr;
  }
  const Keyring* keyring() const { return directory ? &directory->keyring() : nullptr; }
  uint64_t hash_seed() const { return directory ? directory->hash_seed() : 0; }
};
// Never fails: without a usable directory it logs a warning and gives the reason.
DataTier OpenDataTier(const config::Config& config);

// The configuration's data directory, or the default one.
std::filesystem::path DataDirOf(const config::Config& config);

}  // namespace kvgate::runtime
