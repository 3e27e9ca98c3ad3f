"""Runs a generated source, and checks what it describes against the device's specification, independently of the generator."""

from dataclasses import dataclass
from pathlib import Path

from cnn_convertor.audit.command_checks import DEFAULT, AuditedDevice, factor_notes
from cnn_convertor.audit.comments import check_comments
from cnn_convertor.audit.files_beside import check_manifest, weights_beside
from cnn_convertor.audit.flow import Flow
from cnn_convertor.audit.layer_checks import check_layer, name_notes, softmax_notes
from cnn_convertor.audit.listing import listing
from cnn_convertor.audit.processor import check_processor, read_functions
from cnn_convertor.audit.sources import read
from cnn_convertor.audit.weight_memory import check_weights
from cnn_convertor.errors import ModelError, Problem


@dataclass(frozen=True, slots=True)
class Audit:
    """layers, commands: their numbers. listing: the network as text.

    findings: what is wrong, in the order of the source. notes: what may be right, but is unusual.
    """

    name: str
    layers: int
    commands: int
    findings: tuple[Problem, ...]
    notes: tuple[Problem, ...]
    listing: str


def audit(source: str | Path, weights: str | Path | None = None, device: AuditedDevice = DEFAULT) -> Audit:
    """Check NAME_gen.cpp, of this convertor or another one, and its weights; None: those that lie beside it, if they do.

    With a manifest beside the source, its files must have the hashes that it lists.

    Raises ModelError when the source cannot be read or compiled, or is not a generated one, and UsageError without a compiler.
    """
    source = Path(source)
    weights = weights_beside(source) if weights is None else Path(weights)
    try:
        network, findings = read(source)
    except ModelError as error:  # the manifest may say why
        raise ModelError(error.problems + tuple(check_manifest(source))) from None
    functions = read_functions(source)
    flow = Flow(network, functions)
    for layer in network.layers:
        findings += check_layer(network, layer, device)
    findings += [*flow.findings, *check_weights(network, functions, weights), *check_processor(network, functions)]
    findings += [*check_comments(source), *check_manifest(source)]
    notes: list[Problem] = []
    for layer in network.layers:
        notes += [*name_notes(layer), *softmax_notes(layer), *factor_notes(layer)]
    return Audit(
        name=network.name,
        layers=len(network.layers),
        commands=sum(layer.is_on_device and layer.command is not None for layer in network.layers),
        findings=tuple(sorted(dict.fromkeys(findings), key=_line)),
        notes=tuple(notes),
        listing=listing(network, flow),
    )


def _line(problem: Problem) -> float:
    """What has no line comes last."""
    where = problem.where
    return float("inf") if where is None or where.line is None else where.line
