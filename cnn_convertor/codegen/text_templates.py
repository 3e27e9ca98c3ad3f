"""Renders the templates of texts that firmware is built from."""

from collections.abc import Mapping
from functools import cache

import jinja2

from cnn_convertor import __version__, escaping
from cnn_convertor.files.templates import environment


def render_text(template: str, source: str, values: Mapping[str, object]) -> str:
    """One template with these values. source: what the text is made from."""
    return render_template(template, {"made_by": made_by(source), **values})


def made_by(model: str) -> str:
    return f"made by cnn-convertor {__version__} from {escaping.comment(model)}, do not edit"


def render_template(name: str, values: Mapping[str, object]) -> str:
    return _environment().get_template(name).render(values)


@cache
def _environment() -> jinja2.Environment:
    filters = (escaping.comment, escaping.text, escaping.dot, escaping.doxygen)
    return environment(filters={filter.__name__: filter for filter in filters})
