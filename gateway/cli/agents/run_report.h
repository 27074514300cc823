// RunReport: what the requests of one run of an agent used and cost, from the records of the
// ledger, as lines for a terminal. It knows no server and no terminal. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace kvgate::cli::agents {

class RunReport {
 public:
  // A record as /kvgate/v1/requests gives it.
  void Add(const nlohmann::json& record);
  int64_t num_requests() const { return num_requests_; }
  // Requests, tokens, the cached share, causes of breaks, cost. One line if there was no request.
  std::vector<std::string> Lines() const;

 private:
  struct Break {
    int64_t count = 0;
    int64_t lost_tokens = 0;
    int64_t lost_nanodollars = 0;
  };

  int64_t num_requests_ = 0;
  int64_t num_failed_ = 0;
  int64_t num_unknown_usage_ = 0;
  int64_t num_unpriced_ = 0;  // of upstreams, with known usage and without a known price
  int64_t input_tokens_ = 0;
  int64_t cached_tokens_ = 0;
  int64_t output_tokens_ = 0;
  int64_t num_priced_ = 0;
  int64_t nanodollars_ = 0;
  int64_t uncached_nanodollars_ = 0;
  std::map<std::string, Break> breaks_;
};

}  // namespace kvgate::cli::agents
