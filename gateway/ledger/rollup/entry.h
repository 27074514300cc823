// An Entry is what one request adds to rollups.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gateway/ledger/rollup/bucket.h"
#include "gateway/ledger/rollup/rollup_key.h"

namespace kvgate::ledger::rollup {

struct Entry {
  int64_t time_us = 0;
  std::string tenant = {};
  Bucket whole = {};
  // What `whole` is counted under, besides the total.
  std::vector<std::pair<By, std::string>> names = {};
  struct Part {
    By by = By::kSource;
    std::string name = {};
    Bucket bucket = {};
  };
  std::vector<Part> parts = {};  // what is counted in part only: by source, tool, server, break
};

}  // namespace kvgate::ledger::rollup
