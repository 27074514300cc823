#include "engine/modelfile/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/engine/model/safetensors_bytes.h"
#include "tests/engine/model/test_paths.h"

namespace kvgate::modelfile {

using model::SafetensorsBytes;

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::byte> Bytes(size_t count) { return std::vector<std::byte>(count, std::byte{7}); }

Error ErrorOf(const std::vector<std::byte>& bytes) {
  const auto file = SafetensorsFile::Parse(bytes);
  if (file.has_value()) return MakeError(ErrorCode::kInternal, "test", "the file was read");
  return file.error();
}

// Returns the error of a file whose tensor "w" has this header entry and `data_bytes` of data.
Error ErrorOf(const std::string& entry, size_t data_bytes = 8) {
  return ErrorOf(SafetensorsBytes("{\"w\":" + entry + "}", data_bytes));
}

TEST(SafetensorsTest, TensorsAreReadInTheOrderOfTheirData) {
  const std::string header = R"({"b":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]},)"
                             R"("__metadata__":{"format":"pt"},)"
                             R"("none":{"dtype":"F32","shape":[0,4],"data_offsets":[4,4]},)"
                             R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}   )";
  const std::vector<std::byte> bytes = SafetensorsBytes(header, 16);
  const auto file = SafetensorsFile::Parse(bytes);
  ASSERT_TRUE(file.has_value()) << file.error().ToString();
  EXPECT_EQ((*file)->total_bytes(), bytes.size());
  const auto tensors = (*file)->tensors();
  ASSERT_EQ(tensors.size(), 3u);
  EXPECT_EQ(tensors[0].name, "a");
  EXPECT_THAT(tensors[0].shape, IsEmpty());
  EXPECT_EQ(tensors[0].data.size(), 4u);
  EXPECT_EQ(tensors[1].name, "none");
  EXPECT_EQ(tensors[2].dtype, "BF16");
  EXPECT_THAT(tensors[2].shape, ElementsAre(2, 3));
  EXPECT_EQ(tensors[2].data.data(), bytes.data() + bytes.size() - 12);
}

TEST(SafetensorsTest, EveryCutOfAFileIsAnError) {
  const std::vector<std::byte> whole =
      SafetensorsBytes({{"a", "F16", {2, 2}, Bytes(8)}, {"b", "F32", {3}, Bytes(12)}});
  ASSERT_TRUE(SafetensorsFile::Parse(whole).has_value());
  for (size_t size = 0; size < whole.size(); ++size) {
    const std::vector<std::byte> cut(whole.begin(), whole.begin() + static_cast<long>(size));
    EXPECT_EQ(ErrorOf(cut).code, ErrorCode::kDataLoss) << size;
  }
}

TEST(SafetensorsTest, WhatIsNotTrueOfATensorIsNamed) {
  const auto expect = [](const std::string& entry, const std::string& what) {
    const Error error = ErrorOf(entry);
    EXPECT_EQ(error.code, ErrorCode::kDataLoss) << entry;
    EXPECT_THAT(error.detail, HasSubstr(what)) << entry;
    EXPECT_THAT(error.detail, HasSubstr("'w'")) << entry;
  };
  expect(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})", "8 bytes by its data_offsets");
  expect(R"({"dtype":"F32","shape":[2],"data_offsets":[0,16]})", "within the 8 bytes of data");
  expect(R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})", "within the 8 bytes of data");
  expect(R"({"dtype":"F32","shape":[2],"data_offsets":[0]})", "not a begin and an end");
  expect(R"({"dtype":"F32","shape":[1],"data_offsets":[4,8]})", "leaves a gap");
  expect(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]})", "overflows");
  expect(R"({"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,8]})", "overflows");
  expect(R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})", "a negative number");
  expect(R"({"dtype":"F32","shape":[2.0],"data_offsets":[0,8]})", "a fraction");
  expect(R"({"dtype":"F32","shape":[[2]],"data_offsets":[0,8]})", "an array");
  expect(R"({"dtype":"F32","shape":[1,1,1,1,1,1,1,1,2],"data_offsets":[0,8]})", "too long");
  expect(R"({"dtype":7,"shape":[2],"data_offsets":[0,8]})", "'dtype' is a number");
  expect(R"({"dtype":"F32","shape":"2","data_offsets":[0,8]})", "'shape' is a string");
  expect(R"({"dtype":"F32","dtype":"F16","shape":[2],"data_offsets":[0,8]})", "twice");
  expect(R"({"dtype":"F32","shape":[2],"shape":[2],"data_offsets":[0,8]})", "twice");
  expect(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8],"more":1})", "'more' is not a field");
  expect(R"({"dtype":"F32","shape":[2]})", "lacks its data_offsets");
  expect(R"({"shape":[2],"data_offsets":[0,8]})", "lacks its dtype");
  expect(R"("F32")", "is a string");
  expect(R"(null)", "is a null");
  expect(R"([2])", "is an array");
}

TEST(SafetensorsTest, ADtypeOfUnknownSizeIsNamed) {
  const Error error = ErrorOf(R"({"dtype":"F4","shape":[16],"data_offsets":[0,8]})");
  EXPECT_EQ(error.code, ErrorCode::kUnsupported);
  EXPECT_THAT(error.detail, HasSubstr("tensor 'w' has the unknown dtype 'F4'"));
}

TEST(SafetensorsTest, TensorsThatShareBytesOrLeaveSomeAreRefused) {
  const auto two = [](const std::string& first, const std::string& second) {
    const auto entry = [](const std::string& offsets) {
      return R"({"dtype":"F32","shape":[2],"data_offsets":[)" + offsets + "]}";
    };
    return ErrorOf(
        SafetensorsBytes("{\"a\":" + entry(first) + ",\"b\":" + entry(second) + "}", 20));
  };
  EXPECT_THAT(two("0,8", "4,12").detail, HasSubstr("'b' overlaps"));
  EXPECT_THAT(two("0,8", "12,20").detail, HasSubstr("'b' leaves a gap"));
  EXPECT_THAT(two("0,8", "8,16").detail, HasSubstr("end at byte 16 of the data, which has 20"));
}

TEST(SafetensorsTest, ANameThatAppearsTwiceIsSeen) {
  const std::string entry = R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  EXPECT_THAT(ErrorOf(SafetensorsBytes("{\"w\":" + entry + ",\"w\":" + entry + "}", 4)).detail,
              HasSubstr("tensor 'w' appears twice"));
}

TEST(SafetensorsTest, AHeaderThatIsNoObjectOfObjectsIsRefused) {
  for (const std::string header : {"", "7", "[]", "null", "{", "{\"w\":{}", "{}x", "\"w\"",
                                   "{\"__metadata__\":7}", "{\"__metadata__\":{\"a\":[]}}"}) {
    EXPECT_EQ(ErrorOf(SafetensorsBytes(header, 0)).code, ErrorCode::kDataLoss) << header;
  }
  // Deep nesting costs nothing, because the reader stops at a depth that the format does not have.
  EXPECT_EQ(ErrorOf(SafetensorsBytes(std::string(1 << 20, '['), 0)).code, ErrorCode::kDataLoss);
}

TEST(SafetensorsTest, ALengthBeyondTheFileOrTheLimitCostsAMessageOnly) {
  std::vector<std::byte> bytes = SafetensorsBytes("{}", 0);
  for (const uint64_t length : {uint64_t{3}, uint64_t{1} << 40, ~uint64_t{0}}) {
    std::memcpy(bytes.data(), &length, sizeof(length));
    EXPECT_THAT(ErrorOf(bytes).detail, HasSubstr("the header has " + std::to_string(length)));
  }
}

TEST(SafetensorsTest, AFileIsReadThroughALinkAndAnErrorNamesIt) {
  const TempFolder scratch;
  const std::vector<std::byte> bytes = SafetensorsBytes({{"a", "F16", {4}, Bytes(8)}});
  const auto write = [&](size_t size) {
    std::ofstream(scratch / "blob", std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<long>(size));
  };
  write(bytes.size());
  std::filesystem::create_symlink(scratch / "blob", scratch / "m.safetensors");
  EXPECT_TRUE(SafetensorsFile::Open(scratch / "m.safetensors").has_value());
  write(bytes.size() - 1);
  const auto cut = SafetensorsFile::Open(scratch / "m.safetensors");
  ASSERT_FALSE(cut.has_value());
  EXPECT_THAT(cut.error().detail, HasSubstr("m.safetensors: tensor 'a'"));
  EXPECT_EQ(SafetensorsFile::Open(scratch / "none").error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace kvgate::modelfile
