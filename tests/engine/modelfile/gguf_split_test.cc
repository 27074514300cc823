#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "engine/modelfile/gguf.h"
#include "tests/engine/model/full_file.h"
#include "tests/engine/model/test_paths.h"

namespace kvgate::modelfile {
namespace {

using ::testing::HasSubstr;

struct Part {
  uint16_t number = 0;  // as in the file, from 0
  uint16_t count = 3;
  std::vector<std::string> tensors;
  int32_t num_tensors = 4;  // of all parts, as this part claims
};

class GgufSplitTest : public ::testing::Test {
 protected:
  std::filesystem::path Path(int number, int count = 3) const {
    return scratch_ /
           ("m-0000" + std::to_string(number) + "-of-0000" + std::to_string(count) + ".gguf");
  }
  void Write(const std::filesystem::path& path, const Part& part) const {
    GgufWriter writer;
    writer.Add("general.architecture", "part" + std::to_string(part.number));
    writer.Add("split.no", part.number);
    writer.Add("split.count", part.count);
    writer.Add("split.tensors.count", part.num_tensors);
    for (const std::string& name : part.tensors) {
      writer.AddTensor({.name = name, .dimensions = {64, 2}, .type = GgufType::kQ8_0});
    }
    ASSERT_TRUE(writer.Write(path, model::FillPattern).has_value());
  }
  void WriteAll() const {
    Write(Path(1), {.number = 0, .tensors = {"a.0", "b.0"}});
    Write(Path(2), {.number = 1, .tensors = {"c.0"}});
    Write(Path(3), {.number = 2, .tensors = {"d.0"}});
  }
  void ExpectRefused(const std::filesystem::path& path, std::string_view what) const {
    const auto file = GgufFile::Open(path);
    ASSERT_FALSE(file.has_value());
    EXPECT_THAT(file.error().detail, HasSubstr(std::string(what)));
  }

  TempFolder scratch_;
};

TEST_F(GgufSplitTest, PartsAreOneModelWithTheMetadataOfTheFirst) {
  WriteAll();
  const auto file = GgufFile::Open(Path(1));
  ASSERT_TRUE(file.has_value()) << file.error().ToString();
  EXPECT_EQ((*file)->GetString("general.architecture").value(), "part0");
  ASSERT_EQ((*file)->tensors().size(), 4u);
  size_t bytes = 0;
  for (int number = 1; number <= 3; ++number) bytes += std::filesystem::file_size(Path(number));
  EXPECT_EQ((*file)->total_bytes(), bytes);
  for (const std::string name : {"a.0", "b.0", "c.0", "d.0"}) {
    const GgufTensor* tensor = (*file)->FindTensor(name);
    ASSERT_NE(tensor, nullptr) << name;
    EXPECT_EQ(tensor->name, name);
    ASSERT_EQ(tensor->data.size(), 136u);
    EXPECT_EQ(tensor->data[70], model::PatternByte(name, 1, 2));
  }
}

TEST_F(GgufSplitTest, AMissingPartIsNamed) {
  WriteAll();
  std::filesystem::remove(Path(2));
  ExpectRefused(Path(1), "m-00002-of-00003.gguf");
  ExpectRefused(Path(1), "part 2 of 3");
}

TEST_F(GgufSplitTest, APartThatIsNotTheFirstNamesTheFirst) {
  WriteAll();
  ExpectRefused(Path(2), "open the first, " + Path(1).string());
}

TEST_F(GgufSplitTest, APartOfAnotherPlaceOrModelIsNamed) {
  WriteAll();
  Write(Path(3), {.number = 1, .tensors = {"d.0"}});
  ExpectRefused(Path(1), "m-00003-of-00003.gguf: is part 2 of 3");
  Write(Path(3), {.number = 2, .count = 4, .tensors = {"d.0"}});
  ExpectRefused(Path(1), "m-00003-of-00003.gguf: is part 3 of 4");
  Write(Path(3), {.number = 2, .tensors = {"a.0"}});
  ExpectRefused(Path(1), "'a.0' is in two parts");
  Write(Path(3), {.number = 2, .tensors = {}});
  ExpectRefused(Path(1), "3 tensors together");
}

TEST_F(GgufSplitTest, NameAndMetadataMustAgreeOnTheCount) {
  Write(Path(1, 2), {.number = 0, .count = 3, .tensors = {"a.0"}});
  ExpectRefused(Path(1, 2), "has 3 parts by its metadata, and a name that says 2");
  Write(scratch_ / "whole.gguf", {.number = 0, .count = 3, .tensors = {"a.0"}});
  ExpectRefused(scratch_ / "whole.gguf", "NAME-00001-of-00003.gguf");
  Write(Path(1), {.number = 0, .count = 0, .tensors = {"a.0"}});
  ExpectRefused(Path(1), "'split.count' is 0");
  GgufWriter plain;
  ASSERT_TRUE(plain.Write(Path(1), model::FillPattern).has_value());
  ExpectRefused(Path(1), "has 1 parts by its metadata, and a name that says 3");
}

TEST_F(GgufSplitTest, AModelInOnePartIsAModel) {
  Write(Path(1, 1), {.number = 0, .count = 1, .tensors = {"a.0"}, .num_tensors = 1});
  EXPECT_TRUE(GgufFile::Open(Path(1, 1)).has_value());
}

}  // namespace
}  // namespace kvgate::modelfile
