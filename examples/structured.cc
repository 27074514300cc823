// Structured output: the answer is JSON of a schema, whatever the model would rather say.
//
//   structured [MODEL.gguf | http://SERVER] [DATA_DIR]
#include <iostream>
#include <string>

#include "example.h"

namespace {

struct Ticket {
  std::string severity;
  std::string component;
  int64_t num_users = 0;
  bool needs_restart = false;
};

// Tokens that would break it are masked while the answer is decoded.
constexpr char kSchema[] = R"({
  "type": "object",
  "properties": {
    "severity": {"enum": ["low", "high", "critical"]},
    "component": {"type": "string", "minLength": 3, "maxLength": 12, "pattern": "^[a-z]+$"},
    "num_users": {"type": "integer", "minimum": 0, "maximum": 9999},
    "needs_restart": {"type": "boolean"}
  },
  "required": ["severity", "component", "num_users", "needs_restart"],
  "additionalProperties": false
})";

kvgate::Result<Ticket> ReadTicket(const kvgate::Client& client, const std::string& report) {
  const kvgate::ChatRequest request{
      .messages = {kvgate::Message::System("You file reports of faults as tickets."),
                   kvgate::Message::User(report)},
      .max_tokens = 200,
      .temperature = 0,
      .json_schema = kSchema};
  kvgate::Result<kvgate::Reply> reply = client.Chat(request).Collect();
  if (!reply) return reply.error();
  // An answer that was cut is no whole object.
  if (reply->finish_reason != "stop") {
    return kvgate::Error{.message = "the answer ended with " + reply->finish_reason};
  }
  const kvgate::Json json(reply->text);
  return Ticket{.severity = json.String("/severity"),
                .component = json.String("/component"),
                .num_users = json.Int("/num_users"),
                .needs_restart = json.Bool("/needs_restart")};
}

}  // namespace

int main(int argc, char** argv) {
  kvgate::Result<kvgate::Client> client = OpenClient(argc, argv);
  if (!client) return Fail(client.error());

  for (const char* report : {"The login page is blank for everybody since noon.",
                             "The export button has the wrong colour."}) {
    const kvgate::Result<Ticket> ticket = ReadTicket(*client, report);
    if (!ticket) return Fail(ticket.error());
    std::cout << report << "\n  severity " << ticket->severity << ", component "
              << ticket->component << ", " << ticket->num_users << " users, restart "
              << (ticket->needs_restart ? "yes" : "no") << "\n";
  }

  // A schema that no grammar can be made of is refused, with the field that is wrong.
  kvgate::ChatRequest wrong{.messages = {kvgate::Message::User("Hi")},
                            .json_schema = R"({"type":"colour"})"};
  const kvgate::Result<kvgate::Reply> refused = client->Chat(wrong).Collect();
  if (refused) return Fail({.message = "a wrong schema was taken"});
  std::cout << "a wrong schema: " << refused.error().ToString() << "\n";
  return 0;
}
