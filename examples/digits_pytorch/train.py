"""Trains a small PyTorch network on handwritten digits and exports it as ONNX.

`python -m examples.digits_pytorch.train` writes digits.onnx, expected.npy and accuracy.json beside this file.
The seeds are fixed; another machine or another version of PyTorch may still round differently and end elsewhere.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Final

import numpy as np
import onnx
import torch
from torch import nn

from examples.digits import Digits, accuracy, load_test, load_train, shifted

HERE: Final = Path(__file__).parent
SEED: Final = 1
EPOCHS: Final = 40
BATCH: Final = 128
OPSET: Final = 18


class Squeeze(nn.Module):
    """A squeeze-and-excitation block: each channel is multiplied by a number that follows from all channels' means."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.reduce = nn.Conv2d(channels, channels // 4, 1)
        self.expand = nn.Conv2d(channels // 4, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate = nn.functional.relu(self.reduce(nn.functional.adaptive_avg_pool2d(x, 1)))
        return x * nn.functional.hardsigmoid(self.expand(gate))


class Network(nn.Module):
    """1x8x8 to ten scores. On the way, what exported networks have and Caffe's and Keras's have not."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(4, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.SiLU())
        self.depthwise = nn.Sequential(
            nn.Conv2d(16, 16, 3, padding=1, groups=16, bias=False), nn.BatchNorm2d(16), nn.Hardswish()
        )
        self.squeeze = Squeeze(16)
        self.pointwise = nn.Sequential(nn.Conv2d(16, 16, 1, bias=False), nn.BatchNorm2d(16))
        self.narrow = nn.Sequential(nn.Conv2d(16, 8, 1), nn.GELU())
        self.wide = nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.PReLU(16))
        self.tail = nn.Linear(24 * 4 * 4, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        # YOLO's Focus: the four pixels of each block become channels.
        x = torch.cat([image[..., ::2, ::2], image[..., 1::2, ::2], image[..., ::2, 1::2], image[..., 1::2, 1::2]], 1)
        x = self.stem(x)
        x = x + self.pointwise(self.squeeze(self.depthwise(x)))
        x = torch.cat([self.narrow(x), self.wide(x)], 1)
        # ShuffleNet's shuffle, with sizes that are computed.
        batch, channels, height, width = x.size()
        x = x.view(batch, 2, channels // 2, height, width).transpose(1, 2).reshape(batch, channels, height, width)
        return self.tail(x.view(x.size(0), -1))


def trained(digits: Digits) -> Network:
    torch.set_num_threads(1)  # the order of sums depends on it
    torch.manual_seed(SEED)
    torch.use_deterministic_algorithms(True)
    images = torch.from_numpy(digits.inputs()[:, np.newaxis])
    labels = torch.from_numpy(digits.labels.astype(np.int64))
    model = Network()
    steps = EPOCHS * math.ceil(len(images) / BATCH)
    optimizer = torch.optim.Adam(model.parameters(), 4e-3)
    rate = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(EPOCHS):
        order = torch.randperm(len(images))
        for start in range(0, len(images), BATCH):
            chosen = order[start : start + BATCH]
            loss = nn.functional.cross_entropy(model(images[chosen]), labels[chosen], label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            rate.step()
    model.eval()
    return model


def export(model: nn.Module, path: Path) -> None:
    """Write an ONNX file, without what the exporter notes of this machine."""
    image = torch.zeros(1, 1, 8, 8)
    names: dict[str, list[str]] = {"input_names": ["image"], "output_names": ["digit"]}
    torch.onnx.export(model, (image,), path, opset_version=OPSET, external_data=False, verbose=False, **names)
    exported = onnx.load(path)
    exported.producer_version = ""
    for part in (exported, exported.graph, *exported.graph.node, *exported.graph.value_info, *exported.graph.input):
        part.ClearField("metadata_props")
        part.ClearField("doc_string")
    onnx.save(exported, path)


def main() -> None:
    model, test = nn.Sequential(trained(shifted(load_train())), nn.Softmax(1)).eval(), load_test()
    export(model, HERE / "digits.onnx")
    with torch.no_grad():
        scores = model(torch.from_numpy(test.inputs()[:, np.newaxis])).numpy()
    np.save(HERE / "expected.npy", scores)
    figures = accuracy(scores, test)
    (HERE / "accuracy.json").write_text(json.dumps(figures, indent=2) + "\n")
    print(figures)


if __name__ == "__main__":
    main()
