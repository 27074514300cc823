// PromptRows: the versions of prompts that were set by the API, as rows of the data directory
// (store/FORMAT.md): sealed, and named by secrets, so that the disk tells neither a name nor a
// text. Waits for the disk; the owner locks.
#pragma once

#include <vector>

#include "base/result.h"
#include "gateway/session/prompts/prompt_library.h"
#include "store/meta/meta_store.h"

namespace kvgate::session::prompts {

class PromptRows {
 public:
  // `meta` may be null, in which case none are kept. It must outlive this object.
  explicit PromptRows(store::meta::MetaStore* meta) : meta_(meta) {}

  // Reads all of them. Rows that were sealed with an older secret are sealed anew; those whose
  // secret is not there stay, and are logged as absent, as damaged ones are.
  Result<std::vector<PromptVersion>> Load();
  // Durable on return. Fail with kUnavailable if none are kept.
  Result<void> Put(const PromptVersion& version);
  Result<void> Remove(const std::vector<PromptName>& names);

 private:
  store::meta::MetaStore* const meta_;
};

}  // namespace kvgate::session::prompts
