"""What readers make while networks are read, compared with what they declare."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

from cnn_convertor.frontends.builder import Builder
from cnn_convertor.frontends.readers import Registry
from cnn_convertor.ir import ops

MOVES = {ops.Identity, ops.Reshape, ops.TransposeReshape}  # bring inputs and results into a layout


class Seen:
    """What readers make while networks are read, by layer type. Settings check themselves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: dict[str, set[type]] = defaultdict(set)
        self._type = ""
        add, read = Builder.add, Builder.read

        def note_type(builder: Any, inputs: Any, reading: Any, placeholder: Any, *more: Any) -> Any:
            self._type = placeholder[1].type
            return read(builder, inputs, reading, placeholder, *more)

        def note_added(builder: Any, name: str, op: Any, inputs: Any, origin: Any) -> str:
            function = op.function if isinstance(op, ops.Activation | ops.Unary) else getattr(op, "activation", None)
            kept = () if isinstance(op, ops.Activation | ops.Unary) else (type(op),)
            self.made[self._type].update((*kept, *([] if function is None else [type(function)])))
            return add(builder, name, op, inputs, origin)

        monkeypatch.setattr(Builder, "read", note_type)
        monkeypatch.setattr(Builder, "add", note_added)

    def compare(self, *registries: Registry[Any]) -> int:
        """All that was seen must be declared; gives the number of types that were seen."""
        count = 0
        for type, made in self.made.items():
            readers = [reader for registry in registries if (reader := registry.get(type)) is not None]
            count += bool(readers)
            declared = {made for reader in readers for made in reader.makes}
            if any("activation" in reader.settings for reader in readers):
                declared.update(registries[0]["Activation"].makes)
            undeclared = sorted(each.__name__ for each in made - declared - MOVES)
            assert not (readers and undeclared), f"{type}: `makes` lacks {', '.join(undeclared)}"
        return count
