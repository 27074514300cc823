// Session: a conversation that the gateway keeps under a key, over requests and restarts, with its
// prompt bounded. Only what is new is sent.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <kvgate/client.h>

namespace kvgate {
inline namespace v1 {

// A conversation that is kept under a key. It may be used by several threads; of two turns at once
// the second is refused with kConflict, or waits where "x-kvgate-session-wait" says so.
class Session {
 public:
  // `base` is what all requests have in common: the model, tools, limits, a system message.
  Session(Client client, std::string key, ChatRequest base = {})
      : client_(std::move(client)), key_(std::move(key)), base_(std::move(base)) {
    base_.options.headers.emplace_back("x-kvgate-session", key_);
  }

  // The name that it is kept under.
  const std::string& key() const { return key_; }
  // What later requests have in common. Not while another thread uses the session.
  ChatRequest& base() { return base_; }

  // Says something, and begins the answer.
  Stream Say(std::string text) const { return Add({Message::User(std::move(text))}); }
  // Goes on with other turns, such as the results of tools.
  Stream Add(std::vector<Message> turns) const {
    ChatRequest request = base_;
    for (Message& turn : turns) request.messages.push_back(std::move(turn));
    return client_.Chat(request);
  }

  // The same conversation under another key, which goes on by itself.
  Result<Session> Fork(std::string key) const {
    const Result<Answer> forked = Post("/fork", R"({"key":)" + Quote(key) + "}");
    if (!forked) return forked.error();
    ChatRequest base = base_;
    base.options.headers.pop_back();
    return Session(client_, std::move(key), std::move(base));
  }
  // What is kept: /turns is how many there are; the newest stand in it.
  Result<Json> History() const { return ToJsonResult(client_.Call("GET", Path())); }
  // Folds the oldest rounds into a summary now.
  Result<Json> Compact() const { return ToJsonResult(Post("/compact", "{}")); }
  // The newest compaction no longer counts.
  Result<Json> Undo() const { return ToJsonResult(Post("/undo", "{}")); }
  // The whole log as JSON lines.
  Result<std::string> Export() const {
    Result<Answer> exported = client_.Call("GET", Path() + "/export");
    if (!exported) return exported.error();
    return std::move(exported->body);
  }
  // Removes it, with the KV that nothing else shares.
  Result<void> Remove() const {
    const Result<Answer> removed = client_.Call("DELETE", Path());
    return removed ? Result<void>() : Result<void>(removed.error());
  }

 private:
  static Result<Json> ToJsonResult(Result<Answer> answer) {
    if (!answer) return answer.error();
    return Json(std::move(answer->body));
  }
  Result<Answer> Post(const char* action, std::string_view body) const {
    return client_.Call("POST", Path() + action, body);
  }
  std::string Path() const {
    static constexpr char kHex[] = "0123456789ABCDEF";
    std::string path = "/kvgate/v1/sessions/";
    for (const char c : key_) {
      const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                            (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
      if (is_plain) {
        path += c;
      } else {
        const auto byte = static_cast<unsigned char>(c);
        ((path += '%') += kHex[byte >> 4]) += kHex[byte & 15];
      }
    }
    return path;
  }

  Client client_;
  std::string key_;
  ChatRequest base_;
};

inline Session Client::Session(std::string key, ChatRequest base) const {
  return kvgate::Session(*this, std::move(key), std::move(base));
}

}  // namespace v1
}  // namespace kvgate
