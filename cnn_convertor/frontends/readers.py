"""Which function reads which layer type, with a check that no setting of a layer goes unread."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from typing import Any, Generic, TypeVar

Reader = TypeVar("Reader", bound=Callable[..., Any])


class Registry(Generic[Reader]):
    """Layer type -> reader, filled by the decorator `reads`."""

    def __init__(self) -> None:
        self._readers: dict[str, Reader] = {}

    def reads(self, *types: str) -> Callable[[Reader], Reader]:
        """Enter the decorated function as the reader of these layer types."""

        def enter(reader: Reader) -> Reader:
            for type in types:
                assert type not in self._readers, f"two readers for {type}"
                self._readers[type] = reader
            return reader

        return enter

    def get(self, type: str) -> Reader | None:
        return self._readers.get(type)

    def __iter__(self) -> Iterator[str]:
        """The layer types, sorted."""
        return iter(sorted(self._readers))


class Settings:
    """A layer's settings. Each is taken once; what nobody took is left over, and a reason to refuse the layer.

    harmless: settings that never change what a trained layer computes (initializers, regularizers, names).
    """

    def __init__(self, values: Mapping[str, Any], harmless: Container[str] = ()) -> None:
        self._values = dict(values)
        self._taken: set[str] = set()
        self._harmless = harmless

    def take(self, name: str, default: Any = None) -> Any:
        """The setting's value, or the default when the file does not give it."""
        self._taken.add(name)
        return self._values.get(name, default)

    def __contains__(self, name: str) -> bool:
        """Whether the file gives the setting (it is not taken by asking)."""
        return name in self._values

    def left(self) -> dict[str, Any]:
        """The settings that nobody took, in the file's order."""
        return {
            name: value
            for name, value in self._values.items()
            if name not in self._taken and name not in self._harmless
        }
