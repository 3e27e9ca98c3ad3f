"""Damages converted networks in small ways, and counts what finds it: verify's check of the disk, check, and audit.

python -m development.benchmarks.damages [--count 500] [--seed 0] [NET.ini...]
"""

from __future__ import annotations

import random
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import click

from cnn_convertor.audit import audit
from cnn_convertor.config import Config
from cnn_convertor.config.request import Request
from cnn_convertor.conversion.checking import check, on_disk, what_runs
from cnn_convertor.conversion.convert import convert
from cnn_convertor.devices.target import Quantized
from cnn_convertor.errors import ConvertorError
from cnn_convertor.pipeline import quantize, read_whole

CHECKOUT: Final = Path(__file__).resolve().parents[2]
EXAMPLES: Final = ("digits_keras", "digits_caffe", "digits_pytorch")
_REGISTER: Final = re.compile(r"(?<= = )(?:0x[0-9A-F]+|\d+)(?=;)")


def change_register(folder: Path, name: str, draw: random.Random) -> bool:
    """One number of a command or its layer, in the source; offsets apart."""
    return _change_number(folder / f"{name}_gen.cpp", draw, lambda line: "offs" not in line)


def change_offset(folder: Path, name: str, draw: random.Random) -> bool:
    return _change_number(folder / f"{name}_gen.cpp", draw, lambda line: "offs" in line)


def _change_number(path: Path, draw: random.Random, is_meant: Callable[[str], bool]) -> bool:
    lines = path.read_text().split("\n")
    places = [
        (number, match)
        for number, line in enumerate(lines)
        if re.match(r"  (cmd|layer)\.", line) and is_meant(line)
        for match in [_REGISTER.search(line)]
        if match
    ]
    number, match = draw.choice(places)
    text = match[0]
    if text.startswith("0x"):
        new = f"0x{int(text, 16) ^ 1 << draw.randrange(4 * (len(text) - 2)):0{len(text) - 2}X}"
    else:
        new = str(draw.choice([int(text) + 1, max(0, int(text) - 1), 2 * int(text) + 1, int(text) ^ 4]))
    lines[number] = lines[number][: match.start()] + new + lines[number][match.end() :]
    path.write_text("\n".join(lines))
    return new != text


def flip_weight_bit(folder: Path, name: str, draw: random.Random) -> bool:
    path = folder / f"{name}_weights.bin"
    data = bytearray(path.read_bytes())
    data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    path.write_bytes(data)
    return True


def cut_file(folder: Path, name: str, draw: random.Random) -> bool:
    path = _any_file(folder, name, draw)
    data = path.read_bytes()
    path.write_bytes(data[: draw.randrange(len(data))])
    return True


def delete_file(folder: Path, name: str, draw: random.Random) -> bool:
    _any_file(folder, name, draw).unlink()
    return True


def _any_file(folder: Path, name: str, draw: random.Random) -> Path:
    """Of those that the manifest lists."""
    return draw.choice(sorted(path for path in folder.iterdir() if path.name != f"{name}.json"))


DAMAGES: Final[Mapping[str, Callable[[Path, str, random.Random], bool]]] = {
    "register": change_register,
    "offset": change_offset,
    "bit of the weights": flip_weight_bit,
    "cut file": cut_file,
    "deleted file": delete_file,
}


def found_by(config: Config, request: Request, quantized: Quantized, fresh: Mapping[str, Path]) -> dict[str, bool]:
    """What finds the damage of an output folder. fresh: file -> as it should be."""
    source = request.folder / f"{config.name}_gen.cpp"
    found = {
        "verify, a warning": bool(on_disk(request, quantized, fresh)),
        "verify --disk": bool(what_runs(request, quantized, fresh)),
        "check": bool(check(config)),
        "audit": _audited(source),
    }
    (request.folder / f"{config.name}.json").unlink()
    return {**found, "audit without manifest": _audited(source)}


def _audited(source: Path) -> bool:
    try:
        return bool(audit(source).findings)
    except ConvertorError:
        return True


def measure(config: Config, count: int, seed: int) -> tuple[Counter[str], Counter[tuple[str, str]]]:
    """Kind of damage -> how many, and with what finds it -> how many of them."""
    draw, made, found = random.Random(seed), Counter[str](), Counter[tuple[str, str]]()
    with tempfile.TemporaryDirectory() as scratch:
        config = replace(config, output_folder=Path(scratch) / "output")
        whole = Path(scratch) / "whole"
        request = Request.of(config)
        quantized = quantize(read_whole(request), request)
        made_files = convert(replace(config, output_folder=whole)).files
        fresh = {path.name: path for path in made_files if path.suffix != ".json"}
        for kind in (kind for _ in range(count) for kind in [draw.choice([*DAMAGES])]):
            shutil.rmtree(request.folder, ignore_errors=True)
            shutil.copytree(whole / config.name, request.folder)
            if not DAMAGES[kind](request.folder, config.name, draw):
                continue
            made[kind] += 1
            for judge, finds in found_by(config, request, quantized, fresh).items():
                found[kind, judge] += finds
    return made, found


@click.command()
@click.argument("inis", metavar="[NET.ini]...", nargs=-1, type=click.Path(path_type=Path))
@click.option("--count", default=500, show_default=True, help="Damages, of all networks together.")
@click.option("--seed", default=0, show_default=True)
def main(inis: tuple[Path, ...], count: int, seed: int) -> None:
    """Count the damages that each command finds, by kind."""
    inis = inis or tuple(CHECKOUT / "examples" / name / "net.ini" for name in EXAMPLES)
    made, found = Counter[str](), Counter[tuple[str, str]]()
    for number, ini in enumerate(inis):
        share = count // len(inis) + (number < count % len(inis))
        its_made, its_found = measure(Config.of(ini), share, seed + number)
        made += its_made
        found.update(its_found)
    judges = list(dict.fromkeys(judge for _, judge in found))
    print("| damage | made |", " | ".join(judges), "|")
    for kind in DAMAGES:
        print(f"| {kind} | {made[kind]} |", " | ".join(str(found[kind, judge]) for judge in judges), "|")


if __name__ == "__main__":
    main()
