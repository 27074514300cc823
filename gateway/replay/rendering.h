// A Rendering is a request's body as a provider's cache sees it: the prompt in render order, piece
// by piece, and the values that separate caches. It reads JSON as providers do: white space does
// not count, the order of keys does. Pure; any thread may call it.
//
// It deliberately shares no code with gateway/prompt, because a judge of the optimizer must not
// repeat its mistakes. tests/support/prompt_cache.py renders the same way.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gateway/dialect/form/dialect.h"

namespace kvgate::replay {

enum class Part : uint8_t { kTools, kSystem, kMessages };

// A tool, a system block, a content block, or a message whose content is a text.
struct Item {
  Part part = Part::kMessages;
  std::string text = {};        // its JSON without a breakpoint; `instructions` as plain text
  bool ends_turn = false;       // last item of a user or tool turn
  bool ends_message = false;    // last item of any message
  std::string unmarkable = {};  // why a breakpoint on it is refused; empty: it is not
  // The TTL of its breakpoint in seconds, by default the dialect's usual one; nullopt: no
  // breakpoint.
  std::optional<int32_t> breakpoint_ttl = {};
  int64_t num_tokens() const;
};

struct Rendering {
  std::string model;
  std::vector<Item> items;  // tools, system, messages
  // Values that are not prompt text, but whose change loses everything from the first item of a
  // part on.
  std::array<std::string, 3> salts;
  std::string cache_key;                 // prompt_cache_key
  std::optional<int32_t> automatic_ttl;  // of Anthropic's top-level cache_control, in seconds
  bool has_cache_options = false;        // prompt_cache_options
  bool is_explicit = false;              // prompt_cache_options has the mode "explicit"
  int num_breakpoints() const;
  // Anthropic's own servers leave out the block with which its client signs requests; others treat
  // it as prompt text. A block or text that goes on behind the header's line is kept.
  void DropBillingHeader();
};

// Counts four bytes per token, rounded up: crude, but the same for every column.
inline constexpr int64_t kTokenBytes = 4;
int64_t CountTokens(size_t bytes);

// Reads Completions, Chat Completions, Responses and Messages; any other endpoint is read as Chat
// Completions. Fails with kInvalidArgument if the body is no JSON object.
Result<Rendering> Render(dialect::form::Endpoint endpoint, std::string_view body);

}  // namespace kvgate::replay
