#include "engine/model/quantize_model.h"

#include <fmt/format.h>

#include <cstring>
#include <vector>

#include "base/check.h"
#include "engine/model/weight_recipe.h"
#include "engine/modelfile/gguf.h"
#include "engine/modelfile/hf_folder.h"
#include "kernels/weight_format.h"

namespace kvgate::model {

using modelfile::GgufTensor;
using modelfile::GgufType;

namespace {

using kernels::DType;

Error Invalid(std::string_view field, std::string detail) {
  return MakeError(ErrorCode::kInvalidArgument, "quantize", std::move(detail), std::string(field));
}

bool IsTarget(DType dtype) {
  constexpr DType kTargets[] = {DType::kF16,  DType::kBF16, DType::kQ8_0, DType::kQ4_0,
                                DType::kQ4_1, DType::kQ5_0, DType::kQ5_1};
  for (const DType target : kTargets) {
    if (target == dtype) return true;
  }
  return false;
}

// Keys that the new file sets itself, or that are true of the old one only.
bool IsOwnKey(std::string_view key) {
  return key == "general.file_type" || key == "general.quantization_version" ||
         key == "general.alignment" || key.starts_with("split.") ||
         key == modelfile::kRopeHalvesKey;
}

// Returns the format of a tensor in the new file.
Result<GgufType> TargetType(const GgufTensor& tensor, DType dtype) {
  const kernels::WeightFormat* format = kernels::FindWeightFormat(tensor.type);
  if (format == nullptr) {
    return Invalid(
        "in", fmt::format("tensor '{}' has type {}; supported are {}", tensor.name,
                          modelfile::GgufTypeName(tensor.type), modelfile::SupportedGgufTypes()));
  }
  // Vectors and experts' biases keep their format; so do routers, whose last bits decide which
  // experts are used.
  if (tensor.dimensions.size() < 2 || tensor.name.ends_with(".bias") ||
      tensor.name.ends_with("ffn_gate_inp.weight")) {
    return static_cast<GgufType>(tensor.type);
  }
  if (format->elements != 1 && format->dtype != dtype) {
    return Invalid("in", fmt::format("tensor '{}' is {} already: quantize the f32, f16 or bf16 "
                                     "file it was made from",
                                     tensor.name, modelfile::GgufTypeName(tensor.type)));
  }
  const int elements = kernels::DTypeElements(dtype);
  if (tensor.dimensions[0] % elements != 0) {
    return Invalid("type", fmt::format("tensor '{}' has rows of {}, no multiple of the {} that {} "
                                       "takes together",
                                       tensor.name, tensor.dimensions[0], elements,
                                       kernels::DTypeName(dtype)));
  }
  return modelfile::GgufTypeOf(dtype);
}

// Reorders the rows of q and k from halves of a head (kRopeHalvesKey in `file`) to neighbours, as
// in GGUF files of such architectures: row 2 i + j of a head is row j head_dim / 2 + i of the old
// one.
class RowOrder {
 public:
  static Result<RowOrder> Of(const modelfile::ModelFile& file) {
    RowOrder order;
    if (file.Find(modelfile::kRopeHalvesKey) == nullptr) return order;
    KVGATE_TRY(const bool halves, file.GetBool(modelfile::kRopeHalvesKey));
    KVGATE_TRY(const std::string architecture, file.GetString("general.architecture"));
    if (!halves) return order;
    KVGATE_TRY(order.head_dim_, file.GetInteger(architecture + ".attention.key_length"));
    if (order.head_dim_ >= 2 && order.head_dim_ % 2 == 0) return order;
    return Invalid("in", fmt::format("heads of {} dimensions have no halves", order.head_dim_));
  }

  // Returns the old row that becomes row `row` of `tensor`.
  int64_t OldRow(const GgufTensor& tensor, int64_t row) const {
    if (head_dim_ == 0 || !IsTurned(tensor.name)) return row;
    const int64_t place = row % head_dim_;
    return row - place + place % 2 * (head_dim_ / 2) + place / 2;
  }
  // Fails if the last head is incomplete, because its rows would be read past the end.
  Result<void> Check(const GgufTensor& tensor) const {
    if (head_dim_ == 0 || !IsTurned(tensor.name) || tensor.dimensions.back() % head_dim_ == 0) {
      return {};
    }
    return Invalid("in", fmt::format("tensor '{}' has {} rows, which heads of {} do not divide",
                                     tensor.name, tensor.dimensions.back(), head_dim_));
  }

 private:
  static bool IsTurned(std::string_view name) {
    return name.find(".attn_q.") != std::string_view::npos ||
           name.find(".attn_k.") != std::string_view::npos;
  }
  int64_t head_dim_ = 0;  // 0 means that all rows keep their positions
};

void Convert(const GgufTensor& from, const RowOrder& order, GgufType type, int64_t first_row,
             std::span<std::byte> data) {
  const DType old_dtype = kernels::FindWeightFormat(from.type)->dtype;
  const DType new_dtype = kernels::FindWeightFormat(static_cast<uint32_t>(type))->dtype;
  // A vector's elements are ordered like a matrix's rows.
  const bool is_vector = from.dimensions.size() == 1;
  const auto columns = is_vector ? size_t{1} : static_cast<size_t>(from.dimensions[0]);
  const size_t old_bytes = kernels::DTypeBytes(old_dtype, columns);
  const size_t new_bytes = kernels::DTypeBytes(new_dtype, columns);
  std::vector<float> values(columns);
  int64_t row = first_row;
  for (size_t at = 0; at < data.size(); at += new_bytes, ++row) {
    const auto old_row = static_cast<size_t>(order.OldRow(from, row));
    const std::byte* old_data = from.data.data() + old_row * old_bytes;
    if (old_dtype == new_dtype) {
      std::memcpy(data.data() + at, old_data, new_bytes);
      continue;
    }
    const auto count = static_cast<int64_t>(columns);
    kernels::DequantizeValues(old_dtype, old_data, count, values.data());
    kernels::QuantizeValues(new_dtype, values.data(), count, data.data() + at);
  }
}

}  // namespace

Result<void> QuantizeModel(const std::filesystem::path& in, const std::filesystem::path& out,
                           DType dtype) {
  if (!IsTarget(dtype)) {
    return Invalid("type", fmt::format("type {} is not one of f16, bf16, q8_0, q4_0, q4_1, q5_0, "
                                       "q5_1",
                                       kernels::DTypeName(dtype)));
  }
  KVGATE_TRY(const std::unique_ptr<modelfile::ModelFile> file, modelfile::OpenModelFile(in));
  std::error_code no_such_file;
  if (std::filesystem::equivalent(in, out, no_such_file)) {
    return Invalid("out", fmt::format("{} is the file to read", out.string()));
  }
  KVGATE_TRY(const RowOrder order, RowOrder::Of(*file));
  modelfile::GgufWriter writer;
  for (const auto& [key, value] : file->metadata()) {
    if (!IsOwnKey(key)) writer.Add(key, value);
  }
  writer.Add("general.file_type", RecipeFileType({.dtype = dtype}));
  if (kernels::DTypeElements(dtype) != 1) writer.Add("general.quantization_version", uint32_t{2});
  for (const GgufTensor& tensor : file->tensors()) {
    KVGATE_TRY(const GgufType type, TargetType(tensor, dtype));
    KVGATE_TRY_VOID(order.Check(tensor));
    writer.AddTensor({.name = tensor.name, .dimensions = tensor.dimensions, .type = type});
  }
  return writer.Write(out, [&](const modelfile::GgufWriter::TensorSpec& spec, int64_t first_row,
                               std::span<std::byte> data) {
    Convert(*file->FindTensor(spec.name), order, spec.type, first_row, data);
  });
}

}  // namespace kvgate::model
