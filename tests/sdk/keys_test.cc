// Who may do what, for both kinds of client, and the errors that limits make.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/sdk/tiny_gateway.h"

namespace kvgate::test {
namespace {

using ::testing::HasSubstr;

// The digests are those of "user-key", "admin-key" and "slow-key".
constexpr const char* kConfig = R"(
[limits]
body = "20000"
[[upstream]]
name = "nobody"
base_url = "http://127.0.0.1:9/v1"
models = ["gone-*"]
[[key]]
name = "user"
sha256 = "0845e3658edc1c91bfc9d172eeae3e60417056b1b7fe9909c00e05023adb7f1d"
[[key]]
name = "admin"
sha256 = "69a5265506c94c77b787a7d7377b7685a0eff82e33920a71e7ee22cd6154953e"
role = "admin"
[[key]]
name = "slow"
sha256 = "6fa0d18ad9d40c2e55ddba9c9110a429590843f1c7096d894e1f3aa68c420cee"
requests_per_minute = 1
)";

ChatRequest Ask(std::string text, std::string model = "local") {
  return {.model = std::move(model), .messages = {Message::User(std::move(text))}, .max_tokens = 2};
}

// What a key may do is asked of one client of each kind: a process has one gateway at a time, so
// that in this process is opened anew for each key.
void AskBoth(const std::string& key, const std::function<void(Client& client)>& ask) {
  TinyGateway gateway(kConfig);
  {
    SCOPED_TRACE("remote");
    Client remote = gateway.Remote({.api_key = key, .retries = 0});
    ask(remote);
  }
  gateway.Close();
  SCOPED_TRACE("embedded");
  const Result<Client> opened = Client::Open(gateway.Options(key));
  ASSERT_TRUE(opened) << opened.error().ToString();
  Client embedded = *opened;
  ask(embedded);
}

TEST(KeysTest, AUserHasItsOwnAndNotWhatIsEverybodys) {
  AskBoth("user-key", [](Client& client) {
    EXPECT_TRUE(client.Chat(Ask("Hi")).Collect());
    const Result<Answer> metrics = client.Call("GET", "/metrics");
    ASSERT_FALSE(metrics);
    EXPECT_EQ(metrics.error().status, Status::kPermissionDenied);
    EXPECT_EQ(metrics.error().http_status, 403);
  });
}

TEST(KeysTest, AnAdminHasAll) {
  AskBoth("admin-key", [](Client& client) {
    EXPECT_TRUE(client.Chat(Ask("Hi")).Collect());
    EXPECT_TRUE(client.Call("GET", "/metrics"));
  });
}

TEST(KeysTest, WithoutAKeyThisProcessIsAnAdminAndOthersAreNobody) {
  TinyGateway gateway(kConfig);
  EXPECT_TRUE(gateway.embedded().Call("GET", "/metrics"));
  for (const char* key : {"", "wrong"}) {
    const Result<Reply> refused = gateway.Remote({.api_key = key}).Chat(Ask("Hi")).Collect();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().status, Status::kUnauthenticated);
    EXPECT_EQ(refused.error().http_status, 401);
  }
}

TEST(KeysTest, UpstreamsAndRoutesComeAsStructsToo) {
  TinyGateway gateway;
  gateway.Close();
  OpenOptions options = gateway.Options();
  options.upstreams = {{.name = "gone", .base_url = "http://127.0.0.1:9/v1", .models = {"gone-*"}}};
  options.routes = {{.models = {"either"}, .targets = {"gone/x"}, .fallback = {"local"}}};
  const Result<Client> client = Client::Open(options);
  ASSERT_TRUE(client) << client.error().ToString();
  EXPECT_EQ(client->Chat(Ask("Hi", "gone-1")).Collect().error().status, Status::kUnavailable);
  const Result<Reply> reply = client->Chat(Ask("Hi", "either")).Collect();
  EXPECT_TRUE(reply) << reply.error().ToString();
}

TEST(KeysTest, LimitsAreSaidInTheSameWords) {
  AskBoth("slow-key", [](Client& client) {
    ASSERT_TRUE(client.Chat(Ask("Hi")).Collect());
    const Result<Reply> again = client.Chat(Ask("Hi")).Collect();
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error().status, Status::kRateLimited);
    EXPECT_EQ(again.error().http_status, 429);
    EXPECT_GT(again.error().retry_after.count(), 0);
  });
  AskBoth("user-key", [](Client& client) {
    const Result<Reply> large = client.Chat(Ask(std::string(30'000, 'x'))).Collect();
    ASSERT_FALSE(large);
    EXPECT_EQ(large.error().status, Status::kTooLarge);
    EXPECT_THAT(large.error().message, HasSubstr("20000 bytes"));
    const Result<Reply> gone = client.Chat(Ask("Hi", "gone-1")).Collect();
    ASSERT_FALSE(gone);
    EXPECT_EQ(gone.error().status, Status::kUnavailable) << gone.error().http_status;
  });
}

}  // namespace
}  // namespace kvgate::test
