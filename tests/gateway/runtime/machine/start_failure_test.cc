#include "gateway/runtime/machine/start_failure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvgate::runtime::machine {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(StartFailureTest, SaysWhatWasWantedHowMuchAndWhatToLower) {
  config::Config config;
  config.engine.kv_memory_bytes = uint64_t{300} << 20;
  config.engine.threads = 7;
  config.engine.step_tokens = 512;
  const Error error = StartFailure(
      config,
      {.address_bytes = uint64_t{400} << 20, .stack_bytes = uint64_t{8} << 20, .threads = 30},
      "memory");
  EXPECT_EQ(error.code, ErrorCode::kOverloaded);
  for (const char* part :
       {"refused it memory", "engine.kv_memory = 300 MiB", "engine.threads = 7", "server.threads",
        "engine.step_tokens = 512", "may have 400 MiB (ulimit -v) and 30 threads"}) {
    EXPECT_THAT(error.detail, HasSubstr(part));
  }
}

TEST(StartFailureTest, NamesTheSystemsReasonAndNoLimitThatThereIsNot) {
  const config::Config config;
  const std::system_error refused(std::make_error_code(std::errc::resource_unavailable_try_again));
  EXPECT_THAT(StartFailure(config, refused).detail,
              HasSubstr("a thread (Resource temporarily unavailable)"));
  EXPECT_THAT(StartFailure(config, ProcessLimits(), "memory").detail,
              Not(HasSubstr("this process may have")));
}

}  // namespace
}  // namespace kvgate::runtime::machine
