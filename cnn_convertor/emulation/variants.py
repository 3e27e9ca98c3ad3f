"""Runs one compiled network with palettes in any of its layers: only its weights change."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from cnn_convertor.devices.program import Layer, Program
from cnn_convertor.emulation.network import EmulatedNetwork
from cnn_convertor.files.temporary import temporary_folder
from cnn_convertor.ir.ops import DetectionInBoxes, DetectionOutput


class Variants(NamedTuple):
    """network: with FP16 weights. palettes: a file like its weights, with the values that the palettes give.

    layers: the layers with palettes -> the indices of their convolutions. saved_bytes: what their palettes save.
    """

    network: EmulatedNetwork
    palettes: Path
    layers: Mapping[str, frozenset[int]]
    saved_bytes: Mapping[str, int]

    @contextmanager
    def with_palettes(self, layers: Collection[str]) -> Iterator[EmulatedNetwork]:
        """The network with the palettes of these layers, until the block ends."""
        streams = self.network.program.weights
        with temporary_folder(self.palettes.parent) as folder, self.palettes.open("rb") as stored:
            contents = bytearray(self.network.weights.read_bytes())
            for index in sorted(i for layer in layers for i in self.layers[layer]):
                weights = streams[index]
                stored.seek(weights.offset)
                contents[weights.offset : weights.offset + weights.nbytes] = stored.read(weights.nbytes)
            path = folder / "weights.bin"
            path.write_bytes(contents)
            yield self.network._replace(weights=path)


def judged_layers(program: Program) -> tuple[int, ...]:
    """Layers whose maps measure accuracy.

    A softmax and a detection hide errors where one class is certain, so their inputs are judged.
    """
    return tuple(
        dict.fromkeys(index for output in program.outputs for index in _shown_by(program.layers[output], output))
    )


def _shown_by(layer: Layer, index: int) -> tuple[int, ...]:
    hides = layer.is_softmax or isinstance(layer.cpu, DetectionOutput | DetectionInBoxes)
    written = tuple(source for source in layer.sources if source is not None)
    return written if hides and written else (index,)
