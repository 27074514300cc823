// What the three readers of requests share: values with their types checked and their fields named.
// Included only by them.
#pragma once

#include <fmt/format.h>

#include <initializer_list>
#include <string>
#include <string_view>

#include "gateway/translate/raw_json.h"
#include "gateway/translate/request_form.h"

namespace kvgate::translate {

inline std::string Sub(const std::string& path, std::string_view name) {
  return path.empty() ? std::string(name) : fmt::format("{}.{}", path, name);
}
inline std::string At(const std::string& path, size_t index) {
  return fmt::format("{}[{}]", path, index);
}

// A string, as it stands; empty where there is none.
Result<Literal> OptionalString(const RawObject& object, std::string_view name,
                               const std::string& path);
Result<Literal> NeededString(const RawObject& object, std::string_view name,
                             const std::string& path);
Result<RawObject> NeededObject(const RawJson& value, const std::string& path);
Result<bool> OptionalBool(const RawObject& object, std::string_view name, bool fallback);
// A number as it stands.
Result<Given> OptionalNumber(const RawObject& object, std::string_view name);
// A string or a list of them.
Result<std::vector<Literal>> OptionalStrings(const RawJson& value, const std::string& path);

// model, stream, temperature, top_p: what all dialects call the same.
Result<void> ReadCommon(const RawObject& body, RequestForm& form);

// Every field must be one of the names, in so many words: what is not known cannot be translated.
Result<void> RefuseOthers(const RawObject& body, std::initializer_list<std::string_view> known,
                          std::string_view target);

// "data:image/png;base64,…" taken apart; anything else is a URL.
Media MediaOf(Literal url);

// Cache markers: {"type":"ephemeral","ttl":"1h"}, {"mode":"explicit"}.
int TtlOf(const RawObject& block);
bool HasBreakpoint(const RawObject& part);

// "minimal" … "max"; empty: not given. Refuses what is none.
Result<std::string> ReadEffort(const RawJson& value, const std::string& path);

}  // namespace kvgate::translate
