"""Values are JSON and come back from it, and the schema says which JSON."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from cnn_convertor.conversion.cache import HashedInput
from cnn_convertor.devices.facts import Reason, StoredWeights
from cnn_convertor.errors import Origin, Problem
from cnn_convertor.files.codec import FormError, from_values, json_schema, to_json, to_values
from cnn_convertor.report.values import Report
from report.networks import HOSTILE, report, verification


def from_json(kind: type[Any], text: str) -> Any:
    return from_values(kind, json.loads(text))


@dataclass(frozen=True)
class Inner:
    ratio: float
    pair: tuple[int, int] = (1, 2)


@dataclass(frozen=True)
class Outer:
    name: str
    inner: tuple[Inner, ...]
    maybe: int | None = None
    sure: bool = True


def test_values_come_back() -> None:
    value = Outer('"\n\\', (Inner(1.5), Inner(math.inf, (3, 4)), Inner(-math.inf)), 7, sure=False)
    assert from_json(Outer, to_json(value)) == value


def test_a_report_comes_back() -> None:
    made = report()
    text = to_json(made)
    assert to_json(from_json(Report, text)) == text
    assert from_json(Report, text).steps[0].runs[0].registers == made.steps[0].runs[0].registers


@pytest.mark.parametrize("name", HOSTILE)
def test_a_verification_comes_back(name: str) -> None:
    made = replace(report(), verified=verification(name))
    assert from_json(Report, to_json(made)).verified == made.verified


def test_a_report_has_what_a_verification_writes() -> None:
    result = verification()
    assert to_values(replace(report(), verified=result))["verified"] == json.loads(result.to_json())
    assert to_values(result)["passed"] is False


@pytest.mark.parametrize(
    "value",
    [
        StoredWeights("conv1", 0, 1, True, Reason.CLOSE.value, 144, 0.1 + 0.2, math.inf, 2336, 1696),
        StoredWeights("conv1", 0, 1, True, Reason.CLOSE.value, 144, None, None, 2336, 1696),
        HashedInput(Path("a/b"), "00"),
        Problem("DV501", "lost", Origin("f", "l", line=3), "hint"),
    ],
)
def test_exact_values_come_back_with_all_digits(value: Any) -> None:
    assert from_values(type(value), json.loads(json.dumps(to_values(value, exact=True)))) == value


def test_what_has_no_order_gets_one() -> None:
    names = [f"name{i}" for i in range(100)]
    assert to_values(frozenset(names)) == to_values(frozenset(reversed(names))) == sorted(names)
    assert to_values((date(2020, 1, 2), b"\x01\xff", {"a": Reason.CLOSE})) == ["2020-01-02", "01ff", {"a": "close"}]


def test_what_is_no_value_is_refused() -> None:
    with pytest.raises(TypeError):
        to_values(object())


def test_a_cause_that_nobody_knows_is_no_report() -> None:
    text = to_json(replace(report(), verified=verification())).replace('"cause": "palette"', '"cause": "magic"')
    with pytest.raises(FormError, match=r"verified.layers\[0\].causes\[0\].cause: expected one of palette, maps"):
        from_json(Report, text)


def test_a_number_that_is_none_is_worse_than_any() -> None:
    assert from_json(Inner, to_json(Inner(math.nan))).ratio == -math.inf


def test_a_value_that_is_nested_deeply_is_refused_and_not_written_out() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(FormError, match=r"^ratio: expected a number, found a list$"):
        from_values(Inner, {"ratio": deep})
    while deep:  # without recursion, as the list goes away
        deep = deep.pop()


def test_unknown_entries_of_later_versions_are_left_out() -> None:
    assert from_json(Inner, '{"ratio": 1, "later": 2}') == Inner(1.0)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[]", "the file: expected an object, found []"),
        ('{"inner": []}', "name is missing"),
        ('{"name": 3, "inner": []}', "name: expected a value of the type string, found 3"),
        ('{"name": "a", "inner": [{"ratio": true}]}', "inner[0].ratio: expected a number, found true"),
        ('{"name": "a", "inner": [{"ratio": 1, "pair": [1]}]}', "inner[0].pair: expected 2 entries"),
        ('{"name": "a", "inner": [], "maybe": true}', "maybe: expected a value of the type integer"),
        ('{"name": "a", "inner": [], "sure": 1}', "sure: expected a value of the type boolean"),
    ],
)
def test_other_json_is_refused_with_the_place(text: str, reason: str) -> None:
    with pytest.raises(FormError) as error:
        from_json(Outer, text)
    assert reason in str(error.value)


# --- the schema ----------------------------------------------------------------------------------------------------------

TYPES = {"string": str, "integer": int, "boolean": bool, "null": type(None), "object": dict, "array": list}


def violations(schema: dict[str, Any], value: Any, whole: dict[str, Any], place: str = "$") -> list[str]:
    """What JSON Schema's rules say against a value, for the keywords that the schema uses."""
    if "$ref" in schema:
        schema = whole["$defs"][schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        return [] if any(not violations(each, value, whole) for each in schema["anyOf"]) else [f"{place}: no case"]
    if "enum" in schema:
        return [] if value in schema["enum"] else [f"{place}: not listed"]
    if schema["type"] == "number":
        return [] if type(value) in (int, float) else [f"{place}: no number"]
    if type(value) is not TYPES[schema["type"]]:
        return [f"{place}: no {schema['type']}"]
    if isinstance(value, dict) and "additionalProperties" in schema:
        every = schema["additionalProperties"]
        return [v for name, item in value.items() for v in violations(every, item, whole, f"{place}.{name}")]
    if isinstance(value, dict):
        missing = [f"{place}.{name} is missing" for name in schema["required"] if name not in value]
        wrong = [v for n, s in schema["properties"].items() if n in value for v in violations(s, value[n], whole, n)]
        return missing + wrong + [f"{place}.{name} is unknown" for name in value if name not in schema["properties"]]
    if isinstance(value, list):
        kinds = schema.get("prefixItems") or [schema["items"]] * len(value)
        if len(kinds) != len(value):
            return [f"{place}: {len(value)} items"]
        pairs = enumerate(zip(kinds, value, strict=True))
        return [v for i, (kind, item) in pairs for v in violations(kind, item, whole, f"{place}[{i}]")]
    return []


def test_reports_follow_the_schema() -> None:
    schema = json.loads(json_schema(Report, "Report"))
    values = json.loads(to_json(replace(report(), verified=verification())))
    assert violations(schema, values, schema) == []


def test_the_schema_refuses_what_is_no_report() -> None:
    schema = json.loads(json_schema(Report, "Report"))
    values = json.loads(to_json(report()))
    values["steps"][0]["output"]["shape"] = [1, 2]
    values["memory"]["proven"] = 1
    del values["network"]
    assert len(violations(schema, values, schema)) >= 3


def test_the_order_of_entries_is_that_of_the_fields() -> None:
    assert list(json.loads(to_json(replace(report(), kept=None))))[:3] == ["schema", "convertor", "network"]
