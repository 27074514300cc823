// The tables behind unicode.h, written by make_unicode_tables.py.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kvgate::jinja::value {

// The code points first, first + stride, …, last.
struct CodePointRun {
  uint32_t first;
  uint32_t last;
  uint32_t stride;
};
// Unused places are zero.
struct CaseExpansion {
  uint32_t from;
  uint32_t to[3];
};

extern const CodePointRun kAlpha[];
extern const size_t kNumAlpha;
extern const CodePointRun kDecimal[];
extern const size_t kNumDecimal;
extern const CodePointRun kDigit[];
extern const size_t kNumDigit;
extern const CodePointRun kNumeric[];
extern const size_t kNumNumeric;
extern const CodePointRun kPrintable[];
extern const size_t kNumPrintable;
extern const CodePointRun kLower[];
extern const size_t kNumLower;
extern const CaseExpansion kToLowerSeveral[];
extern const size_t kNumToLowerSeveral;
extern const CaseExpansion kToUpperSeveral[];
extern const size_t kNumToUpperSeveral;
extern const CaseExpansion kToTitleSeveral[];
extern const size_t kNumToTitleSeveral;

}  // namespace kvgate::jinja::value
