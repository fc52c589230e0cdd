# SPDX-License-Identifier: Apache-2.0
# A second opinion: values and gradients of every family of ops on random and edge inputs, by `mezzo
# run` and by PyTorch. Needs a Python with torch and numpy, best from a virtual environment outside
# the source tree:
#
#   python3 -m venv ../peer && ../peer/bin/pip install torch numpy
#   ../peer/bin/python tests/peer/peer_ops.py [--mezzo=build/release/bin/mezzo] [--device=cpu|interp]
#       [--only=FAMILY] [--list]
#
# PyTorch computes in float64 on the same numbers, Mezzo in f32. A number agrees when it is within
# 2e-5 of the largest number of the tensor or of itself, NaN with NaN, infinity with infinity. What
# differs is printed with the input; what differs by a stated convention of ours (README, "What the
# numbers mean") is listed in CONVENTIONS with the reason and counted apart. The exit status is 1
# when anything else differs.
import argparse
import collections
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import torch
except ImportError:
    sys.exit("peer_ops.py: this Python has no torch or numpy: pip install them in a virtual environment")

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from peer_cases import CONVENTIONS, all_cases  # noqa: E402

TOLERANCE = 2e-5
NAMES = {np.dtype("float32"): "f32", np.dtype("int32"): "i32", np.dtype("int64"): "i64",
         np.dtype("bool"): "bool"}


def type_of(array):
    dims = "x".join(str(n) for n in array.shape)
    return f"tensor<{dims}{'x' if dims else ''}{NAMES[array.dtype]}>"


def value_text(case):
    params = ", ".join(f"%{name}: {type_of(array)}" for name, array in case.inputs.items())
    results = case.result_types()
    outs = results[0] if len(results) == 1 else "(" + ", ".join(results) + ")"
    names = [f"%y{i}" for i in range(len(results))]
    return (f"  func @value({params}) -> {outs} {{\n    {', '.join(names)} = {case.text()}\n"
            f"    return {', '.join(names)} : {outs}\n  }}\n")


def loss_text(case):
    """@loss is the sum of the first result times fixed numbers, so that gradients differ."""
    weights = case.weights()
    inputs = dict(case.inputs, cotangent=weights)
    params = ", ".join(f"%{name}: {type_of(array)}" for name, array in inputs.items())
    kind = type_of(weights)
    names = [f"%y{i}" for i in range(len(case.result_types()))]
    axes = ", ".join(str(i) for i in range(weights.ndim))
    return (f"  func @loss({params}) -> tensor<f32> {{\n    {', '.join(names)} = {case.text()}\n"
            f"    %weighted = mul %y0, %cotangent : ({kind}, {kind}) -> {kind}\n"
            f"    %loss = sum %weighted {{axes = [{axes}]}} : {kind} -> tensor<f32>\n"
            f"    return %loss : tensor<f32>\n  }}\n")


class Mezzo:
    def __init__(self, program, device, folder):
        self.program, self.device, self.folder = program, device, folder

    def call(self, *words):
        done = subprocess.run([self.program, *words], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip() or done.stdout.strip())

    def run(self, module, function, inputs, count):
        words = ["run", module, f"--func={function}", f"--device={self.device}",
                 "--rounding=as-written", f"--out={self.folder / 'out'}"]
        for name, array in inputs.items():
            path = self.folder / f"{name}.npy"
            np.save(path, array)
            words += ["--in", f"{name}={path}"]
        self.call(*[str(word) for word in words])
        return [np.load(self.folder / "out" / f"{i}.npy") for i in range(count)]


def torch_inputs(case):
    out = {}
    for name, array in case.inputs.items():
        tensor = torch.from_numpy(array.astype(np.float64) if array.dtype == np.float32 else array)
        out[name] = tensor.requires_grad_(name in case.wrt)
    return out


def compare(case, what, ours, theirs, report):
    theirs = np.asarray(theirs)
    ours = ours.astype(np.float64) if ours.dtype == np.float32 else ours
    if ours.shape != theirs.shape:
        report.fail(case, what, f"shape {ours.shape}, PyTorch {theirs.shape}")
        return
    theirs = theirs.astype(np.float64)
    ours = ours.astype(np.float64)
    finite = theirs[np.isfinite(theirs)]
    scale = np.abs(finite).max() if finite.size else 0
    limit = 3.4028235677973366e38
    with np.errstate(invalid="ignore"):
        theirs = np.where(np.abs(theirs) >= limit, np.sign(theirs) * np.inf, theirs)
        near = np.abs(ours - theirs) <= TOLERANCE * np.maximum(np.abs(theirs), min(scale, 1e3)) + 1e-30
    agree = near | (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
    report.compared(case, theirs.size)
    for place in np.argwhere(~agree)[:3]:
        at = tuple(int(i) for i in place)
        given = {name: float(array[at]) for name, array in case.inputs.items() if array.shape == ours.shape}
        report.fail(case, what, f"at {list(at)}: {float(ours[at])!r}, PyTorch {float(theirs[at])!r} for {given}")
    rest = int((~agree).sum()) - 3
    if rest > 0:
        report.fail(case, what, f"and {rest} more")


class Report:
    def __init__(self):
        self.counts = collections.Counter()
        self.cases = collections.Counter()
        self.known = []
        self.failures = []

    def compared(self, case, count):
        self.counts[case.family] += count

    def fail(self, case, what, text):
        reason = CONVENTIONS.get((case.name, what))
        line = f"{case.family}: {case.name}, {what}: {text}"
        if reason:
            self.known.append(f"{line} ({reason})")
        else:
            self.failures.append(line)
            print(line, flush=True)


def check(case, mezzo, report):
    report.cases[case.family] += 1
    path = mezzo.folder / "case.mz"
    text = "module @case {\n" + value_text(case)
    if case.wrt:
        text += loss_text(case)
    path.write_text(text + "}\n")
    inputs = torch_inputs(case)
    theirs = case.torch(*inputs.values())
    theirs = list(theirs) if isinstance(theirs, (tuple, list)) else [theirs]
    try:
        ours = mezzo.run(path, "value", case.inputs, len(case.result_types()))
        for i, tensor in enumerate(theirs):
            compare(case, "value" if i == 0 else f"result {i}", ours[i], tensor.detach().numpy(), report)
        if not case.wrt:
            return
        graded = mezzo.folder / "grad.mz"
        mezzo.call("grad", str(path), "--func=loss", f"--wrt={','.join(case.wrt)}", "-o", str(graded))
        weights = case.weights()
        gradients = mezzo.run(graded, "loss_grad", dict(case.inputs, cotangent=weights),
                              1 + len(case.wrt))[1:]
        (theirs[0] * torch.from_numpy(weights.astype(np.float64))).sum().backward()
        for name, ours in zip(case.wrt, gradients):
            grad = inputs[name].grad
            grad = np.zeros(ours.shape) if grad is None else grad.numpy()
            compare(case, f"gradient by {name}", ours, grad, report)
    except RuntimeError as error:
        report.fail(case, "run", str(error))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mezzo", default="build/release/bin/mezzo")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", default="")
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    cases = [case for case in all_cases() if arguments.only in case.family]
    if arguments.list:
        for case in cases:
            print(case.family, case.name, case.text())
        return 0
    report = Report()
    with tempfile.TemporaryDirectory() as folder:
        mezzo = Mezzo(arguments.mezzo, arguments.device, pathlib.Path(folder))
        for case in cases:
            check(case, mezzo, report)
    print(f"\nPyTorch {torch.__version__}, float64, against Mezzo, f32, on {arguments.device}")
    print(f"{'family':16}{'cases':>8}{'numbers':>10}")
    for family, count in report.cases.items():
        print(f"{family:16}{count:8}{report.counts[family]:10}")
    print(f"{'all':16}{sum(report.cases.values()):8}{sum(report.counts.values()):10}")
    for line in report.known:
        print("by convention:", line)
    print(f"{len(report.failures)} unexplained")
    return 1 if report.failures else 0


sys.exit(main())
