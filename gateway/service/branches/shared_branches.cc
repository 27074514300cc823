#include "gateway/service/branches/shared_branches.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/clock.h"
#include "base/ids.h"
#include "base/log.h"
#include "base/memory_fence.h"
#include "store/file/byte_codec.h"

namespace kvgate::service::branches {

using prompt::history::Branch;
using prompt::parse::Identity;
using store::shared::SharedRows;

namespace {

constexpr std::string_view kSource = "service";
constexpr uint8_t kAboutVersion = 1;
// A line of that many rows is begun anew with the next one.
constexpr uint64_t kRowsMax = 64;
constexpr size_t kKeysMax = 8;        // of a line
constexpr size_t kToldAtOnce = 64;    // requests in one call
constexpr size_t kReadMax = 16;       // lines that one question reads
constexpr size_t kTextsMax = 65'536;  // whose names are remembered

std::string NameOf(const Identity& id) { return ToHex(id.high, id.low); }
std::string NameOf(uint64_t number) { return ToHex(0, number); }

// What is said of a line beside its name.
struct About {
  uint64_t row_token = 0;
  Identity conversation = {};
};
std::string Encode(const About& about) {
  std::string bytes(1, static_cast<char>(kAboutVersion));
  store::file::AppendValue(bytes, about.row_token);
  store::file::AppendValue(bytes, about.conversation.low);
  store::file::AppendValue(bytes, about.conversation.high);
  return bytes;
}
std::optional<About> Decode(std::string_view bytes) {
  store::file::ByteReader reader(bytes);
  const auto version = reader.Take<uint8_t>();
  About about{.row_token = reader.Take<uint64_t>()};
  about.conversation.low = reader.Take<uint64_t>();
  about.conversation.high = reader.Take<uint64_t>();
  return version == kAboutVersion && reader.at_end() ? std::optional(about) : std::nullopt;
}

// Adds the keys; of too many the oldest go, but for the conversation's own. Returns true if one is
// new.
bool AddKeys(std::span<const Identity> more, std::vector<Identity>& keys) {
  bool is_any_new = false;
  for (const Identity& key : more) {
    if (std::ranges::count(keys, key) > 0) continue;
    if (keys.size() >= kKeysMax) keys.erase(keys.begin() + 1);
    keys.push_back(key);
    is_any_new = true;
  }
  return is_any_new;
}

}  // namespace

struct SharedBranches::Row {
  const Waiting* waiting = nullptr;
  std::shared_ptr<Line> line = {};
  BranchRow encoded = {};
  SharedRows::Addition addition = {};
};

SharedBranches::SharedBranches(const Options& options)
    : options_(options), lines_(options.lines_max), texts_(kTextsMax) {
  thread_ = std::thread([this] { Run(); });
}

SharedBranches::~SharedBranches() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

SharedBranches::Standing SharedBranches::Find(const Question& question) const {
  const Standing here = options_.here.Find(question);
  const bool asks = here != Standing::kKept && question.may_ask && !options_.shared.is_paused();
  return asks ? Standing::kKept : here;
}

// --- Telling

void SharedBranches::Tell(const BranchStore::StageArgs& args) {
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.size() >= options_.queue_max) DropOldest();
    waiting_.push_back({.tenant = std::string(args.tenant),
                        .branch = args.branch,
                        .before = args.before,
                        .keys = args.keys,
                        .instead = args.instead,
                        .time_us = WallClock::NowUs()});
    ++num_waiting_[waiting_.back().tenant];
  }
  wake_.notify_one();
}

// REQUIRES: the mutex held, something waits.
void SharedBranches::DropOldest() {
  const auto most =
      std::max_element(num_waiting_.begin(), num_waiting_.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  const auto oldest = std::find_if(waiting_.begin(), waiting_.end(), [&](const Waiting& waiting) {
    return waiting.tenant == most->first;
  });
  if (--most->second == 0) num_waiting_.erase(most);
  waiting_.erase(oldest);
  num_untold_ += 1;
}

// REQUIRES: the mutex held. Null if there is none, or if it has gone on.
std::shared_ptr<SharedBranches::Line> SharedBranches::LineOf(uint64_t head) {
  const std::shared_ptr<Line>* const line = lines_.Find(head);
  return line != nullptr && (*line)->head == head ? *line : nullptr;
}

void SharedBranches::Withdraw(std::string_view tenant, uint64_t token, uint64_t before) {
  {
    const std::lock_guard lock(mutex_);
    const auto waits = std::find_if(waiting_.begin(), waiting_.end(), [&](const Waiting& waiting) {
      return waiting.branch != nullptr && waiting.branch->token == token;
    });
    if (waits != waiting_.end()) {
      const auto of = num_waiting_.find(waits->tenant);
      if (--of->second == 0) num_waiting_.erase(of);
      waiting_.erase(waits);
      return;
    }
    const std::shared_ptr<Line> line = LineOf(token);
    if (line == nullptr) return;
    line->head = before;
    line->num_rows = 0;
    if (before != 0) {
      lines_.FindOrAdd(before) = line;
      return;
    }
    waiting_.push_back({.tenant = std::string(tenant), .removed = line});
    ++num_waiting_[waiting_.back().tenant];
  }
  wake_.notify_one();
}

void SharedBranches::Flush() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return waiting_.empty() && !is_telling_; });
}

void SharedBranches::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return ends_ || !waiting_.empty(); });
    const bool ends = ends_;
    is_telling_ = true;
    lock.unlock();
    (void)Attempt(kSource, "telling what conversations send", [this] { TellAll(TakeWaiting()); });
    lock.lock();
    is_telling_ = false;
    if (waiting_.empty()) idle_.notify_all();
    if (ends) return;
  }
}

std::vector<SharedBranches::Waiting> SharedBranches::TakeWaiting() {
  std::vector<Waiting> taken;
  const std::lock_guard lock(mutex_);
  while (!waiting_.empty() && (ends_ || taken.size() < kToldAtOnce)) {
    const auto of = num_waiting_.find(waiting_.front().tenant);
    if (--of->second == 0) num_waiting_.erase(of);
    taken.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
  return taken;
}

// Lines of which a row could not be added are begun anew, once now and else with their next
// request: the server may have forgotten them.
void SharedBranches::TellAll(std::span<const Waiting> waiting) {
  std::vector<Row> rows;
  // While the server is away, lines are left as they are: none goes on from a request that it was
  // not told.
  const bool is_away = options_.shared.is_paused();
  uint64_t num_untold = 0;
  for (const Waiting& one : waiting) {
    if (one.removed != nullptr) continue;
    if (is_away) {
      ++num_untold;
    } else if (std::optional<Row> row = RowOf(one)) {
      rows.push_back(*std::move(row));
    }
  }
  Add(rows);
  if (!rows.empty() && !options_.shared.is_paused()) {
    for (Row& row : rows) MakeAnew(row);
    Add(rows);
  }
  num_untold += rows.size();
  if (num_untold > 0 && num_untold_.fetch_add(num_untold) == 0) {
    KVGATE_LOG(kWarning, kSource,
               "the shared store {}: other gateways do not know what some conversations send; "
               "more are not logged, kvgate_shared_conversations_told_total counts them",
               options_.shared.is_paused() ? "does not answer" : "refuses it, or answers too late");
  }
  Remove(waiting);
}

void SharedBranches::Remove(std::span<const Waiting> waiting) {
  std::vector<SharedRows::Removal> removals;
  for (const Waiting& one : waiting) {
    if (one.removed == nullptr) continue;
    SharedRows::Removal removal{.tenant = one.tenant, .list = NameOf(one.removed->number)};
    for (const auto& keys : {one.removed->keys, one.removed->kin}) {
      for (const Identity& key : keys) removal.keys.push_back(NameOf(key));
    }
    removals.push_back(std::move(removal));
  }
  const auto deadline = SteadyClock::now() + options_.tell_time_max;
  // What stays is of a request that nobody answered, and expires.
  if (!removals.empty()) (void)options_.shared.Remove(removals, deadline);
}

// Returns nothing if it would say what the row before says.
std::optional<SharedBranches::Row> SharedBranches::RowOf(const Waiting& waiting) {
  Row row{.waiting = &waiting};
  const Branch& branch = *waiting.branch;
  const std::vector<Identity> kin =
      branch.first_turn ? branch.first_turn->kin : std::vector<Identity>();
  Line now;
  bool has_new_keys = false;
  {
    const std::lock_guard lock(mutex_);
    if (waiting.before != nullptr) row.line = LineOf(waiting.before->token);
    for (size_t i = 0; row.line == nullptr && i < waiting.instead.size(); ++i) {
      row.line = LineOf(waiting.instead[i]);
      if (row.line && row.line->keys.front() != waiting.keys.front()) row.line = nullptr;
    }
    if (row.line == nullptr) row.line = std::make_shared<Line>(Line{.number = branch.token});
    Line& line = *row.line;
    if (line.num_rows >= kRowsMax) line.num_rows = 0;
    has_new_keys = AddKeys(waiting.keys, line.keys);
    row.addition.former_keys.clear();
    for (const Identity& key : line.kin) {
      if (std::ranges::count(kin, key) == 0) row.addition.former_keys.push_back(NameOf(key));
    }
    line.kin = kin;
    now = line;
    line.head = branch.token;
    lines_.FindOrAdd(branch.token) = row.line;
  }
  Encode({.now = now, .has_new_keys = has_new_keys}, row);
  if (row.encoded.is_empty && now.num_rows > 0) return std::nullopt;
  const std::lock_guard lock(mutex_);
  row.line->row_token = branch.token;
  row.line->num_rows = now.num_rows + 1;
  row.line->respells = row.encoded.respells;
  return row;
}

void SharedBranches::MakeAnew(Row& row) {
  Line now;
  {
    const std::lock_guard lock(mutex_);
    now = *row.line;
    row.line->num_rows = 1;
  }
  now.num_rows = 0;
  Encode({.now = now, .sends_all_texts = true}, row);
}

void SharedBranches::Encode(const Encoding& encoding, Row& row) {
  const Line& now = encoding.now;
  const Waiting& waiting = *row.waiting;
  // Of a line that has gone on elsewhere the rows stay, behind which comes one that holds all.
  const bool follows =
      now.num_rows > 0 && waiting.before != nullptr && waiting.before->token == now.head;
  row.encoded = EncodeBranchRow({.branch = *waiting.branch,
                                 .base = follows ? waiting.before.get() : nullptr,
                                 .base_token = now.row_token,
                                 .keys = now.keys,
                                 .has_new_keys = encoding.has_new_keys,
                                 .time_us = waiting.time_us,
                                 .respells = now.respells});
  SharedRows::Addition& addition = row.addition;
  addition.tenant = waiting.tenant;
  addition.list = NameOf(now.number);
  addition.num_before = now.num_rows;
  addition.row = row.encoded.body;
  addition.time_us = waiting.time_us;
  addition.about =
      branches::Encode(About{.row_token = waiting.branch->token, .conversation = now.keys.front()});
  addition.keys.clear();
  for (const auto& keys : {now.keys, now.kin}) {
    for (const Identity& key : keys) addition.keys.push_back(NameOf(key));
  }
  addition.texts.clear();
  for (const KeptBytes& kept : row.encoded.bytes) {
    const std::string name = NameOf(kept.id);
    const bool* const is_known = texts_.Find(waiting.tenant + name);
    const bool is_there = is_known != nullptr && *is_known && !encoding.sends_all_texts;
    addition.texts.push_back({.name = name, .bytes = *kept.bytes, .is_there = is_there});
  }
}

// Leaves the rows that the store does not have.
void SharedBranches::Add(std::vector<Row>& rows) {
  if (rows.empty()) return;
  const Result<std::vector<bool>> added = TryAdd(rows);
  std::vector<Row> failed;
  const auto has_failed = [&](const std::shared_ptr<Line>& line) {
    return std::any_of(failed.begin(), failed.end(),
                       [&](const Row& other) { return other.line == line; });
  };
  for (size_t i = 0; i < rows.size(); ++i) {
    Row& row = rows[i];
    // A row that stands on one which is not there is none.
    const bool was_added = added && (*added)[i] && !has_failed(row.line);
    for (const SharedRows::Text& text : row.addition.texts) {
      texts_.FindOrAdd(row.addition.tenant + text.name) = was_added;
    }
    if (was_added) {
      num_told_ += 1;
      continue;
    }
    {
      const std::lock_guard lock(mutex_);
      row.line->num_rows = 0;
    }
    failed.push_back(std::move(row));
  }
  rows = std::move(failed);
}

Result<std::vector<bool>> SharedBranches::TryAdd(std::span<Row> rows) {
  std::vector<SharedRows::Addition> additions;
  additions.reserve(rows.size());
  for (const Row& row : rows) additions.push_back(row.addition);
  return options_.shared.Add(additions, SteadyClock::now() + options_.tell_time_max);
}

// --- Asking

std::vector<BranchStore::Recalled> SharedBranches::Recall(const Asked& asked) {
  std::vector<Recalled> recalled;
  for (BranchLine& line : Ask(asked, true)) AddLine(std::move(line), asked.keys, recalled);
  for (Recalled& one : recalled) SortNewestFirst(one.branches);
  return recalled;
}

std::vector<std::shared_ptr<Branch>> SharedBranches::Peek(const Asked& asked) const {
  std::vector<std::shared_ptr<Branch>> all;
  for (BranchLine& line : Ask(asked, false)) {
    for (std::shared_ptr<Branch>& branch : line.branches) {
      branch->conversation = line.keys.front();
      all.push_back(std::move(branch));
    }
  }
  SortNewestFirst(all);
  return all;
}

std::vector<BranchLine> SharedBranches::Ask(const Asked& asked, bool counts) const {
  if (options_.shared.is_paused()) return {};
  Result<std::vector<BranchLine>> lines = TryAsk(asked);
  if (counts) {
    (!lines ? num_failed_ : lines->empty() ? num_unknown_ : num_found_) += 1;
  }
  return lines ? *std::move(lines) : std::vector<BranchLine>();
}

// Returns the names of lines whose last row is not known here, newest first.
Result<std::vector<std::string>> SharedBranches::FindNews(const Asked& asked,
                                                          SteadyClock::time_point deadline) const {
  std::vector<std::string> names;
  for (const Identity& key : asked.keys) names.push_back(NameOf(key));
  KVGATE_TRY(std::vector<SharedRows::Found> found,
             options_.shared.Find(asked.tenant, names, deadline));
  // A conversation that was found under one of its names has branches under its own only.
  std::vector<std::string> own;
  for (const SharedRows::Found& one : found) {
    const std::optional<About> about = Decode(one.about);
    if (!about) continue;
    std::string name = NameOf(about->conversation);
    const bool is_asked = std::ranges::count(names, name) > 0 || std::ranges::count(own, name) > 0;
    if (!is_asked) own.push_back(std::move(name));
  }
  if (!own.empty()) {
    KVGATE_TRY(std::vector<SharedRows::Found> more,
               options_.shared.Find(asked.tenant, own, deadline));
    std::move(more.begin(), more.end(), std::back_inserter(found));
  }
  std::vector<std::string> news;
  for (SharedRows::Found& one : found) {
    const std::optional<About> about = Decode(one.about);
    const bool is_news = about && std::ranges::count(asked.known, about->row_token) == 0 &&
                         std::ranges::count(news, one.list) == 0;
    if (is_news && news.size() < kReadMax) news.push_back(std::move(one.list));
  }
  return news;
}

// Lines that cannot be read whole are left out: the conversation goes on without them.
Result<std::vector<BranchLine>> SharedBranches::TryAsk(const Asked& asked) const {
  std::vector<BranchLine> lines;
  const auto deadline = SteadyClock::now() + options_.ask_time_max;
  KVGATE_TRY(const std::vector<std::string> news,
             FindNews(asked, deadline - options_.ask_time_max / 2));
  if (news.empty()) return lines;
  KVGATE_TRY(const std::vector<std::vector<std::string>> all,
             options_.shared.Read(asked.tenant, news, deadline));
  // Texts of all rows are asked for at once.
  std::vector<Identity> ids;
  for (const std::vector<std::string>& rows : all) {
    ReadBranch read;
    for (const std::string& row : rows) {
      if (!ReadBranchRow(row, read)) break;
    }
    ids.insert(ids.end(), read.bytes.begin(), read.bytes.end());
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  std::vector<std::string> names;
  for (const Identity& id : ids) names.push_back(NameOf(id));
  KVGATE_TRY(std::vector<std::optional<std::string>> texts,
             options_.shared.ReadTexts(asked.tenant, names, deadline));
  KeptTexts there;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (texts[i]) there[ids[i]] = std::make_shared<const std::string>(*std::move(texts[i]));
  }
  const auto fetch = [&](std::span<const Identity> wanted, KeptTexts& kept) -> Result<void> {
    for (const Identity& id : wanted) {
      const auto text = there.find(id);
      kept[id] = text == there.end() ? nullptr : text->second;
    }
    return {};
  };
  for (const std::vector<std::string>& rows : all) {
    Result<BranchLine> line = ReadBranchLine(rows, fetch);
    if (line && !line->keys.empty()) lines.push_back(*std::move(line));
  }
  return lines;
}

void SharedBranches::Collect(metrics::TextWriter& writer) const {
  constexpr std::string_view kAsked = "kvgate_shared_conversations_asked_total";
  writer.Family(kAsked, "counter",
                "Times that other gateways were asked what a conversation has sent, by result.");
  writer.Sample(kAsked, {{"result", "found"}}, num_found_.load());
  writer.Sample(kAsked, {{"result", "unknown"}}, num_unknown_.load());
  writer.Sample(kAsked, {{"result", "failed"}}, num_failed_.load());
  constexpr std::string_view kTold = "kvgate_shared_conversations_told_total";
  writer.Family(kTold, "counter",
                "Requests whose sent prompts other gateways were told, by result.");
  writer.Sample(kTold, {{"result", "ok"}}, num_told_.load());
  writer.Sample(kTold, {{"result", "failed"}}, num_untold_.load());
}

}  // namespace kvgate::service::branches
