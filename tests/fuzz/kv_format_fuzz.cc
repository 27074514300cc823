// Fuzzes the decoders of kv/: any bytes give an entry or an error; a record made from the input is
// accepted, and is refused once any one of its bytes differs.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "store/kv/kv_format.h"

namespace {

using namespace kvgate;  // NOLINT: a program of its own

// Takes fields off the front of the input; yields zeros when it has ended.
class Input {
 public:
  explicit Input(std::string_view bytes) : bytes_(bytes) {}
  template <typename T>
  T Take() {
    T value{};
    const size_t size = std::min(sizeof(T), bytes_.size());
    std::memcpy(&value, bytes_.data(), size);
    bytes_.remove_prefix(size);
    return value;
  }
  std::string_view rest() const { return bytes_; }

 private:
  std::string_view bytes_;
};

void DecodeAsTheyAre(std::string_view bytes) {
  const std::string_view key = bytes.substr(0, store::kv::kKvKeyBytes);
  const std::string_view value = bytes.substr(key.size());
  if (const auto decoded = store::kv::DecodeKvKey(key); decoded) {
    if (store::kv::EncodeKvKey(*decoded) != key) std::abort();
  }
  if (const auto entry = store::kv::DecodeKvIndexEntry(key, value); entry) {
    if (store::kv::EncodeKvIndexEntry(*entry) != value) std::abort();
    (void)store::kv::ProveKvRecord(value, *entry);
  }
  (void)store::kv::ProveKvRecord(bytes, {});
}

void RoundTrip(Input input) {
  store::kv::KvRecord record{
      .key = {.fingerprint = input.Take<Fingerprint>(), .hash = input.Take<BlockHash>()},
      .parent = input.Take<BlockHash>(),
      .depth = input.Take<uint32_t>(),
      .digest = input.Take<PrefixDigest>(),
      .group = input.Take<uint32_t>(),
      .shape_tag = input.Take<uint32_t>(),
      .payload = {}};
  std::vector<TokenId> tokens(input.Take<uint8_t>() % (store::kv::kKvTokensMax + 1));
  for (TokenId& token : tokens) token = input.Take<TokenId>();
  record.tokens = tokens;
  const auto damage_at = input.Take<uint32_t>();
  const auto damage = static_cast<char>(input.Take<uint8_t>() | 1);
  const std::string_view rest = input.rest();
  record.payload = {reinterpret_cast<const std::byte*>(rest.data()), rest.size()};
  const store::kv::KvIndexEntry entry{.key = record.key,
                                      .parent = record.parent,
                                      .depth = record.depth,
                                      .digest = record.digest,
                                      .group = record.group,
                                      .shape_tag = record.shape_tag,
                                      .payload_bytes = rest.size()};
  std::string bytes;
  store::kv::EncodeKvRecord(record, bytes);
  const auto proved = store::kv::ProveKvRecord(bytes, entry);
  if (!proved || !std::ranges::equal(proved->payload, record.payload) ||
      store::kv::DecodeTokens(proved->token_bytes) != tokens) {
    std::abort();
  }
  std::string value = store::kv::EncodeKvIndexEntry(entry);
  const std::string key = store::kv::EncodeKvKey(entry.key);
  if (store::kv::DecodeKvIndexEntry(key, value) != entry) std::abort();
  bytes[damage_at % bytes.size()] ^= damage;
  if (store::kv::ProveKvRecord(bytes, entry)) std::abort();
  value[damage_at % value.size()] ^= damage;
  if (store::kv::DecodeKvIndexEntry(key, value)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  DecodeAsTheyAre(bytes);
  RoundTrip(Input(bytes));
  return 0;
}
