"""A source may be written in many ways, and is read the same; what does not compile or end is said."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from audit.networks import generate, networks
from audit.vendor import save
from cnn_convertor.audit import audit
from cnn_convertor.audit.decoding import AVERAGE_POOL, MAX_POOL, RegisterPair, operand_of
from cnn_convertor.audit.source_network import Map, SourceNetwork
from cnn_convertor.audit.sources import read as read_file
from cnn_convertor.errors import ModelError, Problem, UsageError

# A pool of 4x4x8, and a 1x1 convolution from 8 to 3 channels, in the plainest form.
PLAIN = """
#include "Tiny_gen.h"
CTiny::CTiny() {}
CTiny::~CTiny() {}
bool CTiny::Initialize() {
  if (!ReserveMemory(448, 512)) {
    return false;
  }
  set_num_layers(2);
  set_num_output_layers(1);
  Layer_0();
  Layer_1();
  return true;
}
void CTiny::Layer_0() {
  get_layer(0).conv_conf_v1.header.size = 1896;
  get_layer(0).conv_conf_v1.header.device_type = 1;
  get_layer(0).conv_conf_v1.header.version = 1;
  get_layer(0).conv_conf_v1.conv_cmd.header.size = 1864;
  get_layer(0).conv_conf_v1.conv_cmd.header.device_type = 1;
  get_layer(0).conv_conf_v1.conv_cmd.topo = 1;
  get_layer(0).conv_conf_v1.conv_cmd.w = 4;
  get_layer(0).conv_conf_v1.conv_cmd.h = 4;
  get_layer(0).conv_conf_v1.conv_cmd.z = 1;
  get_layer(0).conv_conf_v1.conv_cmd.c = 8;
  get_layer(0).conv_conf_v1.conv_cmd.input_buf.mem = io_mem_;
  get_layer(0).conv_conf_v1.conv_cmd.output_buf.mem = io_mem_;
  get_layer(0).conv_conf_v1.conv_cmd.output_buf.offs = 256;
  get_layer(0).conv_conf_v1.conv_cmd.run[0].m = 8;
  get_layer(0).conv_conf_v1.conv_cmd.run[0].pool_enable = 1;
  get_layer(0).conv_conf_v1.conv_cmd.run[0].pool_size = 514;
  get_layer(0).conv_conf_v1.conv_cmd.run[0].pool_stride = 514;
  get_layer(0).name = "po\\"ol";
  get_layer(0).type = LT_CONV;
  get_layer(0).output_offs = 256;
  get_layer(0).output_size = 64;
  get_layer(0).input_dim[0] = 4;
  get_layer(0).input_dim[1] = 4;
  get_layer(0).input_dim[2] = 8;
  get_layer(0).input_dim_size = 3;
  get_layer(0).output_dim[0] = 2;
  get_layer(0).output_dim[1] = 2;
  get_layer(0).output_dim[2] = 8;
  get_layer(0).output_dim_size = 3;
}
void CTiny::Layer_1() {
  get_layer(1).conv_conf_v1.header.size = 1896;
  get_layer(1).conv_conf_v1.header.device_type = 1;
  get_layer(1).conv_conf_v1.header.version = 1;
  get_layer(1).conv_conf_v1.conv_cmd.header.size = 1864;
  get_layer(1).conv_conf_v1.conv_cmd.header.device_type = 1;
  get_layer(1).conv_conf_v1.conv_cmd.topo = 1;
  get_layer(1).conv_conf_v1.conv_cmd.w = 2;
  get_layer(1).conv_conf_v1.conv_cmd.h = 2;
  get_layer(1).conv_conf_v1.conv_cmd.z = 1;
  get_layer(1).conv_conf_v1.conv_cmd.c = 8;
  get_layer(1).conv_conf_v1.conv_cmd.input_buf.mem = io_mem_;
  get_layer(1).conv_conf_v1.conv_cmd.input_buf.offs = 256;
  get_layer(1).conv_conf_v1.conv_cmd.output_buf.mem = io_mem_;
  get_layer(1).conv_conf_v1.conv_cmd.run[0].m = 3;
  get_layer(1).conv_conf_v1.conv_cmd.run[0].conv_enable = 1;
  get_layer(1).conv_conf_v1.conv_cmd.run[0].p = 257;
  get_layer(1).conv_conf_v1.conv_cmd.run[0].pz = 1;
  get_layer(1).conv_conf_v1.conv_cmd.run[0].weight_buf.mem = weights_mem_;
  get_layer(1).conv_conf_v1.conv_cmd.run[0].weight_fmt = 1;
  get_layer(1).conv_conf_v1.conv_cmd.run[0].conv_stride = 257;
  get_layer(1).name = "conv";
  get_layer(1).type = LT_CONV;
  get_layer(1).input_offs = 256;
  get_layer(1).output_size = 24;
  get_layer(1).input_dim[0] = 2;
  get_layer(1).input_dim[1] = 2;
  get_layer(1).input_dim[2] = 8;
  get_layer(1).input_dim_size = 3;
  get_layer(1).output_dim[0] = 2;
  get_layer(1).output_dim[1] = 2;
  get_layer(1).output_dim[2] = 3;
  get_layer(1).output_dim_size = 3;
  get_layer(1).is_output = true;
  get_layer(1).is_input_hw_layout = true;
  output_layers_[0] = &get_layer(1);
}
"""

# The same, with constants, macros, loops, references, pointers, memset, local structures, helpers and comments.
LOOSE = r"""
/* another tool's */ #include "Tiny_gen.h"
#define POOL_WINDOW (0x2 | (2 << 8)) // a comment
namespace {
const std::size_t kMiddle = 0x100, kWeights = 4'48ul;
enum Kind { A, B };
template <class Dims, class Size>
void set_dims(Dims &dim, Size &size, const int channels, int side) {
  for (int i = 0; i < 2; ++i) dim[i] = side;
  dim[2] = channels;
  size = 3;
}
}  // namespace

CTiny::CTiny() : CDMP_Network() {
}
CTiny::~CTiny() {}

bool CTiny::Initialize() {
  if (!CDMP_Network::ReserveMemory(kWeights, 1 << 9)) return false; else { set_num_layers(1 + 1); }
  this->set_num_output_layers(1u);
  { Layer_0(); this->Layer_1(); }
  return true;
}

void CTiny::Layer_0() {
  struct dmp_dv_cmdraw_conv_v1 conf;
  memset(&conf, 0, sizeof(conf));
  struct dmp_dv_cmdraw_conv_v0 *cmd = &conf.conv_cmd;
  conf.header.size = sizeof(struct dmp_dv_cmdraw_conv_v1);
  conf.header.device_type = (uint8_t)DMP_DV_DEV_CONV, conf.header.version = 1;
  cmd->header.size = sizeof *cmd; cmd->header.device_type = DMP_DV_DEV_CONV;
  cmd->topo = 1u << 0;
  cmd->w = cmd->h = 4; cmd->z = 'A' - 64; cmd->c = 010;
  cmd->input_buf.mem = io_mem_; cmd->input_buf.offs = 0UL;
  cmd->output_buf.mem = io_mem_;
  cmd->output_buf.offs = kMiddle;
  auto &run = cmd->run[0];
  run.m = true ? 8 : 9;
  run.pool_enable = DMP_DV_POOL_MAX;
  run.pool_size = POOL_WINDOW; run.pool_stride = static_cast<uint16_t>(POOL_WINDOW);
  run.actfunc |= 0;
  layers_[0].conv_conf_v1 = conf;
  fpga_layer& layer = layers_.at(0);
  layer.name = "po" "\"" \
    "ol";
  layer.type = LT_CONV; layer.output_offs = kMiddle, layer.output_size = 2 * 2 * 8 * sizeof(uint16_t);
  set_dims(layer.input_dim, layer.input_dim_size, 8, 4);
  set_dims(layer.output_dim, layer.output_dim_size, 8, 2);
}

void CTiny::Layer_1(void) {
  fpga_layer *const layer = &layers_[1];
  dmp_dv_cmdraw_conv_v1 *conf = &layer->conv_conf_v1;
  std::memset(conf, 0, sizeof(*conf));
  conf->header.size = sizeof(*conf); conf->header.device_type = 0x1; conf->header.version = 0b1;
  (*conf).conv_cmd.header.size = sizeof(conf->conv_cmd);
  conf->conv_cmd.header.device_type = 1;
  dmp_dv_cmdraw_conv_v0 &cmd = conf->conv_cmd;
  cmd.topo = 1; cmd.w = 2; cmd.h = 2; cmd.z = 1; cmd.c = 8;
  cmd.input_buf.mem = io_mem_; cmd.input_buf.offs = kMiddle;
  cmd.output_buf = dmp_dv_buf();
  cmd.output_buf.mem = io_mem_;
  const dmp_dv_cmdraw_conv_v0_run empty = {0};
  cmd.run[0] = empty;
  dmp_dv_cmdraw_conv_v0_run *first = cmd.run;
  first->m = 3; first->conv_enable = 1; first->p = 0x0101; first->pz = 1;
  first->weight_buf.mem = weights_mem_; first->weight_fmt = 1; first[0].conv_stride = 257;
#if 0
  this is not C++ at all
#endif
  const std::string kName("conv"); layer->name = kName; layer->type = static_cast<layer_type>(1);
  layer->input_offs = kMiddle; layer->output_size = 24;
  set_dims(layer->input_dim, layer->input_dim_size, 8, 2);
  set_dims(layer->output_dim, layer->output_dim_size, 3, 2);
  layer->is_output = !false; layer->is_input_hw_layout = true;
  output_layers_[0] = layer;
}
"""


def read(text: str) -> tuple[SourceNetwork, list[Problem]]:
    with tempfile.TemporaryDirectory() as folder:
        return read_file(save(text, Path(folder)))


def with_statement(statement: str) -> tuple[str, int]:
    """The plain form with a statement in Layer_0, and its line."""
    text = PLAIN.replace("void CTiny::Layer_0() {\n", f"void CTiny::Layer_0() {{\n  {statement}\n")
    return text, text[: text.index(statement)].count("\n") + 1


def without_lines(network: SourceNetwork) -> SourceNetwork:
    return replace(network, line=0, layers=tuple(replace(layer, lines={}) for layer in network.layers))


def test_the_plain_form_is_read(tmp_path: Path) -> None:
    result = audit(save(PLAIN, tmp_path), None)
    assert not result.findings
    assert result.listing.startswith(
        'Tiny: 2 layers, maps in WHC order; sizes are height x width x channels\n   0  conv "po\\"ol": 4x4x8@0 -> 2x2x8@256, 64 bytes\n       max pool 2x2 s2\n'
    )


def test_height_comes_before_width_in_the_listing() -> None:
    assert str(Map(width=6, height=4, channels=8)) == "4x6x8"
    assert str(RegisterPair(x=3, y=1)) == "1x3"


def test_a_looser_form_is_read_the_same() -> None:
    plain, loose = read(PLAIN), read(LOOSE)
    assert loose[1] == []
    assert without_lines(loose[0]) == without_lines(plain[0])


def test_each_field_has_the_line_of_its_assignment() -> None:
    (first, second), lines = read(PLAIN)[0].layers, PLAIN.split("\n")
    for layer in (first, second):
        assert len(layer.lines) >= 30
        for field, line in layer.lines.items():
            assert f"get_layer({layer.index})." in lines[line - 1] and f"{field} = " in f"{lines[line - 1]} = ", field


def test_a_copy_keeps_the_lines_of_what_it_copies() -> None:
    copied, line = with_statement("dmp_dv_cmdraw_conv_v0 cmd; cmd.c = 9; get_layer(1).conv_conf_v1.conv_cmd = cmd;")
    layer = read(copied.replace("get_layer(1).conv_conf_v1.conv_cmd.c = 8;", ""))[0].layers[1]
    assert layer.command is not None and (layer.command.c, layer.lines["c"]) == (9, line)


def test_what_memset_clears_is_not_assigned() -> None:
    text = PLAIN.replace(
        "get_layer(0).conv_conf_v1.header.size = 1896;",
        "get_layer(0).softmax_axis = 2; memset(&get_layer(0).softmax_axis, 0, sizeof(int));"
        " get_layer(0).conv_conf_v1.header.size = 1896;",
    )
    assert read(text)[0].layers[0].members == ("a command",)


def test_windows_line_ends_are_line_ends() -> None:
    assert read(PLAIN.replace("\n", "\r\n")) == read(PLAIN)


def test_the_older_command_is_read() -> None:
    text = PLAIN.replace(".conv_conf_v1.conv_cmd", ".conv_conf")
    text = "".join(line for line in text.splitlines(keepends=True) if "conv_conf_v1" not in line)
    network, findings = read(text)
    assert not findings
    for old, new in zip(network.layers, read(PLAIN)[0].layers, strict=True):
        assert old.command is not None and new.command is not None
        assert old.command == replace(new.command, outer=None)


INPUT_LISTS = [
    "static fpga_layer *in[2]; in[0] = &layers_.at(0); in[1] = &get_layer(1); layer.input_layers = &in[0];",
    "inputs_[0] = &layers_[0]; inputs_[1] = &layers_[1]; layer.input_layers = inputs_;",
    "layer.input_layers = new fpga_layer *[2]{&layers_[0], &layers_[1]};",
]


@pytest.mark.parametrize("form", INPUT_LISTS)
def test_lists_of_inputs_are_read(form: str) -> None:
    body = f"fpga_layer &layer = get_layer(1); layer.input_layer_num = 2; {form}"
    network, findings = read(PLAIN.replace("  output_layers_[0]", f"  {body}\n  output_layers_[0]"))
    assert not findings
    assert network.layers[1].sources == (0, 1)


# A statement in Layer_0, and a piece of what is said about it.
DOES_NOT_COMPILE = [
    ("get_layer(0).conv_conf_v1.conv_cmd.width = 8;", "width"),
    ("get_layer(0).output_size = width_of(0);", "width_of"),
    ("get_layer(0).input_offs = \"a\";", "cast"),
    ("get_layer(0).conv_conf_v1 = get_layer(0).conv_conf;", "operator="),
    ("auto copy = get_layer(0); copy.output_size = 1;", "deleted"),
    ("get_layer(0).output_size = (1;", "expected"),
    ('get_layer(0).name = "a;', "missing terminating"),
    ("std::map<int, int> sizes;", "map"),
    ('system("touch here");', "system"),
    ("recording::end(recording::kRecorded);", "poisoned"),
    ('__asm__("nop");', "poisoned"),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "why"), DOES_NOT_COMPILE)
def test_what_does_not_compile_is_refused_with_its_line(statement: str, why: str) -> None:
    text, line = with_statement(statement)
    with pytest.raises(ModelError, match="not understood") as refusal:
        read(text)
    (problem,) = refusal.value.problems
    assert problem.code == "DV602" and why in problem.message
    assert problem.where is not None and problem.where.line == line


# A statement in Layer_0, the code and a piece of what is found.
FOUND = [
    ("get_layer(0).conv_conf_v1.conv_cmd.topo == 1;", "DV602", "not used"),
    ("get_layer(0).output_dim_size = 1 / 0;", "DV602", "it crashes"),
    ("Layer_0();", "DV602", "it crashes"),
    ("int *place = nullptr; *place = 1;", "DV602", "it crashes"),
    ("for (;;) {}", "DV602", "it does not end"),
    ("for (;;) get_layer(-1).output_size = 1;", "DV602", "more than any network needs"),
    ("for (;;) new int[1000];", "DV602", "more than any network needs"),
    ("ReserveMemory(1, 1);", "DV602", "a second time"),
    ("get_layer(-1).output_size = 1;", "DV603", "layers_[-1]"),
    ("output_layers_[1] = nullptr;", "DV603", "output_layers_[1] of 1"),
    ("get_layer(0).conv_conf.w = 1;", "DV603", "two commands"),
    ("get_layer(1).conv_conf_v1.conv_cmd.run[0].pz = 70000;", "DV604", "4464 would remain"),
    ("get_layer(1).conv_conf_v1.conv_cmd.w = 1.5;", "DV604", "1 would remain"),
    ("get_layer(0).input_offs = -1;", "DV604", "18446744073709551615 would remain"),
    ("get_layer(0).is_f32_output = 2;", "DV604", "true or false"),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("statement", "code", "why"), FOUND)
def test_what_compiles_and_is_wrong_is_found_with_its_line(statement: str, code: str, why: str) -> None:
    """A crash has the line of Initialize()."""
    text, line = with_statement(statement)
    text = text.replace("get_layer(1).conv_conf_v1.conv_cmd.run[0].pz = 1;", "").replace(
        "get_layer(1).conv_conf_v1.conv_cmd.w = 2;", ""
    )
    try:
        findings = read(text)[1]
    except ModelError as error:
        findings, line = list(error.problems), PLAIN[: PLAIN.index("::Initialize")].count("\n") + 1
    found = [finding for finding in findings if finding.code == code and why in finding.message]
    assert found, findings
    assert found[0].where is not None and found[0].where.line == line


def test_a_function_that_is_never_called_is_found() -> None:
    text = PLAIN.replace("  Layer_1();\n", "  if (false) Layer_1();\n")
    assert [finding.message for finding in read(text)[1]] == ["Layer_1() is never called", "layer 1 is never described"]


def test_an_initialize_that_fails_is_found() -> None:
    assert "returns false" in read(PLAIN.replace("return true;", "return false;"))[1][0].message


@pytest.mark.parametrize(("pool", "operand"), [(MAX_POOL, RegisterPair(4, 4)), (AVERAGE_POOL, RegisterPair(2, 2))])
def test_an_operand_has_the_size_before_a_max_pool_and_that_behind_any_other(pool: int, operand: RegisterPair) -> None:
    """The pool has no convolution before it."""
    run = "get_layer(0).conv_conf_v1.conv_cmd.run[0].pool_enable = "
    adds = f"{run}{pool};\n  get_layer(0).conv_conf_v1.conv_cmd.output_mode = 1;"
    network, _ = read(PLAIN.replace(f"{run}1;", adds))
    command = network.layers[0].command
    assert command is not None
    assert operand_of(command) == Map(operand.x, operand.y, 8)


def test_a_file_that_is_no_generated_source_is_refused(tmp_path: Path) -> None:
    for contents in (b"", b"int main() {}", bytes(range(256)) * 40):
        (tmp_path / "x.cpp").write_bytes(contents)
        with pytest.raises(ModelError, match="DV600"):
            audit(tmp_path / "x.cpp", None)
    for missing in (tmp_path / "missing.cpp", tmp_path):
        with pytest.raises(ModelError, match="cannot read the source"):
            audit(missing, None)


def test_a_source_without_its_header_is_refused(tmp_path: Path) -> None:
    (tmp_path / "Net_gen.cpp").write_text(PLAIN, encoding="utf-8")
    with pytest.raises(ModelError, match=r"(?s)DV600: cannot read the source.*Tiny_gen\.h"):
        audit(tmp_path / "Net_gen.cpp", None)


def test_without_a_compiler_the_message_is_that_of_run_and_verify(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(UsageError, match=r'DV701: there is no C\+\+ compiler "no-such-compiler"'):
        read(PLAIN + "// another text\n")


def test_weights_that_are_missing_are_a_finding(tmp_path: Path) -> None:
    written = generate(networks()["prelu"])
    written.audit(tmp_path)
    (tmp_path / "Net_weights.bin").unlink()
    (finding,) = audit(tmp_path / "Net_gen.cpp", tmp_path / "Net_weights.bin").findings
    assert finding.code == "DV680"


def test_a_source_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cnn_convertor.audit.recorded._LARGEST", 1000)
    (tmp_path / "long.cpp").write_bytes(bytes(1001))
    with pytest.raises(ModelError, match="DV600: this is not a generated source: it has more than 1,000 bytes"):
        audit(tmp_path / "long.cpp")
