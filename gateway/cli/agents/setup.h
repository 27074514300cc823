// What `kvgate setup` does: it writes kvgate's address into an agent's own configuration file,
// keeps what stood there beside it, and puts it back. Files are replaced whole, in one step, with
// the mode that they had; a symbolic link stays, and what it names is replaced.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "gateway/cli/agents/agent_table.h"

namespace kvgate::cli::agents {

class AgentSetup {
 public:
  // Fails with kUnsupported for an agent that has no file for this, and with kPermissionDenied for
  // a file, or what a link names, that is no regular file of this user's.
  static Result<AgentSetup> Open(const Agent& agent);

  // What is written, as a link in the way says: the file itself.
  const std::filesystem::path& file() const { return file_; }
  // The copy of what stood there.
  std::filesystem::path backup() const;
  // The address that `Write` wrote; empty: the agent is not set up.
  std::string written_origin() const;

  struct Change {
    std::string before = {};
    std::string after = {};
  };
  // What Write would do. Fails with kInvalidArgument if the file cannot be edited.
  Result<Change> Plan(const std::string& origin) const;
  // Writes it, and a copy of what stood there. Fails with kInvalidArgument if it is set up already,
  // or the file has changed since Plan, and with kIo.
  Result<void> Write(const std::string& origin, const Change& change) const;
  // Puts back what stood there. Fails with kNotFound if it is not set up, with kInvalidArgument if
  // the file has been changed since, and with kIo.
  Result<void> Undo() const;

 private:
  AgentSetup(const Agent& agent, std::filesystem::path file) : agent_(&agent), file_(file) {}
  std::filesystem::path note() const;

  const Agent* agent_;
  std::filesystem::path file_;
};

}  // namespace kvgate::cli::agents
