// The slots of a cluster: which one a key has, which node holds which, and what a node says when it
// does not hold one. Source:
// https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "store/remote/resp_protocol.h"
#include "store/remote/resp_url.h"

namespace kvgate::store::remote {

inline constexpr size_t kNumSlots = 16'384;

// CRC16 (XMODEM) of the key, or of its first part in braces if that is not empty, modulo kNumSlots.
uint16_t HashSlot(std::string_view key);

class SlotMap {
 public:
  static constexpr size_t kNodesMax = 1000;

  // Every slot is without a node.
  SlotMap();
  // Reads the reply to CLUSTER SLOTS of the node `asked`, whose host stands where the reply names
  // none. Replicas are left out. Fails with kUnavailable if it is an error, with kDataLoss if it is
  // something else.
  static Result<SlotMap> Parse(const RespReply& reply, const RespEndpoint& asked);

  // Null if no node is known to hold the slot.
  const RespEndpoint* Find(uint16_t slot) const;
  // From now on the node holds the slot. It changes nothing if there are kNodesMax others.
  void Assign(uint16_t slot, const RespEndpoint& node);
  const std::vector<RespEndpoint>& nodes() const { return nodes_; }

 private:
  std::optional<uint16_t> IndexOf(const RespEndpoint& node);

  std::vector<RespEndpoint> nodes_;
  std::vector<uint16_t> node_of_slot_;  // its index plus 1; 0: unknown
};

// A reply that names another node for a command.
struct SlotRedirect {
  bool is_ask = false;  // for this one command, which ASKING precedes; else for the slot
  uint16_t slot = 0;
  RespEndpoint node;
};
// Reads "MOVED 3999 10.0.0.1:6379" or "ASK ..." of the node `asked`, whose host stands where the
// message names none. Returns nothing if the reply is something else.
std::optional<SlotRedirect> ReadRedirect(const RespReply& reply, const RespEndpoint& asked);

}  // namespace kvgate::store::remote
