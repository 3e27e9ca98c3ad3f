"""The descriptors in the package are those of caffe.proto, for any version of protobuf."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2

from cnn_convertor.frontends.caffe import schema

FOLDER = Path(schema.__file__).parent


def _compiler() -> list[str]:
    if shutil.which("protoc"):
        return ["protoc"]
    try:
        found = importlib.util.find_spec("grpc_tools.protoc")
    except ModuleNotFoundError:
        found = None
    if found is None:
        pytest.skip("there is no protoc, and no grpcio-tools")
    return [sys.executable, "-m", "grpc_tools.protoc"]


def test_the_descriptors_are_those_of_the_proto(tmp_path: Path) -> None:
    out = tmp_path / "caffe.binpb"
    command = [*_compiler(), f"-I{FOLDER}", "--include_imports", f"--descriptor_set_out={out}", "caffe.proto"]
    subprocess.run(command, check=True)
    compiled, shipped = (
        descriptor_pb2.FileDescriptorSet.FromString(path.read_bytes()) for path in (out, FOLDER / "caffe.binpb")
    )
    assert compiled == shipped


def test_messages_keep_the_numbers_of_the_format() -> None:
    layer = schema.message_type("LayerParameter")(name="c", type="Convolution")
    layer.convolution_param.num_output = 5
    assert layer.SerializeToString() == b"\x0a\x01c\x12\x0bConvolution\xd2\x06\x02\x08\x05"


def test_weights_are_bytes_to_python() -> None:
    blob = schema.message_type("BlobProto").FromString(b"\x2a\x08\x00\x00\x80\x3f\x00\x00\x00\x40")
    assert blob.data == b"\x00\x00\x80\x3f\x00\x00\x00\x40"


def test_values_are_names_and_tuples() -> None:
    pooling = schema.message_type("PoolingParameter")(kernel_size=[3, 2], pool=1)
    assert schema.values(pooling) == {"pool": "AVE", "kernel_size": (3, 2)}
    assert schema.value_of(pooling, pooling.DESCRIPTOR.fields_by_name["round_mode"]) == "CEIL"
