// The fields that both OpenAI completion dialects share. Included only by the decoders' .cc files.
#pragma once

#include <span>
#include <vector>

#include <kvgate/result.h>

#include "gateway/protocol/field_reader.h"

namespace kvgate::protocol {

// The shared table with a dialect's own fields behind it.
std::vector<FieldSpec> WithCommonFields(std::span<const FieldSpec> own);
// Checks that need the whole body: what is missing, what contradicts what.
Result<void> FinishCommonFields(DecodeState& state);

}  // namespace kvgate::protocol
