// Files that are not what they say, and what loading them says.
#pragma once

#include <gtest/gtest.h>

#include "engine/model/model.h"
#include "kernels/reference/reference_backend.h"
#include "tests/engine/model/plain_transformer.h"
#include "tests/engine/model/test_paths.h"

namespace kvgate::model {

// The plain file with changed tensors or metadata, loaded; the error's text.
class BadModelTest : public ::testing::Test {
 protected:
  Error LoadError(const GgufWriter& writer) {
    EXPECT_TRUE(writer.Write(scratch_ / "bad.gguf", FillPlain).has_value());
    auto file = GgufFile::Open(scratch_ / "bad.gguf");
    EXPECT_TRUE(file.has_value()) << file.error().ToString();
    const auto model = Model::Load(std::shared_ptr<const GgufFile>(*std::move(file)), *backend_);
    if (model.has_value()) return MakeError(ErrorCode::kInternal, "test", "the model was loaded");
    return model.error();
  }

  // All tensors of the plain file, each through `change`, which may drop one.
  template <typename Change>
  Error LoadChanged(Change change, const PlainShape& shape = {}) {
    const ScratchDirectory scratch;
    EXPECT_TRUE(PlainFile(shape).Write(scratch / "m.gguf", FillPlain).has_value());
    const auto file = GgufFile::Open(scratch / "m.gguf");
    GgufWriter writer;
    for (const auto& [key, value] : (*file)->metadata()) writer.Add(key, value);
    for (const GgufTensor& tensor : (*file)->tensors()) {
      GgufWriter::TensorSpec spec = {
          .name = tensor.name, .dimensions = tensor.dimensions, .type = GgufType::kF32};
      if (change(spec)) writer.AddTensor(std::move(spec));
    }
    return LoadError(writer);
  }

  ScratchDirectory scratch_;
  std::unique_ptr<kernels::Backend> backend_ = kernels::reference::MakeReferenceBackend();
};

}  // namespace kvgate::model
