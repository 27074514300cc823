// The blocks of the quantized weight formats as they lie in a GGUF file (little-endian, unaligned).
// Q8_0 and Q4_0, which KV uses too, stand in kernels/dtype.h. What the fields mean: quant_parts.h.
// Source: the layouts of ggml, which defines the formats.
#pragma once

#include <cstdint>

namespace kvgate::kernels {

// Formats of 32 elements. Nibbles: low half of quants[j] is element j, high half element j + 16.

struct QuantBlockQ4_1 {
  uint16_t scale;  // f16 bits, as the next
  uint16_t min;
  uint8_t quants[16];
};
static_assert(sizeof(QuantBlockQ4_1) == 20);

struct QuantBlockQ5_0 {
  uint16_t scale;
  uint8_t high_bits[4];  // bit i of the little-endian number: bit 4 of element i
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

// Formats of 256 elements: groups of 16 or 32 have a scale of few bits (and a min) of their own.
// `i` is an element, i % 32 its place among 32.

struct QuantBlockQ2_K {
  uint8_t scales[16];  // of 16 elements: low half scale, high half min
  uint8_t quants[64];  // 2 bits: byte 32 * (i / 128) + i % 32, at bit 2 * (i / 32 % 4)
  uint16_t scale;
  uint16_t min;
};
static_assert(sizeof(QuantBlockQ2_K) == 84);

struct QuantBlockQ3_K {
  uint8_t high_bits[32];  // byte i % 32, bit i / 32: bit 2 of element i
  uint8_t quants[64];     // the lower two, as in Q2_K
  uint8_t scales[12];     // of 16 elements, 6 bits each: 4 in the first 8 bytes, 2 in the last 4
  uint16_t scale;
};
static_assert(sizeof(QuantBlockQ3_K) == 110);

struct QuantBlockQ4_K {
  uint16_t scale;
  uint16_t min;
  uint8_t scales[12];   // of 32 elements: 6 bits of scale and 6 of min
  uint8_t quants[128];  // nibbles: byte 32 * (i / 64) + i % 32, half i / 32 % 2
};
static_assert(sizeof(QuantBlockQ4_K) == 144);

struct QuantBlockQ5_K {
  uint16_t scale;
  uint16_t min;
  uint8_t scales[12];     // as in Q4_K
  uint8_t high_bits[32];  // byte i % 32, bit i / 32: bit 4 of element i
  uint8_t quants[128];    // as in Q4_K
};
static_assert(sizeof(QuantBlockQ5_K) == 176);

struct QuantBlockQ6_K {
  uint8_t quants[128];    // nibbles: byte 64 * (i / 128) + i % 64, half i / 64 % 2
  uint8_t high_bits[64];  // 2 bits: byte 32 * (i / 128) + i % 32, at bit 2 * (i / 32 % 4)
  int8_t scales[16];      // of 16 elements
  uint16_t scale;
};
static_assert(sizeof(QuantBlockQ6_K) == 210);

struct QuantBlockIQ4_XS {
  uint16_t scale;
  uint16_t scales_high;   // 2 bits for each 32 elements
  uint8_t scales_low[4];  // 4 bits for each
  uint8_t quants[128];    // 16 bytes for each 32 elements, nibbles as in Q4_0
};
static_assert(sizeof(QuantBlockIQ4_XS) == 136);

}  // namespace kvgate::kernels
