"""Turns a program, in which every value is final, into the files that firmware is built from."""

from cnn_convertor.codegen.description import description as description
from cnn_convertor.codegen.rendering import RenderOptions as RenderOptions
from cnn_convertor.codegen.rendering import emit as emit
from cnn_convertor.codegen.rendering import names_of as names_of
from cnn_convertor.codegen.rendering import render as render
from cnn_convertor.codegen.rendering import render_selftest as render_selftest
from cnn_convertor.codegen.rendering import render_text as render_text
