"""Every file that anyone may have written is opened by `files/opening.py`, which waits for no pipe and reads no device."""

import ast
from collections import Counter
from pathlib import Path

import cnn_convertor

PACKAGE = Path(cnn_convertor.__file__).parent
METHODS = {"open", "read_text", "read_bytes", "fdopen", "run_path", "fromfile", "memmap", "imread", "open_code"}
FUNCTIONS = {"np.load", "onnx.load", "h5py.File", "zipfile.ZipFile", "zipfile.is_zipfile", "io.FileIO", "FileIO"}
OURS = "a file of the package, or of the system"
NEW = "in a folder that this process alone has made"
CHECKED = "opened by `open_file` or checked by `require_file` before"
HANDLE = "of what is open already"
WRITES = "writes"
ALLOWED = {  # file -> (calls that open something in another way, why they may)
    "audit/recorded.py": (2, f"{OURS}; {NEW}"),
    "audit/weight_memory.py": (1, HANDLE),
    "devices/dv700/probe/probe_files.py": (1, OURS),
    "cli/pages.py": (2, OURS),
    "codegen/kernels/__init__.py": (2, OURS),
    "conversion/checking.py": (1, HANDLE),
    "devices/dv700/cpu_costs.py": (1, OURS),
    "emulation/build.py": (1, OURS),
    "emulation/network.py": (4, NEW),
    "devices/nvdla/playing.py": (1, NEW),
    "devices/dv700/accelerator.py": (1, OURS),
    "devices/dv700/fitting/compensation.py": (2, NEW),
    "devices/dv700/fitting/layer_fit.py": (1, NEW),
    "devices/dv700/fitting/layer_inputs.py": (2, NEW),
    "devices/dv700/variant_files.py": (1, NEW),
    "emulation/variants.py": (2, NEW),
    "files/codes.py": (1, OURS),
    "files/isolation.py": (3, f"{HANDLE}; {OURS}"),
    "files/limited.py": (1, HANDLE),
    "files/locks.py": (2, "locks: they follow no link and do not wait"),
    "files/numpy_files.py": (5, f"{CHECKED}; {WRITES}"),
    "files/opening.py": (2, "open_file itself"),
    "files/replacing.py": (3, WRITES),
    "frontends/caffe/importer.py": (1, "WeightsFile.open"),
    "frontends/caffe/schema.py": (1, OURS),
    "frontends/keras/custom.py": (1, CHECKED),
    "frontends/keras/hdf5.py": (5, f"{CHECKED}; {HANDLE}; {NEW}"),
    "frontends/keras/model_files.py": (1, HANDLE),
    "frontends/keras/whole_model.py": (7, f"{CHECKED}; {NEW}"),
    "frontends/unsupported_formats.py": (2, CHECKED),
    "report/page.py": (1, OURS),
    "verification/caffe_network.py": (1, OURS),
    "verification/keras_models.py": (2, CHECKED),
    "verification/onnx_float32.py": (1, CHECKED),
    "verification/onnx_runner.py": (2, CHECKED),
    "workers/confined.py": (2, WRITES),
}


def openings(source: str) -> int:
    """How many calls in a source may open a file by its name."""
    functions = [node.func for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    return sum(opens(function) for function in functions)


def opens(function: ast.expr) -> bool:
    match function:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name in METHODS or ast.unparse(function) in FUNCTIONS
    return False


def test_every_reader_of_files_goes_through_one_function() -> None:
    counts = Counter({str(path.relative_to(PACKAGE)): openings(path.read_text()) for path in PACKAGE.rglob("*.py")})
    assert +counts == {file: count for file, (count, _) in ALLOWED.items()}, "read files by cnn_convertor.files.opening"


def test_each_way_to_open_a_file_counts() -> None:
    for call in (
        "open(x)",
        "x.open('rb')",
        "x.read_text()",
        "np.load(x)",
        "h5py.File(x)",
        "cv2.imread(x)",
        "os.open(x, 0)",
    ):
        assert openings(call) == 1
    assert openings("open_file(x); bytes_of(x); x.load()") == 0
