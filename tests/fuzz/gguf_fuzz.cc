// Fuzzes the GGUF reader: any bytes give a file or an error, and every span lies in the input.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "engine/modelfile/gguf.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  const auto file = kvgate::modelfile::GgufFile::Parse(bytes);
  if (!file) return 0;
  for (const kvgate::modelfile::GgufTensor& tensor : (*file)->tensors()) {
    if (tensor.data.empty()) continue;
    const size_t offset = static_cast<size_t>(tensor.data.data() - bytes.data());
    if (offset > size || tensor.data.size() > size - offset) std::abort();
  }
  for (const auto& [key, value] : (*file)->metadata()) {
    if ((*file)->Find(key) != &value) std::abort();
    (void)(*file)->GetString(key);
    (void)(*file)->GetInteger(key);
    (void)(*file)->GetNumber(key);
    (void)(*file)->GetBool(key);
    (void)(*file)->GetStrings(key);
    (void)(*file)->GetFloats(key);
    (void)(*file)->GetIntegers(key);
  }
  return 0;
}
