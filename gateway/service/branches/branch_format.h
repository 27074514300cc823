// The bytes of a branch's rows in a data directory (store/FORMAT.md, "prefixes"). Each request
// appends one row, which holds what differs from the row that it builds on; a row that builds on
// none holds everything. A row consists of tagged parts, and a part that did not change is left
// out. Adding a part, or a field to one, raises kBranchKind's version (store/file/sealed_kinds.h).
//
// Of the bytes that were sent, only those are kept that the conversation's next request cannot be
// expected to carry: see KeepsBytes. They are named by their identities and stored beside the rows,
// once for all of a tenant's conversations.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gateway/prompt/history/branch.h"
#include "gateway/prompt/templates/slot_set.h"
#include "store/file/byte_codec.h"

namespace kvgate::service::branches {

// Bytes that a row refers to.
struct KeptBytes {
  prompt::parse::Identity id;  // HashBytes(bytes, kRaw)
  std::shared_ptr<const std::string> bytes;
};

// Returns true if the bytes sent for a segment are kept: they differ from those received, or hold
// text that may be held back later, or belong to tools or system prompt, whose bytes a client may
// spell anew in each request. `respells`: this conversation's client does so in turns as well.
bool KeepsBytes(const prompt::history::SentSegment& sent, const prompt::history::CallerForm& form,
                bool respells);

struct BranchRowArgs {
  const prompt::history::Branch& branch;
  const prompt::history::Branch* base = nullptr;  // what the row before holds; null: nothing
  uint64_t base_token = 0;                        // of the row before
  std::vector<prompt::parse::Identity> keys;      // the conversation's own first
  bool has_new_keys = false;                      // than the row before
  int64_t time_us = 0;                            // since 1970
  bool respells = false;                          // as found by rows before this one
};
struct BranchRow {
  std::string body;              // to be sealed
  std::vector<KeptBytes> bytes;  // that the row refers to
  bool respells = false;
  bool is_empty = false;  // it would say what the row before says
};
// Takes time with the segments that differ, and a comparison of pointers for those that do not.
BranchRow EncodeBranchRow(const BranchRowArgs& args);

// What the rows read so far say.
struct ReadBranch {
  struct Segment {
    prompt::history::SentSegment sent;
    prompt::history::CallerForm form;
    std::optional<prompt::parse::Identity> sent_bytes;  // kept, to be looked up
    std::optional<prompt::parse::Identity> caller_bytes;
  };
  prompt::history::Branch branch;  // without segments and forms
  std::vector<Segment> segments;
  std::vector<prompt::parse::Identity> keys;
  int64_t time_us = 0;
  bool respells = false;
  bool is_whole = false;  // a row that holds everything has been read, and none is missing since
  size_t num_equal = 0;   // segments at the front that the last row has not changed
  std::vector<prompt::parse::Identity> bytes;  // that any of the rows refers to
};
// Reads the next row of a branch into `read`. A row whose predecessor is missing makes the branch
// incomplete until one comes that holds everything. Fails with kDataLoss if the bytes are no row;
// `read` is incomplete then, too.
Result<void> ReadBranchRow(std::string_view body, ReadBranch& read);

// The bytes of a slot, which rows of templates hold as well (template_store.cc). TakeSlot returns
// nullopt if the reader's next bytes are none.
void AppendSlot(std::string& out, const prompt::templates::Slot& slot);
std::optional<prompt::templates::Slot> TakeSlot(store::file::ByteReader& reader);

}  // namespace kvgate::service::branches
