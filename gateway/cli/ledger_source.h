// LedgerSource: where a command finds the ledger: at the server that is named or that holds the
// data directory, else in the directory itself.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "gateway/cli/options.h"
#include "gateway/cli/server/server_target.h"
#include "gateway/ledger/ledger.h"
#include "store/rocks_data_directory.h"

namespace kvgate::cli {

class LedgerSource {
 public:
  // Fails if there is no server and the directory cannot be opened.
  static Result<LedgerSource> Open(const ConfigFlags& flags, const server::TargetFlags& target);

  // Returns what the server answers at `path`, or what `here` makes of the directory's ledger.
  Result<std::string> Get(const std::string& path,
                          const std::function<Result<std::string>(ledger::Ledger&)>& here) const;

 private:
  store::ServerAddress server_;
  std::string authorization_;
  std::unique_ptr<store::DataDirectory> directory_;
  std::unique_ptr<ledger::Ledger> ledger_;  // destroyed before its directory
};

}  // namespace kvgate::cli
