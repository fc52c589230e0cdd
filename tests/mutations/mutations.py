# SPDX-License-Identifier: Apache-2.0
# Faults of the product, in passes, emitters and the interpreter, that the tests must find. A fault is
# one replaced piece of text; a test that passes with it is told, and the exit status is 1.
#
#   git worktree add ../mutants
#   python3 tests/mutations/mutations.py --tree=../mutants [--only=NAME] [--jobs=N]
#
# The tree is built with the preset `release`, changed, and changed back. Every fault compiles one
# file, links, and runs the tests that are named beside it; the first test case that fails is
# printed.
import argparse
import pathlib
import re
import subprocess
import sys

# name, file, what is replaced, by what, CTest names
MUTATIONS = [
    ("canonicalize drops x + 0 for -0", "passes/canonicalize_algebra.cpp",
     "double zero = is_float(op) ? -0.0 : 0.0;", "double zero = 0.0;", "passes|fuzz"),
    ("constant-fold folds what is not exact", "passes/constant_fold.cpp",
     "return op.info().has(ir::Trait::Exact) &&", "return", "passes|fuzz"),
    ("cse ignores attributes", "passes/cse.cpp", 'if (name == "word" ||', 'if (name != "value" ||', "passes|fuzz"),
    ("cast-cleanup takes narrowing for exact", "passes/cast_cleanup.cpp",
     "return to == DType::F32 && is_16bit(from);", "return is_16bit(from) || is_16bit(to);", "passes|fuzz"),
    ("autocast leaves wide operands narrow", "passes/autocast.cpp",
     "if (op.info().precision_of(i) == Precision::Wide)", "if (false)", "passes"),
    ("autodiff of sigmoid forgets 1 - y", "passes/grad_elementwise.cpp",
     "c.accumulate_product(0, c.make(OpKind::Mul, {y, rest}));", "c.accumulate_product(0, rest);", "gradients"),
    ("autodiff of a batch's variance forgets what the rounded mean lacks", "passes/grad_norm.cpp",
     "centred = c.make(OpKind::Sub, {centred, c.result(3)});", "", "dsl"),
    ("decompose divides a variance by n", "passes/decompose_statistics.cpp",
     'static_cast<double>(op.int_attr("correction")));', "0.0);", "op_kernels"),
    ("recompute reads a relu that comes later", "passes/recompute.cpp",
     "relu->second > order.at(&op)", "relu->second > order.at(&op) + 1000", "passes"),
    ("fuse hides an op in a kernel of nothing", "passes/fuse_groups.cpp",
     "return op.num_operands() > 0 && !is_empty(op)", "return false && !is_empty(op)", "found_cases|edge_shapes"),
    ("fuse leaves a tensor of a chain to the backward pass", "passes/fuse_groups.cpp",
     "is_forward(from) && !is_forward(to)", "false && !is_forward(to)", "passes"),
    ("fuse makes a chain of one task over a large space", "passes/fuse_groups.cpp",
     ">= 2 * kBytesOfChain", ">= 0 * kBytesOfChain", "passes"),
    ("round-mode widens a stored value", "passes/round_mode.cpp",
     "stored.contains(result.def()) ||", "", "passes|fuzz"),
    ("plan-memory overwrites what is read later", "passes/plan_memory.cpp",
     "if (last != last_read_.end() && last->second > order_.at(writer)) return false;", "", "passes|train|runtime"),
    ("CPU rounding to 16 bits is left out", "codegen/llvm/region_emitter.cpp",
     "bool exact = ir::needs_no_rounding(op.kind());", "bool exact = ir::is_16bit(op.result().dtype());", "fuzz"),
    ("CPU elementwise tail has a lane too few", "codegen/llvm/emit_elementwise.cpp",
     "frame.lane_mask(b.CreateSub(end, middle), lanes)",
     "frame.lane_mask(b.CreateSub(b.CreateSub(end, middle), b.getInt64(1)), lanes)", "op_kernels"),
    ("CPU flags of wide vectors go to another word", "codegen/llvm/region_ops.cpp",
     "flags_[{word, lanes, bit}]", "flags_[{word + lanes / 64, lanes, bit}]", "runtime"),
    ("CPU transposition skips the last tile", "codegen/llvm/emit_elementwise.cpp",
     "emitter.index(inner), kTileColumns,", "emitter.index(inner - inner % kTileColumns), kTileColumns,", "op_kernels"),
    ("CPU row maximum loses NaN", "codegen/llvm/reduce.cpp",
     "return b.CreateSelect(b.CreateFCmpUNO(x, x), llvm::ConstantInt::get(type, end),",
     "return b.CreateSelect(b.getFalse(), llvm::ConstantInt::get(type, end),", "cases_edges"),
    ("CPU columns skip the last run", "codegen/llvm/emit_columns.cpp",
     "b_.CreateAdd(begin, emitter_.index(grain_)),", "b_.CreateAdd(begin, emitter_.index(grain_ - 1)),", "op_kernels"),
    ("CPU chain takes a costly value from the first place of its buffer", "codegen/llvm/line_buffers.cpp",
     "load(i, element));", "load(i, emitter_.index(0)));", "edge_shapes|op_kernels"),
    ("CUDA chain leaves the sums of a pass to the first row of threads", "codegen/cuda/emit_columns.cpp",
     "columns_.share(sums);", "(void)sums;", "cuda_families"),
    ("CUDA chain leaves the slabs of a pass in the place of the first", "codegen/cuda/emit_columns.cpp",
     '"slab", known);', '"slab", 0);', "cuda_families"),
    ("CPU exclusive scan holds the element itself", "codegen/llvm/emit_scan.cpp",
     "return exclusive_ ? shifted(x, carry, 1) : x;", "return x;", "op_kernels"),
    ("CPU sort turns negative numbers round", "codegen/llvm/emit_sort.cpp",
     "b_.CreateNot(bits), b_.CreateOr(bits, top));", "bits, b_.CreateOr(bits, top));", "op_kernels"),
    ("CPU matmul rounds its products", "codegen/llvm/microkernel.cpp",
     "if (!target_.fma) return", "return", "matmul_core|runtime"),
    ("CPU padding is one place off", "codegen/llvm/region_move.cpp",
     "axis = shifted(b, axis, low[i], size);", "axis = shifted(b, axis, low[i] + 1, size);",
     "op_kernels|fuzz"),
    ("CUDA last block stores beyond the end", "codegen/cuda/emit_elementwise.cpp",
     ".tail = elements % lanes != 0});", ".tail = false});", "op_kernels_cuda|cuda_families"),
    ("CUDA scan forgets the carry of a slice", "codegen/cuda/emit_scan.cpp",
     "for (u32 s = 0; s < slice; ++s) carry", "for (u32 s = 0; s + 1 < slice; ++s) carry",
     "cuda_families|op_kernels_cuda"),
    ("CUDA scatter sorts a digit too few", "codegen/cuda/emit_scatter.cpp",
     "for (int pass = 0; pass < passes(); ++pass)", "for (int pass = 0; pass + 1 < passes(); ++pass)",
     "op_kernels_cuda|cuda_families"),
    ("interpreter takes means in f32", "ir/interpreter_norm.cpp", "using Wide = long double;", "using Wide = float;",
     "op_kernels"),
]


def run(*words, tree, quiet=True):
    return subprocess.run([str(word) for word in words], cwd=tree, capture_output=quiet, text=True)


def targets_of(tree, tests):
    """The executables of the CTest names that the expression matches."""
    listed = run("ctest", "--test-dir", "build/release", "-N", "-V", "-R", f"^({tests})$", tree=tree).stdout
    found = sorted(set(re.findall(r"/tests/bin/(test_\w+)", listed)))
    if not found:
        sys.exit(f"mutations.py: {tree} has no test {tests}")
    return found


def failing_case(output):
    found = re.search(r"^.*TEST CASE: +(.*)$", output, re.MULTILINE)
    return found.group(1) if found else "a test that does not end well"


def check(tree, mutation, jobs):
    name, file, old, new, tests = mutation
    path = tree / file
    text = path.read_text()
    if text.count(old) != 1:
        return f"{file} has {text.count(old)} times '{old}'"
    try:
        path.write_text(text.replace(old, new, 1))
        built = run("ninja", "-C", "build/release", f"-j{jobs}", "bin/mezzo", *targets_of(tree, tests), tree=tree)
        if built.returncode != 0:
            return "does not compile: " + built.stdout[-600:]
        done = run("ctest", "--test-dir", "build/release", "--output-on-failure", "-R", f"^({tests})$", "-j", jobs,
                   tree=tree)
        if done.returncode == 0:
            return f"no test of {tests} fails"
        failed = re.findall(r"Test +#\d+: (\S+) \.+\*\*\*", done.stdout)
        print(f"{name}: {failed[0] if failed else tests}, {failing_case(done.stdout)}", flush=True)
        return None
    finally:
        path.write_text(text)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tree", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--jobs", default="2")
    arguments = parser.parse_args()
    tree = pathlib.Path(arguments.tree).resolve()
    if run("cmake", "--preset", "release", "--log-level=WARNING", tree=tree).returncode != 0:
        sys.exit(f"mutations.py: {tree} cannot be configured")
    alive = 0
    for mutation in MUTATIONS:
        if arguments.only not in mutation[0]:
            continue
        problem = check(tree, mutation, arguments.jobs)
        if problem:
            alive += 1
            print(f"{mutation[0]}: ALIVE: {problem}", flush=True)
    print(f"{alive} alive")
    return 1 if alive else 0


sys.exit(main())
