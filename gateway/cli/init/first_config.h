// FirstConfig is what somebody chose for a first kvgate.toml, and the commented text of that file.
// It names variables of the environment at most: no secret can get into it. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gateway/cli/agents/agent_table.h"
#include "gateway/cli/init/provider_table.h"

namespace kvgate::cli::init {

struct FirstConfig {
  std::vector<const Provider*> providers = {};
  const agents::Agent* agent = nullptr;  // null: none, or one that is not known
  std::string disk = {};                 // like "16GiB"; empty: KV is kept in memory only
  // Providers whose variable becomes the upstream's key, which whoever reaches the gateway spends.
  std::vector<const Provider*> lent_keys = {};

  bool lends(const Provider& provider) const;
};

// A known agent by its name; null for "none". Fails with kInvalidArgument for another name.
Result<const agents::Agent*> ParseAgent(std::string_view name);
// A size as the key store.disk_cache takes it; empty for "none" and "0". Fails with
// kInvalidArgument for another text.
Result<std::string> ParseDisk(std::string_view text);

// The text of the file.
std::string TextOf(const FirstConfig& first);

}  // namespace kvgate::cli::init
