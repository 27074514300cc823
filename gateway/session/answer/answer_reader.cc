#include "gateway/session/answer/answer_reader.h"

namespace kvgate::session::answer {

std::unique_ptr<AnswerReader> MakeAnswerReader(Dialect dialect) {
  if (dialect == Dialect::kMessages) return MakeMessagesReader();
  return dialect == Dialect::kResponses ? MakeResponsesReader() : MakeChatReader();
}

}  // namespace kvgate::session::answer
