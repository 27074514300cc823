// `kvgate bench tokenizer`: measures how fast one thread encodes text into tokens and decodes it,
// compared with the machine's limit.
#pragma once

#include <cstdio>
#include <filesystem>

#include "base/result.h"

namespace kvgate::bench {

struct BenchTokenizerOptions {
  // A GGUF file or a tokenizer.json. Empty: gpt-2 of the test data ($KVGATE_TEST_DATA, else
  // ../shared).
  std::filesystem::path model_path;
  // Empty: the GNU GPL, an English text that every Debian system has.
  std::filesystem::path text_path;
  double seconds = 1;  // for each line
  std::FILE* out = stdout;
};

// Prints MB/s of encoding, of splitting into words alone, of PCRE2 with the equivalent expression,
// of decoding, and of reading every byte once. Fails with kNotFound, naming the missing file.
Result<void> RunBenchTokenizer(const BenchTokenizerOptions& options);

}  // namespace kvgate::bench
