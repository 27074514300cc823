#include "gateway/session/compaction/sealed_summary.h"

#include "base/base64.h"

namespace kvgate::session::compaction {
namespace {

constexpr std::string_view kSource = "session";
constexpr std::string_view kFamily = "kvg";
constexpr std::string_view kPurpose = "compaction";
constexpr char kCoversAll = 'a';
constexpr char kCoversBesidesUser = 'u';

Error Unreadable(std::string_view why) {
  return MakeError(ErrorCode::kInvalidArgument, kSource,
                   std::string("The compaction cannot be read: ").append(why));
}

}  // namespace

bool IsOurs(std::string_view sealed) {
  if (!sealed.starts_with(kFamily)) return false;
  const size_t dot = sealed.find('.');
  const std::string_view version = sealed.substr(0, dot).substr(kFamily.size());
  return dot != std::string_view::npos && !version.empty() && version.size() <= 3 &&
         version.find_first_not_of("0123456789") == std::string_view::npos;
}

std::string Seal(const Keyring& ring, std::string_view tenant, const SealedSummary& summary) {
  std::string plain(1, summary.covers == Covers::kAll ? kCoversAll : kCoversBesidesUser);
  plain += summary.text;
  return std::string(kMark).append(
      EncodeBase64(ring.Seal({.purpose = kPurpose, .tenant = tenant}, plain)));
}

Result<SealedSummary> Open(const Keyring& ring, std::string_view tenant, std::string_view sealed) {
  if (!sealed.starts_with(kMark)) {
    return Unreadable("a later version of kvgate has made it. Update this one, or leave it out.");
  }
  sealed.remove_prefix(kMark.size());
  std::string bytes;
  size_t num_digits = DecodeBase64(sealed, bytes);
  while (num_digits < sealed.size() && sealed[num_digits] == '=') ++num_digits;
  if (num_digits != sealed.size()) {
    return Unreadable("it is not as it was sent. Send it byte for byte, or leave it out.");
  }
  const Result<std::string> plain =
      ring.Open({.purpose = kPurpose, .tenant = tenant, .name = {}}, bytes);
  if (!plain && plain.error().code == ErrorCode::kPermissionDenied) {
    return Unreadable(
        "it was made by a gateway with another secret (store.secret_env). Give both the same "
        "secret, or begin anew without it.");
  }
  if (!plain || plain->empty()) {
    return Unreadable(
        "it was changed, or made for another caller. Send it byte for byte and with the "
        "credential of the request that made it, or begin anew without it.");
  }
  return SealedSummary{
      .text = plain->substr(1),
      .covers = plain->front() == kCoversBesidesUser ? Covers::kBesidesUser : Covers::kAll};
}

}  // namespace kvgate::session::compaction
