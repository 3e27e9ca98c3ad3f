"""Builds well-known architectures with seeded random weights, as Caffe, Keras or ONNX files, for tests and benchmarks.

`python examples/zoo.py NAME ... --output DIR` makes DIR/NAME/ with the model's files and a net.ini; `--list` prints the
names.

The weights are random, but the numbers that flow are like a trained network's: mean and variance of every map are
estimated from those of the maps before it, and each layer's weights are drawn such that its outputs have a variance of
about 1 at any depth. Inputs should lie in -1..1 or 0..1. The same name, size and seed give the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from examples import caffemodel
from examples.caffe_net import CaffeNet
from examples.zoo_caffe import (
    caffenet,
    enet,
    fcn_8s,
    googlenet_with_lrn,
    googlenet_without_lrn,
    lenet,
    mobilenet_v1,
    mobilenet_v2,
    mtcnn_onet,
    resnet50,
    segnet_basic,
    squeezenet_1_1,
    ssd_mobilenet,
    vgg16,
    yolov3_tiny,
)
from examples.zoo_keras import fill_keras, nothing_drawn, save_keras
from examples.zoo_numbers import CENTERING, INPUT, PIXELS


def write_ini(path: Path, name: str, *model: str) -> None:
    """Write a net.ini for the FP16 form of a network."""
    output = ["output_folder = output", "quantization = 0", "transpose_weight = 1"]
    output += ["generate_source = 1", "generate_dot = 1"]
    path.write_text("\n".join(["[INPUT]", f"name = {name}", *model, "", "[OUTPUT]", *output]) + "\n")


@dataclass(frozen=True, slots=True)
class Caffe:
    """A Caffe network. lay_out: fills a CaffeNet, for an input size in pixels. centering: of its kernels."""

    lay_out: Callable[[CaffeNet, int], None]
    size: int
    centering: float = CENTERING

    def write(self, name: str, folder: Path, seed: int, size: int) -> None:
        net = CaffeNet(name, seed, self.centering)
        self.lay_out(net, size)
        (folder / f"{name}.prototxt").write_text(net.definition())
        caffemodel.write(folder / f"{name}.caffemodel", net.weights())
        write_ini(folder / "net.ini", name, f"definition = {name}.prototxt", f"data = {name}.caffemodel")


@dataclass(frozen=True, slots=True)
class Keras:
    """A network of keras.applications, by the name of its function.

    smallest: the smallest input that it allows. takes_pixels: whether its input is 0..255.
    """

    function: str
    size: int
    smallest: int = 32
    takes_pixels: bool = False

    def write(self, name: str, folder: Path, seed: int, size: int) -> None:
        import keras

        keras.backend.clear_session()  # layers without a name of their own are counted from 1 again
        with nothing_drawn():
            model = getattr(keras.applications, self.function)(weights=None, input_shape=(size, size, 3))
        fill_keras(model, seed, PIXELS if self.takes_pixels else INPUT)
        save_keras(model, folder / f"{name}.keras")
        pixels = ("scale = 1",) if self.takes_pixels else ()
        write_ini(folder / "net.ini", name, f"definition = {name}.keras", *pixels)


@dataclass(frozen=True, slots=True)
class Onnx:
    """A network of examples/zoo_onnx.py, by the name of its function. size, smallest: as of the others."""

    layout: str
    size: int
    smallest: int = 64
    centering: float = CENTERING

    def write(self, name: str, folder: Path, seed: int, size: int) -> None:
        from examples import zoo_onnx

        zoo_onnx.write(self.layout, folder / f"{name}.onnx", seed, size, self.centering)
        write_ini(folder / "net.ini", name, f"definition = {name}.onnx")


NETWORKS: Final[dict[str, Caffe | Keras | Onnx]] = {
    "caffe_lenet": Caffe(lenet, 28),
    "caffe_squeezenet_1_1": Caffe(squeezenet_1_1, 227),
    "caffe_mobilenet_v1": Caffe(mobilenet_v1, 224, centering=0.3),
    "caffe_googlenet": Caffe(googlenet_with_lrn, 224),
    "caffe_googlenet_without_lrn": Caffe(googlenet_without_lrn, 224),
    "caffe_vgg16": Caffe(vgg16, 224),
    "caffe_resnet50": Caffe(resnet50, 224),
    "caffe_alexnet": Caffe(caffenet, 227),
    "caffe_mobilenet_v2": Caffe(mobilenet_v2, 224),
    "caffe_ssd_mobilenet": Caffe(ssd_mobilenet, 300, centering=0.2),
    "caffe_yolov3_tiny": Caffe(yolov3_tiny, 416),
    "caffe_segnet_basic": Caffe(segnet_basic, 224),
    "caffe_fcn_8s": Caffe(fcn_8s, 224),
    "caffe_enet": Caffe(enet, 512),
    "caffe_mtcnn_onet": Caffe(mtcnn_onet, 48),
    "keras_mobilenet": Keras("MobileNet", 224),
    "keras_mobilenet_v2": Keras("MobileNetV2", 224),
    "keras_resnet50": Keras("ResNet50", 224),
    "keras_vgg16": Keras("VGG16", 224),
    "keras_inception_v3": Keras("InceptionV3", 299, 75),
    "keras_densenet121": Keras("DenseNet121", 224),
    "keras_vgg19": Keras("VGG19", 224),
    "keras_resnet101": Keras("ResNet101", 224),
    "keras_resnet152": Keras("ResNet152", 224),
    "keras_resnet50_v2": Keras("ResNet50V2", 224),
    "keras_resnet101_v2": Keras("ResNet101V2", 224),
    "keras_resnet152_v2": Keras("ResNet152V2", 224),
    "keras_inception_resnet_v2": Keras("InceptionResNetV2", 299, 75),
    "keras_xception": Keras("Xception", 299, 71),
    "keras_mobilenet_v3_small": Keras("MobileNetV3Small", 224, takes_pixels=True),
    "keras_mobilenet_v3_large": Keras("MobileNetV3Large", 224, takes_pixels=True),
    "keras_densenet169": Keras("DenseNet169", 224),
    "keras_densenet201": Keras("DenseNet201", 224),
    "keras_nasnet_mobile": Keras("NASNetMobile", 224),
    "keras_efficientnet_b0": Keras("EfficientNetB0", 224, takes_pixels=True),
    "keras_efficientnet_b1": Keras("EfficientNetB1", 240, takes_pixels=True),
    "keras_efficientnet_b2": Keras("EfficientNetB2", 260, takes_pixels=True),
    "keras_efficientnet_b3": Keras("EfficientNetB3", 300, takes_pixels=True),
    "keras_efficientnet_v2_b0": Keras("EfficientNetV2B0", 224, takes_pixels=True),
    "keras_convnext_tiny": Keras("ConvNeXtTiny", 224, takes_pixels=True),
    "onnx_resnet18": Onnx("resnet18", 224),
    "onnx_mobilenet_v3_small": Onnx("mobilenet_v3_small", 224),
    "onnx_efficientnet_lite0": Onnx("efficientnet_lite0", 224),
    "onnx_yolo_nano": Onnx("yolo_nano", 320),
    "onnx_unet": Onnx("unet", 128),
    "onnx_deeplab": Onnx("deeplab", 224),
    "onnx_crnn": Onnx("crnn", 32, smallest=32),
    "onnx_ssd_heads": Onnx("ssd_heads", 224),
    # Networks of Caffe's, with the same names and weights.
    "onnx_lenet": Onnx("lenet", 28, smallest=28),
    "onnx_squeezenet_1_1": Onnx("squeezenet_1_1", 227),
    "onnx_mobilenet_v1": Onnx("mobilenet_v1", 224, centering=0.3),
    "onnx_mobilenet_v2": Onnx("mobilenet_v2", 224),
    "onnx_googlenet_without_lrn": Onnx("googlenet_without_lrn", 224),
    "onnx_resnet50": Onnx("resnet50", 224),
    "onnx_yolov3_tiny": Onnx("yolov3_tiny", 416),
    "onnx_fcn_8s": Onnx("fcn_8s", 224),
    "onnx_enet": Onnx("enet", 512),
    "onnx_mtcnn_onet": Onnx("mtcnn_onet", 48, smallest=48),
}


def build(name: str, folder: Path, seed: int = 0, size: int | None = None) -> Path:
    """Write a network's files to folder/name/; returns its net.ini, which is written last.

    size: height and width of the input in pixels, the usual one by default.
    """
    network = NETWORKS[name]
    home = folder / name
    home.mkdir(parents=True, exist_ok=True)
    network.write(name, home, seed, network.size if size is None else size)
    return home / "net.ini"


def print_names(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    """Print the names of all networks and end."""
    if wanted:
        click.echo("\n".join(NETWORKS))
        context.exit()


@click.command(help="Build NAMES, networks with random weights, each in a folder of its own.")
@click.argument("names", nargs=-1, required=True, type=click.Choice(list(NETWORKS)), metavar="NAMES...")
@click.option("--output", type=click.Path(path_type=Path, file_okay=False), required=True, help="Where the folders go.")
@click.option("--seed", default=0, show_default=True, help="Another seed gives other weights.")
@click.option("--size", type=click.IntRange(min=1), help="Height and width of the input, instead of the usual.")
@click.option("--list", is_flag=True, is_eager=True, expose_value=False, callback=print_names, help="Print the names.")
def main(names: tuple[str, ...], output: Path, seed: int, size: int | None) -> None:
    for name in names:
        click.echo(build(name, output, seed, size))


if __name__ == "__main__":
    main()
