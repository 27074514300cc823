#include "gateway/runtime/model_source.h"

#include <fmt/format.h>

#include <utility>

#include "engine/default_model/default_model.h"

namespace kvgate::runtime {

Result<ModelSource> ModelSource::Of(const config::Config& config) {
  ModelSource source;
  source.path_ = config.engine.model;
  if (!config.engine.model.empty()) return source;
  Result<modelfile::MemoryFile> memory =
      modelfile::MemoryFile::Make("kvgate-default", default_model::FileBytes());
  if (!memory) {
    Error error = memory.error();
    error.detail += "; name a model with --model";
    return error;
  }
  source.memory_ = std::move(*memory);
  source.path_ = source.memory_->path();
  return source;
}

std::string ModelSource::label() const {
  return is_default() ? fmt::format("the model that kvgate brings along ({})", default_model::kName)
                      : path_.string();
}

}  // namespace kvgate::runtime
