#include "gateway/ledger/record_filter.h"

#include <fmt/format.h>

#include <charconv>
#include <utility>

#include "gateway/ledger/record_format.h"

namespace kvgate::ledger {
namespace {

constexpr std::string_view kAny = "any";
constexpr std::string_view kNoBreak = "none";

template <typename Integer>
bool ReadInteger(std::string_view text, Integer& value) {
  const char* const end = text.data() + text.size();
  const auto [at, code] = std::from_chars(text.data(), end, value);
  return code == std::errc() && at == end && value >= 0;
}

Error NotANumber(std::string_view name, std::string_view value) {
  return MakeError(
      ErrorCode::kInvalidArgument, "ledger",
      fmt::format("Invalid value for '{}': it must be a number, not '{}'.", name, value),
      std::string(name));
}

bool IsAsked(const std::string& wanted, std::string_view is) {
  return wanted.empty() || wanted == is;
}

}  // namespace

Result<bool> RecordFilter::Take(std::string_view name, std::string_view value) {
  const std::pair<std::string_view, std::string*> texts[] = {{"upstream", &upstream_},
                                                             {"model", &model_},
                                                             {"tenant", &tenant_},
                                                             {"key", &key_},
                                                             {"session", &session_},
                                                             {"conversation", &conversation_},
                                                             {"break", &break_},
                                                             {"endpoint", &endpoint_},
                                                             {"prompt_name", &prompt_name_},
                                                             {"prompt_version", &prompt_version_}};
  for (const auto& [text, wanted] : texts) {
    if (text != name) continue;
    *wanted = value;
    return true;
  }
  const std::pair<std::string_view, int64_t*> times[] = {{"since_us", &since_us_},
                                                         {"until_us", &until_us_}};
  for (const auto& [time, wanted] : times) {
    if (time != name) continue;
    if (!value.empty() && !ReadInteger(value, *wanted)) return NotANumber(name, value);
    return true;
  }
  if (name != "status") return false;
  failed_ = value == "failed";
  if (failed_ || value.empty() || ReadInteger(value, status_)) return true;
  return MakeError(ErrorCode::kInvalidArgument, "ledger",
                   fmt::format("Invalid value for 'status': it must be a number or 'failed', not "
                               "'{}'.",
                               value),
                   "status");
}

bool RecordFilter::FitsOutcome(const RequestRecord& record) const {
  if (status_ != 0 && record.status != status_) return false;
  if (failed_ && !IsFailed(record)) return false;
  if (break_.empty()) return true;
  if (!record.prefix_break) return false;
  const std::string& cause = record.prefix_break->cause;
  return break_ == kAny ? cause != kNoBreak : cause == break_;
}

bool RecordFilter::Fits(const RequestRecord& record) const {
  if (owner_ && *owner_ != record.tenant) return false;
  if (record.time_us < since_us_ || (until_us_ > 0 && record.time_us >= until_us_)) return false;
  const bool is_model = IsAsked(model_, record.model) || model_ == record.asked_model;
  return is_model && IsAsked(upstream_, record.upstream) && IsAsked(tenant_, record.tenant) &&
         IsAsked(key_, record.key) && IsAsked(session_, record.session) &&
         IsAsked(conversation_, record.conversation) && IsAsked(prompt_name_, record.prompt_name) &&
         IsAsked(prompt_version_, record.prompt_version) &&
         IsAsked(endpoint_, EndpointName(record.endpoint)) && FitsOutcome(record);
}

bool RecordFilter::MayFit(std::string_view bytes) const {
  const auto has = [&](const std::string& name) {
    return name.empty() || bytes.find(name) != std::string_view::npos;
  };
  if (owner_ && !has(*owner_)) return false;
  const int64_t time_us = TimeOfRecord(bytes);
  if (time_us < since_us_ || (until_us_ > 0 && time_us >= until_us_)) return false;
  return has(upstream_) && has(model_) && has(tenant_) && has(key_) && has(session_) &&
         has(conversation_) && has(prompt_name_) && has(prompt_version_) &&
         (break_ == kAny || has(break_));
}

}  // namespace kvgate::ledger
