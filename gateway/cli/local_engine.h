// LocalEngine: the parts of the embedded engine put together from a configuration: model file,
// tokenizer, backend, engine; and the data directory that stands behind it.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include <kvgate/result.h>

#include "engine/engine.h"
#include "engine/model/model_file.h"
#include "engine/text/chat/chat_format.h"
#include "engine/text/tokenizer/tokenizer.h"
#include "gateway/config/config.h"
#include "gateway/local/local.h"
#include "kernels/backend.h"
#include "store/rocks_data_directory.h"

namespace kvgate::cli {

// The data directory, or why there is none: serving goes on without the disk tier.
struct DataTier {
  std::unique_ptr<store::DataDirectory> directory;  // null: no disk tier
  std::string reason;                               // then why
  // The daily budget of write back, as the directory remembers it.
  std::shared_ptr<tier::WriteAdmission> write_admission = {};
  store::KvStore* kv() const { return directory ? &directory->kv() : nullptr; }
  store::PinBook* pins() const { return directory ? &directory->pins() : nullptr; }
  // Null also where meta/ is damaged: kv/ serves without it.
  store::MetaStore* meta() const {
    return directory && directory->meta_error() == nullptr ? &directory->meta() : nullptr;
  }
  const Keyring* keyring() const { return directory ? &directory->keyring() : nullptr; }
  uint64_t hash_seed() const { return directory ? directory->hash_seed() : 0; }
};
DataTier OpenDataTier(const config::Config& config);

class LocalEngine {
 public:
  // Of a configuration that ResolveDevice (device.h) has filled in. Logs what takes time.
  // kNotFound, kDataLoss, kUnsupported: the model file.
  static Result<std::unique_ptr<LocalEngine>> Open(const config::Config& config,
                                                   const DataTier& tier);

  engine::Engine& engine() { return *engine_; }
  // What the service routes to. The engine outlives it.
  Result<std::unique_ptr<provider::LocalProvider>> MakeProvider(
      const config::Config& config, metrics::GatewayMetrics* metrics) const;

 private:
  LocalEngine() = default;

  std::filesystem::path path_;
  std::shared_ptr<const model::ModelFile> file_;
  std::unique_ptr<tokenizer::Tokenizer> tokenizer_;
  std::unique_ptr<kernels::Backend> backend_;
  std::shared_ptr<grammar::GrammarMemory> grammar_memory_;
  std::unique_ptr<engine::Engine> engine_;  // last: it uses all of the above
};

// The model file of a configuration; the embedded default is made once where none is named.
Result<std::filesystem::path> FindModel(const config::Config& config);

// The configuration's data directory, or the default one.
std::filesystem::path DataDirOf(const config::Config& config);

}  // namespace kvgate::cli
