// Normalizer: the normalisation of a tokenizer.json, which runs before everything else: a list of
// steps from text to text. Immutable; thread-safe.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/text/tokenizer/split/json_node.h"

namespace kvgate::tokenizer::split {

class Normalizer {
 public:
  // A normalizer without steps.
  Normalizer() = default;
  // Reads the value of "normalizer"; null means no steps. kUnsupported names a type that is not
  // implemented.
  static Result<Normalizer> FromJson(const JsonNode& node);

  // `continues`: the text continues earlier text, so nothing is prepended to it.
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

}  // namespace kvgate::tokenizer::split
