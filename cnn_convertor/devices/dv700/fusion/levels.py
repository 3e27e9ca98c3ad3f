"""The forms of commands, the evidence for each, and the forms that each level of fusion allows."""

from collections.abc import Mapping
from enum import Enum, IntEnum


class Evidence(IntEnum):
    """Why a form of command should work on silicon. A larger value is stronger evidence."""

    ACCEPTED = 1  # the driver's check accepts it; no published source and no test runs it
    DOCUMENTED = 2  # the SDK's public header describes it
    PROVEN = 3  # published sources, which ran on boards, or the driver's hardware tests contain it


class Form(Enum):
    """What a command can consist of or contain: in words, its evidence, and where the evidence comes from."""

    words: str
    evidence: Evidence
    source: str

    RUN = ("one run: a convolution with its max pool, a pool, or an addition", Evidence.PROVEN, "published sources")
    ADDITION = ("an addition behind an average pool or a 1x1 depthwise convolution", Evidence.PROVEN, "hardware tests")
    CONV_ADDITION = ("an addition behind a convolution, in one tile", Evidence.DOCUMENTED, "public header")
    BRANCHES = ("several runs that start from the command's input", Evidence.PROVEN, "published sources, test_multirun")
    INCEPTION_BRANCH = (
        "a branch 1x1 to 3x3, 1x1 to 5x5 or max pool to 1x1, with stride 1",
        Evidence.PROVEN,
        "published GoogLeNet",
    )
    TILED_POOL = (
        "a max pool behind a convolution, in several tiles",
        Evidence.ACCEPTED,
        "the check of user drivers from 7.2.20201106 on; earlier ones refuse it",
    )
    TILED_ADDITION = ("an addition behind a convolution, in several tiles", Evidence.ACCEPTED, "driver's check")
    DECONV_RUN = ("an addition or a max pool behind a deconvolution", Evidence.ACCEPTED, "driver's check")
    CHAIN = ("a chain of runs outside branches", Evidence.ACCEPTED, "driver's check")
    DEEP_BRANCH = ("a branch of more than two runs", Evidence.ACCEPTED, "driver's check")
    OTHER_BRANCH = ("a branch of two other runs", Evidence.ACCEPTED, "driver's check")
    PRELU_IN_BUFFER = ("PReLU in front of another run", Evidence.ACCEPTED, "driver's check")
    CHANNELS_IN_BUFFER = (
        "a map between runs whose channels are not a multiple of 8",
        Evidence.ACCEPTED,
        "driver's check",
    )
    STRIDED = ("strides inside a branch or chain", Evidence.ACCEPTED, "driver's check")
    DEPTHWISE = ("a depthwise convolution inside a branch or chain", Evidence.ACCEPTED, "driver's check")
    AVERAGE_POOL = ("an average pool inside a branch or chain", Evidence.ACCEPTED, "driver's check")
    DENSE = ("a fully connected layer inside a branch or chain", Evidence.ACCEPTED, "driver's check")

    def __init__(self, words: str, evidence: Evidence, source: str) -> None:
        self.words, self.evidence, self.source = words, evidence, source


class Fusion(Enum):
    """How much one command may do. The values are those of the ini file.

    Batch norm, scales and activations are folded into the layers next to them at every level: that is arithmetic, not fusion.
    """

    NONE = "none"
    PROVEN = "proven"
    DOCUMENTED = "documented"
    FULL = "full"


# Whether TILED_POOL is allowed depends on the user driver and the hardware, not on the level: profiles.py.
ALLOWED: Mapping[Fusion, frozenset[Form]] = {
    Fusion.NONE: frozenset({Form.RUN}),
    Fusion.PROVEN: frozenset(form for form in Form if form.evidence >= Evidence.PROVEN),
    Fusion.DOCUMENTED: frozenset(form for form in Form if form.evidence >= Evidence.DOCUMENTED),
    Fusion.FULL: frozenset(Form) - {Form.TILED_POOL},
}
