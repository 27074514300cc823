#include "store/file/rocks_common.h"

#include <fmt/format.h>
#include <rocksdb/cache.h>
#include <rocksdb/env.h>
#include <rocksdb/slice.h>
#include <rocksdb/status.h>
#include <rocksdb/table.h>

#include <cstdarg>
#include <cstdio>
#include <exception>
#include <string>
#include <system_error>

#include "base/log.h"

namespace kvgate::store::file {
namespace {

class ForwardingLogger final : public rocksdb::Logger {
 public:
  explicit ForwardingLogger(std::string_view part)
      : rocksdb::Logger(rocksdb::InfoLogLevel::WARN_LEVEL), part_(part) {}

  using rocksdb::Logger::Logv;
  void Logv(const rocksdb::InfoLogLevel level, const char* format, va_list arguments) override {
    if (level < rocksdb::InfoLogLevel::WARN_LEVEL || level > rocksdb::InfoLogLevel::FATAL_LEVEL) {
      return;
    }
    char line[1024];
    std::vsnprintf(line, sizeof(line), format, arguments);
    if (level == rocksdb::InfoLogLevel::WARN_LEVEL) {
      KVGATE_LOG(kDebug, part_, "rocksdb: {}", line);  // routine: stalls, obsolete files
    } else {
      KVGATE_LOG(kWarning, part_, "rocksdb: {}", line);
    }
  }
  void LogHeader(const char*, va_list) override {}

 private:
  std::string part_;
};

}  // namespace

rocksdb::Slice ToSlice(std::string_view text) { return {text.data(), text.size()}; }

Error FromStatus(const rocksdb::Status& status, std::string_view source, std::string_view doing) {
  const std::string text = status.ToString();
  ErrorCode code = ErrorCode::kInternal;
  bool retryable = false;
  if (status.IsNoSpace() || text.find("No space left") != std::string::npos) {
    code = ErrorCode::kIo;
    retryable = true;
    return Error{.code = code,
                 .source = std::string(source),
                 .detail = fmt::format("{}: the disk is full ({})", doing, text),
                 .retryable = retryable};
  }
  // A file that exists but cannot be read now is not damaged, though RocksDB reports Corruption.
  const bool is_of_disk = status.IsCorruption() && text.find("IO error") != std::string::npos &&
                          text.find("No such file") == std::string::npos;
  if (is_of_disk) {
    code = ErrorCode::kIo;
    retryable = true;
  } else if (status.IsCorruption() || status.IsPathNotFound() ||
             text.find("Is a directory") != std::string::npos ||
             text.find("Not a directory") != std::string::npos) {
    code = ErrorCode::kDataLoss;
  } else if (status.IsNotFound()) {
    code = ErrorCode::kNotFound;
  } else if (status.IsIncomplete() || status.IsBusy() || status.IsTimedOut() ||
             status.IsTryAgain()) {
    code = ErrorCode::kOverloaded;
    retryable = true;
  } else if (text.find("Permission denied") != std::string::npos ||
             text.find("Read-only file system") != std::string::npos ||
             text.find("Operation not permitted") != std::string::npos) {
    code = ErrorCode::kPermissionDenied;
  } else if (status.IsIOError()) {
    code = ErrorCode::kIo;
    retryable = true;
  } else if (status.IsShutdownInProgress() || status.IsAborted()) {
    code = ErrorCode::kCancelled;
  }
  return Error{.code = code,
               .source = std::string(source),
               .detail = fmt::format("{}: {}", doing, text),
               .retryable = retryable};
}

Error FromOpenStatus(const rocksdb::Status& status, std::string_view source,
                     std::string_view doing) {
  Error error = FromStatus(status, source, doing);
  if (SaysFull(error)) return error;
  if (!status.IsInvalidArgument() && !status.IsNotSupported() && !status.IsNotFound()) return error;
  // Only column families and their comparator can really be invalid arguments; RocksDB also reports
  // files that it could not read as options that do not match.
  const std::string text = status.ToString();
  const bool disk = status.IsInvalidArgument() && text.find("olumn famil") == std::string::npos &&
                    text.find("omparator") == std::string::npos;
  error.code = disk ? ErrorCode::kIo : ErrorCode::kDataLoss;
  error.retryable = disk;
  return error;
}

std::shared_ptr<rocksdb::Logger> MakeRocksLogger(std::string_view part) {
  return std::make_shared<ForwardingLogger>(part);
}

bool IsDiskWell(rocksdb::Env& env, const std::filesystem::path& directory) {
  const std::string path = directory.string() + ".probe";
  std::unique_ptr<rocksdb::WritableFile> file;
  const std::string bytes(size_t{1} << 20, '\0');
  const bool written = env.NewWritableFile(path, &file, rocksdb::EnvOptions()).ok() &&
                       file->Append(bytes).ok() && file->Sync().ok() && file->Close().ok();
  file.reset();
  env.DeleteFile(path).PermitUncheckedError();
  return written;
}

Result<void> CheckNotBeheaded(const std::filesystem::path& directory, std::string_view source) {
  std::error_code error;
  if (std::filesystem::exists(directory / "CURRENT", error)) return {};
  std::filesystem::directory_iterator file(directory, error);
  for (; !error && file != std::filesystem::directory_iterator(); file.increment(error)) {
    const std::string extension = file->path().extension().string();
    const bool has_data = extension == ".sst" || extension == ".blob" || extension == ".log";
    std::error_code gone;
    if (!has_data || file->file_size(gone) == 0) continue;
    return MakeError(ErrorCode::kDataLoss, source,
                     fmt::format("{} has {} but no CURRENT, without which it cannot be opened",
                                 directory.string(), file->path().filename().string()));
  }
  return {};
}

rocksdb::Status Fenced(const std::function<rocksdb::Status()>& call) {
  try {
    return call();
  } catch (const std::exception& thrown) {
    return rocksdb::Status::Corruption("a size that cannot be", thrown.what());
  }
}

std::shared_ptr<rocksdb::TableFactory> MakeTableFactory(uint64_t cache_bytes) {
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(cache_bytes);
  table.checksum = rocksdb::kXXH3;
  table.format_version = 5;
  return std::shared_ptr<rocksdb::TableFactory>(rocksdb::NewBlockBasedTableFactory(table));
}

}  // namespace kvgate::store::file
