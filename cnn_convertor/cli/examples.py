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
    "inspect": ("inspect model.onnx", "inspect net.ini --cost", "inspect net.ini --device all"),
    "run": ("run net.ini --input photo.jpg --labels classes.txt", "run model.onnx --input x.npy --output y.npz"),
    "verify": ("verify net.ini", "verify net.ini --inputs photos --layers", "verify net.ini --board results"),
    "sweep": ("sweep net.ini --vary quantization=0,1 --vary fusion=proven,full --verify",),
    "report": (
        "report net.ini --html net.html --open",
        "report net.ini --json new.json --compare old.json",
        "report net.ini --verify --html net.html",
    ),
    "draw": ("draw net.ini -o net.svg --memory memory.svg",),
    "passes": ("passes net.ini", "passes net.ini --until fold-scales"),
    "init": ("init model.keras -o net.ini",),
    "devices": ("devices", "devices zia-c3 --json"),
    "probe": ("probe --out probe",),
    "kit": ("kit net.ini --out kit", "kit net.ini --inputs photos --out kit"),
    "audit": ("audit output/net/net_gen.cpp output/net/net_weights.bin",),
    "export": ("export net.ini --target nvdla-fp16 --output nvdla",),
    "layout list": ("layout list nvdla",),
    "layout describe": ("layout describe NCHW8c --shape 1,16,4,4 --svg memory.svg",),
    "layout pack": ("layout pack --to NCHW8c in.npy out.bin",),
    "layout unpack": ("layout unpack --from NCHW8c --shape 1,16,4,4 --element float16 in.bin out.npy",),
    "layout convert": ("layout convert --from NCHW --to NHWC in.npy out.npy",),
    "plan": ("plan buffers.csv --alignment 64 --output offsets.csv",),
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
