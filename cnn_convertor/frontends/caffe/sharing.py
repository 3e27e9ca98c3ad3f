"""Which blobs of the weights file a layer has: its own, or those that it shares with others by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cnn_convertor.errors import ModelError, Origin
from cnn_convertor.frontends.caffe.definition import CaffeLayer
from cnn_convertor.frontends.caffe.parameters import Blob, WeightsFile


@dataclass(frozen=True, slots=True)
class SharedWeights:
    """The weights file, with the names under which layers share blobs: name -> (layer, index of the blob)."""

    file: WeightsFile
    owners: Mapping[str, tuple[tuple[str, int], ...]]
    ambiguous: frozenset[str]

    @staticmethod
    def of(file: WeightsFile, layers: Sequence[CaffeLayer]) -> SharedWeights:
        owners: dict[str, tuple[tuple[str, int], ...]] = {}
        names = [layer.name for layer in layers]
        for layer in layers:
            for index, name in enumerate(layer.shared):
                if name:
                    owners[name] = (*owners.get(name, ()), (layer.name, index))
        return SharedWeights(file, owners, frozenset(name for name in names if names.count(name) > 1))

    def has(self, layer: CaffeLayer) -> bool:
        """Whether the file holds anything for the layer."""
        return bool(self.file.blobs(layer.name)) or any(
            self.file.blobs(owner) for name in layer.shared if name for owner, _ in self.owners[name]
        )

    def blobs(self, layer: CaffeLayer, count: int) -> list[Blob]:
        """The layer's blobs. Raises ModelError unless there are as many as the layer has."""
        where = layer.origin
        name = self.file.path.name
        if not self.file.named:
            raise _nothing_named(self.file.path)
        if layer.name in self.ambiguous:
            problem = f'several layers have the name "{layer.name}", so their weights cannot be told apart'
            raise ModelError.of("DV212", problem, where, "give each its own name, in the definition and in the weights")
        blobs = self.file.blobs(layer.name)
        if len(blobs) > count:
            problem = f"{name} holds {len(blobs)} blobs for the layer, but its definition has only {count}"
            hint = "check settings such as bias_term; the two files may not belong together"
            raise ModelError.of("DV204", problem, where, hint)
        own_blobs = [self._blob(layer, index, blobs) for index in range(count)]
        if missing := own_blobs.count(None):
            many = "no weights" if missing == count else f"only {count - missing} of {count} blobs"
            raise ModelError.of("DV204", f"{name} holds {many} for the layer", where, self._hint())
        return [blob for blob in own_blobs if blob is not None]

    def _blob(self, layer: CaffeLayer, index: int, own: Sequence[Blob]) -> Blob | None:
        name = layer.shared[index] if index < len(layer.shared) else ""
        blob = own[index] if index < len(own) else None
        if not name:
            return blob
        # Caffe loads the blobs of all owners into the same memory, so the last one in the file stays.
        for owner, number in sorted(self.owners[name], key=lambda owner: self.file.position(owner[0]), reverse=True):
            blobs = self.file.blobs(owner)
            if number < len(blobs):
                return blobs[number]
        return blob

    def _hint(self) -> str:
        if not self.file.layers:
            return "the file holds no layer: [INPUT] data in the ini file must name the .caffemodel"
        return "are the definition and the weights of the same network? Layers are matched by name"


def _nothing_named(definition: Path) -> ModelError:
    """One error for all layers with weights when the user names no file of weights."""
    beside = sorted(path.name for path in definition.parent.glob("*.caffemodel"))
    name = beside[0] if len(beside) == 1 else "NAME.caffemodel"
    reason = "the weights are missing: a .prototxt holds none, and no other file is named"
    hint = f"add the line data = {name} to [INPUT] in the ini file; `init MODEL` makes one"
    return ModelError.of("DV204", reason, Origin(str(definition)), hint)
