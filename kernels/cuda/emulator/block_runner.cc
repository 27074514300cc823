#include "kernels/cuda/emulator/block_runner.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <new>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "kernels/cuda/emulator/fiber.h"

namespace kvgate::kernels::cuda::emulator {
namespace {

constexpr unsigned int kWarpLanes = 32;
constexpr unsigned int kThreadsMax = 1024;
constexpr size_t kSharedAlignment = 1024;

struct PendingCopy {
  void* to;
  size_t to_bytes;
  const void* from;
  size_t bytes;

  void Run() const {
    std::memcpy(to, from, bytes);
    std::memset(static_cast<std::byte*>(to) + bytes, 0, to_bytes - bytes);
  }
};

struct PendingWork {
  CollectiveRun run;
  std::vector<std::byte> operands;
};
using WorkGroup = std::vector<PendingWork>;

struct Thread {
  Fiber fiber;
  ThreadPlace place;
  // Blocked while *generation == seen.
  const uint64_t* generation = nullptr;
  uint64_t seen = 0;
  std::deque<std::vector<PendingCopy>> copies;  // committed groups, oldest first
  std::vector<PendingCopy> uncommitted;
  std::deque<WorkGroup> work;  // likewise
  WorkGroup uncommitted_work;

  bool is_blocked() const { return generation != nullptr && *generation == seen; }
};

struct Warp {
  std::array<void*, kWarpLanes> operands{};
  const char* operation = nullptr;
  unsigned int num_arrived = 0;
  uint64_t generation = 0;
};

Order FirstOrder() {
  const char* value = std::getenv("KVGATE_CUDA_EMULATOR_ORDER");
  const std::string_view name = value == nullptr ? "forward" : value;
  if (name == "reversed") return Order::kReversed;
  if (name == "shuffled") return Order::kShuffled;
  KVGATE_CHECK(name == "forward", "KVGATE_CUDA_EMULATOR_ORDER: forward, reversed or shuffled");
  return Order::kForward;
}

class BlockRunner {
 public:
  void RunGrid(Extent3 grid, unsigned int block_threads, size_t shared_bytes,
               const std::function<void()>& body);

  Thread& current() { return *current_; }
  std::byte* shared() { return shared_; }
  void Barrier();
  void Collective(const char* operation, void* operands, CollectiveRun run);

  std::mutex mutex;
  Order order = FirstOrder();
  bool warpgroups_round = false;

 private:
  void RunBlock(Index3 block_index, Extent3 grid, unsigned int block_threads,
                const std::function<void()>& body);
  void ReleaseBarrierIfAllCame();
  void Shuffle(std::vector<unsigned int>& indices);
  std::vector<unsigned int> InOrder(unsigned int count);
  void Wait(const uint64_t& generation);

  std::vector<std::unique_ptr<Thread>> threads_;
  std::array<Warp, kThreadsMax / kWarpLanes> warps_;
  Thread* current_ = nullptr;
  std::vector<std::byte> shared_memory_;
  std::byte* shared_ = nullptr;
  unsigned int num_alive_ = 0;
  unsigned int num_at_barrier_ = 0;
  uint64_t barrier_generation_ = 0;
  uint64_t random_ = 88172645463325252u;
};

BlockRunner& Runner() {
  static BlockRunner runner;
  return runner;
}

void BlockRunner::Shuffle(std::vector<unsigned int>& indices) {
  for (size_t i = indices.size(); i > 1; --i) {
    random_ ^= random_ << 13;  // xorshift64: Marsaglia 2003
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    std::swap(indices[i - 1], indices[random_ % i]);
  }
}

std::vector<unsigned int> BlockRunner::InOrder(unsigned int count) {
  std::vector<unsigned int> indices(count);
  for (unsigned int i = 0; i < count; ++i) indices[i] = i;
  if (order == Order::kReversed) std::reverse(indices.begin(), indices.end());
  if (order == Order::kShuffled) Shuffle(indices);
  return indices;
}

void BlockRunner::RunGrid(Extent3 grid, unsigned int block_threads, size_t shared_bytes,
                          const std::function<void()>& body) {
  KVGATE_CHECK(block_threads > 0 && block_threads <= kThreadsMax && block_threads % kWarpLanes == 0,
               "threads of a block: whole warps");
  while (threads_.size() < block_threads) threads_.push_back(std::make_unique<Thread>());
  shared_memory_.resize(shared_bytes + kSharedAlignment);
  const auto address = reinterpret_cast<uintptr_t>(shared_memory_.data());
  shared_ = shared_memory_.data() + (kSharedAlignment - address % kSharedAlignment);
  const unsigned int num_blocks = grid.x * grid.y * grid.z;
  for (const unsigned int i : InOrder(num_blocks)) {
    std::memset(shared_, 0xff, shared_bytes);
    RunBlock({i % grid.x, i / grid.x % grid.y, i / grid.x / grid.y}, grid, block_threads, body);
  }
}

void BlockRunner::RunBlock(Index3 block_index, Extent3 grid, unsigned int block_threads,
                           const std::function<void()>& body) {
  for (unsigned int i = 0; i < block_threads; ++i) {
    Thread& thread = *threads_[i];
    thread.place = {.thread_index = {i, 0, 0},
                    .block_index = block_index,
                    .block_extent = {block_threads, 1, 1},
                    .grid_extent = grid};
    thread.generation = nullptr;
    thread.copies.clear();
    thread.uncommitted.clear();
    thread.work.clear();
    thread.uncommitted_work.clear();
    thread.fiber.Start(body);
  }
  for (Warp& warp : warps_) warp.num_arrived = 0;
  num_alive_ = block_threads;
  num_at_barrier_ = 0;
  const std::vector<unsigned int> in_order = InOrder(block_threads);
  while (num_alive_ > 0) {
    bool has_run = false;
    for (const unsigned int i : in_order) {
      Thread& thread = *threads_[i];
      if (thread.fiber.has_ended() || thread.is_blocked()) continue;
      has_run = true;
      current_ = &thread;
      thread.fiber.Resume();
      if (thread.fiber.has_ended()) {
        KVGATE_CHECK(thread.work.empty() && thread.uncommitted_work.empty(),
                     "a thread ends while its matrix instructions are under way");
        --num_alive_;
        ReleaseBarrierIfAllCame();
      }
    }
    KVGATE_CHECK(has_run,
                 "threads wait for others that never come (a barrier or a warp operation "
                 "inside a branch that not all of them take)");
  }
  current_ = nullptr;
}

void BlockRunner::Wait(const uint64_t& generation) {
  current_->generation = &generation;
  current_->seen = generation;
  current_->fiber.Suspend();
}

void BlockRunner::ReleaseBarrierIfAllCame() {
  if (num_at_barrier_ == 0 || num_at_barrier_ < num_alive_) return;
  num_at_barrier_ = 0;
  ++barrier_generation_;
}

void BlockRunner::Barrier() {
  ++num_at_barrier_;
  Thread& self = *current_;
  self.generation = &barrier_generation_;
  self.seen = barrier_generation_;
  ReleaseBarrierIfAllCame();
  self.fiber.Suspend();
}

void BlockRunner::Collective(const char* operation, void* operands, CollectiveRun run) {
  const unsigned int thread = current_->place.thread_index.x;
  Warp& warp = warps_[thread / kWarpLanes];
  KVGATE_CHECK(warp.num_arrived == 0 || std::string_view(warp.operation) == operation,
               "the lanes of a warp are at different operations");
  warp.operation = operation;
  warp.operands[thread % kWarpLanes] = operands;
  if (++warp.num_arrived < kWarpLanes) return Wait(warp.generation);
  run(warp.operands.data());
  warp.num_arrived = 0;
  ++warp.generation;
}

struct WorkOperands {
  Thread* thread;
  size_t groups_left;
};

// Runs the oldest groups of all lanes, checking that every lane started the same work.
void RunWork(void* const* lanes) {
  const auto thread = [lanes](unsigned int lane) {
    return static_cast<const WorkOperands*>(lanes[lane])->thread;
  };
  const size_t groups_left = static_cast<const WorkOperands*>(lanes[0])->groups_left;
  while (thread(0)->work.size() > groups_left) {
    const size_t count = thread(0)->work.front().size();
    for (size_t i = 0; i < count; ++i) {
      std::array<void*, kWarpLanes> operands{};
      for (unsigned int lane = 0; lane < kWarpLanes; ++lane) {
        KVGATE_CHECK(!thread(lane)->work.empty() && thread(lane)->work.front().size() == count &&
                         thread(lane)->work.front()[i].run == thread(0)->work.front()[i].run,
                     "the lanes of a warp began different work");
        operands[lane] = thread(lane)->work.front()[i].operands.data();
      }
      thread(0)->work.front()[i].run(operands.data());
    }
    for (unsigned int lane = 0; lane < kWarpLanes; ++lane) thread(lane)->work.pop_front();
  }
}

}  // namespace

void SetOrder(Order order) {
  BlockRunner& runner = Runner();
  const std::lock_guard lock(runner.mutex);
  runner.order = order;
}

void RunGrid(Extent3 grid, unsigned int block_threads, size_t shared_bytes,
             const std::function<void()>& body) {
  BlockRunner& runner = Runner();
  const std::lock_guard lock(runner.mutex);
  runner.RunGrid(grid, block_threads, shared_bytes, body);
}

const ThreadPlace& CurrentPlace() { return Runner().current().place; }

std::byte* CurrentShared() { return Runner().shared(); }

void Barrier() { Runner().Barrier(); }

void Collective(const char* operation, void* operands, CollectiveRun run) {
  Runner().Collective(operation, operands, run);
}

void CopyLater(void* to, size_t to_bytes, const void* from, size_t bytes) {
  Runner().current().uncommitted.push_back({to, to_bytes, from, bytes});
}

void CopyCommit() {
  Thread& self = Runner().current();
  self.copies.push_back(std::move(self.uncommitted));
  self.uncommitted.clear();
}

void CopyWait(int groups_left) {
  Thread& self = Runner().current();
  while (self.copies.size() > static_cast<size_t>(groups_left)) {
    for (const PendingCopy& copy : self.copies.front()) copy.Run();
    self.copies.pop_front();
  }
}

void WorkLater(CollectiveRun run, const void* operands, size_t bytes) {
  const auto* begin = static_cast<const std::byte*>(operands);
  Runner().current().uncommitted_work.push_back({run, {begin, begin + bytes}});
}

void WorkCommit() {
  Thread& self = Runner().current();
  self.work.push_back(std::move(self.uncommitted_work));
  self.uncommitted_work.clear();
}

void WorkWait(int groups_left) {
  WorkOperands operands{&Runner().current(), static_cast<size_t>(groups_left)};
  Collective("WorkWait", &operands, &RunWork);
}

void SetWarpgroupsRound(bool do_round) {
  BlockRunner& runner = Runner();
  const std::lock_guard lock(runner.mutex);
  runner.warpgroups_round = do_round;
}

bool WarpgroupsRound() { return Runner().warpgroups_round; }

}  // namespace kvgate::kernels::cuda::emulator
