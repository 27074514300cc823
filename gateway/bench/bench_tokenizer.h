// What `kvgate bench tokenizer` measures: how fast one thread turns text into tokens and back,
// beside what bounds it on this machine.
#pragma once

#include <cstdio>
#include <filesystem>

#include <kvgate/result.h>

namespace kvgate::cli {

struct BenchTokenizerOptions {
  // A GGUF file or a tokenizer.json. Empty: gpt-2 of the test data ($KVGATE_TEST_DATA, else
  // ../shared).
  std::filesystem::path model_path;
  // Empty: the GNU GPL, which every Debian has: English text.
  std::filesystem::path text_path;
  double seconds = 1;  // for each line
  std::FILE* out = stdout;
};

// Prints MB/s of encoding, of cutting words alone, of PCRE2 with the words' expression, of decoding
// and of reading every byte once. kNotFound names the file that is not there.
Result<void> RunBenchTokenizer(const BenchTokenizerOptions& options);

}  // namespace kvgate::cli
