#include "store/remote/hash_slots.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <span>
#include <string>
#include <utility>

namespace kvgate::store::remote {
namespace {

constexpr size_t kHostBytesMax = 253;  // of a name in the DNS
constexpr uint16_t kPolynomial = 0x1021;

constexpr std::array<uint16_t, 256> MakeTable() {
  std::array<uint16_t, 256> table{};
  for (size_t byte = 0; byte < table.size(); ++byte) {
    auto value = static_cast<uint16_t>(byte << 8);
    for (int bit = 0; bit < 8; ++bit) {
      const bool carries = (value & 0x8000) != 0;
      value = static_cast<uint16_t>(value << 1);
      if (carries) value ^= kPolynomial;
    }
    table[byte] = value;
  }
  return table;
}
constexpr std::array<uint16_t, 256> kTable = MakeTable();

uint16_t Crc16(std::string_view bytes) {
  uint16_t value = 0;
  for (const char byte : bytes) {
    const auto index = static_cast<uint8_t>((value >> 8) ^ static_cast<uint8_t>(byte));
    value = static_cast<uint16_t>((value << 8) ^ kTable[index]);
  }
  return value;
}

std::optional<uint16_t> ReadNumber(std::string_view text) {
  uint16_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Error NoSlots(ErrorCode code, std::string_view why, const RespEndpoint& asked) {
  return MakeError(code, "store.remote",
                   fmt::format("{}: the reply to CLUSTER SLOTS {}", asked.ToString(), why));
}

// What a server names may become a part of messages, and is looked up.
bool IsHost(std::string_view host) {
  return !host.empty() && host.size() <= kHostBytesMax && host != "?" &&
         std::ranges::all_of(host, [](char c) { return c > ' ' && c < 0x7f; });
}

bool IsSlot(const RespReply& reply) {
  return reply.is_integer() && reply.integer >= 0 &&
         reply.integer < static_cast<int64_t>(kNumSlots);
}

// [host, port, id, ...]: a null or empty host is that of who was asked, "?" is none that is known.
std::optional<RespEndpoint> ReadNode(const RespReply& reply, const RespEndpoint& asked) {
  if (!reply.is_array() || reply.items.size() < 2 || !reply.items[1].is_integer()) {
    return std::nullopt;
  }
  const RespReply& host = reply.items[0];
  const int64_t port = reply.items[1].integer;
  if (port < 1 || port > 65'535 || !(host.is_text() || host.is_null())) return std::nullopt;
  RespEndpoint node{.host = host.text.empty() ? asked.host : host.text,
                    .port = static_cast<uint16_t>(port)};
  if (!IsHost(node.host)) return std::nullopt;
  return node;
}

}  // namespace

uint16_t HashSlot(std::string_view key) {
  if (const size_t open = key.find('{'); open != std::string_view::npos) {
    const size_t close = key.find('}', open + 1);
    if (close != std::string_view::npos && close > open + 1) {
      key = key.substr(open + 1, close - open - 1);
    }
  }
  return Crc16(key) % kNumSlots;
}

SlotMap::SlotMap() : node_of_slot_(kNumSlots) {}

Result<SlotMap> SlotMap::Parse(const RespReply& reply, const RespEndpoint& asked) {
  if (reply.is_error()) return NoSlots(ErrorCode::kUnavailable, "is " + reply.text, asked);
  if (!reply.is_array()) return NoSlots(ErrorCode::kDataLoss, "is no array", asked);
  SlotMap map;
  for (const RespReply& range : reply.items) {
    if (!range.is_array() || range.items.size() < 3 || !IsSlot(range.items[0]) ||
        !IsSlot(range.items[1])) {
      return NoSlots(ErrorCode::kDataLoss, "has a range without slots or node", asked);
    }
    const std::optional<RespEndpoint> node = ReadNode(range.items[2], asked);
    const std::optional<uint16_t> index = node ? map.IndexOf(*node) : std::nullopt;
    if (!index) continue;
    for (int64_t slot = range.items[0].integer; slot <= range.items[1].integer; ++slot) {
      map.node_of_slot_[static_cast<size_t>(slot)] = *index;
    }
  }
  return map;
}

const RespEndpoint* SlotMap::Find(uint16_t slot) const {
  const uint16_t index = node_of_slot_[slot % kNumSlots];
  return index == 0 ? nullptr : &nodes_[index - 1];
}

void SlotMap::Assign(uint16_t slot, const RespEndpoint& node) {
  if (const auto index = IndexOf(node)) node_of_slot_[slot % kNumSlots] = *index;
}

std::optional<uint16_t> SlotMap::IndexOf(const RespEndpoint& node) {
  auto found = std::ranges::find(nodes_, node);
  if (found == nodes_.end()) {
    if (nodes_.size() == kNodesMax) return std::nullopt;
    nodes_.push_back(node);
    found = nodes_.end() - 1;
  }
  return static_cast<uint16_t>(found - nodes_.begin() + 1);
}

std::optional<SlotRedirect> ReadRedirect(const RespReply& reply, const RespEndpoint& asked) {
  if (!reply.is_error()) return std::nullopt;
  std::string_view text = reply.text;
  const bool is_ask = text.starts_with("ASK ");
  if (!is_ask && !text.starts_with("MOVED ")) return std::nullopt;
  text.remove_prefix(text.find(' ') + 1);
  const size_t space = text.find(' ');
  const size_t colon = text.rfind(':');  // the last one: IPv6 comes without brackets
  if (space == std::string_view::npos || colon == std::string_view::npos || colon < space) {
    return std::nullopt;
  }
  const auto slot = ReadNumber(text.substr(0, space));
  const auto port = ReadNumber(text.substr(colon + 1));
  std::string_view host = text.substr(space + 1, colon - space - 1);
  if (host.empty()) host = asked.host;
  if (!slot || *slot >= kNumSlots || !port || *port == 0 || !IsHost(host)) return std::nullopt;
  return SlotRedirect{
      .is_ask = is_ask, .slot = *slot, .node = {.host = std::string(host), .port = *port}};
}

}  // namespace kvgate::store::remote
