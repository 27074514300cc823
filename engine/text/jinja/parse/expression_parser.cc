#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "engine/text/jinja/parse/lexer.h"
#include "engine/text/jinja/parse/parser_state.h"
#include "engine/text/jinja/runtime/function.h"

namespace kvgate::jinja::parse {

using syntax::BinaryOperator;
using syntax::CallArguments;
using syntax::CompareOperator;
using syntax::Expr;
using syntax::ExprKind;
using syntax::ExprPtr;
using syntax::LiteralExpr;
using syntax::SequenceExpr;
using syntax::Target;
using syntax::TokenKind;

// --- tokens -----------------------------------------------------------------------------------

bool ExpressionParser::SkipIf(TokenKind kind) {
  if (!Is(kind)) return false;
  Skip();
  return true;
}

bool ExpressionParser::SkipIfName(std::string_view name) {
  if (!IsName(name)) return false;
  Skip();
  return true;
}

bool ExpressionParser::Expect(TokenKind kind) {
  if (SkipIf(kind)) return true;
  return Fail(fmt::format("expected {}, got {}", TokenKindName(kind), Describe(current())));
}

bool ExpressionParser::ExpectName(std::string_view name) {
  if (SkipIfName(name)) return true;
  return Fail(fmt::format("expected '{}', got {}", name, Describe(current())));
}

bool ExpressionParser::FailAt(size_t offset, std::string message) {
  if (!failed_) {
    failed_ = true;
    failure_ = MakeFailure(syntax::Failure::Kind::kSyntax, source_, offset, std::move(message));
  }
  return false;
}

std::string ExpressionParser::Describe(const syntax::Token& token) const {
  if (token.kind == TokenKind::kName) return fmt::format("'{}'", token.text);
  return std::string(TokenKindName(token.kind));
}

// --- nodes ------------------------------------------------------------------------------------

value::Value ExpressionParser::Literal(std::string_view text) {
  const value::Value value = value::MakeString(heap_, text);
  if (text.empty()) return value;
  // Counts and seals the literal at parse time, because many threads read it later.
  (void)value.string->length();
  const_cast<value::TextBuffer*>(value.string->buffer)->capacity = 0;
  return value;
}

ExprPtr ExpressionParser::FinishAll(std::unique_ptr<Expr> node, int deepest) {
  node->depth = deepest + 1;
  if (node->depth > syntax::kExpressionDepthMax) {
    FailAt(node->offset, "the expression has too many operands or nested parts");
    return nullptr;
  }
  return node;
}

ExprPtr ExpressionParser::Finish(std::unique_ptr<Expr> node,
                                 std::initializer_list<const Expr*> parts) {
  int deepest = 0;
  for (const Expr* part : parts) {
    if (part != nullptr) deepest = std::max(deepest, part->depth);
  }
  return FinishAll(std::move(node), deepest);
}

ExprPtr ExpressionParser::MakeBinary(ExprKind kind, BinaryOperator op, size_t at, ExprPtr left,
                                     ExprPtr right) {
  auto node = std::make_unique<syntax::BinaryExpr>(kind, at);
  node->op = op;
  node->left = std::move(left);
  node->right = std::move(right);
  const Expr* parts[] = {node->left.get(), node->right.get()};
  return Finish(std::move(node), {parts[0], parts[1]});
}

int ExpressionParser::DeepestOf(const CallArguments& arguments) {
  int deepest = 0;
  for (const ExprPtr& argument : arguments.positional) deepest = std::max(deepest, argument->depth);
  for (const auto& [name, argument] : arguments.keywords) {
    deepest = std::max(deepest, argument->depth);
  }
  for (const ExprPtr* more : {&arguments.more_positional, &arguments.more_keywords}) {
    if (*more != nullptr) deepest = std::max(deepest, (*more)->depth);
  }
  return deepest;
}

// --- operators, loosest first -----------------------------------------------------------------

ExprPtr ExpressionParser::ParseExpression(bool with_conditional) {
  const Nesting nesting(*this);
  if (!nesting.ok()) return nullptr;
  return with_conditional ? ParseConditional() : ParseOr();
}

ExprPtr ExpressionParser::ParseConditional() {
  const size_t num_unknown = unknown_.size();
  ExprPtr yes = ParseOr();
  while (yes != nullptr && IsName("if")) {
    auto node = std::make_unique<syntax::ConditionalExpr>(offset());
    Skip();
    node->yes = std::move(yes);
    node->test = ParseOr();
    if (node->test == nullptr) return nullptr;
    if (SkipIfName("else")) {
      node->no = ParseExpression();
      if (node->no == nullptr) return nullptr;
    }
    unknown_.resize(num_unknown);  // an unreached branch may hold unknown names
    const Expr* parts[] = {node->test.get(), node->yes.get(), node->no.get()};
    yes = Finish(std::move(node), {parts[0], parts[1], parts[2]});
  }
  return yes;
}

ExprPtr ExpressionParser::ParseOr() {
  ExprPtr left = ParseAnd();
  while (left != nullptr && IsName("or")) {
    const size_t at = offset();
    Skip();
    ExprPtr right = ParseAnd();
    if (right == nullptr) return nullptr;
    left = MakeBinary(ExprKind::kOr, {}, at, std::move(left), std::move(right));
  }
  return left;
}

ExprPtr ExpressionParser::ParseAnd() {
  ExprPtr left = ParseNot();
  while (left != nullptr && IsName("and")) {
    const size_t at = offset();
    Skip();
    ExprPtr right = ParseNot();
    if (right == nullptr) return nullptr;
    left = MakeBinary(ExprKind::kAnd, {}, at, std::move(left), std::move(right));
  }
  return left;
}

ExprPtr ExpressionParser::ParseNot() {
  if (!IsName("not")) return ParseCompare();
  const Nesting nesting(*this);
  if (!nesting.ok()) return nullptr;
  auto node = std::make_unique<syntax::UnaryExpr>(ExprKind::kNot, offset());
  Skip();
  node->operand = ParseNot();
  if (node->operand == nullptr) return nullptr;
  const Expr* operand = node->operand.get();
  return Finish(std::move(node), {operand});
}

bool ExpressionParser::ParseCompareOperator(CompareOperator& op) {
  constexpr std::pair<TokenKind, CompareOperator> kOperators[] = {
      {TokenKind::kEqual, CompareOperator::kEqual},
      {TokenKind::kNotEqual, CompareOperator::kNotEqual},
      {TokenKind::kLess, CompareOperator::kLess},
      {TokenKind::kLessEqual, CompareOperator::kLessEqual},
      {TokenKind::kGreater, CompareOperator::kGreater},
      {TokenKind::kGreaterEqual, CompareOperator::kGreaterEqual}};
  for (const auto& [kind, compare] : kOperators) {
    if (!SkipIf(kind)) continue;
    op = compare;
    return true;
  }
  if (SkipIfName("in")) {
    op = CompareOperator::kIn;
    return true;
  }
  if (!IsName("not") || !IsNameToken(next(), "in")) return false;
  Skip();
  Skip();
  op = CompareOperator::kNotIn;
  return true;
}

ExprPtr ExpressionParser::ParseCompare() {
  const size_t at = offset();
  ExprPtr first = ParseSum();
  if (first == nullptr) return nullptr;
  CompareOperator op;
  if (!ParseCompareOperator(op)) return first;
  auto node = std::make_unique<syntax::CompareExpr>(at);
  int deepest = first->depth;
  node->first = std::move(first);
  do {
    ExprPtr operand = ParseSum();
    if (operand == nullptr) return nullptr;
    deepest = std::max(deepest, operand->depth);
    node->rest.emplace_back(op, std::move(operand));
  } while (ParseCompareOperator(op));
  return FinishAll(std::move(node), deepest);
}

ExprPtr ExpressionParser::ParseSum() {
  ExprPtr left = ParseConcat();
  while (left != nullptr && (Is(TokenKind::kAdd) || Is(TokenKind::kSubtract))) {
    const BinaryOperator op =
        Is(TokenKind::kAdd) ? BinaryOperator::kAdd : BinaryOperator::kSubtract;
    const size_t at = offset();
    Skip();
    ExprPtr right = ParseConcat();
    if (right == nullptr) return nullptr;
    left = MakeBinary(ExprKind::kBinary, op, at, std::move(left), std::move(right));
  }
  return left;
}

ExprPtr ExpressionParser::ParseConcat() {
  const size_t at = offset();
  ExprPtr first = ParseProduct();
  if (first == nullptr || !Is(TokenKind::kTilde)) return first;
  auto node = std::make_unique<SequenceExpr>(ExprKind::kConcat, at);
  int deepest = first->depth;
  node->items.push_back(std::move(first));
  while (SkipIf(TokenKind::kTilde)) {
    ExprPtr item = ParseProduct();
    if (item == nullptr) return nullptr;
    deepest = std::max(deepest, item->depth);
    node->items.push_back(std::move(item));
  }
  return FinishAll(std::move(node), deepest);
}

ExprPtr ExpressionParser::ParseProduct() {
  constexpr std::pair<TokenKind, BinaryOperator> kOperators[] = {
      {TokenKind::kMultiply, BinaryOperator::kMultiply},
      {TokenKind::kDivide, BinaryOperator::kDivide},
      {TokenKind::kFloorDivide, BinaryOperator::kFloorDivide},
      {TokenKind::kModulo, BinaryOperator::kModulo}};
  ExprPtr left = ParsePower();
  while (left != nullptr) {
    const auto* op = std::find_if(std::begin(kOperators), std::end(kOperators),
                                  [&](const auto& known) { return Is(known.first); });
    if (op == std::end(kOperators)) break;
    const size_t at = offset();
    Skip();
    ExprPtr right = ParsePower();
    if (right == nullptr) return nullptr;
    left = MakeBinary(ExprKind::kBinary, op->second, at, std::move(left), std::move(right));
  }
  return left;
}

ExprPtr ExpressionParser::ParsePower() {
  ExprPtr left = ParseUnary(true);
  while (left != nullptr && Is(TokenKind::kPower)) {
    const size_t at = offset();
    Skip();
    ExprPtr right = ParseUnary(true);
    if (right == nullptr) return nullptr;
    left = MakeBinary(ExprKind::kBinary, BinaryOperator::kPower, at, std::move(left),
                      std::move(right));
  }
  return left;
}

ExprPtr ExpressionParser::ParseUnary(bool with_filters) {
  ExprPtr node;
  if (Is(TokenKind::kSubtract) || Is(TokenKind::kAdd)) {
    const Nesting nesting(*this);
    if (!nesting.ok()) return nullptr;
    auto unary = std::make_unique<syntax::UnaryExpr>(
        Is(TokenKind::kSubtract) ? ExprKind::kNegative : ExprKind::kPositive, offset());
    Skip();
    unary->operand = ParseUnary(false);
    if (unary->operand == nullptr) return nullptr;
    const Expr* operand = unary->operand.get();
    node = Finish(std::move(unary), {operand});
  } else {
    node = ParsePrimary();
  }
  if (node != nullptr) node = ParsePostfix(std::move(node));
  if (node != nullptr && with_filters) node = ParseFilterExpression(std::move(node));
  return node;
}

// --- primaries --------------------------------------------------------------------------------

ExprPtr ExpressionParser::ParsePrimary() {
  const syntax::Token& token = current();
  const size_t at = token.offset;
  switch (token.kind) {
    case TokenKind::kName: {
      const std::string name = token.text;
      Skip();
      if (name == "true" || name == "True" || name == "false" || name == "False") {
        return std::make_unique<LiteralExpr>(at, value::MakeBool(name == "true" || name == "True"));
      }
      if (name == "none" || name == "None")
        return std::make_unique<LiteralExpr>(at, value::MakeNone());
      return std::make_unique<syntax::NameExpr>(at, symbols_.Add(name));
    }
    case TokenKind::kString:
      return ParseLiteralStrings();
    case TokenKind::kInteger: {
      auto node = std::make_unique<LiteralExpr>(at, value::MakeInt(token.integer));
      Skip();
      return node;
    }
    case TokenKind::kFloat: {
      auto node = std::make_unique<LiteralExpr>(at, value::MakeFloat(token.number));
      Skip();
      return node;
    }
    case TokenKind::kLeftParenthesis: {
      Skip();
      ExprPtr node = ParseTuple(true, {}, true);
      if (node == nullptr || !Expect(TokenKind::kRightParenthesis)) return nullptr;
      return node;
    }
    case TokenKind::kLeftBracket:
      return ParseList();
    case TokenKind::kLeftBrace:
      return ParseDict();
    default:
      Fail(fmt::format("unexpected {}", Describe(token)));
      return nullptr;
  }
}

ExprPtr ExpressionParser::ParseLiteralStrings() {
  const size_t at = offset();
  std::string text;
  for (; Is(TokenKind::kString); Skip()) text += current().text;
  return std::make_unique<LiteralExpr>(at, Literal(text));
}

ExprPtr ExpressionParser::ParseList() {
  auto node = std::make_unique<SequenceExpr>(ExprKind::kList, offset());
  Skip();
  int deepest = 0;
  while (!Is(TokenKind::kRightBracket)) {
    if (!node->items.empty() && !Expect(TokenKind::kComma)) return nullptr;
    if (Is(TokenKind::kRightBracket)) break;
    ExprPtr item = ParseExpression();
    if (item == nullptr) return nullptr;
    deepest = std::max(deepest, item->depth);
    node->items.push_back(std::move(item));
  }
  Skip();
  return FinishAll(std::move(node), deepest);
}

ExprPtr ExpressionParser::ParseDict() {
  auto node = std::make_unique<syntax::DictExpr>(offset());
  Skip();
  int deepest = 0;
  while (!Is(TokenKind::kRightBrace)) {
    if (!node->items.empty() && !Expect(TokenKind::kComma)) return nullptr;
    if (Is(TokenKind::kRightBrace)) break;
    ExprPtr key = ParseExpression();
    if (key == nullptr || !Expect(TokenKind::kColon)) return nullptr;
    ExprPtr value = ParseExpression();
    if (value == nullptr) return nullptr;
    deepest = std::max({deepest, key->depth, value->depth});
    node->items.emplace_back(std::move(key), std::move(value));
  }
  Skip();
  return FinishAll(std::move(node), deepest);
}

bool ExpressionParser::IsTupleEnd(std::string_view end_name) const {
  return Is(TokenKind::kPrintEnd) || Is(TokenKind::kBlockEnd) || Is(TokenKind::kRightParenthesis) ||
         (!end_name.empty() && IsName(end_name));
}

ExprPtr ExpressionParser::ParseTuple(bool with_conditional, std::string_view end_name,
                                     bool in_parentheses) {
  auto node = std::make_unique<SequenceExpr>(ExprKind::kTuple, offset());
  bool is_tuple = false;
  int deepest = 0;
  for (;;) {
    if (!node->items.empty() && !Expect(TokenKind::kComma)) return nullptr;
    if (IsTupleEnd(end_name)) break;
    ExprPtr item = ParseExpression(with_conditional);
    if (item == nullptr) return nullptr;
    deepest = std::max(deepest, item->depth);
    node->items.push_back(std::move(item));
    if (!Is(TokenKind::kComma)) break;
    is_tuple = true;
  }
  if (!is_tuple && !node->items.empty()) return std::move(node->items.front());
  if (!is_tuple && !in_parentheses) {
    Fail(fmt::format("Expected an expression, got {}", Describe(current())));
    return nullptr;
  }
  return FinishAll(std::move(node), deepest);
}

// --- suffixes of a primary --------------------------------------------------------------------

ExprPtr ExpressionParser::ParsePostfix(ExprPtr node) {
  while (node != nullptr) {
    if (Is(TokenKind::kDot) || Is(TokenKind::kLeftBracket)) {
      node = ParseSubscript(std::move(node));
    } else if (Is(TokenKind::kLeftParenthesis)) {
      node = ParseCall(std::move(node));
    } else {
      break;
    }
  }
  return node;
}

ExprPtr ExpressionParser::ParseFilterExpression(ExprPtr node) {
  while (node != nullptr) {
    if (Is(TokenKind::kPipe)) {
      node = ParseFilters(std::move(node), false);
    } else if (IsName("is")) {
      node = ParseTest(std::move(node));
    } else if (Is(TokenKind::kLeftParenthesis)) {
      node = ParseCall(std::move(node));
    } else {
      break;
    }
  }
  return node;
}

ExprPtr ExpressionParser::ParseSubscript(ExprPtr object) {
  const size_t at = offset();
  if (Is(TokenKind::kLeftBracket)) return ParseItem(std::move(object));
  Skip();
  const Expr* inner = object.get();
  if (Is(TokenKind::kName)) {
    auto node = std::make_unique<syntax::AttributeExpr>(at, Literal(current().text));
    Skip();
    node->object = std::move(object);
    return Finish(std::move(node), {inner});
  }
  if (!Is(TokenKind::kInteger)) {
    Fail("expected name or number");
    return nullptr;
  }
  auto node = std::make_unique<syntax::ItemExpr>(at);
  node->index = std::make_unique<LiteralExpr>(offset(), value::MakeInt(current().integer));
  Skip();
  node->object = std::move(object);
  return Finish(std::move(node), {inner});
}

ExprPtr ExpressionParser::ParseItem(ExprPtr object) {
  const size_t at = offset();
  Skip();
  ExprPtr first;
  if (!Is(TokenKind::kColon) && !Is(TokenKind::kRightBracket)) {
    first = ParseExpression();
    if (first == nullptr) return nullptr;
  }
  if (Is(TokenKind::kColon)) {
    auto slice = std::make_unique<syntax::SliceExpr>(at);
    slice->object = std::move(object);
    slice->start = std::move(first);
    if (!ParseSlice(*slice) || !Expect(TokenKind::kRightBracket)) return nullptr;
    const Expr* parts[] = {slice->object.get(), slice->start.get(), slice->stop.get(),
                           slice->step.get()};
    return Finish(std::move(slice), {parts[0], parts[1], parts[2], parts[3]});
  }
  auto node = std::make_unique<syntax::ItemExpr>(at);
  node->object = std::move(object);
  if (first == nullptr || Is(TokenKind::kComma)) {  // x[] and x[a, b] take a tuple as index
    auto tuple = std::make_unique<SequenceExpr>(ExprKind::kTuple, at);
    int deepest = first == nullptr ? 0 : first->depth;
    if (first != nullptr) tuple->items.push_back(std::move(first));
    while (SkipIf(TokenKind::kComma)) {
      ExprPtr item = ParseExpression();
      if (item == nullptr) return nullptr;
      deepest = std::max(deepest, item->depth);
      tuple->items.push_back(std::move(item));
    }
    first = FinishAll(std::move(tuple), deepest);
    if (first == nullptr) return nullptr;
  }
  node->index = std::move(first);
  if (!Expect(TokenKind::kRightBracket)) return nullptr;
  const Expr* parts[] = {node->object.get(), node->index.get()};
  return Finish(std::move(node), {parts[0], parts[1]});
}

// Parses from the first colon on.
bool ExpressionParser::ParseSlice(syntax::SliceExpr& slice) {
  for (ExprPtr* part : {&slice.stop, &slice.step}) {
    if (!SkipIf(TokenKind::kColon)) break;
    if (Is(TokenKind::kColon) || Is(TokenKind::kRightBracket) || Is(TokenKind::kComma)) continue;
    *part = ParseExpression();
    if (*part == nullptr) return false;
  }
  return true;
}

ExprPtr ExpressionParser::ParseCall(ExprPtr callee) {
  auto node = std::make_unique<syntax::CallExpr>(offset());
  if (!ParseArguments(node->arguments)) return nullptr;
  node->callee = std::move(callee);
  const int deepest = std::max(node->callee->depth, DeepestOf(node->arguments));
  return FinishAll(std::move(node), deepest);
}

bool ExpressionParser::ParseArguments(CallArguments& arguments) {
  if (!Expect(TokenKind::kLeftParenthesis)) return false;
  for (bool first = true; !Is(TokenKind::kRightParenthesis); first = false) {
    if (!first && !Expect(TokenKind::kComma)) return false;
    if (Is(TokenKind::kRightParenthesis)) break;
    if (!ParseArgument(arguments)) return false;
  }
  Skip();
  return true;
}

bool ExpressionParser::ParseArgument(CallArguments& arguments) {
  constexpr const char* kOrder = "invalid syntax for function call expression";
  if (Is(TokenKind::kMultiply) || Is(TokenKind::kPower)) {
    const bool pairs = Is(TokenKind::kPower);
    ExprPtr& more = pairs ? arguments.more_keywords : arguments.more_positional;
    if (more != nullptr || arguments.more_keywords != nullptr) return Fail(kOrder);
    Skip();
    more = ParseExpression();
    return more != nullptr;
  }
  if (Is(TokenKind::kName) && next().kind == TokenKind::kAssign) {
    if (arguments.more_keywords != nullptr) return Fail(kOrder);
    const value::Value name = Literal(current().text);
    for (const auto& [known, unused] : arguments.keywords) {
      if (known.text() == name.text()) {
        return Fail(fmt::format("keyword argument repeated: {}", name.text()));
      }
    }
    Skip();
    Skip();
    ExprPtr value = ParseExpression();
    if (value == nullptr) return false;
    arguments.keywords.emplace_back(name, std::move(value));
    return true;
  }
  if (arguments.more_positional != nullptr || arguments.more_keywords != nullptr ||
      !arguments.keywords.empty()) {
    return Fail(kOrder);
  }
  arguments.positional.push_back(ParseExpression());
  return arguments.positional.back() != nullptr;
}

// --- filters and tests ------------------------------------------------------------------------

bool ExpressionParser::ParseDottedName(std::string& name) {
  if (!Is(TokenKind::kName)) return Fail(fmt::format("expected name, got {}", Describe(current())));
  name = current().text;
  Skip();
  while (SkipIf(TokenKind::kDot)) {
    if (!Is(TokenKind::kName)) return Expect(TokenKind::kName);
    name += "." + current().text;
    Skip();
  }
  return true;
}

ExprPtr ExpressionParser::MakeApply(ExprKind kind, size_t at, std::string_view name, ExprPtr input,
                                    CallArguments arguments) {
  auto node = std::make_unique<syntax::ApplyExpr>(kind, at);
  node->name = Literal(name);
  node->function =
      kind == ExprKind::kFilter ? builtins::FindFilter(name) : builtins::FindTest(name);
  if (node->function == nullptr && !soft_) {
    unknown_.emplace_back(
        at, fmt::format("No {} named '{}'.", kind == ExprKind::kFilter ? "filter" : "test", name));
  }
  int deepest = DeepestOf(arguments);
  if (input != nullptr) deepest = std::max(deepest, input->depth);
  node->input = std::move(input);
  node->arguments = std::move(arguments);
  return FinishAll(std::move(node), deepest);
}

ExprPtr ExpressionParser::ParseFilters(ExprPtr input, bool starts_inline) {
  for (bool first = true; (first && starts_inline) || Is(TokenKind::kPipe); first = false) {
    if (!(first && starts_inline)) Skip();
    const size_t at = offset();
    std::string name;
    if (!ParseDottedName(name)) return nullptr;
    CallArguments arguments;
    if (Is(TokenKind::kLeftParenthesis) && !ParseArguments(arguments)) return nullptr;
    input = MakeApply(ExprKind::kFilter, at, name, std::move(input), std::move(arguments));
    if (input == nullptr) return nullptr;
  }
  return input;
}

bool ExpressionParser::ParseTestArguments(CallArguments& arguments) {
  if (Is(TokenKind::kLeftParenthesis)) return ParseArguments(arguments);
  const bool starts_argument = Is(TokenKind::kName) || Is(TokenKind::kString) ||
                               Is(TokenKind::kInteger) || Is(TokenKind::kFloat) ||
                               Is(TokenKind::kLeftBracket) || Is(TokenKind::kLeftBrace);
  if (!starts_argument || IsName("else") || IsName("or") || IsName("and")) return true;
  if (IsName("is")) return Fail("You cannot chain multiple tests with is");
  ExprPtr argument = ParsePrimary();
  if (argument != nullptr) argument = ParsePostfix(std::move(argument));
  if (argument == nullptr) return false;
  arguments.positional.push_back(std::move(argument));
  return true;
}

ExprPtr ExpressionParser::ParseTest(ExprPtr input) {
  const size_t at = offset();
  Skip();
  const bool negated = SkipIfName("not");
  std::string name;
  CallArguments arguments;
  if (!ParseDottedName(name) || !ParseTestArguments(arguments)) return nullptr;
  ExprPtr node = MakeApply(ExprKind::kTest, at, name, std::move(input), std::move(arguments));
  if (node == nullptr || !negated) return node;
  auto negation = std::make_unique<syntax::UnaryExpr>(ExprKind::kNot, at);
  const Expr* operand = node.get();
  negation->operand = std::move(node);
  return Finish(std::move(negation), {operand});
}

// --- targets ----------------------------------------------------------------------------------

bool ExpressionParser::ToTarget(const Expr& expression, Target& target) {
  target.offset = expression.offset;
  if (expression.kind == ExprKind::kName) {
    target.name = static_cast<const syntax::NameExpr&>(expression).name;
    if (num_loops_ > 0 && symbols_.NameOf(target.name) == "loop") {
      return FailAt(expression.offset, "Can't assign to special loop variable in for-loop target");
    }
    return true;
  }
  if (expression.kind != ExprKind::kTuple) {
    return FailAt(expression.offset, "can't assign to this expression");
  }
  target.is_tuple = true;
  for (const ExprPtr& item : static_cast<const SequenceExpr&>(expression).items) {
    if (!ToTarget(*item, target.parts.emplace_back())) return false;
  }
  return true;
}

bool ExpressionParser::ParseTarget(bool with_namespace, std::string_view end_name, Target& target) {
  target.offset = static_cast<uint32_t>(offset());
  std::vector<Target> parts;
  bool is_tuple = false;
  for (;;) {
    if (!parts.empty() && !Expect(TokenKind::kComma)) return false;
    if (IsTupleEnd(end_name)) break;
    Target& part = parts.emplace_back();
    if (with_namespace && Is(TokenKind::kName) && next().kind == TokenKind::kDot) {
      part.offset = static_cast<uint32_t>(offset());
      part.name = symbols_.Add(current().text);
      Skip();
      Skip();
      if (!Is(TokenKind::kName)) return Expect(TokenKind::kName);
      part.attribute = Literal(current().text);
      Skip();
    } else {
      const ExprPtr primary = ParsePrimary();
      if (primary == nullptr || !ToTarget(*primary, part)) return false;
    }
    if (!Is(TokenKind::kComma)) break;
    is_tuple = true;
  }
  if (parts.empty() && !is_tuple) {
    return Fail(fmt::format("Expected an expression, got {}", Describe(current())));
  }
  if (!is_tuple) {
    target = std::move(parts.front());
    return true;
  }
  target.is_tuple = true;
  target.parts = std::move(parts);
  return true;
}

}  // namespace kvgate::jinja::parse
