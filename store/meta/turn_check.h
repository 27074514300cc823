// What a turn may be before it is stored. Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "store/meta/turn_format.h"

namespace kvgate::store::meta {

inline constexpr size_t kTurnTextMax = 256;    // bytes of an id, a tenant, a session or a role
inline constexpr size_t kTurnItemsMax = 4096;  // per turn

// The bytes of what was said, without ids and roles.
uint64_t PayloadBytes(const Turn& turn);
// Returns kInvalidArgument with the field at fault, or kTooLarge above that many bytes.
Result<void> CheckTurn(const Turn& turn, uint64_t bytes_max);

}  // namespace kvgate::store::meta
