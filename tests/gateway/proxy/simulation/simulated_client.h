// SimulatedClient is who a simulated request is answered to. It reads slowly, leaves or is given up
// when the simulation says so, keeps what it got, and checks that it is answered once.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gateway/proxy/request/response_sink.h"
#include "tests/gateway/proxy/simulation/simulated_time.h"

namespace kvgate::test {

class SimulatedClient final : public proxy::request::ResponseSink {
 public:
  using Duration = SimulatedTime::Duration;
  struct Manners {
    Duration tick{250'000};
    Duration reading{0};                   // each piece takes this long
    std::optional<size_t> leaves_at = {};  // the piece at which it leaves
  };
  SimulatedClient(SimulatedTime& time, Manners manners)
      : ResponseSink(time.io().get_executor()),
        time_(time),
        manners_(manners),
        alive_(std::make_shared<bool>(true)),
        pause_(time.io()) {}

  int status = 0;
  std::string body;
  std::vector<std::pair<std::string, std::string>> fields;
  bool is_whole = false;     // it came as one response of the gateway's own
  bool is_events = false;    // it came as events of the gateway's own
  bool is_complete = false;  // it came to its end
  bool is_cut = false;
  Duration reading_time{0};
  std::optional<SimulatedTime::Time> answered_at;  // the first byte
  std::optional<SimulatedTime::Time> gone_at;
  std::optional<SimulatedTime::Time> told_to_end_at;

  bool has_answer() const { return answered_at.has_value(); }
  bool is_served = false;  // no call may follow

  void Leave() {
    if (is_served || is_gone()) return;
    gone_at = time_.now();
    pause_.cancel();
    SetLeft();
  }
  // The server gives the request up.
  void Cancel() {
    if (is_served || is_gone()) return;
    gone_at = time_.now();
    pause_.cancel();
    SetCancelled();
  }
  // The server wants to end.
  void End() {
    if (is_served || told_to_end_at) return;
    told_to_end_at = time_.now();
    SetToEnd();
  }

  upstream::wire::Task<bool> Send(proxy::request::Response response,
                                  proxy::request::ReplyInfo) override {
    ExpectOpen();
    if (is_gone()) co_return false;
    answered_at = time_.now();
    is_whole = is_complete = true;
    status = response.status;
    body = std::move(response.body);
    fields = std::move(response.headers);
    co_return true;
  }
  void Begin(const proxy::request::AnswerHead& head) override {
    ExpectOpen();
    EXPECT_FALSE(has_begun_) << "an answer began twice";
    has_begun_ = true;
    is_events = head.kind == proxy::request::AnswerHead::Kind::kEvents;
    status = head.status;
    if (head.fields == nullptr) return;
    for (const auto& field : *head.fields) fields.emplace_back(field.name, field.value);
  }
  upstream::wire::Task<bool> Write(std::string_view piece, bool is_last) override {
    EXPECT_TRUE(has_begun_ && !is_complete && !is_cut && !is_served);
    if (!is_gone() && manners_.leaves_at == num_pieces_) Leave();
    if (is_gone()) co_return false;
    if (manners_.reading > Duration(0)) {
      reading_time += manners_.reading;
      co_await time_.Sleep(pause_, manners_.reading);
      if (is_gone()) co_return false;
    }
    if (!answered_at) answered_at = time_.now();
    body += piece;
    ++num_pieces_;
    is_complete = is_last;
    co_return true;
  }
  void Cut() override {
    EXPECT_TRUE(has_begun_ && !is_complete && !is_cut && !is_served);
    is_cut = true;
  }

 private:
  void ExpectOpen() const {
    EXPECT_FALSE(is_complete || is_cut || is_served || has_begun_) << "it was answered already";
  }
  void OnWatch() override {
    if (std::exchange(is_ticking_, true)) return;
    time_.After(manners_.tick, [this, weak = std::weak_ptr(alive_)] {
      if (weak.expired()) return;
      is_ticking_ = false;
      if (is_watched()) TellTick(time_.now());
      if (is_watched()) OnWatch();
    });
  }

  SimulatedTime& time_;
  const Manners manners_;
  const std::shared_ptr<bool> alive_;
  upstream::wire::Timer pause_;
  bool is_ticking_ = false;
  bool has_begun_ = false;
  size_t num_pieces_ = 0;
};

}  // namespace kvgate::test
