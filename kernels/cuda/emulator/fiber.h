// Fiber: a function with its own stack that can be suspended and resumed. The emulator runs each
// CUDA thread on one, so that thousands of them can wait for each other cheaply. Single-threaded:
// only the system thread that created a fiber may resume and suspend it.
#pragma once

#include <ucontext.h>
#include <csetjmp>
#include <cstddef>
#include <functional>
#include <memory>

namespace kvgate::kernels::cuda::emulator {

class Fiber {
 public:
  static constexpr size_t kStackBytes = 256 << 10;  // only touched pages use memory

  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Makes the next Resume run `body`. REQUIRES: the previous body has ended.
  void Start(std::function<void()> body);
  // Runs the body until it suspends or ends.
  void Resume();
  bool has_ended() const { return has_ended_; }

  // Called inside a body: returns control to the caller of Resume.
  void Suspend();

 private:
  static void Enter(unsigned int high, unsigned int low);
  void Run();

  std::unique_ptr<std::byte[]> stack_;
  std::function<void()> body_;
  bool has_begun_ = false;
  bool has_ended_ = true;
  ucontext_t context_{};  // used once, to switch to the stack
  ucontext_t caller_context_{};
  std::jmp_buf inside_{};
  std::jmp_buf caller_{};
};

}  // namespace kvgate::kernels::cuda::emulator
