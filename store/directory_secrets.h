// Which secrets a data directory was written with, as its table `directory` remembers them, and
// what follows when they are others: it is said, and what can still be opened is named anew.
#pragma once

#include <kvgate/result.h>

#include "store/meta/meta_store.h"
#include "store/file/secret_file.h"

namespace kvgate::store {

// Opens the keyring, compares it with what the directory remembers, and gives it to the meta store.
// Without options.make nothing is written, and a file that is not there is no error: then what is
// sealed is absent. Errors as OpenKeyring's and the meta store's. Call before anything is sealed.
Result<void> OpenSecrets(MetaStore& meta, SecretOptions options);

}  // namespace kvgate::store
