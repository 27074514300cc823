// Reads one JSON object by a table of its known fields. Included only by the decoders' .cc files.
//
// The rules are the same for every dialect. Every known field has a type and a range, and an error
// names it ("messages[2].role"). Null means absent. A known field given twice is an error, because
// two readers of one body must not see two requests. Unknown fields are ignored. A field that would
// change the answer but that the local engine cannot honour is refused (kUnsupported), never
// dropped.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gateway/dialect/form/completion.h"
#include "gateway/dialect/form/decode_limits.h"

namespace kvgate::dialect::form {

using JsonElement = simdjson::dom::element;
using JsonArray = simdjson::dom::array;
using JsonObject = simdjson::dom::object;

// The result of a decoder: the request, and values that only make sense once all fields are read.
struct DecodeState {
  const DecodeLimits& limits;
  CompletionRequest request = {};
  bool has_model = false;
  bool has_prompt = false;
  bool has_stream_options = false;
  bool logprobs = false;
  int top_logprobs = -1;
  std::optional<int64_t> max_completion_tokens = {};
  bool has_repetition_penalty = false;
  int best_of = 0;              // 0 if absent
  bool asks_for_calls = false;  // the caller explicitly asks for more than one call in a turn
  // For the Messages dialect: the system text, and the TTLs in seconds of the cache breakpoints by
  // place.
  std::optional<Message> system = {};
  std::vector<int> tool_marks = {};
  std::vector<int> system_marks = {};
  std::vector<int> message_marks = {};
  int automatic_mark = 0;  // TTL in seconds of the top-level cache_control; 0 if absent
};

using FieldFunction = Result<void> (*)(JsonElement value, const std::string& path,
                                       DecodeState& state);

struct FieldSpec {
  std::string_view name;
  FieldFunction read;
};

// Parses the body; the object refers to memory of `parser`. Returns kInvalidArgument if the body is
// not JSON, not UTF-8, nested too deep, or not an object.
Result<JsonObject> ParseBody(std::string_view body, const DecodeLimits& limits,
                             simdjson::dom::parser& parser);

// Calls the table's function for every known field that is not null. `path` is the path of the
// object ("messages[2]"), empty for the body.
Result<void> ReadFields(JsonObject object, const std::string& path,
                        std::span<const FieldSpec> fields, DecodeState& state);

// The known fields of one object, for small objects (content parts, tools) that do not warrant a
// table of functions. The rules are the same.
class Fields {
 public:
  // Returns kInvalidArgument if the value is not an object or a known field occurs twice.
  static Result<Fields> Read(JsonElement value, std::string path,
                             std::initializer_list<std::string_view> names);
  static Result<Fields> Read(JsonObject object, std::string path,
                             std::initializer_list<std::string_view> names);

  // Returns null for an absent or null field. REQUIRES: a known field.
  const JsonElement* Find(std::string_view name) const;
  // Returns "messages[2].role", or the bare name for a field of the body.
  std::string Path(std::string_view name) const {
    return path_.empty() ? std::string(name) : path_ + "." + std::string(name);
  }
  const std::string& path() const { return path_; }

  // Returns a string that must be present.
  Result<std::string> String(std::string_view name) const;
  // Returns an empty string if it is absent.
  Result<std::string> StringOrEmpty(std::string_view name) const;
  Result<bool> BoolOr(std::string_view name, bool fallback) const;

 private:
  struct Field {
    std::string_view name;
    std::optional<JsonElement> value;
    bool seen = false;
  };
  std::string path_;
  std::vector<Field> fields_;
};

// Error constructors. An example: "messages[2].role must be a string, but got an integer."
Error TypeError(const std::string& path, std::string_view expected, JsonElement value);
Error RangeError(const std::string& path, std::string_view rule);
Error UnsupportedError(const std::string& path, std::string_view what);
Error MissingError(const std::string& path);

Result<std::string> ReadString(JsonElement value, const std::string& path);
Result<bool> ReadBool(JsonElement value, const std::string& path);
Result<JsonArray> ReadArray(JsonElement value, const std::string& path);
Result<JsonObject> ReadObject(JsonElement value, const std::string& path);
struct IntegerRange {
  int64_t min = std::numeric_limits<int64_t>::min();
  int64_t max = std::numeric_limits<int64_t>::max();
};
// 3 and 3.0 are both integers; 3.5 is not.
Result<int64_t> ReadInteger(JsonElement value, const std::string& path, IntegerRange range);
struct NumberRange {
  double min;
  double max;
};
Result<double> ReadNumber(JsonElement value, const std::string& path, NumberRange range);
// Returns the path of an element: "stop[3]".
std::string IndexPath(const std::string& path, size_t index);

}  // namespace kvgate::dialect::form
