// SPDX-License-Identifier: Apache-2.0
#include <fuzz/checks.h>

#include <mezzo/codegen/llvm/support.h>
#include <mezzo/ir/builder.h>
#include <mezzo/ir/error.h>
#include <mezzo/ir/interpreter.h>
#include <mezzo/ir/parser.h>
#include <mezzo/ir/printer.h>
#include <mezzo/passes/grad_function.h>
#include <mezzo/passes/pass_manager.h>

#include <fmt/format.h>

#include <numeric>
#include <set>
#include <unordered_map>

namespace mezzo::test {

using ir::InterpreterTensor;

namespace {

runtime::CompileOptions as_written(bool fuse, int threads = 1) {
  runtime::CompileOptions options = in_memory();
  options.rounding = "as-written";
  options.fuse = fuse;
  options.threads = threads;
  options.debug.to = "/dev/null";  // no reproducers: the shrunk module is one
  return options;
}

std::string compare(const char* name, const Tensors& got, const Tensors& wanted) {
  for (size_t i = 0; i < wanted.size(); ++i)
    if (std::string difference = describe_difference(got[i], wanted[i]); !difference.empty())
      return fmt::format("{}, result {}: {}", name, i, difference);
  return "";
}

std::string compare_flags(const char* name, const Outcome& got, const Outcome& wanted) {
  if (got.words != wanted.words) {
    for (size_t i = 0; i < std::max(got.words.size(), wanted.words.size()); ++i) {
      uint32_t a = i < got.words.size() ? got.words[i] : ~0u;
      uint32_t b = i < wanted.words.size() ? wanted.words[i] : ~0u;
      if (a != b) return fmt::format("{}: flag word {} is {}, not {}", name, i, a, b);
    }
  }
  if (got.index_out_of_range != wanted.index_out_of_range)
    return fmt::format("{}: the index flag is {}", name, got.index_out_of_range);
  return "";
}

Tensors interpret(const ir::Module& module, const Tensors& inputs) {
  return ir::run(module, *module.functions()[0], inputs).results;
}

}  // namespace

std::string guarded(const std::function<std::string()>& check) {
  try {
    return check();
  } catch (const std::exception& error) {
    return std::string("exception: ") + error.what();
  }
}

std::string check_passes(const ir::Module& module, const Tensors& inputs, bool equal_bits) {
  std::unique_ptr<ir::Module> copy = module.clone();
  Tensors wanted = interpret(module, inputs);
  passes::Pipeline pipeline = passes::pipeline_by_name("infer");
  passes::set_rounding(pipeline, "as-written");
  passes::ManagerOptions options;
  options.verify = true;
  options.debug.verify_roundtrip = true;
  options.debug.to = "/dev/null";
  passes::PassContext context;
  context.target = codegen::native_target();
  for (const passes::PipelineStep& step : pipeline) {
    passes::PipelineReport report = passes::run_pipeline(*copy, {step}, options, context);
    if (!report.steps[0].changed) continue;
    // Whole and decomposed composites differ by roundings; what follows must not.
    Tensors now = interpret(*copy, inputs);
    bool decompose = std::string_view(step.pass->name) == "decompose";
    if (equal_bits || !decompose)
      if (std::string difference = compare(step.pass->name, now, wanted); !difference.empty())
        return "after pass " + difference;
    wanted = std::move(now);
  }
  return "";
}

std::string check_exact(const ir::Module& module, const Tensors& inputs) {
  Tensors wanted = interpret(module, inputs);
  for (bool fuse : {true, false}) {
    const char* name = fuse ? "fused kernels" : "unfused kernels";
    auto executable = runtime::compile(module.clone(), "f", as_written(fuse));
    Outcome got = run_compiled(*executable, inputs);
    if (std::string d = compare(name, got.results, wanted); !d.empty()) return d;
    Outcome planned = run_interpreted(*executable, inputs);
    if (std::string d = compare_flags(name, got, planned); !d.empty()) return d;
    if (!fuse) break;
    auto threaded = runtime::compile(module.clone(), "f", as_written(true, 2));
    Outcome again = run_compiled(*threaded, inputs);
    if (std::string d = compare("two threads", again.results, wanted); !d.empty()) return d;
    if (std::string d = compare_flags("two threads", again, planned); !d.empty()) return d;
  }
  return "";
}

std::string check_threads(const ir::Module& module, const Tensors& inputs, int64_t& threaded) {
  Tensors wanted = interpret(module, inputs);
  for (bool fuse : {true, false}) {
    Outcome single;
    for (int threads : {1, 2}) {
      auto executable = runtime::compile(module.clone(), "f", as_written(fuse, threads));
      Outcome got = run_compiled(*executable, inputs);
      std::string name = fmt::format("{}, {} threads", fuse ? "fused" : "unfused", threads);
      if (std::string d = compare(name.c_str(), got.results, wanted); !d.empty()) return d;
      if (threads == 1)
        single = std::move(got);
      else if (std::string d = compare_flags(name.c_str(), got, single); !d.empty())
        return d;
      threaded += threads == 2 ? kernels_for_two_threads(*executable) : 0;
    }
  }
  return "";
}

std::string check_fusion(const ir::Module& module, const Tensors& inputs) {
  auto fused = runtime::compile(module.clone(), "f", as_written(true));
  auto unfused = runtime::compile(module.clone(), "f", as_written(false));
  return compare("fused and unfused", run_compiled(*fused, inputs).results,
                 run_compiled(*unfused, inputs).results);
}

std::string check_excess(const ir::Module& module, const Tensors& inputs) {
  runtime::CompileOptions options = as_written(true);
  options.rounding = "excess";
  auto executable = runtime::compile(module.clone(), "f", options);
  Outcome got = run_compiled(*executable, inputs);
  Outcome wanted = run_interpreted(*executable, inputs);
  if (std::string d = compare("excess", got.results, wanted.results); !d.empty()) return d;
  return compare_flags("excess", got, wanted);
}

std::string check_ops(const ir::Module& module, const Tensors& inputs, bool fuse,
                      Records* records) {
  const ir::Function& function = *module.functions()[0];
  auto executable = runtime::compile(module.clone(), function.name(), as_written(fuse));
  Tensors got = run_compiled(*executable, inputs).results;
  std::unordered_map<const ir::ValueDef*, const InterpreterTensor*> values;
  for (int i = 0; i < function.num_parameters(); ++i)
    values[function.parameter(i).def()] = &inputs[static_cast<size_t>(i)];
  std::vector<ir::Value> results = function.results();
  for (size_t i = 0; i < results.size(); ++i) values[results[i].def()] = &got[i];
  for (const ir::Op& op : function.body()) {
    Tensors operands;
    bool known = true;
    for (ir::Value operand : op.operands()) {
      known &= values.contains(operand.def());
      if (known) operands.push_back(*values.at(operand.def()));
    }
    if (!known) continue;  // while shrinking
    for (int result = 0; result < op.num_results(); ++result) {
      auto value = values.find(op.result(result).def());
      if (value == values.end()) continue;
      Judgement verdict = judge(op, operands, *value->second, result);
      if (records) {
        OpRecord& record = (*records)[op.info().name];
        record.worst = std::max(record.worst, verdict.worst);
        record.worst_ulp = std::max(record.worst_ulp, verdict.worst_ulp);
      }
      if (!verdict.difference.empty())
        return fmt::format("{} {}, result {}: {}", fuse ? "fused" : "unfused", ir::print(op),
                           result, verdict.difference);
    }
  }
  return "";
}

std::unique_ptr<ir::Module> gradient_module(const ir::Module& module) {
  std::unique_ptr<ir::Module> copy = module.clone();
  ir::Function& function = *copy->functions()[0];
  ir::Builder builder(function.body().terminator());
  std::vector<ir::Value> sums;
  for (ir::Value result : function.results()) {
    if (!ir::is_float(result.dtype())) continue;
    std::vector<int64_t> axes(static_cast<size_t>(result.type().rank()));
    std::iota(axes.begin(), axes.end(), 0);
    sums.push_back(builder.make(ir::OpKind::Sum, {builder.cast(result, ir::DType::F32)},
                                {{"axes", ir::Attr(axes)}}));
  }
  std::vector<std::string> wrt;
  for (ir::Value parameter : function.parameters())
    if (ir::is_float(parameter.dtype())) wrt.emplace_back(parameter.name());
  if (sums.empty() || wrt.empty()) return nullptr;
  const ir::Value loss = builder.create(ir::OpKind::AddN, sums)->result();
  function.set_results(std::vector<ir::Value>{loss}, {ir::Attrs()});
  try {
    passes::PassContext context;
    passes::append_gradient_function(*copy, function.name(), wrt, std::nullopt, context);
  } catch (const UserError& error) {
    if (std::string_view(error.what()).find("has no derivative here") == std::string_view::npos)
      throw;
    return nullptr;
  }
  copy->erase_function(&function);
  return copy;
}

std::string check_gradients(const ir::Module& module, const Tensors& inputs, int64_t& counted,
                            Records* records) {
  std::unique_ptr<ir::Module> gradient = gradient_module(module);
  if (!gradient) return "";
  ++counted;
  if (records) count_ops(*gradient, *records);
  std::string text = ir::print(*gradient);
  if (ir::print(*ir::parse(text)) != text) return "the gradient reads back otherwise";
  if (std::string found = check_passes(*gradient, inputs, false); !found.empty())
    return "gradient " + found;
  ir::Function& function = *gradient->functions()[0];
  std::vector<ir::Value> values = function.results();
  for (ir::Op& op : function.body())
    if (op.kind() != ir::OpKind::Return)
      for (ir::Value value : op.results()) values.push_back(value);
  function.set_results(values, std::vector<ir::Attrs>(values.size()));
  for (bool fuse : {true, false})
    if (std::string found = check_ops(*gradient, inputs, fuse, records); !found.empty())
      return "gradient, " + found;
  return "";
}

void count_ops(const ir::Module& module, Records& records) {
  std::set<std::string> names;
  for (const ir::Op& op : module.functions()[0]->body()) names.insert(op.info().name);
  for (const std::string& name : names) ++records[name].graphs;
}

}  // namespace mezzo::test
