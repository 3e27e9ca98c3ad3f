"""The targets of an export by name."""

from collections.abc import Iterator

import numpy as np

from cnn_convertor.errors import UsageError, near_names
from cnn_convertor.export.bpu import Bpu
from cnn_convertor.export.cldnn import Cldnn
from cnn_convertor.export.nvdla import FULL_MODES, MODES, Nvdla
from cnn_convertor.export.surface import Target
from cnn_convertor.layouts import cldnn
from cnn_convertor.layouts.nvdla.memory_forms import FORMS, FULL, MemoryForm
from cnn_convertor.layouts.nvdla.precision import Precision

ELEMENTS = ("float32", "float16", "int16", "int8")


def _modes(form: MemoryForm) -> tuple[str, ...]:
    """The modes of a configuration: the others than the full one have neither Winograd nor compression of ours."""
    return MODES if form is FULL else tuple(mode for mode in MODES if mode not in FULL_MODES)


def _nvdla() -> Iterator[tuple[str, tuple[Precision, MemoryForm]]]:
    """Names of precisions are of the full configuration; another configuration's name is enough where it has one precision."""
    short = {Precision.FP16: "fp16", Precision.INT16: "int16", Precision.INT8: "int8"}
    for precision, name in short.items():
        yield f"nvdla-{name}", (precision, FULL)
    for form in FORMS.values():
        named = [(name, precision) for precision, name in short.items() if precision in form.kernels]
        yield f"nvdla-{form.name}", (named[0][1], form)
        for name, precision in named:
            yield f"nvdla-{form.name}-{name}", (precision, form)


NVDLA = dict(_nvdla())
DV700 = "dv700"
_FORMS = (
    *NVDLA,
    *(f"{name}:{mode}" for name, (_, form) in NVDLA.items() for mode in _modes(form)),
    "cldnn:FORMAT[,FORMAT...]",
    "bpu",
    "bpu:ALIGN",
    "bpu:x3",
    DV700,
)


def target_of(text: str, element: str | None = None) -> Target | None:
    """The named target; None for the DV700, whose memory comes from the program.

    element: the element type, if the target does not define it. Raises UsageError.
    """
    name, _, rest = text.partition(":")
    if element is not None and element not in ELEMENTS:
        raise UsageError.of("DV850", f'unknown element type "{element}"', hint=", ".join(ELEMENTS))
    if element is not None and name not in ("cldnn", "bpu"):
        raise UsageError.of("DV850", f"{text} defines its element types", hint="omit --element")
    match name:
        case "cldnn" if rest:
            return Cldnn(text, [cldnn.format_of(each) for each in rest.split(",")], np.dtype(element or "float16"))
        case "bpu" if text == "bpu" or rest == "x3" or (rest.isdecimal() and int(rest) > 0):
            return Bpu(text, rest, np.dtype(element or "float32"))
        case _ if name in NVDLA and (name == text or set(rest.split(",")) <= set(_modes(NVDLA[name][1]))):
            return Nvdla(text, *NVDLA[name], frozenset(rest.split(",")) - {""})
        case _ if text == DV700:
            return None
    raise UsageError.of("DV850", f'there is no target "{text}"', hint=_hint(text, name))


def _hint(text: str, name: str) -> str:
    if name == "cldnn":
        return "cldnn:os_is_yx_isv16_osv16,b_fs_yx_fsv16"
    if name in NVDLA:
        modes = _modes(NVDLA[name][1])
        return f"{name}:{','.join(modes)}" + ", or some of these" * (len(modes) > 1)
    names = [form for form in NVDLA if form.count("-") == 1]
    return ", ".join(dict.fromkeys((*near_names(text, _FORMS), *names, *_FORMS[-5:])))
