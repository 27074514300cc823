// MakeTinyModelFile, for tests that cannot include the inside of this tree (tests/sdk).
#include <stdexcept>
#include <string>

#include "tests/gateway/runtime/tiny_model.h"

namespace kvgate::test {

void MakeTinyModelFile(const std::string& path, int context) {
  const auto made = MakeTinyModel(path, context);
  if (!made) throw std::runtime_error(made.error().ToString());
}

}  // namespace kvgate::test
