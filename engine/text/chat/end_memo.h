// EndMemo: caches where the messages of conversations end, so that a conversation that grows by a
// turn does not render all its prefixes again.
//
// The end e of message i is the length of the longest common prefix of P, the rendering up to
// message i, and W, the whole rendering. P depends only on the messages up to i; only W is new. Let
// W' be the whole rendering of a cached conversation with the same messages up to i, e' the end of
// i in it, and c the length of the longest common prefix of W and W'. Then
//   e' < c                    e = e': P leaves W' or ends at e', and W equals W' up to c.
//   e' > c                    e = c: P equals W' at c, where W differs.
//   e' = c, and P ends at e'  e = c.
//   e' = c otherwise          P leaves W' at c, perhaps to agree with W: it must be rendered again.
// So a turn costs one rendering of the whole and one of each new prefix.
//
// Keyed by chained XXH3-128 with a seed per process: a collision can only move ends, never change
// text. Thread-safe: one mutex, held for look-ups and copies of a few bytes per message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"

namespace kvgate::chat {

using ConversationHash = Hash128<struct ConversationHashTag>;

class EndMemo {
 public:
  struct Options {
    size_t conversations_max = 64;
    size_t text_bytes_max = size_t{64} << 20;  // total of the cached renderings
  };
  // The end of one message: an offset in the whole rendering, and if the message's own rendering
  // ends there or continues differently.
  struct End {
    size_t offset = 0;
    bool is_whole = false;
    friend bool operator==(const End&, const End&) = default;
  };
  using Ends = std::vector<std::optional<End>>;  // one per message; absent: unknown

  explicit EndMemo(const Options& options) : options_(options) {}

  // Returns the known ends in `text`, the whole rendering of a conversation. `chain` holds the hash
  // of each of its prefixes, one per message.
  Ends Find(const std::vector<ConversationHash>& chain, std::string_view text);
  // Stores the conversation, in place of an earlier one that it continues.
  void Keep(std::vector<ConversationHash> chain, std::string_view text, Ends ends);

 private:
  struct Conversation {
    std::vector<ConversationHash> chain;
    std::string text;
    Ends ends;
  };

  Options options_;
  std::mutex mutex_;
  std::list<std::shared_ptr<const Conversation>> conversations_;  // most recently used first
  size_t text_bytes_ = 0;
};

// Returns the length in bytes of the longest common prefix that consists of whole UTF-8 characters.
size_t CommonPrefix(std::string_view a, std::string_view b);

}  // namespace kvgate::chat
