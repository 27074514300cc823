// TemporaryData is a data directory that its destructor removes, with prefixes put into it as an
// engine would.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/kv/tenant_salt.h"
#include "engine/tier/prefix_transfer.h"
#include "kernels/backend.h"
#include "store/rocks_data_directory.h"
#include "tests/base/temp_folder.h"

namespace kvgate::test {

class TemporaryData {
 public:
  // `secret_env` names the environment variable with its secret; empty: the directory makes its
  // own.
  explicit TemporaryData(std::string secret_env = {}) : secret_env_(std::move(secret_env)) {
    Open();
  }
  void Reopen() {
    directory_.reset();
    Open();
  }
  store::DataDirectory* operator->() { return directory_.get(); }

  // Stores a prefix and returns its id. `text` has one token per byte, as for FakeTokenizer.
  std::string StorePrefix(std::string_view text, const std::string& tenant,
                          Fingerprint fingerprint = {}) {
    const std::vector<TokenId> tokens = TokensOf(text);
    const auto keys =
        tier::PrefixKeys({.fingerprint = fingerprint, .seed = directory_->hash_seed()},
                         kv::TenantSalt(directory_->keyring(), tenant), tokens);
    for (size_t i = 0; i < keys.size(); ++i) {
      const std::vector<std::byte> payload(1000, static_cast<std::byte>(i));
      const store::kv::KvRecord record{
          .key = {.fingerprint = fingerprint, .hash = keys[i].hash},
          .parent = i == 0 ? BlockHash{} : keys[i - 1].hash,
          .depth = static_cast<uint32_t>(i),
          .digest = keys[i].digest,
          .group = 0,
          .shape_tag = 0,
          .tokens = std::span(tokens).subspan(i * kernels::kKvBlockTokens, kernels::kKvBlockTokens),
          .payload = payload};
      EXPECT_TRUE(directory_->kv().Put({&record, 1}));
    }
    return ToHex(keys.back().hash);
  }

  static std::vector<TokenId> TokensOf(std::string_view text) {
    std::vector<TokenId> tokens;
    for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
    return tokens;
  }

 private:
  void Open() {
    auto opened = store::DataDirectory::Open(
        {.directory = folder_.path(),
         .kv_bytes_max = uint64_t{16} << 20,
         .secret_env = secret_env_});
    EXPECT_TRUE(opened) << opened.error().ToString();
    directory_ = std::move(*opened);
  }
  const std::string secret_env_;
  TempFolder folder_;
  std::unique_ptr<store::DataDirectory> directory_;
};

}  // namespace kvgate::test
