// SPDX-License-Identifier: Apache-2.0
// The parser. A first look finds where functions start and which of them `gradient` refers to; they
// are then read in an order in which such a function comes first. Nothing recurses over ops.
#include <mezzo/ir/parser.h>

#include <mezzo/ir/attr_parser.h>
#include <mezzo/ir/builder.h>
#include <mezzo/ir/plan.h>
#include <mezzo/ir/words.h>

#include <algorithm>
#include <charconv>
#include <unordered_map>

namespace mezzo::ir {

namespace {

/// Where a function stands, and the functions that it differentiates.
struct FunctionText {
  Token name;
  TokenStream start;
  std::vector<Token> references;
  Function* function = nullptr;
};

bool all_digits(std::string_view id) { return std::all_of(id.begin(), id.end(), is_digit); }

/// The values that a region sees, by name.
class Scope {
 public:
  void define(const TokenStream& stream, const Token& token, Value value) {
    if (!values_.emplace(token.id(), value).second)
      stream.fail(token, "value '" + std::string(token.text) + "' is defined twice");
  }
  Value find(const TokenStream& stream, const Token& token) const {
    auto it = values_.find(token.id());
    if (it != values_.end()) return it->second;
    std::vector<std::string> known;
    for (const auto& [name, value] : values_) known.emplace_back(name);
    std::sort(known.begin(), known.end());
    std::string nearest = nearest_word(token.id(), known);
    stream.fail(token, "unknown value '" + std::string(token.text) + "'" +
                           (nearest.empty() ? "" : "; did you mean '%" + nearest + "'?"));
  }

 private:
  std::unordered_map<std::string_view, Value> values_;
};

struct Signature {
  Token place;
  std::vector<Type> left, right;
  bool listed = false;  // the left side stands in parentheses
  bool arrow = false;
};

class Parser {
 public:
  Parser(std::string_view text, std::string_view name, const ParseOptions& options)
      : stream_(text, name), options_(options), file_(intern(name)) {}

  std::unique_ptr<Module> run() {
    parse_header();
    std::vector<FunctionText> functions = look_ahead();
    for (size_t index : reading_order(functions)) {
      stream_ = functions[index].start;
      parse_function(*functions[index].function);
      if (!stream_.at_word("func") && !stream_.at(TokenKind::RightBrace))
        stream_.fail_expected("'func' or '}'");
      if (index + 1 == functions.size()) end_ = stream_;
    }
    if (end_) stream_ = *end_;
    if (!stream_.accept(TokenKind::RightBrace)) stream_.fail_expected("'func' or '}'");
    if (!stream_.at(TokenKind::End)) stream_.fail_expected("the end of the text");
    return std::move(module_);
  }

 private:
  // --- module

  void parse_header() {
    stream_.expect_word("module");
    Token name = stream_.expect(TokenKind::Symbol, "the name of the module, '@name'");
    module_ = std::make_unique<Module>(std::string(name.id()));
    if (stream_.at_word("attributes")) {
      stream_.take();
      Token place = stream_.peek();
      Attrs attrs = parse_attrs(stream_, {});
      module_->set_stage(take_stage(stream_, place, attrs));
      module_->attrs() = std::move(attrs);
    }
    stream_.expect(TokenKind::LeftBrace, "'{' before the functions of the module");
  }

  /// Finds the functions and makes them, empty; stops quietly where the text cannot be right, since
  /// the second look says what is wrong there.
  std::vector<FunctionText> look_ahead() {
    std::vector<FunctionText> functions;
    TokenStream ahead = stream_;
    while (ahead.at_word("func")) {
      TokenStream start = ahead;
      ahead.take();
      if (!ahead.at(TokenKind::Symbol)) {
        functions.push_back({ahead.peek(), start, {}, module_->add_function("")});
        break;
      }
      Token name = ahead.take();
      std::string id(name.id());
      if (module_->function(id))
        ahead.fail(name, "function '" + std::string(name.text) + "' is defined twice");
      functions.push_back({name, start, {}, module_->add_function(id)});
      skip_function(ahead, functions.back().references);
    }
    return functions;
  }

  void skip_function(TokenStream& ahead, std::vector<Token>& references) {
    for (int depth = 0; !ahead.at(TokenKind::End);) {
      if (depth == 0 && (ahead.at_word("func") || ahead.at(TokenKind::RightBrace))) return;
      Token token = ahead.take();
      if (token.is(TokenKind::LeftBrace)) ++depth;
      if (token.is(TokenKind::RightBrace)) --depth;
      if (token.is_word("loc") && ahead.at(TokenKind::LeftParen)) has_locations_ = true;
      if (!token.is_word("func") || !ahead.accept(TokenKind::Equal)) continue;
      if (ahead.at(TokenKind::Symbol)) references.push_back(ahead.peek());
    }
  }

  /// Depth first, so that what is differentiated comes first; text order otherwise.
  std::vector<size_t> reading_order(const std::vector<FunctionText>& functions) const {
    enum class State : uint8_t { New, Open, Done };
    std::unordered_map<std::string_view, size_t> index;
    for (size_t i = 0; i < functions.size(); ++i) index.emplace(functions[i].function->name(), i);
    std::vector<State> states(functions.size(), State::New);
    std::vector<size_t> order;
    std::vector<std::pair<size_t, size_t>> stack;  // function, next reference
    for (size_t root = 0; root < functions.size(); ++root) {
      if (states[root] == State::New) stack.emplace_back(root, 0);
      while (!stack.empty()) {
        auto& [current, next] = stack.back();
        states[current] = State::Open;
        if (next == functions[current].references.size()) {
          states[current] = State::Done;
          order.push_back(current);
          stack.pop_back();
          continue;
        }
        const Token& reference = functions[current].references[next++];
        auto it = index.find(reference.id());
        if (it == index.end() || states[it->second] == State::Done) continue;
        if (states[it->second] == State::Open)
          stream_.fail(reference, "function '" + std::string(reference.text) +
                                      "' is differentiated inside itself");
        stack.emplace_back(it->second, 0);
      }
    }
    return order;
  }

  // --- functions

  void parse_function(Function& function) {
    stream_.expect_word("func");
    stream_.expect(TokenKind::Symbol, "the name of the function, '@name'");
    Scope scope;
    parse_parameters(function, scope);
    stream_.expect(TokenKind::Arrow, "'->' before the result types");
    std::vector<Type> types;
    std::vector<Attrs> attrs;
    parse_outs(scope, types, attrs);
    if (stream_.at_word("attributes")) {
      stream_.take();
      function.attrs() = parse_attrs(stream_, attr_scope(scope));
    }
    parse_region(function.body(), scope, OpKind::Return, types);
    function.set_results(function.results(), std::move(attrs));
  }

  AttrScope attr_scope(const Scope& scope, const OpInfo* op = nullptr) {
    return {[this, &scope](const Token& token) { return scope.find(stream_, token).def(); }, op};
  }

  /// Attributes of a parameter may name a later one, so they are read when all are known.
  void parse_parameters(Function& function, Scope& scope) {
    std::vector<std::pair<int, TokenStream>> later;
    stream_.expect(TokenKind::LeftParen, "'(' before the parameters");
    while (!stream_.at(TokenKind::RightParen)) {
      Token name = stream_.expect(TokenKind::Value, "a parameter, '%name: type'");
      stream_.expect(TokenKind::Colon, "':' before the type of the parameter");
      scope.define(stream_, name, function.add_parameter(parse_type(stream_), name.id()));
      if (stream_.at(TokenKind::LeftBrace)) {
        later.emplace_back(function.num_parameters() - 1, stream_);
        AttrScope unresolved{[](const Token&) { return nullptr; }, nullptr};
        parse_attrs(stream_, unresolved);
      }
      if (!stream_.accept(TokenKind::Comma) && !stream_.at(TokenKind::RightParen))
        stream_.fail_expected("',' or ')'");
    }
    stream_.take();
    for (auto& [index, place] : later)
      function.parameter_attrs(index) = parse_attrs(place, attr_scope(scope));
  }

  void parse_outs(const Scope& scope, std::vector<Type>& types, std::vector<Attrs>& attrs) {
    auto one = [&] {
      types.push_back(parse_type(stream_));
      attrs.push_back(at_attrs(stream_) ? parse_attrs(stream_, attr_scope(scope)) : Attrs());
    };
    if (!stream_.accept(TokenKind::LeftParen)) return one();
    while (!stream_.at(TokenKind::RightParen)) {
      one();
      if (!stream_.accept(TokenKind::Comma) && !stream_.at(TokenKind::RightParen))
        stream_.fail_expected("',' or ')'");
    }
    stream_.take();
  }

  /// Ops between braces; the last one is `terminator` with operands of these types.
  void parse_region(Region& region, Scope& scope, OpKind terminator, std::span<const Type> types) {
    stream_.expect(TokenKind::LeftBrace, "'{' before the ops");
    Builder builder(region);
    Token last = stream_.peek();
    while (!stream_.at(TokenKind::RightBrace)) {
      if (region.terminator())
        stream_.fail_expected(std::string("'}' after '") + to_string(terminator) + "'");
      last = stream_.peek();
      parse_op(builder, scope);
    }
    Op* end = region.terminator();
    if (!end || end->kind() != terminator)
      stream_.fail(end ? last : stream_.peek(),
                   std::string("the last op must be '") + to_string(terminator) + "'");
    if (end->num_operands() != static_cast<int>(types.size()))
      stream_.fail(last, std::string(to_string(terminator)) + " has " +
                             counted(static_cast<size_t>(end->num_operands()), "operand") +
                             " for " + counted(types.size(), "result"));
    for (int i = 0; i < end->num_operands(); ++i)
      if (const Type& type = types[static_cast<size_t>(i)]; !(end->operand(i).type() == type))
        stream_.fail(last, "result " + std::to_string(i) + " is declared as " + to_string(type) +
                               ", but " + to_string(terminator) + " gives " +
                               to_string(end->operand(i).type()));
    stream_.take();
  }

  // --- ops

  void parse_op(Builder& builder, Scope& scope) {
    std::vector<Token> names;
    if (stream_.at(TokenKind::Value)) {
      do names.push_back(stream_.expect(TokenKind::Value, "the name of a result"));
      while (stream_.accept(TokenKind::Comma));
      stream_.expect(TokenKind::Equal, "'=' after the names of results");
    }
    Token place = stream_.expect(TokenKind::Word, "the name of an op");
    OpKind kind = parse_op_name(place);
    builder.set_location(has_locations_ ? Location{} : Location{file_, place.line});
    Op* op = kind == OpKind::Kernel ? parse_kernel(builder, scope, place, names)
                                    : parse_plain(builder, scope, kind, place, names);
    for (int i = 0; i < op->num_results(); ++i) {
      const Token& name = names[static_cast<size_t>(i)];
      if (!all_digits(name.id())) op->result(i).set_name(name.id());
      scope.define(stream_, name, op->result(i));
    }
    if (stream_.at_word("loc") && stream_.peek_second().is(TokenKind::LeftParen)) parse_loc(*op);
  }

  OpKind parse_op_name(const Token& place) const {
    if (std::optional<OpKind> kind = ir::parse_op(place.text)) return *kind;
    std::vector<std::string> known;
    for (const OpInfo& info : all_ops()) known.push_back(info.name);
    stream_.fail(place,
                 "unknown op '" + std::string(place.text) + "'" + did_you_mean(place.text, known));
  }

  Op* parse_plain(Builder& builder, const Scope& scope, OpKind kind, const Token& place,
                  const std::vector<Token>& names) {
    std::vector<Value> operands;
    std::vector<Token> places;
    if (stream_.at(TokenKind::Value)) {
      do {
        places.push_back(stream_.expect(TokenKind::Value, "an operand"));
        operands.push_back(scope.find(stream_, places.back()));
      } while (stream_.accept(TokenKind::Comma));
    }
    const OpInfo& info = op_info(kind);
    Token attrs_place = stream_.peek();
    Attrs attrs;
    if (stream_.at(TokenKind::LeftBrace)) attrs = parse_attrs(stream_, attr_scope(scope, &info));
    Signature signature = parse_signature();
    check_operand_types(signature, operands, places);
    std::vector<Type> declared = declared_results(signature, names.size(), place);
    if (kind == OpKind::Constant && declared.size() == 1)
      if (const Attr* value = attrs.find("value"))
        attrs.set("value", constant_value(stream_, attrs_place, declared[0].dtype, *value));
    Op* op = create(builder, kind, operands, std::move(attrs), declared, place);
    check_results(*op, declared, names, signature, place);
    if (kind == OpKind::Constant) load_resource(*op, attrs_place);
    return op;
  }

  Op* parse_kernel(Builder& builder, const Scope& scope, const Token& place,
                   const std::vector<Token>& names) {
    if (builder.region().owner()) stream_.fail(place, "a kernel cannot stand inside a kernel");
    Token name = stream_.expect(TokenKind::Symbol, "the name of the kernel, '@name'");
    stream_.expect(TokenKind::LeftParen, "'(' before the bound values");
    std::vector<Token> parameters, places;
    std::vector<Value> operands;
    while (!stream_.at(TokenKind::RightParen)) {
      parameters.push_back(stream_.expect(TokenKind::Value, "a bound value, '%inner = %outer'"));
      stream_.expect(TokenKind::Equal, "'=' after the inner name");
      places.push_back(stream_.expect(TokenKind::Value, "the outer value"));
      operands.push_back(scope.find(stream_, places.back()));
      if (!stream_.accept(TokenKind::Comma) && !stream_.at(TokenKind::RightParen))
        stream_.fail_expected("',' or ')'");
    }
    stream_.take();
    Token attrs_place = stream_.peek();
    Attrs attrs;
    if (stream_.at(TokenKind::LeftBrace))
      attrs = parse_attrs(stream_, attr_scope(scope, &op_info(OpKind::Kernel)));
    check_family(attrs_place, attrs);
    std::optional<Attrs> plan;
    if (stream_.at_word("plan")) {
      stream_.take();
      plan = parse_attrs(stream_, {});
    }
    Signature signature = parse_signature();
    check_operand_types(signature, operands, places);
    std::vector<Type> declared = declared_results(signature, names.size(), place);
    Op* op = create(builder, OpKind::Kernel, operands, std::move(attrs), declared, place);
    op->set_kernel_name(std::string(name.id()));
    if (plan) op->set_plan(std::move(*plan));
    Region* body = builder.module()->make_body(op);
    Scope inner;
    for (size_t i = 0; i < parameters.size(); ++i) {
      std::string_view id = parameters[i].id();
      inner.define(stream_, parameters[i],
                   body->add_parameter(operands[i].type(), all_digits(id) ? "" : id));
    }
    parse_region(*body, inner, OpKind::Yield, declared);
    return op;
  }

  void check_family(const Token& place, const Attrs& attrs) const {
    const Attr* family = attrs.find("family");
    if (!family) return;
    if (!family->is<std::string>()) stream_.fail(place, "kernel: the family must be a string");
    const std::string& text = family->as<std::string>();
    if (parse_family(text)) return;
    std::vector<std::string> known = {
#define FAMILY(Kind, name, summary) name,
#include <mezzo/ir/kernel_families.def>
#undef FAMILY
    };
    stream_.fail(place, "kernel: unknown family \"" + text + "\"" + did_you_mean(text, known));
  }

  Op* create(Builder& builder, OpKind kind, const std::vector<Value>& operands, Attrs attrs,
             const std::vector<Type>& declared, const Token& place) const {
    try {
      return builder.create(kind, operands, std::move(attrs), declared);
    } catch (const UserError& error) {
      stream_.fail(place, error.message(), error.hint());
    }
  }

  void load_resource(const Op& op, const Token& place) {
    const Attr& value = *op.attrs().find("value");
    if (!value.is<Resource>() || !options_.resource) return;
    const std::string& name = value.as<Resource>().name;
    std::shared_ptr<const ResourceData> data;
    try {
      data = options_.resource(name, op.result().type());
    } catch (const UserError& error) {
      stream_.fail(place, error.message(), error.hint());
    }
    if (!data) stream_.fail(place, "there is no resource \"" + name + "\"");
    if (!(data->type == op.result().type()))
      stream_.fail(place, "resource \"" + name + "\" is " + to_string(data->type) + ", not " +
                              to_string(op.result().type()));
    module_->set_resource(name, std::move(data));
  }

  // --- signatures

  std::vector<Type> parse_types(bool& listed) {
    listed = stream_.accept(TokenKind::LeftParen);
    if (!listed) return {parse_type(stream_)};
    std::vector<Type> types;
    while (!stream_.at(TokenKind::RightParen)) {
      types.push_back(parse_type(stream_));
      if (!stream_.accept(TokenKind::Comma) && !stream_.at(TokenKind::RightParen))
        stream_.fail_expected("',' or ')'");
    }
    stream_.take();
    return types;
  }

  Signature parse_signature() {
    stream_.expect(TokenKind::Colon, "':' before the types of the op");
    Signature signature;
    signature.place = stream_.peek();
    signature.left = parse_types(signature.listed);
    if (stream_.accept(TokenKind::Arrow)) {
      signature.arrow = true;
      bool listed;
      signature.right = parse_types(listed);
    }
    return signature;
  }

  void check_operand_types(const Signature& signature, const std::vector<Value>& operands,
                           const std::vector<Token>& places) const {
    bool common = !signature.arrow && signature.left.size() == 1;
    if (!common && signature.left.size() != operands.size())
      stream_.fail(signature.place, "types of " + counted(signature.left.size(), "operand") +
                                        " are given, but there are " +
                                        std::to_string(operands.size()));
    for (size_t i = 0; i < operands.size(); ++i)
      if (const Type& type = signature.left[common ? 0 : i]; !(operands[i].type() == type))
        stream_.fail(signature.place, "operand '" + std::string(places[i].text) + "' is " +
                                          to_string(operands[i].type()) + ", not " +
                                          to_string(type));
  }

  std::vector<Type> declared_results(const Signature& signature, size_t count,
                                     const Token& place) const {
    if (!signature.arrow) {
      if (count == 0) return {};
      if (signature.left.size() != 1) stream_.fail_expected("'->' and the result types");
      return std::vector<Type>(count, signature.left[0]);
    }
    if (signature.right.size() != count)
      stream_.fail(place, std::string(place.text) + ": types of " +
                              counted(signature.right.size(), "result") + " are given, but " +
                              std::to_string(count) + (count == 1 ? " is" : " are") + " named");
    return signature.right;
  }

  void check_results(const Op& op, const std::vector<Type>& declared,
                     const std::vector<Token>& names, const Signature& signature,
                     const Token& place) const {
    if (op.num_results() != static_cast<int>(names.size()))
      stream_.fail(place, std::string(place.text) + " gives " +
                              counted(static_cast<size_t>(op.num_results()), "result") + ", but " +
                              std::to_string(names.size()) + (names.size() == 1 ? " is" : " are") +
                              " named");
    for (int i = 0; i < op.num_results(); ++i)
      if (const Type& type = declared[static_cast<size_t>(i)]; !(op.result(i).type() == type))
        stream_.fail(signature.place, "result '" + std::string(names[static_cast<size_t>(i)].text) +
                                          "' is " + to_string(op.result(i).type()) + ", not " +
                                          to_string(type));
  }

  // --- locations

  void parse_loc(Op& op) {
    stream_.expect_word("loc");
    stream_.expect(TokenKind::LeftParen, "'('");
    Token file = stream_.expect(TokenKind::String, "the name of a file");
    stream_.expect(TokenKind::Colon, "':' before the line");
    Token line = stream_.expect(TokenKind::Integer, "a line number");
    int number = 0;
    const char* last = line.text.data() + line.text.size();
    if (std::from_chars(line.text.data(), last, number).ec != std::errc())
      stream_.fail(line, "the line number " + std::string(line.text) + " is too large");
    Location location{intern(unescape(stream_, file)), number};
    const char* name = op.info().name;
    if (stream_.at_word("from")) {
      stream_.take();
      name = intern(stream_.expect(TokenKind::Word, "the op that this one stands for").text);
    }
    stream_.expect(TokenKind::RightParen, "')'");
    op.set_location(location);
    op.set_origin({intern(name), location});
  }

  TokenStream stream_;
  const ParseOptions& options_;
  const char* file_;
  std::unique_ptr<Module> module_;
  std::optional<TokenStream> end_;
  bool has_locations_ = false;
};

}  // namespace

std::unique_ptr<Module> parse(std::string_view text, std::string_view name,
                              const ParseOptions& options) {
  return Parser(text, name, options).run();
}

}  // namespace mezzo::ir
