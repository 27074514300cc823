// The fields that dialects share. Included only by the decoders' .cc files.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <kvgate/result.h>

#include "gateway/protocol/field_reader.h"

namespace kvgate::protocol {

// One string, or an array of strings.
Result<void> ReadStop(JsonElement value, const std::string& path, DecodeState& state);

// {"type","schema",…}: what the answer must be, with its schema beside its type, as the Messages
// and Responses dialects have it.
Result<void> ReadFlatFormat(JsonElement value, const std::string& path, DecodeState& state);

// "none" to "max", by whatever name the dialect has it.
Result<void> ReadReasoningEffort(JsonElement value, const std::string& path, DecodeState& state);

// A string that decides nothing here.
Result<void> CheckText(JsonElement value, const std::string& path, DecodeState& state);

// What all dialects share, the samplers above all, with a dialect's own fields behind it.
std::vector<FieldSpec> WithSamplerFields(std::span<const FieldSpec> own);
// … and with what both OpenAI completion dialects have.
std::vector<FieldSpec> WithCommonFields(std::span<const FieldSpec> own);
// Checks that need the whole body: what is missing, what contradicts what.
Result<void> FinishCommonFields(DecodeState& state);

}  // namespace kvgate::protocol
