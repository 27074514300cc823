// Compares the secrets that a data directory was written with, as its table `directory` remembers
// them, with those of this start. If they differ, a log line says so and everything that can still
// be opened is sealed and named again with the current ones.
#pragma once

#include "base/result.h"
#include "store/file/secret_file.h"
#include "store/meta/meta_store.h"

namespace kvgate::store {

// Opens the keyring, compares it with what the directory remembers, and gives it to the meta store.
// Without options.make, it writes no row, and a missing key file is no error: sealed values are
// then treated as absent. Returns the errors of OpenKeyring and of the meta store. Call it before
// anything is sealed.
Result<void> OpenSecrets(meta::MetaStore& meta, file::SecretOptions options);

}  // namespace kvgate::store
