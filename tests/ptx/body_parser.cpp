// SPDX-License-Identifier: Apache-2.0
// Statements of a body. Names live in the braces that declare them, so the blocks of inline
// assembly may use a name again with another width. Registers are made when they are first used.
#include <ptx/body_parser.h>

#include <fmt/format.h>

#include <charconv>
#include <deque>
#include <ptx/decoder.h>

namespace mezzo::ptx::detail {

namespace {

struct Scope {
  struct Range {
    uint32_t count;
    Type type;
  };
  Scope* parent = nullptr;
  std::map<std::string_view, Operand> names;
  std::map<std::string_view, Range> ranges;  // `%r<5>`
  std::map<std::string_view, uint32_t> labels;
  std::map<std::string_view, std::vector<std::string_view>> tables;  // .branchtargets
};

class BodyParser {
 public:
  BodyParser(TokenReader& in, const std::vector<Token>& tokens, const SourceText& source,
             const ModuleNames& names, KernelData& kernel)
      : in_(in),
        tokens_(tokens),
        source_(source),
        names_(names),
        kernel_(kernel),
        builder_(kernel, source) {}

  void run(const std::vector<Declaration>& parameters) {
    place_shared(in_.position());
    const uint32_t alignment = std::max<uint32_t>(dynamic_alignment_, 16);
    kernel_.dynamic_shared_at = (kernel_.static_shared + alignment - 1) / alignment * alignment;
    Scope& scope = add_scope(nullptr);
    for (size_t i = 0; i < parameters.size(); ++i)
      scope.names[parameters[i].name] =
          symbol(parameters[i].name, Space::Parameter, kernel_.parameters[i].offset);
    block(scope);
    finish_code(in_.peek().line);
  }

 private:
  struct Fixup {
    uint32_t instruction;
    std::string_view label;
    const Scope* scope;
    int line;
    bool table;
  };

  Scope& add_scope(Scope* parent) {
    scopes_.emplace_back().parent = parent;
    return scopes_.back();
  }

  static Operand symbol(std::string_view name, Space space, uint64_t address) {
    Operand result;
    result.kind = Operand::Kind::Symbol;
    result.space = space;
    result.bits = address;
    result.text = name;
    return result;
  }

  // ---- shared memory: all of it gets its place before anything is decoded ----

  void place(size_t key, const Declaration& declaration) {
    if (declaration.bytes == 0) {
      dynamic_alignment_ = std::max(dynamic_alignment_, declaration.alignment);
      return;
    }
    const uint32_t alignment = declaration.alignment;
    kernel_.static_shared = (kernel_.static_shared + alignment - 1) / alignment * alignment;
    shared_at_[key] = kernel_.static_shared;
    kernel_.static_shared += static_cast<uint32_t>(declaration.bytes);
  }

  void place_shared(size_t begin) {
    const size_t resume = in_.position();
    in_.go_to(begin);
    for (int depth = 1; depth > 0 && in_.peek().kind != Token::Kind::End;) {
      const size_t position = in_.position();
      const Token token = in_.next();
      if (token.text == "{") ++depth;
      if (token.text == "}") --depth;
      if (token.kind != Token::Kind::Word) continue;
      if (token.text == ".shared") {
        const Declaration declaration = in_.declaration();
        if (!shared_at_.count(position)) place(position, declaration);
      } else if (const auto variable = names_.shared.find(token.text);
                 variable != names_.shared.end()) {
        const size_t key =
            tokens_.size() + static_cast<size_t>(std::distance(names_.shared.begin(), variable));
        if (!shared_at_.count(key)) place(key, variable->second);
      } else if (const auto function = names_.functions.find(token.text);
                 function != names_.functions.end() && function->second.body &&
                 placed_.insert(token.text).second) {
        place_shared(function->second.body);
      }
    }
    in_.go_to(resume);
  }

  // ---- names ----

  Operand register_operand(std::string_view name, Type type) {
    Operand result;
    result.text = name;
    if (type.kind == Kind::Predicate) {
      result.kind = Operand::Kind::Predicate;
      result.at = builder_.add_predicate();
    } else {
      result.kind = Operand::Kind::Register;
      result.bytes = std::max<uint8_t>(type.bytes, 2);
      result.at = builder_.add_register(result.bytes);
    }
    return result;
  }

  const Operand* find(Scope& from, std::string_view name) {
    for (Scope* scope = &from; scope; scope = scope->parent) {
      if (const auto found = scope->names.find(name); found != scope->names.end())
        return &found->second;
      const size_t digits = name.find_last_not_of("0123456789") + 1;
      const auto range = scope->ranges.find(name.substr(0, digits));
      if (range == scope->ranges.end() || digits == name.size()) continue;
      uint32_t number = 0;
      std::from_chars(name.data() + digits, name.data() + name.size(), number);
      if (number >= range->second.count) continue;
      return &(scope->names[name] = register_operand(name, range->second.type));
    }
    return nullptr;
  }

  Operand name_operand(Scope& scope, const Token& token) {
    const std::string_view name = token.text;
    if (name == "_") {
      Operand sink;
      sink.text = name;
      return sink;
    }
    if (const Operand* const known = find(scope, name)) return *known;
    Operand result;
    result.text = name;
    if (name == "WARP_SZ") {
      result.kind = Operand::Kind::Integer;
      result.bits = kLanes;
      return result;
    }
    if (find_special(name, result.special, result.bytes)) {
      result.kind = Operand::Kind::Special;
      return result;
    }
    if (name[0] == '%') in_.error(token.line, fmt::format("the register '{}' is not known", name));
    if (const auto found = names_.variables.find(name); found != names_.variables.end())
      return found->second;
    if (const auto found = names_.shared.find(name); found != names_.shared.end()) {
      const size_t key =
          tokens_.size() + static_cast<size_t>(std::distance(names_.shared.begin(), found));
      const auto at = shared_at_.find(key);
      return symbol(name, Space::Shared,
                    at == shared_at_.end() ? kernel_.dynamic_shared_at : at->second);
    }
    result.kind = Operand::Kind::Label;  // or a function; whoever uses it looks
    return result;
  }

  // ---- operands ----

  Operand operand(Scope& scope) {
    Operand result;
    if (in_.at("{") || in_.at("(")) {
      const bool braces = in_.at("{");
      result.kind = braces ? Operand::Kind::Vector : Operand::Kind::List;
      result.text = in_.next().text;
      const std::string_view end = braces ? "}" : ")";
      while (!in_.take(end)) {
        if (!result.parts.empty()) in_.expect(",");
        result.parts.push_back(operand(scope));
      }
      return result;
    }
    if (in_.take("[")) {
      result.kind = Operand::Kind::Address;
      result.text = in_.peek().text;
      result.parts.push_back(simple_operand(scope));
      if (in_.take("+")) {
        result.bits = in_.number().bits;
      } else if (in_.at("-")) {
        result.bits = in_.number().bits;
      }
      in_.expect("]");
      return result;
    }
    result = simple_operand(scope);
    if (in_.take("|")) {
      Operand pair;
      pair.kind = Operand::Kind::Pair;
      pair.text = result.text;
      pair.parts.push_back(std::move(result));
      pair.parts.push_back(simple_operand(scope));
      return pair;
    }
    if (result.kind == Operand::Kind::Symbol && in_.take("+")) result.bits += in_.integer();
    return result;
  }

  Operand simple_operand(Scope& scope) {
    if (in_.take("!")) {
      Operand result = name_operand(scope, in_.expect_word());
      result.negated = true;
      if (result.kind != Operand::Kind::Predicate)
        in_.error(fmt::format("'!{}' is not a predicate", result.text));
      return result;
    }
    if (in_.at("-") || in_.peek().kind == Token::Kind::Number) return in_.number();
    return name_operand(scope, in_.expect_word());
  }

  // ---- statements ----

  /// Up to behind the `}` of the scope.
  void block(Scope& scope) {
    while (!in_.take("}")) {
      const Token token = in_.peek();
      if (token.kind == Token::Kind::End) in_.error("'}' expected, found the end of the text");
      if (in_.take("{")) {
        block(add_scope(&scope));
      } else if (in_.take(";")) {
        continue;
      } else if (token.kind == Token::Kind::Word && in_.at(":", 1)) {
        in_.next();
        in_.next();
        if (in_.take(".branchtargets")) {
          std::vector<std::string_view>& table = scope.tables[token.text];
          do table.push_back(in_.expect_word().text);
          while (in_.take(","));
          in_.expect(";");
        } else {
          scope.labels[token.text] = builder_.next_index();
        }
      } else if (token.kind == Token::Kind::Word && token.text[0] == '.') {
        directive(scope);
      } else {
        statement(scope);
      }
    }
  }

  void directive(Scope& scope) {
    const Token token = in_.next();
    if (token.text == ".reg") {
      registers(scope);
    } else if (token.text == ".loc") {
      const auto file = static_cast<int>(in_.integer());
      const uint64_t line = in_.integer();
      const auto found = names_.files.find(file);
      builder_.set_location(
          fmt::format("{}:{}", found == names_.files.end() ? "?" : found->second, line));
      in_.skip_line(token.line);
    } else if (token.text == ".file") {
      in_.skip_line(token.line);
    } else if (token.text == ".pragma") {
      while (!in_.take(";")) in_.next();
    } else if (token.text == ".shared") {
      const size_t key = in_.position() - 1;
      const Declaration declaration = in_.declaration();
      in_.expect(";");
      const auto at = shared_at_.find(key);
      scope.names[declaration.name] =
          symbol(declaration.name, Space::Shared,
                 at == shared_at_.end() ? kernel_.dynamic_shared_at : at->second);
    } else if (token.text == ".local" || token.text == ".param") {
      const Declaration declaration = in_.declaration();
      in_.expect(";");
      scope.names[declaration.name] = symbol(
          declaration.name, token.text == ".param" ? Space::Call : Space::Local,
          builder_.add_local(static_cast<uint32_t>(declaration.bytes), declaration.alignment));
    } else {
      in_.error(token.line, fmt::format("the directive '{}' is not known here", token.text));
    }
  }

  void registers(Scope& scope) {
    const Token word = in_.expect_word();
    const auto type = parse_type(word.text.substr(1));
    if (!type) in_.error(word.line, fmt::format("registers of type '{}' are not known", word.text));
    do {
      const Token name = in_.expect_word();
      if (in_.take("<")) {
        scope.ranges[name.text] = {static_cast<uint32_t>(in_.integer()), *type};
        in_.expect(">");
      } else {
        scope.names[name.text] = register_operand(name.text, *type);
      }
    } while (in_.take(","));
    in_.expect(";");
  }

  void statement(Scope& scope) {
    Statement statement;
    statement.line = in_.peek().line;
    if (in_.take("@")) {
      const Operand guard = simple_operand(scope);
      if (guard.kind != Operand::Kind::Predicate)
        in_.error(statement.line, fmt::format("'{}' is not a predicate", guard.text));
      statement.guard = guard.at;
      statement.guard_flip = guard.negated ? kAllLanes : 0;
    }
    statement.opcode = in_.expect_word().text;
    while (!in_.take(";")) {
      if (!statement.operands.empty()) in_.expect(",");
      statement.operands.push_back(operand(scope));
    }
    const std::string_view name = statement.opcode.substr(0, statement.opcode.find('.'));
    if (name == "call") {
      call(statement);
    } else if (name == "ret" && !callers_.empty()) {
      statement.opcode = "bra";
      branch(statement, callers_.back().end_label, *callers_.back().scope);
    } else if (name == "bra" || name == "brx") {
      branch(statement, scope);
    } else {
      decode(builder_, statement);
    }
  }

  void branch(Statement& statement, Scope& scope) {
    if (statement.operands.empty()) in_.error(statement.line, "a branch without a target");
    const std::string_view label = statement.operands.back().text;
    statement.operands.pop_back();
    branch(statement, label, scope);
  }

  void branch(const Statement& statement, std::string_view label, Scope& scope) {
    const bool table = statement.opcode.substr(0, 3) == "brx";
    fixups_.push_back({builder_.next_index(), label, &scope, statement.line, table});
    decode(builder_, statement);
  }

  // ---- calls ----

  struct Caller {
    std::string_view function;
    std::string_view end_label;
    Scope* scope;
  };

  void call(const Statement& statement) {
    const auto error = [&](const std::string& what) { source_.error(statement.line, what); };
    const std::vector<Operand>& operands = statement.operands;
    std::vector<Operand> results, arguments;
    size_t at = 0;
    if (at < operands.size() && operands[at].kind == Operand::Kind::List)
      results = operands[at++].parts;
    if (at >= operands.size() || operands[at].kind != Operand::Kind::Label)
      error("calls through a register are not known");
    const std::string_view name = operands[at++].text;
    if (at < operands.size() && operands[at].kind == Operand::Kind::List)
      arguments = operands[at++].parts;
    const auto found = names_.functions.find(name);
    if (found == names_.functions.end() || !found->second.body)
      error(fmt::format("the function '{}' has no body here", name));
    const Function& function = found->second;
    if (results.size() != function.results.size() ||
        arguments.size() != function.parameters.size() || at != operands.size())
      error(fmt::format("'{}' takes {} arguments and gives {} results", name,
                        function.parameters.size(), function.results.size()));
    for (const Caller& caller : callers_) {
      if (caller.function == name) error(fmt::format("'{}' calls itself", name));
    }
    Scope& scope = add_scope(nullptr);
    for (size_t i = 0; i < results.size(); ++i)
      bind(scope, function.results[i], results[i], statement.line);
    for (size_t i = 0; i < arguments.size(); ++i)
      bind(scope, function.parameters[i], arguments[i], statement.line);
    if (statement.guard) {
      // Lanes that do not call go round the body.
      Statement around = statement;
      around.opcode = "bra";
      around.operands.clear();
      around.guard_flip ^= kAllLanes;
      branch(around, kEnd, scope);
    }
    callers_.push_back({name, kEnd, &scope});
    const size_t resume = in_.position();
    in_.go_to(function.body);
    block(scope);
    in_.go_to(resume);
    callers_.pop_back();
    scope.labels[kEnd] = builder_.next_index();
  }

  void bind(Scope& scope, const Declaration& declaration, const Operand& value, int line) {
    if (value.kind != Operand::Kind::Symbol || value.space != Space::Call)
      source_.error(line, fmt::format("'{}' is not a .param of the caller", value.text));
    scope.names[declaration.name] = value;
  }

  // ---- the end ----

  const uint32_t* find_label(const Scope* scope, std::string_view label) const {
    for (; scope; scope = scope->parent) {
      if (const auto found = scope->labels.find(label); found != scope->labels.end())
        return &found->second;
    }
    return nullptr;
  }

  uint32_t label_target(const Fixup& fixup, std::string_view label) const {
    const uint32_t* const target = find_label(fixup.scope, label);
    if (!target) source_.error(fixup.line, fmt::format("the label '{}' is not known", label));
    return *target;
  }

  void finish_code(int line) {
    Statement exit;
    exit.opcode = "exit";
    exit.line = line;
    decode(builder_, exit);
    for (const Fixup& fixup : fixups_) {
      Instruction& instruction = kernel_.code[fixup.instruction];
      if (!fixup.table) {
        instruction.target = label_target(fixup, fixup.label);
        continue;
      }
      const std::vector<std::string_view>* table = nullptr;
      for (const Scope* scope = fixup.scope; scope && !table; scope = scope->parent) {
        if (const auto found = scope->tables.find(fixup.label); found != scope->tables.end())
          table = &found->second;
      }
      if (!table)
        source_.error(fixup.line, fmt::format("the table '{}' is not known", fixup.label));
      std::vector<uint32_t> targets;
      for (const std::string_view label : *table) targets.push_back(label_target(fixup, label));
      instruction.target = static_cast<uint32_t>(targets.size());
      instruction.list = builder_.add_list(std::move(targets));
    }
  }

  static constexpr std::string_view kEnd = "end of the call";

  TokenReader& in_;
  const std::vector<Token>& tokens_;
  const SourceText& source_;
  const ModuleNames& names_;
  KernelData& kernel_;
  KernelBuilder builder_;
  std::deque<Scope> scopes_;
  std::vector<Fixup> fixups_;
  std::vector<Caller> callers_;
  std::map<size_t, uint32_t> shared_at_;  // by token, or behind all tokens by name
  std::set<std::string_view> placed_;
  uint32_t dynamic_alignment_ = 1;
};

}  // namespace

void parse_body(TokenReader& in, const std::vector<Token>& tokens, const SourceText& source,
                const ModuleNames& names, const std::vector<Declaration>& parameters,
                KernelData& kernel) {
  BodyParser(in, tokens, source, names, kernel).run(parameters);
}

}  // namespace mezzo::ptx::detail
