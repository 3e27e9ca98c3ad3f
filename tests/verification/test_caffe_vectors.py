"""The command `verify` checks the vectors of real Caffe without a false alarm; `--random-networks 2000` takes all of them."""

import json
from pathlib import Path

import numpy as np
import pytest

from cnn_convertor.cli import main
from cnn_convertor.config import Config
from cnn_convertor.samples import shapes_of
from cnn_convertor.verification.framework_maps import blobs_as_maps

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("compiler")]

SHARE = 28  # one case of so many is compared, where not all are
REFUSED = {"maxpool_k1_s2_even": "DV302"}  # a window that sees nothing gives -FLT_MAX in Caffe


def converted(folder: Path, work: Path) -> list[str]:
    """The arguments of `verify` for a case: an ini file with its network, and its inputs."""
    facts = json.loads((folder / "case.json").read_text())
    definition = folder / facts.get("prototxt", "deploy.prototxt")
    data = folder / facts.get("caffemodel", "weights.caffemodel")
    data = data if data.exists() else definition
    files = {name: folder / said["file"] for name, said in facts["inputs"].items()}
    ini = work / "net.ini"
    ini.write_text(
        f"[INPUT]\nname = net\ndefinition = {definition}\ndata = {data}\norigin = caffe\n"
        f"[OUTPUT]\noutput_folder = {work}\nquantization = 0\n"
    )
    names = shapes_of(Config.read(ini).model.read().graph)
    inputs = {name: blobs_as_maps(np.load(files.get(name, next(iter(files.values()))))) for name in names}
    np.savez(work / "inputs.npz", **inputs)  # type: ignore[arg-type]  # names are no keywords of numpy's
    return ["verify", str(ini), "--inputs", str(work / "inputs.npz")]


@pytest.mark.rotating(turns=4)
def test_vectors_of_caffe_are_verified_without_a_false_alarm(
    shared: Path, tmp_path: Path, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    every = sorted(path.parent for path in shared.glob("vectors/caffe/*/case.json"))
    share = 1 if request.config.getoption("--random-networks") >= len(every) else SHARE
    for folder in every[::share]:
        code = main(converted(folder, tmp_path))
        out, err = capsys.readouterr()
        if folder.name in REFUSED:
            assert code == 1 and REFUSED[folder.name] in err, folder.name
        else:
            assert code == 0 and "pass: every output" in out, f"{folder.name}\n{out}{err}"
