"""The forms of commands, the evidence for each, and the forms that each level of fusion allows."""

from collections.abc import Mapping
from enum import Enum, IntEnum

from cnn_convertor.devices.settings import Fusion


class Evidence(IntEnum):
    """Why a form of command should work on silicon. A larger value is stronger evidence."""

    ACCEPTED = 1  # the driver's check accepts it; no published source and no test runs it
    DOCUMENTED = 2  # the SDK's public header describes it
    PROVEN = 3  # published sources, which ran on boards, or the driver's hardware tests contain it


_CHECK = "the user driver's check accepts it"


class Form(Enum):
    """What a command can consist of or contain: in words, its evidence, and where the evidence comes from.

    A source names a repository, in it a test or a published network, and there the fields of the command.
    """

    words: str
    evidence: Evidence
    source: str

    RUN = (
        "one run: a convolution with its max pool, a pool, or an addition",
        Evidence.PROVEN,
        (
            "dv-user-driver, topo 1: test_conv (conv_enable 1, 3, 5, 7; conv_dilation; actfunc), test_pool, test_upsampling; application: "
            "KerasGoogLeNet, Layer_0 (conv_enable 1 with pool_enable 1, in one tile); VisualInspectionDemo: InspectionDemoResnet, add_1 "
            "(output_mode 1, pool_enable 2)"
        ),
    )
    ADDITION = (
        "an addition behind an average pool or a 1x1 depthwise convolution",
        Evidence.PROVEN,
        (
            "dv-user-driver: test_add_act_pool (output_mode 1) with AVG_POOL=1 (pool_enable 2) and with CONV=1 (conv_enable 3, p 0x0101, "
            "pool_enable 1 or 0)"
        ),
    )
    CONV_ADDITION = (
        "an addition behind a convolution, in one tile",
        Evidence.DOCUMENTED,
        "dv-user-driver: dmp_dv_cmdraw_v0.h gives the order of a run; test_add_act_pool runs it for 1x1 depthwise convolutions only",
    )
    BRANCHES = (
        "several runs that start from the command's input",
        Evidence.PROVEN,
        (
            "application: CaffeSqueezeNet, Layer_2 (topo 0x3: 1x1 and 3x3); dv-user-driver: test_multirun, run_conf_squeezenet (topo 0x3 "
            "with pool_enable 1). Other kernels and strides beside each other, like 1x3 and 3x1, or 2x2 and 4x4 with stride 2, follow from "
            "this general form only"
        ),
    )
    INCEPTION_BRANCH = (
        "a branch 1x1 to 3x3, 1x1 to 5x5 or max pool to 1x1, with stride 1",
        Evidence.PROVEN,
        (
            "application: KerasGoogLeNet, Layer_6 (inception_3a, topo 0x55: runs 1 and 2, 3 and 4, 5 and 6, with pads and strides of "
            "0x101) and Layer_7 (inception_3b, a max pool behind each branch); dv-user-driver: test_multirun, run_conf_googlenet"
        ),
    )
    TILED_POOL = (
        "a max pool behind a convolution, in several tiles",
        Evidence.ACCEPTED,
        f"{_CHECK}, from 7.2.20201106 on; earlier ones refuse it",
    )
    DILATED_DEPTHWISE = (
        "a dilated depthwise convolution",
        Evidence.ACCEPTED,
        f"{_CHECK}; dv-user-driver's test_conv leaves it out, as one of the limitations of dilation",
    )
    TILED_ADDITION = ("an addition behind a convolution, in several tiles", Evidence.ACCEPTED, _CHECK)
    DECONV_RUN = ("an addition or a max pool behind a deconvolution", Evidence.ACCEPTED, _CHECK)
    CHAIN = ("a chain of runs outside branches", Evidence.ACCEPTED, _CHECK)
    DEEP_BRANCH = ("a branch of more than two runs", Evidence.ACCEPTED, _CHECK)
    OTHER_BRANCH = ("a branch of two other runs", Evidence.ACCEPTED, _CHECK)
    PRELU_IN_BUFFER = ("PReLU in front of another run", Evidence.ACCEPTED, _CHECK)
    CHANNELS_IN_BUFFER = (
        "a map between runs whose channels are not a multiple of 8",
        Evidence.ACCEPTED,
        _CHECK,
    )
    STRIDED = ("strides inside a branch or chain", Evidence.ACCEPTED, _CHECK)
    DEPTHWISE = ("a depthwise convolution inside a branch or chain", Evidence.ACCEPTED, _CHECK)
    AVERAGE_POOL = ("an average pool inside a branch or chain", Evidence.ACCEPTED, _CHECK)
    DENSE = ("a fully connected layer inside a branch or chain", Evidence.ACCEPTED, _CHECK)
    CHANNEL_SPLIT = (
        "branches of some channels each: a convolution, then depthwise convolutions or pools",
        Evidence.ACCEPTED,
        _CHECK,
    )

    PACKED_FACTORS = (
        "a scale by factors that the CPU packs as weights of a 1x1 depthwise convolution, in the I/O memory",
        Evidence.ACCEPTED,
        f"{_CHECK}: weights may be in any memory, and the device reads them when it runs",
    )
    PACKED_MATRIX = (
        "a product of maps, one of which the CPU packs as weights of a 1x1 convolution, in the I/O memory",
        Evidence.ACCEPTED,
        f"{_CHECK}: as for packed factors",
    )

    def __init__(self, words: str, evidence: Evidence, source: str) -> None:
        self.words, self.evidence, self.source = words, evidence, source


# Whether TILED_POOL is allowed depends on the user driver and the hardware, not on the level: profiles.py.
ALLOWED: Mapping[Fusion, frozenset[Form]] = {
    Fusion.NONE: frozenset({Form.RUN}),
    Fusion.PROVEN: frozenset(form for form in Form if form.evidence >= Evidence.PROVEN),
    Fusion.DOCUMENTED: frozenset(form for form in Form if form.evidence >= Evidence.DOCUMENTED),
    Fusion.FULL: frozenset(Form) - {Form.TILED_POOL},
}
