#include "gateway/session/prompts/prompt_library.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/digest.h"
#include "base/utf8.h"
#include "gateway/session/prompts/prompt_values.h"

namespace kvgate::session::prompts {
namespace {

constexpr std::string_view kSource = "session.prompts";
constexpr double kShareSlack = 1e-9;  // sums of shares are exact to this

Error Wrong(std::string_view field, std::string why) {
  return MakeError(ErrorCode::kInvalidArgument, std::string(kSource),
                   fmt::format("Invalid value for '{}': {}", field, why), std::string(field));
}

}  // namespace

Result<PromptVersion> MakeVersion(PromptName id, std::string_view text,
                                  std::optional<double> share) {
  while (text.ends_with('\n') || text.ends_with('\r')) text.remove_suffix(1);
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    return Wrong("text", "the text of a prompt is not empty.");
  }
  if (text.size() > kTextBytesMax) {
    return Wrong("text",
                 fmt::format("it has {} bytes, the limit is {}.", text.size(), kTextBytesMax));
  }
  if (!IsValidUtf8(text)) return Wrong("text", "it is no UTF-8.");
  if (share && !(*share >= 0 && *share <= 1)) {
    return Wrong("share", "it is a number from 0 to 1.");
  }
  PromptVersion version{.id = std::move(id),
                        .text = std::string(text),
                        .variables = VariablesOf(text),
                        .share = share};
  if (version.variables.size() > kVariablesMax) {
    return Wrong("text", fmt::format("it has {} variables, the limit is {}.",
                                     version.variables.size(), kVariablesMax));
  }
  return version;
}

Result<std::shared_ptr<const PromptLibrary>> PromptLibrary::Make(
    std::vector<PromptVersion> versions) {
  if (versions.size() > kVersionsMax) {
    return MakeError(ErrorCode::kOverloaded, std::string(kSource),
                     fmt::format("There are {} versions of prompts, the limit is {}: remove some.",
                                 versions.size(), kVersionsMax));
  }
  std::sort(versions.begin(), versions.end(), [](const PromptVersion& a, const PromptVersion& b) {
    return a.id.name != b.id.name ? a.id.name < b.id.name : IsOlder(a.id.version, b.id.version);
  });
  double sum = 0;
  for (size_t i = 0; i < versions.size(); ++i) {
    const bool is_same_name = i > 0 && versions[i - 1].id.name == versions[i].id.name;
    sum = (is_same_name ? sum : 0) + versions[i].share.value_or(0);
    if (sum > 1 + kShareSlack) {
      return Wrong("share", fmt::format("those of the prompt '{}' are {} together, and 1 is all.",
                                        versions[i].id.name, sum));
    }
  }
  auto library = std::make_shared<PromptLibrary>();
  library->versions_ = std::move(versions);
  return std::shared_ptr<const PromptLibrary>(std::move(library));
}

std::span<const PromptVersion> PromptLibrary::VersionsOf(std::string_view name) const {
  const auto begin = std::lower_bound(
      versions_.begin(), versions_.end(), name,
      [](const PromptVersion& version, std::string_view other) { return version.id.name < other; });
  auto end = begin;
  while (end != versions_.end() && end->id.name == name) ++end;
  return {begin, end};
}

const PromptVersion* PromptLibrary::Find(const PromptName& id) const {
  for (const PromptVersion& version : VersionsOf(id.name)) {
    if (version.id.version == id.version) return &version;
  }
  return nullptr;
}

const PromptVersion* PromptLibrary::RestOf(std::string_view name) const {
  const std::span<const PromptVersion> versions = VersionsOf(name);
  if (versions.empty()) return nullptr;
  const auto found = std::find_if(versions.rbegin(), versions.rend(),
                                  [](const PromptVersion& version) { return !version.share; });
  return found == versions.rend() ? &versions.back() : &*found;
}

const PromptVersion* PromptLibrary::Draw(std::string_view name, double place) const {
  double end = 0;
  for (const PromptVersion& version : VersionsOf(name)) {
    end += version.share.value_or(0);
    if (place < end) return &version;
  }
  return RestOf(name);
}

double PlaceOf(std::string_view tenant, std::string_view name, std::string_view beginning) {
  const std::string head = fmt::format("{} {} ", tenant.size(), name.size());
  const PrefixDigest digest =
      ThreadSha256().Update(head).Update(tenant).Update(name).Update(beginning).Finish();
  uint64_t bits = 0;
  std::memcpy(&bits, digest.bytes.data(), sizeof(bits));
  // A double holds 53 bits exactly.
  return std::ldexp(static_cast<double>(bits >> 11), -53);
}

}  // namespace kvgate::session::prompts
