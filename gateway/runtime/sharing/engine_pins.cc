#include "gateway/runtime/sharing/engine_pins.h"

#include "engine/tier/prefix_transfer.h"

namespace kvgate::runtime::sharing {

using store::meta::Pin;

std::unique_ptr<SharedPins> OpenSharedPins(const EnginePins& parts) {
  engine::Engine& engine = parts.engine;
  local::PrefixService& prefixes = parts.prefixes;
  local::Maintenance& maintenance = parts.maintenance;
  const Fingerprint fingerprint = engine.info().kv_fingerprint;
  const auto leaf_of = [&prefixes, fingerprint](const Pin& pin) {
    const auto keys =
        tier::PrefixKeys({.fingerprint = fingerprint, .seed = prefixes.parts().hash_seed},
                         prefixes.SaltOf(pin.tenant), pin.tokens);
    return store::kv::KvKey{.fingerprint = fingerprint, .hash = keys.back().hash};
  };
  const auto on_pinned = [&engine, &prefixes, &maintenance](const Pin& pin) {
    engine.Pin(prefixes.ToPinnedPrefix(pin, pin.priority));
    maintenance.BringInSoon(pin.leaf.hash);
  };
  const auto on_unpinned = [&engine, &prefixes](const Pin& pin) {
    engine.Pin(prefixes.ToPinnedPrefix(pin, 0));
  };
  return std::make_unique<SharedPins>(
      SharedPins::Options{}, SharedPins::Parts{.map = parts.map,
                                               .pins = *prefixes.parts().pins,
                                               .ring = *prefixes.parts().keyring,
                                               .kv_fingerprint = fingerprint,
                                               .model_fingerprint = engine.info().model_fingerprint,
                                               .leaf_of = leaf_of,
                                               .on_pinned = on_pinned,
                                               .on_unpinned = on_unpinned});
}

}  // namespace kvgate::runtime::sharing
