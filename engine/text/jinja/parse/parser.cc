#include "engine/text/jinja/parse/parser.h"

#include <algorithm>
#include <set>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "engine/text/jinja/parse/lexer.h"
#include "engine/text/jinja/parse/parser_state.h"

namespace kvgate::jinja::parse {

using syntax::Body;
using syntax::ExprPtr;
using syntax::StatementKind;
using syntax::StatementPtr;
using syntax::Symbol;
using syntax::TokenKind;

namespace {

using Ends = std::initializer_list<std::string_view>;

class Parser final : public ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;

  bool ParseTemplate(Body& body) {
    if (!ParseBody({}, body)) return false;
    if (unknown_.empty()) return true;
    return FailAt(unknown_.front().first, unknown_.front().second);
  }

 private:
  // Sets parser flags for nested statements and restores them when it ends.
  class Inside {
   public:
    Inside(Parser& parser, bool soft, bool may_jump)
        : parser_(parser), soft_(parser.soft_), may_jump_(parser.may_jump_) {
      parser.soft_ = soft;
      parser.may_jump_ = may_jump;
    }
    ~Inside() {
      parser_.soft_ = soft_;
      parser_.may_jump_ = may_jump_;
    }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

   private:
    Parser& parser_;
    bool soft_;
    bool may_jump_;
  };

  // Parses up to a tag in `ends`, whose name is then the current token. If `ends` is empty, parses
  // the whole template.
  bool ParseBody(Ends ends, Body& body);
  // Parses the rest of the opening tag, the body, and the name of the closing tag.
  bool ParseBlock(Ends ends, Body& body);
  // The same with a single end tag, whose name is skipped, and a scope of its own.
  bool ParseScoped(std::string_view end, Body& body, bool may_jump);
  bool EndsHere(Ends ends) const;
  bool FailAtEnd(Ends ends);
  bool UnknownTag(const std::string& name);

  StatementPtr ParseStatement();
  StatementPtr ParseFor(size_t at);
  StatementPtr ParseIf(size_t at);
  StatementPtr ParseSet(size_t at);
  StatementPtr ParseMacro(size_t at);
  StatementPtr ParseCallBlock(size_t at);
  StatementPtr ParseFilterBlock(size_t at);
  StatementPtr ParseWith(size_t at);
  StatementPtr ParseGeneration(size_t at);
  StatementPtr ParseNamedBlock(size_t at);
  StatementPtr ParseAutoescape(size_t at);
  StatementPtr ParseJump(size_t at, StatementKind kind);
  bool ParsePrintTag(Body& body);
  bool ParseSignature(syntax::MacroDefinition& macro);
  bool ParseLoopBodies(syntax::ForStatement& loop);

  bool may_jump_ = false;  // an enclosing loop can take break and continue
  std::unordered_set<std::string> block_names_;
};

bool Parser::EndsHere(Ends ends) const {
  return std::any_of(ends.begin(), ends.end(), [&](std::string_view end) { return IsName(end); });
}

bool Parser::FailAtEnd(Ends ends) {
  return Fail(
      fmt::format("Unexpected end of template. Jinja was looking for the following tags: "
                  "'{}'.",
                  fmt::join(ends, "' or '")));
}

bool Parser::UnknownTag(const std::string& name) {
  constexpr std::string_view kUnsupported[] = {"extends", "include", "import", "from"};
  if (std::find(std::begin(kUnsupported), std::end(kUnsupported), name) != std::end(kUnsupported)) {
    return Fail(fmt::format("the tag '{}' is not supported: a chat template is one file", name));
  }
  return Fail(fmt::format("Encountered unknown tag '{}'.", name));
}

bool Parser::ParseBody(Ends ends, Body& body) {
  const Nesting nesting(*this);
  if (!nesting.ok()) return false;
  while (!Is(TokenKind::kEnd)) {
    const size_t at = offset();
    if (Is(TokenKind::kData)) {
      const value::String* text = Literal(current().text).string;
      body.statements.push_back(std::make_unique<syntax::TextStatement>(at, text));
      Skip();
    } else if (SkipIf(TokenKind::kPrintBegin)) {
      ExprPtr value = ParseTuple(true, {}, false);
      if (value == nullptr || !Expect(TokenKind::kPrintEnd)) return false;
      body.statements.push_back(std::make_unique<syntax::PrintStatement>(at, std::move(value)));
    } else {
      Skip();
      if (EndsHere(ends)) return true;
      if (IsName("print")) {
        if (!ParsePrintTag(body)) return false;
      } else {
        StatementPtr statement = ParseStatement();
        if (statement == nullptr) return false;
        body.statements.push_back(std::move(statement));
      }
      if (!Expect(TokenKind::kBlockEnd)) return false;
    }
  }
  return ends.size() == 0 || FailAtEnd(ends);
}

bool Parser::ParseBlock(Ends ends, Body& body) {
  SkipIf(TokenKind::kColon);
  return Expect(TokenKind::kBlockEnd) && ParseBody(ends, body);
}

bool Parser::ParseScoped(std::string_view end, Body& body, bool may_jump) {
  const Inside inside(*this, false, may_jump);
  if (!ParseBlock({end}, body)) return false;
  Skip();
  return true;
}

StatementPtr Parser::ParseStatement() {
  const size_t at = offset();
  if (!Is(TokenKind::kName)) {
    Fail("tag name expected");
    return nullptr;
  }
  const std::string name = current().text;
  constexpr std::pair<std::string_view, StatementPtr (Parser::*)(size_t)> kTags[] = {
      {"for", &Parser::ParseFor},          {"if", &Parser::ParseIf},
      {"set", &Parser::ParseSet},          {"macro", &Parser::ParseMacro},
      {"call", &Parser::ParseCallBlock},   {"filter", &Parser::ParseFilterBlock},
      {"with", &Parser::ParseWith},        {"generation", &Parser::ParseGeneration},
      {"block", &Parser::ParseNamedBlock}, {"autoescape", &Parser::ParseAutoescape}};
  for (const auto& [tag, parse] : kTags) {
    if (tag != name) continue;
    Skip();
    return (this->*parse)(at);
  }
  if (name == "break") return ParseJump(at, StatementKind::kBreak);
  if (name == "continue") return ParseJump(at, StatementKind::kContinue);
  UnknownTag(name);
  return nullptr;
}

bool Parser::ParsePrintTag(Body& body) {
  Skip();
  for (bool first = true; !Is(TokenKind::kBlockEnd); first = false) {
    if (!first && !Expect(TokenKind::kComma)) return false;
    const size_t at = offset();
    ExprPtr value = ParseExpression();
    if (value == nullptr) return false;
    body.statements.push_back(std::make_unique<syntax::PrintStatement>(at, std::move(value)));
  }
  return true;
}

StatementPtr Parser::ParseJump(size_t at, StatementKind kind) {
  if (!may_jump_) {
    Fail(fmt::format("'{}' outside loop", current().text));
    return nullptr;
  }
  Skip();
  return std::make_unique<syntax::JumpStatement>(kind, at);
}

bool Parser::ParseLoopBodies(syntax::ForStatement& loop) {
  {
    const Inside inside(*this, false, true);
    if (!ParseBlock({"endfor", "else"}, loop.body)) return false;
  }
  if (SkipIfName("endfor")) return true;
  Skip();
  return ParseScoped("endfor", loop.otherwise, may_jump_);
}

StatementPtr Parser::ParseFor(size_t at) {
  auto loop = std::make_unique<syntax::ForStatement>(at);
  ++num_loops_;
  bool ok = ParseTarget(false, "in", loop->target) && ExpectName("in");
  if (ok) {
    --num_loops_;
    loop->iterable = ParseTuple(false, "recursive", false);
    ++num_loops_;
    ok = loop->iterable != nullptr;
  }
  if (ok && SkipIfName("if")) {
    const Inside inside(*this, false, may_jump_);
    loop->test = ParseExpression();
    ok = loop->test != nullptr;
  }
  loop->recursive = ok && SkipIfName("recursive");
  if (ok && !ParseLoopBodies(*loop)) ok = false;
  --num_loops_;
  return ok ? std::move(loop) : nullptr;
}

StatementPtr Parser::ParseIf(size_t at) {
  auto statement = std::make_unique<syntax::IfStatement>(at);
  const Inside inside(*this, true, may_jump_);
  do {
    auto& [test, body] = statement->branches.emplace_back();
    test = ParseTuple(false, {}, false);
    if (test == nullptr || !ParseBlock({"elif", "else", "endif"}, body)) return nullptr;
  } while (SkipIfName("elif"));
  if (SkipIfName("endif")) return statement;
  Skip();
  if (!ParseBlock({"endif"}, statement->otherwise)) return nullptr;
  Skip();
  return statement;
}

StatementPtr Parser::ParseSet(size_t at) {
  syntax::Target target;
  if (!ParseTarget(true, {}, target)) return nullptr;
  if (SkipIf(TokenKind::kAssign)) {
    auto statement = std::make_unique<syntax::SetStatement>(at);
    statement->target = std::move(target);
    statement->value = ParseTuple(true, {}, false);
    return statement->value == nullptr ? nullptr : std::move(statement);
  }
  auto statement = std::make_unique<syntax::SetBlockStatement>(at);
  statement->target = std::move(target);
  if (Is(TokenKind::kPipe)) {
    const Inside inside(*this, false, may_jump_);
    statement->filter = ParseFilters(nullptr, false);
    if (statement->filter == nullptr) return nullptr;
  }
  return ParseScoped("endset", statement->body, may_jump_) ? std::move(statement) : nullptr;
}

bool Parser::ParseSignature(syntax::MacroDefinition& macro) {
  if (!Expect(TokenKind::kLeftParenthesis)) return false;
  std::set<Symbol> known;
  while (!Is(TokenKind::kRightParenthesis)) {
    if (!macro.parameters.empty() && !Expect(TokenKind::kComma)) return false;
    if (!Is(TokenKind::kName)) return Expect(TokenKind::kName);
    const std::string name = current().text;
    const Symbol symbol = symbols_.Add(name);
    if (!known.insert(symbol).second) {
      return Fail(fmt::format("duplicate argument '{}' in function definition", name));
    }
    Skip();
    if (SkipIf(TokenKind::kAssign)) {
      macro.defaults.push_back(ParseExpression());
      if (macro.defaults.back() == nullptr) return false;
    } else if (!macro.defaults.empty()) {
      return Fail("non-default argument follows default argument");
    }
    macro.parameters.push_back(symbol);
    macro.parameter_names.push_back(symbols_.NameOf(symbol));
  }
  Skip();
  return true;
}

StatementPtr Parser::ParseMacro(size_t at) {
  auto statement = std::make_unique<syntax::MacroStatement>(at);
  if (!Is(TokenKind::kName)) {
    Expect(TokenKind::kName);
    return nullptr;
  }
  statement->name = symbols_.Add(current().text);
  statement->macro.name = symbols_.NameOf(statement->name);
  Skip();
  const Inside inside(*this, false, false);
  if (!ParseSignature(statement->macro)) return nullptr;
  return ParseScoped("endmacro", statement->macro.body, false) ? std::move(statement) : nullptr;
}

StatementPtr Parser::ParseCallBlock(size_t at) {
  auto statement = std::make_unique<syntax::CallBlockStatement>(at);
  if (Is(TokenKind::kLeftParenthesis)) {
    const Inside inside(*this, false, false);
    if (!ParseSignature(statement->caller)) return nullptr;
  }
  ExprPtr call = ParseExpression();
  if (call == nullptr) return nullptr;
  if (call->kind != syntax::ExprKind::kCall) {
    FailAt(at, "expected call");
    return nullptr;
  }
  statement->call.reset(static_cast<syntax::CallExpr*>(call.release()));
  return ParseScoped("endcall", statement->caller.body, false) ? std::move(statement) : nullptr;
}

StatementPtr Parser::ParseFilterBlock(size_t at) {
  auto statement = std::make_unique<syntax::FilterBlockStatement>(at);
  const Inside inside(*this, false, may_jump_);
  statement->filter = ParseFilters(nullptr, true);
  if (statement->filter == nullptr) return nullptr;
  return ParseScoped("endfilter", statement->body, may_jump_) ? std::move(statement) : nullptr;
}

StatementPtr Parser::ParseWith(size_t at) {
  auto statement = std::make_unique<syntax::WithStatement>(at);
  while (!Is(TokenKind::kBlockEnd)) {
    if (!statement->values.empty() && !Expect(TokenKind::kComma)) return nullptr;
    auto& [target, value] = statement->values.emplace_back();
    // Targets are single names; a comma starts the next pair.
    target.offset = static_cast<uint32_t>(offset());
    if (Is(TokenKind::kName)) {
      target.name = symbols_.Add(current().text);
      Skip();
    } else {
      Expect(TokenKind::kName);
      return nullptr;
    }
    if (!Expect(TokenKind::kAssign)) return nullptr;
    value = ParseExpression();
    if (value == nullptr) return nullptr;
  }
  return ParseScoped("endwith", statement->body, may_jump_) ? std::move(statement) : nullptr;
}

StatementPtr Parser::ParseGeneration(size_t at) {
  auto statement = std::make_unique<syntax::ScopeStatement>(at);
  return ParseScoped("endgeneration", statement->body, false) ? std::move(statement) : nullptr;
}

StatementPtr Parser::ParseNamedBlock(size_t at) {
  auto statement = std::make_unique<syntax::ScopeStatement>(at);
  const std::string name = current().text;
  if (!Expect(TokenKind::kName)) return nullptr;
  if (!block_names_.insert(name).second) {
    FailAt(at, fmt::format("block '{}' defined twice", name));
    return nullptr;
  }
  statement->sees_outer = SkipIfName("scoped");
  if (IsName("required")) {
    Fail("a required block is not supported: a chat template is one file");
    return nullptr;
  }
  if (!ParseScoped("endblock", statement->body, false)) return nullptr;
  SkipIfName(name);
  return statement;
}

StatementPtr Parser::ParseAutoescape(size_t at) {
  auto statement = std::make_unique<syntax::ScopeStatement>(at);
  const ExprPtr on = ParseExpression();
  if (on == nullptr) return nullptr;
  const bool off = on->kind == syntax::ExprKind::kLiteral &&
                   !value::IsTrue(static_cast<syntax::LiteralExpr&>(*on).value);
  if (!off) {
    FailAt(on->offset, "autoescape can only be false here: chat templates write plain text");
    return nullptr;
  }
  return ParseScoped("endautoescape", statement->body, may_jump_) ? std::move(statement) : nullptr;
}

}  // namespace

Symbol SymbolTable::Add(std::string_view name) {
  const auto [found, is_new] =
      symbols_.try_emplace(std::string(name), static_cast<Symbol>(names_.size()));
  if (is_new) names_.push_back(found->first);
  return found->second;
}

Symbol SymbolTable::Find(std::string_view name) const {
  const auto found = symbols_.find(std::string(name));
  return found == symbols_.end() ? static_cast<Symbol>(names_.size()) : found->second;
}

syntax::Outcome<ParsedTemplate> Parse(std::string_view source, value::Heap& heap) {
  auto tokens = Tokenize(source);
  if (!tokens) return tl::unexpected(std::move(tokens).error());
  ParsedTemplate parsed;
  Parser parser(source, heap, parsed.symbols, std::move(*tokens));
  if (!parser.ParseTemplate(parsed.body)) return tl::unexpected(std::move(parser.failure()));
  AnalyzeScopes(parsed.body, parsed.symbols);
  return parsed;
}

}  // namespace kvgate::jinja::parse
