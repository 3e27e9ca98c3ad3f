"""Assigns the arrays of a weights file to layers.

Two forms exist. Keras 2, and every whole-model .h5 file, has one group for each layer of the outermost model, listed in
`layer_names`, with the layer's arrays listed in `weight_names`; a nested model is one such layer, the arrays of all its layers
in one list, trainable ones first. Keras matches those groups with the layers that have weights one after the other.

Keras 3's .keras and .weights.h5 files have the tree of the model: layers/<key>/vars/<number>, and for a nested model
layers/<key>/layers/<key>/vars/<number>. The key is the layer's class name in snake case, followed by _1, _2, ... for the
second and later layers of that class in its model. The group `vars` carries the layer's own name as its attribute `name`
(in recent versions); others used the layer names as keys. Keras 2.12 and 2.13 call the group `_layer_checkpoint_dependencies`,
where a layer that has weights, also in layers inside it, counts twice: conv2d, conv2d_2, conv2d_4.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from cnn_convertor.errors import ModelError, Origin
from cnn_convertor.frontends.keras.hdf5 import Contents, Variable
from cnn_convertor.frontends.keras.model import MAKE_FUNCTIONAL, KerasLayer
from cnn_convertor.frontends.keras.variables import Slot, slots

COUNTED_TWICE = "_layer_checkpoint_dependencies"  # what Keras 2.12 and 2.13 call the group `layers`
CONTAINERS = ("layers", COUNTED_TWICE)
_NUMBER = re.compile(r"_\d+$")


class WeightsForm(Enum):
    """How a file names arrays: by groups in a row, by the tree of layers, or by attributes of the user's own class."""

    GROUPS = "groups"
    TREE = "tree"
    ATTRIBUTES = "attributes"


def form_of_weights(contents: Contents) -> WeightsForm | None:
    """None: the file holds no Keras weights."""
    if contents.texts("", "layer_names") is not None:
        return WeightsForm.GROUPS
    if any(name in contents.groups for name in CONTAINERS):
        return WeightsForm.TREE
    return WeightsForm.ATTRIBUTES if any(path.endswith("/vars") for path in contents.groups) else None


@dataclass(frozen=True, slots=True)
class LayerArrays:
    """The arrays of every layer that has some, by KerasLayer.key, in the order of variables.slots().

    arrays: None: the network is inspected without weights.
    """

    file: str
    backend: str
    arrays: Mapping[tuple[int, ...], tuple[Variable, ...]] | None


def has_weights(model: KerasLayer) -> bool:
    """Whether any layer of a model has arrays."""
    return bool(_all_slots(model))


def match_weights(model: KerasLayer, contents: Contents, *, same_file: bool) -> LayerArrays:
    """Find each layer's arrays.

    same_file: whether the configuration comes from the same file, so that names of layers mean the same.
    Raises ModelError when the file holds no weights.
    """
    root = "model_weights" if "model_weights" in contents.groups else ""
    backend = contents.text(root, "backend") or contents.text("", "backend") or ""
    names = contents.texts(root, "layer_names")
    if names is not None:
        return LayerArrays(contents.file, backend, _match_groups(model, _list_groups(contents, root, names)))
    form = form_of_weights(contents)
    if form is WeightsForm.TREE:
        return LayerArrays(contents.file, backend, _match_tree(model, contents, "", same_file))
    if not has_weights(model):
        return LayerArrays(contents.file, backend, {})
    reason = "the file holds no Keras weights"
    hint = "save the whole model: model.save('model.keras')"
    if form is WeightsForm.ATTRIBUTES:
        reason = "the file holds the weights of a class of your own, whose attributes do not show the layers"
        hint = MAKE_FUNCTIONAL
    raise ModelError.of("DV204", reason, Origin(contents.file), hint)


# --- Keras 2: groups in a row --------------------------------------------------------------------------------------------


def _list_groups(contents: Contents, root: str, names: Sequence[str]) -> dict[str, tuple[Variable, ...]]:
    """Group name -> arrays. Raises ModelError when a listed array is missing."""
    groups = {}
    for name in names:
        path = f"{root}/{name}".lstrip("/")
        listed = [f"{path}/{array}" for array in contents.texts(path, "weight_names") or ()]
        for array in listed:
            if array not in contents.variables:
                reason = f"the array {array!r} is listed in the file, but it is missing"
                hint = "save the model again; the file is not complete"
                raise ModelError.of("DV204", reason, Origin(contents.file), hint)
        groups[name] = tuple(contents.variables[array] for array in listed)
    return groups


def _match_groups(
    model: KerasLayer, groups: Mapping[str, tuple[Variable, ...]]
) -> dict[tuple[int, ...], tuple[Variable, ...]]:
    """One after the other, as Keras does; by name where the counts differ, since some types may be unknown."""
    having = [layer for layer in model.layers if _all_slots(layer)]
    filled = [name for name, arrays in groups.items() if arrays]
    if len(having) == len(filled):
        pairs = list(zip(having, filled, strict=True))
    else:
        pairs = [(layer, layer.own_name) for layer in having if layer.own_name in groups]
    shares: dict[tuple[int, ...], tuple[Variable, ...]] = {}
    for layer, name in pairs:
        if layer.is_model:
            shares.update(_share_out(layer, groups[name]))
        else:
            shares[layer.key] = groups[name]
    return shares


def _all_slots(layer: KerasLayer, trained: bool = True) -> list[tuple[KerasLayer, Slot]]:
    """The variables of a layer, or of all layers in a model; frozen ones count as not trained."""
    trained = trained and bool(layer.config.get("trainable", True))
    if layer.is_model:
        return [pair for inner in layer.layers for pair in _all_slots(inner, trained)]
    if layer.is_operation:
        return []
    return [(layer, slot._replace(trained=slot.trained and trained)) for slot in slots(layer.type, layer.config)]


def _share_out(model: KerasLayer, arrays: Sequence[Variable]) -> dict[tuple[int, ...], tuple[Variable, ...]]:
    """A nested model's arrays for each of its layers: by name where names are unique, else by order."""
    slots = _all_slots(model)
    by_name = {tuple(array.name.removesuffix(":0").split("/")[-2:]): array for array in arrays}
    names = Counter((layer.own_name, slot.role) for layer, slot in slots)
    if len(by_name) == len(arrays) and all(count == 1 and name in by_name for name, count in names.items()):
        chosen = [by_name[layer.own_name, slot.role] for layer, slot in slots]
    elif len(slots) == len(arrays):
        order = sorted(range(len(slots)), key=lambda i: not slots[i][1].trained)
        at = dict(zip(order, arrays, strict=True))
        chosen = [at[i] for i in range(len(slots))]
    else:
        return {}
    shares: dict[tuple[int, ...], tuple[Variable, ...]] = {}
    for (layer, _), array in zip(slots, chosen, strict=True):
        shares[layer.key] = (*shares.get(layer.key, ()), array)
    return shares


# --- Keras 3: a tree -----------------------------------------------------------------------------------------------------


def _match_tree(
    model: KerasLayer, contents: Contents, path: str, same_file: bool
) -> dict[tuple[int, ...], tuple[Variable, ...]]:
    container = next((c for c in (f"{path}{name}" for name in CONTAINERS) if c in contents.groups), None)
    if container is None:
        return {}
    shares: dict[tuple[int, ...], tuple[Variable, ...]] = {}
    for layer, child in _children(model, contents, container, same_file):
        if layer.is_model:
            shares.update(_match_tree(layer, contents, f"{container}/{child}/", same_file))
        else:
            shares[layer.key] = _of_parts(layer, contents, f"{container}/{child}")
    return shares


def _children(model: KerasLayer, contents: Contents, container: str, same_file: bool) -> list[tuple[KerasLayer, str]]:
    """The layers that have weights, each with its group's name."""
    children = contents.children(container)
    having = [layer for layer in model.layers if _all_slots(layer)]
    named = {contents.text(f"{container}/{child}/vars", "name"): child for child in children}
    if same_file and all(layer.own_name in named for layer in having):
        return [(layer, named[layer.own_name]) for layer in having]
    counted = _count_classes(model)
    if container.endswith(COUNTED_TWICE):
        counted |= _in_turn(counted, children)
    pairs = [(layer, counted[layer.key]) for layer in having]
    if not all(child in children for _, child in pairs) and all(layer.own_name in children for layer in having):
        return [(layer, layer.own_name) for layer in having]
    return [(layer, child) for layer, child in pairs if child in children]


def _count_classes(model: KerasLayer) -> dict[tuple[int, ...], str]:
    """conv2d, conv2d_1, ...: the names that Keras gives the groups."""
    used: Counter[str] = Counter()
    keys = {}
    for layer in model.layers:
        if not layer.is_operation:
            name = to_snake_case(layer.type)
            keys[layer.key] = f"{name}_{used[name]}" if used[name] else name
            used[name] += 1
    return keys


def _in_turn(counted: Mapping[tuple[int, ...], str], children: Sequence[str]) -> dict[tuple[int, ...], str]:
    """The groups of each class by number, for its layers in turn, where there are as many: whichever layers count twice."""
    layers: dict[str, list[tuple[int, ...]]] = {}
    for key, name in counted.items():
        layers.setdefault(_NUMBER.sub("", name), []).append(key)
    groups: dict[str, list[str]] = {}
    for child in sorted(children, key=lambda child: (len(child), child)):
        groups.setdefault(_NUMBER.sub("", child), []).append(child)
    pairs: dict[tuple[int, ...], str] = {}
    for type, keys in layers.items():
        if len(groups.get(type, ())) == len(keys):
            pairs |= zip(keys, groups[type], strict=True)
    return pairs


def to_snake_case(name: str) -> str:
    """As Keras does it: PReLU is p_re_lu, Conv2DTranspose is conv2d_transpose."""
    name = re.sub(r"\W+", "", name)
    name = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub("([a-z])([A-Z])", r"\1_\2", name).lower()


def _of_parts(layer: KerasLayer, contents: Contents, group: str) -> tuple[Variable, ...]:
    """A layer's own arrays, and those of the layers inside it, whose groups may begin with an underscore."""
    arrays: list[Variable] = []
    for part in dict.fromkeys(slot.part for slot in slots(layer.type, layer.config)):
        places = (group,) if not part else (f"{group}/{part}", f"{group}/_{part}")
        arrays += next(filter(None, (_numbered(contents, f"{place}/vars") for place in places)), ())
    return tuple(arrays)


def _numbered(contents: Contents, group: str) -> tuple[Variable, ...]:
    """The arrays 0, 1, 2, ... of a group."""
    arrays: list[Variable] = []
    while (array := contents.variables.get(f"{group}/{len(arrays)}")) is not None:
        arrays.append(array)
    return tuple(arrays)
