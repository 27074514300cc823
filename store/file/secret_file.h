// The secrets of a data directory: from the environment variable that the operator names, else from
// the file secret.key in the directory, which is made at the first start. Machines that are to
// share what is sealed and derived get the same variable.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include <kvgate/result.h>
#include "base/seal.h"

namespace kvgate::store {

inline constexpr std::string_view kSecretFileName = "secret.key";

struct SecretOptions {
  std::filesystem::path directory;  // whose lock is held, unless nothing is to be made
  std::string environment = {};     // the name of a variable; empty: the file
  bool make = true;                 // the file, when it is not there
  // Where the disk does not take a file that is to be made, its text goes here, for WriteSecretFile
  // when it does, and is no error; null: it is one.
  std::string* unwritten = nullptr;
};
// With a variable, what the file has is still opened, so that a directory may go over to it.
// kInvalidArgument: the variable is not set, or what it or the file holds are no secrets;
// kPermissionDenied: others may read the file, or it is not this user's; kNotFound: it is not there
// and must not be made; kIo.
Result<std::unique_ptr<Keyring>> OpenKeyring(const SecretOptions& options);

// Whole and on the disk before it has its name.
Result<void> WriteSecretFile(const std::filesystem::path& directory, std::string_view text);

// kInvalidArgument, as OpenKeyring has it; empty: there is no variable to be checked.
Result<void> CheckSecretEnvironment(const std::string& environment);

}  // namespace kvgate::store
