// FullWriter writes a GGUF file with every value type and every tensor type whose size is known.
#pragma once

#include <fstream>
#include <iterator>

#include "engine/modelfile/gguf.h"

namespace kvgate::model {

inline std::vector<std::byte> ReadAll(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  return {bytes, bytes + text.size()};
}

template <typename T>
modelfile::GgufValue ArrayValue(std::vector<T> values) {
  auto array = std::make_shared<modelfile::GgufArray>();
  array->values = std::move(values);
  return std::shared_ptr<const modelfile::GgufArray>(std::move(array));
}

// Every value type is there, and one tensor of each type whose size is known. The last tensor needs
// no padding, so every proper prefix of the file lacks something.
inline modelfile::GgufWriter FullWriter() {
  modelfile::GgufWriter writer;
  writer.Add("u8", uint8_t{200});
  writer.Add("i8", int8_t{-7});
  writer.Add("u16", uint16_t{60000});
  writer.Add("i16", int16_t{-30000});
  writer.Add("u32", uint32_t{4000000000u});
  writer.Add("i32", int32_t{-2000000000});
  writer.Add("f32", 1.5f);
  writer.Add("bool", true);
  writer.Add("string", std::string("a \0 b", 5));
  writer.Add("u64", uint64_t{18000000000000000000u});
  writer.Add("i64", int64_t{-9000000000000000000});
  writer.Add("f64", 0.1);
  writer.Add("a.u8", ArrayValue<uint8_t>({1, 255}));
  writer.Add("a.i8", ArrayValue<int8_t>({-1, 127}));
  writer.Add("a.u16", ArrayValue<uint16_t>({1, 65535}));
  writer.Add("a.i16", ArrayValue<int16_t>({-1, 32767}));
  writer.Add("a.u32", ArrayValue<uint32_t>({1, 4}));
  writer.AddIntegers("a.i32", {-1, 0, 1});
  writer.AddFloats("a.f32", {0.25f, -1e30f});
  writer.Add("a.bool", ArrayValue<bool>({true, false, true}));
  writer.AddStrings("a.string", {"", "x", "yy"});
  writer.Add("a.u64", ArrayValue<uint64_t>({uint64_t{1} << 63}));
  writer.Add("a.i64", ArrayValue<int64_t>({-5}));
  writer.Add("a.f64", ArrayValue<double>({1e300}));
  writer.AddIntegers("a.empty", {});
  writer.AddTensor({.name = "t.f32", .dimensions = {3, 2}, .type = modelfile::GgufType::kF32});
  writer.AddTensor({.name = "t.f16", .dimensions = {5}, .type = modelfile::GgufType::kF16});
  writer.AddTensor({.name = "t.q8_0", .dimensions = {64, 2}, .type = modelfile::GgufType::kQ8_0});
  writer.AddTensor({.name = "t.bf16", .dimensions = {4, 2, 2}, .type = modelfile::GgufType::kBF16});
  return writer;
}

// Returns byte i of row r of a tensor; it differs between tensors, rows and positions.
inline std::byte PatternByte(const std::string& name, int64_t row, size_t i) {
  return static_cast<std::byte>(name.size() * 31 + static_cast<size_t>(name[2]) +
                                static_cast<size_t>(row) * 7 + i);
}

inline void FillPattern(const modelfile::GgufWriter::TensorSpec& spec, int64_t first_row,
                        std::span<std::byte> data) {
  const size_t row_bytes = *modelfile::GgufTensorBytes(static_cast<uint32_t>(spec.type),
                                                       static_cast<size_t>(spec.dimensions[0]));
  for (size_t i = 0; i < data.size(); ++i) {
    data[i] =
        PatternByte(spec.name, first_row + static_cast<int64_t>(i / row_bytes), i % row_bytes);
  }
}

}  // namespace kvgate::model
