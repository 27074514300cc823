#include "gateway/proxy/host/host.h"

#include <gtest/gtest.h>

#include "tests/gateway/fakes.h"

namespace kvgate::proxy::host {
namespace {

request::TargetOptions OneUpstream(const std::string& api_key_env = "") {
  config::UpstreamConfig upstream;
  upstream.name = "one";
  upstream.base_url = "http://127.0.0.1:1/v1";
  upstream.api_key_env = api_key_env;
  return {.upstreams = {upstream}};
}

TEST(HostTest, TargetsAreReplacedAllOrNothing) {
  test::Gateway gateway;
  const auto host = std::move(*Host::Open({}, gateway.service));
  const auto before = host->environment().targets.Get();
  const Result<void> refused = host->Reload(OneUpstream("KVGATE_TEST_NO_SUCH"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(host->environment().targets.Get(), before);
  ASSERT_TRUE(host->Reload(OneUpstream()));
  EXPECT_EQ(host->environment().targets.Get()->upstreams->all().size(), 1u);
}

TEST(HostTest, AVariableThatIsMissingIsNamed) {
  test::Gateway gateway;
  const auto opened = Host::Open({.targets = OneUpstream("KVGATE_TEST_NO_SUCH")}, gateway.service);
  ASSERT_FALSE(opened);
  EXPECT_NE(opened.error().detail.find("KVGATE_TEST_NO_SUCH"), std::string::npos);
}

}  // namespace
}  // namespace kvgate::proxy::host
