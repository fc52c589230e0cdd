// SPDX-License-Identifier: Apache-2.0
// Declarations of a module: kernels, functions, variables with what they hold at the start.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <ptx/body_parser.h>

namespace mezzo::ptx::detail {

namespace {

class ModuleParser {
 public:
  ModuleParser(std::string_view text, ModuleData& module)
      : source_(text), tokens_(tokenize(text)), in_(tokens_, source_), module_(module) {}

  void run() {
    find_files();
    while (in_.peek().kind != Token::Kind::End) top_level();
    if (!module_.version) in_.error("no '.version'");
    if (!module_.target) in_.error("no '.target'");
  }

 private:
  /// NVRTC writes `.file` behind the kernels that refer to it.
  void find_files() {
    for (size_t i = 0; i + 2 < tokens_.size(); ++i) {
      if (tokens_[i].text != ".file" || tokens_[i + 2].kind != Token::Kind::String) continue;
      names_.files[std::atoi(std::string(tokens_[i + 1].text).c_str())] =
          std::string(tokens_[i + 2].text);
    }
  }

  void top_level() {
    if (in_.take(";")) return;
    const Token token = in_.expect_word();
    const std::string_view word = token.text;
    if (word == ".version") {
      const std::string_view number = in_.next().text;
      const size_t dot = number.find('.');
      if (dot == std::string_view::npos) in_.error(token.line, "a version is MAJOR.MINOR");
      module_.version = 10 * std::atoi(std::string(number.substr(0, dot)).c_str()) +
                        std::atoi(std::string(number.substr(dot + 1)).c_str());
    } else if (word == ".target") {
      target(token.line);
    } else if (word == ".address_size") {
      if (in_.integer() != 64) in_.error(token.line, "addresses of 64 bits expected");
    } else if (word == ".file" || word == ".loc") {
      in_.skip_line(token.line);
    } else if (word == ".section") {
      while (!in_.take("{")) in_.next();
      in_.skip_braces();
    } else if (word == ".pragma") {
      while (!in_.take(";")) in_.next();
    } else if (word == ".visible" || word == ".weak" || word == ".common") {
      return;  // of what follows
    } else if (word == ".extern") {
      external_ = true;
      return;
    } else if (word == ".entry") {
      kernel();
    } else if (word == ".func") {
      function();
    } else if (word == ".global" || word == ".const") {
      variable(token.line);
    } else if (word == ".shared") {
      const Declaration declaration = in_.declaration();
      in_.expect(";");
      names_.shared[declaration.name] = declaration;
    } else {
      in_.error(token.line, fmt::format("the directive '{}' is not known", word));
    }
    external_ = false;
  }

  void target(int line) {
    const std::string_view name = in_.expect_word().text;
    if (name.substr(0, 3) != "sm_") in_.error(line, "a target 'sm_N' expected");
    module_.target = std::atoi(std::string(name.substr(3)).c_str());
    while (in_.take(",")) in_.expect_word();
  }

  void kernel() {
    KernelData& kernel = module_.kernels.emplace_back();
    kernel.name = std::string(in_.expect_word().text);
    std::vector<Declaration> parameters;
    if (in_.at("(")) parameters = parameter_list();
    for (const Declaration& each : parameters) {
      const uint32_t at =
          (kernel.parameter_bytes + each.alignment - 1) / each.alignment * each.alignment;
      kernel.parameters.push_back({at, static_cast<uint32_t>(each.bytes), each.alignment});
      kernel.parameter_bytes = at + static_cast<uint32_t>(each.bytes);
    }
    header(&kernel);
    if (in_.take(";")) {
      module_.kernels.pop_back();  // declared only
      return;
    }
    in_.expect("{");
    parse_body(in_, tokens_, source_, names_, parameters, kernel);
  }

  std::vector<Declaration> parameter_list() {
    std::vector<Declaration> result;
    in_.expect("(");
    while (!in_.take(")")) {
      if (!result.empty()) in_.expect(",");
      const Token token = in_.expect_word();
      if (token.text != ".param")
        in_.error(token.line, fmt::format("parameters in '{}' are not known", token.text));
      result.push_back(in_.declaration());
    }
    return result;
  }

  uint64_t up_to_three(uint32_t (&values)[3]) {
    uint64_t product = 1;
    for (int i = 0; i < 3; ++i) values[i] = 1;
    for (int i = 0; i < 3; ++i) {
      values[i] = static_cast<uint32_t>(in_.integer());
      product *= values[i];
      if (!in_.take(",")) break;
    }
    return product;
  }

  /// Directives between the parameters and the body.
  void header(KernelData* kernel) {
    while (in_.peek().kind == Token::Kind::Word) {
      const Token token = in_.next();
      uint32_t values[3];
      if (token.text == ".maxntid" && kernel) {
        kernel->max_threads = static_cast<uint32_t>(std::min<uint64_t>(up_to_three(values), 1024));
      } else if (token.text == ".reqntid" && kernel) {
        kernel->max_threads = static_cast<uint32_t>(up_to_three(values));
        kernel->required = {values[0], values[1], values[2]};
      } else if (token.text == ".minnctapersm" || token.text == ".maxnctapersm" ||
                 token.text == ".maxnreg" || token.text == ".maxclusterrank") {
        in_.integer();
      } else if (token.text == ".pragma") {
        while (!in_.take(";")) in_.next();
      } else if (token.text != ".noreturn") {
        in_.error(token.line, fmt::format("the directive '{}' is not known", token.text));
      }
    }
  }

  void function() {
    Function function;
    if (in_.at("(")) function.results = parameter_list();
    const Token name = in_.expect_word();
    if (in_.at("(")) function.parameters = parameter_list();
    header(nullptr);
    if (in_.take("{")) {
      function.body = in_.position();
      in_.skip_braces();
    } else {
      in_.expect(";");
    }
    Function& known = names_.functions[name.text];
    if (!known.body) known = std::move(function);
  }

  void variable(int line) {
    const Declaration declaration = in_.declaration();
    if (external_)
      in_.error(line, fmt::format("'{}' is defined in another module", declaration.name));
    const auto address = module_.memory->allocate(declaration.bytes);
    if (!address) throw std::bad_alloc();
    module_.variables.emplace(std::string(declaration.name),
                              Module::Variable{*address, declaration.bytes});
    std::byte* const to = module_.memory->host(*address);
    std::memset(to, 0, declaration.bytes);
    Operand symbol;
    symbol.kind = Operand::Kind::Symbol;
    symbol.space = Space::Global;
    symbol.bits = *address;
    symbol.text = declaration.name;
    names_.variables[declaration.name] = symbol;
    if (in_.take("=")) {
      uint64_t at = 0;
      initializer(declaration, to, at);
    }
    in_.expect(";");
  }

  void initializer(const Declaration& declaration, std::byte* to, uint64_t& at) {
    if (in_.take("{")) {
      while (!in_.take("}")) {
        initializer(declaration, to, at);
        if (!in_.at("}")) in_.expect(",");
      }
      return;
    }
    const int line = in_.peek().line;
    uint64_t bits = 0;
    if (in_.peek().kind == Token::Kind::Word) {
      const bool generic = in_.take("generic");
      if (generic) in_.expect("(");
      const Token name = in_.expect_word();
      const auto found = names_.variables.find(name.text);
      if (found == names_.variables.end())
        in_.error(name.line, fmt::format("'{}' is not declared", name.text));
      bits = found->second.bits;
      if (generic) in_.expect(")");
      if (in_.take("+")) bits += in_.integer();
      if (declaration.element.bytes != 8) in_.error(line, "an address needs 64 bits");
    } else {
      bits = in_.number().bits;
    }
    if (at + declaration.element.bytes > declaration.bytes)
      in_.error(line, fmt::format("'{}' has fewer elements", declaration.name));
    std::memcpy(to + at, &bits, declaration.element.bytes);
    at += declaration.element.bytes;
  }

  SourceText source_;
  std::vector<Token> tokens_;
  TokenReader in_;
  ModuleData& module_;
  ModuleNames names_;
  bool external_ = false;
};

}  // namespace

void parse_module(std::string_view text, ModuleData& module) { ModuleParser(text, module).run(); }

}  // namespace mezzo::ptx::detail
