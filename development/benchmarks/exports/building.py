"""Builds networks of model libraries, with weights that keep their activations alive, and exports them to ONNX.

python -m development.benchmarks.exports.building NAME FOLDER {torchscript,dynamo}... writes NAME.EXPORTER.onnx, and beside it .txt with what is
known of it, or why there is none. It needs requirements.txt, and nothing of the package.
"""

from __future__ import annotations

import json
import math
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch
from torch import nn

from development.benchmarks.exports.architectures import ARCHITECTURES, LIBRARIES, Architecture

SEED: Final = 0
IMAGES: Final = 3  # of one forward pass in training mode
PASSES: Final = 2
OPSET: Final = 17  # of the older exporter; the newer one has its own
LARGEST: Final = 3e3  # of a map: far from the 65504 of FP16
SMALLEST: Final = 1e-3  # difference between two images in a live output
TRIES: Final = 8
GAINS: Final = (0.9, 0.6, 0.4, 0.3)
CALM: Final = 55.0  # dB
COARSEST: Final = 8  # pixels of a block of noise, as in the images of `verify`: others may be far from the statistics
LEAST_VARIANCE: Final = 0.1  # of a normalization's input, over the square of its mean
BatchNorm: Final = (nn.BatchNorm1d, nn.BatchNorm2d)


# --- libraries -----------------------------------------------------------------------------------------------------------


def _torchvision(network: str, _: Architecture) -> nn.Module:
    import torchvision

    has_backbone = any(part in network for part in ("fcn", "deeplab", "lraspp", "ssd", "retinanet", "fcos"))
    options: dict[str, Any] = {"weights_backbone": None} if has_backbone else {}
    if network in ("googlenet", "inception_v3"):
        options = {"aux_logits": False, "init_weights": False}
    model = torchvision.models.get_model(network, weights=None, **options)
    return HeadsOf(model) if hasattr(model, "anchor_generator") else model


def _timm(network: str, architecture: Architecture) -> nn.Module:
    import timm

    model: nn.Module = timm.create_model(network, pretrained=False)
    own = model.pretrained_cfg
    if own.get("fixed_input_size") and own["input_size"][1] != architecture.height:
        model = timm.create_model(network, pretrained=False, img_size=architecture.height)
    return model


def _segmentation(network: str, _: Architecture) -> nn.Module:
    import segmentation_models_pytorch as smp

    decoder, encoder = network.split("-", 1)
    options: dict[str, Any] = {}
    if encoder.endswith("-scse"):
        options["decoder_attention_type"] = "scse"
    if encoder.endswith("-instancenorm"):
        options["decoder_use_norm"] = {"type": "instancenorm", "affine": True}
    encoder = encoder.removesuffix("-scse").removesuffix("-instancenorm")
    encoder = encoder.replace("timm-", "tu-")  # "tu" is the library's name for encoders of timm
    model: nn.Module = smp.create_model(decoder, encoder_name=encoder, encoder_weights=None, classes=4, **options)
    return model


def _pytorchcv(network: str, architecture: Architecture) -> nn.Module:
    from pytorchcv.model_provider import get_model

    sized = any(part in network for part in ("pose", "centernet", "cityscapes", "voc", "celeb"))
    options: dict[str, Any] = {"in_size": (architecture.height, architecture.width)} if sized else {}
    if any(part in network for part in ("pose", "centernet")):
        options["return_heatmap"] = True  # without the search for the largest values
    model: nn.Module = get_model(network, pretrained=False, **options)
    return model


def _ultralytics(network: str, _: Architecture) -> nn.Module:
    os.environ.setdefault("YOLO_CONFIG_DIR", tempfile.gettempdir())
    os.environ.setdefault("YOLO_OFFLINE", "true")
    os.environ.setdefault("YOLO_AUTOINSTALL", "false")
    from ultralytics import YOLO

    model: nn.Module = YOLO(f"{network}.yaml").model
    for module in model.modules():  # as the library's own exporter sets them
        if hasattr(module, "export"):
            module.export, module.format, module.dynamic = True, "onnx", False
        if hasattr(module, "forward_split"):
            module.forward = module.forward_split
    return model


def _effdet(network: str, _: Architecture) -> nn.Module:
    import effdet

    model: nn.Module = effdet.create_model(network, bench_task="", pretrained=False, pretrained_backbone=False)
    return model


def _doctr(network: str, _: Architecture) -> nn.Module:
    from doctr import models

    zoo = models.detection if hasattr(models.detection, network) else models.recognition
    model: nn.Module = getattr(zoo, network)(pretrained=False, pretrained_backbone=False, exportable=True)
    return model


def _transformers(network: str, architecture: Architecture) -> nn.Module:
    import transformers as t

    make: dict[str, Callable[[], Any]] = {
        "mobilenet_v1": lambda: t.MobileNetV1ForImageClassification(t.MobileNetV1Config()),
        "resnet": lambda: t.ResNetForImageClassification(t.ResNetConfig()),
        "regnet": lambda: t.RegNetForImageClassification(t.RegNetConfig()),
        "levit": lambda: t.LevitForImageClassification(t.LevitConfig()),
        "cvt": lambda: t.CvtForImageClassification(t.CvtConfig()),
        "mobilevit": lambda: t.MobileViTForImageClassification(t.MobileViTConfig()),
        "poolformer": lambda: t.PoolFormerForImageClassification(t.PoolFormerConfig()),
        "segformer": lambda: t.SegformerForSemanticSegmentation(t.SegformerConfig()),
        "detr": lambda: t.DetrForObjectDetection(t.DetrConfig(backbone_config=t.ResNetConfig(out_features=["stage4"]))),
        "yolos": lambda: t.YolosForObjectDetection(
            t.YolosConfig(
                hidden_size=192,
                num_attention_heads=3,
                intermediate_size=768,
                image_size=[architecture.height, architecture.width],
            )
        ),
        "upernet": lambda: t.UperNetForSemanticSegmentation(
            t.UperNetConfig(
                pool_scales=[1, 2, 3, 6],
                backbone_config=t.ConvNextConfig(
                    hidden_sizes=[96, 192, 384, 768], out_features=["stage1", "stage2", "stage3", "stage4"]
                ),
            )
        ),
        "dinov2": lambda: t.Dinov2ForImageClassification(
            t.Dinov2Config(hidden_size=384, num_attention_heads=6, image_size=architecture.height)
        ),
        "swin2sr": lambda: t.Swin2SRForImageSuperResolution(
            t.Swin2SRConfig(
                image_size=architecture.height,
                embed_dim=60,
                depths=[6] * 4,
                num_heads=[6] * 4,
                upsampler="pixelshuffledirect",
            )
        ),
        "glpn": lambda: t.GLPNForDepthEstimation(t.GLPNConfig()),
    }
    model: nn.Module = make[network]()
    return model


BUILDERS: Final[dict[str, Callable[[str, Architecture], nn.Module]]] = {
    "torchvision": _torchvision,
    "timm": _timm,
    "segmentation": _segmentation,
    "pytorchcv": _pytorchcv,
    "ultralytics": _ultralytics,
    "effdet": _effdet,
    "doctr": _doctr,
    "transformers": _transformers,
}


class HeadsOf(nn.Module):
    """A detector of torchvision without its anchors and what follows them: the maps of its heads."""

    def __init__(self, detector: nn.Module) -> None:
        super().__init__()
        self.backbone, self.head = detector.backbone, detector.head

    def forward(self, image: torch.Tensor) -> Any:
        maps = self.backbone(image)
        return self.head(list(maps.values()) if isinstance(maps, dict) else [maps])


class Flat(nn.Module):
    """A network whose outputs are a tuple of tensors, whatever structure the library gives them."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(_tensors(self.network(image)))


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif value is not None:
        for part in value.values() if hasattr(value, "values") else value:
            yield from _tensors(part)


# --- weights -------------------------------------------------------------------------------------------------------------


def images(architecture: Architecture, count: int, random: torch.Generator) -> torch.Tensor:
    """(N, C, H, W) of -1..1: noise in coarse and fine blocks, as the package's own random images."""
    height, width = architecture.height, architecture.width
    image = torch.rand(count, architecture.channels, height, width, generator=random)
    block = 2
    while block <= min(COARSEST, height, width):
        coarse = torch.rand(count, architecture.channels, -(-height // block), -(-width // block), generator=random)
        image += block * nn.functional.interpolate(coarse, scale_factor=block)[..., :height, :width]
        block *= 2
    low, high = image.amin((1, 2, 3), keepdim=True), image.amax((1, 2, 3), keepdim=True)
    return (image - low) / (high - low) * 2 - 1


class Life(NamedTuple):
    """Evidence that a network computes something that depends on its image, and that FP16 can hold.

    largest: magnitude in a map. difference: between the outputs of two images, relative to these. rounding: dB that remain when PyTorch
    rounds weights and maps to FP16, which is what a device can reach at most, or nearly.
    """

    largest: float
    difference: float
    rounding: float


def enliven(model: nn.Module, sample: torch.Tensor, random: torch.Generator) -> Life:
    """Give a network weights with which its maps neither vanish nor explode, and normalizations the statistics of images.

    Libraries start many blocks with factors of 0 or 1e-6, which would hide all that these compute; and random weights of many layers
    turn a small error into a large one, which trained weights do not. So the gain of normalizations is lowered until rounding is
    harmless. Raises ValueError if no weights are found.
    """
    model.eval()
    life = None
    for gain in GAINS:
        _draw(model, random, gain)
        for _ in range(TRIES):
            _measure(model, sample[:IMAGES])
            life = _life(model, sample[IMAGES:])  # others, as statistics of few images may suit only these
            if life.largest <= LARGEST and life.difference >= SMALLEST:
                break
            factor = 1.25 if life.largest <= LARGEST else 0.8
            with torch.no_grad():
                for parameter in model.parameters():
                    if parameter.dim() > 1 and parameter.requires_grad:
                        parameter *= factor
        else:
            continue
        if life.rounding >= CALM:
            return life
    if life is None or not (life.largest <= 10 * LARGEST and life.difference >= SMALLEST):
        raise ValueError(f"no weights keep it alive: {life}")
    return life


def _draw(model: nn.Module, random: torch.Generator, gain: float) -> None:
    """New weights: for convolutions and dense layers, such that they keep the variance of their inputs.

    gain: the largest of batch normalizations, to which that of others is in proportion. Most of their outputs are positive, as where an activation follows most are.
    """

    def normal(parameter: torch.Tensor, deviation: float) -> None:
        parameter.copy_(torch.randn(parameter.shape, generator=random) * deviation)

    def uniform(parameter: torch.Tensor, low: float, high: float) -> None:
        parameter.copy_(torch.rand(parameter.shape, generator=random) * (high - low) + low)

    with torch.no_grad():
        for module in model.modules():
            is_batch_norm = isinstance(module, BatchNorm)
            for name, parameter in module.named_parameters(recurse=False):
                if not parameter.requires_grad or isinstance(module, nn.PReLU):
                    continue
                if parameter.dim() > 1 and name.endswith("weight") and not isinstance(module, nn.Embedding):
                    fan_in = parameter[0].numel()
                    if isinstance(module, nn.ConvTranspose2d):
                        fan_in = parameter.shape[0] * parameter[0, 0].numel() // (module.stride[0] * module.stride[1])
                    normal(parameter, ((2 if isinstance(module, nn.Conv2d) else 1) / max(fan_in, 1)) ** 0.5)
                elif is_batch_norm:
                    uniform(parameter, *((gain / 3, gain) if name == "weight" else (0, 1)))
                elif name == "weight":
                    uniform(parameter, 0.5 * gain / GAINS[0], 1.5 * gain / GAINS[0])
                elif "bias" in name and parameter.dim() == 1:
                    normal(parameter, 0.1)
                elif not parameter.numel() or parameter.abs().max() >= 0.2:
                    continue  # drawn by the library
                elif any(part in name for part in ("gamma", "scale", "gain", "alpha", "beta", "lambda")):
                    uniform(parameter, 0.3, 0.7)
                else:
                    normal(parameter, 0.5)


def _measure(model: nn.Module, sample: torch.Tensor) -> None:
    """Give each batch normalization the mean and variance of its inputs."""
    norms = [module for module in model.modules() if isinstance(module, BatchNorm)]
    model.eval()
    if not norms:
        return
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # an average of all passes
        norm.train()
    with torch.no_grad():
        for at in range(PASSES):
            model(sample.roll(at * 7, dims=-1))
        for norm in norms:  # few images differ little behind a global pool, which would make rounding errors large
            norm.running_var.clamp_(min=LEAST_VARIANCE * norm.running_mean.square())
    model.eval()


def _life(model: nn.Module, sample: torch.Tensor) -> Life:
    """sample: two images."""
    largest = 0.0

    def look(_module: nn.Module, _inputs: Any, output: Any) -> None:
        nonlocal largest
        for map in _tensors(output) if isinstance(output, (torch.Tensor, tuple, list)) else ():
            if map.is_floating_point() and map.numel():
                magnitude = float(map.abs().max())
                largest = max(largest, magnitude if math.isfinite(magnitude) else math.inf)

    def rounded(_module: nn.Module, _inputs: Any, output: Any) -> Any:
        return output.half().float() if isinstance(output, torch.Tensor) and output.is_floating_point() else output

    parts = [module for module in model.modules() if not list(module.children())]
    with torch.no_grad():
        outputs = _observed(model, sample, parts, look)
        norms = {parameter for norm in parts if isinstance(norm, BatchNorm) for parameter in norm.parameters()}
        weights = [(parameter, parameter.clone()) for parameter in model.parameters() if parameter not in norms]
        for parameter, value in weights:
            parameter.copy_(value.half().float())
        coarse = _observed(model, sample, parts, rounded)
        for parameter, value in weights:
            parameter.copy_(value)
    pairs = [maps for maps in zip(outputs, coarse, strict=True) if maps[0].is_floating_point()]
    return Life(
        largest,
        difference=min(float((map[0] - map[-1]).norm() / map[0].norm().clamp(min=1e-9)) for map, _ in pairs),
        rounding=min(_sqnr(*maps) for maps in pairs),
    )


def _observed(
    model: nn.Module, sample: torch.Tensor, parts: list[nn.Module], hook: Callable[..., Any]
) -> tuple[torch.Tensor, ...]:
    hooks = [part.register_forward_hook(hook) for part in parts]
    outputs: tuple[torch.Tensor, ...] = model(sample)
    for handle in hooks:
        handle.remove()
    return outputs


def _sqnr(right: torch.Tensor, other: torch.Tensor) -> float:
    """dB; at most 200."""
    error, power = float((right - other).double().square().sum()), float(right.double().square().sum())
    return min(200.0, 10 * math.log10(power / error)) if error and power else 200.0


# --- export --------------------------------------------------------------------------------------------------------------


def build(name: str) -> tuple[nn.Module, torch.Tensor, Life]:
    """A network and an image for it."""
    architecture = ARCHITECTURES[name]
    torch.manual_seed(SEED)
    random = torch.Generator().manual_seed(SEED)
    model = Flat(BUILDERS[architecture.library](architecture.network, architecture)).eval()
    sample = images(architecture, IMAGES + 2, random)
    life = enliven(model, sample, random)
    if architecture.library == "ultralytics":  # as the library's own exporter
        model.network.fuse(verbose=False)
    with torch.no_grad():
        model(sample[:1])  # and detectors keep the anchors of the last size
    return model, sample[:1], life


def export(model: nn.Module, image: torch.Tensor, exporter: str, path: Path) -> None:
    with torch.no_grad():
        if exporter == "torchscript":
            torch.onnx.export(model, (image,), str(path), dynamo=False, opset_version=OPSET, input_names=["image"])
        else:
            torch.onnx.export(model, (image,), str(path), dynamo=True, external_data=False, input_names=["image"])


def versions(library: str) -> dict[str, str]:
    """Of PyTorch and of the library."""
    package = next(each.package for each in LIBRARIES if each.name == library)
    return {name: metadata.version(name) for name in ("torch", package)}


def main() -> None:
    name, folder, *exporters = sys.argv[1:]
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.backends.mha.set_fastpath_enabled(False)  # the older exporter does not know it
    about: dict[str, Any] = {"versions": versions(ARCHITECTURES[name].library)}
    try:
        model, image, life = build(name)
    except Exception as error:  # noqa: BLE001 - libraries fail in all ways, each of which is a result
        exporters, notes = [], about | {"error": _words(error)}
        for exporter in sys.argv[3:]:
            _write(Path(folder, f"{name}.{exporter}.txt"), notes)
    for exporter in exporters:
        path = Path(folder, f"{name}.{exporter}.onnx")
        try:
            export(model, image, exporter, path)
            notes = about | {"life": life._asdict()}
        except Exception as error:  # noqa: BLE001 - as above
            path.unlink(missing_ok=True)
            notes = about | {"error": _words(error)}
        _write(path.with_suffix(".txt"), notes)


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:500]


def _write(path: Path, notes: dict[str, Any]) -> None:
    path.write_text(json.dumps(notes), encoding="utf-8")


if __name__ == "__main__":
    main()
