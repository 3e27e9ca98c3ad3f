"""What C++ operators do with numbers."""

from __future__ import annotations

from collections.abc import Callable

from cnn_convertor.audit.state import NotUnderstoodError, Text, Value, number

_LEVELS: tuple[dict[str, Callable[[int, int], int]], ...] = (
    {"||": lambda a, b: int(bool(a) or bool(b))},
    {"&&": lambda a, b: int(bool(a) and bool(b))},
    {"|": lambda a, b: a | b},
    {"^": lambda a, b: a ^ b},
    {"&": lambda a, b: a & b},
    {"==": lambda a, b: int(a == b), "!=": lambda a, b: int(a != b)},
    {
        "<": lambda a, b: int(a < b),
        ">": lambda a, b: int(a > b),
        "<=": lambda a, b: int(a <= b),
        ">=": lambda a, b: int(a >= b),
    },
    {"<<": lambda a, b: a << _shift(b), ">>": lambda a, b: a >> _shift(b)},
    {"+": lambda a, b: a + b, "-": lambda a, b: a - b},
    {"*": lambda a, b: a * b, "/": lambda a, b: _divided(a, b)[0], "%": lambda a, b: _divided(a, b)[1]},
)
_OPERATORS = {sign: operator for level in _LEVELS for sign, operator in level.items()}
# What binds tighter has the larger number; 0 is the loosest.
PRECEDENCE = {sign: number for number, level in enumerate(_LEVELS) for sign in level}


def compute(sign: str, left: Value, right: Value) -> Value:
    """Raises NotUnderstoodError for operands that are no numbers, and where C++ promises nothing."""
    if sign in {"==", "!="} and not (isinstance(left, int) and isinstance(right, int)):
        return int((left == right) == (sign == "=="))
    if sign == "+" and isinstance(left, Text) and isinstance(right, Text):
        return Text(left.text + right.text, is_temporary=True)
    value = _OPERATORS[sign](number(left), number(right))
    if abs(value) >> 64:
        raise NotUnderstoodError(f"{sign} gives more than 64 bits")
    return value


def _shift(count: int) -> int:
    if 0 <= count < 64:
        return count
    raise NotUnderstoodError(f"a shift by {count} bits")


def _divided(a: int, b: int) -> tuple[int, int]:
    """Quotient, rounded to zero as C++ does, and remainder."""
    if b == 0:
        raise NotUnderstoodError("a division by zero")
    quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return quotient, a - quotient * b
