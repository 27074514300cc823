#include "store/remote/cluster_router.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "store/remote/endpoint_router.h"

namespace kvgate::store::remote {
namespace {

using std::chrono::steady_clock;

// What a server says to CLUSTER SLOTS that is no node of a cluster, or not any more.
constexpr std::string_view kNoCluster = "cluster support disabled";

// The commands that go to one node in one round.
struct Group {
  Group(ConnectionPool& pool, const RespEndpoint& node, ClusterRouter::TimePoint deadline)
      : exchange(pool, node, deadline) {}

  Exchange exchange;
  std::vector<size_t> indices;  // of the call's commands
  // What is sent: the same commands, each with ASKING before it if the node was named by ASK.
  std::vector<RespCommand> sent = {};
  std::vector<bool> is_asking = {};  // for each of `sent`: it is such an ASKING
  bool is_connected = false;
};

// A command without a reply yet.
struct Open {
  size_t index = 0;
  std::optional<RespEndpoint> node = {};  // named by a redirect; else that of its key's slot
  bool is_asking = false;
};

// One call: rounds of exchanges with all the nodes, until every command has its reply.
class ClusterCall {
 public:
  ClusterCall(ClusterRouter& router, std::span<const RespCommand> commands, RespReplies replies,
              ClusterRouter::TimePoint deadline)
      : router_(router), commands_(commands), replies_(std::move(replies)), deadline_(deadline) {}

  void OpenAll() {
    for (size_t index = 0; index < commands_.size(); ++index) open_.push_back({.index = index});
  }
  // Opens the commands that the node has redirected.
  void OpenRedirected(const RespEndpoint& asked) {
    for (size_t index = 0; index < commands_.size(); ++index) Follow(index, asked);
  }

  Result<RespReplies> Run() {
    for (int num_redirects = 0; !open_.empty(); ++num_redirects) {
      if (num_redirects > ClusterRouter::kRedirectsMax) {
        return MakeError(ErrorCode::kUnavailable, "store.remote",
                         fmt::format("{}: the nodes of the cluster send a command to each other; "
                                     "it was followed {} times",
                                     last_redirect_.ToString(), ClusterRouter::kRedirectsMax));
      }
      KVGATE_TRY_VOID(RunRound());
    }
    return std::move(replies_);
  }

 private:
  Result<void> RunRound() {
    std::map<RespEndpoint, Group> groups = Divide();
    for (auto& [node, group] : groups) {
      auto connected = group.exchange.Connect(groups.size() - 1);
      group.is_connected = connected.has_value();
      if (!connected) {
        NodeFailed(group, std::move(connected).error());
      } else {
        group.exchange.Start(group.sent);
      }
    }
    for (auto& [node, group] : groups) {
      if (!group.is_connected) continue;
      Result<RespReplies> replies = group.exchange.Finish();
      if (!replies) {
        if (!group.exchange.may_ask_another()) return std::move(replies).error();
        NodeFailed(group, std::move(replies).error());
      } else if (const RespReply* const refusal = FindRefusal(*replies)) {
        NodeFailed(group, RefusalError(*refusal, node));
      } else {
        Take(group, *std::move(replies));
      }
    }
    return failed_.empty() ? Result<void>() : FindSuccessors();
  }

  // Takes the open commands and gives them to the nodes.
  std::map<RespEndpoint, Group> Divide() {
    const auto map = router_.map();
    std::map<RespEndpoint, Group> groups;
    for (const Open& open : std::exchange(open_, {})) {
      const RespEndpoint node = open.node ? *open.node : NodeOf(commands_[open.index], map.get());
      Group& group = groups.try_emplace(node, router_.pool(), node, deadline_).first->second;
      group.indices.push_back(open.index);
      if (open.is_asking) {
        group.sent.push_back({.words = {"ASKING"}});
        group.is_asking.push_back(true);
      }
      group.sent.push_back(commands_[open.index]);
      group.is_asking.push_back(false);
    }
    return groups;
  }

  // A node that holds no slot, or not this one, names the right one.
  RespEndpoint NodeOf(const RespCommand& command, const SlotMap* map) const {
    const RespEndpoint* found = nullptr;
    if (map != nullptr && !command.key.empty()) found = map->Find(HashSlot(command.key));
    if (found != nullptr) return *found;
    const std::vector<RespEndpoint>& nodes =
        map == nullptr || map->nodes().empty() ? router_.seeds() : map->nodes();
    const auto alive = std::ranges::find_if(
        nodes, [&](const RespEndpoint& node) { return !failed_before_.contains(node); });
    return alive == nodes.end() ? nodes.front() : *alive;
  }

  void Take(const Group& group, RespReplies replies) {
    auto index = group.indices.begin();
    for (size_t at = 0; at < replies.size(); ++at) {
      if (group.is_asking[at]) continue;
      replies_[*index] = std::move(replies[at]);
      Follow(*index++, group.exchange.endpoint());
    }
  }

  // Opens the command again if its reply names another node.
  void Follow(size_t index, const RespEndpoint& asked) {
    const auto redirect = ReadRedirect(replies_[index], asked);
    if (!redirect) return;
    if (!redirect->is_ask) router_.Move(*redirect);
    last_redirect_ = redirect->node;
    open_.push_back({.index = index, .node = redirect->node, .is_asking = redirect->is_ask});
  }

  void NodeFailed(const Group& group, Error error) {
    for (const size_t index : group.indices) open_.push_back({.index = index});
    failed_.emplace(group.exchange.endpoint(), std::move(error));
  }

  // Asks the other nodes who holds the slots of those that failed. Fails with the error of a node
  // that still holds them, and of one that has failed before.
  Result<void> FindSuccessors() {
    const std::map<RespEndpoint, Error> failed = std::exchange(failed_, {});
    for (const auto& [node, error] : failed) {
      if (error.code == ErrorCode::kDeadline || !failed_before_.emplace(node, error).second) {
        return error;
      }
    }
    std::vector<RespEndpoint> names;
    for (const auto& [node, error] : failed_before_) names.push_back(node);
    if (!router_.Refresh(names, deadline_)) return failed.begin()->second;
    const auto map = router_.map();
    for (const Open& open : open_) {
      const RespEndpoint node = open.node ? *open.node : NodeOf(commands_[open.index], map.get());
      const auto found = failed_before_.find(node);
      if (found != failed_before_.end()) return found->second;
    }
    return {};
  }

  ClusterRouter& router_;
  const std::span<const RespCommand> commands_;
  RespReplies replies_;
  const ClusterRouter::TimePoint deadline_;
  std::vector<Open> open_;
  RespEndpoint last_redirect_;
  std::map<RespEndpoint, Error> failed_;         // in this round
  std::map<RespEndpoint, Error> failed_before_;  // in this and former rounds
};

}  // namespace

Result<RespReplies> ClusterRouter::Call(std::span<const RespCommand> commands, TimePoint deadline) {
  is_active_ = true;
  KVGATE_TRY_VOID(Prepare(deadline));
  ClusterCall call(*this, commands, RespReplies(commands.size()), deadline);
  call.OpenAll();
  return call.Run();
}

Result<RespReplies> ClusterRouter::Follow(std::span<const RespCommand> commands,
                                          const RespEndpoint& asked, RespReplies replies,
                                          TimePoint deadline) {
  is_active_ = true;
  ClusterCall call(*this, commands, std::move(replies), deadline);
  call.OpenRedirected(asked);
  return call.Run();
}

std::shared_ptr<const SlotMap> ClusterRouter::map() const {
  const std::lock_guard lock(mutex_);
  return map_;
}

void ClusterRouter::Move(const SlotRedirect& moved) {
  const std::lock_guard lock(mutex_);
  has_changed_ = true;
  // Without a map the next call reads it, from the nodes that the URL names.
  if (map_ == nullptr) return;
  const RespEndpoint* const known = map_->Find(moved.slot);
  if (known != nullptr && *known == moved.node) return;
  auto changed = std::make_shared<SlotMap>(*map_);
  changed->Assign(moved.slot, moved.node);
  map_ = std::move(changed);
}

Result<void> ClusterRouter::Prepare(TimePoint deadline) {
  const TimePoint now = steady_clock::now();
  {
    const std::lock_guard lock(mutex_);
    const bool is_known = map_ != nullptr;
    if (is_known && (!has_changed_ || now < refreshed_ + kRefreshPause)) return {};
    has_changed_ = false;
    refreshed_ = now;
    // What is known serves as well, with redirects.
    if (is_known) deadline = now + (deadline - now) / 2;
  }
  Result<void> read = Refresh({}, deadline);
  return map() == nullptr ? read : Result<void>();
}

void ClusterRouter::Leave() {
  const std::lock_guard lock(mutex_);
  map_ = nullptr;
  is_active_ = false;
}

Result<void> ClusterRouter::Refresh(std::span<const RespEndpoint> failed, TimePoint deadline) {
  std::vector<RespEndpoint> nodes;
  if (const auto known = map()) nodes = known->nodes();
  for (const RespEndpoint& seed : seeds_) {
    if (std::ranges::find(nodes, seed) == nodes.end()) nodes.push_back(seed);
  }
  std::ranges::stable_partition(nodes, [&](const RespEndpoint& node) {
    return std::ranges::find(failed, node) == failed.end();
  });
  const RespCommand command{.words = {"CLUSTER", "SLOTS"}};
  std::optional<Error> last;
  for (size_t at = 0; at < nodes.size(); ++at) {
    if (at > 0 && steady_clock::now() >= deadline) break;
    Exchange exchange(pool_, nodes[at], deadline);
    if (auto connected = exchange.Connect(nodes.size() - 1 - at); !connected) {
      last = std::move(connected).error();
      continue;
    }
    exchange.Start(std::span(&command, 1));
    const Result<RespReplies> replies = exchange.Finish();
    auto read =
        replies ? SlotMap::Parse(replies->front(), nodes[at]) : Result<SlotMap>(replies.error());
    if (!read) {
      last = std::move(read).error();
      if (last->detail.find(kNoCluster) != std::string::npos) {
        Leave();
        break;
      }
      continue;
    }
    auto fresh = std::make_shared<const SlotMap>(*std::move(read));
    const std::lock_guard lock(mutex_);
    map_ = std::move(fresh);
    return {};
  }
  return *std::move(last);
}

}  // namespace kvgate::store::remote
