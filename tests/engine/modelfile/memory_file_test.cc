#include "engine/modelfile/memory_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <utility>

#include "engine/modelfile/mapped_file.h"

namespace kvgate::modelfile {
namespace {

std::span<const std::byte> BytesOf(const std::string& text) {
  return std::as_bytes(std::span(text));
}

TEST(MemoryFileTest, WhatTakesAPathReadsItsBytes) {
  const std::string text(100'000, 'k');
  auto file = MemoryFile::Make("test", BytesOf(text));
  ASSERT_TRUE(file) << file.error().ToString();
  const auto mapped = MappedFile::Open(file->path());
  ASSERT_TRUE(mapped) << mapped.error().ToString();
  ASSERT_EQ((*mapped)->bytes().size(), text.size());
  EXPECT_EQ(std::memcmp((*mapped)->bytes().data(), text.data(), text.size()), 0);
  const auto identity = (*mapped)->CurrentIdentity();
  ASSERT_TRUE(identity);
  EXPECT_FALSE(MayDiffer((*mapped)->identity(), *identity));
}

TEST(MemoryFileTest, NobodyCanWriteOrCutIt) {
  auto file = MemoryFile::Make("test", BytesOf("whole"));
  ASSERT_TRUE(file) << file.error().ToString();
  const int descriptor = open(file->path().c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor >= 0) {
    EXPECT_EQ(pwrite(descriptor, "x", 1, 0), -1);
    EXPECT_EQ(ftruncate(descriptor, 1), -1);
    EXPECT_EQ(ftruncate(descriptor, 100), -1);
    close(descriptor);
  }
}

TEST(MemoryFileTest, AMappingOutlivesIt) {
  std::unique_ptr<MappedFile> mapped;
  {
    auto made = MemoryFile::Make("test", BytesOf("stays"));
    ASSERT_TRUE(made) << made.error().ToString();
    const MemoryFile file = std::move(*made);
    auto opened = MappedFile::Open(file.path());
    ASSERT_TRUE(opened) << opened.error().ToString();
    mapped = std::move(*opened);
  }
  EXPECT_EQ(std::memcmp(mapped->bytes().data(), "stays", 5), 0);
}

}  // namespace
}  // namespace kvgate::modelfile
