"""Examples of each command, at the end of its help."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import click

EXAMPLES: Final = {
    "convert": (
        "net.ini",
        "networks --jobs 4 --cache .cache",
        "networks --scheduler tcp://10.0.0.5:8786",
        "net.ini --calibrate photos --strict",
    ),
    "check": ("check net.ini", "check networks --update"),
    "cache stats": ("cache stats .cache",),
    "cache clear": ("cache clear .cache",),
    "cache prune": ("cache prune .cache --size 1000000000",),
    "inspect": ("inspect model.onnx", "inspect net.ini --cost", "inspect net.ini --device all", "inspect model.nvdla"),
    "run": (
        "run net.ini --inputs photo.jpg --labels classes.txt",
        "run model.onnx --inputs x.npy -o y.npz",
        "run model.nvdla --device nvdla-full --inputs x.npy -o y.npz",
    ),
    "verify": ("verify net.ini", "verify net.ini --inputs photos --layers", "verify net.ini --board results"),
    "sweep": ("sweep net.ini --vary quantization=0,1 --vary fusion=proven,full --verify",),
    "report": (
        "report net.ini --html net.html --open",
        "report net.ini --json new.json --compare old.json",
        "report net.ini --svg net.svg --memory-svg memory.svg",
        "report net.ini --verify --html net.html",
    ),
    "passes": ("passes net.ini", "passes net.ini --until fold-scales"),
    "init": ("init model.keras -o net.ini",),
    "devices": ("devices", "devices zia-c3 --json"),
    "board probe": ("board probe -o probe",),
    "board kit": ("board kit net.ini -o kit", "board kit net.ini --inputs photos -o kit"),
    "audit": ("audit output/net/net_gen.cpp output/net/net_weights.bin", "audit model.nvdla --device nvdla-small"),
    "layouts export": ("layouts export net.ini --target nvdla-fp16 -o nvdla",),
    "layouts list": ("layouts list nvdla",),
    "layouts describe": ("layouts describe NCHW8c --shape 1,16,4,4 -o memory.svg",),
    "layouts pack": ("layouts pack --to NCHW8c in.npy out.bin",),
    "layouts unpack": ("layouts unpack --from NCHW8c --shape 1,16,4,4 --element float16 in.bin out.npy",),
    "layouts convert": ("layouts convert --from NCHW --to NHWC in.npy out.npy",),
    "layouts plan": ("layouts plan buffers.csv --alignment 64 -o offsets.csv",),
    "docs": ("docs verify", "docs DV101"),
}


def leaves(group: click.Group, path: str = "") -> Iterator[tuple[str, click.Command]]:
    """The commands of a group and of the groups in it, by their names: cache stats."""
    for name, command in group.commands.items():
        whole = f"{path} {name}".lstrip()
        if isinstance(command, click.Group):
            yield from leaves(command, whole)
        else:
            yield whole, command


def attach(group: click.Group) -> None:
    """Add its examples to the help of each command. Those of `convert` are those of the program, too."""
    for name, command in leaves(group):
        lines = "\n".join(f"  cnn-convertor {example}" for example in EXAMPLES[name])
        command.epilog = f"\b\nExamples:\n{lines}"
    group.epilog = group.commands["convert"].epilog
