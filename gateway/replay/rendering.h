// Rendering: a request's body as a provider's cache sees it: its prompt in render order, piece by
// piece, and what keeps caches apart beside it. Reads JSON as the providers do: blanks do not
// count, the order of keys does. Pure; any thread.
//
// Nothing here is shared with gateway/prompt on purpose: what judges the optimizer must not make
// its mistakes. tests/support/prompt_cache.py renders the same way.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <kvgate/result.h>

#include "gateway/upstream/dialect.h"

namespace kvgate::replay {

enum class Part : uint8_t { kTools, kSystem, kMessages };

// A tool, a system block, a content block, or a message whose content is a text.
struct Item {
  Part part = Part::kMessages;
  std::string text = {};      // its JSON without a cache marker; of `instructions` the text itself
  bool ends_turn = false;     // the last of a user's or a tool's turn
  bool ends_message = false;  // the last of any message
  std::string unmarkable = {};  // why a cache marker on it is refused; empty: it is not
  // Of a cache marker, in seconds; without a ttl of its own its dialect's usual one.
  std::optional<int32_t> marker_ttl = {};
  int64_t num_tokens() const;
};

struct Rendering {
  std::string model;
  std::vector<Item> items;  // tools, system, messages
  // What changes everything from the first item of a part on, without being text of the prompt.
  std::array<std::string, 3> salts;
  std::string cache_key;                 // prompt_cache_key
  std::optional<int32_t> automatic_ttl;  // Anthropic's top-level cache_control, seconds
  bool has_cache_options = false;        // prompt_cache_options
  bool is_explicit = false;              // … with mode "explicit"
  int num_markers() const;
  // Anthropic's own servers leave the block out that its client signs requests with (V1); others
  // take it for text of the prompt.
  void DropBillingHeader();
};

// Four bytes a token, rounded up: crude, and the same for everyone.
inline constexpr int64_t kTokenBytes = 4;
int64_t CountTokens(size_t bytes);

// kInvalidArgument: no JSON object. Completions, Chat Completions, Responses and Messages; any
// other endpoint is read as Chat Completions.
Result<Rendering> Render(upstream::Endpoint endpoint, std::string_view body);

}  // namespace kvgate::replay
