// This fixture makes broken model files and returns the errors of loading them.
#pragma once

#include <gtest/gtest.h>

#include "engine/model/model.h"
#include "kernels/reference/reference_backend.h"
#include "tests/engine/model/plain_transformer.h"
#include "tests/engine/model/test_paths.h"

namespace kvgate::model {

// Writes the plain file with changed tensors or metadata, loads it and returns the error.
class BadModelTest : public ::testing::Test {
 protected:
  Error LoadError(const modelfile::GgufWriter& writer) {
    EXPECT_TRUE(writer.Write(scratch_ / "bad.gguf", FillPlain).has_value());
    auto file = modelfile::GgufFile::Open(scratch_ / "bad.gguf");
    EXPECT_TRUE(file.has_value()) << file.error().ToString();
    const auto model =
        Model::Load(std::shared_ptr<const modelfile::GgufFile>(*std::move(file)), *backend_);
    if (model.has_value()) return MakeError(ErrorCode::kInternal, "test", "the model was loaded");
    return model.error();
  }

  // Loads the plain file after `change` has seen each tensor; it may edit it, or return false to
  // drop it. Returns the error.
  template <typename Change>
  Error LoadChanged(Change change, const PlainShape& shape = {}) {
    const TempFolder scratch;
    EXPECT_TRUE(PlainFile(shape).Write(scratch / "m.gguf", FillPlain).has_value());
    const auto file = modelfile::GgufFile::Open(scratch / "m.gguf");
    modelfile::GgufWriter writer;
    for (const auto& [key, value] : (*file)->metadata()) writer.Add(key, value);
    for (const modelfile::GgufTensor& tensor : (*file)->tensors()) {
      modelfile::GgufWriter::TensorSpec spec = {
          .name = tensor.name, .dimensions = tensor.dimensions, .type = modelfile::GgufType::kF32};
      if (change(spec)) writer.AddTensor(std::move(spec));
    }
    return LoadError(writer);
  }

  TempFolder scratch_;
  std::unique_ptr<kernels::Backend> backend_ = kernels::reference::MakeReferenceBackend();
};

}  // namespace kvgate::model
