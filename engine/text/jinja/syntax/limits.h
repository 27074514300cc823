// Bounds on what a template may ask for. They are counts, not seconds: what is refused does not
// depend on the machine. Set so that the worst template ends within 100 ms on a slow core.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kvgate::jinja {

// Of parsing.
inline constexpr size_t kSourceBytesMax = size_t{2} << 20;
inline constexpr int kNestingMax = 120;          // brackets and blocks within each other
inline constexpr int kExpressionDepthMax = 600;  // a + b + c + … is as deep as it has operands

// Of one rendering. A step is an expression or statement, or some 64 bytes or a few list elements
// moved; what the input brings raises both, so that a long conversation is no bomb.
struct Limits {
  int64_t steps_max = 1'500'000;
  int64_t steps_per_input_value = 200;
  size_t memory_bytes_max = size_t{48} << 20;
  size_t memory_per_input_byte = 16;
  int depth_max = 900;        // of evaluation: macros, recursive loops, blocks, expressions
  int value_depth_max = 200;  // of lists in lists, when printed or compared
};

}  // namespace kvgate::jinja
