#include "gateway/runtime/machine/device.h"

#include <gtest/gtest.h>

namespace kvgate::runtime::machine {
namespace {

using kernels::cuda::CudaDevice;

constexpr uint64_t kGibibyte = uint64_t{1} << 30;

CudaDevice Device(int ordinal, int major) {
  return {.ordinal = ordinal,
          .name = "Test GPU",
          .major = major,
          .minor = 0,
          .num_multiprocessors = 100,
          .bytes_total = 80 * kGibibyte,
          .bytes_free = 79 * kGibibyte};
}

config::EngineConfig Engine(const char* device, const char* numerics = "invariant") {
  config::EngineConfig engine;
  engine.device = device;
  engine.numerics = numerics;
  return engine;
}

const DeviceProbe kNotBuilt{.is_cuda_built = false, .found = {}};
const DeviceProbe kNone{.is_cuda_built = true, .found = {}};
const DeviceProbe kBroken{.is_cuda_built = true,
                          .found = MakeError(ErrorCode::kUnavailable, "test", "an old driver")};

TEST(ChooseDeviceTest, AutoTakesTheFirstUsableDevice) {
  const DeviceProbe probe{.is_cuda_built = true,
                          .found = std::vector{Device(0, 7), Device(1, 9), Device(2, 9)}};
  for (const char* device : {"auto", "cuda"}) {
    const auto choice = ChooseDevice(Engine(device), probe);
    ASSERT_TRUE(choice.has_value());
    EXPECT_TRUE(choice->is_cuda);
    EXPECT_EQ(choice->cuda.ordinal, 1);
    EXPECT_EQ(choice->why_cpu, "");
  }
  EXPECT_FALSE(ChooseDevice(Engine("cpu"), probe)->is_cuda);
}

TEST(ChooseDeviceTest, AutoWithoutOneIsTheCpuAndSaysWhy) {
  const auto why = [](const DeviceProbe& probe) {
    const auto choice = ChooseDevice(Engine("auto"), probe);
    EXPECT_TRUE(choice.has_value() && !choice->is_cuda);
    return choice->why_cpu;
  };
  EXPECT_EQ(why(kNotBuilt), "this build has no CUDA backend");
  EXPECT_EQ(why(kNone), "no CUDA device was found");
  EXPECT_EQ(why(kBroken), "an old driver");
  EXPECT_NE(why({.is_cuda_built = true, .found = std::vector{Device(0, 7)}})
                .find("compute capability 7.0"),
            std::string::npos);
}

TEST(ChooseDeviceTest, CudaWithoutOneIsRefusedWithWhatToDo) {
  for (const DeviceProbe* probe : {&kNotBuilt, &kNone, &kBroken}) {
    const auto refused = ChooseDevice(Engine("cuda"), *probe);
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
    EXPECT_EQ(refused.error().field, "engine.device");
    EXPECT_NE(refused.error().detail.find("engine.device auto or cpu"), std::string::npos);
  }
}

TEST(ChooseDeviceTest, FastNumericsAreCudasAlone) {
  const DeviceProbe one{.is_cuda_built = true, .found = std::vector{Device(0, 9)}};
  EXPECT_TRUE(ChooseDevice(Engine("auto", "fast"), one).has_value());
  for (const char* device : {"auto", "cpu"}) {
    const auto refused = ChooseDevice(Engine(device, "fast"), kNone);
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(refused.error().field, "engine.numerics");
  }
}

TEST(DeviceDefaultsTest, TheCpusAreWhatTheyWere) {
  config::Config config;
  ApplyDeviceDefaults({}, 100 * kGibibyte, config);
  EXPECT_EQ(config.engine.device, "cpu");
  EXPECT_EQ(config.engine.kv_memory_bytes, kGibibyte);
  EXPECT_EQ(config.engine.step_tokens, 512);
  EXPECT_EQ(config.engine.mixed_step_tokens, 256);
  EXPECT_EQ(config.cache.host_memory_bytes, 0u);
}

TEST(DeviceDefaultsTest, ADevicesLeaveTheKvToTheEngineAndTakeAShareOfTheRam) {
  const DeviceChoice choice{.is_cuda = true, .cuda = Device(0, 9)};
  config::Config config;
  ApplyDeviceDefaults(choice, 100 * kGibibyte, config);
  EXPECT_EQ(config.engine.device, "cuda");
  EXPECT_EQ(config.engine.kv_memory_bytes, 0u);
  EXPECT_EQ(config.engine.step_tokens, 2048);
  EXPECT_EQ(config.engine.mixed_step_tokens, 512);
  EXPECT_EQ(config.cache.host_memory_bytes, 50 * kGibibyte);
  config.cache.host_memory_bytes.reset();
  ApplyDeviceDefaults(choice, 2000 * kGibibyte, config);
  EXPECT_EQ(config.cache.host_memory_bytes, 320 * kGibibyte);
}

TEST(DeviceDefaultsTest, WhatIsSetStays) {
  for (const bool is_cuda : {false, true}) {
    config::Config config;
    config.engine.kv_memory_bytes = 7 * kGibibyte;
    config.engine.step_tokens = 64;
    config.engine.mixed_step_tokens = 32;
    config.cache.host_memory_bytes = 0;
    ApplyDeviceDefaults({.is_cuda = is_cuda, .cuda = Device(0, 9)}, 100 * kGibibyte, config);
    EXPECT_EQ(config.engine.kv_memory_bytes, 7 * kGibibyte);
    EXPECT_EQ(config.engine.step_tokens, 64);
    EXPECT_EQ(config.engine.mixed_step_tokens, 32);
    EXPECT_EQ(config.cache.host_memory_bytes, 0u);
  }
}

TEST(MakeBackendTest, TheCpusIsThereAnywhere) {
  config::EngineConfig engine = Engine("cpu");
  engine.threads = 1;
  EXPECT_TRUE((*MakeBackend(engine))->Info().kv_host_visible);
}

TEST(MakeBackendTest, TheCpusTargetIsTheOneAskedForOrRefused) {
  config::EngineConfig engine = Engine("cpu");
  engine.threads = 1;
  engine.cpu_target = "emu128";
  EXPECT_EQ((*MakeBackend(engine))->Info().target, "EMU128");
  engine.cpu_target = "abacus";
  const auto refused = MakeBackend(engine);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(refused.error().detail.find("EMU128"), std::string::npos);
}

}  // namespace
}  // namespace kvgate::runtime::machine
