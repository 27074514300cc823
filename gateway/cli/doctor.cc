// `kvgate doctor`: finds problems that would keep `kvgate serve` with the same options from working
// well. It prints one line for each check, with advice, and changes nothing.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netdb.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/kv/memory_split.h"
#include "engine/model/architecture.h"
#include "engine/model/capacity.h"
#include "engine/model/model.h"
#include "engine/modelfile/hf_folder.h"
#include "engine/text/tokenizer/tokenizer.h"
#include "gateway/cli/commands.h"
#include "gateway/cli/options.h"
#include "gateway/cli/server/http_client.h"
#include "gateway/cli/server/server_target.h"
#include "gateway/http/socket/listener_tls.h"
#include "gateway/runtime/data_tier.h"
#include "gateway/runtime/local_embeddings.h"
#include "gateway/runtime/machine/device.h"
#include "gateway/runtime/machine/machine_memory.h"
#include "gateway/runtime/model_source.h"
#include "gateway/runtime/settings.h"
#include "gateway/runtime/shared_tier.h"
#include "kernels/cpu/cpu_backend.h"
#include "store/file/directory_lock.h"
#include "store/file/secret_file.h"
#include "store/rocks_data_directory.h"

namespace kvgate::cli {

using runtime::machine::DeviceChoice;

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

enum class Status { kOk, kWarning, kFailure };

struct Finding {
  Status status = Status::kOk;
  std::string_view check;  // a string literal
  std::string detail;
  std::string advice = {};  // what to do; empty if all is well
};

using Findings = std::vector<Finding>;

std::string_view StatusName(Status status) {
  if (status == Status::kOk) return "ok";
  return status == Status::kWarning ? "warning" : "failure";
}

std::string Bytes(uint64_t bytes) {
  constexpr double kMiB = 1 << 20;
  const double mib = static_cast<double>(bytes) / kMiB;
  return mib < 1024 ? fmt::format("{:.1f} MiB", mib) : fmt::format("{:.1f} GiB", mib / 1024);
}

std::string Reason(int number) { return std::generic_category().message(number); }

// --- the data directory -------------------------------------------------------------------------

// If the directory does not exist yet, returns its nearest existing parent.
fs::path ExistingParent(fs::path path) {
  std::error_code code;
  path = fs::absolute(path, code);
  while (path.has_relative_path() && !fs::exists(path, code)) path = path.parent_path();
  return path;
}

// A file system's problem for a cache that must survive a kill; empty if there is none.
std::string_view FileSystemProblem(const fs::path& path) {
  struct statfs info {};
  if (::statfs(path.c_str(), &info) != 0) return "";
  switch (static_cast<uint32_t>(info.f_type)) {
    case 0x6969:
      return "a network file system (NFS), whose locks and speed cannot be relied on";
    case 0x517B:
    case 0xFF534D42:
    case 0xFE534D42:
      return "a network file system (SMB), whose locks and speed cannot be relied on";
    case 0x65735546:
      return "a FUSE file system, whose locks and speed may not be those of a disk";
    case 0x01021994:
      return "in memory (tmpfs), where nothing survives a reboot";
    default:
      return "";
  }
}

void CheckMode(const fs::path& directory, Findings& findings) {
  struct stat info {};
  if (::stat(directory.c_str(), &info) != 0) {
    findings.push_back({Status::kFailure, "data directory",
                        fmt::format("{}: {}", directory.string(), Reason(errno)),
                        "name another one with --data-dir"});
    return;
  }
  const uint32_t mode = info.st_mode & 07777;
  if (!S_ISDIR(info.st_mode)) {
    findings.push_back({Status::kFailure, "data directory",
                        fmt::format("{} is not a directory", directory.string()),
                        "name another one with --data-dir"});
  } else if (::access(directory.c_str(), R_OK | W_OK | X_OK) != 0) {
    findings.push_back({Status::kFailure, "data directory",
                        fmt::format("{} cannot be written: {}", directory.string(), Reason(errno)),
                        "give it to this user, or name another one with --data-dir"});
  } else if (info.st_uid != ::geteuid() || (mode & 077) != 0) {
    // serve makes such a data directory private itself, but refuses one that holds other files.
    std::error_code code;
    const bool ours = fs::exists(directory / "lock", code) || fs::is_empty(directory, code);
    findings.push_back(
        {ours ? Status::kWarning : Status::kFailure, "data directory",
         fmt::format("{} has mode {:04o} and owner {}, and {}", directory.string(), mode,
                     info.st_uid, ours ? "will hold what prompts become" : "holds other files"),
         ours ? fmt::format("chown {} and chmod 700 it: nobody else should read it", ::geteuid())
              : "name a directory of its own with --data-dir"});
  } else {
    findings.push_back({Status::kOk, "data directory",
                        fmt::format("{}, mode {:04o}, writable", directory.string(), mode)});
  }
}

// Reports the source of the secrets and whether others could read them.
void CheckSecret(const config::Config& config, const fs::path& directory, Findings& findings) {
  const auto ring = store::file::OpenKeyring(
      {.directory = directory, .environment = config.store.secret_env, .make = false});
  if (ring) {
    findings.push_back(
        {Status::kOk, "secret", fmt::format("from {}; keep a copy of it", (*ring)->source())});
  } else if (ring.error().code == ErrorCode::kNotFound) {
    findings.push_back(
        {Status::kOk, "secret",
         fmt::format("{} will be made", (directory / store::file::kSecretFileName).string())});
  } else {
    findings.push_back(
        {ring.error().code == ErrorCode::kPermissionDenied ? Status::kWarning : Status::kFailure,
         "secret", ring.error().detail,
         "until then serve goes on without the disk tier, or does not start"});
  }
}

// Bytes that kv/ already uses count as room for the cache.
void CheckSpace(const config::Config& config, const fs::path& place, Findings& findings) {
  struct statvfs info {};
  if (::statvfs(place.c_str(), &info) != 0) return;
  uint64_t used = 0;
  std::error_code code;
  for (fs::directory_iterator file(runtime::DataDirOf(config) / "kv", code), end;
       !code && file != end; file.increment(code)) {
    std::error_code ignored;
    const uint64_t size = file->file_size(ignored);
    if (!ignored) used += size;
  }
  const uint64_t free = uint64_t{info.f_bavail} * info.f_frsize;
  const std::string detail = fmt::format("{} free, {} cached, store.disk_cache is {}", Bytes(free),
                                         Bytes(used), Bytes(config.store.disk_cache_bytes));
  if (free + used < config.store.disk_cache_bytes) {
    findings.push_back(
        {Status::kWarning, "disk space", detail,
         fmt::format("free some, or set store.disk_cache below {}", Bytes(free + used))});
  } else {
    findings.push_back({Status::kOk, "disk space", detail});
  }
  if (const std::string_view problem = FileSystemProblem(place); !problem.empty()) {
    findings.push_back({Status::kWarning, "file system",
                        fmt::format("{} is {}", place.string(), problem),
                        "put the data directory on a local disk"});
  }
}

// --- who holds it, and its health ---------------------------------------------------------------

// Asks the server itself, because one with a published address may still hang.
void CheckServersStore(const store::ServerAddress& server, const std::string& authorization,
                       Findings& findings) {
  const Result<std::string> body = server::FetchOk(
      server::RequestTo(server, {.url = "/kvgate/v1/stats", .authorization = authorization}));
  if (!body) {
    findings.push_back({Status::kFailure, "store", body.error().detail,
                        "look into that server's log, or stop it"});
    return;
  }
  const Json stats = Json::parse(*body, nullptr, false);
  if (!stats.is_object() || !stats.contains("engine")) {
    findings.push_back({Status::kWarning, "store",
                        fmt::format("{} does not say: this caller is no admin there", server.url),
                        "give --key-env a key of the role admin"});
    return;
  }
  const Json store = stats["store"];
  const std::string error = store.value("error", "");
  if (error.empty()) {
    findings.push_back({Status::kOk, "store",
                        fmt::format("{} records, {} on disk", store.value("records", uint64_t{0}),
                                    Bytes(store.value("disk_bytes", uint64_t{0})))});
  } else {
    findings.push_back({Status::kWarning, "store", error,
                        "the server goes on without writing; free space or repair the disk"});
  }
}

void CheckOwnStore(const config::Config& config, Findings& findings) {
  const fs::path directory = runtime::DataDirOf(config);
  std::error_code code;
  if (!fs::exists(directory / "meta", code)) {
    findings.push_back({Status::kOk, "store", "none yet; `kvgate serve` makes it"});
    return;
  }
  const auto opened = store::DataDirectory::Open({.directory = directory,
                                                  .kv_bytes_max = config.store.disk_cache_bytes,
                                                  .read_only = true,
                                                  .secret_env = config.store.secret_env});
  // The directory has an older format, which serve migrates.
  if (!opened && opened.error().code == ErrorCode::kUnsupported) {
    findings.push_back(
        {Status::kWarning, "store", opened.error().detail,
         "nothing else is needed; keep a copy of the directory to be able to go back"});
    return;
  }
  if (!opened) {
    findings.push_back({Status::kFailure, "store", opened.error().detail,
                        "serve would go on without the disk tier; remove what is named, or choose "
                        "another --data-dir"});
    return;
  }
  const store::kv::KvStoreStats stats = (*opened)->kv().Stats();
  findings.push_back({Status::kOk, "store",
                      fmt::format("{} records, {} on disk; `kvgate cache verify` reads them all",
                                  stats.num_records, Bytes(stats.disk_bytes))});
}

// Returns the URL of the server that holds the directory, if one does.
std::optional<std::string> CheckHolder(const config::Config& config,
                                       const std::string& authorization, Findings& findings) {
  const fs::path directory = runtime::DataDirOf(config);
  if (const auto server = store::DataDirectory::FindServer(directory)) {
    findings.push_back({Status::kOk, "lock", fmt::format("held by the server at {}", server->url)});
    CheckServersStore(*server, authorization, findings);
    return server->url;
  }
  if (store::file::DirectoryLock::IsHeld(directory)) {
    const Result<store::file::ServerInfo> holder = store::file::ReadServerInfo(directory);
    findings.push_back(
        {Status::kFailure, "lock",
         holder ? fmt::format("held by process {}, which serves no address yet", holder->pid)
                : "held by another process",
         "wait until it serves, or end it"});
    return std::nullopt;
  }
  findings.push_back({Status::kOk, "lock", "free: no server runs on this directory"});
  CheckOwnStore(config, findings);
  return std::nullopt;
}

std::optional<std::string> CheckDataDirectory(const config::Config& config,
                                              const std::string& authorization,
                                              Findings& findings) {
  if (!config.store.disk) {
    findings.push_back({Status::kWarning, "data directory",
                        "store.disk is false: nothing survives a restart",
                        "set store.disk = true to keep KV"});
    return std::nullopt;
  }
  const fs::path directory = runtime::DataDirOf(config);
  std::error_code code;
  if (!fs::exists(directory, code)) {
    const fs::path parent = ExistingParent(directory);
    if (::access(parent.c_str(), W_OK | X_OK) != 0) {
      findings.push_back({Status::kFailure, "data directory",
                          fmt::format("{} is not there and cannot be made in {}: {}",
                                      directory.string(), parent.string(), Reason(errno)),
                          "make it, or name another one with --data-dir"});
      return std::nullopt;
    }
    findings.push_back({Status::kOk, "data directory",
                        fmt::format("{} will be made, mode 0700", directory.string())});
    CheckSpace(config, parent, findings);
    return std::nullopt;
  }
  CheckMode(directory, findings);
  CheckSecret(config, directory, findings);
  CheckSpace(config, directory, findings);
  return CheckHolder(config, authorization, findings);
}

// --- model, memory, CPU -------------------------------------------------------------------------

struct ModelFacts {
  model::ModelConfig config;
  uint64_t file_bytes = 0;
};

std::string ExpertsOf(const model::ModelConfig& config) {
  if (config.experts.num_experts == 0) return "";
  return fmt::format(" of {} experts", config.experts.num_experts);
}

std::optional<ModelFacts> CheckModel(const config::Config& config, Findings& findings) {
  const Result<runtime::ModelSource> source = runtime::ModelSource::Of(config);
  const auto fail = [&](const Error& error) {
    findings.push_back(
        {Status::kFailure, "model",
         source ? fmt::format("{}: {}", source->label(), error.ToString()) : error.ToString(),
         fmt::format("name a GGUF file or a Hugging Face folder with --model; "
                     "architectures are {}",
                     model::ArchitectureNames())});
    return std::nullopt;
  };
  if (!source) return fail(source.error());
  const auto file = modelfile::OpenModelFile(source->path());
  if (!file) return fail(file.error());
  const Result<model::ModelConfig> read = model::ReadModelConfig(**file);
  if (!read) return fail(read.error());
  const auto tokenizer = tokenizer::Tokenizer::Load(**file);
  if (!tokenizer) return fail(tokenizer.error());
  const ModelFacts facts{.config = *read, .file_bytes = (*file)->total_bytes()};
  findings.push_back({Status::kOk, "model",
                      fmt::format("{}: {}, {} layers{}, context {}, {}", source->label(),
                                  read->architecture, read->num_layers, ExpertsOf(*read),
                                  read->context_length, Bytes(facts.file_bytes))});
  return facts;
}

void CheckMemory(const config::Config& config, const std::optional<ModelFacts>& facts,
                 Findings& findings) {
  // A device has its own memory for weights and KV, which CheckDeviceMemory checks.
  const bool is_device = config.engine.device == "cuda";
  const uint64_t weights = facts && !is_device ? facts->file_bytes : 0;
  const uint64_t kv = is_device ? 0 : config.engine.kv_memory_bytes;
  const uint64_t host = config.cache.host_memory_bytes.value_or(0);
  const uint64_t needed = weights + kv + host;
  const uint64_t limit = runtime::machine::MemoryLimit();
  const uint64_t free = runtime::machine::AvailableMemory();
  const uint64_t available = runtime::machine::LesserKnown(limit, free);
  const auto known = [](uint64_t bytes) { return bytes > 0 ? Bytes(bytes) : "an unknown size"; };
  const std::string detail = fmt::format(
      "{} needed (weights {}, KV {}, host {}), {} available of {}", Bytes(needed), Bytes(weights),
      Bytes(kv), Bytes(host), known(free > 0 ? available : 0), known(limit));
  if (available > 0 && needed > available) {
    const bool never_fits = limit > 0 && needed > limit;
    findings.push_back({never_fits ? Status::kFailure : Status::kWarning, "memory", detail,
                        is_device ? "set cache.host_memory lower"
                                  : "set engine.kv_memory lower, or use a smaller model"});
  } else {
    findings.push_back({Status::kOk, "memory", detail});
  }
}

constexpr int kUsefulContextTokens = 8192;

void CheckKvMemory(const config::Config& config, const ModelFacts& facts, Findings& findings) {
  const kernels::DType dtype = kernels::FindDType(config.engine.kv_dtype).value();
  std::vector<kv::GroupShape> groups;
  for (size_t group = 0; group < facts.config.kv_groups.size(); ++group) {
    groups.push_back({.block_bytes = facts.config.kv_shape(dtype, group).block_bytes(),
                      .window = facts.config.kv_groups[group].window});
  }
  // No sequence can be longer than the model's context.
  const int context = config.engine.context > 0
                          ? std::min(config.engine.context, facts.config.context_length)
                          : facts.config.context_length;
  const kv::MemorySplitArgs split{.bytes = config.engine.kv_memory_bytes,
                                  .context_tokens = context,
                                  .step_tokens = config.engine.step_tokens,
                                  .num_blocks_max = UINT32_MAX};
  const uint64_t tokens =
      uint64_t{kv::SplitKvMemory(groups, split)[0]} * uint64_t{kernels::kKvBlockTokens};
  const uint64_t served = std::min(tokens, static_cast<uint64_t>(context));
  const std::string detail = fmt::format(
      "one request may have {} tokens; room for {} tokens, {} such requests; the model knows {}",
      served, tokens, served == 0 ? 0 : tokens / served, facts.config.context_length);
  // By default the context is as large as fits; it should hold an agent's first request.
  const int wanted = config.engine.context > 0 ? context : std::min(context, kUsefulContextTokens);
  if (tokens < static_cast<uint64_t>(wanted)) {
    const uint64_t blocks = static_cast<uint64_t>(wanted) / kernels::kKvBlockTokens + 1;
    findings.push_back({Status::kWarning, "KV memory", detail,
                        fmt::format("set engine.kv_memory to {} or more, or engine.context lower",
                                    Bytes(kv::KvMemoryFor(blocks, groups, split)))});
  } else {
    findings.push_back({Status::kOk, "KV memory", detail});
  }
}

// Reports the devices, then if the engine gets the one that the configuration asks for.
DeviceChoice CheckDevices(const config::Config& config, Findings& findings) {
  const runtime::machine::DeviceProbe probe = runtime::machine::ProbeDevices();
  std::string devices;
  std::string problems;
  for (const kernels::cuda::CudaDevice& device :
       probe.found.value_or(std::vector<kernels::cuda::CudaDevice>())) {
    devices +=
        fmt::format("{}{}", devices.empty() ? "" : "; ", runtime::machine::DeviceLine(device));
    const std::string problem = runtime::machine::UnusableReason(device);
    if (!problem.empty()) problems += fmt::format("{}{}", problems.empty() ? "" : "; ", problem);
  }
  if (!probe.found) {
    findings.push_back({Status::kWarning, "CUDA", probe.found.error().detail,
                        "`nvidia-smi` says more about the driver"});
  } else if (!devices.empty()) {
    findings.push_back(
        {problems.empty() ? Status::kOk : Status::kWarning, "CUDA", devices, problems});
  }
  Result<DeviceChoice> choice = runtime::machine::ChooseDevice(config.engine, probe);
  if (!choice) {
    findings.push_back({Status::kFailure, "device", choice.error().detail,
                        "set engine.device and engine.numerics to what is there"});
    return {};
  }
  if (choice->is_cuda) {
    findings.push_back(
        {Status::kOk, "device",
         fmt::format("CUDA device {}, numerics {}", choice->cuda.ordinal, config.engine.numerics)});
  } else if (!devices.empty() || config.engine.device == "cpu") {
    findings.push_back({Status::kOk, "device", "the engine runs on the CPU"});
  } else {
    findings.push_back({Status::kOk, "device",
                        probe.is_cuda_built ? "no CUDA device: the engine runs on the CPU"
                                            : "built without CUDA: the engine runs on the CPU"});
  }
  return *choice;
}

// Checks the memory that is free now, so a server that is already running counts as use.
void CheckDeviceMemory(config::Config& config, const DeviceChoice& choice,
                       const std::optional<ModelFacts>& facts, Findings& findings) {
  const uint64_t weights = facts ? facts->file_bytes : 0;
  const uint64_t left = choice.cuda.bytes_free - std::min(choice.cuda.bytes_free, weights);
  const uint64_t room = left - model::DeviceReserveBytes(left);
  const uint64_t wanted = config.engine.kv_memory_bytes;
  if (wanted == 0) config.engine.kv_memory_bytes = model::DevicePoolBytes(left);
  const std::string detail =
      fmt::format("{} free, weights {}, KV {}", Bytes(choice.cuda.bytes_free), Bytes(weights),
                  Bytes(config.engine.kv_memory_bytes));
  if (left == 0 || wanted > room) {
    findings.push_back({Status::kFailure, "device memory", detail,
                        "set engine.kv_memory lower, use a smaller model, or end what else uses "
                        "the device"});
  } else {
    findings.push_back({Status::kOk, "device memory", detail});
  }
}

void CheckCpu(const config::Config& config, Findings& findings) {
  const bool is_best = config.engine.cpu_target == "auto";
  const auto target = kernels::cpu::FindCpuTarget(is_best ? "" : config.engine.cpu_target);
  if (!target) {
    findings.push_back({Status::kFailure, "CPU", target.error().detail,
                        "set engine.cpu_target to auto, or to one of these"});
    return;
  }
  const std::vector<std::string> targets = kernels::cpu::SupportedCpuTargets();
  const int hardware = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  const int threads = config.engine.threads > 0 ? config.engine.threads : hardware;
  const std::string missing = kernels::cpu::MissingCpuTargets();
  const std::string detail = fmt::format(
      "{} ({} {}{}), {} of {} hardware threads", *target, is_best ? "best of" : "asked for, of",
      fmt::join(targets, ", "), missing.empty() ? "" : "; " + missing, threads, hardware);
  if (threads > hardware) {
    findings.push_back({Status::kWarning, "CPU", detail,
                        "set engine.threads to 0: more threads than cores slow each other down"});
  } else if (*target == "SSE4" || *target == "EMU128") {
    findings.push_back({Status::kWarning, "CPU", detail,
                        is_best ? "this machine has no AVX2, or hides it: expect slow answers"
                                : "set engine.cpu_target to auto: expect slow answers"});
  } else {
    findings.push_back({Status::kOk, "CPU", detail});
  }
}

// --- the process --------------------------------------------------------------------------------

// Returns 0, or the errno value that explains why the address cannot be listened on.
int TryToListen(const config::HostPort& at) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const std::string port = fmt::format("{}", at.port);
  if (::getaddrinfo(at.host.c_str(), port.c_str(), &hints, &found) != 0) return EADDRNOTAVAIL;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(found, &::freeaddrinfo);
  const int socket = ::socket(list->ai_family, list->ai_socktype | SOCK_CLOEXEC, 0);
  if (socket < 0) return errno;
  const int yes = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  const bool listens =
      ::bind(socket, list->ai_addr, list->ai_addrlen) == 0 && ::listen(socket, 1) == 0;
  const int problem = listens ? 0 : errno;
  ::close(socket);
  return problem;
}

void CheckListen(const config::Config& config, const std::optional<std::string>& server,
                 Findings& findings) {
  const Result<config::HostPort> at = config::ParseHostPort(config.server.listen);
  if (!at) {
    findings.push_back({Status::kFailure, "listen", at.error().detail, "name ADDRESS:PORT"});
    return;
  }
  if (!at->is_loopback() && config.keys.empty()) {
    findings.push_back(
        {Status::kFailure, "listen",
         fmt::format("{} is not a loopback address, and there is no [[key]]", config.server.listen),
         "configure a [[key]], or listen on 127.0.0.1"});
    return;
  }
  const int problem = TryToListen(*at);
  if (problem == 0) {
    std::string detail = fmt::format("{} is free", config.server.listen);
    if (at->port != 0) {
      detail +=
          fmt::format("; the dashboard will be at {}://{}/dashboard/",
                      config.server.tls_cert.empty() ? "http" : "https", config.server.listen);
    }
    findings.push_back({Status::kOk, "listen", std::move(detail)});
  } else if (server && server->ends_with(fmt::format(":{}", at->port))) {
    findings.push_back(
        {Status::kOk, "listen", fmt::format("{} is that server's", config.server.listen)});
  } else {
    findings.push_back({Status::kFailure, "listen",
                        fmt::format("{}: {}", config.server.listen, Reason(problem)),
                        "choose another --listen; port 0 picks a free one"});
  }
}

void CheckTls(const config::Config& config, Findings& findings) {
  const auto tls = http::socket::ListenerTls::Open({.cert_file = config.server.tls_cert,
                                                    .key_file = config.server.tls_key,
                                                    .min_version = config.server.tls_min_version});
  if (!tls) {
    findings.push_back({Status::kFailure, "tls", tls.error().detail,
                        "correct server.tls_cert and server.tls_key"});
  } else if (*tls) {
    findings.push_back({Status::kOk, "tls", fmt::format("{} and its key", config.server.tls_cert)});
  }
}

void CheckOpenFiles(const config::Config& config, Findings& findings) {
  // RocksDB keeps its files open; a thousand of them hold some hundred GiB of KV.
  constexpr uint64_t kOtherFiles = 1024;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const uint64_t wanted = static_cast<uint64_t>(config.limits.connections) + kOtherFiles;
  const std::string detail = fmt::format("limit {}, {} wanted for {} connections and the store",
                                         limit.rlim_cur, wanted, config.limits.connections);
  if (limit.rlim_cur < wanted) {
    findings.push_back({Status::kWarning, "open files", detail,
                        fmt::format("ulimit -n {}, or set limits.connections lower", wanted)});
  } else {
    findings.push_back({Status::kOk, "open files", detail});
  }
}

// Warns if no key has the admin role.
void CheckKeys(const config::Config& config, Findings& findings) {
  if (config.keys.empty()) return;
  const auto num_admins = std::count_if(config.keys.begin(), config.keys.end(),
                                        [](const auto& key) { return key.role == "admin"; });
  const std::string detail =
      fmt::format("{} keys, {} of the role admin", config.keys.size(), num_admins);
  if (num_admins == 0) {
    findings.push_back({Status::kWarning, "keys", detail,
                        "give one key role = \"admin\": without one only commands on this machine "
                        "see all records, remove prefixes of others and import"});
  } else {
    findings.push_back({Status::kOk, "keys", detail});
  }
}

void CheckEngine(config::Config& config, Findings& findings) {
  const std::optional<ModelFacts> facts = CheckModel(config, findings);
  const DeviceChoice choice = CheckDevices(config, findings);
  runtime::machine::ApplyDeviceDefaults(
      choice, std::min(runtime::machine::MemoryLimit(), runtime::machine::AvailableMemory()),
      config);
  CheckMemory(config, facts, findings);
  if (choice.is_cuda) CheckDeviceMemory(config, choice, facts, findings);
  if (facts) CheckKvMemory(config, *facts, findings);
  CheckCpu(config, findings);
}

Findings Diagnose(Result<config::Config> config, const server::TargetFlags& target) {
  Findings findings;
  constexpr const char* kCorrect = "correct it; `kvgate config check FILE` says when it is right";
  if (!config) return {{Status::kFailure, "config", config.error().detail, kCorrect}};
  findings.push_back({Status::kOk, "config", "every key and value is known"});
  CheckKeys(*config, findings);
  const Result<std::string> authorization = server::AuthorizationOf(target);
  if (!authorization) {
    findings.push_back(
        {Status::kFailure, "keys", authorization.error().detail, "set it, or leave --key-env out"});
  }
  // The server of --url is asked in addition to the one that holds the directory.
  if (!target.url.empty()) {
    CheckServersStore(server::FindServer(target, {}), authorization.value_or(""), findings);
  }
  const auto server = CheckDataDirectory(*config, authorization.value_or(""), findings);
  // Uses the same conditions as serve for loading models.
  if (const auto sorted = runtime::SortModels(config->engine); !sorted) {
    findings.push_back({Status::kFailure, "model", sorted.error().detail, "name one of them"});
  }
  const auto add = [&](std::string_view check, const Result<std::string>& said, Status otherwise,
                       std::string advice) {
    findings.push_back({said ? Status::kOk : otherwise, check, said ? *said : said.error().detail,
                        said ? "" : std::move(advice)});
  };
  if (!config->engine.embedding_model.empty()) {
    add("embeddings", runtime::DescribeEmbeddingModel(config->engine), Status::kFailure,
        "name a GGUF file of a model that makes embeddings");
  }
  if (!config->store.shared.empty()) {
    add("shared store", runtime::DescribeSharedStore(config->store), Status::kWarning,
        "serve goes on without it; see that it runs and takes these credentials");
  }
  if (const auto missing = runtime::MissingRetrievalModel(*config); !missing.empty()) {
    findings.push_back({Status::kWarning, "retrieval", missing, "name one that somebody serves"});
  }
  if (runtime::HasLocalModel(*config)) {
    CheckEngine(*config, findings);
  } else if (!config->engine.is_embedding_only) {
    findings.push_back({Status::kOk, "model", "none is loaded: upstreams answer"});
  }
  CheckListen(*config, server, findings);
  CheckTls(*config, findings);
  CheckOpenFiles(*config, findings);
  return findings;
}

// --- output -------------------------------------------------------------------------------------

void PrintText(const Findings& findings) {
  for (const Finding& finding : findings) {
    fmt::print("{:<8} {:<15} {}{}{}\n", StatusName(finding.status), finding.check, finding.detail,
               finding.advice.empty() ? "" : " -> ", finding.advice);
  }
}

void PrintJson(const Findings& findings, bool ok) {
  Json checks = Json::array();
  for (const Finding& finding : findings) {
    checks.push_back({{"check", std::string(finding.check)},
                      {"status", std::string(StatusName(finding.status))},
                      {"detail", finding.detail},
                      {"advice", finding.advice}});
  }
  const Json report{{"ok", ok}, {"checks", std::move(checks)}};
  fmt::print("{}\n", report.dump(2, ' ', false, Json::error_handler_t::replace));
}

}  // namespace

void AddDoctor(CLI::App& app, Run& chosen) {
  struct Flags {
    ConfigFlags config;
    server::TargetFlags target;
    bool json = false;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* command =
      app.add_subcommand("doctor", "Check what `serve` with the same options would find");
  AddEngineFlags(*command, flags->config);
  AddServerFlags(*command, flags->config);
  server::AddTargetFlags(*command, flags->target);
  command->add_flag("--json", flags->json, "print one JSON object");
  command->callback([flags, &chosen] {
    chosen = [flags]() -> Result<int> {
      const Findings findings = Diagnose(ReadConfig(flags->config), flags->target);
      const bool ok = std::none_of(findings.begin(), findings.end(), [](const Finding& finding) {
        return finding.status == Status::kFailure;
      });
      flags->json ? PrintJson(findings, ok) : PrintText(findings);
      return ok ? 0 : 1;
    };
  });
}

}  // namespace kvgate::cli
