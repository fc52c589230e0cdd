// SPDX-License-Identifier: Apache-2.0
#include <mezzo/passes/pass_manager.h>

#include <mezzo/ir/error.h>
#include <mezzo/ir/hash.h>
#include <mezzo/ir/hash128.h>
#include <mezzo/ir/parser.h>
#include <mezzo/ir/printer.h>
#include <mezzo/ir/verifier.h>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <new>
#include <utility>

namespace mezzo::passes {

namespace {

using ir::Module;

std::string path_in(const std::string& folder, const std::string& file) {
  return folder.empty() ? file : (std::filesystem::path(folder) / file).string();
}

/// True when the whole text stands in the file.
bool write_file(const std::string& path, std::string_view text) {
  std::error_code ignored;
  std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder, ignored);
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  return !out.fail();
}

/// What the verifier finds, a line each; empty for a valid module.
std::string faults(const Module& module) {
  std::string out;
  for (const ir::VerifierFinding& finding : ir::verify(module))
    out += (out.empty() ? "" : "\n") + to_string(finding);
  return out;
}

/// `plan-kernels {target = ...}`: the machine is known to every pass, those before included.
void resolve_target(const Pipeline& pipeline, PassContext& context) {
  for (const PipelineStep& step : pipeline) {
    std::string name = step.options.get_string("target");
    if (name.empty() || name == context.target.name) continue;
    // `native` stands for facts that only codegen can ask for; the caller has put them there.
    if (name == "native" && !context.target.name.empty()) continue;
    context.target = ir::target_by_name(name);
  }
}

/// One run over a module; holds what the steps share.
class Run {
 public:
  Run(Module& module, const Pipeline& pipeline, const ManagerOptions& options, PassContext& context)
      : module_(module), pipeline_(pipeline), options_(options), context_(context) {
    size_t limit = pipeline.size();
    if (options.debug.stop_after)
      limit = std::min(limit, static_cast<size_t>(*options.debug.stop_after));
    limit_ = limit;
  }

  PipelineReport run();

 private:
  bool skipped(const PipelineStep& step) const { return options_.debug.skips(step.pass->name); }
  void run_step(size_t index);
  void check(size_t index, bool said_changed, const ir::Digest& before);
  void dump(size_t index, bool changed) const;
  void write(const std::string& file, std::string_view text) const;
  [[noreturn]] void fail(size_t index, const char* where, std::string what) const;
  std::pair<std::unique_ptr<Module>, size_t> module_before(size_t index) const;
  void refuse_early(size_t index, Module& module) const;
  [[noreturn]] void blame_skip(const UserError& error) const;
  std::string write_reproducer(size_t first, size_t last, Module& module) const;
  size_t first_breaking_step() const;

  Module& module_;
  const Pipeline& pipeline_;
  const ManagerOptions& options_;
  PassContext& context_;
  size_t limit_;
  std::unique_ptr<Module> input_;  // what a reproducer starts from
  ir::Digest hash_;
  PipelineReport report_;
};

void Run::write(const std::string& file, std::string_view text) const {
  if (options_.sink) return options_.sink(file, text);
  if (options_.debug.to.empty()) {
    std::fwrite(text.data(), 1, text.size(), stderr);
    return;
  }
  std::string path = path_in(options_.debug.to, file);
  if (!write_file(path, text))
    throw UserError({}, "cannot write the dump '" + path + "'",
                    "`to=` names a folder that can be written");
}

void Run::dump(size_t index, bool changed) const {
  const char* name = pipeline_[index].pass->name;
  if (!options_.debug.dumps_after(name, changed)) return;
  std::string banner = fmt::format("// -----// IR after {} ({}/{}), {} //----- //\n", name,
                                   index + 1, pipeline_.size(), changed ? "changed" : "unchanged");
  write(fmt::format("{:02}-{}.mz", index + 1, name),
        banner + ir::print(module_, {.locations = options_.debug.locs}));
}

/// The module before step `index` and that step, made again from the input: passes are
/// deterministic, and a copy before each of them would cost more than the passes. The input and
/// step 0 when what ran before does not run again.
std::pair<std::unique_ptr<Module>, size_t> Run::module_before(size_t index) const {
  std::unique_ptr<Module> module = input_->clone();
  PassContext context;
  context.target = context_.target;
  try {
    for (size_t i = 0; i < index; ++i) {
      if (skipped(pipeline_[i])) continue;
      context.options = pipeline_[i].options;
      pipeline_[i].pass->run(*module, context);
    }
  } catch (const std::exception&) {
    return {input_->clone(), 0};
  }
  return {std::move(module), index};
}

/// A pass that gives a stage takes the one before it; where it stumbles over what an earlier pass
/// would have replaced it was asked for too early, by a pipeline or `skip=`: the user's fault.
void Run::refuse_early(size_t index, Module& module) const {
  const PassInfo& pass = *pipeline_[index].pass;
  if (!pass.gives) return;
  const ir::Stage stage = module.stage();
  if (stage >= pass.latest) return;
  module.set_stage(pass.latest);
  std::vector<ir::VerifierFinding> findings = ir::verify(module);
  module.set_stage(stage);
  if (findings.empty()) return;
  blame_skip(UserError(
      {},
      fmt::format("pass '{}' takes a module of stage {}, this one has stage {}: {}", pass.name,
                  ir::to_string(pass.latest), ir::to_string(stage), to_string(findings.front())),
      "let the passes before it run first; `mezzo opt --pipeline=train` runs them all"));
}

std::string Run::write_reproducer(size_t first, size_t last, Module& module) const {
  Pipeline rest;
  for (size_t i = first; i <= last; ++i)
    if (!skipped(pipeline_[i])) rest.push_back(pipeline_[i]);
  module.attrs().set("pipeline", print_pipeline(rest));
  std::string text = ir::print(module);
  std::string hash = ir::Hash128().update(std::string_view(text)).hex().substr(0, 16);
  std::string path = path_in(options_.debug.to, "mezzo-repro-" + hash + ".mz");
  return write_file(path, text) ? path : "";
}

void Run::fail(size_t index, const char* where, std::string what) const {
  constexpr std::string_view kPrefix = "internal error: ";
  if (what.starts_with(kPrefix)) what.erase(0, kPrefix.size());
  auto [module, first] = module_before(index);
  if (first == index) refuse_early(index, *module);
  std::string text =
      fmt::format("internal error {} pass '{}': {}", where, pipeline_[index].pass->name, what);
  std::string note;
  try {
    std::string path = write_reproducer(first, index, *module);
    note = path.empty() ? "\nnote: no reproducer, its file could not be written"
                        : "\nnote: `mezzo opt " + path + "` shows it again";
  } catch (const std::exception& error) {
    note = std::string("\nnote: no reproducer, the module does not print: ") + error.what();
  }
  throw InternalError(text + note);
}

/// After a step: the pass told the truth, and what it left is valid.
void Run::check(size_t index, bool said_changed, const ir::Digest& before) {
  if (!said_changed && !(hash_ == before))
    fail(index, "after", "the pass says that it changed nothing, but the module differs");
  if (options_.verify || options_.debug.verify_roundtrip) {
    if (std::string found = faults(module_); !found.empty()) fail(index, "after", found);
  }
  if (options_.debug.verify_roundtrip) {
    std::string text = ir::print(module_), again;
    ir::Digest digest;
    try {
      const std::unique_ptr<ir::Module> read = ir::parse(text, pipeline_[index].pass->name);
      again = ir::print(*read);
      digest = ir::structural_hash(*read);
    } catch (const Error& error) {
      fail(index, "after", std::string("the module does not read back: ") + error.what());
    }
    if (again != text) fail(index, "after", "the module reads back as another one");
    if (!(digest == ir::structural_hash(module_)))
      fail(index, "after", "the module has a part that its text does not show");
  }
}

/// An error after a pass of this pipeline that `skip=` left out may be its doing: says that it was
/// left out.
void Run::blame_skip(const UserError& error) const {
  std::string left_out;
  for (const std::string& pass : options_.debug.skip) {
    const bool here = std::ranges::any_of(
        pipeline_, [&](const PipelineStep& step) { return pass == step.pass->name; });
    if (here) left_out += (left_out.empty() ? "skip=" : ",skip=") + pass;
  }
  if (left_out.empty()) throw error;
  throw UserError(
      error.location(), error.message(),
      error.hint() + (error.hint().empty() ? "" : "; ") + "MEZZO_DEBUG has '" + left_out + "'");
}

void Run::run_step(size_t index) {
  const PipelineStep& step = pipeline_[index];
  StepReport entry{.pass = step.pass};
  if (skipped(step)) {
    entry.skipped = true;
    report_.steps.push_back(entry);
    return;
  }
  context_.options = step.options;
  bool said_changed = false;
  auto start = std::chrono::steady_clock::now();
  try {
    said_changed = step.pass->run(module_, context_);
  } catch (const InternalError& error) {
    fail(index, "in", error.what());
  } catch (const UserError& error) {
    blame_skip(error);
  } catch (const Error&) {
    throw;  // the machine's fault
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    fail(index, "in", error.what());
  }
  std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
  entry.milliseconds = time.count();
  ir::Digest before = std::exchange(hash_, ir::structural_hash(module_));
  check(index, said_changed, before);
  entry.changed = !(hash_ == before);
  report_.steps.push_back(entry);
  dump(index, entry.changed);
  if (options_.observe) options_.observe(step.pass, module_);
}

/// The module is broken at the end: runs again from the input to find the pass that broke it.
size_t Run::first_breaking_step() const {
  std::unique_ptr<Module> module = input_->clone();
  PassContext context;
  context.target = context_.target;
  for (size_t i = 0; i + 1 < limit_; ++i) {
    if (skipped(pipeline_[i])) continue;
    context.options = pipeline_[i].options;
    pipeline_[i].pass->run(*module, context);
    if (!faults(*module).empty()) return i;
  }
  return limit_ - 1;
}

PipelineReport Run::run() {
  if (options_.debug.stop_after && static_cast<size_t>(*options_.debug.stop_after) > limit_)
    throw UserError(
        {},
        fmt::format("MEZZO_DEBUG: 'stop-after={}' is past the end: the pipeline has {}",
                    *options_.debug.stop_after, ir::counted(pipeline_.size(), "pass", "passes")),
        pipeline_.empty() ? "" : "it is '" + print_pipeline(pipeline_) + "'");
  Pipeline wanted;
  for (size_t i = 0; i < limit_; ++i)
    if (!skipped(pipeline_[i])) wanted.push_back(pipeline_[i]);
  check_stages(wanted, module_.stage());
  resolve_target(pipeline_, context_);
  if (options_.debug.dumps("pipeline"))
    write("pipeline.txt", "// pipeline: " + print_pipeline(wanted) + "\n");
  check_valid(module_);
  input_ = module_.clone();
  hash_ = ir::structural_hash(module_);
  if (options_.observe) options_.observe(nullptr, module_);
  size_t known = context_.findings.size();
  for (size_t i = 0; i < limit_; ++i) run_step(i);
  if (std::string found = faults(module_); !found.empty())
    fail(first_breaking_step(), "after", found);
  report_.findings.assign(context_.findings.begin() + static_cast<std::ptrdiff_t>(known),
                          context_.findings.end());
  if (options_.debug.time) write("times.txt", print_times(report_));
  return std::move(report_);
}

}  // namespace

PipelineReport run_pipeline(Module& module, const Pipeline& pipeline, const ManagerOptions& options,
                            PassContext& context) {
  return Run(module, pipeline, options, context).run();
}

void check_valid(const Module& module) {
  if (std::string found = faults(module); !found.empty())
    throw UserError({}, "the module is not valid\n" + found);
}

std::string print_times(const PipelineReport& report) {
  std::string out;
  double sum = 0;
  for (const StepReport& step : report.steps) {
    const char* word = step.skipped ? "skipped" : step.changed ? "changed" : "unchanged";
    out += fmt::format("{:9.3f} ms  {}, {}\n", step.milliseconds, step.pass->name, word);
    sum += step.milliseconds;
  }
  return out +
         fmt::format("{:9.3f} ms  {}\n", sum, ir::counted(report.steps.size(), "pass", "passes"));
}

}  // namespace mezzo::passes
