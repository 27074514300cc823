#include "engine/modelfile/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <random>

#include "kernels/weight_format.h"
#include "tests/engine/model/full_file.h"
#include "tests/engine/model/test_paths.h"

namespace kvgate::modelfile {
namespace {

using ::testing::HasSubstr;

// RawFile spells a header byte by byte, for files that GgufWriter would never write.
class RawFile {
 public:
  explicit RawFile(uint64_t num_tensors = 0, uint64_t num_metadata = 0, uint32_t version = 3) {
    Text("GGUF").Put(version).Put(num_tensors).Put(num_metadata);
  }
  RawFile& Text(std::string_view text) {
    for (const char c : text) bytes_.push_back(static_cast<std::byte>(c));
    return *this;
  }
  template <typename T>
  RawFile& Put(T value) {
    std::byte raw[sizeof(T)];
    std::memcpy(raw, &value, sizeof(T));
    bytes_.insert(bytes_.end(), raw, raw + sizeof(T));
    return *this;
  }
  RawFile& String(std::string_view text) { return Put<uint64_t>(text.size()).Text(text); }
  RawFile& Tensor(std::string_view name, std::vector<uint64_t> dimensions, uint32_t type,
                  uint64_t offset) {
    String(name).Put(static_cast<uint32_t>(dimensions.size()));
    for (const uint64_t d : dimensions) Put(d);
    return Put(type).Put(offset);
  }
  RawFile& Pad(size_t multiple) {
    while (bytes_.size() % multiple != 0) bytes_.push_back(std::byte{0});
    return *this;
  }
  RawFile& Zeros(size_t count) {
    bytes_.resize(bytes_.size() + count);
    return *this;
  }
  Result<std::unique_ptr<GgufFile>> Parse() const { return GgufFile::Parse(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

void ExpectError(const Result<std::unique_ptr<GgufFile>>& file, ErrorCode code,
                 std::string_view part) {
  ASSERT_FALSE(file.has_value());
  EXPECT_EQ(file.error().code, code) << file.error().detail;
  EXPECT_THAT(file.error().detail, HasSubstr(std::string(part)));
}

std::vector<std::byte> FullFile() {
  const TempFolder scratch;
  const auto path = scratch / "full.gguf";
  EXPECT_TRUE(model::FullWriter().Write(path, model::FillPattern).has_value());
  return model::ReadAll(path);
}

template <typename T>
void ExpectArray(const GgufFile& file, std::string_view key, const std::vector<T>& expected) {
  const GgufValue* value = file.Find(key);
  ASSERT_NE(value, nullptr) << key;
  const auto* array = std::get_if<std::shared_ptr<const GgufArray>>(value);
  ASSERT_NE(array, nullptr) << key;
  const auto* values = std::get_if<std::vector<T>>(&(*array)->values);
  ASSERT_NE(values, nullptr) << key;
  EXPECT_EQ(*values, expected) << key;
}

TEST(GgufTest, EveryValueTypeComesBackAsItWasWritten) {
  const TempFolder scratch;
  ASSERT_TRUE(model::FullWriter().Write(scratch / "a.gguf", model::FillPattern).has_value());
  const auto opened = GgufFile::Open(scratch / "a.gguf");
  ASSERT_TRUE(opened.has_value()) << opened.error().ToString();
  const GgufFile& file = **opened;
  EXPECT_EQ(file.version(), 3u);
  EXPECT_EQ(std::get<uint8_t>(*file.Find("u8")), 200);
  EXPECT_EQ(std::get<int8_t>(*file.Find("i8")), -7);
  EXPECT_EQ(std::get<uint16_t>(*file.Find("u16")), 60000);
  EXPECT_EQ(std::get<int16_t>(*file.Find("i16")), -30000);
  EXPECT_EQ(std::get<uint32_t>(*file.Find("u32")), 4000000000u);
  EXPECT_EQ(std::get<int32_t>(*file.Find("i32")), -2000000000);
  EXPECT_EQ(std::get<float>(*file.Find("f32")), 1.5f);
  EXPECT_EQ(std::get<bool>(*file.Find("bool")), true);
  EXPECT_EQ(std::get<std::string>(*file.Find("string")), std::string("a \0 b", 5));
  EXPECT_EQ(std::get<uint64_t>(*file.Find("u64")), 18000000000000000000u);
  EXPECT_EQ(std::get<int64_t>(*file.Find("i64")), -9000000000000000000);
  EXPECT_EQ(std::get<double>(*file.Find("f64")), 0.1);
  ExpectArray<uint8_t>(file, "a.u8", {1, 255});
  ExpectArray<int8_t>(file, "a.i8", {-1, 127});
  ExpectArray<uint16_t>(file, "a.u16", {1, 65535});
  ExpectArray<int16_t>(file, "a.i16", {-1, 32767});
  ExpectArray<uint32_t>(file, "a.u32", {1, 4});
  ExpectArray<int32_t>(file, "a.i32", {-1, 0, 1});
  ExpectArray<float>(file, "a.f32", {0.25f, -1e30f});
  ExpectArray<bool>(file, "a.bool", {true, false, true});
  ExpectArray<std::string>(file, "a.string", {"", "x", "yy"});
  ExpectArray<uint64_t>(file, "a.u64", {uint64_t{1} << 63});
  ExpectArray<int64_t>(file, "a.i64", {-5});
  ExpectArray<double>(file, "a.f64", {1e300});
  ExpectArray<int32_t>(file, "a.empty", {});
  EXPECT_EQ(file.metadata().size(), 25u);
  EXPECT_EQ(file.metadata()[0].first, "u8");
  EXPECT_EQ(file.Find("absent"), nullptr);
}

TEST(GgufTest, TensorDataComesBackAlignedAndWhole) {
  const TempFolder scratch;
  ASSERT_TRUE(model::FullWriter().Write(scratch / "a.gguf", model::FillPattern).has_value());
  const auto opened = GgufFile::Open(scratch / "a.gguf");
  ASSERT_TRUE(opened.has_value()) << opened.error().ToString();
  const std::vector<std::pair<std::string, size_t>> expected = {
      {"t.f32", 24}, {"t.f16", 10}, {"t.q8_0", 136}, {"t.bf16", 32}};
  ASSERT_EQ((*opened)->tensors().size(), expected.size());
  for (const auto& [name, bytes] : expected) {
    const GgufTensor* tensor = (*opened)->FindTensor(name);
    ASSERT_NE(tensor, nullptr) << name;
    ASSERT_EQ(tensor->data.size(), bytes) << name;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor->data.data()) % 32, 0u) << name;
    const size_t row_bytes =
        *GgufTensorBytes(tensor->type, static_cast<size_t>(tensor->dimensions[0]));
    for (size_t i = 0; i < bytes; ++i) {
      ASSERT_EQ(tensor->data[i],
                model::PatternByte(name, static_cast<int64_t>(i / row_bytes), i % row_bytes))
          << name << " byte " << i;
    }
  }
  EXPECT_EQ((*opened)->FindTensor("t.bf16")->dimensions, (std::vector<int64_t>{4, 2, 2}));
  EXPECT_EQ((*opened)->FindTensor("absent"), nullptr);
}

TEST(GgufTest, TypedAccessConvertsWhatFitsAndNamesTheKeyOtherwise) {
  const std::vector<std::byte> bytes = FullFile();
  const auto parsed = GgufFile::Parse(bytes);
  ASSERT_TRUE(parsed.has_value()) << parsed.error().ToString();
  const GgufFile& file = **parsed;
  EXPECT_EQ(file.GetInteger("u8").value(), 200);
  EXPECT_EQ(file.GetInteger("i64").value(), -9000000000000000000);
  EXPECT_EQ(file.GetInteger("u64").error().code, ErrorCode::kDataLoss);
  EXPECT_EQ(file.GetInteger("bool").error().code, ErrorCode::kDataLoss);
  EXPECT_EQ(file.GetInteger("f32").error().code, ErrorCode::kDataLoss);
  EXPECT_EQ(file.GetNumber("f32").value(), 1.5);
  EXPECT_EQ(file.GetNumber("i32").value(), -2000000000.0);
  EXPECT_EQ(file.GetNumber("string").error().code, ErrorCode::kDataLoss);
  EXPECT_TRUE(file.GetBool("bool").value());
  EXPECT_EQ(file.GetBool("u8").error().code, ErrorCode::kDataLoss);
  EXPECT_EQ(file.GetStrings("a.string").value().size(), 3u);
  EXPECT_EQ(file.GetStrings("a.i32").error().code, ErrorCode::kDataLoss);
  EXPECT_EQ(file.GetFloats("a.f32").value()[0], 0.25f);
  EXPECT_EQ(file.GetFloats("a.f64").error().code, ErrorCode::kDataLoss);
  EXPECT_EQ(file.GetIntegers("a.i32").value(), (std::vector<int32_t>{-1, 0, 1}));
  EXPECT_EQ(file.GetIntegers("a.u32").value(), (std::vector<int32_t>{1, 4}));
  EXPECT_EQ(file.GetIntegers("a.i64").error().code, ErrorCode::kDataLoss);
  EXPECT_EQ(file.GetString("absent").error().code, ErrorCode::kNotFound);
  EXPECT_THAT(file.GetString("f32").error().detail, HasSubstr("'f32'"));
}

TEST(GgufTest, EveryPrefixOfAFileIsRefused) {
  const std::vector<std::byte> bytes = FullFile();
  ASSERT_TRUE(GgufFile::Parse(bytes).has_value());
  for (size_t size = 0; size < bytes.size(); ++size) {
    // The copy has exactly this size, so that a sanitizer sees a read past its end.
    const std::vector<std::byte> prefix(bytes.begin(), bytes.begin() + static_cast<long>(size));
    const auto parsed = GgufFile::Parse(prefix);
    ASSERT_FALSE(parsed.has_value()) << size;
    ASSERT_EQ(parsed.error().code, ErrorCode::kDataLoss) << size;
    ASSERT_FALSE(parsed.error().detail.empty());
  }
}

TEST(GgufTest, ATruncatedFileNamesTheFieldThatIsCut) {
  const auto parse = [](RawFile file) { return file.Parse(); };
  ExpectError(parse(RawFile(0, 1).String("some.key").Put<uint32_t>(4).Text("..").Zeros(0)),
              ErrorCode::kDataLoss, "metadata 'some.key' needs 4 bytes");
  ExpectError(parse(RawFile(0, 1).Put<uint64_t>(100).Text("short key 123")), ErrorCode::kDataLoss,
              "metadata key 0 needs 100 bytes");
  ExpectError(parse(RawFile(1, 0).Tensor("weights", {8, 8}, 0, 0).Pad(32).Zeros(255)),
              ErrorCode::kDataLoss, "tensor 'weights' needs 256 bytes");
}

TEST(GgufTest, MutatedBytesNeverCrashNorAllocateMuch) {
  const std::vector<std::byte> original = FullFile();
  // The address space may grow by 256 MiB during the test, so trusting a forged count shows as
  // std::bad_alloc. Sanitizers reserve terabytes; under them only the file's own checks are tested.
#ifndef KVGATE_SANITIZED
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  uint64_t num_pages = 0;
  std::ifstream("/proc/self/statm") >> num_pages;
  rlimit bounded = before;
  bounded.rlim_cur = num_pages * 4096 + (uint64_t{256} << 20);
  ASSERT_EQ(setrlimit(RLIMIT_AS, &bounded), 0);
#endif
  std::mt19937_64 random(7);
  int num_accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::byte> bytes = original;
    const int num_changes = 1 + static_cast<int>(random() % 4);
    for (int change = 0; change < num_changes; ++change) {
      const size_t at = random() % bytes.size();
      switch (random() % 4) {
        case 0:
          bytes[at] ^= static_cast<std::byte>(1u << (random() % 8));
          break;
        case 1:
          bytes[at] = static_cast<std::byte>(random());
          break;
        case 2:
          bytes[at] = std::byte{0xff};
          break;
        case 3:
          bytes.erase(bytes.begin() + static_cast<long>(at));
          break;
      }
    }
    const auto parsed = GgufFile::Parse(bytes);
    if (!parsed) {
      ASSERT_FALSE(parsed.error().detail.empty());
      continue;
    }
    ++num_accepted;
    for (const GgufTensor& tensor : (*parsed)->tensors()) {
      if (tensor.data.empty()) continue;
      ASSERT_GE(tensor.data.data(), bytes.data());
      ASSERT_LE(tensor.data.data() + tensor.data.size(), bytes.data() + bytes.size());
    }
  }
#ifndef KVGATE_SANITIZED
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
#endif
  EXPECT_GT(num_accepted, 0);  // a changed scalar value still makes a valid file
}

TEST(GgufTest, HostileCountsAreRefusedBeforeTheyAllocate) {
  const uint64_t huge = uint64_t{1} << 62;
  ExpectError(RawFile(huge, 0).Parse(), ErrorCode::kDataLoss, "tensor count");
  ExpectError(RawFile(0, huge).Parse(), ErrorCode::kDataLoss, "metadata count");
  ExpectError(RawFile(0, 1000).Zeros(100).Parse(), ErrorCode::kDataLoss, "metadata count");
  ExpectError(RawFile(0, 1).Put(huge).Zeros(16).Parse(), ErrorCode::kDataLoss, "metadata key 0");
  for (uint32_t type = 0; type <= 12; ++type) {
    if (type == 9) continue;
    ExpectError(RawFile(0, 1).String("k").Put<uint32_t>(9).Put(type).Put(huge).Zeros(64).Parse(),
                ErrorCode::kDataLoss, "metadata 'k'");
  }
  ExpectError(RawFile(0, 1).String("k").Put<uint32_t>(8).Put(huge).Zeros(64).Parse(),
              ErrorCode::kDataLoss, "metadata 'k'");
  ExpectError(RawFile(1, 0).Tensor("t", {huge, huge}, 0, 0).Pad(32).Zeros(64).Parse(),
              ErrorCode::kDataLoss, "tensor 't'");
  ExpectError(RawFile(1, 0).Tensor("t", {huge, 2}, 0, 0).Pad(32).Zeros(64).Parse(),
              ErrorCode::kDataLoss, "tensor 't'");
  ExpectError(RawFile(1, 0).Tensor("t", {huge}, 0, 0).Pad(32).Zeros(64).Parse(),
              ErrorCode::kDataLoss, "tensor 't'");
  ExpectError(RawFile(1, 0).Tensor("t", {8, 0}, 0, 0).Pad(32).Zeros(64).Parse(),
              ErrorCode::kDataLoss, "dimension 1 is 0");
  ExpectError(RawFile(1, 0).Tensor("t", {1, 1, 1, 1, 1}, 0, 0).Pad(32).Zeros(64).Parse(),
              ErrorCode::kDataLoss, "5 dimensions");
  ExpectError(RawFile(1, 0).Tensor("t", {8}, 0, ~uint64_t{31}).Pad(32).Zeros(64).Parse(),
              ErrorCode::kDataLoss, "offset");
  ExpectError(RawFile(1, 0).Tensor("t", {8}, 0, 4).Pad(32).Zeros(64).Parse(), ErrorCode::kDataLoss,
              "alignment");
  ExpectError(RawFile(1, 0).Tensor("t", {33, 32}, 8, 0).Pad(32).Zeros(4096).Parse(),
              ErrorCode::kDataLoss, "rows of 33");
}

TEST(GgufTest, WhatIsNotAGgufFileSaysSo) {
  ExpectError(GgufFile::Parse({}), ErrorCode::kDataLoss, "magic");
  std::vector<std::byte> bytes = FullFile();
  bytes[0] = std::byte{'X'};
  ExpectError(GgufFile::Parse(bytes), ErrorCode::kDataLoss, "magic");
  ExpectError(RawFile(0, 0, 1).Parse(), ErrorCode::kUnsupported, "version 1 is not one of 2, 3");
  ExpectError(RawFile(0, 0, 4).Parse(), ErrorCode::kUnsupported, "version 4");
  ExpectError(RawFile(0, 0, 0x03000000).Parse(), ErrorCode::kUnsupported, "big-endian");
  EXPECT_TRUE(RawFile(0, 0, 2).Parse().has_value());
  ExpectError(GgufFile::Open("/nowhere/absent.gguf"), ErrorCode::kNotFound, "/nowhere/absent.gguf");
  ExpectError(GgufFile::Open("/"), ErrorCode::kIo, "/");
}

TEST(GgufTest, DuplicatesOddBoolsAndNestedArraysAreRefused) {
  ExpectError(RawFile(0, 2)
                  .String("k")
                  .Put<uint32_t>(0)
                  .Put<uint8_t>(1)
                  .String("k")
                  .Put<uint32_t>(0)
                  .Put<uint8_t>(1)
                  .Parse(),
              ErrorCode::kDataLoss, "'k' appears twice");
  ExpectError(RawFile(2, 0).Tensor("t", {1}, 0, 0).Tensor("t", {1}, 0, 0).Pad(32).Zeros(64).Parse(),
              ErrorCode::kDataLoss, "'t' appears twice");
  ExpectError(RawFile(0, 1).String("k").Put<uint32_t>(7).Put<uint8_t>(2).Parse(),
              ErrorCode::kDataLoss, "bool of value 2");
  ExpectError(RawFile(0, 1)
                  .String("k")
                  .Put<uint32_t>(9)
                  .Put<uint32_t>(7)
                  .Put<uint64_t>(1)
                  .Put<uint8_t>(9)
                  .Parse(),
              ErrorCode::kDataLoss, "'k'[0] is a bool of value 9");
  ExpectError(RawFile(0, 1)
                  .String("k")
                  .Put<uint32_t>(9)
                  .Put<uint32_t>(9)
                  .Put<uint64_t>(1)
                  .Zeros(64)
                  .Parse(),
              ErrorCode::kUnsupported, "array of arrays");
  ExpectError(RawFile(0, 1).String("k").Put<uint32_t>(13).Zeros(8).Parse(), ErrorCode::kUnsupported,
              "value type 13");
}

TEST(GgufTest, AlignmentIsHonouredAndBounded) {
  const auto with_alignment = [](uint32_t alignment) {
    return RawFile(1, 1)
        .String("general.alignment")
        .Put<uint32_t>(4)
        .Put(alignment)
        .Tensor("t", {1}, 0, 64)
        .Pad(64)
        .Zeros(64)
        .Put(2.5f);
  };
  RawFile aligned = with_alignment(64);
  const auto parsed = aligned.Parse();
  ASSERT_TRUE(parsed.has_value()) << parsed.error().ToString();
  float value = 0;
  std::memcpy(&value, (*parsed)->tensors()[0].data.data(), sizeof(value));
  EXPECT_EQ(value, 2.5f);
  for (const uint32_t alignment : {0u, 1u, 4u, 33u, 48u, 1u << 21, 1u << 31}) {
    ExpectError(with_alignment(alignment).Parse(), ErrorCode::kDataLoss, "general.alignment");
  }
  ExpectError(RawFile(0, 1).String("general.alignment").Put<uint32_t>(6).Put(32.0f).Parse(),
              ErrorCode::kDataLoss, "general.alignment");
}

TEST(GgufTest, ATensorOfAnUnknownTypeIsListedWithoutData) {
  const auto parsed = RawFile(1, 0).Tensor("t", {256}, 16, 0).Pad(32).Zeros(66).Parse();
  ASSERT_TRUE(parsed.has_value()) << parsed.error().ToString();
  EXPECT_EQ((*parsed)->tensors()[0].type, 16u);
  EXPECT_TRUE((*parsed)->tensors()[0].data.empty());
  EXPECT_EQ(GgufTypeName(12), "Q4_K");
  EXPECT_EQ(GgufTypeName(30), "BF16");
  EXPECT_EQ(GgufTypeName(4), "type 4");
  EXPECT_EQ(GgufTypeName(4000000000u), "type 4000000000");
}

TEST(GgufTest, EveryWeightFormatIsSizedInWholeBlocksOfARow) {
  for (const kernels::WeightFormat& format : kernels::WeightFormats()) {
    const std::string name = GgufTypeName(format.gguf_type);
    const auto unit = static_cast<uint64_t>(format.elements);
    const auto file = [&](uint64_t columns, size_t bytes) {
      return RawFile(1, 0)
          .Tensor("t", {columns, 3}, format.gguf_type, 0)
          .Pad(32)
          .Zeros(bytes)
          .Parse();
    };
    const auto parsed = file(2 * unit, 6 * format.bytes);
    ASSERT_TRUE(parsed.has_value()) << name << ": " << parsed.error().ToString();
    EXPECT_EQ((*parsed)->tensors()[0].data.size(), 6 * format.bytes) << name;
    ExpectError(file(2 * unit, 6 * format.bytes - 1), ErrorCode::kDataLoss, "tensor 't'");
    if (unit > 1) ExpectError(file(unit + 1, 1 << 16), ErrorCode::kDataLoss, name);
    if (unit > 32) ExpectError(file(unit + 32, 1 << 16), ErrorCode::kDataLoss, name);
  }
}

TEST(GgufTest, RealFilesOpen) {
  const auto model_path = model::TestDataPath("models/stories260K.gguf");
  if (!std::filesystem::exists(model_path)) GTEST_SKIP() << "no " << model_path;
  const auto stories = GgufFile::Open(model_path);
  ASSERT_TRUE(stories.has_value()) << stories.error().ToString();
  EXPECT_EQ((*stories)->GetString("general.architecture").value(), "llama");
  EXPECT_EQ((*stories)->GetStrings("tokenizer.ggml.tokens").value().size(), 512u);
  EXPECT_NE((*stories)->FindTensor("token_embd.weight"), nullptr);
  int num_vocabularies = 0;
  for (const auto& entry : std::filesystem::directory_iterator(model::TestDataPath("vocab"))) {
    if (entry.path().extension() != ".gguf") continue;
    const auto file = GgufFile::Open(entry.path());
    ASSERT_TRUE(file.has_value()) << file.error().ToString();
    EXPECT_TRUE((*file)->tensors().empty());
    EXPECT_GT((*file)->GetStrings("tokenizer.ggml.tokens").value().size(), 30000u);
    ++num_vocabularies;
  }
  EXPECT_EQ(num_vocabularies, 5);
}

}  // namespace
}  // namespace kvgate::modelfile
