#include "gateway/bench/bench_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/utf8.h"
#include "engine/modelfile/hf_folder.h"
#include "engine/text/tokenizer/split/pretokenizer.h"
#include "engine/text/tokenizer/tokenizer.h"

namespace kvgate::bench {
namespace {

namespace fs = std::filesystem;

constexpr size_t kTextBytes = 4 << 20;  // more than any cache near the core holds

Result<std::string> ReadText(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string once((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  if (once.empty()) {
    return MakeError(
        ErrorCode::kNotFound, "cli",
        fmt::format("{} is not there or empty; name a text with --text", path.string()));
  }
  std::string text;
  while (text.size() < kTextBytes) text += once;
  return text;
}

// Returns the best round within `seconds`, in MB/s, because disturbances can only slow a round
// down.
double MegabytesPerSecond(size_t bytes, double seconds, const std::function<void()>& round) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  double best = 0;
  do {
    const auto started = Clock::now();
    round();
    const std::chrono::duration<double> elapsed = Clock::now() - started;
    best = std::max(best, static_cast<double>(bytes) / 1e6 / elapsed.count());
  } while (std::chrono::duration<double>(Clock::now() - begin).count() < seconds);
  return best;
}

// Splits a byte-level BPE's text into words, with our scanner and with the equivalent expression.
Result<void> MeasureWords(const BenchTokenizerOptions& options, const fs::path& model,
                          std::string_view text) {
  const auto file = modelfile::OpenModelFile(model);
  if (!file) return {};
  const auto kind = (*file)->GetString("tokenizer.ggml.model");
  const auto pre = (*file)->GetString("tokenizer.ggml.pre");
  if (!kind || *kind != "gpt2") return {};
  KVGATE_TRY(const auto pretokenizer, tokenizer::split::Pretokenizer::Create(pre ? *pre : ""));
  std::vector<size_t> ends;
  const double words = MegabytesPerSecond(text.size(), options.seconds, [&] {
    ends.clear();
    pretokenizer->Split(text, ends);
  });
  fmt::print(options.out, "cut into words     {:10.1f} MB/s\n", words);
  const tokenizer::split::CutRule& rule = pretokenizer->family().rules[0];
  if (rule.kind != tokenizer::split::CutRule::Kind::kWords) return {};
  const auto regex = tokenizer::unicode::Regex::MustCompile(rule.shape.Expression());
  const tokenizer::unicode::Regex::Matcher matcher;
  size_t num_words = 0;
  const double pcre = MegabytesPerSecond(text.size(), options.seconds, [&] {
    for (size_t at = 0; at < text.size(); ++num_words) at = matcher.Next(regex, text, at).end;
  });
  fmt::print(options.out, "the same by PCRE2  {:10.1f} MB/s\n", pcre);
  return {};
}

}  // namespace

Result<void> RunBenchTokenizer(const BenchTokenizerOptions& options) {
  const char* folder = std::getenv("KVGATE_TEST_DATA");
  const fs::path data = folder != nullptr ? folder : "../shared";
  const fs::path model =
      options.model_path.empty() ? data / "vocab/gpt-2.gguf" : options.model_path;
  const fs::path text_path =
      options.text_path.empty() ? fs::path("/usr/share/common-licenses/GPL-3") : options.text_path;
  KVGATE_TRY(const std::string text, ReadText(text_path));
  KVGATE_TRY(const auto tokenizer, tokenizer::Tokenizer::LoadFile(model));
  std::vector<TokenId> tokens;
  const double encoded = MegabytesPerSecond(text.size(), options.seconds, [&] {
    tokens = tokenizer->Encode(text, {.add_special = false, .parse_special = true});
  });
  fmt::print(options.out, "{} over {:.1f} MB of {}, one thread: {:.2f} bytes a token\n",
             model.string(), static_cast<double>(text.size()) / 1e6, text_path.string(),
             static_cast<double>(text.size()) / static_cast<double>(tokens.size()));
  fmt::print(options.out, "encode             {:10.1f} MB/s\n", encoded);
  KVGATE_TRY_VOID(MeasureWords(options, model, text));
  std::string decoded;
  const double decode = MegabytesPerSecond(text.size(), options.seconds,
                                           [&] { decoded = tokenizer->Decode(tokens); });
  fmt::print(options.out, "decode             {:10.1f} MB/s\n", decode);
  size_t valid = 0;
  const double scan =
      MegabytesPerSecond(text.size(), options.seconds, [&] { valid += ValidUtf8Bytes(text); });
  fmt::print(options.out, "read every byte    {:10.1f} MB/s (the bound: is it UTF-8?)\n", scan);
  return {};
}

}  // namespace kvgate::bench
