// KeptResponses is a gateway over the fakes that keeps turns in memory, and asks it for responses.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "gateway/service/service.h"
#include "store/meta/turn_store.h"
#include "tests/gateway/fakes.h"
#include "tests/store/memory_meta_store.h"
#include "tests/wait_until.h"

namespace kvgate::test {

inline std::unique_ptr<store::meta::TurnStore> OpenTurns(store::meta::MetaStore& meta,
                                                         bool enabled = true,
                                                         uint64_t turn_bytes_max = 1 << 20) {
  auto opened = store::meta::TurnStore::Open(
      {.meta = meta, .enabled = enabled, .turn_bytes_max = turn_bytes_max});
  EXPECT_TRUE(opened) << opened.error().ToString();
  return std::move(*opened);
}

struct KeptResponses {
  explicit KeptResponses(Script script = {}, bool enabled = true)
      : turns(OpenTurns(meta, enabled)), gateway(std::move(script), nullptr, turns.get()) {}

  // Returns a response as after a restart, read from what is on disk.
  std::string Restarted(std::string_view id) {
    const auto again = OpenTurns(meta);
    session::Responses responses(again.get(), {});
    return responses.Get(tenant, id).value_or("");
  }

  Result<std::unique_ptr<service::Completion>> Start(const std::string& body) {
    return gateway.service.Start({.dialect = dialect::form::Dialect::kResponses,
                                  .body = body,
                                  .credential = credential,
                                  .request_id = NextId(),
                                  .wake = {}});
  }

  // Returns the whole answer to a request that is not streamed.
  Result<nlohmann::json> Ask(const std::string& body) {
    KVGATE_TRY(const auto completion, Start(body));
    return Finish(*completion);
  }

  static Result<nlohmann::json> Finish(service::Completion& completion) {
    service::Completion::Output output;
    const auto has_ended = [&] {
      output = completion.Next();
      if (output.error || output.finished) return true;
      if (output.completed) completion.RunHooks();
      return false;
    };
    EXPECT_TRUE(test::WaitUntil(has_ended, "the answer ends"));
    if (output.error) return *output.error;
    return nlohmann::json::parse(output.bytes);
  }

  std::string NextId() { return fmt::format("{:024x}", ++last_id); }
  session::Conversations::Place Place(const std::string& id) {
    request_id = NextId();
    return {.tenant = tenant, .id = id, .request_id = request_id};
  }

  // Returns the prompt that the engine saw last.
  std::string Prompt() {
    std::string text;
    for (const TokenId token : gateway.engine.last_request().prompt) {
      text += static_cast<char>(token);
    }
    return text;
  }

  store::MemoryMetaStore meta;
  std::unique_ptr<store::meta::TurnStore> turns;
  Gateway gateway;
  std::string credential = {};
  std::string tenant = local::TenantOf("");
  uint64_t last_id = 0;
  std::string request_id;
};

inline std::string Body(const std::string& input, const std::string& more = "") {
  return R"({"model":"local","input":)" + input + more + "}";
}

}  // namespace kvgate::test
