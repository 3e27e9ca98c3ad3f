"""The table of harnesses: what is fuzzed, from which seeds, and how."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from fuzz import mutation, seeds, targets
from fuzz.mutation import Mutator, Words


@dataclass(frozen=True, slots=True)
class Harness:
    """run: reads one input. seeds: valid inputs. words: what the input's language knows.

    largest: bytes of an input that a mutation makes. seconds: of processor time for an input, instrumented.
    """

    run: Callable[[bytes], None]
    seeds: Callable[[], Iterator[bytes]]
    mutate: Mutator
    words: Callable[[], Words] = tuple
    largest: int = 1 << 16
    seconds: float = 5


PROTOTXT: Final = Harness(targets.prototxt, seeds.prototxts, mutation.mutate_text, seeds.caffe_words, 1 << 13)
KERAS: Final = Harness(targets.keras_structure, seeds.keras_structures, mutation.mutate_json, seeds.keras_words)
ONNX: Final = Harness(targets.onnx_model, seeds.onnx_models, mutation.mutate_wire, seeds.onnx_words)
ARCHIVE: Final = Harness(targets.keras_archive, seeds.keras_archives, mutation.mutate_archive, seeds.keras_words)
HDF5: Final = Harness(targets.hdf5_file, seeds.hdf5_files, mutation.mutate_bytes, largest=1 << 15)
LAYOUT: Final = Harness(targets.layout, seeds.layouts, mutation.mutate_text, largest=1 << 10)
TOML: Final = Harness(targets.device_toml, seeds.device_tomls, mutation.mutate_text, seeds.device_words)
BOARD: Final = Harness(targets.device_json, seeds.device_jsons, mutation.mutate_json, seeds.device_words)

HARNESSES: Final[Mapping[str, Harness]] = {
    "prototxt": PROTOTXT,
    "caffemodel": Harness(targets.caffemodel, seeds.caffemodels, mutation.mutate_wire, largest=1 << 13),
    "keras": KERAS,
    "keras-archive": ARCHIVE,
    "hdf5": HDF5,
    "onnx": ONNX,
    "ini": Harness(targets.ini, seeds.inis, mutation.mutate_text, seeds.ini_words),
    "layout": LAYOUT,
    "array": Harness(targets.array_file, seeds.arrays, mutation.mutate_bytes),
    "manifest": Harness(targets.manifest, seeds.manifests, mutation.mutate_json),
    "buffers": Harness(targets.buffers, seeds.tables, mutation.mutate_text, largest=1 << 11),
    "memory-file": Harness(targets.memory_file, seeds.memories, mutation.mutate_text, largest=1 << 13),
    "samples": Harness(targets.samples, seeds.archives_of_samples, mutation.mutate_archive, largest=1 << 13),
    "journal": Harness(targets.journal, seeds.journals, mutation.mutate_json, seeds.journal_words, largest=1 << 11),
    "cache": Harness(targets.cached, seeds.cache_entries, mutation.mutate_json),
    "report": Harness(targets.report, seeds.reports, mutation.mutate_json),
    "board-results": Harness(targets.board_results, seeds.board_results, mutation.mutate_parts),
    "committed": Harness(targets.committed, seeds.committed, mutation.mutate_text),
    "any-model": Harness(targets.any_model, seeds.any_models, mutation.mutate_bytes),
    "vary": Harness(targets.varied, seeds.varied, mutation.mutate_text, seeds.varied_words, largest=1 << 9),
    "labels": Harness(targets.labels, seeds.label_files, mutation.mutate_text, largest=1 << 11),
    "device-toml": TOML,
    "device-json": BOARD,
    "sources": Harness(targets.sources, seeds.sources, mutation.mutate_text, seeds.source_words, largest=1 << 13),
    "prototxt-to-device": Harness(targets.prototxt_to_device, seeds.prototxts, mutation.mutate_text, seeds.caffe_words),
    "keras-to-device": Harness(
        targets.keras_to_device, seeds.keras_structures, mutation.mutate_json, seeds.keras_words
    ),
    "onnx-to-device": Harness(targets.onnx_to_device, seeds.onnx_models, mutation.mutate_wire, seeds.onnx_words),
}
