// A network of either runtime, as the runner uses it: derived from CDMP_Network, or with a generated runtime.
#ifndef DV_ANY_NETWORK_H
#define DV_ANY_NETWORK_H

#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "dmp_network.h"
#include "dmp_network_host.h"

namespace dv {

using Observer = std::function<void(const fpga_layer &)>;

class AnyNetwork {
 public:
  virtual ~AnyNetwork() = default;
  virtual bool Initialize() = 0;
  virtual bool LoadWeights(const std::string &filename) = 0;
  virtual bool Commit() = 0;
  virtual bool RunNetwork() = 0;
  virtual void WantLayerOutputs() = 0;
  virtual fpga_layer &get_layer(int i) = 0;
  virtual int get_total_layer_count() const = 0;
  virtual int get_output_layer_count() const = 0;
  virtual std::vector<fpga_layer *> &get_output_layers() = 0;
  virtual void get_final_output(std::vector<float> &output, int i_output) = 0;
  virtual uint8_t *get_io_ptr() const = 0;
  virtual int get_conv_usec() const = 0;
  virtual int get_fc_usec() const = 0;
  virtual int get_cpu_usec() const = 0;
  // Why the last call returned false.
  virtual std::string error() const = 0;
  // Calls the function after each layer, with WantLayerOutputs().
  virtual void observe(Observer function) = 0;
};

// What a layer on the CPU reads of the I/O memory.
struct Part {
  int layer;
  std::size_t offset, bytes;
};

// Follows an execution by a generated runtime: tells the emulated memory what the CPU reads and writes.
class Watch {
 public:
  explicit Watch(std::vector<Part> reads) : reads_(std::move(reads)) {}
  void observe(Observer function) { observer_ = std::move(function); }
  // An execution begins. layers: all of them.
  void begin(fpga_layer *layers, int count, uint8_t *io);
  // A layer on the CPU is about to run, or the output of any layer is complete.
  void follow(fpga_layer &layer, bool is_done);

 private:
  std::vector<Part> reads_;
  Observer observer_;
  fpga_layer *layers_ = nullptr;
  uint8_t *io_ = nullptr;
  std::vector<bool> told_;
  int count_ = 0;
};

template <class Network>
class Watched : public Network {
 public:
  explicit Watched(std::vector<Part> reads) : watch(std::move(reads)) {}
  Watch watch;

 protected:
  void Observe(fpga_layer &layer, bool is_done) override { watch.follow(layer, is_done); }
};

template <class Network>
class Forwarding : public AnyNetwork {
 public:
  template <class... Arguments>
  explicit Forwarding(Arguments &&...arguments) : network_(std::forward<Arguments>(arguments)...) {}
  bool Initialize() override { return network_.Initialize(); }
  bool LoadWeights(const std::string &filename) override { return network_.LoadWeights(filename); }
  bool Commit() override { return network_.Commit(); }
  bool RunNetwork() override { return network_.RunNetwork(); }
  void WantLayerOutputs() override { network_.WantLayerOutputs(); }
  fpga_layer &get_layer(int i) override { return network_.get_layer(i); }
  int get_total_layer_count() const override { return network_.get_total_layer_count(); }
  int get_output_layer_count() const override { return network_.get_output_layer_count(); }
  std::vector<fpga_layer *> &get_output_layers() override { return network_.get_output_layers(); }
  void get_final_output(std::vector<float> &output, int i_output) override { network_.get_final_output(output, i_output); }
  uint8_t *get_io_ptr() const override { return network_.get_io_ptr(); }
  int get_conv_usec() const override { return network_.get_conv_usec(); }
  int get_fc_usec() const override { return network_.get_fc_usec(); }
  int get_cpu_usec() const override { return network_.get_cpu_usec(); }

 protected:
  Network network_;
};

// By the SDK's runtime.
template <class Network, bool kIsOfSdk = std::is_base_of<CDMP_Network, Network>::value>
class Adapted final : public Forwarding<Network> {
 public:
  explicit Adapted(const std::vector<Part> &) {}
  std::string error() const override { return dmp_network_host::last_message(); }
  void observe(Observer function) override { dmp_network_host::observe(std::move(function)); }
};

// By a generated one.
template <class Network>
class Adapted<Network, false> final : public Forwarding<Watched<Network>> {
 public:
  explicit Adapted(const std::vector<Part> &reads) : Forwarding<Watched<Network>>(reads) {}
  bool RunNetwork() override {
    this->network_.watch.begin(&this->get_layer(0), this->get_total_layer_count(), this->get_io_ptr());
    return this->network_.RunNetwork();
  }
  std::string error() const override { return this->network_.get_error(); }
  void observe(Observer function) override { this->network_.watch.observe(std::move(function)); }
};

}  // namespace dv

#endif
