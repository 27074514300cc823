// Normalizer: what a tokenizer.json does to text before anything else: a list of steps, each text
// to text. Immutable; thread-safe.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <kvgate/result.h>

#include "engine/tokenizer/json_node.h"

namespace kvgate::tokenizer {

class Normalizer {
 public:
  // No steps.
  Normalizer() = default;
  // The value of "normalizer"; a null has no steps. kUnsupported names a type we do not have.
  static Result<Normalizer> FromJson(const JsonNode& node);

  // `continues`: the text goes on from other text, so that nothing is put in front of it.
  std::string Apply(std::string_view text, bool continues = false) const;
  bool empty() const { return steps_.empty(); }

 private:
  struct Step {
    std::function<std::string(std::string_view text)> apply;
    bool at_start_only = false;
  };
  Result<void> Add(const JsonNode& node, int depth);
  void AddStep(std::function<std::string(std::string_view text)> apply) {
    steps_.push_back({std::move(apply)});
  }

  std::vector<Step> steps_;
};

}  // namespace kvgate::tokenizer
