"""The files of a network with palettes in any of its layers."""

import warnings

from cnn_convertor.devices.dv700.runs import Program
from cnn_convertor.devices.dv700.weights.encoding import encode_all
from cnn_convertor.devices.dv700.weights.palettes import decoded
from cnn_convertor.emulation.network import EmulatedNetwork
from cnn_convertor.emulation.variants import Variants
from cnn_convertor.errors import ConvertorWarning


def variants_of(network: EmulatedNetwork, program: Program) -> Variants:
    """The variants of a program. network: the same commands with FP16 weights."""
    unpacked = decoded(program)
    path = network.weights.with_name("palettes.bin")
    with path.open("wb") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvertorWarning)  # of small weights, which the network itself has given
        for piece in encode_all(unpacked.weights, transposed=unpacked.transposed):
            file.write(piece.tobytes())
    layers: dict[str, frozenset[int]] = {}
    for index, weights in enumerate(program.weights):
        if weights.packed.palette:
            layers[weights.layer] = layers.get(weights.layer, frozenset()) | {index}
    plain = network.program.weights
    saved = {
        name: sum(plain[i].nbytes - program.weights[i].nbytes for i in indices) for name, indices in layers.items()
    }
    return Variants(network, path, layers, saved)
