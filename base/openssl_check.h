// Handles OpenSSL calls that fail only for lack of memory or because the library is incomplete.
#pragma once

#include <openssl/err.h>

#include <new>

#include "base/check.h"

namespace kvgate {

// Throws std::bad_alloc if memory ran out; otherwise aborts, because `done` is an invariant.
inline void RequireOpenssl(bool done, const char* what) {
  if (done) return;
  bool no_memory = ERR_peek_error() == 0;  // creating a context fails without an error code
  while (const unsigned long code = ERR_get_error()) {  // NOLINT(google-runtime-int): OpenSSL's
    no_memory |= ERR_GET_REASON(code) == ERR_R_MALLOC_FAILURE;
  }
  if (no_memory) throw std::bad_alloc();
  KVGATE_CHECK(done, what);
}

}  // namespace kvgate
