"""The numbers that options take, with messages in plain words."""

from typing import Any

import click


class WholeNumber(click.IntRange):
    """A whole number of at least `least`."""

    def __init__(self, least: int) -> None:
        super().__init__(least)
        self.least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f'"{value}" is not a whole number of at least {self.least}', param, ctx)


class Number(click.types.FloatParamType):
    """Any number."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f'"{value}" is not a number', param, ctx)
