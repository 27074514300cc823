// These functions write .safetensors files without the code under test.
#pragma once

#include <cstddef>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace kvgate::model {

struct RawTensor {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  std::vector<std::byte> data;
};

// Writes the header's length, a header of any text, and `data_bytes` of data.
inline std::vector<std::byte> SafetensorsBytes(const std::string& header, size_t data_bytes) {
  const uint64_t size = header.size();
  std::vector<std::byte> bytes(sizeof(size) + header.size() + data_bytes);
  std::memcpy(bytes.data(), &size, sizeof(size));
  std::memcpy(bytes.data() + sizeof(size), header.data(), header.size());
  for (size_t i = 0; i < data_bytes; ++i) {
    bytes[bytes.size() - data_bytes + i] = static_cast<std::byte>(i);
  }
  return bytes;
}

// Writes the tensors one after the other, in the given order.
inline std::vector<std::byte> SafetensorsBytes(const std::vector<RawTensor>& tensors) {
  nlohmann::ordered_json header = {{"__metadata__", {{"format", "pt"}}}};
  size_t end = 0;
  for (const RawTensor& tensor : tensors) {
    const size_t begin = end;
    end += tensor.data.size();
    header[tensor.name] = {
        {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {begin, end}}};
  }
  std::vector<std::byte> bytes = SafetensorsBytes(header.dump(), 0);
  for (const RawTensor& tensor : tensors) {
    bytes.insert(bytes.end(), tensor.data.begin(), tensor.data.end());
  }
  return bytes;
}

}  // namespace kvgate::model
