// The version of a configuration: a short digest by which gateways that are to run the same one are
// compared, and a file with what runs. Pure.
#pragma once

#include <span>
#include <string>

#include "gateway/config/config.h"
#include "gateway/session/prompts/prompt_library.h"

namespace kvgate::runtime {

// Returns 12 hex digits. They depend on each value that differs from its default, and on the texts
// of the prompts, but not on how the file is written: its order of keys, of [[key]] and of
// [[prompt]], its comments, and whether a default is spelled out. What machines that do the same
// may have each for itself is left out: server.listen, tls_cert, tls_key and store.data_dir. So are
// secrets, of which a configuration has only the names of variables or hashes.
//
// `config` is as it was read, without the defaults of a device; `prompts` are of its files.
std::string VersionOf(const config::Config& config,
                      std::span<const session::prompts::PromptVersion> prompts);

}  // namespace kvgate::runtime
