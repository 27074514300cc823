// SharedBranches tells other gateways what each conversation's requests have sent, and asks what
// theirs have, so that a conversation goes on at any of them as an extension of what was sent. It
// stands in front of the BranchStore, which keeps the same on this gateway's disk.
//
// What a request sends is told by a thread in the background: within milliseconds, long before its
// answer has ended. The others are asked only when a request goes on from something that is not
// known here, on a worker that may wait for the disk as well: half of `ask_time_max` for whether
// there is something, all of it until that is here. While the shared store does not answer, a
// conversation goes on from what is known here, and one that cannot counts as unknown. Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/lru_map.h"
#include "gateway/metrics/registry.h"
#include "gateway/prompt/history/past.h"
#include "gateway/service/branches/branch_store.h"
#include "store/shared/shared_rows.h"

namespace kvgate::service::branches {

class SharedBranches final : public prompt::history::Past {
 public:
  struct Options {
    BranchStore& here;                  // outlives it
    store::shared::SharedRows& shared;  // likewise
    std::chrono::milliseconds ask_time_max{100};
    std::chrono::milliseconds tell_time_max{1'000};  // of one call
    size_t queue_max = 1'024;                        // requests that wait to be told
    // Requests of different conversations from which the next row can go on.
    size_t lines_max = 16'384;
  };
  explicit SharedBranches(const Options& options);
  // Tells what waits, in a few calls.
  ~SharedBranches() override;
  SharedBranches(const SharedBranches&) = delete;
  SharedBranches& operator=(const SharedBranches&) = delete;

  // --- Past: what is kept here, and what others may know
  Standing Find(const Question& question) const override;
  bool CanKeep() const override { return options_.here.CanKeep(); }

  // --- Telling
  // Lets the others know what a request sends. Does not wait. Where more wait than queue_max, the
  // tenant with the most of them loses its oldest.
  void Tell(const BranchStore::StageArgs& args);
  // The request of the token was not sent after all.
  void Withdraw(std::string_view tenant, uint64_t token, uint64_t before);
  // Waits until all that was told so far is in the store, or cannot be; for tests.
  void Flush();

  // --- Asking
  // Waits for the shared store. Returns the branches of others that are found under any of the
  // keys, but not those whose last request is among `known`, by their tokens.
  struct Asked {
    std::string_view tenant;
    std::span<const prompt::parse::Identity> keys;
    std::span<const uint64_t> known;
  };
  std::vector<BranchStore::Recalled> Recall(const Asked& asked);
  // The same for who only looks: nothing is counted.
  std::vector<std::shared_ptr<prompt::history::Branch>> Peek(const Asked& asked) const;

  void Collect(metrics::TextWriter& writer) const;

 private:
  // A branch's rows in the store, of which this gateway is the one writer.
  struct Line {
    uint64_t number = 0;     // names it: the token of its first request
    uint64_t head = 0;       // the token of its last request
    uint64_t row_token = 0;  // of the request that its last row is of
    uint64_t num_rows = 0;   // 0: the next row begins it anew
    bool respells = false;
    std::vector<prompt::parse::Identity> keys = {};  // of its conversation, its own first
    std::vector<prompt::parse::Identity> kin = {};   // of its agent, while an answer is to come
  };
  struct Waiting {
    std::string tenant = {};
    std::shared_ptr<const prompt::history::Branch> branch = {};
    std::shared_ptr<const prompt::history::Branch> before = {};  // that it continues; may be null
    std::vector<prompt::parse::Identity> keys = {};
    std::vector<uint64_t> instead = {};
    int64_t time_us = 0;
    std::shared_ptr<Line> removed = {};  // null: none is removed, the branch is told
  };
  struct Row;

  void Run();
  std::vector<Waiting> TakeWaiting();
  void TellAll(std::span<const Waiting> waiting);
  void Remove(std::span<const Waiting> waiting);
  std::optional<Row> RowOf(const Waiting& waiting);
  void MakeAnew(Row& row);
  struct Encoding {
    const Line& now;
    bool has_new_keys = false;
    bool sends_all_texts = false;  // also those that are in the store as far as it is known here
  };
  void Encode(const Encoding& encoding, Row& row);
  void Add(std::vector<Row>& rows);
  Result<std::vector<bool>> TryAdd(std::span<Row> rows);
  void DropOldest();
  std::shared_ptr<Line> LineOf(uint64_t head);
  std::vector<BranchLine> Ask(const Asked& asked, bool counts) const;
  Result<std::vector<BranchLine>> TryAsk(const Asked& asked) const;
  Result<std::vector<std::string>> FindNews(const Asked& asked,
                                            SteadyClock::time_point deadline) const;

  const Options options_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable idle_;
  std::deque<Waiting> waiting_;
  std::map<std::string, size_t, std::less<>> num_waiting_;  // by tenant
  LruMap<uint64_t, std::shared_ptr<Line>> lines_;           // by the tokens of their requests
  LruMap<std::string, bool> texts_;  // in the store, as far as it is known here; the thread's
  bool is_telling_ = false;
  bool ends_ = false;
  mutable std::atomic<uint64_t> num_found_{0};
  mutable std::atomic<uint64_t> num_unknown_{0};
  mutable std::atomic<uint64_t> num_failed_{0};
  std::atomic<uint64_t> num_told_{0};
  std::atomic<uint64_t> num_untold_{0};
  std::thread thread_;  // declared last, so that it starts when all other members exist
};

}  // namespace kvgate::service::branches
