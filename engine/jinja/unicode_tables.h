// The tables behind unicode.h, written by make_unicode_tables.py.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kvgate::jinja {

// first, first + stride, … last
struct CodePointRun {
  uint32_t first;
  uint32_t last;
  uint32_t stride;
};
// Each maps to itself plus delta.
struct CaseRun {
  uint32_t first;
  uint32_t last;
  uint32_t stride;
  int32_t delta;
};
// Zeros behind fewer than three.
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
extern const CodePointRun kUpper[];
extern const size_t kNumUpper;
extern const CodePointRun kLower[];
extern const size_t kNumLower;
extern const CodePointRun kTitlecase[];
extern const size_t kNumTitlecase;
extern const CaseRun kToLower[];
extern const size_t kNumToLower;
extern const CaseExpansion kToLowerSeveral[];
extern const size_t kNumToLowerSeveral;
extern const CaseRun kToUpper[];
extern const size_t kNumToUpper;
extern const CaseExpansion kToUpperSeveral[];
extern const size_t kNumToUpperSeveral;
extern const CaseRun kToTitle[];
extern const size_t kNumToTitle;
extern const CaseExpansion kToTitleSeveral[];
extern const size_t kNumToTitleSeveral;

}  // namespace kvgate::jinja
