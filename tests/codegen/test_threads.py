"""Every C++ function of CPU layers gives its reference's values, and the same bits with any number of threads and over an input."""

from __future__ import annotations

import dataclasses
import struct
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from cnn_convertor.codegen.kernels import bundle, call_text
from cnn_convertor.devices.cpu_functions import FUNCTIONS, constants_of
from cnn_convertor.devices.dv700.sources.runner_data import runner_kernels
from cnn_convertor.emulation.build import INCLUDE
from cnn_convertor.ir import ops
from cnn_convertor.ir.ops import Shape, ShapeError
from reference.ir_reference import EXAMPLES, Array, Example, execute, some

LEAST = "kWorthAThread = 16384;"
CHANNELS = (*range(1, 18), 40)
SIZES = ((7, 5), (1, 9), (13, 1), (9, 12), (1, 1))
FORMATS = ("kHalf", "kFloat", "kFloatPlain", "kAtoms", "kFloatAtoms")
IN_HALF = {FORMATS.index("kHalf"), FORMATS.index("kAtoms")}
ALIKE = (("kHalf", "kFloat"), ("kAtoms", "kFloatAtoms"))
EXTREMES = np.array([np.nan, np.inf, -np.inf, 6e4, 1e-7], np.float16)
BY_ELEMENTS = (ops.Unary, ops.Binary, ops.InPieces)
# What C++ makes of NaN in comparisons, of infinity times 0, and of a root of a negative infinity is its own.
OWN = {ops.MaxPool2d, ops.MaxUnpool, ops.ArgMax, ops.DetectionOutput, ops.BinaryOp.MAXIMUM, ops.BinaryOp.MINIMUM}
OWN |= {ops.Reduction.MAXIMUM, ops.Reduction.MINIMUM, ops.Interpolation.BILINEAR, ops.Power}

# Reads cases: the call, the maps, the values of the inputs. Runs each in both orders with 0 to 4 threads; writes the outputs.
# Those by elements also write over each input that lies as the output does. Maps in atoms have NaN beyond the last channel.
MAIN = """
#include <cstdio>
#include <cstdlib>
#include <memory>
#include "kernels.h"
using namespace cpu_functions;

int32_t Number() {
  int32_t value;
  if (std::fread(&value, sizeof(value), 1, stdin) != 1) std::exit(0);
  return value;
}

struct Map {
  std::size_t offset;
  int height, width, channels;
  Format format;
  Tensor At(const Memory &io) const { return Tensor(io, offset, height, width, channels, format); }
  std::size_t Size() const { return static_cast<std::size_t>(height * width * channels); }
  std::size_t Stored() const {
    uint8_t none;
    return Tensor(Memory(&none), 0, height, width, channels, format).Stored();
  }
  std::size_t Bytes() const { return Stored() * (format == kHalf || format == kAtoms ? 2 : 4); }
};

void Call(int number, const std::vector<Tensor> &x, const Tensor &y) {
  switch (number) {
    CALLS
  }
}

template <class F>
void ForHwc(const Map &map, F f) {
  for (int h = 0; h < map.height; ++h)
    for (int w = 0; w < map.width; ++w)
      for (int c = 0; c < map.channels; ++c) f(h, w, c);
}

const bool kByElements[] = {BY_ELEMENTS};

// Whether the output is as large as an input, or as the first one with an average for each channel.
bool Fits(const std::vector<Map> &maps, std::size_t input) {
  const Map &x = maps[input], &y = maps.back();
  const bool is_kept = input == 0 && y.height * y.width == 1 && y.Size() == x.Size() + static_cast<std::size_t>(x.channels);
  return is_kept || (x.height == y.height && x.width == y.width && x.channels == y.channels);
}

// A call of a function on maps in a memory, which has the values of the inputs. The output is the last map.
struct Trial {
  int number;
  std::vector<Map> maps;
  std::vector<uint8_t> given;

  Trial(int call, std::vector<Map> all, std::size_t size, const float *value) : number(call), maps(std::move(all)), given(size, 0xFF) {
    const Memory io(given.data());
    for (std::size_t i = 0; i + 1 < maps.size(); ++i) {
      const Tensor x = maps[i].At(io);
      ForHwc(maps[i], [&](int h, int w, int c) { x.Set(h, w, c, *value++); });
    }
  }

  // The memory behind the call.
  std::vector<uint8_t> Run(Threads *threads) const {
    std::vector<uint8_t> bytes = given;
    const Memory io(bytes.data(), threads);
    std::vector<Tensor> x;
    for (std::size_t i = 0; i + 1 < maps.size(); ++i) x.push_back(maps[i].At(io));
    Call(number, x, maps.back().At(io));
    return bytes;
  }

  // The bytes of the output.
  std::vector<uint8_t> Output(Threads *threads) const {
    const std::vector<uint8_t> bytes = Run(threads);
    const uint8_t *const first = bytes.data() + maps.back().offset;
    return std::vector<uint8_t>(first, first + maps.back().Bytes());
  }

  // The values of the output.
  std::vector<float> Values(std::vector<uint8_t> bytes) const {
    std::vector<float> values;
    const Tensor y = maps.back().At(Memory(bytes.data()));
    ForHwc(maps.back(), [&](int h, int w, int c) { values.push_back(y.Get(h, w, c)); });
    return values;
  }

  // Whether the call wrote nothing but the output, and zeros beyond its last channel.
  bool StaysWithin(std::vector<uint8_t> bytes) const {
    const Tensor y = maps.back().At(Memory(bytes.data()));
    std::vector<bool> is_element(y.Stored());
    ForHwc(maps.back(), [&](int h, int w, int c) { is_element[y.Index(h, w, c)] = true; });
    const std::size_t first = maps.back().offset, element = maps.back().Bytes() / y.Stored();
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const bool is_of_output = i >= first && i < first + maps.back().Bytes();
      if (is_of_output && is_element[(i - first) / element]) continue;
      if (bytes[i] != (is_of_output ? 0 : given[i])) return false;
    }
    return true;
  }
};

// The same with chunks in place of atoms.
std::vector<Map> InChunks(std::vector<Map> maps) {
  for (Map &map : maps) map.format = map.format == kAtoms ? kHalf : map.format == kFloatAtoms ? kFloat : map.format;
  return maps;
}

bool AreEqual(const std::vector<float> &a, const std::vector<float> &b) {
  return std::equal(a.begin(), a.end(), b.begin(), [](float x, float y) { return x == y || (x != x && y != y); });
}

// taken: an input in the format of the output, which is written over it, or not.
Trial Taking(int number, std::vector<Map> maps, std::size_t end, const float *value, std::size_t taken, bool is_over) {
  maps[taken].format = maps.back().format;
  maps[taken].offset = is_over ? maps.back().offset : end;
  return Trial(number, std::move(maps), 2 * end, value);
}

int main() {
  std::vector<std::unique_ptr<Threads>> threads(1);
  for (unsigned count = 1; count <= 4; ++count) threads.emplace_back(new Threads(count));
  for (int number = Number();; number = Number()) {
    std::vector<Map> maps;
    std::size_t end = 0;
    for (int i = Number(); i > 0; --i) {
      const int height = Number(), width = Number(), channels = Number();
      maps.push_back({end, height, width, channels, static_cast<Format>(Number())});
      end += (4 * (maps.back().Stored() + static_cast<std::size_t>(channels)) + 63) / 64 * 64;
    }
    std::vector<float> values;
    for (std::size_t i = 0; i + 1 < maps.size(); ++i) {
      values.resize(values.size() + maps[i].Size());
      float *last = values.data() + values.size() - maps[i].Size();
      if (std::fread(last, 4, maps[i].Size(), stdin) != maps[i].Size()) return 1;
    }
    for (const bool row_by_row : {true, false}) {
      kRowByRow = row_by_row;
      const Trial trial(number, maps, end, values.data());
      std::vector<Trial> beside, over;
      for (std::size_t i = 0; kByElements[number] && i + 1 < maps.size(); ++i) {
        if (!Fits(maps, i)) continue;
        beside.push_back(Taking(number, maps, end, values.data(), i, false));
        over.push_back(Taking(number, maps, end, values.data(), i, true));
      }
      std::vector<uint8_t> first;
      for (const std::unique_ptr<Threads> &workers : threads) {
        std::vector<uint8_t> bytes = trial.Run(workers.get());
        if (first.empty()) {
          first = bytes;
          const std::vector<float> results = trial.Values(bytes);
          std::fwrite(results.data(), 4, results.size(), stdout);
          const Trial other(number, InChunks(maps), end, values.data());
          const bool is_equal = !row_by_row || AreEqual(results, other.Values(other.Run(nullptr)));  // sums have their order
          if (!is_equal || !trial.StaysWithin(bytes)) {
            std::fprintf(stderr, "case %d is wrong in format %d\\n", number, static_cast<int>(maps.back().format));
            return 1;
          }
        }
        bool is_same = first == bytes;
        for (std::size_t i = 0; i < over.size(); ++i) is_same &= beside[i].Output(workers.get()) == over[i].Output(workers.get());
        if (is_same) continue;
        std::fprintf(stderr, "case %d differs with %d threads\\n", number, static_cast<int>(workers->Count()));
        return 1;
      }
    }
  }
}
"""


class Case(NamedTuple):
    """A function on maps. call: its number. formats: of the inputs and the output."""

    name: str
    call: int
    op: ops.Op
    inputs: tuple[Array, ...]
    output: Shape
    formats: tuple[int, ...]


def examples() -> list[tuple[str, Example]]:
    """Those of the functions, without activations, which the device computes."""
    found = [(name, example) for name, example in EXAMPLES.items() if type(example.op) in FUNCTIONS]
    found = [each for each in found if not isinstance(each[1].op, ops.Dense)]  # of maps, which are the device's
    steps = ops.PieceStep(ops.Unary(ops.Swish(1.0)), (0,)), ops.PieceStep(ops.Binary(ops.BinaryOp.MULTIPLY), (1, 0))
    found.append(("a product in pieces", Example(ops.InPieces(steps), (Shape(6, 5, 11),))))
    found.append(("fully connected", Example(ops.Dense(some(70, 9, 1, 1), some(70)), (Shape(1, 1, 9),))))
    return [(name, example._replace(op=without_activation(example.op))) for name, example in found]


def without_activation(op: Any) -> Any:
    return dataclasses.replace(op, activation=None) if hasattr(op, "activation") else op


def variants(example: Example) -> Iterator[tuple[Shape | Array, ...]]:
    """The inputs of the example, and others with all numbers of channels and other sizes, as far as the operator takes them."""
    yield example.inputs
    shapes = [each for each in example.inputs if isinstance(each, Shape)]
    if len(shapes) != len(example.inputs) or len({shape.channels for shape in shapes}) != 1:
        return
    for channels in CHANNELS:
        yield tuple(shape._replace(channels=channels) for shape in shapes)
        if len(set(shapes)) == 1:
            yield tuple(Shape(*SIZES[channels % len(SIZES)], channels) for _ in shapes)


def cases() -> Iterator[Case]:
    random = np.random.default_rng(0)
    for call, (name, example) in enumerate(examples()):
        for inputs in variants(example):
            shapes = [each if isinstance(each, Shape) else Shape(*each.shape) for each in inputs]
            try:
                output = example.op.output_shape(*shapes)
            except ShapeError:
                continue
            for has_extremes in (False, True):
                given = [random.normal(size=each) if isinstance(each, Shape) else each for each in inputs]
                values = [np.array(each, np.float16).astype(np.float32) for each in given]
                if has_extremes:
                    for array in values:
                        array.reshape(-1)[:: max(array.size // 3, 1)] = random.choice(EXTREMES)
                names = random.choice(ALIKE) if isinstance(example.op, ops.InPieces) else FORMATS
                formats = tuple(FORMATS.index(each) for each in random.choice(names, size=len(values) + 1))
                yield Case(f"{name} of {shapes}", call, example.op, tuple(values), output, formats)


def arrays_of(op: ops.Op) -> list[Array]:
    """What the function takes beside maps, as maps."""
    arrays = [constant.load() for constant, _ in constants_of(op)]
    return [array if array.ndim == 3 else array.reshape(1, 1, -1) for array in arrays]


def stdin_of(case: Case) -> bytes:
    arrays = arrays_of(case.op)
    inputs, (*formats, output) = [*case.inputs, *arrays], case.formats
    formats += [FORMATS.index("kFloat")] * len(arrays)
    maps = [(*array.shape, number) for array, number in zip(inputs, formats, strict=True)]
    numbers = [case.call, len(maps) + 1, *(n for each in maps for n in each), *case.output, output]
    return struct.pack(f"<{len(numbers)}i", *numbers) + b"".join(array.astype("<f4").tobytes() for array in inputs)


def program(folder: Path, flags: Sequence[str]) -> Path:
    """Runs cases. Every function divides its work, however small."""
    calls = []
    for number, (_, example) in enumerate(examples()):
        count = len(example.inputs)
        maps = [f"x[{position}]" for position in range(count + len(arrays_of(example.op)))]
        calls.append(f"case {number}: {call_text(example.op, maps[:count], maps[count:], 'y')}; break;")
    kernels = runner_kernels()
    assert kernels.count(LEAST) == 1
    (folder / "kernels.h").write_text(kernels.replace(LEAST, "kWorthAThread = 1;"))
    by_elements = [str(int(isinstance(example.op, BY_ELEMENTS))) for _, example in examples()]
    main = MAIN.replace("BY_ELEMENTS", ", ".join(by_elements)).replace("CALLS", "\n    ".join(calls))
    (folder / "main.cpp").write_text(main)
    command = ["g++", "-std=c++11", "-pthread", *flags, f"-I{INCLUDE}", "main.cpp", "-o", "main"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "main"


ADDRESSES = ("-Og", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
IN_TURN = [pytest.mark.slow, pytest.mark.rotating(turns=4)]
SANITIZERS = [
    pytest.param(("-O1",), id="as it is"),
    pytest.param(ADDRESSES, id="addresses", marks=IN_TURN),
    pytest.param(("-O1", "-fsanitize=thread"), id="races", marks=IN_TURN),
]


@pytest.mark.rotating
@pytest.mark.slow
@pytest.mark.parametrize("flags", SANITIZERS[1:])
def test_every_function_has_its_values_with_any_number_of_threads(flags: tuple[str, ...], tmp_path: Path) -> None:
    every = list(cases())
    assert {case.call for case in every} == set(range(len(examples())))
    stdin = b"".join(map(stdin_of, every))
    result = subprocess.run([program(tmp_path, flags)], input=stdin, capture_output=True, check=False)
    assert (result.returncode, result.stderr[-4000:].decode()) == (0, "")
    found = np.frombuffer(result.stdout, "<f4")
    wrong = []
    for case in every:
        size = case.output.size
        for order in ("row by row", "column by column"):
            values, found = found[:size].reshape(case.output), found[size:]
            if not agrees(case, values):
                wrong.append(f"{case.name}, {order}")
    assert found.size == 0 and wrong == []


def fields(op: Any) -> list[Any]:
    return [getattr(op, field.name) for field in dataclasses.fields(op)]


def agrees(case: Case, values: Array) -> bool:
    """Whether the values are those of the reference, but for rounding."""
    kinds = {type(case.op), *(type(value) for value in fields(case.op)), *fields(case.op)}
    if kinds & OWN and not all(np.isfinite(array).all() for array in case.inputs):
        return True
    with np.errstate(all="ignore"):
        expected = execute(case.op, *(array.astype(np.float64) for array in case.inputs))
        exact = expected.astype(np.float16 if case.formats[-1] in IN_HALF else np.float32).astype(np.float64)
        tolerance = 2e-3 * np.abs(exact[np.isfinite(exact)]).max(initial=1e-3)
        return bool(np.isclose(values, exact, rtol=2e-3, atol=tolerance, equal_nan=True).all())


POOL = """
#include <cstdio>
#include <stdexcept>
#include "threads.h"
using namespace cpu_functions;

int main() {
  for (unsigned count = 0; count < 5; ++count) {
    Threads threads(count);
    for (int again = 0; again < 100; ++again) {
      std::vector<int> calls(37);
      bool is_thrown = false;
      try {
        threads.Run(calls.size(), [&](std::size_t part) {
          ++calls[part];
          if (again % 2 == 1 && part % 5 == 0) throw std::runtime_error("a part fails");
        });
      } catch (const std::runtime_error &) {
        is_thrown = true;
      }
      for (const int number : calls)
        if (number != 1 || is_thrown != (again % 2 == 1)) return 1;
    }
    threads.Run(0, [](std::size_t) {});
  }
  std::puts("done");
}
"""


@pytest.mark.rotating(turns=4)
@pytest.mark.parametrize("flags", SANITIZERS)
def test_each_part_runs_once_also_where_some_fail(flags: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "pool.cpp").write_text(POOL)
    folder = Path(bundle.__code__.co_filename).parent
    command = ["g++", "-std=c++11", "-pthread", *flags, f"-I{folder}", "pool.cpp", "-o", "pool"]
    subprocess.run(command, cwd=tmp_path, check=True)
    result = subprocess.run([tmp_path / "pool"], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, "done\n", "")


def test_one_thread_needs_no_header_of_threads() -> None:
    functions = [row.function for row in FUNCTIONS.values()]
    of_one, of_many = bundle(functions), bundle(functions, threads=True)
    assert not any(word in " ".join(of_one.system) for word in ("thread", "mutex", "condition"))
    assert not any("std::thread" in body for body in of_one.bodies)
    assert "#include <thread>" in of_many.system and any("std::thread" in body for body in of_many.bodies)
