// These functions make small tokenizer.json files in memory.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "engine/text/tokenizer/json_tokenizer.h"
#include "tests/engine/text/tokenizer/fixtures.h"

namespace kvgate::tokenizer {

using Json = nlohmann::ordered_json;

inline Result<std::unique_ptr<Tokenizer>> ParseJsonTokenizer(const Json& json,
                                                             const Json& config = nullptr) {
  return JsonTokenizer::Parse(json.dump(), config.is_null() ? "" : config.dump());
}

inline std::unique_ptr<Tokenizer> MustParse(const Json& json, const Json& config = nullptr) {
  auto tokenizer = ParseJsonTokenizer(json, config);
  if (!tokenizer) ADD_FAILURE() << tokenizer.error().ToString();
  return tokenizer ? std::move(*tokenizer) : nullptr;
}

inline Json AddedTokenJson(int id, const char* text, bool special = true) {
  return {{"id", id}, {"content", text}, {"special", special}, {"normalized", !special}};
}

// Returns an array of pairs; a brace-enclosed list of string pairs would become an object.
inline Json PairsJson(const std::vector<std::pair<Json, Json>>& pairs) {
  Json array = Json::array();
  for (const auto& [first, second] : pairs) array.push_back(Json::array({first, second}));
  return array;
}

// Makes byte-level BPE like GPT-2's: the 256 bytes, then one token per merge, then <|end|>, which
// is special.
inline Json ByteLevelJson() {
  Json vocab;
  int id = 0;
  for (int byte = 0; byte < 256; ++byte) vocab[SpellByte(byte)] = id++;
  for (std::string merge : BpeMerges()) vocab[merge.erase(merge.find(' '), 1)] = id++;
  return {{"added_tokens", Json::array({AddedTokenJson(id, "<|end|>")})},
          {"normalizer", nullptr},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", BpeMerges()}}}};
}

// Makes SentencePiece's BPE like Llama 2's: characters, bytes to fall back to, and ▁ for spaces.
inline Json SentencePieceJson() {
  Json vocab = {{"<unk>", 0}, {"<s>", 1}, {"</s>", 2}};
  int id = 3;
  for (int byte = 0; byte < 256; ++byte) {
    char text[8];
    std::snprintf(text, sizeof(text), "<0x%02X>", byte);
    vocab[text] = id++;
  }
  for (const std::string& piece : SpmPieces()) {
    if (!vocab.contains(piece)) vocab[piece] = id++;
  }
  const Json mark = {{"String", " "}};
  const Json back = {{"String", "▁"}};
  return {{"added_tokens",
           {AddedTokenJson(0, "<unk>"), AddedTokenJson(1, "<s>"), AddedTokenJson(2, "</s>")}},
          {"normalizer",
           {{"type", "Sequence"},
            {"normalizers",
             {{{"type", "Prepend"}, {"prepend", "▁"}},
              {{"type", "Replace"}, {"pattern", mark}, {"content", "▁"}}}}}},
          {"post_processor",
           {{"type", "TemplateProcessing"},
            {"single", {{{"SpecialToken", {{"id", "<s>"}}}}, {{"Sequence", {{"id", "A"}}}}}},
            {"special_tokens", {{"<s>", {{"ids", Json::array({1})}}}}}}},
          {"decoder",
           {{"type", "Sequence"},
            {"decoders",
             {{{"type", "Replace"}, {"pattern", back}, {"content", " "}},
              {{"type", "ByteFallback"}},
              {{"type", "Fuse"}},
              {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}}},
          {"model",
           {{"type", "BPE"},
            {"unk_token", "<unk>"},
            {"fuse_unk", true},
            {"byte_fallback", true},
            {"vocab", vocab},
            {"merges", PairsJson({{"▁", "t"},
                                  {"h", "e"},
                                  {"▁t", "he"},
                                  {"i", "n"},
                                  {"▁", "▁"},
                                  {"e", "r"},
                                  {"in", "g"},
                                  {"日", "本"}})}}}};
}

inline Json UnigramJson() {
  return {{"added_tokens", {AddedTokenJson(0, "<unk>"), AddedTokenJson(1, "</s>")}},
          {"pre_tokenizer", {{"type", "Metaspace"}, {"replacement", "▁"}}},
          {"decoder", {{"type", "Metaspace"}, {"replacement", "▁"}}},
          {"model",
           {{"type", "Unigram"},
            {"unk_id", 0},
            {"vocab", PairsJson({{"<unk>", 0.0},
                                 {"</s>", 0.0},
                                 {"▁the", -1.5},
                                 {"▁", -2.0},
                                 {"t", -3.0},
                                 {"h", -3.5},
                                 {"e", -4.0}})}}}};
}

}  // namespace kvgate::tokenizer
