#include "store/rocks_common.h"

#include <fmt/format.h>
#include <rocksdb/env.h>
#include <rocksdb/status.h>

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

void KeepRocksFilesPrivate() {
  const rocksdb::Status status = rocksdb::Env::Default()->SetAllowNonOwnerAccess(false);
  if (!status.ok()) {
    KVGATE_LOG(kWarning, "store", "files keep the mode of the umask: {}", status.ToString());
  }
}

}  // namespace kvgate::store
