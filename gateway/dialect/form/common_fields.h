// Reads the fields that dialects share. Included only by the decoders' .cc files.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "gateway/dialect/form/field_reader.h"

namespace kvgate::dialect::form {

// Reads one string or an array of strings.
Result<void> ReadStop(JsonElement value, const std::string& path, DecodeState& state);

// Reads {"type","schema",…}, the required form of the answer. The Messages and Responses dialects
// put the schema beside the type like this.
Result<void> ReadFlatFormat(JsonElement value, const std::string& path, DecodeState& state);

Result<void> ReadTopLogprobs(JsonElement value, const std::string& path, DecodeState& state);

// Reads "none" to "max", from whatever field the dialect uses.
Result<void> ReadReasoningEffort(JsonElement value, const std::string& path, DecodeState& state);

// Checks that the value is a string; it has no effect on the answer.
Result<void> CheckText(JsonElement value, const std::string& path, DecodeState& state);

// REQUIRES: the prompt is a conversation.
std::vector<Message>& Messages(DecodeState& state);

// Returns the fields that all dialects share, mainly the samplers, followed by a dialect's own.
std::vector<FieldSpec> WithSamplerFields(std::span<const FieldSpec> own);
// Returns these, and also the fields common to both OpenAI completion dialects.
std::vector<FieldSpec> WithCommonFields(std::span<const FieldSpec> own);
// Runs the checks that need the whole body: missing and contradictory fields.
Result<void> FinishCommonFields(DecodeState& state);

}  // namespace kvgate::dialect::form
