"""A source may be written in many ways, and is read the same; what is not understood is said."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from audit.networks import generate, networks
from cnn_convertor.audit import audit
from cnn_convertor.audit.decoding import AVERAGE_POOL, MAX_POOL, RegisterPair, operand_of
from cnn_convertor.audit.sdk import COMMANDS, LAYER, STRUCTS
from cnn_convertor.audit.source_network import Map, SourceNetwork
from cnn_convertor.audit.sources import read_text
from cnn_convertor.errors import ModelError, Problem

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

# The same, with constants, macros, references, pointers, memset, local structures, helpers and comments.
LOOSE = r"""
/* another tool's */ #include "Tiny_gen.h"
#define POOL_WINDOW (0x2 | (2 << 8)) // a comment
#pragma once
namespace {
const std::size_t kMiddle = 0x100, kWeights = 4'48ul;
enum Kind { A, B };
void set_dims(int *dim, int *size, const int channels, int side) {
  dim[0] = dim[1] = side;
  dim[2] = channels;
  *size = 3;
}
}  // namespace

CTiny::CTiny() : CDMP_Network() {
}

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
  set_dims(layer.input_dim, &layer.input_dim_size, 8, 4);
  set_dims(layer.output_dim, &layer.output_dim_size, 8, 2);
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
  set_dims(layer->input_dim, &layer->input_dim_size, 8, 2);
  set_dims(layer->output_dim, &layer->output_dim_size, 3, 2);
  layer->is_output = !false; layer->is_input_hw_layout = true;
  output_layers_[0] = layer;
}
"""


def read(text: str) -> tuple[SourceNetwork, list[Problem]]:
    return read_text(text, "Tiny_gen.cpp")


def without_lines(network: SourceNetwork) -> SourceNetwork:
    return replace(network, line=0, layers=tuple(replace(layer, lines={}) for layer in network.layers))


def test_the_sizes_of_structures_are_those_of_the_driver() -> None:
    assert (COMMANDS[0].size, COMMANDS[1].size, LAYER.size) == (1864, 1896, 2040)
    assert STRUCTS["dmp_dv_cmdraw_conv_v0_run"].size == 56


def test_the_plain_form_is_read(tmp_path: Path) -> None:
    source = tmp_path / "Tiny_gen.cpp"
    source.write_text(PLAIN, encoding="utf-8")
    result = audit(source, None)
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
    "fpga_layer *in[] = {&get_layer(0), &layers_[1]}; layer.input_layers = in;",
    "static fpga_layer *in[2]; in[0] = &layers_.at(0); in[1] = &get_layer(1); layer.input_layers = &in[0];",
    "inputs_[0] = &layers_[0]; inputs_[1] = &layers_[1]; layer.input_layers = inputs_;",
    "layer.input_layers = new fpga_layer*[2]; layer.input_layers[0] = &layers_[0]; layer.input_layers[1] = &layers_[1];",
    "layer.input_layers = new fpga_layer *[2]{&layers_[0], &layers_[1]};",
]


@pytest.mark.parametrize("form", INPUT_LISTS)
def test_lists_of_inputs_are_read(form: str) -> None:
    body = f"fpga_layer &layer = get_layer(1); layer.input_layer_num = 2; {form}"
    network, findings = read(PLAIN.replace("  output_layers_[0]", f"  {body}\n  output_layers_[0]"))
    assert not findings
    assert network.layers[1].sources == (0, 1)


# A statement in Layer_0, and a piece of what is said about it.
NOT_UNDERSTOOD = [
    ("for (int i = 0; i < 2; i++) get_layer(i).conv_conf_v1.conv_cmd.w = 8;", "does not follow for"),
    ("while (true) { get_layer(0).output_size = 1; }", "does not follow while"),
    ("get_layer(0).conv_conf_v1.conv_cmd.run[32].m = 8;", "has 32 elements"),
    ("get_layer(0).conv_conf_v1.conv_cmd.width = 8;", "has no field width"),
    ("get_layer(0).conv_conf_v1.conv_cmd.w = width;", "width is not"),
    ("get_layer(0).conv_conf_v1.conv_cmd.w = width_of(0);", "a call of width_of"),
    ("get_layer(0).conv_conf_v1.conv_cmd.w++;", "++"),
    ("get_layer(0).conv_conf_v1.conv_cmd.w = 1 << 99;", "a shift by 99"),
    ("get_layer(0).conv_conf_v1.conv_cmd.w = 1 / 0;", "division by zero"),
    ("get_layer(0).conv_conf_v1.conv_cmd.w = 1.5;", "1.5 is not"),
    ("if (fast()) get_layer(0).output_size = 1; else get_layer(0).output_size = 2;", "a call of fast"),
    ("memset(&get_layer(0).conv_conf_v1, 0xff, sizeof(dmp_dv_cmdraw_conv_v1));", "to 255"),
    ("memset(&get_layer(0).conv_conf_v1, 0, 1864);", "1864 bytes of"),
    ("layer.output_size = 1;", "no known field output_size"),
    ("fill(get_layer(0));", "a call of fill"),
    ("get_layer(-1).output_size = 1;", "no element -1"),
    ("get_layer(0).name = 3;", "is std::string"),
    ("get_layer(0).input_offs = \"a\";", "is not"),
    ("get_layer(0).conv_conf_v1 = get_layer(0).conv_conf;", "dmp_dv_cmdraw_conv_v1"),
    ("get_layer(0).conv_conf_v1.conv_cmd.topo == 1;", "does nothing"),
    ("if (int one = 1) get_layer(0).output_size = one;", "unexpected int one"),
    ("if (int one = 1; one) get_layer(0).output_size = one;", "a condition"),
    ("std::vector<int> sizes;", "the type"),
    ("auto &first{get_layer(0)};", "a reference"),
    ("auto copy = get_layer(0); copy.output_size = 1;", "a reference may be meant"),
    ("return; get_layer(0).output_size = 1;", "never reached"),
    ("get_layer(0).output_size = " + "~(" * 500 + "1" + ")" * 500 + ";", "nested too deep"),
    ("{" * 100 + "get_layer(0).output_size = 1;" + "}" * 100, "nested too deep"),
    ("ReserveMemory(1, 1);", "a second time"),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "why"), NOT_UNDERSTOOD)
def test_what_is_not_understood_is_said_with_its_line(statement: str, why: str) -> None:
    text = PLAIN.replace("void CTiny::Layer_0() {\n", f"void CTiny::Layer_0() {{\n  {statement}\n")
    line = text[: text.index(statement)].count("\n") + 1
    _, findings = read(text)
    found = [finding for finding in findings if finding.code == "DV602" and why in finding.message]
    assert found, findings
    assert found[0].where is not None and found[0].where.line == line


# Values of output_size behind some statements, as C++ computes them.
VALUES = [
    ("#define N 1 + 1\nget_layer(0).output_size = 2 * N;", 3),
    ("#define M (N)\n#define N 4\nget_layer(0).output_size = M;", 4),
    ("#define N N\nint N = 5; get_layer(0).output_size = N;", 5),
    ("#if 1\n#if 0\nget_layer(0).output_size = 1;\n#else\nget_layer(0).output_size = 2;\n#endif\n#else\n@\n#endif", 2),
    ("#if 0\n#if 1\n@\n#else\n@\n#endif\n#else\nget_layer(0).output_size = 3;\n#endif", 3),
    ("int n = 1; true ? n = 2 : n = 3; get_layer(0).output_size = n;", 2),
    ("int n = 1; if (false && (n = 2)) { } get_layer(0).output_size = n;", 1),
    ("get_layer(0).output_size = 10 - 4 - 3;", 3),
    ("int n = not 0; n or_eq compl 5 bitand 4 xor 2; n and_eq 7; get_layer(0).output_size = n;", 3),
    ("int n = 6; n xor_eq 1 bitor 2; if (n not_eq 5 or not 1 and 1) { n = 9; } get_layer(0).output_size = n;", 5),
    ("int *p, n = 7; get_layer(0).output_size = n;", 7),
    ("int a[2][2] = {{1, 2}, {3, 4}}; get_layer(0).output_size = a[1][0];", 3),
    ("get_layer(0).output_size = " + " + ".join(["1"] * 5000) + ";", 5000),
    ("int n(6); get_layer(0).output_size = n;", 6),
    ("const int k = 8; int n(k); get_layer(0).output_size = n;", 8),
    ("get_layer(0).output_size = '\\x41' + sizeof(uint32_t);", 69),
    ("get_layer(0).output_size = U'\\U0010ffff';", 0x10FFFF),
    ("get_layer(0).output_size = U'\\U00110000';", 0xFFFD),
    ("std::string u = \"/* #if 1 @ \"; get_layer(0).output_size = 2'0 /* } */ + 1; // { */", 21),
]  # fmt: skip


@pytest.mark.parametrize(("statements", "value"), VALUES)
def test_values_are_those_of_cpp(statements: str, value: int) -> None:
    network, findings = read(PLAIN.replace("  get_layer(0).output_size = 64;\n", f"{statements}\n"))
    assert not findings
    assert network.layers[0].output_size == value


@pytest.mark.parametrize(("pool", "operand"), [(MAX_POOL, RegisterPair(4, 4)), (AVERAGE_POOL, RegisterPair(2, 2))])
def test_an_operand_has_the_size_before_a_max_pool_and_that_behind_any_other(pool: int, operand: RegisterPair) -> None:
    """The pool has no convolution before it."""
    run = "get_layer(0).conv_conf_v1.conv_cmd.run[0].pool_enable = "
    adds = f"{run}{pool};\n  get_layer(0).conv_conf_v1.conv_cmd.output_mode = 1;"
    network, _ = read(PLAIN.replace(f"{run}1;", adds))
    command = network.layers[0].command
    assert command is not None
    assert operand_of(command) == Map(operand.x, operand.y, 8)


def test_a_function_inside_itself_is_said() -> None:
    _, findings = read(PLAIN.replace("void CTiny::Layer_0() {\n", "void CTiny::Layer_0() {\n  Layer_0();\n"))
    assert "Layer_0 is called inside itself" in findings[0].message


DENSE = ["a[0]=1;", "a=b=1;", "1,", ";", "a=1;", "f(1);", "{a=1;}", "a=-1;", "a={1};"]


@pytest.mark.parametrize("piece", DENSE)
def test_dense_cpp_is_not_refused(piece: str) -> None:
    body = f"int a[] = {{{piece * 50_000}}};" if piece == "1," else piece * 20_000
    read(f"{PLAIN}\nvoid other() {{ {body} }}")


TOO_MUCH = [
    ("x = a<b<c; " * 10_000, "more than 10,000 comparisons"),
    (f"x = {'~' * 70_000}1;", "more than 65,536"),
    (";" * 80_000, "statements of fewer than 8 characters"),
    ("1" * 300_000, "a line of more than 262,144"),
]


@pytest.mark.parametrize(("statements", "why"), TOO_MUCH)
def test_what_takes_the_parser_much_memory_is_refused(statements: str, why: str) -> None:
    with pytest.raises(ModelError, match=why):
        read(f"{PLAIN}\nvoid other() {{ {statements} }}")


# A statement in Layer_0 that is no C++.
NO_CPP = [
    "get_layer(0).conv_conf_v1.conv_cmd.w = 08;",
    "get_layer(0).output_size = (1;",
    "get_layer(0).output_size = 1 get_layer(0).output_offs = 2;",
    "@",
    "get_layer(0).output_size = 1 +;",
    'get_layer(0).name = "a;',
]


@pytest.mark.parametrize("statement", NO_CPP)
def test_what_is_no_cpp_is_refused_with_its_line(statement: str) -> None:
    text = PLAIN.replace("void CTiny::Layer_0() {\n", f"void CTiny::Layer_0() {{\n  {statement}\n")
    with pytest.raises(ModelError) as refusal:
        read(text)
    (problem,) = refusal.value.problems
    assert problem.code == "DV602"
    assert problem.where is not None and problem.where.line == text[: text.index(statement)].count("\n") + 1


@pytest.mark.parametrize("text", ["}\n", "int x\n", "struct { \n", "@\n"])
def test_what_is_no_cpp_outside_of_functions_is_refused(text: str) -> None:
    with pytest.raises(ModelError, match="DV602") as refusal:
        read(PLAIN + text)
    where = refusal.value.problems[0].where
    assert where is not None and where.line is not None and where.line >= PLAIN.count("\n")


TOP_LEVEL = ["#if FAST\n#endif\n", "#if 1\n", "/* no end", "Layer_0();\n"]


@pytest.mark.parametrize("text", TOP_LEVEL)
def test_what_is_not_understood_outside_of_functions_is_said(text: str) -> None:
    _, findings = read(PLAIN + text)
    assert [finding.code for finding in findings] == ["DV602"]


@pytest.mark.parametrize(("levels", "codes"), [(20, []), (21, ["DV602"])])
def test_namespaces_are_read_to_a_depth_of_20(levels: int, codes: list[str]) -> None:
    _, findings = read(PLAIN + "namespace a {\n" * levels + "int b;\n" + "}\n" * levels)
    assert [finding.code for finding in findings] == codes


def test_a_file_that_is_no_generated_source_is_refused(tmp_path: Path) -> None:
    for contents in (b"", b"int main() {}", bytes(range(256)) * 40):
        (tmp_path / "x.cpp").write_bytes(contents)
        with pytest.raises(ModelError, match="DV600"):
            audit(tmp_path / "x.cpp", None)
    with pytest.raises(ModelError, match="cannot read the source"):
        audit(tmp_path / "missing.cpp", None)
    with pytest.raises(ModelError, match="cannot read the source"):
        audit(tmp_path, None)


def test_weights_that_are_missing_are_a_finding(tmp_path: Path) -> None:
    written = generate(networks()["prelu"])
    written.audit(tmp_path)
    (tmp_path / "Net_weights.bin").unlink()
    (finding,) = audit(tmp_path / "Net_gen.cpp", tmp_path / "Net_weights.bin").findings
    assert finding.code == "DV680"


def test_a_source_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cnn_convertor.audit.sources._LARGEST_SOURCE", 1000)
    (tmp_path / "long.cpp").write_bytes(bytes(1001))
    with pytest.raises(ModelError, match="DV600: this is not a generated source: it has more than 1,000 bytes"):
        audit(tmp_path / "long.cpp")
