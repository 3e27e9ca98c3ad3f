"""Counts the cycles that each C++ function of CPU layers takes on Arm cores, and writes the tables that the package reads.

    python -m development.cpu_cycles            # prints them
    python -m development.cpu_cycles --write    # writes cnn_convertor/devices/dv700/processors/

A function is compiled for each core and run by qemu, which lists its instructions. llvm-mca simulates in this order those that a
larger map has more than a smaller one. All memory is in the first cache, and no branch is mispredicted.
It needs, from Debian: qemu-user, llvm, g++-aarch64-linux-gnu and g++-arm-linux-gnueabihf.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from cnn_convertor.devices.dv700.cpu_costs import FOLDER, Cycles
from cnn_convertor.devices.dv700.cpu_costs import cycles as read_cycles
from cnn_convertor.devices.dv700.probe.function_calls import Case, cases, functions_header


class Core(NamedTuple):
    """A core, and the programs for it."""

    title: str
    prefix: str
    flags: str
    qemu: str
    triple: str
    header: str = ""


CORES: Final = {
    "cortex-a53": Core("Cortex-A53, 64 bits", "aarch64-linux-gnu-", "-mcpu=cortex-a53", "qemu-aarch64", "aarch64"),
    "cortex-a9": Core(
        "Cortex-A9 with NEON and FP16 conversions, 32 bits",
        "arm-linux-gnueabihf-",
        "-marm -mcpu=cortex-a9 -mfpu=neon-fp16 -mfp16-format=ieee",
        "qemu-arm",
        "armv7a",
        ".syntax unified\n",
    ),
}


_MAIN: Final = """
#include <cstdlib>

#include "functions.h"

extern "C" __attribute__((noinline)) void BeginWork() { asm volatile("" ::: "memory"); }
extern "C" __attribute__((noinline)) void EndWork() { asm volatile("" ::: "memory"); }

uint8_t memory[cpu_functions::kMemory];

// number of the function, rows, whether the elements differ
int main(int, char **arguments) {
  const int rows = std::atoi(arguments[2]);
  cpu_functions::Fill(memory, rows, std::atoi(arguments[3]));
  BeginWork();
  cpu_functions::kFunctions[std::atoi(arguments[1])].run(memory, rows);
  EndWork();
  return 0;
}
"""


class Program(NamedTuple):
    """A program for a core. listing: address -> instruction."""

    core: Core
    path: Path
    name: str
    listing: dict[int, str]


def build(name: str, core: Core, folder: Path) -> Program:
    path = folder / name
    path.with_suffix(".cpp").write_text(_MAIN)
    (folder / "functions.h").write_text(functions_header())
    command = [f"{core.prefix}g++", "-std=c++11", "-O2", "-static", *core.flags.split()]
    subprocess.run([*command, f"{path}.cpp", "-o", str(path)], check=True)
    dump = subprocess.run(
        [f"{core.prefix}objdump", "-d", "--no-show-raw-insn", str(path)], check=True, capture_output=True, text=True
    )
    listing = {
        int(address, 16): _plain(text)
        for address, text in re.findall(r"^ +([0-9a-f]+):\t(.*)$", dump.stdout, re.MULTILINE)
    }
    return Program(core, path, name, listing)


# llvm-mca takes 100 cycles for a call, and does not know all of 32 bits.
_REWRITTEN: Final = (
    (r"(bl|blx|blr|ret|bx|br)\b", "b target"),
    (r"cbn?z r", "cmp r0, #0"),
    (r"vldm\w* [^,]*, {s\d+}", "vldr s0, [r0]"),
    (r"it[te]* ", ""),
    (r"vmov\w*\.\w+ [sd]\d+, #", "vmov.f32 s0, s1"),
    (r"v(ld1|ldm|pop)", "vldr d0, [r0]\nvldr d1, [r0]"),
    (r"v(st1|stm|push)", "vstr d0, [r0]\nvstr d1, [r0]"),
)


def _plain(text: str) -> str:
    """An instruction of a listing as an assembler reads it."""
    text = re.sub(r"^(\w+)\.[nw]\b", r"\1", text)  # of Thumb, as the next
    text = re.sub(r"^(cmp|mov|add|sub|and|orr|bic|mvn|tst)(\w*)(.* )#\d{4,}$", r"\1\2\3#0", text.split(" @")[0].strip())
    text = re.sub(r"\b[0-9a-f]+ <[^>]*>", "target", re.split(r"\s*(?://|@|;)", text)[0]).replace("\t", " ").strip()
    if several := re.match(r"(push|pop|stm|ldm)[^{]*{(.*)}", text):  # llvm-mca does not know them
        single = "str" if several[1] in ("push", "stm") else "ldr"
        return "\n".join(f"{single} {register}, [sp]" for register in several[2].split(", ") if register != "pc")
    return next((made for pattern, made in _REWRITTEN if re.match(pattern, text)), text)


def instructions(program: Program, number: int, rows: int, *, differ: bool, log: Path) -> list[str]:
    """What a case executes, in order."""
    arguments = [str(number), str(rows), str(int(differ))]
    command = [program.core.qemu, "-singlestep", "-d", "exec,nochain", "-D", str(log), str(program.path), *arguments]
    subprocess.run(command, check=False)
    text = log.read_text()
    log.unlink()
    inside = text[text.index(" BeginWork\n") : text.index(" EndWork\n")]
    executed = (program.listing[int(at, 16)] for at in re.findall(r"\[[0-9a-f]+/([0-9a-f]+)/", inside))
    return [line for text in executed for line in text.split("\n") if line]


def cycles(program: Program, lines: list[str]) -> int:
    """How long a core takes for instructions. What llvm-mca does not know is left out."""
    unknown: set[str] = set()
    while True:
        kept = [line for line in lines if line not in unknown]
        command = ["llvm-mca", f"-mtriple={program.core.triple}", f"-mcpu={program.name}", "-iterations=1"]
        views = ["-instruction-info=0", "-resource-pressure=0"]
        text = program.core.header + "\n".join(kept) + "\n"
        result = subprocess.run([*command, *views], input=text, capture_output=True, text=True, check=False)
        if found := re.search(r"Total Cycles:\s+(\d+)", result.stdout):
            if len(lines) - len(kept) > len(lines) / 50:
                print(
                    f"{program.name}: {len(lines) - len(kept)} of {len(lines)} left out: {sorted(unknown)}",
                    file=sys.stderr,
                )
            return int(found[1])
        more = {
            kept[int(at) - 1 - program.core.header.count("\n")] for at in re.findall(r"<stdin>:(\d+):", result.stderr)
        }
        for name in re.findall(r"note: instruction:\s*(\w+)", result.stderr):
            more |= {line for line in kept if line.split()[0].split(".")[0] == name}
        if not more - unknown:
            sys.exit(f"llvm-mca: {result.stderr[:2000]}")
        unknown |= more


def measure(program: Program, number: int, case: Case, folder: Path) -> Cycles:
    def executed(rows: int, differ: bool) -> list[str]:
        log = folder / f"{program.name}-{number}-{rows}-{differ}.log"
        return instructions(program, number, rows, differ=differ, log=log)

    def per_unit(differ: bool) -> float:
        few, many = case.rows
        more = executed(many, differ)[len(executed(few, differ)) :]
        return cycles(program, more) / (case.work * (many - few))

    known, new = per_unit(False), per_unit(True)
    print(f"{program.name} {number}: {known:.3g} {new:.3g}", file=sys.stderr, flush=True)
    return Cycles(known, max(known, new))


def table(name: str, only: Collection[str], folder: Path, jobs: int) -> dict[str, Cycles]:
    """The rows of a core."""
    program = build(name, CORES[name], folder)
    chosen = [(number, key, case) for number, (key, case) in enumerate(cases().items()) if not only or key in only]
    with ThreadPoolExecutor(jobs) as pool:
        rows = pool.map(lambda each: measure(program, each[0], each[2], folder), chosen)
        return {key: row for (_, key, _), row in zip(chosen, rows, strict=True)}


def require_tools(names: Collection[str]) -> None:
    """Ends the program where what the cores need is not installed."""
    cores = [CORES[name] for name in names]
    tools = {"llvm-mca": "llvm"}
    tools |= {core.qemu: "qemu-user" for core in cores}
    tools |= {f"{core.prefix}g++": f"g++-{core.prefix.removesuffix('-')}" for core in cores}
    missing = sorted({package for tool, package in tools.items() if shutil.which(tool) is None})
    if missing:
        sys.exit(f"please install what counts cycles: apt-get install {' '.join(missing)}")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the files of the package")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--core", nargs="*", default=list(CORES), choices=list(CORES))
    parser.add_argument("--only", nargs="*", default=(), choices=list(cases()), help="functions that have changed")
    options = parser.parse_args(arguments)
    require_tools(options.core)
    for name in options.core:
        with TemporaryDirectory() as folder:
            made = table(name, options.only, Path(folder), options.jobs)
        rows = dict(sorted({**(read_cycles(name) if options.only else {}), **made}.items()))
        lines = (f"{key} = [{row.known:.3g}, {row.new:.3g}]\n" for key, row in rows.items())
        text = f'title = "{CORES[name].title}"\n\n[cycles]\n{"".join(lines)}'
        print(f"{name}\n{text}", flush=True)
        if options.write:
            (FOLDER / f"{name}.toml").write_text(text)


if __name__ == "__main__":
    main()
