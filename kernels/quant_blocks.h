// The blocks of the quantized weight formats as stored in a GGUF file (little-endian, unaligned).
// Q8_0 and Q4_0, which KV uses too, are in kernels/dtype.h; quant_parts.h defines the fields'
// meaning.
// Source: the layouts of ggml, which defines the formats.
#pragma once

#include <cstdint>

namespace kvgate::kernels {

// Formats with 32 elements. The low half of quants[j] is element j, the high half element j + 16.

struct QuantBlockQ4_1 {
  uint16_t scale;  // f16 bits, like the next
  uint16_t min;
  uint8_t quants[16];
};
static_assert(sizeof(QuantBlockQ4_1) == 20);

struct QuantBlockQ5_0 {
  uint16_t scale;
  uint8_t high_bits[4];  // bit i of this little-endian number is bit 4 of element i
  uint8_t quants[16];
};
static_assert(sizeof(QuantBlockQ5_0) == 22);

struct QuantBlockQ5_1 {
  uint16_t scale;
  uint16_t min;
  uint8_t high_bits[4];
  uint8_t quants[16];
};
static_assert(sizeof(QuantBlockQ5_1) == 24);

struct QuantBlockIQ4_NL {
  uint16_t scale;
  uint8_t quants[16];
};
static_assert(sizeof(QuantBlockIQ4_NL) == 18);

struct QuantBlockMXFP4 {
  uint8_t exponent;  // E8M0
  uint8_t quants[16];
};
static_assert(sizeof(QuantBlockMXFP4) == 17);

// Formats with 256 elements: groups of 16 or 32 have their own scale (and min) of a few bits. `i`
// is an element, i % 32 its place among 32.

struct QuantBlockQ2_K {
  uint8_t scales[16];  // per 16 elements: low half scale, high half min
  uint8_t quants[64];  // 2 bits each: byte 32 * (i / 128) + i % 32, at bit 2 * (i / 32 % 4)
  uint16_t scale;
  uint16_t min;
};
static_assert(sizeof(QuantBlockQ2_K) == 84);

struct QuantBlockQ3_K {
  uint8_t high_bits[32];  // byte i % 32, bit i / 32 is bit 2 of element i
  uint8_t quants[64];     // the lower two bits, as in Q2_K
  uint8_t scales[12];     // per 16 elements, 6 bits each: 4 in the first 8 bytes, 2 in the last 4
  uint16_t scale;
};
static_assert(sizeof(QuantBlockQ3_K) == 110);

struct QuantBlockQ4_K {
  uint16_t scale;
  uint16_t min;
  uint8_t scales[12];   // per 32 elements: 6 bits of scale and 6 of min
  uint8_t quants[128];  // nibbles: byte 32 * (i / 64) + i % 32, half i / 32 % 2
};
static_assert(sizeof(QuantBlockQ4_K) == 144);

struct QuantBlockQ5_K {
  uint16_t scale;
  uint16_t min;
  uint8_t scales[12];     // as in Q4_K
  uint8_t high_bits[32];  // byte i % 32, bit i / 32 is bit 4 of element i
  uint8_t quants[128];    // as in Q4_K
};
static_assert(sizeof(QuantBlockQ5_K) == 176);

struct QuantBlockQ6_K {
  uint8_t quants[128];    // nibbles: byte 64 * (i / 128) + i % 64, half i / 64 % 2
  uint8_t high_bits[64];  // 2 bits each: byte 32 * (i / 128) + i % 32, at bit 2 * (i / 32 % 4)
  int8_t scales[16];      // per 16 elements
  uint16_t scale;
};
static_assert(sizeof(QuantBlockQ6_K) == 210);

struct QuantBlockIQ4_XS {
  uint16_t scale;
  uint16_t scales_high;   // 2 bits per 32 elements
  uint8_t scales_low[4];  // 4 bits per 32 elements
  uint8_t quants[128];    // 16 bytes per 32 elements, nibbles as in Q4_0
};
static_assert(sizeof(QuantBlockIQ4_XS) == 136);

}  // namespace kvgate::kernels
