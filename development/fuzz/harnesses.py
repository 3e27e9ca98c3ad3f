"""The table of harnesses: what is fuzzed, from which seeds, and how."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from development.fuzz import file_seeds, model_seeds, mutation, targets
from development.fuzz.mutation import Mutator, Words


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


PROTOTXT: Final = Harness(
    targets.prototxt, model_seeds.prototxts, mutation.mutate_text, model_seeds.caffe_words, 1 << 13
)
KERAS: Final = Harness(
    targets.keras_structure, model_seeds.keras_structures, mutation.mutate_json, model_seeds.keras_words
)
ONNX: Final = Harness(targets.onnx_model, model_seeds.onnx_models, mutation.mutate_wire, model_seeds.onnx_words)
ARCHIVE: Final = Harness(
    targets.keras_archive, model_seeds.keras_archives, mutation.mutate_archive, model_seeds.keras_words
)
HDF5: Final = Harness(targets.hdf5_file, model_seeds.hdf5_files, mutation.mutate_bytes, largest=1 << 15)
LAYOUT: Final = Harness(targets.layout, file_seeds.layouts, mutation.mutate_text, largest=1 << 10)
TOML: Final = Harness(targets.device_toml, file_seeds.device_tomls, mutation.mutate_text, file_seeds.device_words)
BOARD: Final = Harness(targets.device_json, file_seeds.device_jsons, mutation.mutate_json, file_seeds.device_words)

HARNESSES: Final[Mapping[str, Harness]] = {
    "prototxt": PROTOTXT,
    "caffemodel": Harness(targets.caffemodel, model_seeds.caffemodels, mutation.mutate_wire, largest=1 << 13),
    "keras": KERAS,
    "keras-archive": ARCHIVE,
    "hdf5": HDF5,
    "onnx": ONNX,
    "loadable": Harness(targets.loadable, file_seeds.loadables, mutation.mutate_bytes, largest=1 << 14),
    "ini": Harness(targets.ini, file_seeds.inis, mutation.mutate_text, file_seeds.ini_words),
    "layout": LAYOUT,
    "array": Harness(targets.array_file, file_seeds.arrays, mutation.mutate_bytes),
    "manifest": Harness(targets.manifest, file_seeds.manifests, mutation.mutate_json),
    "buffers": Harness(targets.buffers, file_seeds.buffer_tables, mutation.mutate_text, largest=1 << 11),
    "memory-file": Harness(targets.memory_file, file_seeds.memories, mutation.mutate_text, largest=1 << 13),
    "samples": Harness(targets.samples, file_seeds.archives_of_samples, mutation.mutate_archive, largest=1 << 13),
    "journal": Harness(
        targets.journal, file_seeds.journals, mutation.mutate_json, file_seeds.journal_words, largest=1 << 11
    ),
    "cache": Harness(targets.cached, file_seeds.cache_entries, mutation.mutate_json),
    "report": Harness(targets.report, file_seeds.reports, mutation.mutate_json),
    "board-results": Harness(targets.board_results, file_seeds.board_results, mutation.mutate_parts),
    "committed": Harness(targets.committed, file_seeds.committed, mutation.mutate_text),
    "any-model": Harness(targets.any_model, file_seeds.any_models, mutation.mutate_bytes),
    "vary": Harness(targets.varied, file_seeds.varied, mutation.mutate_text, file_seeds.varied_words, largest=1 << 9),
    "labels": Harness(targets.labels, file_seeds.label_files, mutation.mutate_text, largest=1 << 11),
    "device-toml": TOML,
    "device-json": BOARD,
    "sources": Harness(
        targets.sources, file_seeds.sources, mutation.mutate_text, file_seeds.source_words, largest=1 << 12
    ),
    "prototxt-to-device": Harness(
        targets.prototxt_to_device, model_seeds.prototxts, mutation.mutate_text, model_seeds.caffe_words
    ),
    "keras-to-device": Harness(
        targets.keras_to_device, model_seeds.keras_structures, mutation.mutate_json, model_seeds.keras_words
    ),
    "onnx-to-device": Harness(
        targets.onnx_to_device, model_seeds.onnx_models, mutation.mutate_wire, model_seeds.onnx_words
    ),
    "prototxt-to-files": Harness(
        targets.prototxt_to_files, model_seeds.prototxts, mutation.mutate_text, model_seeds.caffe_words, seconds=20
    ),
    "keras-to-files": Harness(
        targets.keras_to_files, model_seeds.keras_structures, mutation.mutate_json, model_seeds.keras_words, seconds=20
    ),
    "onnx-to-files": Harness(
        targets.onnx_to_files, model_seeds.onnx_models, mutation.mutate_wire, model_seeds.onnx_words, seconds=20
    ),
}
