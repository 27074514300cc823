#include "gateway/service/branches/branch_format.h"

#include <algorithm>
#include <array>
#include <utility>

#include "gateway/prompt/optimizer.h"
#include "gateway/prompt/parse/canonical.h"
#include "gateway/prompt/templates/masked_line.h"
#include "store/file/byte_codec.h"
#include "store/file/sealed_kinds.h"

namespace kvgate::service::branches {

using prompt::history::Branch;
using prompt::history::CallerForm;
using prompt::history::Ephemeral;
using prompt::history::FirstTurn;
using prompt::history::HeldValue;
using prompt::history::SentParameter;
using prompt::history::SentSegment;
using prompt::parse::Identity;
using prompt::templates::CarriedLine;
using prompt::templates::Slot;
using prompt::templates::SlotLine;
using prompt::templates::SlotSet;
using prompt::templates::TextState;
using store::file::AppendText;
using store::file::AppendValue;
using store::file::ByteReader;

namespace {

// The parts of a row, each {tag:u8 text}. The head stands first and the segments stand last, so
// that a row which was cut off is no row.
enum class Part : uint8_t {
  kHead = 1,
  kKeys,
  kParameters,
  kTools,
  kTail,
  kSlots,
  kSegments,
  kTurns,
  kFirstTurn
};

// A line has kTokensMax words at most, and its template as many marks between them and one more.
constexpr uint32_t kSlotTokensMax = 2 * prompt::templates::kTokensMax + 1;

// Facts about a segment of which most are false.
enum Flag : uint32_t {
  kSaid = 1U << 0,         // `said` is not zero
  kOtherRaw = 1U << 1,     // the caller's raw identity is not that of the bytes sent
  kSentBytes = 1U << 2,    // the bytes sent are kept
  kCallerBytes = 1U << 3,  // the caller's bytes are kept
  kBreakpoint = 1U << 4,   // it went out with a breakpoint
  kVolatile = 1U << 5,
  kHasVolatile = 1U << 6,
  kAsList = 1U << 7,
  kHeadSplit = 1U << 8,
  kHeld = 1U << 9,
  kLines = 1U << 10,  // unsaid or carried lines, or text that has left
  kText = 1U << 11,   // its lines were read; they are read again from the bytes
  kOurs = 1U << 12,   // a turn of the gateway's own
  kNotice = 1U << 13,
};

// The names of fields, which are literals in memory. The order is part of the format.
constexpr std::array<std::string_view, 6> kFields = {"",         "tools", "system", "instructions",
                                                     "messages", "input"};

void AppendIdentity(std::string& out, const Identity& identity) {
  AppendValue(out, identity.low);
  AppendValue(out, identity.high);
}
Identity TakeIdentity(ByteReader& reader) {
  Identity identity;
  identity.low = reader.Take<uint64_t>();
  identity.high = reader.Take<uint64_t>();
  return identity;
}
void AppendIdentities(std::string& out, const std::vector<Identity>& identities) {
  AppendValue(out, static_cast<uint32_t>(identities.size()));
  for (const Identity& identity : identities) AppendIdentity(out, identity);
}
std::vector<Identity> TakeIdentities(ByteReader& reader) {
  std::vector<Identity> identities;
  const auto count = reader.Take<uint32_t>();
  for (uint32_t i = 0; i < count && reader.ok(); ++i) identities.push_back(TakeIdentity(reader));
  return identities;
}
void AppendTexts(std::string& out, const std::vector<std::string>& texts) {
  AppendValue(out, static_cast<uint32_t>(texts.size()));
  for (const std::string& text : texts) AppendText(out, text);
}
std::vector<std::string> TakeTexts(ByteReader& reader) {
  std::vector<std::string> texts;
  const auto count = reader.Take<uint32_t>();
  for (uint32_t i = 0; i < count && reader.ok(); ++i) texts.push_back(reader.TakeText());
  return texts;
}

// Takes a value of an enumeration whose last one is `last`; nullopt if it has none of that number.
template <typename Enum>
std::optional<Enum> TakeEnum(ByteReader& reader, Enum last) {
  const auto value = reader.Take<uint8_t>();
  if (!reader.ok() || value > static_cast<uint8_t>(last)) return std::nullopt;
  return static_cast<Enum>(value);
}

void AppendPart(std::string& out, Part part, std::string_view body) {
  AppendValue(out, part);
  AppendText(out, body);
}

bool AreEqual(const std::vector<HeldValue>& a, const std::vector<HeldValue>& b) {
  return std::equal(
      a.begin(), a.end(), b.begin(), b.end(),
      [](const HeldValue& x, const HeldValue& y) { return x.kind == y.kind && x.json == y.json; });
}
bool AreEqual(const std::vector<Ephemeral>& a, const std::vector<Ephemeral>& b) {
  return std::equal(
      a.begin(), a.end(), b.begin(), b.end(),
      [](const Ephemeral& x, const Ephemeral& y) { return x.kind == y.kind && x.text == y.text; });
}
bool AreEqual(const std::vector<SentParameter>& a, const std::vector<SentParameter>& b) {
  return std::equal(
      a.begin(), a.end(), b.begin(), b.end(), [](const SentParameter& x, const SentParameter& y) {
        return x.name == y.name && x.value == y.value && x.same == y.same && x.is_ours == y.is_ours;
      });
}
bool AreEqual(const std::shared_ptr<const std::string>& a,
              const std::shared_ptr<const std::string>& b) {
  return a == b || (a && b && *a == *b);
}

bool AreEqual(const std::shared_ptr<const TextState>& a,
              const std::shared_ptr<const TextState>& b) {
  return a == b || (a && b && a->slots == b->slots);
}

// Returns true if both stand in one chunk of a shared list, or a row would hold the same of them.
bool AreEqual(const SentSegment& a, const SentSegment& b) {
  return &a == &b ||
         (a.sent_raw == b.sent_raw && a.same == b.same && a.stable == b.stable &&
          a.said == b.said && a.place == b.place && a.breakpoint == b.breakpoint &&
          a.role == b.role && a.source == b.source && a.content == b.content &&
          a.is_volatile == b.is_volatile && a.has_volatile == b.has_volatile &&
          a.is_ours == b.is_ours && a.is_notice == b.is_notice && a.num_tokens == b.num_tokens);
}
bool AreEqual(const CallerForm& a, const CallerForm& b) {
  return &a == &b ||
         (a.raw == b.raw && a.rule == b.rule && a.as_list == b.as_list &&
          a.head_split == b.head_split && a.unsaid == b.unsaid && a.carried == b.carried &&
          AreEqual(a.held, b.held) && AreEqual(a.left, b.left) && AreEqual(a.caller, b.caller) &&
          AreEqual(a.text, b.text));
}

// Writes one row; `bytes` collects what it refers to.
class RowWriter {
 public:
  explicit RowWriter(const BranchRowArgs& args) : args_(args), branch_(args.branch) {}

  BranchRow Run() {
    row_.respells = args_.respells;
    const std::vector<size_t> changed = FindChanged();
    AppendPart(row_.body, Part::kHead, Head());
    const size_t head_bytes = row_.body.size();
    AddLists();
    row_.is_empty = args_.base != nullptr && changed.empty() && row_.body.size() == head_bytes &&
                    args_.base->request.segments.size() == branch_.request.segments.size();
    std::string segments;
    AppendValue(segments, static_cast<uint32_t>(branch_.request.segments.size()));
    for (const size_t i : changed) {
      AppendValue(segments, static_cast<uint32_t>(i));
      AddSegment(branch_.request.segments[i], branch_.forms[i], segments);
    }
    AppendPart(row_.body, Part::kSegments, segments);
    return std::move(row_);
  }

 private:
  // Adds the parts that differ from those of the base.
  void AddLists() {
    const Branch* base = args_.base;
    if (base == nullptr || args_.has_new_keys) {
      std::string keys;
      AppendIdentities(keys, args_.keys);
      AppendPart(row_.body, Part::kKeys, keys);
    }
    if (base == nullptr || !AreEqual(base->request.parameters, branch_.request.parameters)) {
      AppendPart(row_.body, Part::kParameters, Parameters());
    }
    if (base == nullptr || base->tool_keys != branch_.tool_keys ||
        base->tools_order != branch_.tools_order) {
      std::string tools;
      AppendIdentities(tools, branch_.tool_keys);
      AppendIdentities(tools, branch_.tools_order);
      AppendPart(row_.body, Part::kTools, tools);
    }
    if (base == nullptr || base->tail != branch_.tail) {
      std::string tail;
      AppendTexts(tail, branch_.tail);
      AppendPart(row_.body, Part::kTail, tail);
    }
    if (base == nullptr ? branch_.slots != nullptr : base->slots != branch_.slots) {
      AppendPart(row_.body, Part::kSlots, Slots());
    }
    AddFirstTurn();
    const auto turns_of = [](const Branch* branch) {
      return branch == nullptr ? std::pair(ledger::SystemTurn::kNone, int64_t{0})
                               : std::pair(branch->system_turn, branch->held_since_us);
    };
    if (turns_of(base) != turns_of(&branch_)) {
      std::string turns;
      AppendValue(turns, static_cast<uint8_t>(branch_.system_turn));
      AppendValue(turns, branch_.held_since_us);
      AppendPart(row_.body, Part::kTurns, turns);
    }
  }

  void AddFirstTurn() {
    const auto& turn = branch_.first_turn;
    const auto before = args_.base == nullptr ? nullptr : args_.base->first_turn;
    if (turn == before || (turn && before && *turn == *before)) return;
    std::string out;
    if (turn) {
      AppendIdentity(out, turn->words);
      AppendIdentity(out, turn->ends);
      AppendIdentities(out, turn->kin);
      AppendValue(out, turn->users.num_lines);
      for (const uint64_t mask : turn->users.masks) AppendValue(out, mask);
    }
    AppendPart(row_.body, Part::kFirstTurn, out);
  }

  // Notes too whether the client spells anew what it has sent before.
  std::vector<size_t> FindChanged() {
    using prompt::parse::Rule;
    std::vector<size_t> changed;
    const Branch* base = args_.base;
    for (size_t i = 0; i < branch_.request.segments.size(); ++i) {
      const SentSegment& sent = branch_.request.segments[i];
      const CallerForm& form = branch_.forms[i];
      if (base != nullptr && i < base->request.segments.size() &&
          AreEqual(base->request.segments[i], sent) && AreEqual(base->forms[i], form)) {
        continue;
      }
      changed.push_back(i);
      const bool is_spelling = form.rule == Rule::kFirstSeenBytes || form.rule == Rule::kNewlines;
      row_.respells = row_.respells || (is_spelling && form.raw != sent.sent_raw);
    }
    return changed;
  }

  std::string Head() const {
    std::string head;
    AppendValue(head, branch_.token);
    AppendValue(head, args_.base == nullptr ? uint64_t{0} : args_.base_token);
    AppendValue(head, args_.time_us);
    AppendValue(head, branch_.origin);
    AppendIdentity(head, branch_.line);
    AppendValue(head, static_cast<uint8_t>(branch_.mode));
    AppendValue(head, branch_.rules_off);
    AppendValue(head, static_cast<uint8_t>(branch_.lines_move));
    AppendValue(head, static_cast<uint8_t>(row_.respells));
    AppendValue(head, branch_.request.time_us);
    AppendValue(head, static_cast<uint8_t>(branch_.request.endpoint));
    AppendValue(head, branch_.request.ttl_seconds);
    AppendValue(head, static_cast<uint8_t>(branch_.request.holds_history));
    AppendText(head, branch_.request.upstream);
    AppendText(head, branch_.request.model);
    return head;
  }
  std::string Slots() const {
    std::string out;
    if (branch_.slots == nullptr) return out;
    for (const auto& slot : branch_.slots->slots()) AppendSlot(out, *slot);
    return out;
  }
  std::string Parameters() const {
    std::string out;
    AppendValue(out, static_cast<uint32_t>(branch_.request.parameters.size()));
    for (const SentParameter& parameter : branch_.request.parameters) {
      AppendText(out, parameter.name);
      AppendText(out, parameter.value);
      AppendIdentity(out, parameter.same);
      AppendValue(out, static_cast<uint8_t>(parameter.is_ours));
    }
    return out;
  }

  void AddBytes(std::shared_ptr<const std::string> bytes, std::string& out) {
    const Identity id = prompt::parse::HashBytes(*bytes, prompt::parse::Domain::kRaw);
    AppendIdentity(out, id);
    row_.bytes.push_back({id, std::move(bytes)});
  }
  void AddSegment(const SentSegment& sent, const CallerForm& form, std::string& out) {
    const bool keeps = sent.bytes && KeepsBytes(sent, form, row_.respells);
    const bool has_lines = !form.unsaid.empty() || !form.carried.empty() || !form.left.empty();
    uint32_t flags = 0;
    const auto set = [&](Flag flag, bool value) { flags |= value ? flag : 0U; };
    set(kSaid, sent.said != Identity());
    set(kOtherRaw, form.raw != sent.sent_raw);
    set(kSentBytes, keeps);
    set(kCallerBytes, form.caller != nullptr);
    set(kBreakpoint, sent.breakpoint.has_value());
    set(kVolatile, sent.is_volatile);
    set(kHasVolatile, sent.has_volatile);
    set(kAsList, form.as_list);
    set(kHeadSplit, form.head_split != 0);
    set(kHeld, !form.held.empty());
    set(kLines, has_lines);
    set(kText, form.text != nullptr);
    set(kOurs, sent.is_ours);
    set(kNotice, sent.is_notice);
    AppendValue(out, flags);
    AppendPlace(sent, out);
    AppendValue(out, static_cast<uint8_t>(form.rule));
    AppendValue(out, sent.num_tokens);
    AppendIdentity(out, sent.same);
    AppendIdentity(out, sent.stable);
    AppendIdentity(out, sent.sent_raw);
    if (sent.said != Identity()) AppendIdentity(out, sent.said);
    if (form.raw != sent.sent_raw) AppendIdentity(out, form.raw);
    if (keeps) AddBytes(sent.bytes, out);
    if (form.caller) AddBytes(form.caller, out);
    if (sent.breakpoint) {
      AppendValue(out, static_cast<uint8_t>(sent.breakpoint->kind));
      AppendValue(out, sent.breakpoint->ttl_seconds);
    }
    if (form.head_split != 0) AppendValue(out, form.head_split);
    if (!form.held.empty()) AppendHeld(form.held, out);
    if (has_lines) AppendLines(form, out);
    if (form.text) AppendSlotLines(form.text->slots, out);
  }
  static void AppendLines(const CallerForm& form, std::string& out) {
    AppendTexts(out, form.unsaid);
    AppendValue(out, static_cast<uint32_t>(form.carried.size()));
    for (const CarriedLine& line : form.carried) {
      AppendText(out, line.json);
      AppendValue(out, line.slot);
    }
    AppendValue(out, static_cast<uint32_t>(form.left.size()));
    for (const Ephemeral& left : form.left) {
      AppendValue(out, static_cast<uint8_t>(left.kind));
      AppendText(out, left.text);
    }
  }
  static void AppendSlotLines(const std::vector<SlotLine>& slots, std::string& out) {
    AppendValue(out, static_cast<uint32_t>(slots.size()));
    for (const SlotLine& slot : slots) {
      AppendValue(out, slot.line);
      AppendValue(out, slot.slot);
      AppendValue(out, static_cast<uint8_t>(slot.moved));
      AppendText(out, slot.first);
    }
  }
  static void AppendPlace(const SentSegment& sent, std::string& out) {
    const auto field = std::find(kFields.begin(), kFields.end(), sent.place.field);
    AppendValue(out, static_cast<uint8_t>(sent.place.section));
    AppendValue(out, static_cast<uint8_t>(field == kFields.end() ? 0 : field - kFields.begin()));
    AppendValue(out, sent.place.element);
    AppendValue(out, sent.place.block);
    AppendValue(out, static_cast<uint8_t>(sent.role));
    AppendValue(out, static_cast<uint8_t>(sent.source));
    AppendValue(out, static_cast<uint8_t>(sent.content));
  }
  static void AppendHeld(const std::vector<HeldValue>& held, std::string& out) {
    AppendValue(out, static_cast<uint32_t>(held.size()));
    for (const HeldValue& value : held) {
      AppendValue(out, static_cast<uint8_t>(value.kind));
      AppendText(out, value.json);
    }
  }

  const BranchRowArgs& args_;
  const Branch& branch_;
  BranchRow row_;
};

// Reads one row. Each function returns false if the bytes do not add up.
class RowReader {
 public:
  explicit RowReader(ReadBranch& read) : read_(read) {}

  bool Run(std::string_view body) {
    ByteReader reader(body);
    bool has_head = false;
    auto part = Part::kHead;
    while (reader.ok() && !reader.at_end()) {
      part = reader.Take<Part>();
      const std::string_view content = reader.TakeBytes(reader.Take<uint32_t>());
      // The head says whether what was read before is built on, so it stands in front.
      if (!reader.ok() || (part == Part::kHead) == has_head || !ReadPart(part, content)) {
        return false;
      }
      has_head = true;
    }
    return reader.ok() && has_head && part == Part::kSegments;
  }

 private:
  bool ReadPart(Part part, std::string_view content) {
    ByteReader reader(content);
    switch (part) {
      case Part::kHead:
        return ReadHead(reader);
      case Part::kKeys:
        read_.keys = TakeIdentities(reader);
        return reader.at_end();
      case Part::kParameters:
        return ReadParameters(reader);
      case Part::kTools:
        read_.branch.tool_keys = TakeIdentities(reader);
        read_.branch.tools_order = TakeIdentities(reader);
        return reader.at_end();
      case Part::kTail:
        read_.branch.tail = TakeTexts(reader);
        return reader.at_end();
      case Part::kSlots:
        return ReadSlots(reader);
      case Part::kTurns:
        return ReadTurns(reader);
      case Part::kFirstTurn:
        return ReadFirstTurn(reader);
      case Part::kSegments:
        return ReadSegments(reader);
    }
    return false;
  }

  bool ReadTurns(ByteReader& reader) {
    const auto turn = TakeEnum(reader, ledger::SystemTurn::kClearAt);
    read_.branch.held_since_us = reader.Take<int64_t>();
    if (!turn || !reader.at_end()) return false;
    read_.branch.system_turn = *turn;
    return true;
  }

  // An empty part says that this is no first request any more.
  bool ReadFirstTurn(ByteReader& reader) {
    read_.branch.first_turn = nullptr;
    if (reader.at_end()) return true;
    auto turn = std::make_shared<FirstTurn>();
    turn->words = TakeIdentity(reader);
    turn->ends = TakeIdentity(reader);
    turn->kin = TakeIdentities(reader);
    turn->users.num_lines = reader.Take<uint32_t>();
    while (reader.ok() && !reader.at_end()) {
      turn->users.masks.push_back(reader.Take<uint64_t>());
    }
    const std::vector<uint64_t>& masks = turn->users.masks;
    if (!reader.ok() || masks.size() > turn->users.num_lines ||
        !std::is_sorted(masks.begin(), masks.end())) {
      return false;
    }
    read_.branch.first_turn = std::move(turn);
    return true;
  }

  bool ReadHead(ByteReader& reader) {
    const auto token = reader.Take<uint64_t>();
    const auto base = reader.Take<uint64_t>();
    if (base == 0) {
      std::vector<Identity> bytes = std::move(read_.bytes);
      read_ = ReadBranch();
      read_.bytes = std::move(bytes);
      read_.is_whole = true;
    } else {
      read_.is_whole = read_.is_whole && read_.branch.token == base;
    }
    Branch& branch = read_.branch;
    branch.token = token;
    branch.before = base;
    branch.is_restored = true;
    read_.time_us = reader.Take<int64_t>();
    branch.origin = reader.Take<uint64_t>();
    branch.line = TakeIdentity(reader);
    const auto mode = TakeEnum(reader, prompt::Mode::kStabilize);
    branch.rules_off = reader.Take<uint32_t>();
    branch.lines_move = reader.Take<uint8_t>() != 0;
    read_.respells = reader.Take<uint8_t>() != 0;
    branch.request.time_us = reader.Take<int64_t>();
    const auto endpoint = TakeEnum(reader, dialect::form::Endpoint::kCountContent);
    branch.request.ttl_seconds = reader.Take<int64_t>();
    branch.request.holds_history = reader.Take<uint8_t>() != 0;
    branch.request.upstream = reader.TakeText();
    branch.request.model = reader.TakeText();
    if (!mode || !endpoint || !reader.at_end()) return false;
    branch.mode = *mode;
    branch.request.endpoint = *endpoint;
    return true;
  }
  bool ReadSlots(ByteReader& reader) {
    SlotSet::Slots slots;
    while (reader.ok() && !reader.at_end()) {
      std::optional<Slot> slot = TakeSlot(reader);
      if (!slot) return false;
      slots.push_back(std::make_shared<const Slot>(std::move(*slot)));
    }
    read_.branch.slots =
        slots.empty() ? nullptr : std::make_shared<const SlotSet>(std::move(slots));
    return reader.ok();
  }
  bool ReadParameters(ByteReader& reader) {
    std::vector<SentParameter>& parameters = read_.branch.request.parameters;
    parameters.clear();
    const auto count = reader.Take<uint32_t>();
    for (uint32_t i = 0; i < count && reader.ok(); ++i) {
      SentParameter& parameter = parameters.emplace_back();
      parameter.name = reader.TakeText();
      parameter.value = reader.TakeText();
      parameter.same = TakeIdentity(reader);
      parameter.is_ours = reader.Take<uint8_t>() != 0;
    }
    return reader.at_end();
  }
  // New segments follow each other from the end of those that are known.
  bool ReadSegments(ByteReader& reader) {
    std::vector<ReadBranch::Segment>& segments = read_.segments;
    const auto count = reader.Take<uint32_t>();
    if (!reader.ok()) return false;
    if (count < segments.size()) segments.resize(count);
    read_.num_equal = segments.size();
    while (reader.ok() && !reader.at_end()) {
      const auto index = reader.Take<uint32_t>();
      ReadBranch::Segment segment;
      if (index >= count || !ReadSegment(reader, segment)) return false;
      if (segment.sent_bytes) read_.bytes.push_back(*segment.sent_bytes);
      if (segment.caller_bytes) read_.bytes.push_back(*segment.caller_bytes);
      if (index < segments.size()) {
        segments[index] = std::move(segment);
        read_.num_equal = std::min<size_t>(read_.num_equal, index);
      } else if (index == segments.size()) {
        segments.push_back(std::move(segment));
      } else if (read_.is_whole) {
        return false;
      }
    }
    return reader.ok() && (segments.size() == count || !read_.is_whole);
  }
  static bool ReadSegment(ByteReader& reader, ReadBranch::Segment& out) {
    const auto flags = reader.Take<uint32_t>();
    SentSegment& sent = out.sent;
    CallerForm& form = out.form;
    if (!ReadPlace(reader, sent)) return false;
    const auto rule =
        TakeEnum(reader, static_cast<prompt::parse::Rule>(prompt::parse::kNumRules - 1));
    if (!rule) return false;
    form.rule = *rule;
    sent.num_tokens = reader.Take<uint32_t>();
    sent.same = TakeIdentity(reader);
    sent.stable = TakeIdentity(reader);
    sent.sent_raw = TakeIdentity(reader);
    if ((flags & kSaid) != 0) sent.said = TakeIdentity(reader);
    form.raw = (flags & kOtherRaw) != 0 ? TakeIdentity(reader) : sent.sent_raw;
    if ((flags & kSentBytes) != 0) out.sent_bytes = TakeIdentity(reader);
    if ((flags & kCallerBytes) != 0) out.caller_bytes = TakeIdentity(reader);
    if ((flags & kBreakpoint) != 0 && !ReadBreakpoint(reader, sent)) return false;
    sent.is_volatile = (flags & kVolatile) != 0;
    sent.has_volatile = (flags & kHasVolatile) != 0;
    sent.is_ours = (flags & kOurs) != 0;
    sent.is_notice = (flags & kNotice) != 0;
    form.as_list = (flags & kAsList) != 0;
    if ((flags & kHeadSplit) != 0) form.head_split = reader.Take<uint32_t>();
    if ((flags & kHeld) != 0 && !ReadHeld(reader, form)) return false;
    if ((flags & kLines) != 0 && !ReadLines(reader, form)) return false;
    if ((flags & kText) != 0) form.text = ReadText(reader);
    return reader.ok();
  }
  static bool ReadPlace(ByteReader& reader, SentSegment& sent) {
    using namespace prompt::parse;
    const auto section = TakeEnum(reader, Section::kMessages);
    const auto field = reader.Take<uint8_t>();
    sent.place.element = reader.Take<int32_t>();
    sent.place.block = reader.Take<int32_t>();
    const auto role = TakeEnum(reader, Role::kTool);
    const auto source = TakeEnum(reader, Source::kUser);
    const auto content = TakeEnum(reader, Content::kOther);
    if (!section || !role || !source || !content || field >= kFields.size()) return false;
    sent.place.section = *section;
    sent.place.field = kFields[field];
    sent.role = *role;
    sent.source = *source;
    sent.content = *content;
    return reader.ok();
  }
  static bool ReadBreakpoint(ByteReader& reader, SentSegment& sent) {
    const auto kind = TakeEnum(reader, prompt::parse::BreakpointKind::kBreakpoint);
    const auto ttl_seconds = reader.Take<int32_t>();
    if (!kind) return false;
    sent.breakpoint = prompt::parse::Breakpoint{.kind = *kind, .ttl_seconds = ttl_seconds};
    return reader.ok();
  }
  static std::optional<prompt::parse::VolatileKind> TakeKind(ByteReader& reader) {
    return TakeEnum(reader,
                    static_cast<prompt::parse::VolatileKind>(prompt::parse::kNumVolatileKinds - 1));
  }
  static bool ReadHeld(ByteReader& reader, CallerForm& form) {
    const auto count = reader.Take<uint32_t>();
    for (uint32_t i = 0; i < count && reader.ok(); ++i) {
      const auto kind = TakeKind(reader);
      if (!kind) return false;
      form.held.push_back({*kind, reader.TakeText()});
    }
    return reader.ok();
  }
  static bool ReadLines(ByteReader& reader, CallerForm& form) {
    form.unsaid = TakeTexts(reader);
    const auto num_carried = reader.Take<uint32_t>();
    for (uint32_t i = 0; i < num_carried && reader.ok(); ++i) {
      CarriedLine& line = form.carried.emplace_back();
      line.json = reader.TakeText();
      line.slot = reader.Take<uint64_t>();
    }
    const auto count = reader.Take<uint32_t>();
    for (uint32_t i = 0; i < count && reader.ok(); ++i) {
      const auto kind = TakeKind(reader);
      if (!kind) return false;
      form.left.push_back({reader.TakeText(), *kind});
    }
    return reader.ok();
  }
  static std::shared_ptr<const TextState> ReadText(ByteReader& reader) {
    auto text = std::make_shared<TextState>();
    const auto count = reader.Take<uint32_t>();
    for (uint32_t i = 0; i < count && reader.ok(); ++i) {
      SlotLine& slot = text->slots.emplace_back();
      slot.line = reader.Take<uint32_t>();
      slot.slot = reader.Take<uint64_t>();
      slot.moved = reader.Take<uint8_t>() != 0;
      slot.first = reader.TakeText();
    }
    return text;
  }

  ReadBranch& read_;
};

}  // namespace

bool KeepsBytes(const SentSegment& sent, const CallerForm& form, bool respells) {
  using namespace prompt::parse;
  if (sent.place.section != Section::kMessages || respells) return true;
  // Message heads are short, and nearly all of them are alike.
  return sent.sent_raw != form.raw || form.caller != nullptr || sent.has_volatile || form.text ||
         (sent.content == Content::kMessageHead && sent.role != Role::kAssistant);
}

BranchRow EncodeBranchRow(const BranchRowArgs& args) { return RowWriter(args).Run(); }

Result<void> ReadBranchRow(std::string_view body, ReadBranch& read) {
  if (RowReader(read).Run(body)) return {};
  read.is_whole = false;
  return store::file::Damaged(store::file::kBranchKind, "its sizes do not add up");
}

void AppendSlot(std::string& out, const Slot& slot) {
  AppendValue(out, slot.id);
  AppendValue(out, static_cast<uint8_t>(slot.moves));
  AppendValue(out, static_cast<uint8_t>(slot.form.place));
  AppendValue(out, slot.form.mask);
  AppendValue(out, slot.form.before);
  AppendValue(out, slot.form.after);
  AppendValue(out, slot.form.num_words);
  AppendValue(out, static_cast<uint32_t>(slot.form.tokens.size()));
  for (const uint64_t token : slot.form.tokens) AppendValue(out, token);
}

std::optional<Slot> TakeSlot(ByteReader& reader) {
  Slot slot;
  slot.id = reader.Take<uint64_t>();
  slot.moves = reader.Take<uint8_t>() != 0;
  const auto place =
      TakeEnum(reader, static_cast<prompt::templates::Place>(prompt::templates::kNumPlaces - 1));
  if (!place) return std::nullopt;
  slot.form.place = *place;
  slot.form.mask = reader.Take<uint64_t>();
  slot.form.before = reader.Take<uint64_t>();
  slot.form.after = reader.Take<uint64_t>();
  slot.form.num_words = reader.Take<uint32_t>();
  const auto count = reader.Take<uint32_t>();
  if (count > kSlotTokensMax) return std::nullopt;
  for (uint32_t i = 0; i < count && reader.ok(); ++i) {
    slot.form.tokens.push_back(reader.Take<uint64_t>());
  }
  return reader.ok() ? std::optional(std::move(slot)) : std::nullopt;
}

}  // namespace kvgate::service::branches
