#include "sdk/src/json_find.h"

#include <nlohmann/json.hpp>

namespace kvgate::sdk {

using transport::Failure;

namespace {

using Json = nlohmann::ordered_json;

}  // namespace

std::optional<Failure> FindInJson(std::string_view json, const std::string& pointer,
                                  std::string& value) {
  const Json parsed = Json::parse(json, nullptr, false);
  if (parsed.is_discarded()) {
    return Failure{.status = KVGATE_INVALID_ARGUMENT, .message = "it is no JSON", .field = "json"};
  }
  try {
    const Json::json_pointer path(pointer);
    if (!parsed.contains(path)) {
      return Failure{
          .status = KVGATE_NOT_FOUND, .message = "there is no " + pointer, .field = "pointer"};
    }
    const Json& found = parsed.at(path);
    value = found.is_string() ? found.get<std::string>()
                              : found.dump(-1, ' ', false, Json::error_handler_t::replace);
  } catch (const Json::exception& failure) {
    return Failure{
        .status = KVGATE_INVALID_ARGUMENT, .message = failure.what(), .field = "pointer"};
  }
  return std::nullopt;
}

}  // namespace kvgate::sdk
