// `kvgate top`: what a server is doing, live, on the whole terminal.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "gateway/cli/commands.h"
#include "gateway/cli/options.h"
#include "gateway/cli/server/event_stream.h"
#include "gateway/cli/server/http_client.h"
#include "gateway/cli/server/server_target.h"
#include "gateway/cli/terminal/overview.h"
#include "gateway/cli/terminal/screen.h"
#include "gateway/runtime/data_tier.h"

namespace kvgate::cli {
namespace {

using Json = nlohmann::json;

struct TopFlags {
  ConfigFlags config;
  server::TargetFlags target;
  bool once = false;
  bool json = false;
};

// Sums and clocks are asked for again after so long; the rest comes by itself.
constexpr int64_t kStatsEveryUs = 5'000'000;
constexpr int64_t kDrawEveryUs = 200'000;
constexpr std::string_view kEvents = "/kvgate/v1/events";
constexpr int kShownMax = 100;  // requests a second: more nobody reads, and each costs the server

class Top {
 public:
  Top(store::ServerAddress server, std::string authorization, const TopFlags& flags)
      : server_(std::move(server)),
        authorization_(std::move(authorization)),
        flags_(flags),
        overview_(server_.url) {}

  // Shows until the user ends it, or the server does.
  Result<int> Run() {
    KVGATE_TRY_VOID(AskStats());
    if (!flags_.json) KVGATE_TRY_VOID(AskRecords());
    if (!flags_.once && !flags_.json) screen_.emplace();
    server::EventStream events;
    const auto on_event = [this](std::string_view name, std::string_view data) {
      OnEvent(name, data);
    };
    // Keys are read beside the wait for events, so that one ends it at once.
    std::atomic<bool> is_over{false};
    std::thread keys([this, &is_over] {
      while (screen_ && !is_over.load() && !screen_->is_ended().load()) {
        screen_->ReadKeys();
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
      }
    });
    const auto ended = server::FetchOk(server::RequestTo(
        server_, {.url = flags_.json ? std::string(kEvents)
                                     : fmt::format("{}?records_per_second={}", kEvents, kShownMax),
                  .authorization = authorization_,
                  .on_data = [&](std::string_view piece) { events.Push(piece, on_event); },
                  .stop = screen_ ? &screen_->is_ended() : &is_shown_}));
    is_over = true;
    keys.join();
    const bool is_wanted = is_shown_.load() || (screen_ && screen_->is_ended().load());
    screen_.reset();
    if (is_wanted) return 0;
    if (!ended) return ended.error();
    fmt::print(stderr, "the server has ended\n");
    return 0;
  }

 private:
  Result<void> AskStats() {
    stats_at_us_ = WallClock::NowUs();
    KVGATE_TRY(const std::string body,
               server::FetchOk(server::RequestTo(
                   server_, {.url = "/kvgate/v1/stats", .authorization = authorization_})));
    Json stats = Json::parse(body, nullptr, false);
    if (!stats.is_object()) {
      return MakeError(ErrorCode::kUnavailable, "cli",
                       "the answer is no JSON object; is that a kvgate server?");
    }
    overview_.TakeStats(std::move(stats));
    return {};
  }

  // The newest requests, so that the page is not empty where nothing happens.
  Result<void> AskRecords() {
    KVGATE_TRY(const std::string body,
               server::FetchOk(server::RequestTo(server_, {.url = "/kvgate/v1/requests?limit=100",
                                                           .authorization = authorization_})));
    const Json list = Json::parse(body, nullptr, false);
    const Json records = list.is_object() ? list.value("data", Json::array()) : Json::array();
    for (size_t i = records.size(); i > 0; --i) overview_.TakeEvent("request", records[i - 1]);
    return {};
  }

  void OnEvent(std::string_view name, std::string_view data) {
    if (is_shown_.load()) return;
    if (flags_.json) {
      fmt::print(R"({{"event":"{}","data":{}}})"
                 "\n",
                 name, data);
      std::fflush(stdout);
      if (flags_.once && name == "stats") is_shown_ = true;
      return;
    }
    overview_.TakeEvent(name, Json::parse(data, nullptr, false));
    const int64_t now_us = WallClock::NowUs();
    if (!screen_) {
      if (name == "stats") PrintOnce(now_us);
      return;
    }
    // A server that is too busy to answer is shown as it was.
    if (now_us - stats_at_us_ > kStatsEveryUs) (void)AskStats();
    if (name != "stats" && now_us - drawn_at_us_ < kDrawEveryUs) return;
    drawn_at_us_ = now_us;
    screen_->Draw(overview_.Lines(terminal::Screen::Size(), terminal::OutputTakesStyles(), now_us));
  }

  void PrintOnce(int64_t now_us) {
    const terminal::ScreenSize size = terminal::Screen::Size();
    for (const std::string& line : overview_.Lines(size, terminal::OutputTakesStyles(), now_us)) {
      fmt::print("{}\n", line);
    }
    is_shown_ = true;
  }

  const store::ServerAddress server_;
  const std::string authorization_;
  const TopFlags& flags_;
  terminal::Overview overview_;
  std::optional<terminal::Screen> screen_;
  std::atomic<bool> is_shown_{false};  // once was enough
  int64_t stats_at_us_ = 0;
  int64_t drawn_at_us_ = 0;
};

Result<int> ShowTop(const TopFlags& flags) {
  KVGATE_TRY(const config::Config config, ReadConfig(flags.config));
  KVGATE_TRY(std::string authorization, server::AuthorizationOf(flags.target));
  KVGATE_TRY(store::ServerAddress server,
             server::RequireServer(flags.target, runtime::DataDirOf(config)));
  return Top(std::move(server), std::move(authorization), flags).Run();
}

}  // namespace

void AddTop(CLI::App& app, Run& chosen) {
  auto flags = std::make_shared<TopFlags>();
  CLI::App* command =
      app.add_subcommand("top", "What a server is doing, live, on the whole terminal");
  AddDataDirFlag(*command, flags->config);
  server::AddTargetFlags(*command, flags->target);
  command->add_flag("--once", flags->once, "print one page and end; so it is without a terminal");
  command->add_flag("--json", flags->json, "events as the server gives them, one a line");
  command->callback([flags, &chosen] {
    chosen = [flags] {
      TopFlags shown = *flags;
      shown.once = shown.once || (!shown.json && !terminal::Screen::IsThere());
      return ShowTop(shown);
    };
  });
}

}  // namespace kvgate::cli
