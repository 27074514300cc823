// LocalEngine: assembles the embedded engine from a configuration: model file, tokenizer, backend,
// engine.
#pragma once

#include <memory>
#include <utility>

#include "base/result.h"
#include "engine/engine.h"
#include "engine/modelfile/model_file.h"
#include "engine/text/chat/chat_format.h"
#include "engine/text/tokenizer/tokenizer.h"
#include "gateway/config/config.h"
#include "gateway/local/local.h"
#include "gateway/runtime/data_tier.h"
#include "gateway/runtime/model_source.h"
#include "gateway/runtime/shared_tier.h"
#include "kernels/backend.h"

namespace kvgate::runtime {

class LocalEngine {
 public:
  // `shared` may be null: no store is shared. REQUIRES: ResolveDevice (device.h) has filled in the
  // configuration. Logs the steps that take time. Fails with kNotFound, kDataLoss or kUnsupported
  // for the model file.
  static Result<std::unique_ptr<LocalEngine>> Open(const config::Config& config,
                                                   const DataTier& tier, SharedTier* shared);

  engine::Engine& engine() { return *engine_; }
  // Makes the provider that the service routes to. The engine must outlive it.
  Result<std::unique_ptr<local::LocalProvider>> MakeProvider(
      const config::Config& config, metrics::GatewayMetrics* metrics) const;

 private:
  explicit LocalEngine(ModelSource source) : source_(std::move(source)) {}

  const ModelSource source_;
  std::shared_ptr<const modelfile::ModelFile> file_;
  std::unique_ptr<tokenizer::Tokenizer> tokenizer_;
  std::unique_ptr<kernels::Backend> backend_;
  std::shared_ptr<grammar::mask::GrammarMemory> grammar_memory_;
  std::unique_ptr<engine::Engine> engine_;  // last: it uses all of the above
};

}  // namespace kvgate::runtime
