#include "gateway/session/prompts/named_prompts.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/clock.h"
#include "gateway/dialect/form/errors.h"

namespace kvgate::session::prompts {
namespace {

constexpr std::string_view kSource = "session.prompts";

Error Conflict(std::string why) {
  return MakeError(ErrorCode::kUnavailable, std::string(dialect::form::kSessionSource),
                   std::move(why));
}

const PromptVersion* FindIn(const std::vector<PromptVersion>& versions, const PromptName& id) {
  const auto found = std::find_if(versions.begin(), versions.end(),
                                  [&](const PromptVersion& version) { return version.id == id; });
  return found == versions.end() ? nullptr : &*found;
}

}  // namespace

Result<std::unique_ptr<NamedPrompts>> NamedPrompts::Open(store::meta::MetaStore* meta,
                                                         std::vector<PromptVersion> configured) {
  std::unique_ptr<NamedPrompts> prompts(new NamedPrompts(meta));
  KVGATE_TRY(prompts->set_, prompts->rows_.Load());
  KVGATE_TRY_VOID(prompts->Configure(std::move(configured)));
  return prompts;
}

std::shared_ptr<const PromptLibrary> NamedPrompts::library() const {
  const std::lock_guard lock(mutex_);
  return library_;
}

// A version that both have is the configuration's; Checked has seen that both say the same.
Result<std::shared_ptr<const PromptLibrary>> NamedPrompts::Merge(
    const std::vector<PromptVersion>& configured, const std::vector<PromptVersion>& set) const {
  std::vector<PromptVersion> all = configured;
  for (const PromptVersion& version : set) {
    if (FindIn(configured, version.id) == nullptr) all.push_back(version);
  }
  return PromptLibrary::Make(std::move(all));
}

Result<std::shared_ptr<const PromptLibrary>> NamedPrompts::Checked(
    const std::vector<PromptVersion>& configured) const {
  for (const PromptVersion& version : configured) {
    for (const auto* others : {&configured_, &set_}) {
      const PromptVersion* const other = FindIn(*others, version.id);
      if (other == nullptr || other->text == version.text) continue;
      return MakeError(ErrorCode::kInvalidArgument, std::string(kSource),
                       fmt::format("prompt.file: {} says something else {}; what a version says "
                                   "never changes, so give the new text a new prompt.version",
                                   LabelOf(version.id),
                                   others == &set_ ? "in the data directory, where the API set it"
                                                   : "in the running gateway"));
    }
  }
  Result<std::shared_ptr<const PromptLibrary>> library = Merge(configured, set_);
  if (library) return library;
  Error error = library.error();
  error.detail = "[[prompt]]: " + error.detail;
  return error;
}

Result<void> NamedPrompts::Check(const std::vector<PromptVersion>& configured) const {
  const std::lock_guard lock(mutex_);
  KVGATE_TRY_VOID(Checked(configured));
  return {};
}

Result<void> NamedPrompts::Configure(std::vector<PromptVersion> configured) {
  for (PromptVersion& version : configured) version.is_configured = true;
  const std::lock_guard changing(changing_);
  const std::lock_guard lock(mutex_);
  KVGATE_TRY(library_, Checked(configured));
  configured_ = std::move(configured);
  return {};
}

Result<PromptVersion> NamedPrompts::Set(PromptVersion version) {
  const std::lock_guard changing(changing_);
  std::vector<PromptVersion> set;
  std::shared_ptr<const PromptLibrary> library;
  {
    const std::lock_guard lock(mutex_);
    if (const PromptVersion* const other = library_->Find(version.id)) {
      if (version.text.empty()) version.text = other->text;
      if (other->text != version.text) {
        return Conflict(
            fmt::format("{} says something else already, and what a version says never "
                        "changes: give the new text a new version.",
                        LabelOf(version.id)));
      }
      if (other->is_configured && other->share != version.share) {
        return Conflict(
            fmt::format("{} is the configuration's, and so is its share.", LabelOf(version.id)));
      }
      const std::optional<double> share = version.share;
      version = *other;
      version.share = share;
      if (version == *other) return version;
    } else if (version.text.empty()) {
      return MakeError(ErrorCode::kInvalidArgument, std::string(kSource),
                       "Missing required parameter: 'text'.", "text");
    } else {
      version.created_us = WallClock::NowUs();
    }
    set = set_;
    std::erase_if(set, [&](const PromptVersion& other) { return other.id == version.id; });
    set.push_back(version);
    KVGATE_TRY(library, Merge(configured_, set));
  }
  KVGATE_TRY_VOID(rows_.Put(version));
  const std::lock_guard lock(mutex_);
  set_ = std::move(set);
  library_ = std::move(library);
  return version;
}

Result<size_t> NamedPrompts::Remove(const PromptName& name) {
  const std::lock_guard changing(changing_);
  const auto is_meant = [&](const PromptVersion& version) {
    return version.id.name == name.name &&
           (name.version.empty() || version.id.version == name.version);
  };
  std::vector<PromptVersion> set;
  std::vector<PromptName> gone;
  std::shared_ptr<const PromptLibrary> library;
  {
    const std::lock_guard lock(mutex_);
    for (const PromptVersion& version : set_) {
      if (is_meant(version)) {
        gone.push_back(version.id);
      } else {
        set.push_back(version);
      }
    }
    const bool is_configured = std::any_of(configured_.begin(), configured_.end(), is_meant);
    if (gone.empty() && is_configured) {
      return Conflict(
          fmt::format("{} is the configuration's: take its [[prompt]] out there.", LabelOf(name)));
    }
    if (gone.empty()) {
      return MakeError(ErrorCode::kNotFound, std::string(kSource),
                       fmt::format("There is no prompt '{}'.", LabelOf(name)));
    }
    KVGATE_TRY(library, Merge(configured_, set));
  }
  KVGATE_TRY_VOID(rows_.Remove(gone));
  const std::lock_guard lock(mutex_);
  set_ = std::move(set);
  library_ = std::move(library);
  return gone.size();
}

}  // namespace kvgate::session::prompts
