#include "gateway/session/retrieval/embedding_work.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.h"

namespace kvgate::session::retrieval {
namespace {

bool HaveDimensions(std::span<const Meaning> meanings, size_t dimensions) {
  return std::all_of(meanings.begin(), meanings.end(), [&](const Meaning& one) {
    return dimensions == 0 || !one.is_known() || one.dimensions() == dimensions;
  });
}

}  // namespace

Result<void> EmbeddingWork::Plan() {
  std::vector<TurnTexts> wanted;
  size_t num_texts = 0;
  size_t bytes = 0;
  for (TurnTexts& turn : args_.turns) {
    KVGATE_TRY(
        const std::optional<std::vector<Meaning>> kept,
        args_.book.Get({.tenant = args_.tenant, .session = args_.key}, turn.turn, turn.texts));
    if (kept && HaveDimensions(*kept, args_.dimensions)) continue;
    num_texts += turn.texts.size();
    for (const std::string& text : turn.texts) bytes += text.size();
    if (!wanted.empty() && (num_texts > kTextsMax || bytes > kBytesMax)) break;
    wanted.push_back(std::move(turn));
  }
  args_.turns = std::move(wanted);
  made_.resize(args_.turns.size());
  return {};
}

std::vector<std::string> EmbeddingWork::Next() {
  std::vector<std::string> texts;
  size_t bytes = 0;
  for (size_t i = num_stored_; i < args_.turns.size(); ++i) {
    const std::vector<std::string>& all = args_.turns[i].texts;
    for (size_t k = made_[i].size(); k < all.size(); ++k) {
      bytes += all[k].size();
      const bool is_full =
          texts.size() >= kRequestTextsMax || (!texts.empty() && bytes > kRequestBytesMax);
      if (is_full) {
        num_asked_ = texts.size();
        return texts;
      }
      texts.push_back(all[k]);
    }
  }
  num_asked_ = texts.size();
  return texts;
}

void EmbeddingWork::Take(std::vector<Meaning> meanings) {
  KVGATE_CHECK(meanings.size() == num_asked_, "one for each text that was asked for");
  size_t next = 0;
  for (size_t i = num_stored_; i < args_.turns.size(); ++i) {
    while (made_[i].size() < args_.turns[i].texts.size() && next < meanings.size()) {
      made_[i].push_back(std::move(meanings[next++]));
    }
  }
  num_asked_ = 0;
}

Result<void> EmbeddingWork::Store() {
  while (num_stored_ < args_.turns.size() &&
         made_[num_stored_].size() == args_.turns[num_stored_].texts.size()) {
    const TurnTexts& turn = args_.turns[num_stored_];
    KVGATE_TRY_VOID(args_.book.Put({.tenant = args_.tenant, .session = args_.key}, turn.turn,
                                   turn.texts, made_[num_stored_]));
    made_[num_stored_] = {};
    args_.turns[num_stored_].texts = {};
    ++num_stored_;
  }
  return {};
}

}  // namespace kvgate::session::retrieval
