"""What `verify` prints of a result: its tables and the sentences behind them, with every number."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cnn_convertor.cli import tables, verdicts
from cnn_convertor.cli.grids import plain
from cnn_convertor.devices.facts import CalibrationEffect
from cnn_convertor.verification.results import (
    Accuracy,
    Attribution,
    Beside,
    Cause,
    Comparison,
    Excess,
    LayerResult,
    Sensitivity,
    StaleFile,
    Unjudged,
    Verification,
)


def compared(name: str, sqnr: float, **more: Any) -> Comparison:
    return Comparison(name, 10, 0.25, 0.125, sqnr, 0.999, 0.75, 8.0, **more)


OUT = compared("out", 50.0)
RESULT = Verification(
    "net", "Keras", "random", 4, palette=False, transposed=False, min_sqnr=30.0, outputs=(OUT,), judged_maps=3
)
PASS = "pass: every output has 30 dB or more; 3 maps differ from the framework by rounding alone"
WRONG = [Excess(f"conv{n}", "row 2" * (n == 1), 20.0 + n, 60.0) for n in range(7)]


def described(result: Verification) -> list[str]:
    """The lines without the blanks that put columns below each other."""
    return [" ".join(line.split()) for line in plain(verdicts.verification(result)).splitlines()]


def wrong(excess: Excess) -> str:
    part = f", {excess.part}" if excess.part else ""
    loss = f"{excess.sqnr:.1f} dB on the framework's inputs, before any rounding; a right layer has 60.0 or more"
    return f'"{excess.layer}"{part}: {loss}'


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        ({}, [PASS]),
        ({"judged_maps": 1}, [PASS.replace("3 maps differ", "1 map differs")]),
        ({"judged_maps": 0}, [PASS.split(";", maxsplit=1)[0]]),
        ({"first_jump": "fc"}, [PASS]),
        (
            {"outputs": (compared("out", 20.0, allowed=15.0),)},
            [
                '"out": rounding alone leaves no more, so 15.0 dB are enough',
                PASS.replace(";", ", or what FP16 allows;"),
            ],
        ),
        (
            {"outputs": (OUT, compared("low", 29.9), compared("worse", 1.0))},
            [
                'fail: "low", "worse" below 30 dB',
                "--attribute shows the causes of each layer's error; docs/verify.md says what to do about them",
            ],
        ),
        (
            {
                "outputs": (compared("a", 9.0), OUT),
                "layers": (LayerResult(OUT, "Conv", causes=(Attribution(Cause.MAPS, 3.0),)),),
            },
            ['fail: "a" below 30 dB'],
        ),
        (
            {"beside": (Beside(compared("out", 39.9), OUT, 0.5),)},
            ['fail: "out" below 40 dB with FP16 weights'],
        ),
        ({"different_layers": ("a",)}, ['fail: "a" computes other bits than the program in memory']),
        ({"different_layers": ("a", "b")}, ['fail: "a" computes other bits than the program in memory, and 1 more']),
        ({"wrong_maps": (WRONG[0],)}, [wrong(WRONG[0]), 'fail: "conv0" computes something else']),
        (
            {"wrong_maps": tuple(WRONG)},
            [*map(wrong, WRONG[:5]), 'fail: "conv0" computes something else, and 6 more'],
        ),
        (
            {"wrong_maps": (WRONG[1], replace(WRONG[1], part=""))},
            [wrong(WRONG[1]), wrong(replace(WRONG[1], part="")), 'fail: "conv1" computes something else'],
        ),
        (
            {"stale_files": (StaleFile("a.cpp", ()), StaleFile("b.bin", ()))},
            ["fail: what runs is not what the conversion gives: a.cpp, b.bin"],
        ),
        (
            {"outputs": (OUT, compared("flat", 99.0, doubt="all its values are equal"))},
            [
                '"flat": all its values are equal',
                'not verified: the values of "flat" prove nothing; try other --inputs',
            ],
        ),
        (
            {
                "outputs": (
                    compared("flat", 99.0, doubt="all its values are equal"),
                    compared("before", 50.0, evidence_for="flat"),
                )
            },
            ['"flat": all its values are equal, so a map before it is compared', PASS],
        ),
        (
            {"unjudged": (Unjudged("mine", "it has no result", True), Unjudged("last", "it draws", False))},
            [
                'not compared: "mine": it has no result',
                'not compared: "last": it draws',
                'not verified: "last" cannot be compared; give the expected outputs with the inputs (see docs/verify.md)',
            ],
        ),
        ({"by_sqnr_alone": {"out": "it sorts"}}, ['"out": judged by its SQNR alone: it sorts', PASS]),
        (
            {"sensitivity": (Sensitivity("fc", 1234, 55.0, {"out": 55.0}), Sensitivity("conv", 8, 54.0, {}))},
            ['FP16 weights in "fc" alone help most for their bytes: 55.0 dB at the worst output', PASS],
        ),
        ({"sensitivity": (Sensitivity("fc", 1234, 50.0, {"out": 50.0}),)}, [PASS]),
    ],
)
def test_the_verdict_names_what_it_follows_from(changes: dict[str, Any], lines: list[str]) -> None:
    printed = described(replace(RESULT, **changes))
    jump = '; the error jumps at the layer "fc"' * ("first_jump" in changes)
    assert printed[len(printed) - printed[::-1].index("") :] == [*lines[:-1], lines[-1] + jump]


TABLES = """\
net against Keras, palette weights: 1 sample (random)
  output  SQNR dB     cosine  max error  mean error  agreement  largest
  out        50.0  0.9990000       0.25        0.12      75.0%        8

  weights  FP16 dB  palette dB  FP16 agreement  palette agreement  same class
  out         66.0        50.0           62.5%              75.0%       50.0%

  FP16 in  more bytes  out dB
  none              0    50.0
  fc            1,234    53.0
  conv              8
  all           1,242    66.0

  accuracy  Keras  device
  out       50.0%   25.0%

  layer         SQNR dB  alone dB     cosine  max error  mean error  agreement  largest  maps in FP16 so far
  conv* (Conv)     45.5      61.2  0.9990000       0.25        0.12      75.0%        8
  fc (Dense)       44.0            0.9990000       0.25        0.12      75.0%        8                 70.0
  * compared with fusion = none: the configured fusion keeps this map out of memory

pass: every output has 30 dB or more; 3 maps differ from the framework by rounding alone"""


def test_tables_have_a_column_for_each_measure() -> None:
    layers = (
        LayerResult(compared("conv", 45.5), "Conv", unfused=True, alone=61.25),
        LayerResult(compared("fc", 44.0), "Dense", causes=(Attribution(Cause.MAPS, 70.0),)),
    )
    result = replace(
        RESULT,
        palette=True,
        samples=1,
        layers=layers,
        beside=(Beside(replace(OUT, sqnr=66.0, agreement=0.625), OUT, 0.5),),
        sensitivity=(Sensitivity("fc", 1234, 50.0, {"out": 53.0}), Sensitivity("conv", 8, 50.0, {})),
        accuracies=(Accuracy("out", 0.25, 0.5),),
    )
    assert plain(verdicts.verification(result)) == TABLES


@pytest.mark.parametrize(("judges", "words"), [(0, "the same"), (1, "1 other"), (3, "3 others")])
def test_a_calibration_says_what_judges_it(judges: int, words: str) -> None:
    first, *_ = tables.calibration("net", CalibrationEffect(1, judges, "a folder", (), ()), with_layers=True)
    assert first == f"net: palettes calibrated with 1 sample (a folder), against FP16 weights on {words}"
