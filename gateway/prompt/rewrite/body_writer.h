// BodyWriter turns a draft into edits of the body and into the record of what was sent. Cache
// breakpoints are lifted out of all segments, and are written where the plan puts them.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/prompt/planner/plan.h"
#include "gateway/prompt/rewrite/draft.h"

namespace kvgate::prompt::rewrite {

class BodyWriter {
 public:
  struct Options {
    bool ttl_supported = true;
    bool edits = true;  // false: every byte is forwarded unchanged (observe)
  };
  BodyWriter(Draft& draft, const Options& options);

  // The outgoing segments in render order, for the planner; valid while the writer lives.
  const std::vector<planner::PlanSegment>& plan_segments() const { return plan_segments_; }

  // Returns the index of the first draft segment that goes out otherwise than what the draft's
  // branch sent at that point; the number of segments if there is none. REQUIRES: there is a
  // branch.
  size_t FirstChange() const;

  int64_t num_tokens() const;   // estimated
  int64_t ttl_seconds() const;  // the longest TTL of the breakpoints that go out; 0: none do

  // Returns the edits that produce the draft with the plan's breakpoints and key.
  std::vector<parse::Edit> Write(const planner::Plan& plan);
  // Records in `branch` what was sent: segments, caller forms and size in bytes. Call it after
  // Write.
  void Fill(history::Branch& branch) const;

 private:
  // Holds the texts that one request brings under a single reference count, so that later requests
  // share all of them without touching each one.
  using Arena = std::shared_ptr<std::deque<std::string>>;
  struct Outgoing {
    size_t draft = 0;  // index into the draft's segments
    parse::Identity raw;
    std::shared_ptr<const std::string> bytes;  // null: the segment's own, unchanged
    std::optional<parse::Breakpoint> caller;   // the breakpoint that the caller set here
    std::optional<parse::Breakpoint> planned;
    bool to_list = false;        // a string that becomes a list to hold its breakpoint,
    uint32_t breakpoint_at = 0;  // which is inserted at this offset of `bytes`
  };

  void Collect();
  void AddOutgoing(size_t index);
  void AddPlanSegment(const Outgoing& out);
  bool MayBecomeList(const DraftSegment& segment) const;
  bool Markable(const DraftSegment& segment) const;

  void WriteSegment(Outgoing& out);
  void WriteOwn(Outgoing& out);
  void WriteInstead(const Outgoing& out);
  void WriteHead(const DraftSegment& segment);
  void WriteList(Outgoing& out);
  void WriteBreakpoint(const Outgoing& out);
  void WritePutBack(size_t index);
  void WriteDropped(size_t index);
  void WriteFields(const planner::Plan& plan);
  void Add(parse::Rule rule, parse::Span span, std::string bytes, std::string path);

  // Returns true if Fill would write for [begin, end) exactly what the branch holds there, so that
  // the chunk can be shared. `last` is the place sent in front of `begin`.
  bool IsAsBefore(size_t begin, size_t end, parse::Place last) const;
  // Returns the place in the body that is sent; `last` is the place of the segment in front.
  parse::Place PlaceOf(const Outgoing& out, const parse::Place& last) const;
  history::SentSegment SentOf(const Outgoing& out, const Arena& arena) const;
  history::CallerForm FormOf(const Outgoing& out, const history::SentSegment& sent) const;
  // Returns the offset in an unchanged message head's bytes at which its blocks are inserted.
  uint32_t HeadSplit(const parse::Segment& head) const;
  std::string OwnBytes(const DraftSegment& segment) const;

  Draft& draft_;
  const Options options_;
  std::vector<Outgoing> outgoing_;
  std::vector<planner::PlanSegment> plan_segments_;
  parse::Identity plan_end_;  // of all of them, notices among them
  std::vector<parse::Edit> edits_;
};

}  // namespace kvgate::prompt::rewrite
