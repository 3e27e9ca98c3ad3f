"""Which blobs of the weights file a layer has: its own, or those that it shares with others by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cnn_convertor.errors import ModelError, Origin, Problem
from cnn_convertor.frontends.caffe.definition import Layer
from cnn_convertor.frontends.caffe.weights import Blob, Weights


@dataclass(frozen=True, slots=True)
class SharedWeights:
    """The weights file, with the names that layers share blobs under: name -> (layer, index of the blob)."""

    weights: Weights
    owners: Mapping[str, tuple[tuple[str, int], ...]]
    ambiguous: frozenset[str]

    @staticmethod
    def of(weights: Weights, layers: Sequence[Layer]) -> SharedWeights:
        owners: dict[str, tuple[tuple[str, int], ...]] = {}
        names = [layer.name for layer in layers]
        for layer in layers:
            for index, name in enumerate(layer.shared):
                if name:
                    owners[name] = (*owners.get(name, ()), (layer.name, index))
        return SharedWeights(weights, owners, frozenset(name for name in names if names.count(name) > 1))

    def has(self, layer: Layer) -> bool:
        """Whether the file holds anything for the layer."""
        return bool(self.weights.blobs(layer.name)) or any(
            self.weights.blobs(owner) for name in layer.shared if name for owner, _ in self.owners[name]
        )

    def blobs(self, layer: Layer, wanted: int) -> list[Blob]:
        """The layer's blobs. Raises ModelError unless there are as many as the layer has."""
        if not self.weights.named:
            raise ModelError(_nothing_named(self.weights.path))
        if layer.name in self.ambiguous:
            problem = f'several layers are called "{layer.name}", so that it is not clear whose weights are meant'
            raise ModelError(
                Problem("DV212", problem, layer.origin, "give each its own name, in the definition and in the weights")
            )
        own = self.weights.blobs(layer.name)
        if len(own) > wanted:
            problem = (
                f"{self.weights.path.name} holds {len(own)} blobs for the layer, but its definition has only {wanted}"
            )
            raise ModelError(
                Problem(
                    "DV204",
                    problem,
                    layer.origin,
                    "check bias_term and the like; the two files may not belong together",
                )
            )
        found = [self._blob(layer, index, own) for index in range(wanted)]
        if missing := [index for index, blob in enumerate(found) if blob is None]:
            many = "no weights" if len(missing) == wanted else f"only {wanted - len(missing)} of {wanted} blobs"
            problem = f"{self.weights.path.name} holds {many} for the layer"
            raise ModelError(Problem("DV204", problem, layer.origin, self._hint()))
        return [blob for blob in found if blob is not None]

    def _blob(self, layer: Layer, index: int, own: Sequence[Blob]) -> Blob | None:
        name = layer.shared[index] if index < len(layer.shared) else ""
        blob = own[index] if index < len(own) else None
        if not name:
            return blob
        # Caffe loads all owners' blobs into the same memory, so the last one in the file stays.
        for owner, place in sorted(self.owners[name], key=lambda owner: self.weights.position(owner[0]), reverse=True):
            blobs = self.weights.blobs(owner)
            if place < len(blobs):
                return blobs[place]
        return blob

    def _hint(self) -> str:
        if not self.weights.layers:
            return "the file holds no layer at all: [INPUT] data in the ini file is to name the .caffemodel"
        return "are the definition and the weights of the same network? Layers are matched by name"


def _nothing_named(definition: Path) -> Problem:
    """What is wrong when layers have weights, and the user named no file of them: one problem for all of them."""
    beside = sorted(path.name for path in definition.parent.glob("*.caffemodel"))
    name = beside[0] if len(beside) == 1 else "NAME.caffemodel"
    reason = "the weights are missing: a .prototxt holds none, and the ini file names no other file"
    return Problem("DV204", reason, Origin(str(definition)), f"add the line data = {name} to [INPUT] in the ini file")
