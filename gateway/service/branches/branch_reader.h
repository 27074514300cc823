// Reads what a branch's requests have sent from its rows, wherever these are kept. Pure.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "gateway/prompt/history/branch.h"
#include "gateway/service/branches/branch_format.h"

namespace kvgate::service::branches {

// Bytes that rows refer to; null: they are there no more.
using KeptTexts = std::unordered_map<prompt::parse::Identity, std::shared_ptr<const std::string>>;

// Returns the names of the bytes on which the last row stands; some may come twice.
std::vector<prompt::parse::Identity> RefersTo(const ReadBranch& read);

struct BranchLine {
  std::vector<prompt::parse::Identity> keys;  // of its conversation, its own first
  // As the last row left it, and the newest of those that it went on from, newest first.
  std::vector<std::shared_ptr<prompt::history::Branch>> branches;
};
// Adds the bytes of these names to the texts, null for those that are not there.
using FetchTexts =
    std::function<Result<void>(std::span<const prompt::parse::Identity> ids, KeptTexts& texts)>;
// `rows` are all that there are, oldest first. Fails with kDataLoss if the branch cannot be read,
// or not whole; as `fetch` does.
Result<BranchLine> ReadBranchLine(std::span<const std::string> rows, const FetchTexts& fetch);

// A conversation, put together from its lines.
struct Recalled {
  std::vector<prompt::parse::Identity> keys;  // its own first
  // Newest first, those among them that others went on from: a helper begins where its caller
  // waits, and goes on in the caller's rows.
  std::vector<std::shared_ptr<prompt::history::Branch>> branches;
};
// Adds a line to its conversation. Those of its and its agent's keys that were asked for are the
// conversation's as well, so that memory finds it wherever it was found.
void AddLine(BranchLine line, std::span<const prompt::parse::Identity> asked,
             std::vector<Recalled>& recalled);

// Sorts by the time of the request, newest first.
void SortNewestFirst(std::vector<std::shared_ptr<prompt::history::Branch>>& branches);

}  // namespace kvgate::service::branches
