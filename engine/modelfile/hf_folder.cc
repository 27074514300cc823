#include "engine/modelfile/hf_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>

#include "engine/modelfile/gguf.h"
#include "kernels/weight_format.h"

namespace kvgate::modelfile {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kSource = "model";
constexpr size_t kTextBytesMax = size_t{256} << 20;  // the largest known tokenizer.json has 35 MB
constexpr size_t kShardsMax = 1000;
constexpr size_t kDimensionsMax = 4;

Error DataLoss(const fs::path& path, std::string_view what) {
  return MakeError(ErrorCode::kDataLoss, kSource, fmt::format("{}: {}", path.string(), what));
}

Error Missing(const fs::path& path, std::string_view what) {
  return MakeError(ErrorCode::kNotFound, kSource,
                   fmt::format("{} is missing: {}", path.string(), what));
}

bool Exists(const fs::path& path) {
  std::error_code code;
  return fs::exists(path, code);
}

Result<std::string> ReadText(const fs::path& path) {
  std::error_code code;
  const uintmax_t bytes = fs::file_size(path, code);
  if (!code && bytes > kTextBytesMax) {
    return DataLoss(path, fmt::format("it has {} bytes; the limit is {}", bytes, kTextBytesMax));
  }
  std::ifstream in(path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  if (code || !in) {
    return MakeError(ErrorCode::kIo, kSource, fmt::format("cannot read {}", path.string()));
  }
  return text;
}

// Returns an empty text if the file does not exist.
Result<std::string> ReadTextIfThere(const fs::path& path) {
  if (!Exists(path)) return std::string();
  return ReadText(path);
}

// Returns the folder's name; in a download cache (models--OWNER--NAME/snapshots/REVISION) returns
// NAME.
std::string ModelName(const fs::path& folder) {
  const fs::path path = fs::absolute(folder / "").lexically_normal().parent_path();
  if (path.parent_path().filename() == "snapshots") {
    const std::string cache = path.parent_path().parent_path().filename().string();
    const size_t dashes = cache.rfind("--");
    if (cache.starts_with("models--")) return cache.substr(dashes + 2);
  }
  return path.filename().string();
}

// Accepts only the name of a file in the same folder, so that an index cannot open any other file.
bool IsPlainName(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string_view::npos &&
         name.find('\0') == std::string_view::npos;
}

// The shard of each tensor, by tensor name.
using WeightMap = std::map<std::string, std::string>;

Result<WeightMap> ReadIndex(const fs::path& path) {
  KVGATE_TRY(const std::string text, ReadText(path));
  const json index = json::parse(text, nullptr, false);
  const auto entries = index.is_object() ? index.find("weight_map") : index.end();
  if (!index.is_object() || entries == index.end() || !entries->is_object()) {
    return DataLoss(path, "weight_map is missing or no JSON object");
  }
  WeightMap map;
  for (const auto& [name, shard] : entries->items()) {
    if (!shard.is_string() || !IsPlainName(shard.get_ref<const std::string&>())) {
      return DataLoss(path, fmt::format("weight_map: '{}' is not in a file of the folder", name));
    }
    map.emplace(name, shard.get<std::string>());
  }
  if (map.empty()) return DataLoss(path, "weight_map is empty");
  return map;
}

// Returns the file that holds all tensors, if there is no index.
Result<fs::path> OnlyFile(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code code;
  for (fs::directory_iterator entry(folder, code), end; !code && entry != end;
       entry.increment(code)) {
    const fs::path& path = entry->path();
    // A shard does not hold all tensors.
    const bool is_shard = path.stem().string().find("-of-") != std::string::npos;
    if (path.extension() == ".safetensors" && !is_shard) found.push_back(path);
  }
  if (found.size() == 1) return found.front();
  return Missing(folder / "model.safetensors",
                 fmt::format("there is no model.safetensors.index.json either, and {} other "
                             "*.safetensors; weights in other formats are not supported",
                             found.size()));
}

std::optional<kernels::DType> FloatType(std::string_view dtype) {
  if (dtype == "F32") return kernels::DType::kF32;
  if (dtype == "F16") return kernels::DType::kF16;
  if (dtype == "BF16") return kernels::DType::kBF16;
  return std::nullopt;
}

// Tables that old files store beside the weights although they follow from config.json.
bool IsDerived(std::string_view name) { return name.ends_with(".rotary_emb.inv_freq"); }

}  // namespace

std::span<const std::byte> HfFolder::Own(std::vector<float> values) {
  vectors_.push_back(std::move(values));
  return std::as_bytes(std::span(vectors_.back()));
}

Result<void> HfFolder::ReadConfig() {
  const fs::path path = folder_ / "config.json";
  if (!Exists(path)) {
    return Missing(path,
                   "a folder is read as a Hugging Face model, with config.json, *.safetensors "
                   "and tokenizer.json; a GGUF file is named itself");
  }
  KVGATE_TRY(const std::string config, ReadText(path));
  KVGATE_TRY(const std::string generation, ReadTextIfThere(folder_ / "generation_config.json"));
  Result<HfConfig> read = ReadHfConfig(config, generation);
  if (!read) {
    Error error = std::move(read).error();
    error.detail = fmt::format("{}/{}", folder_.string(), error.detail);
    return error;
  }
  config_ = *std::move(read);
  metadata_ = std::move(config_.metadata);
  metadata_.emplace_back("general.name", ModelName(folder_));
  return {};
}

Result<void> HfFolder::ReadTokenizer() {
  const auto add = [this](std::string_view key, std::string text) {
    if (!text.empty()) metadata_.emplace_back(std::string(key), std::move(text));
  };
  const fs::path path = folder_ / "tokenizer.json";
  if (!Exists(path)) return Missing(path, "no other form of a tokenizer is read from a folder");
  KVGATE_TRY(std::string tokenizer, ReadText(path));
  add(kTokenizerJsonKey, std::move(tokenizer));
  // A template's own file takes precedence over the one in the configuration, which the tokenizer
  // reads.
  KVGATE_TRY(std::string chat_template, ReadTextIfThere(folder_ / "chat_template.jinja"));
  add("tokenizer.chat_template", std::move(chat_template));
  const fs::path config_path = folder_ / "tokenizer_config.json";
  KVGATE_TRY(std::string config, ReadTextIfThere(config_path));
  KVGATE_TRY(std::string tool_use,
             ReadTextIfThere(folder_ / "additional_chat_templates" / "tool_use.jinja"));
  if (!config.empty()) {
    const json parsed = json::parse(config, nullptr, false);
    if (!parsed.is_object()) return DataLoss(config_path, "it is no JSON object");
    const json templates = parsed.value("chat_template", json());
    for (const json& named : templates.is_array() ? templates : json::array()) {
      const bool is_wanted = tool_use.empty() && named.is_object() &&
                             named.value("name", json()) == "tool_use" &&
                             named.value("template", json()).is_string();
      if (is_wanted) tool_use = named["template"].get<std::string>();
    }
  }
  add(kTokenizerConfigKey, std::move(config));
  add("tokenizer.chat_template.tool_use", std::move(tool_use));
  return {};
}

Result<void> HfFolder::AddTensors(const fs::path& path, const SafetensorsFile& file) {
  for (const SafetensorsTensor& tensor : file.tensors()) {
    if (IsDerived(tensor.name)) continue;
    // With tied embeddings the output is the embedding table, even if the file stores another.
    if (config_.tied_embeddings && tensor.name == "lm_head.weight") continue;
    const std::optional<std::string> name = GgufTensorName(tensor.name);
    const std::optional<kernels::DType> dtype = FloatType(tensor.dtype);
    if (!name || !dtype) {
      const std::string what =
          !name ? "is not one that the architectures here have"
                : fmt::format("has dtype {}; supported are F32, F16 and BF16", tensor.dtype);
      return MakeError(ErrorCode::kUnsupported, kSource,
                       fmt::format("{}: tensor '{}' {}", path.string(), tensor.name, what));
    }
    if (tensor.shape.empty() || tensor.shape.size() > kDimensionsMax || tensor.data.empty()) {
      return DataLoss(path, fmt::format("tensor '{}' has no shape that a weight has", tensor.name));
    }
    GgufTensor added = {.name = *name,
                        .dimensions = {tensor.shape.rbegin(), tensor.shape.rend()},
                        .type = static_cast<uint32_t>(GgufTypeOf(*dtype)),
                        .data = tensor.data,
                        .file = file.mapping()};
    // GGUF files store this matrix of one row as a vector.
    if (name->ends_with("ffn_gate_inp_shexp.weight") && tensor.shape[0] == 1) {
      added.dimensions.pop_back();
    }
    if (added.dimensions.size() == 1) {
      const int64_t count = added.dimensions[0];
      std::vector<float> values(static_cast<size_t>(count));
      kernels::DequantizeValues(*dtype, tensor.data.data(), count, values.data());
      added.type = static_cast<uint32_t>(GgufType::kF32);
      added.data = Own(std::move(values));
      added.file = nullptr;
    }
    tensors_.push_back(std::move(added));
  }
  return {};
}

Result<void> HfFolder::ReadTensors() {
  const fs::path index_path = folder_ / "model.safetensors.index.json";
  std::set<fs::path> paths;
  WeightMap map;
  if (Exists(folder_ / "model.safetensors")) {
    paths.insert(folder_ / "model.safetensors");
  } else if (Exists(index_path)) {
    KVGATE_TRY(map, ReadIndex(index_path));
    for (const auto& [name, shard] : map) paths.insert(folder_ / shard);
  } else {
    KVGATE_TRY(const fs::path only, OnlyFile(folder_));
    paths.insert(only);
  }
  if (paths.size() > kShardsMax) {
    return DataLoss(index_path, fmt::format("weight_map names {} files; the limit is {}",
                                            paths.size(), kShardsMax));
  }
  std::map<std::string, fs::path> places;
  for (const fs::path& path : paths) {
    if (!Exists(path)) return Missing(path, "model.safetensors.index.json names it");
    KVGATE_TRY(std::unique_ptr<SafetensorsFile> file, SafetensorsFile::Open(path));
    for (const SafetensorsTensor& tensor : file->tensors()) {
      const auto [other, is_new] = places.emplace(tensor.name, path);
      if (is_new) continue;
      return DataLoss(path, fmt::format("tensor '{}' is in {} as well", tensor.name,
                                        other->second.filename().string()));
    }
    KVGATE_TRY_VOID(AddTensors(path, *file));
    total_bytes_ += file->total_bytes();
    files_.push_back(std::move(file));
  }
  for (const auto& [name, shard] : map) {
    const auto at = places.find(name);
    if (at != places.end() && at->second == folder_ / shard) continue;
    return DataLoss(folder_ / shard, fmt::format("tensor '{}' is missing, which {} says is there",
                                                 name, index_path.filename().string()));
  }
  if (!config_.tied_embeddings && !places.contains("lm_head.weight")) {
    return DataLoss(folder_,
                    "tensor 'lm_head.weight' is missing, and config.json: "
                    "tie_word_embeddings is not true");
  }
  return {};
}

Result<std::unique_ptr<HfFolder>> HfFolder::Open(const fs::path& folder) {
  std::unique_ptr<HfFolder> opened(new HfFolder(folder));
  KVGATE_TRY_VOID(opened->ReadConfig());
  KVGATE_TRY_VOID(opened->ReadTokenizer());
  KVGATE_TRY_VOID(opened->ReadTensors());
  if (!opened->config_.rope_divisors.empty()) {
    const auto count = static_cast<int64_t>(opened->config_.rope_divisors.size());
    opened->tensors_.push_back({.name = "rope_freqs.weight",
                                .dimensions = {count},
                                .type = static_cast<uint32_t>(GgufType::kF32),
                                .data = opened->Own(std::move(opened->config_.rope_divisors))});
  }
  // Sorts the tensors, so that the fingerprint does not depend on the cut into shards.
  std::sort(opened->tensors_.begin(), opened->tensors_.end(),
            [](const GgufTensor& a, const GgufTensor& b) { return a.name < b.name; });
  KVGATE_TRY_VOID(opened->IndexNames());
  return opened;
}

Result<std::unique_ptr<ModelFile>> OpenModelFile(const fs::path& path) {
  std::error_code code;
  if (fs::is_directory(path, code)) {
    KVGATE_TRY(std::unique_ptr<ModelFile> folder, HfFolder::Open(path));
    return folder;
  }
  KVGATE_TRY(std::unique_ptr<ModelFile> file, GgufFile::Open(path));
  return file;
}

}  // namespace kvgate::modelfile
