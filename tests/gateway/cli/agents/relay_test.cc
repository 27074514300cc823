#include "gateway/cli/agents/relay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "gateway/cli/server/http_client.h"
#include "gateway/config/config.h"
#include "tests/gateway/fakes.h"
#include "tests/gateway/http/hosted_server.h"

namespace kvgate::cli::agents {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> Scanned(std::string_view text, size_t piece_bytes) {
  RequestIdScanner scanner;
  std::vector<std::string> found;
  for (; !text.empty(); text.remove_prefix(std::min(piece_bytes, text.size()))) {
    scanner.Push(text.substr(0, piece_bytes), [&](std::string id) { found.push_back(id); });
  }
  return found;
}

TEST(RequestIdScannerTest, FindsIdsWhereverTheBytesAreCut) {
  const std::string text =
      "HTTP/1.1 200 OK\r\nX-Kvgate-Request-Id: abc1\r\nx: y\r\n\r\nx-kvgate-request-id: no\n\n"
      "x-kvgate-request-id:\r\nHTTP/1.1 200 OK\nx-kvgate-request-id:abc2\n\n"
      "x-kvgate-request-id: " +
      std::string(100, 'x') + "\r\n";
  for (size_t bytes = 1; bytes <= text.size(); ++bytes) {
    EXPECT_THAT(Scanned(text, bytes), ElementsAre("abc1", "no", "abc2")) << bytes;
  }
}

TEST(RelayTest, PassesRequestsOnAndNotesTheirIdsAlone) {
  test::Gateway gateway{{}};
  http::HostedServer hosted{gateway.service};
  const config::Url url = config::ParseUrl(hosted.server->url()).value();
  const auto relay = Relay::Open([&] { return ConnectTcp(url.host, url.port); }).value();
  EXPECT_EQ(server::FetchOk({.url = hosted.server->url() + "/health"}).value(),
            R"({"status":"ok"})");
  EXPECT_TRUE(relay->request_ids().empty());
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(server::FetchOk({.url = relay->origin() + "/health"}).value(), R"({"status":"ok"})");
  }
  EXPECT_EQ(relay->request_ids().size(), 3u);
  EXPECT_EQ(relay->last_failure(), "");
}

TEST(RelayTest, AServerThatIsGoneClosesTheConnectionAndIsSaid) {
  const auto relay = Relay::Open([] { return ConnectTcp("127.0.0.1", 1); }).value();
  EXPECT_FALSE(server::FetchOk({.url = relay->origin() + "/health"}));
  EXPECT_THAT(relay->last_failure(), testing::HasSubstr("127.0.0.1:1"));
}

}  // namespace
}  // namespace kvgate::cli::agents
