#include "gateway/session/prompts/remembered_prompt.h"

#include <vector>

#include "gateway/session/log/history.h"

namespace kvgate::session::prompts {

Result<std::optional<log::TurnPrompt>> RememberedPrompt(const log::SessionLog& log,
                                                        const log::SessionLog::Place& place) {
  using Found = std::optional<log::TurnPrompt>;
  if (!log.keeps()) return Found();
  const Result<log::SessionLog::Root> root = log.Find(place);
  if (!root && root.error().code == ErrorCode::kNotFound) return Found();
  if (!root) return root.error();
  KVGATE_TRY(const auto head, log.Head(place, *root));
  if (!head) return Found();
  KVGATE_TRY(const std::vector<log::LoggedTurn> turns,
             log.Load(place, *root, head->id, log::SessionLog::Reach::kPrompt));
  return Found(log::HistoryOf(turns).prompt);
}

}  // namespace kvgate::session::prompts
