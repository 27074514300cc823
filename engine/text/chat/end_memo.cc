#include "engine/text/chat/end_memo.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/utf8.h"

namespace kvgate::chat {
namespace {

size_t CommonLength(const std::vector<ConversationHash>& a,
                    const std::vector<ConversationHash>& b) {
  // The hashes are chained, so if two are equal, all before them are.
  size_t low = 0;
  size_t high = std::min(a.size(), b.size());
  while (low < high) {
    const size_t middle = (low + high + 1) / 2;
    if (a[middle - 1] == b[middle - 1]) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

}  // namespace

size_t CommonPrefix(std::string_view a, std::string_view b) {
  constexpr size_t kStride = 4096;  // memcmp is fast, but does not say where it differs
  const size_t size = std::min(a.size(), b.size());
  size_t at = 0;
  while (at + kStride <= size && std::memcmp(a.data() + at, b.data() + at, kStride) == 0) {
    at += kStride;
  }
  while (at < size && a[at] == b[at]) ++at;
  const auto inside = [&](std::string_view text) {
    return at < text.size() && IsUtf8Continuation(text[at]);
  };
  while (at > 0 && (inside(a) || inside(b))) --at;
  return at;
}

EndMemo::Ends EndMemo::Find(const std::vector<ConversationHash>& chain, std::string_view text) {
  std::shared_ptr<const Conversation> best;
  size_t common = 0;
  {
    const std::lock_guard lock(mutex_);
    auto found = conversations_.end();
    for (auto it = conversations_.begin(); it != conversations_.end(); ++it) {
      const size_t length = CommonLength((*it)->chain, chain);
      if (length <= common) continue;
      common = length;
      found = it;
    }
    if (found == conversations_.end()) return Ends(chain.size());
    conversations_.splice(conversations_.begin(), conversations_, found);
    best = *found;
  }
  Ends ends(chain.size());
  const size_t same = CommonPrefix(best->text, text);
  for (size_t i = 0; i < common; ++i) {
    const std::optional<End>& end = best->ends[i];
    if (!end) continue;
    if (end->offset < same) {
      ends[i] = end;
    } else if (end->offset > same) {
      ends[i] = End{.offset = same, .is_whole = false};
    } else if (end->is_whole) {
      ends[i] = end;
    }
  }
  return ends;
}

void EndMemo::Keep(std::vector<ConversationHash> chain, std::string_view text, Ends ends) {
  if (text.size() > options_.text_bytes_max / 4) return;
  auto kept = std::make_shared<const Conversation>(
      Conversation{.chain = std::move(chain), .text = std::string(text), .ends = std::move(ends)});
  const std::lock_guard lock(mutex_);
  const auto replaced =
      std::find_if(conversations_.begin(), conversations_.end(), [&](const auto& old) {
        return old->chain.size() <= kept->chain.size() &&
               CommonLength(old->chain, kept->chain) == old->chain.size();
      });
  if (replaced != conversations_.end()) {
    text_bytes_ -= (*replaced)->text.size();
    conversations_.erase(replaced);
  }
  text_bytes_ += text.size();
  conversations_.push_front(std::move(kept));
  while (conversations_.size() > options_.conversations_max ||
         text_bytes_ > options_.text_bytes_max) {
    text_bytes_ -= conversations_.back()->text.size();
    conversations_.pop_back();
  }
}

}  // namespace kvgate::chat
