#include "gateway/prompt/templates/template.h"

#include <fmt/format.h>

#include "gateway/prompt/templates/masked_line.h"

namespace kvgate::prompt::templates {
namespace {

// A slot changes between moving and staying only if this much is won, because the change itself
// costs every conversation's prefix once.
constexpr uint64_t kDecisionFactor = 2;

}  // namespace

size_t Template::num_bytes() const {
  return sizeof(Template) + sizeof(Slot) + pattern.size() +
         slot->form.tokens.size() * sizeof(uint64_t) + 256;  // with its places in the indexes
}

bool ShouldMove(const Template& it, bool moves_now) {
  const uint64_t staying = (uint64_t{it.begun_changed} + 1) * it.stake_tokens;
  const uint64_t moving = (uint64_t{it.begun} + 1) * it.line_tokens;
  return moves_now ? staying * kDecisionFactor >= moving : staying >= moving * kDecisionFactor;
}

std::string LineOf(const Template& it) {
  std::string line;
  for (const char c : it.pattern) {
    if (c == kMark) {
      line += "<*>";
    } else {
      line += c;
    }
  }
  return line;
}

std::string WhyOf(const Template& it) {
  if (!it.is_slot) {
    return fmt::format("stays as written: its words changed {} of 3 times", it.word_changes);
  }
  const std::string seen =
      fmt::format("{} of {} conversations began with another line", it.begun_changed, it.begun);
  return it.slot->moves
             ? fmt::format("moves behind the stable prefix: {}, and {} tokens are lost with it",
                           it.begun == 0 ? "it changes within conversations" : seen,
                           it.stake_tokens)
             : fmt::format(
                   "stays in its place: {}, and the {} tokens lost with it cost less than "
                   "its own {} in each",
                   seen, it.stake_tokens, it.line_tokens);
}

}  // namespace kvgate::prompt::templates
