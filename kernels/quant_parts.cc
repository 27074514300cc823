#include "kernels/quant_parts.h"

#include <bit>
#include <cstring>

#include "base/check.h"
#include "kernels/quant_blocks.h"

namespace kvgate::kernels {

namespace {

constexpr int kHalf = 16;  // bytes that hold 32 nibbles

// ---- codes ----------------------------------------------------------------------------------

// Codes are handled eight at a time, one per byte of a word, because loading a model unpacks all of
// it.
constexpr uint64_t kEachByte = 0x0101'0101'0101'0101u;
constexpr int kAtOnce = sizeof(uint64_t);
static_assert(std::endian::native == std::endian::little, "the first code is the lowest byte");

uint64_t LoadEight(const uint8_t* from) {
  uint64_t eight = 0;
  std::memcpy(&eight, from, sizeof(eight));
  return eight;
}

void StoreEight(uint64_t eight, uint8_t* to) { std::memcpy(to, &eight, sizeof(eight)); }

// Takes 32 codes of 4 bits: element j is the low half of byte j, element j + 16 the high half.
void TakeNibbles(const uint8_t* quants, uint8_t* codes) {
  for (int j = 0; j < kHalf; j += kAtOnce) {
    const uint64_t eight = LoadEight(quants + j);
    StoreEight(eight & 15 * kEachByte, codes + j);
    StoreEight(eight >> 4 & 15 * kEachByte, codes + j + kHalf);
  }
}

void PutNibbles(const uint8_t* codes, uint8_t* quants) {
  for (int j = 0; j < kHalf; ++j) {
    quants[j] = static_cast<uint8_t>((codes[j] & 15) | (codes[j + kHalf] & 15) << 4);
  }
}

// Sets bit 4 of 32 codes: bit i of `bits` belongs to element i.
void TakeFifthBits(const uint8_t* bits, uint8_t* codes) {
  for (int i = 0; i < 32; i += kAtOnce) {
    // Byte j keeps only bit j; adding 127 carries it to bit 7 of the byte, whatever its position.
    const uint64_t own = bits[i / 8] * kEachByte & 0x8040'2010'0804'0201u;
    const uint64_t fifth = (own + 0x7f * kEachByte) >> 3 & 0x10 * kEachByte;
    StoreEight(LoadEight(codes + i) | fifth, codes + i);
  }
}

void PutFifthBits(const uint8_t* codes, uint8_t* bits) {
  for (int i = 0; i < 32; ++i) bits[i / 8] |= static_cast<uint8_t>((codes[i] >> 4 & 1) << i % 8);
}

// The place of some bits of element i in a block of 256.
struct Place {
  int byte;
  int shift;
};
// Two bits each: 128 elements in 32 bytes.
Place TwoBits(int i) { return {.byte = i / 128 * 32 + i % 32, .shift = i / 32 % 4 * 2}; }
// One bit each: all elements in 32 bytes.
Place OneBit(int i) { return {.byte = i % 32, .shift = i / 32}; }
// Nibbles: 64 elements in 32 bytes (Q4_K, Q5_K), or 128 in 64 (Q6_K).
Place NibbleOf64(int i) { return {.byte = i / 64 * 32 + i % 32, .shift = i / 32 % 2 * 4}; }
Place NibbleOf128(int i) { return {.byte = i / 128 * 64 + i % 64, .shift = i / 64 % 2 * 4}; }

// Reads `bits` bits of every code into the code's bits from `at` on; the call for the low bits
// comes first. 32 elements lie in 32 adjacent bytes.
template <Place (*kPlace)(int)>
void TakeBits(const uint8_t* from, int bits, int at, QuantParts* parts) {
  const uint64_t mask = ((uint64_t{1} << bits) - 1) * kEachByte;
  for (int begin = 0; begin < kQuantElementsMax; begin += 32) {
    const Place place = kPlace(begin);
    uint8_t* codes = parts->codes.data() + begin;
    for (int i = 0; i < 32; i += kAtOnce) {
      const uint64_t taken = LoadEight(from + place.byte + i) >> place.shift & mask;
      StoreEight(at == 0 ? taken : LoadEight(codes + i) | taken << at, codes + i);
    }
  }
}

template <Place (*kPlace)(int)>
void PutBits(const QuantParts& parts, int bits, int at, uint8_t* to) {
  const int mask = (1 << bits) - 1;
  for (int i = 0; i < kQuantElementsMax; ++i) {
    const Place place = kPlace(i);
    to[place.byte] |= static_cast<uint8_t>((parts.codes[i] >> at & mask) << place.shift);
  }
}

// ---- scales of groups -----------------------------------------------------------------------

// Q4_K and Q5_K: the first four scales and mins fill the low 6 bits of bytes 0..7. The low nibbles
// of the other four are in bytes 8..11, and their upper two bits above the first four.
void TakeScalesAndMins(const uint8_t* scales, QuantParts* parts) {
  for (int g = 0; g < 4; ++g) {
    parts->group_scales[g] = scales[g] & 63;
    parts->group_mins[g] = scales[g + 4] & 63;
    parts->group_scales[g + 4] = static_cast<int16_t>((scales[g + 8] & 15) | scales[g] >> 6 << 4);
    parts->group_mins[g + 4] = static_cast<uint8_t>(scales[g + 8] >> 4 | scales[g + 4] >> 6 << 4);
  }
}

void PutScalesAndMins(const QuantParts& parts, uint8_t* scales) {
  for (int g = 0; g < 4; ++g) {
    const int scale = parts.group_scales[g + 4];
    const int min = parts.group_mins[g + 4];
    scales[g] = static_cast<uint8_t>(parts.group_scales[g] | scale >> 4 << 6);
    scales[g + 4] = static_cast<uint8_t>(parts.group_mins[g] | min >> 4 << 6);
    scales[g + 8] = static_cast<uint8_t>((scale & 15) | (min & 15) << 4);
  }
}

constexpr int kSixBitBias = 32;  // added to the scales of Q3_K and IQ4_XS

// ---- formats --------------------------------------------------------------------------------

void Unpack(const QuantBlockQ4_0& block, QuantParts* parts) {
  parts->scale = block.scale;
  TakeNibbles(block.quants, parts->codes.data());
}
void Pack(const QuantParts& parts, QuantBlockQ4_0* block) {
  block->scale = parts.scale;
  PutNibbles(parts.codes.data(), block->quants);
}

void Unpack(const QuantBlockQ4_1& block, QuantParts* parts) {
  parts->scale = block.scale;
  parts->min = block.min;
  TakeNibbles(block.quants, parts->codes.data());
}
void Pack(const QuantParts& parts, QuantBlockQ4_1* block) {
  block->scale = parts.scale;
  block->min = parts.min;
  PutNibbles(parts.codes.data(), block->quants);
}

void Unpack(const QuantBlockQ5_0& block, QuantParts* parts) {
  parts->scale = block.scale;
  TakeNibbles(block.quants, parts->codes.data());
  TakeFifthBits(block.high_bits, parts->codes.data());
}
void Pack(const QuantParts& parts, QuantBlockQ5_0* block) {
  block->scale = parts.scale;
  PutNibbles(parts.codes.data(), block->quants);
  PutFifthBits(parts.codes.data(), block->high_bits);
}

void Unpack(const QuantBlockQ5_1& block, QuantParts* parts) {
  parts->scale = block.scale;
  parts->min = block.min;
  TakeNibbles(block.quants, parts->codes.data());
  TakeFifthBits(block.high_bits, parts->codes.data());
}
void Pack(const QuantParts& parts, QuantBlockQ5_1* block) {
  block->scale = parts.scale;
  block->min = parts.min;
  PutNibbles(parts.codes.data(), block->quants);
  PutFifthBits(parts.codes.data(), block->high_bits);
}

void Unpack(const QuantBlockQ2_K& block, QuantParts* parts) {
  parts->scale = block.scale;
  parts->min = block.min;
  for (int g = 0; g < 16; ++g) {
    parts->group_scales[g] = block.scales[g] & 15;
    parts->group_mins[g] = block.scales[g] >> 4;
  }
  TakeBits<TwoBits>(block.quants, 2, 0, parts);
}
void Pack(const QuantParts& parts, QuantBlockQ2_K* block) {
  block->scale = parts.scale;
  block->min = parts.min;
  for (int g = 0; g < 16; ++g) {
    block->scales[g] = static_cast<uint8_t>(parts.group_scales[g] | parts.group_mins[g] << 4);
  }
  PutBits<TwoBits>(parts, 2, 0, block->quants);
}

void Unpack(const QuantBlockQ3_K& block, QuantParts* parts) {
  parts->scale = block.scale;
  for (int g = 0; g < 16; ++g) {
    const int low = block.scales[g % 8] >> g / 8 * 4 & 15;
    const int high = block.scales[8 + g % 4] >> g / 4 * 2 & 3;
    parts->group_scales[g] = static_cast<int16_t>((low | high << 4) - kSixBitBias);
  }
  TakeBits<TwoBits>(block.quants, 2, 0, parts);
  TakeBits<OneBit>(block.high_bits, 1, 2, parts);
}
void Pack(const QuantParts& parts, QuantBlockQ3_K* block) {
  block->scale = parts.scale;
  for (int g = 0; g < 16; ++g) {
    const int scale = parts.group_scales[g] + kSixBitBias;
    block->scales[g % 8] |= static_cast<uint8_t>((scale & 15) << g / 8 * 4);
    block->scales[8 + g % 4] |= static_cast<uint8_t>(scale >> 4 << g / 4 * 2);
  }
  PutBits<TwoBits>(parts, 2, 0, block->quants);
  PutBits<OneBit>(parts, 1, 2, block->high_bits);
}

void Unpack(const QuantBlockQ4_K& block, QuantParts* parts) {
  parts->scale = block.scale;
  parts->min = block.min;
  TakeScalesAndMins(block.scales, parts);
  TakeBits<NibbleOf64>(block.quants, 4, 0, parts);
}
void Pack(const QuantParts& parts, QuantBlockQ4_K* block) {
  block->scale = parts.scale;
  block->min = parts.min;
  PutScalesAndMins(parts, block->scales);
  PutBits<NibbleOf64>(parts, 4, 0, block->quants);
}

void Unpack(const QuantBlockQ5_K& block, QuantParts* parts) {
  parts->scale = block.scale;
  parts->min = block.min;
  TakeScalesAndMins(block.scales, parts);
  TakeBits<NibbleOf64>(block.quants, 4, 0, parts);
  TakeBits<OneBit>(block.high_bits, 1, 4, parts);
}
void Pack(const QuantParts& parts, QuantBlockQ5_K* block) {
  block->scale = parts.scale;
  block->min = parts.min;
  PutScalesAndMins(parts, block->scales);
  PutBits<NibbleOf64>(parts, 4, 0, block->quants);
  PutBits<OneBit>(parts, 1, 4, block->high_bits);
}

void Unpack(const QuantBlockQ6_K& block, QuantParts* parts) {
  parts->scale = block.scale;
  for (int g = 0; g < 16; ++g) parts->group_scales[g] = block.scales[g];
  TakeBits<NibbleOf128>(block.quants, 4, 0, parts);
  TakeBits<TwoBits>(block.high_bits, 2, 4, parts);
}
void Pack(const QuantParts& parts, QuantBlockQ6_K* block) {
  block->scale = parts.scale;
  for (int g = 0; g < 16; ++g) block->scales[g] = static_cast<int8_t>(parts.group_scales[g]);
  PutBits<NibbleOf128>(parts, 4, 0, block->quants);
  PutBits<TwoBits>(parts, 2, 4, block->high_bits);
}

void Unpack(const QuantBlockIQ4_NL& block, QuantParts* parts) {
  parts->scale = block.scale;
  TakeNibbles(block.quants, parts->codes.data());
}
void Pack(const QuantParts& parts, QuantBlockIQ4_NL* block) {
  block->scale = parts.scale;
  PutNibbles(parts.codes.data(), block->quants);
}

void Unpack(const QuantBlockIQ4_XS& block, QuantParts* parts) {
  parts->scale = block.scale;
  for (int g = 0; g < 8; ++g) {
    const int low = block.scales_low[g / 2] >> g % 2 * 4 & 15;
    const int high = block.scales_high >> 2 * g & 3;
    parts->group_scales[g] = static_cast<int16_t>((low | high << 4) - kSixBitBias);
    TakeNibbles(block.quants + g * kHalf, parts->codes.data() + g * 32);
  }
}
void Pack(const QuantParts& parts, QuantBlockIQ4_XS* block) {
  block->scale = parts.scale;
  for (int g = 0; g < 8; ++g) {
    const int scale = parts.group_scales[g] + kSixBitBias;
    block->scales_low[g / 2] |= static_cast<uint8_t>((scale & 15) << g % 2 * 4);
    block->scales_high = static_cast<uint16_t>(block->scales_high | scale >> 4 << 2 * g);
    PutNibbles(parts.codes.data() + g * 32, block->quants + g * kHalf);
  }
}

void Unpack(const QuantBlockMXFP4& block, QuantParts* parts) {
  parts->scale = block.exponent;
  TakeNibbles(block.quants, parts->codes.data());
}
void Pack(const QuantParts& parts, QuantBlockMXFP4* block) {
  block->exponent = static_cast<uint8_t>(parts.scale);
  PutNibbles(parts.codes.data(), block->quants);
}

// ---- table ----------------------------------------------------------------------------------

struct Entry {
  void (*unpack)(const std::byte* block, QuantParts* parts);
  void (*pack)(const QuantParts& parts, std::byte* block);
};

template <typename Block>
constexpr Entry EntryOf() {
  return {.unpack =
              [](const std::byte* bytes, QuantParts* parts) {
                Block block;
                std::memcpy(&block, bytes, sizeof(block));
                Unpack(block, parts);
              },
          .pack =
              [](const QuantParts& parts, std::byte* bytes) {
                Block block{};
                Pack(parts, &block);
                std::memcpy(bytes, &block, sizeof(block));
              }};
}

// In the order of DType, starting with kQ4_0.
constexpr Entry kEntries[] = {
    EntryOf<QuantBlockQ4_0>(),   EntryOf<QuantBlockQ4_1>(),   EntryOf<QuantBlockQ5_0>(),
    EntryOf<QuantBlockQ5_1>(),   EntryOf<QuantBlockQ2_K>(),   EntryOf<QuantBlockQ3_K>(),
    EntryOf<QuantBlockQ4_K>(),   EntryOf<QuantBlockQ5_K>(),   EntryOf<QuantBlockQ6_K>(),
    EntryOf<QuantBlockIQ4_NL>(), EntryOf<QuantBlockIQ4_XS>(), EntryOf<QuantBlockMXFP4>(),
};

const Entry& FindEntry(DType dtype) {
  KVGATE_CHECK(HasQuantLayout(dtype), "a dtype without quant blocks");
  return kEntries[static_cast<size_t>(dtype) - static_cast<size_t>(DType::kQ4_0)];
}

}  // namespace

void UnpackBlock(DType dtype, const std::byte* block, QuantParts* parts) {
  FindEntry(dtype).unpack(block, parts);
}

void PackBlock(DType dtype, const QuantParts& parts, std::byte* block) {
  FindEntry(dtype).pack(parts, block);
}

float ExponentScale(uint8_t exponent) {
  const uint32_t bits = exponent < 2 ? 0x00200000u << exponent : (exponent - 1u) << 23;
  return std::bit_cast<float>(bits);
}

}  // namespace kvgate::kernels
