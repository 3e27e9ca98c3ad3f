"""The table of docs/devices.md says what the model gives."""

import pytest

from cnn_convertor.devices.dv700.device_file import NAMES
from development.benchmarks import devices as benchmark
from development.benchmarks.fusion import NETWORKS, written

PAGE = benchmark.PAGE.read_text(encoding="utf-8")


def test_the_page_has_every_network_on_every_device() -> None:
    expected = dict.fromkeys(NETWORKS, len(NAMES) * len(benchmark.LEVELS))
    assert {name: len(written(PAGE, name)) for name in NETWORKS} == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", ["caffe_lenet", "caffe_squeezenet_1_1", "caffe_resnet50"])
def test_the_table_is_fresh(name: str) -> None:
    assert list(benchmark.rows(name)) == written(PAGE, name)
