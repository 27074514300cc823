#include "kernels/cuda/emulator/fiber.h"

#include <cstdint>
#include <cstdlib>
#include <utility>

#include "base/check.h"

namespace kvgate::kernels::cuda::emulator {
namespace {

// swapcontext calls the kernel to switch signal masks, which costs more than a CUDA thread's work
// between two barriers; _setjmp and _longjmp only exchange registers. Sanitizers understand only
// swapcontext.
#ifdef KVGATE_SANITIZED
constexpr bool kSwapsContexts = true;
#else
constexpr bool kSwapsContexts = false;
#endif

}  // namespace

Fiber::Fiber() : stack_(new std::byte[kStackBytes]) {}

Fiber::~Fiber() = default;

void Fiber::Start(std::function<void()> body) {
  KVGATE_CHECK(has_ended_, "the fiber's body before has ended");
  body_ = std::move(body);
  has_begun_ = false;
  has_ended_ = false;
}

// The pointer is split because makecontext passes only ints.
void Fiber::Enter(unsigned int high, unsigned int low) {
  reinterpret_cast<Fiber*>((uintptr_t{high} << 32) | low)->Run();
}

void Fiber::Run() {
  body_();
  has_ended_ = true;
  Suspend();
  std::abort();  // an ended fiber is not resumed
}

void Fiber::Resume() {
  KVGATE_CHECK(!has_ended_, "a fiber that has ended is not resumed");
  const bool begins = !has_begun_;
  has_begun_ = true;
  if (begins) {
    KVGATE_CHECK(getcontext(&context_) == 0, "getcontext");
    context_.uc_stack.ss_sp = stack_.get();
    context_.uc_stack.ss_size = kStackBytes;
    context_.uc_link = nullptr;
    const auto address = reinterpret_cast<uintptr_t>(this);
    makecontext(&context_, reinterpret_cast<void (*)()>(&Fiber::Enter), 2,
                static_cast<unsigned int>(address >> 32), static_cast<unsigned int>(address));
  }
  if constexpr (kSwapsContexts) {
    swapcontext(&caller_context_, &context_);
  } else if (_setjmp(caller_) == 0) {
    if (begins) setcontext(&context_);
    _longjmp(inside_, 1);
  }
}

void Fiber::Suspend() {
  if constexpr (kSwapsContexts) {
    swapcontext(&context_, &caller_context_);
  } else if (_setjmp(inside_) == 0) {
    _longjmp(caller_, 1);
  }
}

}  // namespace kvgate::kernels::cuda::emulator
