#include "kernels/cuda/device/command_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "kernels/cuda/device/device_error.h"

namespace kvgate::kernels::cuda::device {
namespace {

constexpr size_t kStageBytesMin = 256;
constexpr size_t kSharedBytesFree = 48 << 10;  // available to every kernel by default
constexpr size_t kStagings = 2;

size_t PaddedBytes(size_t bytes) { return (bytes + 15) / 16 * 16; }

// FNV-1a over words. It finds a graph; equality of the commands' bytes proves the match.
uint64_t HashOf(std::span<const std::byte> bytes) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (size_t i = 0; i + 8 <= bytes.size(); i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, sizeof(word));
    hash = (hash ^ word) * 0x100000001b3u;
    hash ^= hash >> 29;
  }
  return hash;
}

}  // namespace

// The header of a command in commands_, followed by the argument. Padding bytes are zero, so that
// equal commands have equal bytes.
struct CommandStream::Command {
  enum class Kind : uint64_t { kLaunch, kCall, kFill, kCopy };
  Kind kind = Kind::kLaunch;
  const void* kernel = nullptr;  // call: the function; copy: the source
  KernelInvoke invoke = nullptr;
  CallInvoke invoke_call = nullptr;
  void* memory = nullptr;  // fill or copy: the destination
  uint64_t grid_x = 0, grid_y = 0, grid_z = 0;
  uint64_t threads = 0;  // fill: the value
  uint64_t bytes = 0;    // dynamic shared memory; fill or copy: the size
  uint64_t argument_bytes = 0;
};

struct CommandStream::GraphEntry {
  uint64_t hash = 0;
  std::vector<std::byte> commands;
  cudaGraphExec_t exec = nullptr;  // null if seen once and not yet captured
};

struct CommandStream::Staging {
  std::byte* host = nullptr;
  std::byte* device = nullptr;
  cudaEvent_t is_read = nullptr;  // set when the commands of its last flush have run

  ~Staging() {
    if (is_read != nullptr) cudaEventDestroy(is_read);
    if (host != nullptr) cudaFreeHost(host);
    if (device != nullptr) cudaFree(device);
  }
};

CommandStream::CommandStream(const CommandStreamOptions& options) : options_(options) {}

Result<std::unique_ptr<CommandStream>> CommandStream::Open(const CommandStreamOptions& options) {
  std::unique_ptr<CommandStream> made(new CommandStream(options));
  CheckDevice(cudaStreamCreateWithFlags(&made->stream_, cudaStreamNonBlocking), "make a stream");
  for (size_t i = 0; i < kStagings; ++i) {
    auto staging = std::make_unique<Staging>();
    const std::string doing = fmt::format("allocate {} bytes for staging", options.staging_bytes);
    void* memory = nullptr;
    cudaError_t error = cudaMalloc(&memory, options.staging_bytes);
    if (error != cudaSuccess) return DeviceError(error, doing);
    staging->device = static_cast<std::byte*>(memory);
    error = cudaHostAlloc(&memory, options.staging_bytes, cudaHostAllocDefault);
    if (error != cudaSuccess) return DeviceError(error, doing + " on the host");
    staging->host = static_cast<std::byte*>(memory);
    CheckDevice(cudaEventCreateWithFlags(&staging->is_read, cudaEventDisableTiming),
                "make an event");
    made->stagings_.push_back(std::move(staging));
  }
  return made;
}

CommandStream::~CommandStream() {
  if (stream_ == nullptr) return;
  cudaStreamSynchronize(stream_);
  for (const GraphEntry& entry : graphs_) {
    if (entry.exec != nullptr) cudaGraphExecDestroy(entry.exec);
  }
  cudaStreamDestroy(stream_);
}

size_t CommandStream::StagedBytes(size_t bytes) {
  return std::bit_ceil(std::max(bytes, kStageBytesMin));
}

void CommandStream::ReserveStaging(size_t bytes) {
  KVGATE_CHECK(bytes <= options_.staging_bytes, "one operation stages more than a flush can hold");
  if (staged_bytes_ + bytes > options_.staging_bytes) Flush();
}

const void* CommandStream::StageBytes(const void* bytes, size_t count) {
  const size_t rounded = StagedBytes(count);
  ReserveStaging(rounded);
  Staging& staging = *stagings_[staging_index_];
  // The previous flush that used this half must have copied its bytes, and its kernels read them.
  if (staged_bytes_ == 0) CheckDevice(cudaEventSynchronize(staging.is_read), "wait for staging");
  const size_t place = staged_bytes_;
  if (count > 0) std::memcpy(staging.host + place, bytes, count);
  staged_bytes_ += rounded;
  return staging.device + place;
}

void CommandStream::Append(const Command& command, const void* argument) {
  ++num_commands_;
  const size_t begin = commands_.size();
  commands_.resize(begin + PaddedBytes(sizeof(Command)) + PaddedBytes(command.argument_bytes));
  std::memcpy(commands_.data() + begin, &command, sizeof(command));
  if (argument != nullptr) {
    std::memcpy(commands_.data() + begin + PaddedBytes(sizeof(Command)), argument,
                command.argument_bytes);
  }
}

void CommandStream::Note(const void* kernel, KernelInvoke invoke, const LaunchShape& shape,
                         const void* argument, size_t bytes) {
  KVGATE_CHECK(shape.grid.x > 0 && shape.grid.y > 0 && shape.grid.z > 0, "an empty launch");
  KVGATE_CHECK(shape.threads > 0 && shape.threads % 32 == 0, "threads of a block: whole warps");
  AllowSharedBytes(kernel, shape.shared_bytes);
  Append({.kind = Command::Kind::kLaunch,
          .kernel = kernel,
          .invoke = invoke,
          .grid_x = shape.grid.x,
          .grid_y = shape.grid.y,
          .grid_z = shape.grid.z,
          .threads = shape.threads,
          .bytes = shape.shared_bytes,
          .argument_bytes = bytes},
         argument);
}

void CommandStream::NoteCall(const void* call, CallInvoke invoke, const void* argument,
                             size_t bytes) {
  Append({.kind = Command::Kind::kCall,
          .kernel = call,
          .invoke_call = invoke,
          .argument_bytes = bytes},
         argument);
}

void CommandStream::Fill(void* memory, uint8_t value, size_t bytes) {
  Append({.kind = Command::Kind::kFill, .memory = memory, .threads = value, .bytes = bytes},
         nullptr);
}

void CommandStream::Copy(void* to, const void* from, size_t bytes) {
  Append({.kind = Command::Kind::kCopy, .kernel = from, .memory = to, .bytes = bytes}, nullptr);
}

void CommandStream::AllowSharedBytes(const void* kernel, size_t bytes) {
  if (bytes <= kSharedBytesFree) return;
  size_t& allowed = shared_bytes_[kernel];
  if (bytes <= allowed) return;
  CheckDevice(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   static_cast<int>(bytes)),
              "allow a kernel its shared memory");
  allowed = bytes;
}

void CommandStream::IssueCommands() {
  for (size_t at = 0; at < commands_.size();) {
    Command command;
    std::memcpy(&command, commands_.data() + at, sizeof(command));
    at += PaddedBytes(sizeof(Command));
    std::byte* argument = commands_.data() + at;
    at += PaddedBytes(command.argument_bytes);
    switch (command.kind) {
      case Command::Kind::kLaunch: {
        const dim3 grid(static_cast<unsigned int>(command.grid_x),
                        static_cast<unsigned int>(command.grid_y),
                        static_cast<unsigned int>(command.grid_z));
        const auto threads = static_cast<unsigned int>(command.threads);
#if KVGATE_CUDA_EMULATED
        CheckDevice(emulator::LaunchKernel(command.kernel, command.invoke, {grid.x, grid.y, grid.z},
                                           threads, command.bytes, argument, command.argument_bytes,
                                           stream_),
                    "launch a kernel");
#else
        void* arguments[] = {argument};
        CheckDevice(cudaLaunchKernel(command.kernel, grid, dim3(threads), arguments, command.bytes,
                                     stream_),
                    "launch a kernel");
#endif
        break;
      }
      case Command::Kind::kCall:
        command.invoke_call(command.kernel, argument, stream_);
        break;
      case Command::Kind::kFill:
        CheckDevice(cudaMemsetAsync(command.memory, static_cast<int>(command.threads),
                                    command.bytes, stream_),
                    "fill device memory");
        break;
      case Command::Kind::kCopy:
        CheckDevice(cudaMemcpyAsync(command.memory, command.kernel, command.bytes,
                                    cudaMemcpyDeviceToDevice, stream_),
                    "copy device memory");
        break;
    }
  }
}

CommandStream::GraphEntry* CommandStream::FindGraph(uint64_t hash) {
  const auto found = graphs_by_hash_.find(hash);
  if (found == graphs_by_hash_.end()) return nullptr;
  graphs_.splice(graphs_.begin(), graphs_, found->second);
  return &graphs_.front();
}

void CommandStream::Evict() {
  while (graphs_.size() > options_.graphs_max) {
    if (graphs_.back().exec != nullptr) {
      CheckDevice(cudaGraphExecDestroy(graphs_.back().exec), "drop a graph");
    }
    graphs_by_hash_.erase(graphs_.back().hash);
    graphs_.pop_back();
  }
}

// A step seen for the first time is only remembered, because prefill steps seldom repeat and making
// a graph costs more than issuing its commands.
void CommandStream::Capture(uint64_t hash) {
  GraphEntry* entry = FindGraph(hash);
  const bool is_seen = entry != nullptr && entry->commands == commands_;
  if (!is_seen) {
    if (entry != nullptr) {  // other commands with the same hash
      if (entry->exec != nullptr) CheckDevice(cudaGraphExecDestroy(entry->exec), "drop a graph");
      *entry = {.hash = hash, .commands = commands_};
    } else {
      graphs_.push_front({.hash = hash, .commands = commands_});
      graphs_by_hash_[hash] = graphs_.begin();
      Evict();
    }
    return IssueCommands();
  }
  if (entry->exec == nullptr) {
    cudaGraph_t graph = nullptr;
    CheckDevice(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "capture");
    IssueCommands();
    CheckDevice(cudaStreamEndCapture(stream_, &graph), "capture a graph");
    CheckDevice(cudaGraphInstantiate(&entry->exec, graph, 0), "make a graph");
    CheckDevice(cudaGraphDestroy(graph), "drop a graph's plan");
  }
  ++num_graph_launches_;
  CheckDevice(cudaGraphLaunch(entry->exec, stream_), "launch a graph");
}

void CommandStream::Flush() {
  if (commands_.empty() && staged_bytes_ == 0) return;
  ++num_flushes_;
  Staging& staging = *stagings_[staging_index_];
  if (staged_bytes_ > 0) {
    CheckDevice(cudaMemcpyAsync(staging.device, staging.host, staged_bytes_, cudaMemcpyHostToDevice,
                                stream_),
                "copy what a step staged");
  }
  if (options_.graphs_max > 0 &&
      num_commands_ >= std::max<size_t>(1, options_.graph_commands_min)) {
    Capture(HashOf(commands_));
  } else {
    IssueCommands();
  }
  CheckDevice(cudaEventRecord(staging.is_read, stream_), "note the end of a step");
  commands_.clear();
  num_commands_ = 0;
  staged_bytes_ = 0;
  staging_index_ = (staging_index_ + 1) % kStagings;
}

void CommandStream::Synchronize() {
  Flush();
  CheckDevice(cudaStreamSynchronize(stream_), "run a step");
}

}  // namespace kvgate::kernels::cuda::device
