// CharsmapMaker makes SentencePiece's precompiled normalization table from rules, as model files
// hold it.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace kvgate::tokenizer {

class CharsmapMaker {
 public:
  static std::string Make(const std::map<std::string, std::string>& rules) {
    CharsmapMaker maker;
    std::map<std::string, uint32_t> values;
    std::string replacements;
    for (const auto& [from, to] : rules) {
      values[from] = static_cast<uint32_t>(replacements.size());
      replacements += to + '\0';
    }
    maker.Place(0, "", values);
    const uint32_t size = static_cast<uint32_t>(maker.units_.size() * 4);
    std::string out(4 + size, '\0');
    std::memcpy(out.data(), &size, 4);
    std::memcpy(out.data() + 4, maker.units_.data(), size);
    return out + replacements;
  }

 private:
  static constexpr size_t kUnits = 1 << 14;
  CharsmapMaker() : units_(kUnits), is_used_(kUnits), is_block_(kUnits) { is_used_[0] = true; }

  // Finds room for the children of the node at `index`, whose path is `path`, and places them.
  void Place(size_t index, const std::string& path, const std::map<std::string, uint32_t>& values) {
    std::map<uint8_t, std::string> children;  // label -> path; label 0 is the value
    for (const auto& [text, value] : values) {
      if (!text.starts_with(path)) continue;
      if (text == path) {
        children[0] = path;
      } else {
        children[static_cast<uint8_t>(text[path.size()])] = text.substr(0, path.size() + 1);
      }
    }
    size_t block = 256;
    // Two nodes that shared a block would take each other's children for their own.
    const auto fits = [&] {
      if (is_block_[block]) return false;
      for (const auto& [label, child] : children) {
        if (is_used_[block ^ label]) return false;
      }
      return true;
    };
    while (!fits()) ++block;
    is_block_[block] = true;
    units_[index] |= static_cast<uint32_t>(index ^ block) << 10;
    if (children.contains(0)) units_[index] |= 1u << 8;
    for (const auto& [label, child] : children) is_used_[block ^ label] = true;
    for (const auto& [label, child] : children) {
      if (label == 0) {
        units_[block] = values.at(child) | (1u << 31);
      } else {
        units_[block ^ label] = label;
        Place(block ^ label, child, values);
      }
    }
  }

  std::vector<uint32_t> units_;
  std::vector<bool> is_used_;
  std::vector<bool> is_block_;
};

}  // namespace kvgate::tokenizer
