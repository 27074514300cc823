// BodyWriter: from a draft to edits of the body, and to what is remembered of it as sent. Cache
// markers are lifted out of all segments, and stand in the body sent where the plan has them.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/prompt/rewrite/draft.h"
#include "gateway/prompt/planner/plan.h"

namespace kvgate::prompt {

class BodyWriter {
 public:
  struct Options {
    bool ttl_supported = true;
    bool edits = true;  // false: all goes out as it came (observe)
  };
  BodyWriter(Draft& draft, const Options& options);

  // What goes out, in render order, for the planner; good while the writer is.
  const std::vector<PlanSegment>& plan_segments() const { return plan_segments_; }

  int64_t num_tokens() const;   // estimated
  int64_t ttl_seconds() const;  // the longest of the markers that go out; 0: there are none

  // The edits for the draft with the plan's markers and key.
  std::vector<Edit> Write(const Plan& plan);
  // What was sent, after Write: `branch` gets segments, forms and its size.
  void Fill(Branch& branch) const;

 private:
  // The texts that one request brings: one count of references for all of them, so that the next
  // requests share them without touching each.
  using Arena = std::shared_ptr<std::deque<std::string>>;
  struct Outgoing {
    size_t draft = 0;  // its index there
    Identity raw;
    std::shared_ptr<const std::string> bytes;  // null: the segment's own, unchanged
    std::optional<Marker> caller;              // where it stands
    std::optional<Marker> planned;
    bool to_list = false;    // a string that becomes a list for its marker …
    uint32_t marker_at = 0;  // … which stands here in `bytes`
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
  void WriteMarker(const Outgoing& out);
  void WritePutBack(size_t index);
  void WriteDropped(size_t index);
  // A block whose whole message stays out.
  bool DroppedWithHead(size_t index) const;
  void WriteFields(const Plan& plan);
  void Add(Rule rule, Span span, std::string bytes, std::string path);

  // Whether Fill would write for [begin, end) what the branch has there: then that is shared.
  bool IsAsBefore(size_t begin, size_t end, Place last) const;
  // Where it stands in the body that is sent; `last` is in front of it.
  Place PlaceOf(const Outgoing& out, const Place& last) const;
  SentSegment SentOf(const Outgoing& out, const Arena& arena) const;
  CallerForm FormOf(const Outgoing& out, const SentSegment& sent) const;
  // Of an unchanged message's head: where its blocks stand in its bytes.
  uint32_t HeadSplit(const Segment& head) const;
  std::string OwnBytes(const DraftSegment& segment) const;

  Draft& draft_;
  const Options options_;
  std::vector<Outgoing> outgoing_;
  std::vector<PlanSegment> plan_segments_;
  std::vector<Edit> edits_;
};

}  // namespace kvgate::prompt
