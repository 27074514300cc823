// The secrets of a data directory. They come from an environment variable if the operator names
// one, else from the file secret.key in the directory, which the first start generates. Machines
// that share sealed or derived data need the same variable.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/seal.h"

namespace kvgate::store::file {

inline constexpr std::string_view kSecretFileName = "secret.key";

struct SecretOptions {
  std::filesystem::path directory;  // its lock is held if make is set
  std::string environment = {};     // name of a variable; empty means the file
  bool make = true;                 // generate the file if it is missing
  // If the disk refuses a generated file, its text is stored here for a later WriteSecretFile, and
  // opening succeeds. If null, the refusal is an error.
  std::string* unwritten = nullptr;
};
// With a variable, the secrets in the file can still open values, so that a directory can move to
// the variable. Errors: kInvalidArgument if the variable is not set, or it or the file holds no
// valid secrets; kPermissionDenied if others may read the file or another user owns it; kNotFound
// if the file is missing and make is false; kIo.
Result<std::unique_ptr<Keyring>> OpenKeyring(const SecretOptions& options);

// Writes and syncs the file completely before it gets its final name.
Result<void> WriteSecretFile(const std::filesystem::path& directory, std::string_view text);

// Returns kInvalidArgument as OpenKeyring does. Succeeds if the name is empty.
Result<void> CheckSecretEnvironment(const std::string& environment);

}  // namespace kvgate::store::file
