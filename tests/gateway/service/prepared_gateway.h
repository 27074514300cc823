// PreparedGateway is a gateway over the fakes whose prompts go through the modes. What it keeps of
// turns and conversations outlives it in a store, so that a test can start it anew.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "gateway/service/branches/branch_store.h"
#include "gateway/service/completion_start.h"
#include "gateway/service/prompts.h"
#include "tests/gateway/service/kept_responses.h"

namespace kvgate::test {

class PreparedGateway {
 public:
  using Dialect = dialect::form::Dialect;
  using Place = service::CompletionStart::Place;

  explicit PreparedGateway(std::string mode) {
    engine.mode = std::move(mode);
    Start();
  }

  void Start() {
    parts_ = nullptr;
    parts_ = std::make_unique<Parts>(meta_);
  }

  struct Answer {
    std::string prompt;  // as the engine got it
    std::string bytes;
    std::vector<Place> places;
    std::string id;
    std::optional<Error> error = {};
  };
  // Answers a request that is not streamed.
  Answer Ask(Dialect dialect, const std::string& body) {
    Answer answer;
    answer.id = fmt::format("{:024x}", ++last_id_);
    const config::UpstreamConfig local = service::LocalUpstream(engine);
    service::CompletionStart start(
        parts_->gateway.service,
        {.dialect = dialect,
         .body = body,
         .credential = {},
         .request_id = answer.id,
         .tenant = "t",
         .prompt = service::Service::PromptArgs{.engine = local, .key = key, .fields = fields},
         .wake = {}});
    while (start.next() != Place::kNone) {
      answer.places.push_back(start.next());
      if (start.next() == Place::kStore) {
        start.StoreWork()();
        start.EndStore({});
      } else {
        start.Run();
      }
    }
    auto completion = start.Take();
    if (!completion) {
      answer.error = completion.error();
      return answer;
    }
    answer.prompt = Prompt();
    const auto has_ended = [&] {
      const service::Completion::Output output = (*completion)->Next();
      answer.bytes += output.bytes;
      if (!output.finished && output.completed) (*completion)->RunHooks();
      return output.finished;
    };
    EXPECT_TRUE(WaitUntil(has_ended, "the answer ends"));
    return answer;
  }

  // Returns the prefix that is computed for a request in advance.
  std::string Warm(const std::string& body) {
    const config::UpstreamConfig local = service::LocalUpstream(engine);
    const auto job = parts_->gateway.service.StartWarm(
        {.body = body,
         .credential = {},
         .tenant = "t",
         .prompt = service::Service::PromptArgs{.engine = local, .key = key, .fields = fields}});
    EXPECT_TRUE(job) << job.error().ToString();
    return Prompt();
  }

  nlohmann::json RecordOf(const Answer& answer) {
    return nlohmann::json::parse(parts_->ledger.Get(answer.id).value());
  }
  service::Prompts& prompts() { return parts_->prompts; }
  service::Service& service() { return parts_->gateway.service; }

  config::EngineConfig engine;
  const config::KeyConfig* key = nullptr;
  upstream::wire::HeaderFields fields;

 private:
  // Returns the prompt that the engine got last.
  std::string Prompt() {
    std::string text;
    for (const TokenId token : parts_->gateway.engine.last_request().prompt) {
      text += static_cast<char>(token);
    }
    return text;
  }

  struct Parts {
    explicit Parts(store::MemoryMetaStore& meta)
        : branches({.meta = meta, .interval = std::chrono::hours(1)}),
          prompts({.memory_bytes = size_t{16} << 20},
                  service::Prompts::Parts{.branches = &branches}),
          ledger({.meta = &meta,
                  .complete =
                      [this](auto& record, const auto& facts, auto& preparation) {
                        prompts.Complete(record, facts, preparation);
                      }}),
          turns(OpenTurns(meta)),
          gateway({}, nullptr, turns.get(), &prompts, &ledger) {}

    service::branches::BranchStore branches;
    service::Prompts prompts;
    ledger::Ledger ledger;
    std::unique_ptr<store::meta::TurnStore> turns;
    Gateway gateway;
  };

  store::MemoryMetaStore meta_;
  std::unique_ptr<Parts> parts_;
  uint64_t last_id_ = 0;
};

}  // namespace kvgate::test
