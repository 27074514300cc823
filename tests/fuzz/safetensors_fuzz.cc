// Fuzzes the safetensors reader: any bytes give a file or an error, and no two tensors share bytes
// of the input. The first byte says if the rest is a whole file, or a header that gets its length
// in front and that many bytes of data behind it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "engine/modelfile/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const size_t data_bytes = data[0];
  std::vector<std::byte> bytes;
  const auto* rest = reinterpret_cast<const std::byte*>(data + 1);
  if (data_bytes > 0) {
    const uint64_t header_bytes = size - 1;
    bytes.resize(sizeof(header_bytes));
    std::memcpy(bytes.data(), &header_bytes, sizeof(header_bytes));
  }
  bytes.insert(bytes.end(), rest, rest + size - 1);
  bytes.resize(bytes.size() + data_bytes);
  const auto file = kvgate::modelfile::SafetensorsFile::Parse(bytes);
  if (!file) return 0;
  size_t used = 0;
  for (const kvgate::modelfile::SafetensorsTensor& tensor : (*file)->tensors()) {
    const size_t offset = static_cast<size_t>(tensor.data.data() - bytes.data());
    if (offset > bytes.size() || tensor.data.size() > bytes.size() - offset) std::abort();
    used += tensor.data.size();
  }
  if (used > bytes.size()) std::abort();
  return 0;
}
