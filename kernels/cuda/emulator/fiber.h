// Fiber: a function on a stack of its own that can stop in its middle and go on later. What the
// emulator runs each CUDA thread on, so that thousands of them wait for one another cheaply.
// One system thread: a fiber is resumed and suspended by the thread that made it.
#pragma once

#include <ucontext.h>
#include <csetjmp>
#include <cstddef>
#include <functional>
#include <memory>

namespace kvgate::kernels::cuda::emulator {

class Fiber {
 public:
  static constexpr size_t kStackBytes = 256 << 10;  // touched pages only cost memory

  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Begins `body` at the next Resume. REQUIRES: the one before has ended.
  void Start(std::function<void()> body);
  // Runs the body until it suspends or ends.
  void Resume();
  bool has_ended() const { return has_ended_; }

  // Called inside a body: gives back to who resumed it.
  void Suspend();

 private:
  static void Enter(unsigned int high, unsigned int low);
  void Run();

  std::unique_ptr<std::byte[]> stack_;
  std::function<void()> body_;
  bool has_begun_ = false;
  bool has_ended_ = true;
  ucontext_t context_{};  // enters the stack, once
  ucontext_t caller_context_{};
  std::jmp_buf inside_{};
  std::jmp_buf caller_{};
};

}  // namespace kvgate::kernels::cuda::emulator
