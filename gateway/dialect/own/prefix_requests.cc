#include "gateway/dialect/own/prefix_requests.h"

#include "gateway/dialect/chat/chat_completions.h"
#include "gateway/dialect/completions/completions.h"
#include "gateway/dialect/form/field_reader.h"

namespace kvgate::dialect::own {

using chat::DecodeChatCompletions;
using completions::DecodeCompletions;

using form::JsonObject;

namespace {

constexpr int64_t kTtlSecondsMax = int64_t{100} * 365 * 86400;

// `path` is the path of the object itself, empty for the body.
Result<PinOptions> ReadPinOptions(JsonObject object, const std::string& path) {
  PinOptions options;
  std::optional<bool> pin;
  for (const auto& [key, value] : object) {
    const std::string name(key);
    const std::string at = path.empty() ? name : path + "." + name;
    if (value.is_null()) continue;
    if (name == "pin") {
      KVGATE_TRY(pin, form::ReadBool(value, at));
      continue;
    }
    if (name == "name") {
      KVGATE_TRY(options.name, form::ReadString(value, at));
    } else if (name == "version") {
      KVGATE_TRY(options.version, form::ReadString(value, at));
    } else if (name == "priority") {
      KVGATE_TRY(const int64_t priority,
                 form::ReadInteger(value, at, {.min = 1, .max = kPinPriorityMax}));
      options.priority = static_cast<int>(priority);
    } else if (name == "ttl_seconds") {
      KVGATE_TRY(options.ttl_seconds,
                 form::ReadInteger(value, at, {.min = 1, .max = kTtlSecondsMax}));
    } else {
      return MakeError(ErrorCode::kInvalidArgument, "protocol.prefixes",
                       at + " is not a field of a pin: it has pin, name, version, priority and "
                            "ttl_seconds.",
                       at);
    }
    options.pin = true;
  }
  if (pin) options.pin = *pin;
  return options;
}

}  // namespace

Result<WarmRequest> DecodeWarm(std::string_view body, const form::DecodeLimits& limits) {
  simdjson::dom::parser parser;
  KVGATE_TRY(const JsonObject object, form::ParseBody(body, limits, parser));
  WarmRequest warm;
  form::JsonElement kvgate;
  if (object.at_key("kvgate").get(kvgate) == simdjson::SUCCESS && !kvgate.is_null()) {
    KVGATE_TRY(const JsonObject options, form::ReadObject(kvgate, "kvgate"));
    KVGATE_TRY(warm.pin, ReadPinOptions(options, "kvgate"));
  }
  form::JsonElement ignored;
  const bool is_completion = object.at_key("prompt").get(ignored) == simdjson::SUCCESS;
  KVGATE_TRY(warm.request,
             is_completion ? DecodeCompletions(body, limits) : DecodeChatCompletions(body, limits));
  return warm;
}

Result<PinOptions> DecodePinOptions(std::string_view body, const form::DecodeLimits& limits) {
  if (body.empty()) return PinOptions{};
  simdjson::dom::parser parser;
  KVGATE_TRY(const JsonObject object, form::ParseBody(body, limits, parser));
  return ReadPinOptions(object, "");
}

}  // namespace kvgate::dialect::own
