// What `kvgate init` does: it finds out what is wanted, writes the file, and says what comes next.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"

namespace kvgate::cli::init {

struct InitArgs {
  std::string providers = {};  // like "anthropic,openai"; empty, as the next two: it is asked
  std::string agent = {};
  std::string disk = {};
  std::filesystem::path out = "kvgate.toml";
  bool lend_keys = false;  // keys of the environment become the upstreams'
  bool yes = false;        // nobody is asked
  bool force = false;      // a file that is there is replaced
};

// Returns 0. Fails with kInvalidArgument if something is missing and nobody can be asked, if the
// file is there already, and for a name or size that is none; with kIo if it cannot be written.
Result<int> Init(const InitArgs& args);

}  // namespace kvgate::cli::init
