// Fuzzes the tokenizers. The first byte chooses:
//   0  the second byte names a pre-tokenizer family; its words must cover the rest
//   1  the rest is encoded by small models of each kind and decoded; most texts must come back
//   2  a tokenizer.json, a zero byte, and a text for it: a tokenizer or an error
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/utf8.h"
#include "engine/text/tokenizer/json_tokenizer.h"
#include "engine/text/tokenizer/split/pretokenizer.h"
#include "engine/text/tokenizer/unicode/byte_alphabet.h"

namespace kvgate::tokenizer {

using split::Pretokenizer;

namespace {

std::vector<std::unique_ptr<Pretokenizer>> AllPretokenizers() {
  std::vector<std::unique_ptr<Pretokenizer>> all;
  const split::PretokenizerFamily* last = nullptr;
  std::istringstream in(split::PretokenizerNames());
  for (std::string name; std::getline(in >> std::ws, name, ',');) {
    if (split::FindPretokenizerFamily(name) == last) continue;
    last = split::FindPretokenizerFamily(name);
    all.push_back(std::move(*Pretokenizer::Create(name)));
  }
  return all;
}

std::string Quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

// Makes a vocabulary of all bytes and a few merges, in GPT-2's spelling.
std::string ByteLevelJson() {
  std::string vocab;
  for (int byte = 0; byte < 256; ++byte) {
    vocab += Quoted(unicode::ByteAlphabet::Get().Spell(static_cast<uint8_t>(byte))) + ":" +
             std::to_string(byte) + ",";
  }
  return R"({"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},"model":{"type":"BPE",)"
         R"("vocab":{)" +
         vocab + R"("Ġt":256,"he":257,"Ġthe":258},"merges":["Ġ t","h e","Ġt he"]}})";
}

std::string SentencePieceJson() {
  std::string vocab;
  for (int byte = 0; byte < 256; ++byte) {
    char text[8];
    std::snprintf(text, sizeof(text), "<0x%02X>", byte);
    vocab += Quoted(text) + ":" + std::to_string(byte) + ",";
  }
  return R"({"normalizer":{"type":"Replace","pattern":{"String":" "},"content":"▁"},)"
         R"("decoder":{"type":"Replace","pattern":{"String":"▁"},"content":" "},)"
         R"("model":{"type":"BPE","byte_fallback":true,"vocab":{)" +
         vocab + R"("▁":256,"t":257,"▁t":258},"merges":[["▁","t"]]}})";
}

std::string UnigramJson() {
  return R"({"normalizer":{"type":"NFKC"},"pre_tokenizer":{"type":"Metaspace","replacement":"▁"},)"
         R"("model":{"type":"Unigram","unk_id":0,)"
         R"("vocab":[["<unk>",0],["▁",-1],["a",-2],["▁a",-2.5],["日",-3],["aa",-3]]}})";
}

std::unique_ptr<Tokenizer> Make(const std::string& json) {
  auto tokenizer = JsonTokenizer::Parse(json, "");
  if (!tokenizer) std::abort();
  return std::move(*tokenizer);
}

void FuzzSplit(uint8_t which, std::string_view text) {
  static const auto* all = new std::vector<std::unique_ptr<Pretokenizer>>(AllPretokenizers());
  std::vector<size_t> ends;
  (*all)[which % all->size()]->Split(text, ends);
  size_t last = 0;
  for (const size_t end : ends) {
    if (end <= last) std::abort();
    last = end;
  }
  if (last != text.size()) std::abort();
}

void FuzzEncode(std::string_view text) {
  static const auto* bytes = Make(ByteLevelJson()).release();
  static const auto* pieces = Make(SentencePieceJson()).release();
  static const auto* unigram = Make(UnigramJson()).release();
  const EncodeOptions options = {.add_special = true, .parse_special = true};
  if (bytes->Decode(bytes->Encode(text, options)) != text) std::abort();
  const bool has_mark = text.find("▁") != std::string_view::npos;
  if (!has_mark && pieces->Decode(pieces->Encode(text, options)) != text) std::abort();
  Detokenizer detokenizer(*unigram);
  for (const TokenId token : unigram->Encode(text, options)) {
    const std::string pushed = detokenizer.Push(token);
    if (ValidUtf8Bytes(pushed) != pushed.size()) std::abort();
  }
}

void FuzzJson(std::string_view input) {
  const size_t zero = input.find('\0');
  const std::string_view text = zero == std::string_view::npos ? "" : input.substr(zero + 1);
  const auto tokenizer = JsonTokenizer::Parse(input.substr(0, zero), "");
  if (!tokenizer) {
    const ErrorCode code = tokenizer.error().code;
    if (code != ErrorCode::kDataLoss && code != ErrorCode::kUnsupported) std::abort();
    return;
  }
  for (const TokenId token : (*tokenizer)->Encode(text, {})) {
    if (token < 0 || token >= (*tokenizer)->vocab_size()) std::abort();
    (void)(*tokenizer)->TokenBytes(token, true);
  }
}

}  // namespace
}  // namespace kvgate::tokenizer

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  switch (data[0] % 3) {
    case 0:
      kvgate::tokenizer::FuzzSplit(data[1], input.substr(2));
      break;
    case 1:
      kvgate::tokenizer::FuzzEncode(input.substr(1));
      break;
    default:
      kvgate::tokenizer::FuzzJson(input.substr(1));
  }
  return 0;
}
