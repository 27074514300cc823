#include "sdk/src/transport/cancel.h"

#include <gtest/gtest.h>

namespace kvgate::sdk::transport {
namespace {

TEST(CancelTest, AllWatchesAreToldOnce) {
  const auto cancel = std::make_shared<Cancel>();
  int num_told = 0;
  const Cancel::Watch one = Cancel::Add(cancel, [&] { ++num_told; });
  const Cancel::Watch two = Cancel::Add(cancel, [&] { ++num_told; });
  cancel->Trigger();
  cancel->Trigger();
  EXPECT_EQ(num_told, 2);
}

TEST(CancelTest, WhoComesLateIsToldAtOnce) {
  const auto cancel = std::make_shared<Cancel>();
  cancel->Trigger();
  bool is_told = false;
  const Cancel::Watch watch = Cancel::Add(cancel, [&] { is_told = true; });
  EXPECT_TRUE(is_told);
}

TEST(CancelTest, WhoHasLeftIsNotTold) {
  const auto cancel = std::make_shared<Cancel>();
  bool is_told = false;
  {
    Cancel::Watch watch = Cancel::Add(cancel, [&] { is_told = true; });
    const Cancel::Watch moved = std::move(watch);
  }
  cancel->Trigger();
  EXPECT_FALSE(is_told);
}

TEST(CancelTest, WithoutOneNothingIsWatched) {
  const Cancel::Watch watch = Cancel::Add(nullptr, [] { FAIL(); });
}

}  // namespace
}  // namespace kvgate::sdk::transport
