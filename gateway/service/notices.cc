#include "gateway/service/notices.h"

#include <algorithm>
#include <vector>

#include "base/digest.h"

namespace kvgate::service {
namespace {

std::string_view FirstTurn(const dialect::form::Prompt& prompt) {
  const auto* messages = std::get_if<std::vector<dialect::form::Message>>(&prompt);
  if (messages == nullptr) return {};
  const auto first = std::find_if(messages->begin(), messages->end(),
                                  [](const auto& message) { return message.role == "user"; });
  return first == messages->end() ? std::string_view() : std::string_view(first->content);
}

}  // namespace

bool Notices::IsFirst(std::string_view tenant, const dialect::form::Prompt& prompt,
                      std::string_view what) {
  return IsFirst(tenant, FirstTurn(prompt), what);
}

bool Notices::IsFirst(std::string_view tenant, std::string_view first_turn, std::string_view what) {
  Sha256 hash;
  for (const std::string_view part : {tenant, first_turn, what}) {
    hash.Update(std::to_string(part.size())).Update(":").Update(part);
  }
  std::string key = ToHex(hash.Finish().bytes);
  const std::lock_guard lock(mutex_);
  const auto [place, is_new] = known_.insert(std::move(key));
  if (!is_new) return false;
  order_.push_back(place);
  if (order_.size() > kKnownMax) {
    known_.erase(order_.front());
    order_.pop_front();
  }
  return true;
}

}  // namespace kvgate::service
