#include "gateway/proxy/request/query.h"

#include <algorithm>
#include <charconv>

namespace kvgate::proxy::request {

std::string_view QueryOf(std::string_view target) {
  const size_t question = target.find('?');
  if (question == std::string_view::npos) return {};
  return target.substr(question + 1, target.find('#', question) - question - 1);
}

std::string PercentDecode(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned char byte = 0;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(text.data() + i + 1, text.data() + i + 3, byte, 16).ptr ==
            text.data() + i + 3) {
      out += static_cast<char>(byte);
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string QueryValue(std::string_view target, std::string_view name) {
  std::string_view query = QueryOf(target);
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    const size_t equals = pair.find('=');
    if (pair.substr(0, equals) == name) {
      return equals == std::string_view::npos ? "" : PercentDecode(pair.substr(equals + 1));
    }
    query.remove_prefix(std::min(query.size(), pair.size() + 1));
  }
  return "";
}

QueryParameters ParametersOf(std::string_view target) {
  QueryParameters parameters;
  std::string_view query = QueryOf(target);
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), pair.size() + 1));
    if (pair.empty()) continue;
    const size_t equals = std::min(pair.find('='), pair.size());
    parameters.emplace_back(PercentDecode(pair.substr(0, equals)),
                            PercentDecode(pair.substr(std::min(equals + 1, pair.size()))));
  }
  return parameters;
}

}  // namespace kvgate::proxy::request
