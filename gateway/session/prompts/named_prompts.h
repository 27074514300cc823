// NamedPrompts: the prompts of a running gateway: the versions of its configuration, those that
// were set by the API, and what began with which of them. Thread-safe; what changes the set ones
// waits for the disk.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gateway/session/prompts/beginnings.h"
#include "gateway/session/prompts/prompt_library.h"
#include "gateway/session/prompts/prompt_rows.h"
#include "gateway/session/prompts/recent_uses.h"
#include "store/meta/meta_store.h"

namespace kvgate::session::prompts {

class NamedPrompts {
 public:
  // `meta` may be null: then nothing can be set. It must outlive this object. Fails as Check does,
  // and if the rows cannot be read.
  static Result<std::unique_ptr<NamedPrompts>> Open(store::meta::MetaStore* meta,
                                                    std::vector<PromptVersion> configured);

  std::shared_ptr<const PromptLibrary> library() const;
  Beginnings& beginnings() { return beginnings_; }
  RecentUses& uses() { return uses_; }

  // Fails with kInvalidArgument if these cannot become the configuration's: one says something else
  // than the same version does now, or their shares and the set ones' are more than 1 together.
  Result<void> Check(const std::vector<PromptVersion>& configured) const;
  // Replaces the configuration's; what Check refuses is refused.
  Result<void> Configure(std::vector<PromptVersion> configured);

  // Sets a version, or the share of one that is set already. Returns it as it is now. Fails with
  // kSessionSource (409) for one that says something else already, or is the configuration's and
  // would get another share, with kInvalidArgument as PromptLibrary::Make does, and with
  // kUnavailable if nothing is kept.
  Result<PromptVersion> Set(PromptVersion version);
  // Removes a set version; all set ones of the name if it says none. Returns how many were. Fails
  // with kNotFound if there is none, and with kSessionSource for one of the configuration.
  Result<size_t> Remove(const PromptName& name);

 private:
  explicit NamedPrompts(store::meta::MetaStore* meta) : rows_(meta) {}
  // What the library would be. REQUIRES: the lock is held.
  Result<std::shared_ptr<const PromptLibrary>> Merge(const std::vector<PromptVersion>& configured,
                                                     const std::vector<PromptVersion>& set) const;
  Result<std::shared_ptr<const PromptLibrary>> Checked(
      const std::vector<PromptVersion>& configured) const;

  PromptRows rows_;
  Beginnings beginnings_;
  RecentUses uses_;
  std::mutex changing_;       // held while rows are written
  mutable std::mutex mutex_;  // of what follows
  std::vector<PromptVersion> configured_;
  std::vector<PromptVersion> set_;
  std::shared_ptr<const PromptLibrary> library_ = std::make_shared<PromptLibrary>();
};

}  // namespace kvgate::session::prompts
