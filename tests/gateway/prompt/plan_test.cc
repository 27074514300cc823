#include "gateway/prompt/plan.h"

#include <gtest/gtest.h>
TEST(X, Y) {}
