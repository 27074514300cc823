#include "gateway/runtime/runtime.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "gateway/local/local.h"
#include "gateway/runtime/config_version.h"
#include "gateway/runtime/data_tier.h"
#include "gateway/service/service.h"
#include "store/rocks_data_directory.h"
#include "tests/gateway/runtime/tiny_model.h"
#include "tests/store/store_fixture.h"

namespace kvgate::runtime {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr auto kNoWait = [](milliseconds) { return false; };

class RuntimeTest : public testing::Test {
 protected:
  Result<std::unique_ptr<Runtime>> Open(bool listens = true) {
    registry_ = std::make_unique<metrics::Registry>();
    return Runtime::Open({.config = config_, .registry = *registry_, .listens = listens});
  }

  // The text of a short greedy answer.
  static std::string Answer(Runtime& runtime, const std::string& prompt) {
    const std::string body =
        R"({"model":"local","max_tokens":4,"temperature":0,"prompt":")" + prompt + R"("})";
    const auto started = runtime.service().Start({.dialect = dialect::form::Dialect::kCompletions,
                                                  .body = body,
                                                  .credential = {},
                                                  .request_id = {},
                                                  .wake = {}});
    EXPECT_TRUE(started) << started.error().ToString();
    std::string text;
    while (true) {
      service::Completion::Output output = (*started)->Next();
      text += output.bytes;
      if (output.completed) (*started)->RunHooks();
      if (output.finished) break;
      std::this_thread::sleep_for(milliseconds(1));
    }
    return text;
  }

  config::Config Forwarding() const {
    config::Config config = config_;
    config.engine.model.clear();
    config.upstreams.emplace_back();
    config.upstreams.back().name = "one";
    config.upstreams.back().base_url = "http://127.0.0.1:9/v1";
    return config;
  }

  TempFolder temporary_;
  config::Config config_ = test::TinyConfig(temporary_.path());
  std::unique_ptr<metrics::Registry> registry_;
};

TEST_F(RuntimeTest, WithoutAPortItAnswersThisProcess) {
  const auto runtime = Open(false);
  ASSERT_TRUE(runtime) << runtime.error().ToString();
  EXPECT_EQ((*runtime)->url(), "");
  ASSERT_NE((*runtime)->provider(), nullptr);
  EXPECT_TRUE((*runtime)->service().ready());
  EXPECT_NE(Answer(**runtime, "one two three").find("\"text_completion\""), std::string::npos);
  EXPECT_FALSE(store::DataDirectory::FindServer(config_.store.data_dir)) << "nothing listens";
  (*runtime)->Stop(kNoWait);
  EXPECT_FALSE((*runtime)->service().ready());
}

TEST_F(RuntimeTest, ItPublishesItsAddressAndHoldsItsPort) {
  const auto runtime = Open();
  ASSERT_TRUE(runtime) << runtime.error().ToString();
  const auto published = store::DataDirectory::FindServer(config_.store.data_dir);
  ASSERT_TRUE(published) << published.error().ToString();
  EXPECT_EQ(published->url, (*runtime)->url());
  EXPECT_FALSE(published->admin_token.empty());

  config_.server.listen = (*runtime)->url().substr(std::string_view("http://").size());
  config_.store.disk = false;
  const std::unique_ptr<metrics::Registry> first = std::move(registry_);
  const auto second = Open();
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(second.error().detail.find("cannot listen"), std::string::npos);
  (*runtime)->Stop(kNoWait);
}

TEST_F(RuntimeTest, WhatItKeptIsThereForTheNextOne) {
  std::string prompt;
  for (int i = 0; i < 40; ++i) prompt += "word ";
  {
    const auto runtime = Open(false);
    ASSERT_TRUE(runtime) << runtime.error().ToString();
    Answer(**runtime, prompt);
    (*runtime)->Stop(kNoWait);
  }
  const DataTier tier = OpenDataTier(config_);
  ASSERT_NE(tier.kv(), nullptr) << tier.reason;
  EXPECT_GT(tier.kv()->Stats().num_records, 0u);
}

TEST_F(RuntimeTest, WhatItKeptIsReadByTheNextOne) {
  std::string prompt;
  for (int i = 0; i < 40; ++i) prompt += "word ";
  const std::string body = R"({"model":"local","prompt":")" + prompt + R"("})";
  std::string warmed;
  // Where this machine's disk is busy, computing these few tokens anew is planned instead.
  for (int start = 0; start < 6; ++start) {
    const auto runtime = Open(false);
    ASSERT_TRUE(runtime) << runtime.error().ToString();
    const auto job = (*runtime)->service().StartWarm({.body = body, .credential = ""});
    ASSERT_TRUE(job) << job.error().ToString();
    while (!(*job)->Poll()) std::this_thread::sleep_for(milliseconds(1));
    const auto finished = (*job)->Finish();
    ASSERT_TRUE(finished) << finished.error().ToString();
    warmed = *finished;
    (*runtime)->Stop(kNoWait);
    if (start > 0 && warmed.find("\"cached_tokens\":0,") == std::string::npos) return;
  }
  ADD_FAILURE() << warmed;
}

TEST_F(RuntimeTest, WhoNeedsAnEngineHasOneBesideUpstreams) {
  const config::Config config = Forwarding();
  metrics::Registry registry;
  const auto runtime = Runtime::Open(
      {.config = config, .registry = registry, .listens = false, .needs_engine = true});
  ASSERT_TRUE(runtime) << runtime.error().ToString();
  ASSERT_NE((*runtime)->provider(), nullptr) << "the default model";
  EXPECT_TRUE((*runtime)->service().ready());
}

TEST_F(RuntimeTest, WhoNeedsADiskGetsAnErrorWithoutOne) {
  config_.store.disk = false;
  metrics::Registry registry;
  const auto runtime = Runtime::Open(
      {.config = config_, .registry = registry, .listens = false, .needs_disk = true});
  ASSERT_FALSE(runtime);
  EXPECT_EQ(runtime.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(runtime.error().detail.find("store.disk is false"), std::string::npos);
}

TEST_F(RuntimeTest, TheCallerHearsOfALoad) {
  int num_calls = 0;
  const auto caller = std::this_thread::get_id();
  metrics::Registry registry;
  config_.engine.model = (temporary_.path() / "missing.gguf").string();
  const auto runtime = Runtime::Open(
      {.config = config_, .registry = registry, .listens = false, .while_loading = [&] {
         EXPECT_EQ(std::this_thread::get_id(), caller);
         ++num_calls;
       }});
  EXPECT_GE(num_calls, 1);
  ASSERT_FALSE(runtime);
  EXPECT_EQ(runtime.error().code, ErrorCode::kNotFound) << "the loading thread's error";
}

TEST_F(RuntimeTest, AReloadTakesTheUpstreamsOrChangesNothing) {
  config_ = Forwarding();
  const auto runtime = Open();
  ASSERT_TRUE(runtime) << runtime.error().ToString();
  EXPECT_EQ((*runtime)->provider(), nullptr);
  config::Config next = config_;
  next.upstreams.push_back(next.upstreams.front());
  next.upstreams.back().name = "two";
  EXPECT_TRUE((*runtime)->Reload(next));
  next.upstreams.clear();
  EXPECT_EQ((*runtime)->Reload(next).error().code, ErrorCode::kInvalidArgument);
  next = config_;
  next.upstreams.front().api_key_env = "KVGATE_TEST_NO_SUCH_VARIABLE";
  EXPECT_FALSE((*runtime)->Reload(next));
  (*runtime)->Stop(kNoWait);
}

TEST_F(RuntimeTest, TheVersionInForceIsReported) {
  config_ = Forwarding();
  const std::string first = VersionOf(config_, {});
  const auto runtime = Open();
  ASSERT_TRUE(runtime) << runtime.error().ToString();
  const auto stats = [&] {
    return (*runtime)->service().Stats({.role = access::CallerRole::kAdmin});
  };
  EXPECT_THAT(stats(), HasSubstr("\"config\":{\"version\":\"" + first + "\""));
  EXPECT_THAT((*runtime)->service().Stats({}), Not(HasSubstr(first))) << "it is for admins";
  config::Config next = config_;
  next.limits.connections += 1;  // read at a start alone
  EXPECT_TRUE((*runtime)->Reload(next));
  EXPECT_THAT(stats(), HasSubstr("\"version\":\"" + first + "\""));
  EXPECT_THAT(stats(), HasSubstr("\"needs_start\":\"[limits]\""));
  next = config_;
  next.upstreams.front().name = "two";
  EXPECT_TRUE((*runtime)->Reload(next));
  EXPECT_THAT(stats(), HasSubstr("\"version\":\"" + VersionOf(next, {}) + "\""));
  EXPECT_THAT(stats(), HasSubstr("\"needs_start\":\"\""));
  EXPECT_FALSE((*runtime)->Reload(MakeError(ErrorCode::kInvalidArgument, "config", "unreadable")));
  EXPECT_THAT(stats(), HasSubstr("\"reloads\":2,\"failed_reloads\":1,\"error\":\"unreadable\""));
  EXPECT_THAT(stats(), HasSubstr("\"version\":\"" + VersionOf(next, {}) + "\""));
  (*runtime)->Stop(kNoWait);
}

// The defaults that a device fills in are no change of the file.
TEST_F(RuntimeTest, TheSameConfigurationReadAgainNeedsNoStart) {
  config_.engine.kv_memory_bytes = 0;
  config_.engine.device = "auto";
  const std::string version = VersionOf(config_, {});
  const auto runtime = Open();
  ASSERT_TRUE(runtime) << runtime.error().ToString();
  EXPECT_TRUE((*runtime)->Reload(config_));
  const std::string stats = (*runtime)->service().Stats({.role = access::CallerRole::kAdmin});
  EXPECT_THAT(stats, HasSubstr("\"version\":\"" + version + "\""));
  EXPECT_THAT(stats, HasSubstr("\"needs_start\":\"\""));
  (*runtime)->Stop(kNoWait);
}

TEST_F(RuntimeTest, BeforeThePortClosesItIsUnreadyAndServes) {
  config_ = Forwarding();
  config_.server.unready_seconds = 3600;
  const auto runtime = Open();
  ASSERT_TRUE(runtime) << runtime.error().ToString();
  EXPECT_TRUE((*runtime)->service().ready());
  int num_pauses = 0;
  (*runtime)->Stop([&](milliseconds) {
    EXPECT_FALSE((*runtime)->service().ready());
    EXPECT_NE((*runtime)->url(), "") << "the port is open";
    return ++num_pauses < 3;  // then a signal ends this time
  });
  EXPECT_EQ(num_pauses, 3);
  EXPECT_EQ((*runtime)->url(), "");
}

TEST_F(RuntimeTest, AWrongSecretStopsTheStart) {
  config_.store.secret_env = "KVGATE_TEST_NO_SUCH_VARIABLE";
  const auto runtime = Open();
  ASSERT_FALSE(runtime);
  EXPECT_NE(runtime.error().detail.find("KVGATE_TEST_NO_SUCH_VARIABLE"), std::string::npos);
}

}  // namespace
}  // namespace kvgate::runtime
