#include "store/file/secret_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <optional>
#include <system_error>
#include <utility>

#include "base/log.h"

namespace kvgate::store::file {
namespace {

constexpr std::string_view kSource = "store.secret";
constexpr const char* kHead =
    "# The secrets of this directory: what is sealed in it opens with them alone. Keep a copy.\n"
    "# The first one seals, all open; to rotate, put a new line (openssl rand -hex 32) in front.\n";

class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int get() const { return descriptor_; }

 private:
  const int descriptor_;
};

Error Failed(int number, std::string_view doing, const std::filesystem::path& path) {
  return MakeError(
      ErrorCode::kIo, kSource,
      fmt::format("{} {}: {}", doing, path.string(), std::generic_category().message(number)));
}

Error Refused(const std::filesystem::path& path, std::string_view why) {
  return MakeError(
      ErrorCode::kPermissionDenied, kSource,
      fmt::format("{} holds the secrets of this data directory and {}", path.string(), why));
}

// Returns null if the file does not exist.
Result<std::optional<std::string>> ReadSecretFile(const std::filesystem::path& path) {
  // O_NONBLOCK, because a fifo with that name must not block the start.
  const File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
  if (file.get() < 0 && errno == ENOENT) return std::optional<std::string>();
  if (file.get() < 0) return Failed(errno, "opening", path);
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return Failed(errno, "looking at", path);
  if (!S_ISREG(info.st_mode)) return Refused(path, "is not a file");
  if ((info.st_mode & 077) != 0) {
    return Refused(path, fmt::format("may be read by other users (mode {:04o}): chmod 600 it, and "
                                     "put a new secret in front if somebody may have",
                                     info.st_mode & 07777));
  }
  if (info.st_uid != ::geteuid() && ::geteuid() != 0) {
    return Refused(path,
                   fmt::format("belongs to the user {}, not to {}", info.st_uid, ::geteuid()));
  }
  std::string text(Keyring::kTextBytesMax + 1, '\0');
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t part = ::read(file.get(), text.data() + size, text.size() - size);
    if (part < 0 && errno == EINTR) continue;
    if (part < 0) {
      const int number = errno;
      Wipe(text);
      return Failed(number, "reading", path);
    }
    if (part == 0) break;
    size += static_cast<size_t>(part);
  }
  text.resize(size);
  return std::optional<std::string>(std::move(text));
}

Result<std::unique_ptr<Keyring>> ParseAndWipe(std::string& text,
                                              const std::filesystem::path& path) {
  auto ring = Keyring::Parse(text, fmt::format("the file {}", path.string()));
  Wipe(text);
  return ring;
}

// Makes a new name in the directory durable.
Result<void> SyncDirectory(const std::filesystem::path& path) {
  const File directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.get() < 0 || ::fsync(directory.get()) != 0) return Failed(errno, "syncing", path);
  return {};
}

Result<std::unique_ptr<Keyring>> OpenFileRing(const SecretOptions& options) {
  const std::filesystem::path path = options.directory / kSecretFileName;
  KVGATE_TRY(std::optional<std::string> text, ReadSecretFile(path));
  if (text) return ParseAndWipe(*text, path);
  if (!options.make) {
    return MakeError(ErrorCode::kNotFound, kSource, fmt::format("there is no {}", path.string()));
  }
  std::string secret = Keyring::GenerateSecret();
  std::string made;
  made.reserve(512);  // reserved, so that growing leaves no copy of the secret behind
  made.append(kHead).append(secret).append("\n");
  Wipe(secret);
  auto written = WriteSecretFile(options.directory, made);
  if (!written && options.unwritten == nullptr) {
    Wipe(made);
    return std::move(written).error();
  }
  if (written) {
    KVGATE_LOG(kInfo, "store", "made {}: keep a copy, what is sealed here opens with it alone",
               path.string());
  } else {
    KVGATE_LOG(kWarning, "store", "{}; it is tried again when meta/ can be written",
               written.error().detail);
    *options.unwritten = made;
  }
  return ParseAndWipe(made, path);
}

Result<std::unique_ptr<Keyring>> OpenEnvironmentRing(const std::string& name) {
  const char* const text = std::getenv(name.c_str());
  if (text == nullptr) {
    return MakeError(ErrorCode::kInvalidArgument, kSource,
                     fmt::format("store.secret_env names the environment variable {}, which is not "
                                 "set",
                                 name),
                     "store.secret_env");
  }
  auto ring = Keyring::Parse(text, fmt::format("the environment variable {}", name));
  if (!ring) ring.error().field = "store.secret_env";
  return ring;
}

}  // namespace

// The file is synced, so that nothing is sealed with a secret that a crash could lose.
Result<void> WriteSecretFile(const std::filesystem::path& directory, std::string_view text) {
  const std::filesystem::path path = directory / kSecretFileName;
  std::filesystem::path partial = path;
  partial += ".partial";
  ::unlink(partial.c_str());  // left by a start that was killed
  {
    const File file(::open(partial.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (file.get() < 0) return Failed(errno, "making", partial);
    while (!text.empty()) {
      const ssize_t part = ::write(file.get(), text.data(), text.size());
      if (part < 0 && errno == EINTR) continue;
      if (part < 0) return Failed(errno, "writing", partial);
      text.remove_prefix(static_cast<size_t>(part));
    }
    if (::fsync(file.get()) != 0) return Failed(errno, "syncing", partial);
  }
  if (::rename(partial.c_str(), path.c_str()) != 0) return Failed(errno, "naming", path);
  return SyncDirectory(directory);
}

Result<std::unique_ptr<Keyring>> OpenKeyring(const SecretOptions& options) {
  if (options.environment.empty()) return OpenFileRing(options);
  KVGATE_TRY(auto ring, OpenEnvironmentRing(options.environment));
  const auto file =
      OpenFileRing({.directory = options.directory, .environment = {}, .make = false});
  if (file) {
    ring->AddForOpening(**file);
  } else if (file.error().code != ErrorCode::kNotFound) {
    return file.error();
  }
  return ring;
}

Result<void> CheckSecretEnvironment(const std::string& environment) {
  if (environment.empty()) return {};
  KVGATE_TRY([[maybe_unused]] const auto ring, OpenEnvironmentRing(environment));
  return {};
}

}  // namespace kvgate::store::file
