// A RecordFilter chooses records by what a query asks for: the parameters of /kvgate/v1/requests
// and of the live events, read in one place. Immutable once read; any thread may use it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "gateway/ledger/request_record.h"

namespace kvgate::ledger {

class RecordFilter {
 public:
  // Takes one parameter: "upstream", "model", "tenant", "key", "session", "conversation", "break",
  // "status", "endpoint", "prompt_name", "prompt_version", "since_us" or "until_us". Returns false
  // if it is none of these; fails with kInvalidArgument, which names the parameter, if its value
  // cannot be read. An empty value asks for nothing.
  Result<bool> Take(std::string_view name, std::string_view value);
  // Only this tenant's records, whatever the parameters say.
  void Restrict(std::string_view tenant) { owner_ = tenant; }

  bool Fits(const RequestRecord& record) const;
  // Returns false if the stored bytes of a record cannot fit, found without decoding them: names
  // stand in them verbatim.
  bool MayFit(std::string_view bytes) const;
  // Records before this time do not fit; 0: any may.
  int64_t since_us() const { return since_us_; }
  // Records from this time on do not fit; 0: any may.
  int64_t until_us() const { return until_us_; }

 private:
  bool FitsOutcome(const RequestRecord& record) const;

  std::optional<std::string> owner_;
  // What each must be; empty: anything.
  std::string upstream_;
  std::string model_;
  std::string tenant_;
  std::string key_;
  std::string session_;
  std::string conversation_;
  std::string break_;  // "any": any cause but "none"
  std::string endpoint_;
  std::string prompt_name_;
  std::string prompt_version_;
  int status_ = 0;  // 0: any
  bool failed_ = false;
  int64_t since_us_ = 0;
  int64_t until_us_ = 0;
};

}  // namespace kvgate::ledger
