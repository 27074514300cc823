#include "gateway/prompt/history/sent_parameters.h"

#include <algorithm>
#include <array>

namespace kvgate::prompt::history {
namespace {

constexpr size_t kParameterBytes = 256;

// These parameters affect neither the prompt nor its caching.
bool IsIncidental(std::string_view name) {
  static constexpr std::array<std::string_view, 19> kNames = {"model",
                                                              "stream",
                                                              "stream_options",
                                                              "metadata",
                                                              "user",
                                                              "store",
                                                              "seed",
                                                              "stop",
                                                              "temperature",
                                                              "max_tokens",
                                                              "top_p",
                                                              "top_k",
                                                              "stop_sequences",
                                                              "diagnostics",
                                                              "max_completion_tokens",
                                                              "n",
                                                              "safety_identifier",
                                                              "cache_control",
                                                              "max_output_tokens"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end() ||
         name == "previous_response_id" || name == "conversation";
}

}  // namespace

std::vector<SentParameter> ParametersOf(std::string_view body, const parse::RequestLayout& layout) {
  std::vector<SentParameter> parameters;
  for (const parse::Parameter& parameter : layout.parameters) {
    if (IsIncidental(parameter.name)) continue;
    parameters.push_back({parameter.name,
                          std::string(parameter.value.In(body).substr(0, kParameterBytes)),
                          parameter.same});
  }
  return parameters;
}

}  // namespace kvgate::prompt::history
