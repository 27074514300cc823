// Shared by the tests of store/: temporary directories, chains of blocks, tools for faults.
#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/digest.h"
#include "store/kv/kv_store.h"
#include "tests/base/temp_folder.h"
#include "tests/base/temp_folder.h"

namespace kvgate::store {

// A block whose bytes are derived from its key, so that any process can recognise wrong ones.
struct Block {
  kv::KvKey key;
  BlockHash parent;
  uint32_t depth = 0;
  PrefixDigest digest;
  std::vector<std::byte> payload;

  kv::KvRecord Record() const {
    return {.key = key,
            .parent = parent,
            .depth = depth,
            .digest = digest,
            .group = 0,
            .shape_tag = 7,
            .payload = payload};
  }
  kv::KvLookup Lookup(std::span<std::byte> into) const {
    return {.key = key, .digest = digest, .group = 0, .shape_tag = 7, .payload = into};
  }
};

inline Block MakeBlock(uint64_t chain, uint32_t depth, size_t bytes) {
  const auto id = [&](uint32_t at) {
    const uint64_t words[2] = {chain, at};
    const auto [low, high] = Xxh3(std::as_bytes(std::span(words)));
    return BlockHash{low, high};
  };
  Block block{.key = {Fingerprint{11, 22}, id(depth)},
              .parent = depth == 0 ? BlockHash{} : id(depth - 1),
              .depth = depth,
              .digest = {},
              .payload = std::vector<std::byte>(bytes)};
  std::memcpy(block.digest.bytes.data(), &block.key.hash, 16);
  std::mt19937_64 random(block.key.hash.low);
  for (size_t at = 0; at + 8 <= bytes; at += 8) {
    const uint64_t word = random();
    std::memcpy(block.payload.data() + at, &word, 8);
  }
  return block;
}

inline std::vector<Block> MakeChain(uint64_t chain, uint32_t num_blocks, size_t bytes) {
  std::vector<Block> blocks;
  for (uint32_t depth = 0; depth < num_blocks; ++depth) {
    blocks.push_back(MakeBlock(chain, depth, bytes));
  }
  return blocks;
}

inline std::vector<kv::KvRecord> Records(const std::vector<Block>& blocks) {
  std::vector<kv::KvRecord> records;
  for (const Block& block : blocks) records.push_back(block.Record());
  return records;
}

enum class Found { kRight, kMissing, kDamaged };

// Reads the block; the test fails if a byte is wrong.
inline Found Read(kv::KvStore& store, const Block& block) {
  std::vector<std::byte> payload(block.payload.size(), std::byte{0xee});
  const auto got = store.Get(block.Lookup(payload));
  if (got) {
    EXPECT_TRUE(payload == block.payload) << "a wrong byte was served";
    return Found::kRight;
  }
  EXPECT_TRUE(got.error().code == ErrorCode::kNotFound || got.error().code == ErrorCode::kDataLoss)
      << got.error().ToString();
  return got.error().code == ErrorCode::kNotFound ? Found::kMissing : Found::kDamaged;
}

inline std::map<std::filesystem::path, uint64_t> FileSizes(const std::filesystem::path& path) {
  std::map<std::filesystem::path, uint64_t> sizes;
  std::error_code error;
  std::filesystem::directory_iterator file(path, error);
  for (; !error && file != std::filesystem::directory_iterator(); file.increment(error)) {
    std::error_code gone;
    const uint64_t bytes = file->file_size(gone);
    if (!gone) sizes.emplace(file->path(), bytes);
  }
  return sizes;
}

inline uint64_t DirectoryBytes(const std::filesystem::path& path) {
  uint64_t total = 0;
  for (const auto& [file, bytes] : FileSizes(path)) total += bytes;
  return total;
}

// Returns the total size of files that existed at the same moment. A single listing of a changing
// directory may include a file that was removed before another was created; files that are in two
// listings existed together between them.
inline uint64_t DirectoryBytesAtOnce(const std::filesystem::path& path) {
  const auto before = FileSizes(path);
  const auto after = FileSizes(path);
  uint64_t total = 0;
  for (const auto& [file, bytes] : before) {
    if (after.contains(file)) total += bytes;
  }
  return total;
}

inline std::vector<std::filesystem::path> FilesWith(const std::filesystem::path& directory,
                                                    std::string_view part) {
  std::vector<std::filesystem::path> files;
  for (const auto& file : std::filesystem::directory_iterator(directory)) {
    if (file.path().filename().string().find(part) != std::string::npos) {
      files.push_back(file.path());
    }
  }
  return files;
}

inline void FlipByte(const std::filesystem::path& path, uint64_t at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(at));
  const char byte = static_cast<char>(file.get() ^ 0x10);
  file.seekp(static_cast<std::streamoff>(at));
  file.put(byte);
}

// A disk that fails: while this object lives, no file of this process can grow beyond `bytes`
// (EFBIG).
class FailingDisk {
 public:
  explicit FailingDisk(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limited{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limited);
  }
  ~FailingDisk() { ::setrlimit(RLIMIT_FSIZE, &before_); }
  FailingDisk(const FailingDisk&) = delete;
  FailingDisk& operator=(const FailingDisk&) = delete;

 private:
  rlimit before_{};
};

// The variable that tells a test run by ChildProcess its directory.
inline constexpr const char* kChildVariable = "KVGATE_STORE_TEST_CHILD";

// Runs this program with only the test `filter` on `directory`. It does not fork, because RocksDB's
// threads would be missing in the child.
class ChildProcess {
 public:
  ChildProcess(const char* filter, const std::filesystem::path& directory) {
    std::vector<std::string> variables{std::string(kChildVariable) + "=" + directory.string()};
    for (char** variable = environ; *variable != nullptr; ++variable) {
      if (!std::string_view(*variable).starts_with("GTEST_")) variables.emplace_back(*variable);
    }
    std::vector<char*> environment;
    for (std::string& variable : variables) environment.push_back(variable.data());
    environment.push_back(nullptr);
    std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
    std::string chosen = std::string("--gtest_filter=") + filter;
    char* arguments[] = {program.data(), chosen.data(), nullptr};
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    const int spawned =
        ::posix_spawn(&pid_, program.c_str(), &actions, nullptr, arguments, environment.data());
    ::posix_spawn_file_actions_destroy(&actions);
    EXPECT_EQ(spawned, 0);
  }
  ~ChildProcess() { Kill(); }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  void Kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  // Waits until the child ends by itself; returns its status as waitpid does.
  int Wait() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return status;
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
};

}  // namespace kvgate::store
