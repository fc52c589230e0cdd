// SPDX-License-Identifier: Apache-2.0
// Compilation by a light pipeline (emitters write vector code already, so the loop and vectoriser
// passes of O3 would only cost time) and loading by LLJIT. Kernels may call nothing but memory
// moves and the helpers below: conversions and fused multiply-add.
#include <mezzo/codegen/llvm/orc.h>

#include <mezzo/codegen/llvm/module_builder.h>
#include <mezzo/ir/dtype.h>
#include <mezzo/ir/error.h>

#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Instrumentation/AddressSanitizer.h>
#include <llvm/Transforms/Scalar/ADCE.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/LICM.h>
#include <llvm/Transforms/Scalar/SROA.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <mutex>

namespace mezzo::codegen {
namespace {

// The ABI returns and takes half-width floats in vector registers, which g++ 12 can only express by
// _Float16; the bits are what matters, also for bf16, which it has no type for.
__extension__ typedef _Float16 HalfBits;

HalfBits truncate_f32_to_bf16(float value) {
  return std::bit_cast<HalfBits>(ir::f32_to_bf16(value));
}
HalfBits truncate_f64_to_bf16(double value) {
  return std::bit_cast<HalfBits>(ir::f64_to_bf16(value));
}
HalfBits truncate_f32_to_f16(float value) { return std::bit_cast<HalfBits>(ir::f32_to_f16(value)); }
HalfBits truncate_f64_to_f16(double value) {
  return std::bit_cast<HalfBits>(ir::f64_to_f16(value));
}
float extend_f16_to_f32(HalfBits value) { return ir::f16_to_f32(std::bit_cast<uint16_t>(value)); }

void initialize_llvm() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
  });
}

/// Set when the statics of the process are being destroyed, those of LLVM's code generator among
/// them: what still uses this library then, the destructor of an older static, cannot compile.
std::atomic<bool> ending{false};

struct Ending {
  ~Ending() { ending = true; }
};

std::unique_ptr<llvm::TargetMachine> make_machine(const ir::Target& target) {
  if (ending)
    throw UserError({}, "a kernel cannot be compiled any more: the program is ending",
                    "run the function once before main returns; the disk cache then has its "
                    "kernels, or let the interpreter run it");
  static Ending when_it_ends;
  initialize_llvm();
  const std::string triple = "x86_64-unknown-linux-gnu";
  std::string problem;
  const llvm::Target* backend = llvm::TargetRegistry::lookupTarget(triple, problem);
  if (!backend) throw DeviceError("llvm has no back end for " + triple + ": " + problem);
  llvm::TargetOptions options;
  // No contraction: an fma is one that the emitter wrote.
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  std::unique_ptr<llvm::TargetMachine> machine(backend->createTargetMachine(
      triple, "x86-64", feature_string(target), options, llvm::Reloc::PIC_, std::nullopt,
      llvm::CodeGenOptLevel::Default));
  MEZZO_CHECK(machine != nullptr, "llvm gives no target machine for " + ir::to_string(target));
  return machine;
}

void optimize(llvm::Module& module, llvm::TargetMachine& machine, const CompileOptions& options) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager calls;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(calls);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, calls, modules);

  llvm::ModulePassManager passes;
  if (options.optimize) {
    llvm::FunctionPassManager light;
    light.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
    light.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/true));
    light.addPass(llvm::SimplifyCFGPass());
    light.addPass(llvm::InstCombinePass());
    light.addPass(llvm::createFunctionToLoopPassAdaptor(llvm::LICMPass(llvm::LICMOptions()),
                                                        /*UseMemorySSA=*/true));
    light.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/true));
    light.addPass(llvm::ADCEPass());
    light.addPass(llvm::SimplifyCFGPass());
    passes.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(light)));
  }
  if (options.sanitize_address || sanitized_build()) {
    for (llvm::Function& function : module) {
      if (!function.isDeclaration()) function.addFnAttr(llvm::Attribute::SanitizeAddress);
    }
    llvm::AddressSanitizerOptions settings;
    settings.UseAfterReturn = llvm::AsanDetectStackUseAfterReturnMode::Never;
    // No constructor: the process has set its runtime up long before a kernel is loaded.
    passes.addPass(llvm::AddressSanitizerPass(settings, /*UseGlobalGC=*/false,
                                              /*UseOdrIndicator=*/false, llvm::AsanDtorKind::None,
                                              llvm::AsanCtorKind::None));
  }
  passes.run(module, modules);
}

/// Sets layout and triple, verifies, runs the pipeline.
std::unique_ptr<llvm::TargetMachine> prepare(ModuleBuilder& builder,
                                             const CompileOptions& options) {
  llvm::Module& module = builder.module();
  auto machine = make_machine(builder.target());
  module.setTargetTriple(machine->getTargetTriple().str());
  module.setDataLayout(machine->createDataLayout());
  std::string text;
  llvm::raw_string_ostream stream(text);
  if (llvm::verifyModule(module, &stream)) {
    throw InternalError("llvm module '" + module.getName().str() + "' is malformed: " + text);
  }
  optimize(module, *machine, options);
  return machine;
}

llvm::SmallVector<char, 0> emit(ModuleBuilder& builder, const CompileOptions& options,
                                llvm::CodeGenFileType type) {
  auto machine = prepare(builder, options);
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  if (machine->addPassesToEmitFile(passes, stream, nullptr, type)) {
    throw InternalError("llvm cannot write this kind of file for " +
                        ir::to_string(builder.target()));
  }
  passes.run(builder.module());
  return bytes;
}

template <typename T>
T expect(llvm::Expected<T> value, const char* what) {
  if (!value) throw InternalError(std::string(what) + ": " + llvm::toString(value.takeError()));
  return std::move(*value);
}

void expect(llvm::Error error, const char* what) {
  if (error) throw InternalError(std::string(what) + ": " + llvm::toString(std::move(error)));
}

}  // namespace

bool sanitized_build() {
#ifdef __SANITIZE_ADDRESS__  // GCC
  return true;
#else
  return __has_feature(address_sanitizer);  // clang; LLVM's headers define it as 0 elsewhere
#endif
}

ObjectCode compile_module(ModuleBuilder module, const CompileOptions& options) {
  const auto bytes = emit(module, options, llvm::CodeGenFileType::ObjectFile);
  ObjectCode object;
  object.bytes.resize(bytes.size());
  std::memcpy(object.bytes.data(), bytes.data(), bytes.size());
  return object;
}

std::string llvm_text(const ModuleBuilder& module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.module().print(stream, nullptr);
  return text;
}

std::string optimized_llvm_text(ModuleBuilder module, const CompileOptions& options) {
  prepare(module, options);
  return llvm_text(module);
}

std::string assembly_text(ModuleBuilder module, const CompileOptions& options) {
  const auto bytes = emit(module, options, llvm::CodeGenFileType::AssemblyFile);
  return std::string(bytes.begin(), bytes.end());
}

struct Jit::State {
  State() {
    initialize_llvm();
    llvm::orc::JITTargetMachineBuilder machine{llvm::Triple("x86_64-unknown-linux-gnu")};
    machine.setCPU("x86-64");
    jit = expect(llvm::orc::LLJITBuilder().setJITTargetMachineBuilder(machine).create(),
                 "cannot start the jit");
    helpers = &jit->getExecutionSession().createBareJITDylib("mezzo.helpers");
    llvm::orc::SymbolMap symbols;
    auto define = [&](const char* name, auto* function) {
      symbols[jit->mangleAndIntern(name)] = {
          llvm::orc::ExecutorAddr::fromPtr(function),
          llvm::JITSymbolFlags::Exported | llvm::JITSymbolFlags::Callable};
    };
    define("__truncsfbf2", &truncate_f32_to_bf16);
    define("__truncdfbf2", &truncate_f64_to_bf16);
    define("__truncsfhf2", &truncate_f32_to_f16);
    define("__truncdfhf2", &truncate_f64_to_f16);
    define("__extendhfsf2", &extend_f16_to_f32);
    // Processors without fused multiply-add: slow, and the same bits.
    define("fmaf", static_cast<float (*)(float, float, float)>(&std::fma));
    define("fma", static_cast<double (*)(double, double, double)>(&std::fma));
    define("memcpy", &std::memcpy);
    define("memmove", static_cast<void* (*)(void*, const void*, size_t)>(&std::memmove));
    define("memset", &std::memset);
    expect(helpers->define(llvm::orc::absoluteSymbols(std::move(symbols))),
           "cannot define the helpers of kernels");
    // Instrumented kernels also call the runtime of AddressSanitizer, which is part of this
    // process.
    helpers->addGenerator(expect(
        llvm::orc::DynamicLibrarySearchGenerator::GetForCurrentProcess(
            jit->getDataLayout().getGlobalPrefix(),
            [](const llvm::orc::SymbolStringPtr& name) { return (*name).starts_with("__asan_"); }),
        "cannot look into the process"));
  }

  std::unique_ptr<llvm::orc::LLJIT> jit;
  llvm::orc::JITDylib* helpers = nullptr;
  std::atomic<int64_t> next_name{0};
};

struct LoadedCode::State {
  State(std::shared_ptr<Jit::State> owner, llvm::orc::JITDylib& own)
      : jit(std::move(owner)), library(&own) {}
  ~State() {
    // Nothing useful can be done about code that does not unload, and a destructor does not throw.
    llvm::consumeError(jit->jit->getExecutionSession().removeJITDylib(*library));
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  std::shared_ptr<Jit::State> jit;
  llvm::orc::JITDylib* library;
};

void* LoadedCode::find(const std::string& symbol) const {
  MEZZO_CHECK(state_ != nullptr, "symbol '" + symbol + "' asked of an empty handle");
  auto address = expect(state_->jit->jit->lookup(*state_->library, symbol), "cannot link a kernel");
  return address.toPtr<void*>();
}

Jit::Jit() : state_(std::make_shared<State>()) {}
Jit::~Jit() = default;
Jit::Jit(Jit&&) noexcept = default;
Jit& Jit::operator=(Jit&&) noexcept = default;

LoadedCode Jit::load(const ObjectCode& object) {
  auto& session = state_->jit->getExecutionSession();
  const std::string name = "mezzo.object." + std::to_string(state_->next_name++);
  LoadedCode code;
  code.state_ = std::make_shared<LoadedCode::State>(state_, session.createBareJITDylib(name));
  code.state_->library->addToLinkOrder(*state_->helpers);
  auto buffer = llvm::MemoryBuffer::getMemBufferCopy(
      llvm::StringRef(reinterpret_cast<const char*>(object.bytes.data()), object.bytes.size()),
      name);
  expect(state_->jit->addObjectFile(*code.state_->library, std::move(buffer)),
         "cannot load an object");
  return code;
}

}  // namespace mezzo::codegen
