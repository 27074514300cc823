// Fuzzes the decoders of the turn store's rows: any bytes give a row or none, and a decoded row
// survives another encoding and decoding. A turn made from the input comes back unchanged, and is
// refused once any one of its bytes differs.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "base/digest.h"
#include "store/file/byte_codec.h"
#include "store/meta/turn_format.h"

namespace {

using namespace kvgate;  // NOLINT: a program of its own

const Keyring& Ring() {
  static const auto ring = Keyring::Generate();
  return *ring;
}

void Demand(bool holds) {
  if (!holds) std::abort();
}

// Rows of fixed fields map one to one to their bytes.
template <typename Decode, typename Encode>
void SameBytes(std::string_view bytes, Decode decode, Encode encode) {
  if (const auto row = decode(bytes)) Demand(encode(*row) == bytes);
}

void DecodeAsTheyAre(std::string_view bytes) {
  SameBytes(bytes, store::meta::DecodePlace, store::meta::EncodePlace);
  SameBytes(bytes, store::meta::DecodeConversation, store::meta::EncodeConversation);
  SameBytes(bytes, store::meta::DecodeTotals, store::meta::EncodeTotals);
  SameBytes(bytes, store::meta::DecodeAge, store::meta::EncodeAge);
  if (const auto member = store::meta::DecodeMember(bytes)) {
    // Any flag except 0 means that there is a digest; without one the digest's bytes are ignored.
    const std::string encoded = store::meta::EncodeMember(*member);
    const auto again = store::meta::DecodeMember(encoded);
    Demand(encoded.size() == bytes.size() && again && store::meta::EncodeMember(*again) == encoded);
  }
  const std::string_view key = bytes.substr(0, store::meta::TurnKey(1).size());
  (void)store::meta::DecodeTurn(key, bytes.substr(key.size()), Ring());
}

// Adds a correct checksum, to reach what it would let through: a writer's own mistakes, and rows of
// another version.
void DecodeWithChecksum(std::string_view bytes) {
  const std::string key = store::meta::TurnKey(9);
  std::string value;
  store::file::AppendValue(
      value, Xxh3(store::file::AsBytes(bytes), Xxh3(store::file::AsBytes(key)).first).first);
  value += bytes;
  const auto decoded = store::meta::DecodeTurn(key, value, Ring());
  if (!decoded) return;
  const std::string encoded = store::meta::EncodeTurn(decoded->record, Ring());
  const auto again = store::meta::DecodeTurn(key, encoded, Ring());
  Demand(again && again->record.turn == decoded->record.turn);
}

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
  std::string Text() {
    const size_t size = Take<uint8_t>();
    const std::string_view part = bytes_.substr(0, size);
    bytes_.remove_prefix(part.size());
    return std::string(part);
  }
  bool empty() const { return bytes_.empty(); }

 private:
  std::string_view bytes_;
};

void RoundTrip(Input input) {
  store::meta::TurnRecord record;
  store::meta::Turn& turn = record.turn;
  const auto damage_at = input.Take<uint32_t>();
  const auto damage = static_cast<char>(input.Take<uint8_t>() | 1);
  turn.order = std::max<uint64_t>(input.Take<uint64_t>(), 1);
  record.parent_order = input.Take<uint64_t>() % turn.order;
  record.conversation = input.Take<uint64_t>();
  turn.created_us = input.Take<int64_t>();
  turn.tokens = {.input = input.Take<int64_t>(), .cached = input.Take<int64_t>()};
  if (input.Take<uint8_t>() % 2 == 1) turn.content = input.Take<PrefixDigest>();
  for (std::string* text : {&turn.id, &turn.parent, &turn.tenant, &turn.session}) {
    *text = input.Text();
  }
  while (!input.empty()) {
    std::string role = input.Text();
    turn.items.push_back({.role = std::move(role), .payload = input.Text()});
  }
  const std::string key = store::meta::TurnKey(turn.order);
  std::string value = store::meta::EncodeTurn(record, Ring());
  const auto decoded = store::meta::DecodeTurn(key, value, Ring());
  Demand(decoded && decoded->record.turn == turn &&
         decoded->record.parent_order == record.parent_order &&
         decoded->record.conversation == record.conversation);
  const store::meta::TurnMember member =
      store::meta::MemberOf(turn, store::meta::TurnNames(Ring()), value.size());
  Demand(store::meta::DecodeMember(store::meta::EncodeMember(member)) == member);
  Demand(!store::meta::DecodeTurn(store::meta::TurnKey(turn.order + 1), value, Ring()));
  value[damage_at % value.size()] ^= damage;
  Demand(!store::meta::DecodeTurn(key, value, Ring()));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  DecodeAsTheyAre(bytes);
  DecodeWithChecksum(bytes);
  RoundTrip(Input(bytes));
  return 0;
}
