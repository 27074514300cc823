#include "gateway/session/prompts/beginnings.h"

#include <fmt/format.h>

#include "base/digest.h"

namespace kvgate::session::prompts {
namespace {

constexpr size_t kKeyBytes = 16;

// What is said in a conversation is not kept, so neither does its name here hold it.
std::string KeyOf(std::string_view name, const Conversation& conversation,
                  std::string_view answered) {
  const std::string head = fmt::format("{} {} {} {} ", conversation.tenant.size(), name.size(),
                                       conversation.opening.size(), answered.size());
  const PrefixDigest digest = ThreadSha256()
                                  .Update(head)
                                  .Update(conversation.tenant)
                                  .Update(name)
                                  .Update(conversation.opening)
                                  .Update(answered)
                                  .Finish();
  return {reinterpret_cast<const char*>(digest.bytes.data()), kKeyBytes};
}

}  // namespace

const PromptVersion* Beginnings::Choose(const PromptLibrary& library, std::string_view name,
                                        const Conversation& conversation) {
  const std::string begun = KeyOf(name, conversation, "");
  const PromptVersion* drawn =
      library.Draw(name, PlaceOf(conversation.tenant, name, conversation.opening));
  if (drawn == nullptr) return nullptr;
  const std::lock_guard lock(mutex_);
  if (conversation.answered.empty()) {
    versions_.FindOrAdd(begun) = drawn->id.version;
    return drawn;
  }
  const auto known = [&](const std::string& key) -> const PromptVersion* {
    const std::string* const version = versions_.Find(key);
    if (version == nullptr) return nullptr;
    return library.Find({.name = std::string(name), .version = *version});
  };
  const std::string branch = KeyOf(name, conversation, conversation.answered);
  const PromptVersion* found = known(branch);
  if (found == nullptr) found = known(begun);
  if (found == nullptr) found = drawn;
  versions_.FindOrAdd(branch) = found->id.version;
  return found;
}

}  // namespace kvgate::session::prompts
