// Toolbox: tools that are functions of this program.
#pragma once

#include <exception>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <kvgate/chat.h>

namespace kvgate {
inline namespace v1 {

// Tools with the functions behind them, for Client::Run.
class Toolbox {
 public:
  // Gets the arguments that the model wrote, and returns what the model is told.
  using Function = std::function<Result<std::string>(const Json& arguments)>;

  // The function is called on the thread of Client::Run; what it throws goes to the model too.
  void Add(Tool tool, Function function) {
    tools_.push_back(std::move(tool));
    functions_.push_back(std::move(function));
  }
  // What the model is shown.
  const std::vector<Tool>& tools() const { return tools_; }

  // What the model is told: the tool's result, or why there is none.
  std::string Call(const ToolCall& call) const {
    for (size_t i = 0; i < tools_.size(); ++i) {
      if (tools_[i].name != call.name) continue;
      try {
        const Result<std::string> result = functions_[i](Json(call.arguments));
        return result ? *result : "error: " + result.error().message;
      } catch (const std::exception& failure) {
        return std::string("error: ") + failure.what();
      }
    }
    return "error: there is no tool " + call.name;
  }

 private:
  std::vector<Tool> tools_;
  std::vector<Function> functions_;
};

}  // namespace v1
}  // namespace kvgate
