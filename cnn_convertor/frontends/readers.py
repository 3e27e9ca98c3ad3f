"""Which function reads which layer type, what it declares, and the check that no setting goes unread."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, Generic, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class LayerReader(Generic[Function]):
    """A function that reads layers of a type, with the facts that docs/layers.md gives.

    group: the part of the layer's definition that holds its settings, in formats that have several.
    settings: all that it may take. ignores: settings that change nothing in layers of this type; "*" for all.
    makes: operators and functions of cnn_convertor.ir.ops, without those that only change the order of elements.
    limits: the forms that it refuses.
    """

    read: Function
    group: str
    settings: tuple[str, ...]
    ignores: frozenset[str]
    makes: tuple[type, ...]
    limits: str


class Registry(Generic[Function]):
    """Layer type -> reader, filled by the decorator `reads`."""

    def __init__(self) -> None:
        self._readers: dict[str, LayerReader[Function]] = {}

    def reads(
        self,
        *types: str,
        group: str = "",
        settings: str = "",
        ignores: str = "",
        makes: Iterable[type] = (),
        limits: str = "",
    ) -> Callable[[Function], Function]:
        """Enter the decorated function as the reader of these layer types.

        settings, ignores: names with spaces between them. See LayerReader for the others.
        """

        def enter(function: Function) -> Function:
            ignored = frozenset(ignores.split())
            reader = LayerReader(function, group, tuple(settings.split()), ignored, tuple(makes), limits)
            for type in types:
                assert type not in self._readers, f"two readers for {type}"
                self._readers[type] = reader
            return function

        return enter

    def get(self, type: str) -> LayerReader[Function] | None:
        return self._readers.get(type)

    def __getitem__(self, type: str) -> LayerReader[Function]:
        return self._readers[type]

    def __iter__(self) -> Iterator[str]:
        """The layer types, sorted."""
        return iter(sorted(self._readers))


class Settings:
    """A layer's settings. A reader takes what it declares; what it does not take is a reason to refuse the layer.

    harmless: settings that never change what a trained layer computes, such as initializers; "*" for all.
    """

    def __init__(self, values: Mapping[str, Any], declared: Container[str], harmless: Collection[str] = ()) -> None:
        self._values = dict(values)
        self._declared = declared
        self._harmless = harmless
        self._taken: set[str] = set()

    def take(self, name: str, default: Any = None) -> Any:
        """The setting's value, or the default when the file does not give it."""
        assert name in self._declared, f"the reader does not declare the setting {name}"
        self._taken.add(name)
        return self._values.get(name, default)

    def __contains__(self, name: str) -> bool:
        """Whether the file gives the setting. Asking does not take it."""
        return name in self._values

    def changed(self, values: Mapping[str, Any]) -> Settings:
        """The settings with other values for some. What is taken from one is taken from both."""
        settings = Settings({**self._values, **values}, self._declared, self._harmless)
        settings._taken = self._taken
        return settings

    def left(self) -> dict[str, Any]:
        """The settings that have not been taken, in the file's order."""
        if "*" in self._harmless:
            return {}
        accepted = self._taken.union(self._harmless)
        return {name: value for name, value in self._values.items() if name not in accepted}


def numbered(word: str) -> Iterator[str]:
    """word1, word2, ..."""
    return (f"{word}{number}" for number in count(1))
