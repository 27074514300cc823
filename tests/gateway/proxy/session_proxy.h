// SessionProxy is a proxy that keeps sessions in memory, and speaks to it in one of them.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gateway/session/sessions.h"
#include "tests/gateway/proxy/test_proxy.h"
#include "tests/gateway/service/kept_responses.h"
#include "tests/store/memory_meta_store.h"

namespace kvgate::test {

struct SessionProxy {
  explicit SessionProxy(Script script = {}, proxy::request::TargetOptions targets = {},
                        session::window::Settings window = {}, bool keeps = true,
                        session::Sessions::Options options = {},
                        const ledger::Prices* prices = nullptr,
                        session::prompts::NamedPrompts* named = nullptr)
      : turns(OpenTurns(meta, keeps)),
        sessions(With(std::move(options), turns.get(), window)),
        proxy({.script = std::move(script),
               .targets = std::move(targets),
               .options = {.sessions = &sessions, .named_prompts = named, .prices = prices},
               .turns = turns.get()}) {
    sessions.SetLocalModel({.context_tokens = 4096, .output_tokens = 1024});
  }

  using Fields = std::vector<std::pair<std::string, std::string>>;
  // A request in the session "k".
  TestRequest Request(std::string body, Fields more = {},
                      std::string path = "/v1/chat/completions") {
    Fields fields = {{"content-type", "application/json"}, {"x-kvgate-session", "k"}};
    fields.insert(fields.end(), more.begin(), more.end());
    return {.path = std::move(path),
            .body = std::move(body),
            .fields = std::move(fields),
            .id = fmt::format("{:024x}", ++last_id)};
  }
  std::unique_ptr<TestSink> Ask(const TestRequest& request) {
    auto sink = std::make_unique<TestSink>(proxy.io());
    proxy.Serve(request, *sink);
    return sink;
  }
  std::unique_ptr<TestSink> Say(std::string body, Fields more = {},
                                std::string path = "/v1/chat/completions") {
    return Ask(Request(std::move(body), std::move(more), std::move(path)));
  }

  // The prompt that the engine saw last.
  std::string Prompt() {
    std::string text;
    for (const TokenId token : proxy.gateway.engine.last_request().prompt) {
      text += static_cast<char>(token);
    }
    return text;
  }
  size_t num_turns() {
    const session::log::SessionLog::Place place{.tenant = tenant, .key = "k"};
    const auto root = sessions.session_log().Find(place);
    return root ? sessions.session_log().All(place, *root)->size() : 0;
  }

  static session::Sessions::Options With(session::Sessions::Options options,
                                         store::meta::TurnStore* turns,
                                         session::window::Settings window) {
    options.turns = turns;
    options.window = window;
    return options;
  }

  const std::string tenant = local::TenantOf("");
  store::MemoryMetaStore meta;
  std::unique_ptr<store::meta::TurnStore> turns;
  session::Sessions sessions;
  TestProxy proxy;
  uint64_t last_id = 0;
};

}  // namespace kvgate::test
