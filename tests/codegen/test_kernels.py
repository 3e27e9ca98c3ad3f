"""The C++ functions of CPU layers are ordinary headers, and NAME_cpu.h holds those that its network needs."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from cnn_convertor.codegen import kernels
from cnn_convertor.codegen.kernels import all_kernels, bundle, format_name
from cnn_convertor.codegen.text_templates import render_text
from cnn_convertor.devices.program import PLAIN, ElementType, Tensor
from cnn_convertor.emulation.build import INCLUDE
from cnn_convertor.ir.ops import Shape
from cnn_convertor.layouts.dv700 import feature_map
from cnn_convertor.layouts.layout import Layout
from cnn_convertor.layouts.notation import parse

FOLDER = Path(kernels.__file__).parent
HEADERS = sorted(path.name for path in FOLDER.glob("*.h"))
WARNINGS = ["-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Wpedantic", "-Werror"]


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@pytest.mark.parametrize("standard", ["c++11", "c++20"])
def test_headers_compile_together_without_a_warning(standard: str, tmp_path: Path) -> None:
    check([[header for header in HEADERS if header != "one_thread.h"]], standard, FOLDER, tmp_path)


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
def test_every_header_compiles_alone(tmp_path: Path) -> None:
    """With one_thread.h in the place of threads.h, which brings many headers of the standard library: none is forgotten."""
    check([["threads.h"]], "c++11", FOLDER, tmp_path)
    folder = tmp_path / "kernels"
    shutil.copytree(FOLDER, folder)
    shutil.copy(FOLDER / "one_thread.h", folder / "threads.h")
    check([[header] for header in HEADERS], "c++11", folder, tmp_path)


def check(groups: list[list[str]], standard: str, folder: Path, scratch: Path) -> None:
    """Compiles each group of headers as one source, which includes them twice."""
    sources = [scratch / f"{number}.cpp" for number in range(len(groups))]
    for source, headers in zip(sources, groups, strict=True):
        source.write_text("".join(f'#include "{header}"\n' for header in [*headers, *headers]) + "int unused;\n")
    command = ["g++", f"-std={standard}", *WARNINGS, f"-I{folder}", f"-I{INCLUDE}", "-fsyntax-only", *map(str, sources)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")


def test_no_name_looks_like_a_macro() -> None:
    for header in HEADERS:
        code = re.sub(r"^#.*|//.*", "", (FOLDER / header).read_text(), flags=re.MULTILINE)
        assert set(re.findall(r"\b[A-Z][A-Z0-9_]+\b", code)) <= {"INFINITY", "DMP_DV_DEV_MAXIMIZER"}, header


def test_headers_stand_behind_what_they_include() -> None:
    found = bundle(["Softmax", "Concat", "Softmax"])
    bodies = [re.findall(r"^(?:class|struct|enum|inline \w+) (\w+)", body, re.MULTILINE)[0] for body in found.bodies]
    assert bodies == [
        "Axes",
        "FromHalf",
        "Threads",
        "Format",
        "Larger",
        "Part",
        "Values",
        "Lanes",
        "BitsOf",
        "PowerOfE",
        "Steps",
        "Concat",
    ]
    names = [include.partition("<")[2].partition(">")[0] for include in found.system]
    assert "#include <cmath>" in found.system and names == sorted(set(names))


def test_a_condition_stays_around_what_it_includes() -> None:
    (conditional,) = [include for include in bundle(["Unary"]).system if "arm_neon.h" in include]
    assert re.fullmatch(r"#if .+\n#include <arm_neon.h>\n#endif", conditional)


def test_a_call_has_the_name_of_its_header_and_each_struct_that_its_template_takes() -> None:
    calls = {*all_kernels().calls}
    assert {("Softmax", ""), ("L2Normalize", ""), ("Unary", "Swish"), ("Binary", "Add")} <= calls
    assert calls.isdisjoint({("Unary", ""), ("Binary", "")})
    names = {f"{re.sub('(?<!^)(?=[A-Z])', '_', function).lower()}.h" for function, _ in calls}
    assert names <= {*HEADERS}


ATOMS = parse("hwc: c/16 h w c%16")


@pytest.mark.parametrize("shape", [Shape(1, 1, 5), Shape(3, 2, 40)])
@pytest.mark.parametrize(
    ("layout", "names"),
    [
        (feature_map(transposed=True).of(None), ("kHalf", "kFloat")),
        (feature_map(transposed=False).of(None), ("kHalf", "kFloat")),
        (ATOMS, ("kAtoms", "kFloatAtoms")),
    ],
)
def test_a_format_is_that_of_the_layout(shape: Shape, layout: Layout, names: tuple[str, str]) -> None:
    types = ElementType.HALF, ElementType.FLOAT
    assert tuple(format_name(Tensor(shape, type, 0, layout)) for type in types) == names


def test_maps_in_other_orders_have_no_format() -> None:
    assert format_name(Tensor(Shape(2, 3, 40), ElementType.FLOAT, 0, PLAIN)) == "kFloatPlain"
    others = parse("hwc: c/16 w h c%16")
    for layout in (others, parse("hwc: c/32 h w c%32"), ATOMS.of("int8")):
        with pytest.raises(AssertionError, match="the functions know no maps"):
            format_name(Tensor(Shape(2, 3, 40), ElementType.FLOAT, 0, layout))


def test_nothing_is_copied_without_need() -> None:
    assert bundle([]) == ((), ())
    assert not any("Window" in body for body in bundle(["Crop"]).bodies)


FUSED = re.compile(r"^[0-9a-f]+ <(.*)>:|\t(?:fn?madd|fn?msub|fmla|fmls)\t", re.MULTILINE)


@pytest.mark.rotating
@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["aarch64-linux-gnu-g++", "clang++ --target=aarch64-linux-gnu"])
def test_no_compiler_fuses_products_with_sums(compiler: str, tmp_path: Path) -> None:
    """Of the functions. GCC compiles the application's own code as it is asked to."""
    command = compiler.split()
    if not (shutil.which(command[0]) and shutil.which("aarch64-linux-gnu-g++")):
        pytest.skip(f"needs {command[0]} and the C++ library and objdump of aarch64-linux-gnu-g++")
    kernels = all_kernels()
    values = {
        "class_name": "Cnet",
        "name": "net",
        "transposed": True,
        "kernels": kernels.bundle,
        "layers": [],
        "threads": 1,
        "bare": False,
    }
    (tmp_path / "net_cpu.h").write_text(render_text("network_cpu.h.j2", "a test", values), encoding="utf-8")
    calls = [f"{function}<{struct}>" if struct else function for function, struct in kernels.calls]
    addresses = [f"extern const auto call_{i} = &{call};" for i, call in enumerate(calls)]
    own = "float application(float a, float b, float c) { return a * b + c; }"
    source = ['#include "net_cpu.h"', "using namespace Cnet_cpu;", *addresses, own]
    (tmp_path / "net.cpp").write_text("\n".join(source), encoding="utf-8")
    flags = ["-std=c++11", "-O3", "-Wall", "-Wno-unused-function", "-Werror", f"-I{INCLUDE}"]
    subprocess.run([*command, *flags, "-c", "net.cpp", "-o", "net.o"], cwd=tmp_path, check=True)
    disassembly = ["aarch64-linux-gnu-objdump", "-d", "-C", "net.o"]
    text = subprocess.run(disassembly, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    functions, fusing, function = 0, set(), ""
    for match in FUSED.finditer(text):
        if match[1] is None:
            fusing.add(function)
        else:
            function = match[1]
            functions += "Cnet_cpu" in function
    assert functions > len(calls)
    assert fusing == (set() if "clang" in compiler else {"application(float, float, float)"})
