// made by cnn-convertor 1.2.3 from net.h5, do not edit
// The Python module "pynet": the class Csmall, and the functions of the SDK's modules, which take the number of
// a network. Build it with pybind11 and link it with the runtime.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "small_gen.h"

namespace py = pybind11;

namespace {

using Network = Csmall;

struct Place {
  std::size_t offset, size;  // bytes
};
const Place kInputs[] = {
    {512, 128},  // "input" 8x8x1
};

// Copies an input as it lies in memory. Throws Error for anything else than its values in FP16.
template <class Error>
void Fill(Network &network, const py::array &values, const Place &place) {
  if (!network.get_io_ptr()) throw Error("the network has no memory: call initialize first");
  if (values.dtype().kind() != 'f' || values.itemsize() != 2 || !(values.flags() & py::array::c_style) ||
      static_cast<std::size_t>(values.nbytes()) != place.size) {
    throw Error("the input must be a contiguous float16 array of " + std::to_string(place.size / 2) + " values");
  }
  std::memcpy(network.get_io_ptr() + place.offset, values.data(), place.size);
}

void SetInput(Network &network, const py::array &values, std::size_t i) {
  if (i >= sizeof(kInputs) / sizeof(kInputs[0])) {
    throw std::out_of_range("the network has no such input");
  }
  Fill<std::invalid_argument>(network, values, kInputs[i]);
}

py::array_t<float> GetOutput(Network &network, int i) {
  if (i < 0 || i >= network.get_output_layer_count()) {
    throw std::out_of_range("the network has no such output");
  }
  std::vector<float> values;
  network.get_final_output(values, i);
  return py::array_t<float>(static_cast<py::ssize_t>(values.size()), values.data());
}

// The networks of the functions, by number.
std::map<int, std::unique_ptr<Network>> networks;

int Create() {
  const int id = networks.empty() ? 1 : networks.rbegin()->first + 1;
  networks[id].reset(new Network);
  return id;
}

Network &Get(int id) {
  const auto found = networks.find(id);
  if (found == networks.end()) throw std::out_of_range("there is no network " + std::to_string(id));
  return *found->second;
}

}  // namespace

PYBIND11_MODULE(pynet, m) {
  m.doc() = "The network small on a DV700";

  py::class_<Network>(m, "Csmall")
      .def(py::init<>())
      .def("initialize", &Network::Initialize, "Reserve memory and describe the layers.")
      .def("load_weights", &Network::LoadWeights, py::arg("path"), "Read the packed weights.")
      .def("commit", &Network::Commit, "Hand the commands to the device.")
      .def("run", &Network::RunNetwork, "Run the network once.")
      .def("verbose", &Network::Verbose, py::arg("level"))
      .def("set_input", &SetInput, py::arg("values"), py::arg("i") = 0, "Fill input i: float16, as it lies in memory.")
      .def("get_output", &GetOutput, py::arg("i") = 0, "Output i as floats.")
      .def_property_readonly("layer_count", &Network::get_total_layer_count)
      .def_property_readonly("output_count", &Network::get_output_layer_count);

  m.def("create", &Create, "Make a network and return its number, from 1 on.");
  m.def("initialize", [](int id) { return Get(id).Initialize(); }, py::arg("id"));
  m.def("load_weights", [](int id, const std::string &path) { return Get(id).LoadWeights(path); }, py::arg("id"),
        py::arg("filename"));
  m.def("commit", [](int id) { return Get(id).Commit(); }, py::arg("id"));
  m.def("put_input", [](int id, const py::array &values) { Fill<std::runtime_error>(Get(id), values, kInputs[0]); },
        py::arg("id"), py::arg("values"), "Fill the first input: float16, as it lies in memory.");
  m.def("run_network", [](int id) { return Get(id).RunNetwork(); }, py::arg("id"));
  m.def("get_final_output", [](int id, int index) { return GetOutput(Get(id), index); }, py::arg("id"),
        py::arg("index") = 0);
  m.def("get_output_layer_count", [](int id) { return Get(id).get_output_layer_count(); }, py::arg("id"));
  m.def("get_conv_usec", [](int id) { return Get(id).get_conv_usec(); }, py::arg("id"));
  m.def("get_fc_usec", [](int id) { return Get(id).get_fc_usec(); }, py::arg("id"));
  m.def("get_cpu_usec", [](int id) { return Get(id).get_cpu_usec(); }, py::arg("id"));
  m.def("destroy", [](int id) { Get(id); networks.erase(id); }, py::arg("id"), "Release a network.");
  m.attr("kOutput_softmax") = 0;
}
