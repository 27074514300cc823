#include "engine/text/tokenizer/tokenizer.h"

#include <fmt/format.h>

#include <system_error>

#include "engine/modelfile/gguf.h"
#include "engine/text/tokenizer/bpe_tokenizer.h"
#include "engine/text/tokenizer/json_tokenizer.h"
#include "engine/text/tokenizer/spm_tokenizer.h"
#include "engine/text/tokenizer/unigram_tokenizer.h"
#include "engine/text/tokenizer/word_piece_tokenizer.h"

namespace kvgate::tokenizer {

Result<std::unique_ptr<Tokenizer>> Tokenizer::Load(const modelfile::ModelFile& file) {
  const bool has_ggml = file.Find("tokenizer.ggml.model") != nullptr;
  if (!has_ggml && file.Find(modelfile::kTokenizerJsonKey) != nullptr)
    return JsonTokenizer::Load(file);
  KVGATE_TRY(const std::string model, file.GetString("tokenizer.ggml.model"));
  if (model == "llama") return SpmTokenizer::Load(file);
  if (model == "gpt2" || model == "gemma4") return BpeTokenizer::Load(file);
  if (model == "t5") return UnigramTokenizer::Load(file);
  if (model == "bert") return WordPieceTokenizer::Load(file);
  return MakeError(ErrorCode::kUnsupported, "tokenizer",
                   fmt::format("tokenizer.ggml.model '{}' is not supported; supported are llama "
                               "(SentencePiece BPE), gpt2 and gemma4 (BPE by merges), t5 "
                               "(SentencePiece Unigram) and bert (WordPiece)",
                               model));
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::LoadFile(const std::filesystem::path& path) {
  std::error_code code;
  if (std::filesystem::is_directory(path, code) || path.extension() == ".json") {
    return JsonTokenizer::Load(path);
  }
  KVGATE_TRY(const std::unique_ptr<modelfile::GgufFile> file, modelfile::GgufFile::Open(path));
  return Load(*file);
}

}  // namespace kvgate::tokenizer
