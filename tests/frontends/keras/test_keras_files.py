"""Every kind of file is recognized and opened, and its numbers are read only on demand."""

from __future__ import annotations

import gc
import json
import random
import zipfile
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from cnn_convertor.errors import ConvertorError, ModelError
from cnn_convertor.files.opening import Version
from cnn_convertor.frontends.keras import hdf5
from cnn_convertor.ir import ops
from cnn_convertor.ir.constant import Constant
from frontends.loading import load_keras as load

KERNEL = np.arange(2 * 3 * 2 * 5, dtype=np.float32).reshape(2, 3, 2, 5)
BIAS = np.arange(5, dtype=np.float32)
KERNEL_OIHW = KERNEL.transpose(3, 2, 0, 1)


def conv_config(model: Any) -> Any:
    return model.sequential(
        model.layer("InputLayer", "in", batch_input_shape=[None, 6, 6, 2]),
        model.layer("Conv2D", "conv", filters=5, kernel_size=[2, 3], activation="relu"),
    )


def conv_of(path: Path, data: Path | None = None) -> tuple[Constant, Constant]:
    op = load(path, data or path)["conv"].op
    assert isinstance(op, ops.Conv2d) and op.bias is not None
    return op.weight, op.bias


ARRAYS_H5 = {"conv": [("kernel", KERNEL), ("bias", BIAS)]}
ARRAYS_KERAS = {"layers/conv2d/vars/0": KERNEL, "layers/conv2d/vars/1": BIAS}


@pytest.mark.parametrize("options", [{}, {"chunks": True}, {"chunks": True, "compression": "gzip"}], ids=str)
@pytest.mark.parametrize("kind", ["h5", "keras", "deflated"])
def test_kernels_are_the_same_however_they_are_stored(model: Any, kind: str, options: dict[str, Any]) -> None:
    config = conv_config(model)
    if kind == "h5":
        path = model.h5(config, ARRAYS_H5, **options)
    else:
        packing = zipfile.ZIP_DEFLATED if kind == "deflated" else zipfile.ZIP_STORED
        path = model.keras(config, ARRAYS_KERAS, packing=packing, **options)
    weight, bias = conv_of(path)
    np.testing.assert_array_equal(weight.load(), KERNEL_OIHW)
    np.testing.assert_array_equal(weight.load(slice(1, 4)), KERNEL_OIHW[1:4])
    np.testing.assert_array_equal(bias.load(slice(2, 5)), BIAS[2:5])
    assert weight.load().dtype == np.float32


@pytest.mark.parametrize("dtype", ["float16", "float64", ">f4"])
def test_other_floating_types_are_converted(model: Any, dtype: str) -> None:
    path = model.h5(conv_config(model), {"conv": [("kernel", KERNEL.astype(dtype)), ("bias", BIAS.astype(dtype))]})
    np.testing.assert_array_equal(conv_of(path)[0].load(), KERNEL_OIHW)


@pytest.mark.parametrize("options", [{}, {"chunks": True}], ids=str)
def test_bfloat16_is_two_opaque_bytes(model: Any, options: dict[str, Any]) -> None:
    halves = (KERNEL.view(np.uint32) >> 16).astype(np.uint16).view("V2")
    path = model.keras(conv_config(model), {"layers/conv2d/vars/0": halves, "layers/conv2d/vars/1": BIAS}, **options)
    np.testing.assert_array_equal(conv_of(path)[0].load(), KERNEL_OIHW)


def test_integer_kernels_are_refused(model: Any) -> None:
    path = model.h5(conv_config(model), {"conv": [("kernel", KERNEL.astype(np.int8)), ("bias", BIAS)]})
    with pytest.raises(ModelError, match="int8"):
        load(path, path)


def test_an_array_that_was_never_written_is_refused(model: Any) -> None:
    path = model.h5(conv_config(model), ARRAYS_H5)
    with h5py.File(path, "a") as file:
        del file["model_weights/conv/conv/kernel:0"]
        file["model_weights/conv"].create_dataset("conv/kernel:0", KERNEL.shape, "f4")
    with pytest.raises(ModelError, match="never written"):
        load(path, path)


def test_texts_may_be_bytes_or_str_or_cut_into_parts(model: Any) -> None:
    path = model.h5(conv_config(model), ARRAYS_H5)
    with h5py.File(path, "a") as file:
        text = file.attrs["model_config"]
        del file.attrs["model_config"]
        file.attrs["model_config0"], file.attrs["model_config1"] = text[:100], np.bytes_(text[100:])
        group = file["model_weights/conv"]
        del group.attrs["weight_names"]
        group.attrs["weight_names0"] = ["conv/kernel:0"]
        group.attrs["weight_names1"] = np.array([b"conv/bias:0"])
    np.testing.assert_array_equal(conv_of(path)[0].load(), KERNEL_OIHW)


def test_a_user_block_moves_the_numbers(model: Any, tmp_path: Path) -> None:
    plain = model.h5(conv_config(model), ARRAYS_H5)
    path = tmp_path / "block.h5"
    with h5py.File(plain) as source, h5py.File(path, "w", userblock_size=1024) as target:
        target.attrs.update(source.attrs)
        source.copy("model_weights", target)
    np.testing.assert_array_equal(conv_of(path)[0].load(), KERNEL_OIHW)


def open_files() -> int:
    gc.collect()  # of what earlier tests have left
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts open files in /proc")
@pytest.mark.parametrize("kind", ["h5", "keras", "chunked"])
def test_no_file_stays_open(model: Any, kind: str) -> None:
    path = model.h5(conv_config(model), ARRAYS_H5) if kind == "h5" else model.keras(
        conv_config(model), ARRAYS_KERAS, chunks=True if kind == "chunked" else None)  # fmt: skip
    before = open_files()
    weight, _ = conv_of(path)
    for _ in range(20):
        weight.load()
    assert open_files() <= before


def test_an_unpacked_archive_leaves_no_temporary_file(
    model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    weight, _ = conv_of(model.keras(conv_config(model), ARRAYS_KERAS, packing=zipfile.ZIP_DEFLATED))
    assert len(list((tmp_path / "temporary").iterdir())) == 1
    weight.load()
    del weight, _
    assert not list((tmp_path / "temporary").iterdir())


# --- weights in a file of their own --------------------------------------------------------------------------------------


def test_weights_may_be_in_another_file(model: Any) -> None:
    definition = model.h5(conv_config(model), {"conv": [("kernel", KERNEL * 0), ("bias", BIAS)]})
    keras2 = model.h5(None, {"conv_17": [("kernel", KERNEL), ("bias", BIAS)]}, name="weights.h5")  # names may differ
    keras3 = model.folder / "model.weights.h5"
    with h5py.File(keras3, "w") as file:
        for name, values in ARRAYS_KERAS.items():
            file[name] = values
        file["layers/conv2d/vars"].attrs["name"] = "conv_17"
    for data in (keras2, keras3):
        np.testing.assert_array_equal(conv_of(definition, data)[0].load(), KERNEL_OIHW)


def test_weights_alone_are_no_definition(model: Any) -> None:
    path = model.h5(None, ARRAYS_H5)
    with pytest.raises(ModelError, match=r"only weights(.|\n)*model\.save\("):
        load(path, path)


def test_weights_of_a_class_of_ones_own_say_how_to_get_a_model(model: Any) -> None:
    """Keras 3 names the groups by the attributes of the class, which do not show the layers."""
    weights = model.h5(None, {}, name="net.weights.h5")
    with h5py.File(weights, "w") as file:
        file["conv1/vars/0"] = KERNEL
        file.create_group("vars")
    definition = model.keras(conv_config(model), ARRAYS_KERAS)
    for network, code in ((weights, "DV207"), (definition, "DV204")):
        with pytest.raises(ModelError, match=r"keras\.Model\(x, model\.call\(x\)\)\.save\('model\.keras'\)") as caught:
            load(network, weights)
        assert caught.value.problems[0].code == code


def test_weights_of_another_network_are_refused_with_both_shapes(model: Any) -> None:
    path = model.h5(conv_config(model), {"conv": [("kernel", KERNEL[..., :4]), ("bias", BIAS)]})
    with pytest.raises(ModelError, match=r'\(2, 3, 2, 5\), but has \(2, 3, 2, 4\)(.|\n)*layer "conv" \(Conv2D\)'):
        load(path, path)


@pytest.mark.parametrize(
    "arrays", [{}, {"conv": []}, {"conv": [("kernel", KERNEL)]}], ids=["no group", "empty", "no bias"]
)
def test_missing_weights_are_an_error(model: Any, arrays: Any) -> None:
    path = model.h5(conv_config(model), arrays)
    with pytest.raises(ModelError, match=r'DV204(.|\n)*"conv"'):
        load(path, path)


def test_a_listed_array_that_is_missing_is_an_error(model: Any) -> None:
    path = model.h5(conv_config(model), ARRAYS_H5)
    with h5py.File(path, "a") as file:
        del file["model_weights/conv/conv/kernel:0"]
    with pytest.raises(ModelError, match="kernel:0"):
        load(path, path)


def test_theano_kernels_are_turned(model: Any) -> None:
    path = model.h5(conv_config(model), ARRAYS_H5, backend=b"theano")
    np.testing.assert_array_equal(conv_of(path)[0].load(), KERNEL_OIHW[:, :, ::-1, ::-1])


# --- keys of Keras 3 -----------------------------------------------------------------------------------------------------


def two_convolutions(model: Any, first: str, second: str) -> Any:
    return model.sequential(
        model.layer("InputLayer", "in", batch_input_shape=[None, 6, 6, 1]),
        model.layer("Conv2D", first, filters=1, kernel_size=1, use_bias=False),
        model.layer("Conv2D", second, filters=1, kernel_size=1, use_bias=False),
    )


def pixel(value: float) -> Any:
    return np.full((1, 1, 1, 1), value, np.float32)


@pytest.mark.parametrize(
    ("first", "second", "arrays"),
    [
        ("a", "b", {"layers/conv2d/vars/0": 1, "layers/conv2d_1/vars/0": 2}),
        ("conv2d_1", "conv2d", {"layers/conv2d/vars/0": 1, "layers/conv2d_1/vars/0": 2}),
        ("a", "b", {"layers/a/vars/0": 1, "layers/b/vars/0": 2}),
        (
            "a",
            "b",
            {"_layer_checkpoint_dependencies/conv2d/vars/0": 1, "_layer_checkpoint_dependencies/conv2d_1/vars/0": 2},
        ),
        (
            "b",
            "a",
            {"_layer_checkpoint_dependencies/conv2d/vars/0": 1, "_layer_checkpoint_dependencies/conv2d_2/vars/0": 2},
        ),
    ],
    ids=["counted", "counted, names swapped", "named", "once in the old group", "keras 2.12"],
)
def test_layers_find_their_arrays(model: Any, first: str, second: str, arrays: dict[str, float]) -> None:
    path = model.keras(two_convolutions(model, first, second), {name: pixel(v) for name, v in arrays.items()})
    graph = load(path, path)
    kernels = [node.op.weight.load().item() for node in graph.nodes if isinstance(node.op, ops.Conv2d)]
    assert kernels == [1, 2]


def test_nested_models_of_keras_2_13_count_twice_where_they_have_weights(model: Any) -> None:
    """Names of groups as Keras 2.13 writes them: layers without weights count once, and have groups, too."""
    conv = partial(model.layer, "Conv2D", filters=1, kernel_size=1, use_bias=False)
    norm = model.layer("BatchNormalization", "norm", axis=[3], epsilon=0.0, scale=False, center=False)
    config = model.sequential(
        model.layer("InputLayer", "in", batch_input_shape=[None, 6, 6, 1]),
        model.sequential(conv("c1"), norm, conv("c2"), name="first"),
        model.sequential(model.layer("ReLU", "relu"), name="second"),
        model.sequential(conv("c3"), *(conv(f"more{n}") for n in range(5)), name="third"),
        conv("last"),
    )
    old = "_layer_checkpoint_dependencies"
    arrays = {
        f"{old}/sequential/{old}/conv2d/vars/0": pixel(1),
        f"{old}/sequential/{old}/batch_normalization/vars/0": np.zeros(1, np.float32),
        f"{old}/sequential/{old}/batch_normalization/vars/1": np.ones(1, np.float32),
        f"{old}/sequential/{old}/conv2d_2/vars/0": pixel(2),
        f"{old}/sequential_2/{old}/re_lu/vars": None,
        **{f"{old}/sequential_3/{old}/conv2d{suffix}/vars/0": pixel(3 + n)
           for n, suffix in enumerate(("", "_2", "_4", "_6", "_8", "_10"))},
        f"{old}/conv2d/vars/0": pixel(9),
    }  # fmt: skip
    path = model.keras(config, arrays)
    graph = load(path, path)
    kernels = [node.op.weight.load().item() for node in graph.nodes if isinstance(node.op, ops.Conv2d)]
    assert kernels == [1, 2, 3, 4, 5, 6, 7, 8, 9]


# --- what is no model ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("empty.h5", b"", "empty"),
        ("text.h5", b"version https://git-lfs.github.com/spec/v1", "not a Keras model"),
        ("text.keras", b"hello", "not a Keras model"),
        ("model.pb", b"\x08\x01\x12", "TensorFlow graph"),
        ("model.pt", b"PK\3\4whatever", "PyTorch"),
        ("model.json", b"{}", "JSON file without a Keras model"),
        ("net.caffemodel", b"\n\4", "origin = CAFFE"),
        ("broken.keras", b"PK\3\4whatever", "damaged"),
        ("broken.h5", b"\x89HDF\r\n\x1a\n" + bytes(50), "damaged"),
    ],
)
def test_other_files_are_refused_with_a_hint(tmp_path: Path, name: str, content: bytes, expected: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ModelError, match=expected) as caught:
        load(tmp_path / name, tmp_path / name)
    assert str(tmp_path / name) in str(caught.value) and "try:" in str(caught.value)


def test_folders_and_missing_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no such file"):
        load(tmp_path / "nothing.h5", tmp_path / "nothing.h5")
    with pytest.raises(ModelError, match="folder"):
        load(tmp_path, tmp_path)
    (tmp_path / "saved_model.pb").touch()
    with pytest.raises(ModelError, match=r"DV208.*SavedModel(.|\n)*model.keras"):
        load(tmp_path, tmp_path)


def test_an_h5_file_without_a_model_is_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file["images"] = np.zeros(3)
    with pytest.raises(ModelError, match="model_config"):
        load(tmp_path / "data.h5", tmp_path / "data.h5")


def test_a_zip_without_a_model_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.keras", "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(ModelError, match=r"config\.json"):
        load(tmp_path / "a.keras", tmp_path / "a.keras")


def test_a_subclassed_model_is_refused(model: Any) -> None:
    path = model.keras({"class_name": "MyModel", "config": {"name": "m"}})
    with pytest.raises(ModelError, match="Python code"):
        load(path, path)


@pytest.mark.slow
@pytest.mark.rotating(turns=4)
@pytest.mark.parametrize("kind", ["h5", "keras"])
def test_files_that_are_cut_short_never_end_in_a_traceback(model: Any, kind: str, tmp_path: Path) -> None:
    path = model.h5(conv_config(model), ARRAYS_H5) if kind == "h5" else model.keras(conv_config(model), ARRAYS_KERAS)
    whole = path.read_bytes()
    for size in range(1, len(whole), 97):
        victim = tmp_path / f"victim.{kind}"
        victim.write_bytes(whole[:size])
        with pytest.raises(ModelError):
            load(victim, victim)


@pytest.mark.parametrize("packing", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_bit_that_changed_in_an_archive_is_found(model: Any, packing: int, tmp_path: Path) -> None:
    path = model.keras(conv_config(model), ARRAYS_KERAS, packing=packing)
    whole = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        member = archive.getinfo("model.weights.h5")
    for part in range(1, 20):
        victim = tmp_path / "victim.keras"
        changed = whole.copy()
        changed[member.header_offset + 60 + part * (member.compress_size - 60) // 20] ^= 4
        victim.write_bytes(changed)
        with pytest.raises(ModelError, match="DV201: the file"):
            load(victim, victim)


@pytest.mark.slow
@pytest.mark.usefixtures("hdf5_in_this_process")
@pytest.mark.parametrize(("seed", "rounds"), [(1, 50), pytest.param(2, 400, marks=pytest.mark.slow)])
def test_nonsense_in_the_configuration_never_ends_in_a_traceback(model: Any, seed: int, rounds: int) -> None:
    layer = model.layer
    good = model.functional(
        [
            layer("InputLayer", "in", batch_input_shape=[None, 6, 6, 2]),
            layer("ZeroPadding2D", "pad", "in", padding=[[1, 1], [1, 1]], data_format="channels_last"),
            layer(
                "Conv2D",
                "conv",
                "pad",
                filters=2,
                kernel_size=[3, 3],
                strides=[1, 1],
                padding="same",
                activation="relu",
            ),
            layer("BatchNormalization", "bn", "conv", axis=[3], epsilon=0.001, scale=True, center=True),
            layer("ReLU", "relu", "bn", max_value=6, negative_slope=0, threshold=0),
            layer("PReLU", "prelu", "relu", shared_axes=[1, 2]),
            layer("MaxPooling2D", "pool", "prelu", pool_size=[2, 2], strides=[2, 2], padding="valid"),
            layer("UpSampling2D", "up", "pool", size=[2, 2], interpolation="nearest"),
            layer("Add", "add", "up", "prelu"),
            layer("Concatenate", "cat", "add", "up", axis=-1),
            layer("Reshape", "shape", "cat", target_shape=[-1, 8, 4]),
            layer("Flatten", "flat", "shape", data_format="channels_last"),
            layer("Dense", "dense", "flat", units=3, activation={"class_name": "LeakyReLU", "config": {"alpha": 0.1}}),
        ],
        ["in"],
        ["dense", "cat"],
    )
    shapes: dict[str, list[tuple[int, ...]]] = {
        "conv": [(3, 3, 2, 2), (2,)],
        "bn": [(2,)] * 4,
        "prelu": [(1, 1, 2)],
        "dense": [(256, 3), (3,)],
    }
    arrays = {
        n: [(f"v{i}", np.ones(shape, np.float32)) for i, shape in enumerate(given)] for n, given in shapes.items()
    }
    path = model.h5(good, arrays)
    assert load(path, path).outputs == ("dense", "cat")
    chance = random.Random(seed)
    for _ in range(rounds):
        changed = json.loads(json.dumps(good))
        _spoil(changed, chance)
        with h5py.File(path, "a") as file:
            file.attrs["model_config"] = json.dumps(changed)
        with suppress(ConvertorError):
            load(path, path)


def _spoil(data: Any, chance: random.Random) -> None:
    """Put nonsense in one place of the configuration."""
    places = []

    def collect(value: Any) -> None:
        for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
            places.append((value, key))
            collect(value[key])

    collect(data)
    parent, key = chance.choice(places)
    parent[key] = chance.choice([None, "x", -1, 0, 2.5, [], {}, [None], [[1]], {"class_name": "x"}, 10**9, True])


@pytest.mark.parametrize("gap", [0, 1 << 14])
@pytest.mark.parametrize("axis", range(4))
def test_a_part_of_one_axis_is_read_from_contiguous_numbers(
    axis: int, gap: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hdf5, "GAP", gap)
    monkeypatch.setattr(hdf5, "BLOCK", 256)
    values = np.arange(3 * 5 * 4 * 6, dtype=np.float32).reshape(3, 5, 4, 6)
    path = tmp_path / "numbers"
    path.write_bytes(bytes(8) + values.tobytes())
    data = hdf5.Hdf5Data("numbers", path, 8, values.nbytes, Version.of(path.stat()))
    for start, stop in ((0, 1), (1, 3), (0, values.shape[axis]), (2, 2)):
        index = (*(slice(None),) * axis, slice(start, stop), *(slice(None),) * (3 - axis))
        np.testing.assert_array_equal(data.contiguous(values.dtype, 0, values.shape, index), values[index])
