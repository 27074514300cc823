#include "store/rocks_common.h"

#include <fmt/format.h>
#include <rocksdb/env.h>
#include <rocksdb/file_system.h>
#include <rocksdb/status.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <string>

#include <kvgate/log.h>

namespace kvgate::store {
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

// RocksDB makes files with mode 0644 and has no option for another; the process's umask is not a
// library's to change.
class PrivateFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  using FileSystemWrapper::FileSystemWrapper;
  const char* Name() const override { return "KvgatePrivateFileSystem"; }

  rocksdb::IOStatus NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* file,
                                    rocksdb::IODebugContext* context) override {
    return Restrict(name, FileSystemWrapper::NewWritableFile(name, options, file, context));
  }
  rocksdb::IOStatus LockFile(const std::string& name, const rocksdb::IOOptions& options,
                             rocksdb::FileLock** lock, rocksdb::IODebugContext* context) override {
    return Restrict(name, FileSystemWrapper::LockFile(name, options, lock, context));
  }

 private:
  static rocksdb::IOStatus Restrict(const std::string& name, rocksdb::IOStatus made) {
    if (made.ok() && ::chmod(name.c_str(), 0600) != 0) {
      KVGATE_LOG(kWarning, "store", "{}: cannot be made private", name);
    }
    return made;
  }
};

}  // namespace

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
  if (status.IsCorruption() || status.IsPathNotFound()) {
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

std::shared_ptr<rocksdb::Logger> MakeRocksLogger(std::string_view part) {
  return std::make_shared<ForwardingLogger>(part);
}

rocksdb::Env* PrivateEnv() {
  // Never destroyed: databases may be closed while statics are torn down.
  static rocksdb::Env* const env =
      rocksdb::NewCompositeEnv(std::make_shared<PrivateFileSystem>(rocksdb::FileSystem::Default()))
          .release();
  return env;
}

bool IsDiskWell(const std::filesystem::path& directory) {
  const std::string path = directory.string() + ".probe";
  const int file = ::open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
  if (file < 0) return false;
  const std::string bytes(size_t{1} << 20, '\0');
  const bool written =
      ::write(file, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()) &&
      ::fsync(file) == 0;
  ::close(file);
  ::unlink(path.c_str());
  return written;
}

}  // namespace kvgate::store
