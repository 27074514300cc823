// Bounds on the work of a template. They are counts rather than seconds, so the same template is
// refused on every machine. Chosen so that the worst template ends within 100 ms on a slow core.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kvgate::jinja::syntax {

// Limits of parsing.
inline constexpr size_t kSourceBytesMax = size_t{2} << 20;
inline constexpr int kNestingMax = 120;          // nested brackets and blocks
inline constexpr int kExpressionDepthMax = 600;  // a + b + c + … is as deep as it has operands

// Limits of one rendering. A step is an expression, a statement, or moving about 64 bytes or a few
// list elements. Steps and memory grow with the input, so that a long conversation is not refused.
struct Limits {
  int64_t steps_max = 1'500'000;
  int64_t steps_per_input_value = 200;
  size_t memory_bytes_max = size_t{48} << 20;
  size_t memory_per_input_byte = 16;
  int depth_max = 900;        // of evaluation: macros, recursive loops, blocks, expressions
  int value_depth_max = 200;  // nesting of lists that are printed or compared
};

}  // namespace kvgate::jinja::syntax
