// Helpers of the three request readers, which check the types of values and name fields in errors.
// Included only by them.
#pragma once

#include <fmt/format.h>

#include <initializer_list>
#include <string>
#include <string_view>

#include "gateway/dialect/translate/raw_json.h"
#include "gateway/dialect/translate/request_form.h"

namespace kvgate::dialect::translate {

inline std::string Sub(const std::string& path, std::string_view name) {
  return path.empty() ? std::string(name) : fmt::format("{}.{}", path, name);
}
inline std::string At(const std::string& path, size_t index) {
  return fmt::format("{}[{}]", path, index);
}

// Returns a string with its quotes and escapes unchanged; empty if it is absent.
Result<Literal> OptionalString(const RawObject& object, std::string_view name,
                               const std::string& path);
Result<Literal> NeededString(const RawObject& object, std::string_view name,
                             const std::string& path);
Result<RawObject> NeededObject(const RawJson& value, const std::string& path);
Result<bool> OptionalBool(const RawObject& object, std::string_view name, bool fallback);
// Returns a number with its spelling unchanged.
Result<Given> OptionalNumber(const RawObject& object, std::string_view name);
// Reads one string or an array of strings.
Result<std::vector<Literal>> OptionalStrings(const RawJson& value, const std::string& path);

// Reads model, stream, temperature and top_p, which all dialects have under these names.
Result<void> ReadCommon(const RawObject& body, RequestForm& form);

// Returns an error unless every field is in `known`, because an unknown field cannot be translated.
Result<void> RefuseOthers(const RawObject& body, std::initializer_list<std::string_view> known,
                          std::string_view target);

// Splits "data:image/png;base64,…" into its parts; any other text is a URL.
Media MediaOf(Literal url);

// Reads cache breakpoints: TtlOf {"type":"ephemeral","ttl":"1h"}, HasBreakpoint
// {"mode":"explicit"}.
int TtlOf(const RawObject& block);
bool HasBreakpoint(const RawObject& part);

// Reads what another provider wants back with its thoughts out of the one field that a client of
// another dialect sends back, into a block of thinking. Returns false, and changes nothing, if the
// text is none of kSealedThinking, kSealedRedacted and kSealedItem.
bool Unseal(std::string_view sealed, RequestForm& form, Block& block);

// Reads "minimal" … "max"; empty if it is not given. Other values are an error.
Result<std::string> ReadEffort(const RawJson& value, const std::string& path);

}  // namespace kvgate::dialect::translate
