"""Finds the layers whose palettes cost the outputs most."""

from collections.abc import Callable, Mapping, Sequence

from cnn_convertor.emulation.network import EmulatedNetwork
from cnn_convertor.emulation.run import Maps
from cnn_convertor.emulation.variants import Variants, judged_layers
from cnn_convertor.verification.compare import Comparison, sqnr
from cnn_convertor.verification.results import Sensitivity, least_sqnr


def sensitivities(
    variants: Variants, compared: Callable[[EmulatedNetwork], Sequence[Comparison]]
) -> tuple[Sensitivity, ...]:
    """The outputs when one layer alone has FP16 weights, for each layer with a palette; the best first.

    compared: a network's outputs, compared with the framework's.
    """
    found = []
    for layer in variants.layers:
        with variants.with_palettes(variants.layers.keys() - {layer}) as network:
            found.append(Sensitivity(layer, variants.saved_bytes[layer], least_sqnr(compared(network))))
    return tuple(sorted(found, key=lambda each: -each.sqnr))


def errors_of_palettes(variants: Variants, inputs: Mapping[str, Maps]) -> dict[str, float]:
    """Layer -> the SQNR in dB of the worst output when it alone has a palette, and maps are FP32.

    It is that against the same network without palettes.
    """

    def judged(network: EmulatedNetwork) -> list[Maps]:
        layers = network.run(inputs, layers=True, exact=True).layers
        return [layers[index] for index in judged_layers(network.program)]

    right = judged(variants.network)
    found = {}
    for layer in variants.layers:
        with variants.with_palettes([layer]) as network:
            found[layer] = min(map(sqnr, judged(network), right))
    return found
