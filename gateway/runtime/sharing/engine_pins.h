// Connects the pins of gateways that share them with this gateway's engine: under which keys it
// finds their prefixes, and that these are kept in its memory and brought in while it is idle.
#pragma once

#include <memory>

#include "engine/engine.h"
#include "gateway/local/maintenance.h"
#include "gateway/local/prefix_service.h"
#include "gateway/runtime/sharing/shared_pins.h"
#include "store/shared/shared_map.h"

namespace kvgate::runtime::sharing {

// All of it outlives what OpenSharedPins returns. REQUIRES: the prefixes have a pin book.
struct EnginePins {
  store::shared::SharedMap& map;
  engine::Engine& engine;
  local::PrefixService& prefixes;
  local::Maintenance& maintenance;
};
std::unique_ptr<SharedPins> OpenSharedPins(const EnginePins& parts);

}  // namespace kvgate::runtime::sharing
