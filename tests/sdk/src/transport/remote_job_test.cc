#include "sdk/src/transport/remote_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sdk/src/transport/exchange.h"
#include "sdk/src/transport/remote.h"
#include "tests/gateway/upstream/scripted_upstream.h"

namespace kvgate::sdk::transport {
namespace {

using test::Peer;
using test::ScriptedUpstream;
using ::testing::HasSubstr;

constexpr std::string_view kGood = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Id: 7\r\n\r\nok";
constexpr std::string_view kBusy =
    "HTTP/1.1 503 Busy\r\nContent-Length: 4\r\nRetry-After: 0\r\n\r\nbusy";

struct Answered {
  bool is_whole = false;
  std::string body;
  Failure failure;
};

Answered Ask(const RemoteOptions& options, Request request = {.path = "/x"}) {
  const auto transport = ConnectRemote(options);
  EXPECT_TRUE(transport) << transport.error().ToString();
  Exchange exchange(**transport, std::move(request), nullptr);
  Answered answered;
  answered.is_whole = exchange.ReadAll(answered.body);
  answered.failure = exchange.failure();
  return answered;
}

TEST(RemoteJobTest, TheRequestIsSentAsItWasMade) {
  std::string seen;
  ScriptedUpstream server([&](Peer& peer, int) {
    seen = peer.ReadRequest();
    peer.Send(kGood);
  });
  const Answered answered =
      Ask({.url = server.url(), .api_key = "sk-1"},
          {.method = "POST",
           .path = "/kvgate/v1/x",
           .body = "{}",
           .headers = {{"x-kvgate-session", "s"}, {"x-kvgate-explain", "1"}}});
  EXPECT_TRUE(answered.is_whole);
  EXPECT_EQ(answered.body, "ok");
  EXPECT_THAT(seen, testing::StartsWith("POST /kvgate/v1/x HTTP/1.1\r\n"));
  for (const char* line : {"Authorization: Bearer sk-1", "x-kvgate-session: s",
                           "x-kvgate-explain: 1", "Content-Type: application/json"}) {
    EXPECT_THAT(seen, HasSubstr(line));
  }
}

TEST(RemoteJobTest, ARefusalForNowIsTriedAgainAsOftenAsIsSaid) {
  for (const int retries : {0, 1, 2}) {
    std::atomic<int> num_requests{0};
    ScriptedUpstream server([&](Peer& peer, int) {
      while (!peer.ReadRequest().empty()) peer.Send(++num_requests <= 2 ? kBusy : kGood);
    });
    const Answered answered = Ask({.url = server.url(), .retries = retries});
    EXPECT_EQ(answered.is_whole, retries == 2);
    EXPECT_EQ(num_requests, retries + 1);
    if (retries < 2) {
      EXPECT_EQ(answered.failure.status, KVGATE_OVERLOADED);
    }
  }
}

TEST(RemoteJobTest, AServerThatWantsALongRestIsNotWaitedFor) {
  std::atomic<int> num_requests{0};
  ScriptedUpstream server([&](Peer& peer, int) {
    while (!peer.ReadRequest().empty()) {
      ++num_requests;
      peer.Send("HTTP/1.1 429 No\r\nContent-Length: 0\r\nRetry-After: 3600\r\n\r\n");
    }
  });
  const Answered answered = Ask({.url = server.url()});
  EXPECT_EQ(num_requests, 1);
  EXPECT_EQ(answered.failure.status, KVGATE_RATE_LIMITED);
  EXPECT_EQ(answered.failure.retry_after_ms, 3'600'000u);
}

TEST(RemoteJobTest, WhatAServerMayHaveBegunWithIsNotSentAgain) {
  std::atomic<int> num_requests{0};
  ScriptedUpstream server([&](Peer& peer, int) {
    if (!peer.ReadRequest().empty()) ++num_requests;
  });
  const Answered answered = Ask({.url = server.url(), .retries = 5});
  EXPECT_FALSE(answered.is_whole);
  EXPECT_EQ(answered.failure.status, KVGATE_UNAVAILABLE);
  EXPECT_EQ(num_requests, 1);
}

TEST(RemoteJobTest, AnAnswerThatBreaksOffIsSaidToHave) {
  ScriptedUpstream server([&](Peer& peer, int) {
    peer.ReadRequest();
    peer.Send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc");
  });
  const Answered answered = Ask({.url = server.url()});
  EXPECT_FALSE(answered.is_whole);
  EXPECT_EQ(answered.failure.status, KVGATE_UNAVAILABLE);
  EXPECT_THAT(answered.failure.message, HasSubstr("broke off"));
}

TEST(RemoteJobTest, ADeadlineEndsASilentAnswer) {
  ScriptedUpstream server([&](Peer& peer, int) {
    peer.ReadRequest();
    peer.WaitForEnd(std::chrono::seconds(30));
  });
  const Answered answered =
      Ask({.url = server.url()}, {.path = "/x", .timeout = std::chrono::milliseconds(50)});
  EXPECT_EQ(answered.failure.status, KVGATE_DEADLINE_EXCEEDED);
}

TEST(RemoteJobTest, TheBasePathStandsBeforeTheRequests) {
  std::string seen;
  ScriptedUpstream server([&](Peer& peer, int) {
    seen = peer.ReadRequest();
    peer.Send(kGood);
  });
  std::string url = server.url();
  if (url.ends_with("/v1")) url.resize(url.size() - 3);
  EXPECT_TRUE(Ask({.url = url + "/behind/v1"}, {.path = "/v1/models"}).is_whole);
  EXPECT_THAT(seen, testing::StartsWith("GET /behind/v1/models HTTP/1.1\r\n"));
}

TEST(RemoteTest, WhatIsNoAddressIsRefused) {
  for (const char* url : {"", "ftp://x", "http://", "127.0.0.1:80"}) {
    EXPECT_FALSE(ConnectRemote({.url = url})) << url;
  }
  EXPECT_FALSE(ConnectRemote({.url = "https://127.0.0.1:9", .ca_file = "/nowhere.pem"}));
}

TEST(RemoteTest, WhatIsUnderWayEndsWithTheTransport) {
  ScriptedUpstream server([&](Peer& peer, int) {
    peer.ReadRequest();
    peer.WaitForEnd(std::chrono::seconds(30));
  });
  std::shared_ptr<Channel> channel;
  {
    const auto transport = std::move(*ConnectRemote({.url = server.url()}));
    channel = transport->Start({.path = "/x"});
  }
  EXPECT_EQ(channel->Wait(), Channel::State::kFailed);
  EXPECT_EQ(channel->failure().status, KVGATE_CANCELLED);
  channel->Cancel(CancelledFailure());  // a reader may outlive all of it
}

}  // namespace
}  // namespace kvgate::sdk::transport
