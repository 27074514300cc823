#include "gateway/session/prompts/recent_uses.h"

#include <fmt/format.h>

#include "base/digest.h"

namespace kvgate::session::prompts {
namespace {

constexpr size_t kKeyBytes = 16;

// A model's name may be as long as a body, so it is hashed.
std::string KeyOf(std::string_view tenant, const PromptName& id, std::string_view model) {
  const std::string head = fmt::format("{} {} ", LabelOf(id), tenant.size());
  const PrefixDigest digest = ThreadSha256().Update(head).Update(tenant).Update(model).Finish();
  return {reinterpret_cast<const char*>(digest.bytes.data()), kKeyBytes};
}

}  // namespace

bool RecentUses::Note(std::string_view tenant, const PromptName& id, std::string_view model,
                      int64_t now_us) {
  const std::string key = KeyOf(tenant, id, model);
  const std::lock_guard lock(mutex_);
  int64_t& last_us = last_us_.FindOrAdd(key);
  const bool is_recent = last_us > 0 && now_us - last_us < kRecentUs;
  last_us = now_us;
  return is_recent;
}

}  // namespace kvgate::session::prompts
