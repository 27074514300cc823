// TellingLog writes down what the accounts of forwarded requests are told, one line each.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gateway/upstream/exchange_observer.h"

namespace kvgate::test {

class TellingLog final : public upstream::ExchangeLog {
 public:
  class Observer final : public upstream::ExchangeObserver {
   public:
    Observer(TellingLog& log, std::string text) : log_(log), text_(std::move(text)) {}
    void OnPrepared(std::shared_ptr<upstream::ExchangePreparation>) override { Tell(" edited"); }
    void OnTranslated(dialect::form::Endpoint to, const std::vector<std::string>& out) override {
      Tell(fmt::format(" to {} without {}", static_cast<int>(to), out.size()));
    }
    void OnSent(std::string_view received, std::string_view sent) override {
      Tell(fmt::format(" sent {} of {}", sent.size(), received.size()));
    }
    void OnHead(const upstream::ExchangeHead& head) override {
      Tell(fmt::format(" head {} {}", head.status, head.upstream_request_id));
    }
    void OnBody(std::string_view piece) override {
      body_ += piece;
      log_.Note(body_);
    }
    std::string Explain(const upstream::ExchangeEnd&) override { return R"({"explained":true})"; }
    upstream::ExchangeTotals OnEnd(const upstream::ExchangeEnd& end) override {
      log_.Add(
          fmt::format("{} body {} end {} {} {} {} {}", text_, body_, static_cast<int>(end.outcome),
                      end.status, end.body_bytes, end.error, end.superseded),
          end);
      return {};
    }

   private:
    void Tell(std::string_view what) {
      const std::lock_guard lock(mutex_);
      text_ += what;
    }

    std::mutex mutex_;  // a large body is told of by a worker
    TellingLog& log_;
    std::string text_;
    std::string body_;
  };

  std::unique_ptr<upstream::ExchangeObserver> Begin(const upstream::ExchangeStart& start) override {
    Note("");
    return std::make_unique<Observer>(
        *this, fmt::format("{} {} for {} by {} stream {} ({} fields)", start.method, start.path,
                           start.model, start.upstream, start.stream, start.fields->size()));
  }
  upstream::Spending Spent(std::string_view) const override { return spending; }

  upstream::Spending spending = {};  // of every key
  std::vector<std::string> Take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(told_, {});
  }
  upstream::ExchangeEnd last_end() const {
    const std::lock_guard lock(mutex_);
    return last_end_;
  }
  // True if the account of the newest request was told of this word in an answer.
  bool HasHeard(std::string_view word) const {
    const std::lock_guard lock(mutex_);
    return heard_.find(word) != std::string::npos;
  }

 private:
  void Note(std::string body) {
    const std::lock_guard lock(mutex_);
    heard_ = std::move(body);
  }
  void Add(std::string text, const upstream::ExchangeEnd& end) {
    const std::lock_guard lock(mutex_);
    last_end_ = end;
    told_.push_back(std::move(text));
  }
  mutable std::mutex mutex_;
  std::vector<std::string> told_;
  upstream::ExchangeEnd last_end_;
  std::string heard_;  // of the newest request's answer
};

}  // namespace kvgate::test
