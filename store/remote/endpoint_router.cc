#include "store/remote/endpoint_router.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>

namespace kvgate::store::remote {
namespace {

struct Refusal {
  std::string_view code;
  std::string_view meaning;
};
constexpr Refusal kRefusals[] = {
    {"READONLY", "it is a replica, which takes no writes"},
    {"LOADING", "it still loads its data"},
    {"MASTERDOWN", "it is a replica that has lost its primary"},
    {"CLUSTERDOWN", "its cluster does not serve all keys"},
};

const Refusal* RefusalOf(const RespReply& reply) {
  if (!reply.is_error()) return nullptr;
  const std::string_view code = std::string_view(reply.text).substr(0, reply.text.find(' '));
  const auto* found = std::ranges::find(kRefusals, code, &Refusal::code);
  return found == std::end(kRefusals) ? nullptr : found;
}

// The error of a call that every server failed.
Error AllFailed(std::vector<Error> errors) {
  if (errors.size() == 1) return std::move(errors.front());
  Error all = MakeError(ErrorCode::kUnavailable, "store.remote", "no server of the store answers");
  all.retryable = true;
  for (const Error& error : errors) {
    // Only the last one may have used up the time.
    if (error.code == ErrorCode::kDeadline) all.code = ErrorCode::kDeadline;
    all.detail += fmt::format("; {}", error.detail);
  }
  return all;
}

}  // namespace

const RespReply* FindRefusal(std::span<const RespReply> replies) {
  const auto found = std::ranges::find_if(
      replies, [](const RespReply& reply) { return RefusalOf(reply) != nullptr; });
  return found == replies.end() ? nullptr : &*found;
}

Error RefusalError(const RespReply& refusal, const RespEndpoint& endpoint) {
  const Refusal* const known = RefusalOf(refusal);
  Error error =
      MakeError(ErrorCode::kUnavailable, "store.remote",
                fmt::format("{}: {} ({})", endpoint.ToString(), known->meaning, known->code));
  error.retryable = true;
  return error;
}

Result<EndpointRouter::Answer> EndpointRouter::Call(std::span<const RespCommand> commands,
                                                    TimePoint deadline) {
  const size_t first = first_;
  std::vector<Error> errors;
  for (size_t tried = 0; tried < endpoints_.size(); ++tried) {
    if (tried > 0 && std::chrono::steady_clock::now() >= deadline) break;
    const size_t index = (first + tried) % endpoints_.size();
    Exchange exchange(pool_, endpoints_[index], deadline);
    if (auto connected = exchange.Connect(endpoints_.size() - 1 - tried); !connected) {
      errors.push_back(std::move(connected).error());
      continue;
    }
    if (exchange.is_cluster()) {
      exchange.PutBack();
      return Answer{.endpoint = endpoints_[index]};
    }
    exchange.Start(commands);
    Result<RespReplies> replies = exchange.Finish();
    if (!replies) {
      errors.push_back(std::move(replies).error());
      if (exchange.may_ask_another()) continue;
      // Another server may have the commands' effects already, or get them later.
      first_ = (index + 1) % endpoints_.size();
      return std::move(errors.back());
    }
    if (const RespReply* const refusal = FindRefusal(*replies)) {
      errors.push_back(RefusalError(*refusal, endpoints_[index]));
      continue;
    }
    first_ = index;
    return Answer{.endpoint = endpoints_[index], .replies = *std::move(replies)};
  }
  // A call with little time may not get beyond the first ones.
  first_ = (first + 1) % endpoints_.size();
  return AllFailed(std::move(errors));
}

}  // namespace kvgate::store::remote
