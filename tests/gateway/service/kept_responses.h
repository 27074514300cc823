// A gateway over the fakes that keeps turns in memory, and responses asked of it.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "gateway/service/service.h"
#include "store/meta/turn_store.h"
#include "tests/gateway/fakes.h"
#include "tests/gateway/ledger/memory_meta_store.h"

namespace kvgate::testing {

inline std::unique_ptr<store::TurnStore> OpenTurns(store::MetaStore& meta, bool enabled = true,
                                                   uint64_t turn_bytes_max = 1 << 20) {
  auto opened =
      store::TurnStore::Open({.meta = meta, .enabled = enabled, .turn_bytes_max = turn_bytes_max});
  EXPECT_TRUE(opened) << opened.error().ToString();
  return std::move(*opened);
}

struct KeptResponses {
  explicit KeptResponses(Script script = {}, bool enabled = true)
      : turns(OpenTurns(meta, enabled)), gateway(std::move(script), nullptr, turns.get()) {}

  // As after a restart: what is on disk is read again.
  std::string Restarted(std::string_view id) {
    const auto again = OpenTurns(meta);
    service::Responses responses(again.get(), {});
    return responses.Get(tenant, id).value_or("");
  }

  Result<std::unique_ptr<service::Completion>> Start(const std::string& body) {
    return gateway.service.Start({.dialect = protocol::Dialect::kResponses,
                                  .body = body,
                                  .credential = credential,
                                  .request_id = NextId(),
                                  .wake = {}});
  }

  // The whole answer of a request that is not streamed.
  Result<nlohmann::json> Ask(const std::string& body) {
    KVGATE_TRY(const auto completion, Start(body));
    return Finish(*completion);
  }

  static Result<nlohmann::json> Finish(service::Completion& completion) {
    while (true) {
      const service::Completion::Output output = completion.Next();
      if (output.error) return *output.error;
      if (output.finished) return nlohmann::json::parse(output.bytes);
      if (output.completed) completion.RunHooks();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  std::string NextId() { return fmt::format("{:024x}", ++last_id); }
  service::Conversations::Place Place(const std::string& id) {
    request_id = NextId();
    return {.tenant = tenant, .id = id, .request_id = request_id};
  }

  // The prompt that the engine saw last.
  std::string Prompt() {
    std::string text;
    for (const TokenId token : gateway.engine.last_request().prompt) {
      text += static_cast<char>(token);
    }
    return text;
  }

  store::MemoryMetaStore meta;
  std::unique_ptr<store::TurnStore> turns;
  Gateway gateway;
  std::string credential = {};
  std::string tenant = service::TenantOf("");
  uint64_t last_id = 0;
  std::string request_id;
};

inline std::string Body(const std::string& input, const std::string& more = "") {
  return R"({"model":"local","input":)" + input + more + "}";
}

}  // namespace kvgate::testing
