"""Small Keras networks of every shape: what tests read, and run on the emulated device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from frontends.keras.networks import Keras


def channel_shuffle(keras: Keras) -> Any:
    """A reshape, a permutation and a reshape: one rearrangement."""
    L = keras.layers  # noqa: N806
    source = keras.Input((6, 4, 12))
    x = L.Conv2D(12, 1)(source)
    x = L.Reshape((6, 4, 3, 4))(x)
    x = L.Permute((1, 2, 4, 3))(x)
    x = L.Reshape((6, 4, 12))(x)
    y = L.Reshape((6, 4, 12, 1))(x)
    z = L.Flatten()(L.ReLU()(L.Permute((4, 3, 2, 1))(y)))
    return keras.Model(source, [L.Conv2D(3, 1)(x), y, L.Dense(2)(z), L.Flatten()(L.Permute((3, 1, 2))(x))])


def pixel_shuffle(keras: Keras) -> Any:
    L = keras.layers  # noqa: N806
    source = keras.Input((5, 4, 8))
    x = L.Permute((1, 3, 2, 4, 5))(L.Reshape((5, 4, 2, 2, 2))(source))
    return keras.Model(source, [L.Conv2D(3, 3)(L.Reshape((10, 8, 2))(x))])


def squeeze_and_excite(keras: Keras) -> Any:
    L = keras.layers  # noqa: N806
    source = keras.Input((7, 5, 8))
    x = L.Conv2D(8, 3, padding="same", activation="swish")(source)
    s = L.Reshape((1, 1, 8))(
        L.Dense(8, activation="hard_sigmoid")(L.Dense(2, activation="relu")(L.GlobalAveragePooling2D()(x)))
    )
    return keras.Model(source, [L.Multiply()([x, s]), L.Multiply()([x, L.Flatten()(s)])])


def audio(keras: Keras) -> Any:
    """A network over time, with dilations and skips."""
    L = keras.layers  # noqa: N806
    source = keras.Input((32, 5))
    x = L.LayerNormalization()(L.Conv1D(8, 3, padding="causal")(source))
    for dilation in (1, 2, 4):
        y = L.Conv1D(8, 3, padding="causal", dilation_rate=dilation, activation="tanh")(x)
        x = L.Add()([x, L.SpatialDropout1D(0.1)(y)])
    x = L.MaxPooling1D(2)(x)
    return keras.Model(source, [L.Dense(4, activation="softmax")(x), L.Dense(3)(L.GlobalAveragePooling1D()(x))])


def called_twice(keras: Keras) -> Any:
    """A model with several inputs that is called twice, with a shared Sequential in it."""
    L = keras.layers  # noqa: N806
    a, b = keras.Input((6, 6, 3), name="a"), keras.Input((6, 6, 3), name="b")
    shared = keras.Sequential([L.Conv2D(3, 3, padding="same"), L.BatchNormalization()], name="shared")
    inner = keras.Model([a, b], [L.Subtract()([shared(a), b]), shared(b) * 2.0], name="inner")
    x, y = keras.Input((6, 6, 3)), keras.Input((6, 6, 3))
    p, q = inner([x, y])
    r, s = inner([q, p])
    return keras.Model([x, y], [r, L.Concatenate()([s, p])])


def branches(keras: Keras) -> Any:
    """Several inputs and outputs, one of them in the middle; one tensor in two concatenations; an input in one."""
    L = keras.layers  # noqa: N806  # reads better
    a, b = keras.Input((8, 8, 3)), keras.Input((8, 8, 2))
    x = L.Conv2D(4, 3, padding="same")(a)
    y = L.Concatenate()([x, b, a])
    z = L.Concatenate(axis=3)([b, x, x])
    y = L.Conv2D(9, 1)(y)
    w = L.Add()([L.Conv2D(10, 1)(z), L.Concatenate()([y, L.Conv2D(1, 1)(b)]), L.Conv2D(10, 2, padding="same")(a)])
    return keras.Model([b, a], [L.Dense(3)(L.Flatten()(w)), x, L.MaxPooling2D()(w)])


def shared_layers(keras: Keras) -> Any:
    """Layers that are called several times."""
    L = keras.layers  # noqa: N806
    a, b = keras.Input((8, 8, 3)), keras.Input((8, 8, 3))
    conv, norm = L.Conv2D(3, 3, padding="same", activation="relu"), L.BatchNormalization()
    x, y = norm(conv(conv(a))), norm(conv(b))
    return keras.Model([a, b], [L.Add()([x, y]), conv(y)])


def nested(keras: Keras) -> Any:
    """Models in models, called several times, with several outputs, frozen layers and names that occur twice."""
    L = keras.layers  # noqa: N806
    source = keras.Input((8, 8, 4))
    x = L.Conv2D(4, 3, padding="same", name="conv")(source)
    y = L.BatchNormalization(name="norm")(x)
    inner = keras.Model(source, [y, L.Dropout(0.5)(x)], name="inner")
    frozen = L.Conv2D(4, 1, name="frozen")
    frozen.trainable = False
    deep = keras.Sequential(
        [keras.Input((8, 8, 4)), L.BatchNormalization(), frozen, L.PReLU(shared_axes=[1, 2])], name="deep"
    )
    outer = keras.Sequential(
        [L.Conv2D(4, 1, name="conv"), deep, L.BatchNormalization(name="norm"), L.Conv2D(4, 1)], name="outer"
    )
    a, b = keras.Input((8, 8, 4)), keras.Input((8, 8, 4))
    p, q = inner(L.Conv2D(4, 1, name="conv")(a))
    r, _ = inner(b)
    s = outer(L.Concatenate()([p, q, r]))
    outer.trainable = False
    return keras.Model([a, b], [s, p, L.Dense(2)(L.GlobalAveragePooling2D()(s))])


def sequential_of_models(keras: Keras) -> Any:
    L = keras.layers  # noqa: N806
    source = keras.Input((8, 8, 4))
    base = keras.Model(source, L.BatchNormalization()(L.Conv2D(3, 3)(source)))
    return keras.Sequential([base, L.Flatten(), L.Dense(4, activation="softmax")])


def image_without_channels(keras: Keras) -> Any:
    L = keras.layers  # noqa: N806
    return keras.Sequential(
        [keras.Input((6, 8)), L.Flatten(), L.Dense(12), L.Reshape((2, 3, 2)), L.Conv2D(2, 2), L.Softmax()]
    )


def activations_as_layers(keras: Keras) -> Any:
    L = keras.layers  # noqa: N806
    return keras.Sequential(
        [keras.Input((6, 8, 3)), L.Conv2D(2, 2, activation=L.LeakyReLU(0.1)), L.Conv2D(2, 2, activation=keras.activations.leaky_relu),
         L.Conv2D(4, 1, activation=L.ReLU(6.0)), L.Dense(3, activation=L.Softmax())]
    )  # fmt: skip


def frozen_names(keras: Keras) -> Any:
    """Ambiguous names, so that the order of the arrays decides: two inner models with the same layer names."""
    L = keras.layers  # noqa: N806

    def block(name: str) -> Any:
        return keras.Sequential(
            [
                keras.Input((5, 5, 2)),
                L.Conv2D(2, 1, name="c"),
                L.BatchNormalization(name="n"),
                L.Conv2D(2, 1, name="d"),
            ],
            name=name,
        )

    first, second = block("first"), block("second")
    second.layers[0].trainable = False
    return keras.Sequential([keras.Sequential([keras.Input((5, 5, 2)), first, second], name="both"), L.Flatten()])


def softmax_in_the_middle(keras: Keras) -> Any:
    L = keras.layers  # noqa: N806
    source = keras.Input((6, 8, 3))
    x = L.Softmax()(L.Conv2D(8, 3)(source))
    y = L.Reshape((4, 6, 8))(L.Softmax()(L.Flatten()(L.Conv2D(8, 3)(source))))
    return keras.Model(source, [L.Conv2D(4, 1)(x), L.Conv2D(4, 1, use_bias=False)(y * 100.0)])


def batch_norms_everywhere(keras: Keras) -> Any:
    """At the start, before a convolution, after an activation, after pooling, behind padding, at the end."""
    L = keras.layers  # noqa: N806
    source = keras.Input((12, 12, 3))
    x = L.Conv2D(8, 3, activation="relu")(L.BatchNormalization()(source))
    x = L.MaxPooling2D(2)(L.BatchNormalization(scale=False)(x))
    x = L.ZeroPadding2D(1)(L.BatchNormalization(center=False)(x))
    x = L.Conv2D(8, 3, activation="swish")(L.BatchNormalization()(x))
    return keras.Model(source, [L.BatchNormalization()(x), L.BatchNormalization()(L.GlobalAveragePooling2D()(x))])


NETWORKS: tuple[Callable[[Keras], Any], ...] = (
    branches, shared_layers, nested, sequential_of_models, image_without_channels, activations_as_layers, channel_shuffle,
    pixel_shuffle, squeeze_and_excite, audio, called_twice, softmax_in_the_middle, batch_norms_everywhere,
)  # fmt: skip
