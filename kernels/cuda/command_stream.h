// CommandStream: the kernels of a step, collected, then issued at once, as a CUDA graph where the
// same step was issued before.
//
// A decode step of a large model is hundreds of launches of a few microseconds; a graph of them is
// one. So a launch is noted here with its argument, and whatever differs from step to step (token
// ids, positions, block tables) is staged: copied to a place that depends only on the calls before
// it in the step. Two steps with equal commands then differ in staged bytes alone, and the second
// one is a copy and a graph launch. Equality is of all bytes of the commands, not of a hash.
//
// For that, callers round what they stage and their grids up in coarse steps: then a growing
// context changes the commands seldom (Stage rounds its places up to powers of two by itself).
//
// One thread. Commands run in order on one device stream; Flush gives them to the device, nothing
// waits but Synchronize.
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

#include <kvgate/result.h>

#include "kernels/cuda/runtime.h"

namespace kvgate::kernels::cuda {

struct LaunchShape {
  dim3 grid = {};
  unsigned int threads = 0;  // of a block: whole warps
  size_t shared_bytes = 0;   // dynamic; more than 48 KiB is asked for by itself
};

struct CommandStreamOptions {
  // Of one flush; a step that stages more is flushed in pieces. Twice that is allocated, on the
  // device and pinned on the host.
  size_t staging_bytes = size_t{8} << 20;
  size_t graphs_max = 64;         // kept, the least lately used one goes; 0: no graphs
  size_t graph_commands_min = 1;  // a flush of fewer commands is issued plainly
};

class CommandStream {
 public:
  // kOverloaded: no memory for staging.
  static Result<std::unique_ptr<CommandStream>> Open(const CommandStreamOptions& options);
  ~CommandStream();
  CommandStream(const CommandStream&) = delete;
  CommandStream& operator=(const CommandStream&) = delete;

  // Notes a launch. `kernel` takes one trivially copyable struct by value.
  template <typename Argument>
  void Launch(void (*kernel)(Argument), const LaunchShape& shape, const Argument& argument) {
    static_assert(std::is_trivially_copyable_v<Argument>);
    Note(reinterpret_cast<const void*>(kernel), &Invoke<Argument>, shape, &argument,
         sizeof(Argument));
  }
  // Notes a call that gives work to a stream by itself, as libraries do. It may come within a
  // capture.
  template <typename Argument>
  void Call(void (*call)(const Argument&, cudaStream_t), const Argument& argument) {
    static_assert(std::is_trivially_copyable_v<Argument>);
    NoteCall(reinterpret_cast<const void*>(call), &InvokeCall<Argument>, &argument,
             sizeof(Argument));
  }
  // Notes memset(memory, value, bytes) on the device.
  void Fill(void* memory, uint8_t value, size_t bytes);
  // Notes a copy within device memory.
  void Copy(void* to, const void* from, size_t bytes);

  // Where the device finds a copy of `values` when the commands noted from now on run, 256-aligned;
  // valid until the commands that are noted before the next Flush have run. Never null.
  template <typename T>
  const T* Stage(std::span<const T> values) {
    static_assert(std::is_trivially_copyable_v<T>);
    return static_cast<const T*>(StageBytes(values.data(), values.size_bytes()));
  }
  // A staging command must not be cut from its use by a flush for room: called before the Stage
  // calls of one operation with the bytes they will take together, each rounded up to a power of
  // two of at least 256. REQUIRES: bytes <= staging_bytes.
  void ReserveStaging(size_t bytes);
  static size_t StagedBytes(size_t bytes);

  // Gives what was noted to the device. Calls of Stage before are void.
  void Flush();
  // Flush, and waits until all of it has run. Ends the process when the device reports an error.
  void Synchronize();

  cudaStream_t stream() const { return stream_; }
  uint64_t num_graph_launches() const { return num_graph_launches_; }
  // Rises with every flush: what was staged at one number may be used again at the same.
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
  // Staged bytes of this flush; two, so that the next step is noted while this one's are read. A
  // graph's commands know their staging's addresses, so the two have graphs of their own.
  std::vector<std::unique_ptr<Staging>> stagings_;
  size_t staging_index_ = 0;
  size_t staged_bytes_ = 0;
  size_t num_commands_ = 0;          // of this flush
  std::vector<std::byte> commands_;  // Command, its argument, padded to 16; and so on
  std::list<GraphEntry> graphs_;     // most lately used first
  std::unordered_map<uint64_t, std::list<GraphEntry>::iterator> graphs_by_hash_;
  std::unordered_map<const void*, size_t> shared_bytes_;  // allowed beyond 48 KiB
  uint64_t num_graph_launches_ = 0;
  uint64_t num_flushes_ = 0;
};

}  // namespace kvgate::kernels::cuda
