"""Finds the layers whose palettes cost the outputs most."""

from collections.abc import Callable, Sequence

from cnn_convertor.emulation.network import EmulatedNetwork
from cnn_convertor.emulation.variants import Variants
from cnn_convertor.verification.results import Comparison, Sensitivity, least_sqnr


def sensitivities(
    variants: Variants, compared: Callable[[EmulatedNetwork], Sequence[Comparison]]
) -> tuple[Sensitivity, ...]:
    """The outputs when one layer alone has FP16 weights, for each layer with a palette; the best first.

    compared: a network's outputs, compared with the framework's.
    """
    results = []
    for layer in variants.layers:
        with variants.with_palettes(variants.layers.keys() - {layer}) as network:
            outputs = compared(network)
        levels = {output.name: output.sqnr for output in outputs}
        results.append(Sensitivity(layer, variants.saved_bytes[layer], least_sqnr(outputs), levels))
    return tuple(sorted(results, key=lambda each: -each.sqnr))
