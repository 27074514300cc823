// Fuzzes data that comes from outside a data directory: files of exported prefixes, and pins. Any
// bytes, in any pieces, give frames or an error; data that the checksum accepts is what was
// written.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "store/kv/kv_format.h"
#include "store/kv/prefix_file.h"
#include "store/meta/pin_format.h"

namespace {

using namespace kvgate;

const Keyring& Ring() {
  static const auto ring = Keyring::Generate();
  return *ring;
}

// Feeds the bytes in pieces of `piece` bytes and counts the frames.
int ReadAll(std::string_view bytes, size_t piece) {
  store::kv::PrefixFileReader reader(Ring());
  int num_frames = 0;
  while (!bytes.empty()) {
    reader.Feed(bytes.substr(0, piece));
    bytes.remove_prefix(std::min(piece, bytes.size()));
    while (true) {
      const auto frame = reader.Next();
      if (!frame) return num_frames;  // an error ends the file
      if (!*frame) break;
      ++num_frames;
    }
  }
  return num_frames;
}

void RoundTrip(std::string_view bytes) {
  store::kv::KvBlock block;
  block.depth = bytes.empty() ? 0 : static_cast<uint8_t>(bytes[0]);
  for (size_t i = 0; i < bytes.size() && i < store::kv::kKvTokensMax; ++i) {
    block.tokens.push_back(static_cast<uint8_t>(bytes[i]));
  }
  const auto* first = reinterpret_cast<const std::byte*>(bytes.data());
  block.payload.assign(first, first + bytes.size());
  std::string file;
  store::kv::PrefixFileWriter writer(Ring());
  writer.Header({.fingerprint = {}, .tenant = std::string(bytes.substr(0, 32)), .num_blocks = 1},
                file);
  writer.Block(block, file);
  writer.End({.num_blocks = 1, .digest = {}}, file);
  if (ReadAll(file, 1 + bytes.size() / 7) != 3) std::abort();
  file[bytes.size() % file.size()] ^= 1;
  if (ReadAll(file, file.size()) == 3) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (ReadAll(bytes, size + 1) != ReadAll(bytes, 1 + size / 3)) std::abort();
  RoundTrip(bytes.substr(0, 4096));
  const size_t key_size = std::min<size_t>(size, 48);
  if (const auto pin =
          store::meta::DecodePin(bytes.substr(0, key_size), bytes.substr(key_size), Ring())) {
    const std::string key = store::kv::EncodeKvKey(pin->leaf);
    const auto again = store::meta::DecodePin(key, store::meta::EncodePin(*pin, Ring()), Ring());
    if (!again || !(*again == *pin)) std::abort();
  }
  return 0;
}
