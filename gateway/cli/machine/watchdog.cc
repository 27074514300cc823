#include "gateway/cli/machine/watchdog.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

#include "base/log.h"
#include "base/memory_fence.h"

namespace kvgate::cli::machine {
namespace {

constexpr int kFramesMax = 48;
// The frames of the handler and of the kernel's signal return.
constexpr int kFramesSkipped = 2;

// One stack at a time; the handler fills it, then sets `told`.
struct Stack {
  std::array<void*, kFramesMax> frames{};
  int num_frames = 0;
  std::atomic<pthread_t> thread{};  // the thread that is asked
  std::atomic<uint64_t> wanted{0};
  std::atomic<uint64_t> told{0};
};

// Never destroyed, because a signal may arrive late.
Stack& TheStack() {
  static Stack* const stack = new Stack();
  return *stack;
}
Stack* stack_for_handler = nullptr;

// Safe in a signal handler, because backtrace() allocates no memory after its first call. A thread
// that is too late finds that its stack is no longer wanted, or that another's is.
void TellStack(int) {
  const int saved_errno = errno;
  Stack& stack = *stack_for_handler;
  uint64_t wanted = stack.wanted.load(std::memory_order_acquire);
  const bool mine = ::pthread_equal(stack.thread.load(), ::pthread_self()) != 0;
  if (wanted != 0 && mine && stack.wanted.compare_exchange_strong(wanted, 0)) {
    stack.num_frames = ::backtrace(stack.frames.data(), kFramesMax);
    stack.told.store(wanted, std::memory_order_release);
  }
  errno = saved_errno;
}

// The first signal that neither the C library nor the shell's job control uses.
int StackSignal() { return SIGRTMIN + 3; }

void InstallHandler() {
  static const bool installed = [] {
    stack_for_handler = &TheStack();
    void* frame = nullptr;
    ::backtrace(&frame, 1);  // makes backtrace load its library
    struct sigaction action = {};
    action.sa_handler = TellStack;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    return ::sigaction(StackSignal(), &action, nullptr) == 0;
  }();
  static_cast<void>(installed);
}

// "kvgate+0x1234 (name)": the form that addr2line takes, with the name if the binary exports it.
std::string FrameText(void* address) {
  Dl_info info{};
  if (::dladdr(address, &info) == 0 || info.dli_fname == nullptr) {
    return fmt::format("{}", address);
  }
  std::string_view file = info.dli_fname;
  file.remove_prefix(file.rfind('/') + 1);
  const auto offset =
      reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(info.dli_fbase);
  const char* const name = info.dli_sname == nullptr ? "" : info.dli_sname;
  return fmt::format("{}+{:#x}{}{}", file, offset, *name == '\0' ? "" : " ", name);
}

// Returns an empty text if the thread did not answer in time, for example because it is in the
// kernel, where no signal reaches it.
std::string StackOf(pthread_t thread, std::chrono::milliseconds timeout) {
  static std::atomic<uint64_t> last{0};
  const uint64_t ticket = ++last;
  Stack& stack = TheStack();
  stack.thread.store(thread);
  stack.wanted.store(ticket, std::memory_order_release);
  if (::pthread_kill(thread, StackSignal()) != 0) return "";
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (stack.told.load(std::memory_order_acquire) != ticket) {
    if (std::chrono::steady_clock::now() > deadline) {
      uint64_t expected = ticket;
      if (stack.wanted.compare_exchange_strong(expected, 0)) return "";
      // The thread is recording its stack right now.
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::string text;
  for (int i = std::min(kFramesSkipped, stack.num_frames); i < stack.num_frames; ++i) {
    if (!text.empty()) text += " < ";
    text += FrameText(stack.frames[static_cast<size_t>(i)]);
  }
  return text;
}

}  // namespace

Watchdog::Watchdog(const Options& options, metrics::Registry& registry)
    : options_(options),
      stalled_(registry.AddCounterFamily("kvgate_stalled_threads_total",
                                         "Times that a thread was at one thing for longer than it "
                                         "may be, by pool; of store and bulk: a slow disk.",
                                         {"pool"})) {
  InstallHandler();
  if (options_.runs) thread_ = std::thread([this] { Run(); });
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Watchdog::Run() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, options_.interval, [this] { return stopping_; })) {
    lock.unlock();
    (void)Attempt("watchdog", "looking at threads", [this] { Look(); });
    lock.lock();
  }
}

void Watchdog::Look() {
  const Clock::time_point now = options_.now ? options_.now() : Clock::now();
  std::map<uint64_t, Clock::time_point> still;
  ThreadActivity::ForEach([&](const ThreadActivity::View& view) {
    if (now - view.since <= view.patience) return;
    still.emplace(view.id, view.since);
    const auto before = reported_.find(view.id);
    if (before != reported_.end() && before->second == view.since) return;
    stalled_.With({view.pool}).Add();
    Report(view, now);
  });
  reported_ = std::move(still);
}

bool Watchdog::MayWrite(Clock::time_point now) {
  if (now - minute_ >= std::chrono::minutes(1)) {
    minute_ = now;
    num_lines_ = 0;
  }
  return ++num_lines_ <= options_.lines_per_minute_max;
}

void Watchdog::Report(const ThreadActivity::View& view, Clock::time_point now) {
  if (!MayWrite(now)) return;
  const auto held = std::chrono::duration_cast<std::chrono::milliseconds>(now - view.since);
  const std::string stack = StackOf(view.thread, options_.stack_timeout);
  const std::string line =
      fmt::format("{} of pool {} has been at '{}' for {} ms; its stack: {}",
                  view.waits_for_disk ? "the disk is slow: a thread" : "a thread", view.pool,
                  view.what, held.count(), stack.empty() ? "not told, it is in the kernel" : stack);
  if (options_.write) {
    options_.write(line);
  } else {
    KVGATE_LOG(kWarning, "watchdog", "{}", line);
  }
}

}  // namespace kvgate::cli::machine
