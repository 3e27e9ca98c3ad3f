"""Lays out the Caffe networks of the zoo."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from examples.caffe_net import CaffeNet, Map
from examples.zoo_numbers import (
    CONFIDENT,
    DAMPING,
)


def lenet(net: CaffeNet, size: int) -> None:
    x = net.input(size, 1)
    x = net.max_pool(net.conv(x, "conv1", 20, 5), "pool1", 2, 2)
    x = net.max_pool(net.conv(x, "conv2", 50, 5), "pool2", 2, 2)
    x = net.relu(net.dense(x, "ip1", 500), "relu1")
    net.softmax(net.dense(x, "ip2", 10))


def squeezenet_1_1(net: CaffeNet, size: int) -> None:
    def fire(x: Map, name: str, squeeze: int, expand: int) -> Map:
        def conv(x: Map, part: str, channels: int, kernel: int, pad: int = 0) -> Map:
            return net.relu(net.conv(x, f"{name}/{part}", channels, kernel, pad=pad), f"{name}/relu_{part}")

        x = conv(x, "squeeze1x1", squeeze, 1)
        return net.concat([conv(x, "expand1x1", expand, 1), conv(x, "expand3x3", expand, 3, pad=1)], f"{name}/concat")

    x = net.input(size, header="input_shape")
    x = net.relu(net.conv(x, "conv1", 64, 3, stride=2), "relu_conv1")
    x = net.max_pool(x, "pool1", 3, 2)
    x = fire(fire(x, "fire2", 16, 64), "fire3", 16, 64)
    x = net.max_pool(x, "pool3", 3, 2)
    x = fire(fire(x, "fire4", 32, 128), "fire5", 32, 128)
    x = net.max_pool(x, "pool5", 3, 2)
    x = fire(fire(x, "fire6", 48, 192), "fire7", 48, 192)
    x = fire(fire(x, "fire8", 64, 256), "fire9", 64, 256)
    x = net.relu(net.conv(net.dropout(x, "drop9", 0.5), "conv10", 1000, 1), "relu_conv10")
    net.softmax(net.whole_average(x, "pool10"))


def mobilenet_v1(net: CaffeNet, size: int) -> None:
    def block(x: Map, name: str, channels: int, kernel: int, *, stride: int = 1, pad: int = 0, group: int = 1) -> Map:
        x = net.conv(x, name, channels, kernel, stride=stride, pad=pad, group=group, bias=False)
        return net.relu(net.batch_norm(x, f"{name}/bn", f"{name}/scale"), f"relu_{name}")

    x = block(net.input(size, header="input_dim"), "conv1", 32, 3, stride=2, pad=1)
    blocks = {"conv2_1": (64, 1), "conv2_2": (128, 2), "conv3_1": (128, 1), "conv3_2": (256, 2)}
    blocks |= {"conv4_1": (256, 1), "conv4_2": (512, 2)} | {f"conv5_{i}": (512, 1) for i in range(1, 6)}
    blocks |= {"conv5_6": (1024, 2), "conv6": (1024, 1)}
    for name, (channels, stride) in blocks.items():
        x = block(x, f"{name}/dw", x.channels, 3, stride=stride, pad=1, group=x.channels)
        x = block(x, f"{name}/sep", channels, 1)
    net.softmax(net.conv(net.whole_average(x, "pool6"), "fc7", 1000, 1))


def googlenet(net: CaffeNet, size: int, *, lrn: bool) -> None:
    def conv(x: Map, name: str, part: str, channels: int, kernel: int, *, stride: int = 1, pad: int = 0) -> Map:
        return net.relu(net.conv(x, f"{name}/{part}", channels, kernel, stride=stride, pad=pad), f"{name}/relu_{part}")

    def inception(x: Map, name: str, one: int, three: tuple[int, int], five: tuple[int, int], pool: int) -> Map:
        name = f"inception_{name}"
        branches = [
            conv(x, name, "1x1", one, 1),
            conv(conv(x, name, "3x3_reduce", three[0], 1), name, "3x3", three[1], 3, pad=1),
            conv(conv(x, name, "5x5_reduce", five[0], 1), name, "5x5", five[1], 5, pad=2),
            conv(net.max_pool(x, f"{name}/pool", 3, 1, pad=1), name, "pool_proj", pool, 1),
        ]
        return net.concat(branches, f"{name}/output")

    x = conv(net.input(size), "conv1", "7x7_s2", 64, 7, stride=2, pad=3)
    x = net.max_pool(x, "pool1/3x3_s2", 3, 2)
    x = net.lrn(x, "pool1/norm1") if lrn else x
    x = conv(conv(x, "conv2", "3x3_reduce", 64, 1), "conv2", "3x3", 192, 3, pad=1)
    x = net.lrn(x, "conv2/norm2") if lrn else x
    x = net.max_pool(x, "pool2/3x3_s2", 3, 2)
    x = inception(x, "3a", 64, (96, 128), (16, 32), 32)
    x = inception(x, "3b", 128, (128, 192), (32, 96), 64)
    x = net.max_pool(x, "pool3/3x3_s2", 3, 2)
    x = inception(x, "4a", 192, (96, 208), (16, 48), 64)
    x = inception(x, "4b", 160, (112, 224), (24, 64), 64)
    x = inception(x, "4c", 128, (128, 256), (24, 64), 64)
    x = inception(x, "4d", 112, (144, 288), (32, 64), 64)
    x = inception(x, "4e", 256, (160, 320), (32, 128), 128)
    x = net.max_pool(x, "pool4/3x3_s2", 3, 2)
    x = inception(x, "5a", 256, (160, 320), (32, 128), 128)
    x = inception(x, "5b", 384, (192, 384), (48, 128), 128)
    x = net.dropout(net.whole_average(x, "pool5/7x7_s1", by_size=True), "pool5/drop_7x7_s1", 0.4)
    net.softmax(net.dense(x, "loss3/classifier", 1000))


def googlenet_with_lrn(net: CaffeNet, size: int) -> None:
    googlenet(net, size, lrn=True)


def googlenet_without_lrn(net: CaffeNet, size: int) -> None:
    googlenet(net, size, lrn=False)


def caffenet(net: CaffeNet, size: int) -> None:
    """AlexNet in one piece; in CaffeNet the normalization comes after the pooling."""
    x = net.relu(net.conv(net.input(size), "conv1", 96, 11, stride=4), "relu1")
    x = net.lrn(net.max_pool(x, "pool1", 3, 2), "norm1")
    x = net.relu(net.conv(x, "conv2", 256, 5, pad=2, group=2), "relu2")
    x = net.lrn(net.max_pool(x, "pool2", 3, 2), "norm2")
    x = net.relu(net.conv(x, "conv3", 384, 3, pad=1), "relu3")
    x = net.relu(net.conv(x, "conv4", 384, 3, pad=1, group=2), "relu4")
    x = net.relu(net.conv(x, "conv5", 256, 3, pad=1, group=2), "relu5")
    x = net.max_pool(x, "pool5", 3, 2)
    for number in (6, 7):
        x = net.relu(net.dense(x, f"fc{number}", 4096), f"relu{number}")
        x = net.dropout(x, f"drop{number}", 0.5)
    net.softmax(net.dense(x, "fc8", 1000))


def mobilenet_v2(net: CaffeNet, size: int) -> None:
    def block(
        x: Map, name: str, channels: int, kernel: int, *, stride: int = 1, group: int = 1, damping: float = 1.0
    ) -> Map:
        x = net.conv(x, name, channels, kernel, stride=stride, pad=kernel // 2, group=group, bias=False)
        return net.batch_norm(x, f"{name}/bn", f"{name}/scale", damping=damping)

    def bottleneck(x: Map, name: str, expansion: int, channels: int, stride: int) -> Map:
        y, wide = x, x.channels * expansion
        y = net.relu(block(y, f"{name}/expand", wide, 1), f"relu{name}/expand")
        y = net.relu(block(y, f"{name}/dwise", wide, 3, stride=stride, group=wide), f"relu{name}/dwise")
        is_sum = stride == 1 and channels == x.channels
        y = block(y, f"{name}/linear", channels, 1, damping=DAMPING if is_sum else 1.0)
        return net.add(x, y, f"block_{name}") if is_sum else y

    x = net.relu(block(net.input(size), "conv1", 32, 3, stride=2), "relu1")
    stages = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    for stage, (expansion, channels, depth, stride) in enumerate(stages, 2):
        for i in range(1, depth + 1):
            x = bottleneck(x, f"conv{stage}_{i}", expansion, channels, stride if i == 1 else 1)
    x = net.relu(block(x, "conv9", 1280, 1), "relu9")
    net.softmax(net.conv(net.whole_average(x, "pool9"), "fc10", 1000, 1))


def ssd_mobilenet(net: CaffeNet, size: int) -> None:
    """MobileNet-SSD with its prior boxes and the detection at the end."""

    def conv(x: Map, name: str, channels: int, kernel: int, *, stride: int = 1, group: int = 1) -> Map:
        x = net.conv(x, name, channels, kernel, stride=stride, pad=kernel // 2, group=group, bias=False)
        return net.relu(net.batch_norm(x, f"{name}/bn", f"{name}/scale"), f"{name}/relu")

    classes = 21
    image = net.input(size)
    x = conv(image, "conv0", 32, 3, stride=2)
    features = []
    strides = dict(zip(range(1, 14), (1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1), strict=True))
    widths = dict(zip(range(1, 14), (64, 128, 128, 256, 256, *[512] * 6, 1024, 1024), strict=True))
    for i, stride in strides.items():
        x = conv(x, f"conv{i}/dw", x.channels, 3, stride=stride, group=x.channels)
        x = conv(x, f"conv{i}", widths[i], 1)
        features += [x] if i in (11, 13) else []
    for i, channels in ((14, 512), (15, 256), (16, 256), (17, 128)):
        x = conv(conv(x, f"conv{i}_1", channels // 2, 1), f"conv{i}_2", channels, 3, stride=2)
        features.append(x)
    scales = (60.0, 105.0, 150.0, 195.0, 240.0, 285.0, 300.0)
    heads: dict[str, list[Map]] = {"loc": [], "conf": []}
    priors = []
    for index, x in enumerate(features):
        sizes: dict[str, float | tuple[float, ...]] = {"min_size": scales[index]}
        sizes |= {"max_size": scales[index + 1], "aspect_ratio": (2.0, 3.0)} if index else {"aspect_ratio": (2.0,)}
        boxes = 6 if index else 3
        for head, width, gain in (("loc", 4, 1.0), ("conf", classes, CONFIDENT)):
            name, given = f"{x.name}_mbox_{head}", replace(x, moments=x.moments.divided(gain))
            heads[head].append(net.pixels(net.conv(given, name, boxes * width, 1), name))
        priors.append(net.prior_box(x, image, f"{x.name}_mbox_priorbox", sizes))
    locations, confidences = (net.concat(maps, f"mbox_{head}") for head, maps in heads.items())
    net.detect(locations, net.softmax_of_rows(confidences, "mbox_conf", classes), priors, classes)


def yolov3_tiny(net: CaffeNet, size: int) -> None:
    """Two outputs of 3 boxes of 85 numbers each, undecoded; leaky ReLU, and Upsample of a fork."""

    def block(x: Map, name: str, channels: int, kernel: int) -> Map:
        x = net.conv(x, name, channels, kernel, pad=kernel // 2, bias=False)
        return net.relu(net.batch_norm(x, f"{name}_bn", f"{name}_scale"), f"{name}_act", slope=0.1)

    x = net.input(size)
    for i, channels in enumerate((16, 32, 64, 128), 1):
        x = net.max_pool(block(x, f"conv{i}", channels, 3), f"pool{i}", 2, 2)
    route = block(x, "conv5", 256, 3)
    x = block(net.max_pool(route, "pool5", 2, 2), "conv6", 512, 3)
    x = net.max_pool(x, "pool6", 3, 1, pad=1)
    x = block(block(x, "conv7", 1024, 3), "conv8", 256, 1)
    net.conv(block(x, "conv9", 512, 3), "conv10", 255, 1)
    x = net.upsample(block(x, "conv11", 128, 1), "upsample", 2)
    x = net.concat([x, route], "route")
    net.conv(block(x, "conv12", 256, 3), "conv13", 255, 1)


def segnet_basic(net: CaffeNet, size: int) -> None:
    """SegNet-basic: pools with masks, and their counterparts, which put values back where the maxima were."""

    def block(x: Map, name: str) -> Map:
        x = net.conv(x, f"conv{name}", 64, 7, pad=3, bias=False)
        return net.batch_norm(x, f"conv{name}_bn", f"conv{name}_scale")

    x = net.lrn(net.input(size), "norm")
    pooled = []
    for i in range(1, 5):
        pooled.append(net.relu(block(x, str(i)), f"relu{i}"))
        x = net.max_pool(pooled[-1], f"pool{i}", 2, 2, mask=True)
    for i in reversed(range(1, 5)):
        x = block(net.unpool(x, f"pool{i}", pooled[i - 1], f"upsample{i}"), f"_decode{i}")
    net.softmax(net.conv(x, "conv_classifier", 11, 1))


def fcn_8s(net: CaffeNet, size: int) -> None:
    """FCN-8s on a small VGG: a frame around the image, bilinear deconvolutions, crops, sums of three scales."""
    x = image = net.input(size)
    pools = []
    for stage, channels in enumerate((16, 32, 64, 128, 128), 1):
        for i in (1, 2):
            pad = 100 if (stage, i) == (1, 1) else 1
            x = net.relu(net.conv(x, f"conv{stage}_{i}", channels, 3, pad=pad), f"relu{stage}_{i}")
        x = net.max_pool(x, f"pool{stage}", 2, 2)
        pools.append(x)
    x = net.relu(net.conv(x, "fc6", 256, 7), "relu6")
    x = net.relu(net.conv(net.dropout(x, "drop6", 0.5), "fc7", 256, 1), "relu7")
    x = net.bilinear(net.conv(net.dropout(x, "drop7", 0.5), "score_fr", 21, 1), "upscore2", 2)
    x = net.add(x, net.crop(net.conv(pools[3], "score_pool4", 21, 1), x, "score_pool4c", 5), "fuse_pool4")
    x = net.bilinear(x, "upscore_pool4", 2)
    x = net.add(x, net.crop(net.conv(pools[2], "score_pool3", 21, 1), x, "score_pool3c", 9), "fuse_pool3")
    net.crop(net.bilinear(x, "upscore8", 8), image, "score", 31)


def enet(net: CaffeNet, size: int) -> None:
    """ENet's kinds of bottlenecks, each once or twice: smaller, regular, dilated, of 5x1 and 1x5, larger."""

    def norm(x: Map, name: str, *, damping: float = 1.0) -> Map:
        return net.batch_norm(x, f"{name}_bn", f"{name}_scale", damping=damping)

    def part(x: Map, name: str) -> Map:
        return net.prelu(norm(x, name), f"{name}_prelu")

    def bottleneck(x: Map, name: str, middle: Callable[[Map, str], Map]) -> Map:
        y = part(net.conv(x, f"{name}_reduce", x.channels // 4, 1, bias=False), f"{name}_reduce")
        y = part(middle(y, f"{name}_conv"), f"{name}_conv")
        y = net.conv(y, f"{name}_expand", x.channels, 1, bias=False)
        return net.prelu(net.add(x, norm(y, f"{name}_expand", damping=DAMPING), f"{name}_sum"), f"{name}_prelu")

    def dilated(dilation: int) -> Callable[[Map, str], Map]:
        return lambda x, name: net.conv(x, name, x.channels, 3, pad=dilation, dilation=dilation)

    def asymmetric(x: Map, name: str) -> Map:
        x = net.conv(x, f"{name}_a", x.channels, (5, 1), pad=(2, 0), bias=False)
        return net.conv(x, name, x.channels, (1, 5), pad=(0, 2))

    def smaller(x: Map, name: str, channels: int) -> Map:
        """A convolution with a stride beside a pool."""
        maps = [
            net.conv(x, f"{name}_conv", channels - x.channels, 3, stride=2, pad=1),
            net.max_pool(x, f"{name}_pool", 2, 2),
        ]
        return part(net.concat(maps, f"{name}_concat"), name)

    x = smaller(net.input(size), "initial", 16)
    x = smaller(x, "down1", 64)
    x = bottleneck(x, "regular1", dilated(1))
    x = smaller(x, "down2", 128)
    for name, middle in (
        ("regular2", dilated(1)), ("dilated2", dilated(2)), ("asymmetric", asymmetric),
        ("dilated4", dilated(4)), ("dilated8", dilated(8)), ("dilated16", dilated(16)),
    ):  # fmt: skip
        x = bottleneck(x, name, middle)
    x = part(net.deconv(x, "up2", 64, 4, stride=2, pad=1), "up2")
    x = bottleneck(x, "regular4", dilated(1))
    x = part(net.deconv(x, "up1", 16, 2, stride=2), "up1")
    net.deconv(x, "fullconv", 19, 2, stride=2)


def mtcnn_onet(net: CaffeNet, size: int) -> None:
    """MTCNN's last net: PReLU, pools that reach beyond the map, three outputs."""
    x = net.input(size)
    for i, (channels, side) in enumerate(((32, 3), (64, 3), (64, 3), (128, 2)), 1):
        x = net.prelu(net.conv(x, f"conv{i}", channels, side), f"prelu{i}")
        x = net.max_pool(x, f"pool{i}", *((3, 2) if i < 3 else (2, 2))) if i < 4 else x
    x = net.prelu(net.dropout(net.dense(x, "conv5", 256), "drop5", 0.25), "prelu5")
    net.softmax(net.dense(x, "conv6-1", 2), "prob1")
    net.dense(x, "conv6-2", 4)
    net.dense(x, "conv6-3", 10)


def vgg16(net: CaffeNet, size: int) -> None:
    x = net.input(size, header="input_dim")
    for stage, (channels, depth) in enumerate(((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)), 1):
        for i in range(1, depth + 1):
            x = net.relu(net.conv(x, f"conv{stage}_{i}", channels, 3, pad=1), f"relu{stage}_{i}")
        x = net.max_pool(x, f"pool{stage}", 2, 2)
    for number in (6, 7):
        x = net.relu(net.dense(x, f"fc{number}", 4096), f"relu{number}")
        x = net.dropout(x, f"drop{number}", 0.5)
    net.softmax(net.dense(x, "fc8", 1000))


def resnet50(net: CaffeNet, size: int) -> None:
    def conv(x: Map, name: str, channels: int, kernel: int, *, stride: int = 1, damping: float = 1.0) -> Map:
        x = net.conv(x, f"res{name}", channels, kernel, stride=stride, pad=kernel // 2, bias=False)
        return net.batch_norm(x, f"bn{name}", f"scale{name}", damping=damping)

    def block(x: Map, name: str, channels: int, stride: int) -> Map:
        shortcut = conv(x, f"{name}_branch1", 4 * channels, 1, stride=stride) if name.endswith("a") else x
        x = net.relu(conv(x, f"{name}_branch2a", channels, 1, stride=stride), f"res{name}_branch2a_relu")
        x = net.relu(conv(x, f"{name}_branch2b", channels, 3), f"res{name}_branch2b_relu")
        x = conv(x, f"{name}_branch2c", 4 * channels, 1, damping=DAMPING)
        return net.relu(net.add(shortcut, x, f"res{name}"), f"res{name}_relu")

    x = net.conv(net.input(size, header="input_dim"), "conv1", 64, 7, stride=2, pad=3)
    x = net.relu(net.batch_norm(x, "bn_conv1", "scale_conv1"), "conv1_relu")
    x = net.max_pool(x, "pool1", 3, 2)
    for stage, (channels, depth) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3)), 2):
        for letter in "abcdef"[:depth]:
            x = block(x, f"{stage}{letter}", channels, 2 if letter == "a" and stage > 2 else 1)
    net.softmax(net.dense(net.whole_average(x, "pool5", by_size=True), "fc1000", 1000))
