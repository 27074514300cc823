#include "gateway/cli/ledger_source.h"

#include <filesystem>
#include <utility>

#include "gateway/cli/server/http_client.h"
#include "gateway/runtime/data_tier.h"

namespace kvgate::cli {

Result<LedgerSource> LedgerSource::Open(const ConfigFlags& flags,
                                        const server::TargetFlags& target) {
  KVGATE_TRY(const config::Config config, ReadConfig(flags));
  const std::filesystem::path directory = runtime::DataDirOf(config);
  LedgerSource source;
  KVGATE_TRY(source.authorization_, server::AuthorizationOf(target));
  source.server_ = server::FindServer(target, directory);
  if (!source.server_.url.empty()) return source;
  KVGATE_TRY_VOID(CheckDataDir(directory));
  KVGATE_TRY(source.directory_,
             store::DataDirectory::Open({.directory = directory,
                                         .kv_bytes_max = config.store.disk_cache_bytes,
                                         .read_only = true,
                                         .secret_env = config.store.secret_env}));
  source.ledger_ =
      std::make_unique<ledger::Ledger>(ledger::Ledger::Options{.meta = &source.directory_->meta()});
  return source;
}

Result<std::string> LedgerSource::Get(
    const std::string& path,
    const std::function<Result<std::string>(ledger::Ledger&)>& here) const {
  if (ledger_ != nullptr) return here(*ledger_);
  return server::FetchOk(
      server::RequestTo(server_, {.url = path, .authorization = authorization_}));
}

}  // namespace kvgate::cli
