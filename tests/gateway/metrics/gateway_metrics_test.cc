#include "gateway/metrics/gateway_metrics.h"

#include <gtest/gtest.h>

#include <sstream>

namespace kvgate::metrics {
namespace {

TEST(GatewayMetricsTest, EveryNameHasThePrefixAndAUnitOrTotal) {
  Registry registry;
  const GatewayMetrics metrics(registry);
  std::istringstream text(registry.Text());
  int num_families = 0;
  for (std::string line; std::getline(text, line);) {
    if (!line.starts_with("# TYPE ")) continue;
    ++num_families;
    std::istringstream words(line.substr(7));
    std::string name, type;
    words >> name >> type;
    EXPECT_TRUE(name.starts_with("kvgate_")) << name;
    const bool unit = type == "counter" ? name.ends_with("_total")
                                        : name.ends_with("_seconds") || name.ends_with("_tokens");
    EXPECT_TRUE(unit || type == "gauge") << name;
  }
  EXPECT_EQ(num_families, 18);
}

}  // namespace
}  // namespace kvgate::metrics
