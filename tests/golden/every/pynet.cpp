// made by cnn-convertor 1.2.3 from net.h5, do not edit
// The Python module "pynet" with the class Cevery. Build it with pybind11 and link it with the runtime.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "every_gen.h"

namespace py = pybind11;

namespace {

struct Place {
  std::size_t offset, size;  // bytes
};
const Place kInputs[] = {
    {0, 384},  // "image" 8x8x3
    {1024, 1024},  // "mask" 8x8x8
};

void SetInput(Cevery &network, const py::array &values, std::size_t i) {
  if (i >= sizeof(kInputs) / sizeof(kInputs[0])) {
    throw std::out_of_range("the network has no such input");
  }
  if (values.dtype().kind() != 'f' || values.itemsize() != 2 || !(values.flags() & py::array::c_style) ||
      static_cast<std::size_t>(values.nbytes()) != kInputs[i].size) {
    throw std::invalid_argument("the input must be a contiguous float16 array of " +
                                std::to_string(kInputs[i].size / 2) + " values");
  }
  std::memcpy(network.get_io_ptr() + kInputs[i].offset, values.data(), kInputs[i].size);
}

py::array_t<float> GetOutput(Cevery &network, int i) {
  if (i < 0 || i >= network.get_output_layer_count()) {
    throw std::out_of_range("the network has no such output");
  }
  std::vector<float> values;
  network.get_final_output(values, i);
  return py::array_t<float>(static_cast<py::ssize_t>(values.size()), values.data());
}

}  // namespace

PYBIND11_MODULE(pynet, m) {
  m.doc() = "The network every on a DV700";
  py::class_<Cevery>(m, "Cevery")
      .def(py::init<>())
      .def("initialize", &Cevery::Initialize, "Reserve memory and describe the layers.")
      .def("load_weights", &Cevery::LoadWeights, py::arg("path"), "Read the packed weights.")
      .def("commit", &Cevery::Commit, "Hand the commands to the device.")
      .def("run", &Cevery::RunNetwork, "Run the network once.")
      .def("verbose", &Cevery::Verbose, py::arg("level"))
      .def("set_input", &SetInput, py::arg("values"), py::arg("i") = 0, "Fill input i: float16, as it lies in memory.")
      .def("get_output", &GetOutput, py::arg("i") = 0, "Output i as floats.")
      .def_property_readonly("layer_count", &Cevery::get_total_layer_count)
      .def_property_readonly("output_count", &Cevery::get_output_layer_count);
}
