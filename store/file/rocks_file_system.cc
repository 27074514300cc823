#include "store/file/rocks_file_system.h"

#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

#include <fcntl.h>
#include <sys/stat.h>

#include <exception>
#include <mutex>
#include <string>
#include <utility>

#include "base/log.h"
#include "store/file/rocks_background.h"
#include "store/file/rocks_table_check.h"

namespace kvgate::store::file {
namespace {

thread_local BlobTap* current_tap = nullptr;

class TappedBlobFile final : public rocksdb::FSRandomAccessFileOwnerWrapper {
 public:
  using FSRandomAccessFileOwnerWrapper::FSRandomAccessFileOwnerWrapper;
  rocksdb::IOStatus Read(uint64_t offset, size_t n, const rocksdb::IOOptions& options,
                         rocksdb::Slice* result, char* scratch,
                         rocksdb::IODebugContext* context) const override {
    auto read = FSRandomAccessFileOwnerWrapper::Read(offset, n, options, result, scratch, context);
    if (!read.ok() || result->size() != n) return read;
    if (BlobTap::Offer({result->data(), result->size()})) {
      return rocksdb::IOStatus::Aborted("the blob has been taken");
    }
    return read;
  }
};

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
  rocksdb::IOStatus NewRandomAccessFile(const std::string& name,
                                        const rocksdb::FileOptions& options,
                                        std::unique_ptr<rocksdb::FSRandomAccessFile>* file,
                                        rocksdb::IODebugContext* context) override {
    auto opened = FileSystemWrapper::NewRandomAccessFile(name, options, file, context);
    if (!opened.ok()) return opened;
    if (name.ends_with(".blob")) *file = std::make_unique<TappedBlobFile>(std::move(*file));
    if (!name.ends_with(".sst")) return opened;
    opened = Check(name, **file, options.io_options, context);
    if (!opened.ok()) file->reset();
    return opened;
  }

 private:
  // RocksDB creates files with mode 0644, and a library must not change the process's umask.
  static rocksdb::IOStatus Restrict(const std::string& name, rocksdb::IOStatus made) {
    if (made.ok() && ::chmod(name.c_str(), 0600) != 0) {
      KVGATE_LOG(kWarning, "store", "{}: cannot be made private", name);
    }
    return made;
  }

  rocksdb::IOStatus Check(const std::string& name, const rocksdb::FSRandomAccessFile& file,
                          const rocksdb::IOOptions& options, rocksdb::IODebugContext* context) {
    uint64_t bytes = 0;
    auto status = GetFileSize(name, options, &bytes, context);
    if (!status.ok()) return status;
    const auto read = [&](uint64_t offset, uint64_t size) -> Result<std::string> {
      std::string buffer(size, '\0');
      rocksdb::Slice result;
      status = file.Read(offset, size, options, &result, buffer.data(), context);
      if (!status.ok()) return MakeError(ErrorCode::kIo, "store", "reading a table");
      return result.ToString();
    };
    const auto checked = CheckTable(bytes, read);
    if (checked || !status.ok()) return status;
    return rocksdb::IOStatus::Corruption(checked.error().detail, name);
  }
};

// The Env of all uses that were not given one. These have no destructors, so that a database may be
// closed while statics are torn down.
constinit std::mutex shared_env_mutex;
rocksdb::Env* shared_env = nullptr;
size_t num_shared_env_uses = 0;

rocksdb::Env* TakeSharedEnv() {
  const std::lock_guard lock(shared_env_mutex);
  if (shared_env == nullptr) {
    shared_env = MakePrivateEnv(rocksdb::FileSystem::Default()).release();
  }
  ++num_shared_env_uses;
  return shared_env;
}

}  // namespace

std::unique_ptr<rocksdb::Env> MakePrivateEnv(std::shared_ptr<rocksdb::FileSystem> base) {
  return MakeBackgroundEnv(
      rocksdb::NewCompositeEnv(std::make_shared<PrivateFileSystem>(std::move(base))));
}

EnvUse::EnvUse(rocksdb::Env* given)
    : is_shared_(given == nullptr), env_(is_shared_ ? TakeSharedEnv() : given) {}

EnvUse::~EnvUse() {
  if (!is_shared_) return;
  std::unique_ptr<rocksdb::Env> last;
  {
    const std::lock_guard lock(shared_env_mutex);
    if (--num_shared_env_uses == 0) last.reset(std::exchange(shared_env, nullptr));
  }
  // Its threads are joined here, without the lock.
}

BlobTap::BlobTap(const Options& options) : options_(options) { current_tap = this; }

BlobTap::~BlobTap() { current_tap = nullptr; }

bool BlobTap::Offer(std::string_view bytes) {
  BlobTap* const tap = current_tap;
  if (tap == nullptr || tap->used_) return false;
  if (bytes.size() < tap->options_.header_bytes + tap->options_.bytes_min) return false;
  tap->used_ = true;
  try {  // RocksDB is not exception-safe
    tap->result_ = tap->options_.use(bytes.substr(tap->options_.header_bytes));
  } catch (const std::exception& thrown) {
    tap->result_ = MakeError(ErrorCode::kOverloaded, "store", thrown.what());
  }
  return true;
}

}  // namespace kvgate::store::file
