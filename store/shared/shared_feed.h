// SharedFeed: rows that gateways tell each other, in a store that they share (RespClient). Whoever
// learns something adds it as a row; each gateway takes what was added since it last asked, its own
// rows included, in the order in which the server got them. Rows are never changed, and the oldest
// leave: by age, by number, and with a server that forgets.
//
// A feed is a stream of the server (Redis 6.2 or newer, or what speaks its commands). Rows are
// sealed with the gateways' common secret for their feed, whose name is derived from it; one that
// does not open is left out and counted. store/FORMAT.md specifies the bytes.
//
// Each call of the server waits at most for Options::call_time_max, and what makes several begins
// none after that time. Who waits is a thread of the background; one thread at a time uses a feed.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/seal.h"
#include "store/remote/resp_client.h"

namespace kvgate::store::shared {

class SharedFeed {
 public:
  struct Options {
    std::string name = {};                          // which feed: what its rows are
    std::chrono::seconds time_to_live{7 * 86'400};  // of a row; 0: no limit
    size_t rows_max = 1'024;                        // the server may keep some more
    size_t row_bytes_max = size_t{256} << 10;
    size_t take_max = 16;  // rows that one Take returns
    size_t queue_bytes_max = size_t{8} << 20;
    std::chrono::milliseconds call_time_max{1'000};
  };
  // The client and the keyring outlive it.
  SharedFeed(const Options& options, remote::RespClient& client, const Keyring& ring);

  // Adds the rows in this order; a larger one than row_bytes_max is left out. After an error some
  // may have been added, and a row that is added twice is taken twice. That a server cannot let old
  // rows go is no error of this call. Errors: those of
  // RespClient::Call; kUnavailable if the server refuses.
  Result<void> Add(std::span<const std::string> rows);

  struct Part {
    std::vector<std::string> rows = {};
    bool has_more = false;     // Take has more to return
    uint64_t num_damaged = 0;  // rows that were left out
  };
  // Returns the rows added since the last call; the first call begins with the oldest. Errors: as
  // for Add, and the rows come with the next call.
  Result<Part> Take();

  // Lets the next AddQueued or Exchange add the row. While the server takes none, rows beyond
  // queue_bytes_max are dropped.
  void Queue(std::string row);
  // Adds what was queued. Returns false if the rest has to wait for another call.
  bool AddQueued();
  // Adds what was queued, and calls `hear` with each row that Take returns. What cannot be done now
  // is done by a later call; why is logged, each reason once.
  using Hear = std::function<void(std::string_view row)>;
  void Exchange(const Hear& hear);

 private:
  void SayOnce(const Error& error);

  const Options options_;
  remote::RespClient& client_;
  const Keyring& ring_;
  const std::string key_;
  std::string taken_;              // the server's id of the last row that was taken; empty: none
  std::deque<std::string> queue_;  // oldest first
  size_t queue_bytes_ = 0;
  std::string said_;  // the reason that was logged last
};

}  // namespace kvgate::store::shared
