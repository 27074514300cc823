// EndMemo: where the messages of conversations end, remembered, so that a conversation which grows
// by a turn does not render all its prefixes again.
//
// The end of message i is the length of the longest common prefix of P, the rendering up to message
// i alone, and W, the whole rendering. P is a function of the messages up to i; only W is new. Let
// W' be the whole rendering of a conversation remembered, which has the same messages up to i, e'
// the end of i in it, and c the length of the longest common prefix of W and W'. Then
//   e' < c                  e = e': P leaves W' at e', or ends there, and W is W' there.
//   e' > c                  e = c: P is W' at c, where W is not.
//   e' = c, and P ends at e'  e = c.
//   e' = c otherwise        P leaves both at c, perhaps to agree with W: it must be rendered again.
// So a turn costs the rendering of the whole and of the prefixes that are new.
//
// Keyed by chained XXH3-128 with a seed of this process: the memo decides no text, only ends.
// Thread-safe: one mutex, held for lookups and copies of a few bytes a message.
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

#include <kvgate/ids.h>

namespace kvgate::chat {

using ConversationHash = Hash128<struct ConversationHashTag>;

class EndMemo {
 public:
  struct Options {
    size_t conversations_max = 64;
    size_t text_bytes_max = size_t{64} << 20;  // of the renderings that are kept
  };
  // Of one message: a place in the whole rendering, and whether the message's own rendering ends
  // there or goes on differently.
  struct End {
    size_t offset = 0;
    bool is_whole = false;
    friend bool operator==(const End&, const End&) = default;
  };
  using Ends = std::vector<std::optional<End>>;  // one for each message; absent: not known

  explicit EndMemo(const Options& options) : options_(options) {}

  // What is known of the ends in `text`, the whole rendering of the conversation whose prefixes
  // hash to `chain`, one a message.
  Ends Find(const std::vector<ConversationHash>& chain, std::string_view text);
  // Remembers, in place of a conversation that this one goes on from.
  void Keep(std::vector<ConversationHash> chain, std::string_view text, Ends ends);

 private:
  struct Conversation {
    std::vector<ConversationHash> chain;
    std::string text;
    Ends ends;
  };

  Options options_;
  std::mutex mutex_;
  std::list<std::shared_ptr<const Conversation>> conversations_;  // the latest used first
  size_t text_bytes_ = 0;
};

// The length of the longest common prefix, in whole UTF-8 characters.
size_t CommonPrefix(std::string_view a, std::string_view b);

}  // namespace kvgate::chat
