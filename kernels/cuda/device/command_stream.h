// CommandStream: collects the kernels of a step and issues them together, as a CUDA graph if the
// same step was issued before.
//
// A decode step of a large model has hundreds of launches of a few microseconds; as a graph they
// are one. Therefore a launch is recorded with its argument, and all data that differs from step to
// step (token ids, positions, block tables) is staged: copied to an address that depends only on
// the preceding calls of the step. Two steps with equal commands then differ in staged bytes only,
// and the second one is a copy and a graph launch. Commands are compared byte by byte, not by a
// hash.
//
// To make this effective, callers round the sizes that they stage, and their grids, up in coarse
// steps, so that a growing context seldom changes the commands (Stage rounds addresses up to powers
// of two itself).
//
// Single-threaded. Commands run in order on one device stream. Flush passes them to the device;
// only Synchronize waits for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <list>
#include <memory>
#include <span>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "kernels/cuda/device/runtime.h"

namespace kvgate::kernels::cuda::device {

struct LaunchShape {
  dim3 grid = {};
  unsigned int threads = 0;  // per block: whole warps
  size_t shared_bytes = 0;   // dynamic; more than 48 KiB is enabled automatically
};

struct CommandStreamOptions {
  // Limit per flush; a step that stages more is flushed in pieces. Twice this size is allocated, on
  // the device and pinned on the host.
  size_t staging_bytes = size_t{8} << 20;
  size_t graphs_max = 64;         // least recently used ones are dropped; 0 means no graphs
  size_t graph_commands_min = 1;  // smaller flushes are issued without a graph
};

class CommandStream {
 public:
  // Returns kOverloaded if there is no memory for staging.
  static Result<std::unique_ptr<CommandStream>> Open(const CommandStreamOptions& options);
  ~CommandStream();
  CommandStream(const CommandStream&) = delete;
  CommandStream& operator=(const CommandStream&) = delete;

  // Records a launch. `kernel` takes one trivially copyable struct by value.
  template <typename Argument>
  void Launch(void (*kernel)(Argument), const LaunchShape& shape, const Argument& argument) {
    static_assert(std::is_trivially_copyable_v<Argument>);
    Note(reinterpret_cast<const void*>(kernel), &Invoke<Argument>, shape, &argument,
         sizeof(Argument));
  }
  // Records a call that issues work to a stream itself, as libraries do. It may be executed during
  // a graph capture.
  template <typename Argument>
  void Call(void (*call)(const Argument&, cudaStream_t), const Argument& argument) {
    static_assert(std::is_trivially_copyable_v<Argument>);
    NoteCall(reinterpret_cast<const void*>(call), &InvokeCall<Argument>, &argument,
             sizeof(Argument));
  }
  // Records memset(memory, value, bytes) on the device.
  void Fill(void* memory, uint8_t value, size_t bytes);
  // Records a copy within device memory.
  void Copy(void* to, const void* from, size_t bytes);

  // Returns the device address, 256-aligned, of a copy of `values` for commands recorded from now
  // on. It is valid until the commands recorded before the next Flush have run. Never null.
  template <typename T>
  const T* Stage(std::span<const T> values) {
    static_assert(std::is_trivially_copyable_v<T>);
    return static_cast<const T*>(StageBytes(values.data(), values.size_bytes()));
  }
  // Ensures that no flush for lack of room separates staged data from its use. Call it before the
  // Stage calls of one operation, with their total bytes, each rounded up to a power of two of at
  // least 256. REQUIRES: bytes <= staging_bytes.
  void ReserveStaging(size_t bytes);
  static size_t StagedBytes(size_t bytes);

  // Passes the recorded commands to the device. Invalidates addresses returned by Stage.
  void Flush();
  // Flushes and waits until everything has run. Ends the process if the device reports an error.
  void Synchronize();

  cudaStream_t stream() const { return stream_; }
  uint64_t num_graph_launches() const { return num_graph_launches_; }
  // Increases with every flush: data staged at one number may be reused while it stays the same.
  uint64_t num_flushes() const { return num_flushes_; }

 private:
  using KernelInvoke = void (*)(const void* kernel, const void* argument);
  struct Command;
  struct GraphEntry;
  struct Staging;

  template <typename Argument>
  static void Invoke(const void* kernel, const void* argument) {
    reinterpret_cast<void (*)(Argument)>(const_cast<void*>(kernel))(
        *static_cast<const Argument*>(argument));
  }
  using CallInvoke = void (*)(const void* call, const void* argument, cudaStream_t stream);
  template <typename Argument>
  static void InvokeCall(const void* call, const void* argument, cudaStream_t stream) {
    reinterpret_cast<void (*)(const Argument&, cudaStream_t)>(const_cast<void*>(call))(
        *static_cast<const Argument*>(argument), stream);
  }
  explicit CommandStream(const CommandStreamOptions& options);
  void NoteCall(const void* call, CallInvoke invoke, const void* argument, size_t bytes);
  void Note(const void* kernel, KernelInvoke invoke, const LaunchShape& shape, const void* argument,
            size_t bytes);
  const void* StageBytes(const void* bytes, size_t count);
  void Append(const Command& command, const void* argument);
  void IssueCommands();
  void AllowSharedBytes(const void* kernel, size_t bytes);
  GraphEntry* FindGraph(uint64_t hash);
  void Capture(uint64_t hash);
  void Evict();

  const CommandStreamOptions options_;
  cudaStream_t stream_ = nullptr;
  // Staging memory of two flushes, so that the next step is recorded while this one is read. Graphs
  // contain the addresses of their staging memory, so each of the two has its own graphs.
  std::vector<std::unique_ptr<Staging>> stagings_;
  size_t staging_index_ = 0;
  size_t staged_bytes_ = 0;
  size_t num_commands_ = 0;          // of the current flush
  std::vector<std::byte> commands_;  // sequence of Command and its argument, padded to 16
  std::list<GraphEntry> graphs_;     // most recently used first
  std::unordered_map<uint64_t, std::list<GraphEntry>::iterator> graphs_by_hash_;
  std::unordered_map<const void*, size_t> shared_bytes_;  // enabled beyond 48 KiB
  uint64_t num_graph_launches_ = 0;
  uint64_t num_flushes_ = 0;
};

}  // namespace kvgate::kernels::cuda::device
