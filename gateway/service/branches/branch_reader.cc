#include "gateway/service/branches/branch_reader.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "store/file/sealed_kinds.h"

namespace kvgate::service::branches {

using prompt::history::Branch;
using prompt::parse::Identity;
using store::file::kBranchBytesKind;
using store::file::kBranchKind;

namespace {

// The requests of a branch that are recalled, its last one among them. Their rows are beside each
// other, but each takes time and memory.
constexpr size_t kRowsRecalled = 17;

// A branch as one of its rows left it.
struct Sent {
  std::shared_ptr<Branch> branch;
  bool has_bytes = true;  // none of those that it refers to is missing
};

// Returns what the rows read so far say; `before` is what those before the last one said.
Sent SentBy(const ReadBranch& read, const Branch* before,
            const std::unordered_map<Identity, std::shared_ptr<const std::string>>& texts) {
  Sent sent{.branch = std::make_shared<Branch>(read.branch)};
  Branch& branch = *sent.branch;
  const auto fill = [&](const std::optional<Identity>& id, std::shared_ptr<const std::string>& to) {
    if (id) to = texts.at(*id);
    sent.has_bytes = sent.has_bytes && (!id || to != nullptr);
  };
  prompt::history::SentSegments& segments = branch.request.segments;
  for (size_t i = 0; i < read.segments.size();) {
    const bool is_shared = before != nullptr && i + segments.kChunkSize <= read.num_equal &&
                           segments.CanShare(before->request.segments);
    if (is_shared) {
      segments.Share(before->request.segments);
      branch.forms.Share(before->forms);
      i = segments.size();
      continue;
    }
    ReadBranch::Segment segment = read.segments[i++];
    fill(segment.sent_bytes, segment.sent.bytes);
    fill(segment.caller_bytes, segment.form.caller);
    const auto size_of = [](const auto& text) { return text ? text->size() : 0; };
    const size_t sent_bytes = sizeof(segment.sent) + size_of(segment.sent.bytes);
    const size_t form_bytes = sizeof(segment.form) + size_of(segment.form.caller);
    segments.push_back(std::move(segment.sent), sent_bytes);
    branch.forms.push_back(std::move(segment.form), form_bytes);
  }
  branch.bytes = sizeof(Branch) + segments.num_bytes() + branch.forms.num_bytes();
  branch.finished = true;
  return sent;
}

}  // namespace

std::vector<Identity> RefersTo(const ReadBranch& read) {
  std::vector<Identity> ids;
  for (const ReadBranch::Segment& segment : read.segments) {
    if (segment.sent_bytes) ids.push_back(*segment.sent_bytes);
    if (segment.caller_bytes) ids.push_back(*segment.caller_bytes);
  }
  return ids;
}

Result<BranchLine> ReadBranchLine(std::span<const std::string> rows, const FetchTexts& fetch) {
  ReadBranch read;
  KeptTexts texts;
  Sent last;
  BranchLine line;
  for (size_t i = 0; i < rows.size(); ++i) {
    KVGATE_TRY_VOID(ReadBranchRow(rows[i], read));
    if (!read.is_whole || rows.size() - i > kRowsRecalled) continue;
    KVGATE_TRY_VOID(fetch(RefersTo(read), texts));
    last = SentBy(read, last.branch.get(), texts);
    if (last.has_bytes) line.branches.push_back(last.branch);
  }
  if (!read.is_whole) return store::file::Damaged(kBranchKind, "rows are missing");
  if (!last.has_bytes) return store::file::Damaged(kBranchBytesKind, "they are missing");
  std::reverse(line.branches.begin(), line.branches.end());
  line.keys = std::move(read.keys);
  return line;
}

void AddLine(BranchLine line, std::span<const Identity> asked, std::vector<Recalled>& recalled) {
  const Identity own = line.keys.front();
  auto conversation = std::find_if(recalled.begin(), recalled.end(), [&](const Recalled& other) {
    return other.keys.front() == own;
  });
  if (conversation == recalled.end()) {
    conversation = recalled.insert(recalled.end(), Recalled{line.keys, {}});
  }
  const auto add = [&](const std::vector<Identity>& keys) {
    for (const Identity& key : keys) {
      const bool is_new = std::ranges::count(conversation->keys, key) == 0;
      if (is_new && std::ranges::count(asked, key) > 0) conversation->keys.push_back(key);
    }
  };
  add(line.keys);
  if (const auto& turn = line.branches.front()->first_turn) add(turn->kin);
  for (std::shared_ptr<Branch>& branch : line.branches) {
    branch->conversation = own;
    conversation->branches.push_back(std::move(branch));
  }
}

void SortNewestFirst(std::vector<std::shared_ptr<Branch>>& branches) {
  std::stable_sort(branches.begin(), branches.end(), [](const auto& a, const auto& b) {
    return a->request.time_us > b->request.time_us;
  });
}

}  // namespace kvgate::service::branches
