// The device: its registers as an application sees them, and which operations can start.
#include <algorithm>
#include <cstring>

#include "bdma.h"
#include "cdp.h"
#include "conv.h"
#include "engine.h"
#include "exact.h"
#include "fused.h"
#include "pdp.h"
#include "rubik.h"
#include "sdp.h"

namespace nvdla {
namespace {

// Bits of S_INTR_STATUS, for group 0.
enum Interrupt { kSdpDone = 0, kCdpDone = 2, kPdpDone = 4, kBdmaDone = 6, kRubikDone = 8, kDataDone = 16, kWeightsDone = 18, kCaccDone = 20 };

constexpr uint32_t kVersion = 0x303031;
constexpr int kConvolution[] = {kCDMA, kCSC, kCMAC_A, kCMAC_B, kCACC};

bool named(int index, const char *name) { return std::string(kRegisters[index].name) == name; }

// Without the other precisions.
Configuration of_halves(Configuration configuration) {
  configuration.atomic_k[kInt8] = configuration.atomic_k[kInt16] = 0;
  return configuration;
}

// The groups of a block: which one the application writes, which one runs next, and which are enabled.
struct PingPong {
  int producer = 0, consumer = 0;
  bool enabled[2] = {};
  uint64_t enabled_at[2] = {};
  std::string waits_for[2];

  bool ready() const { return enabled[consumer]; }
  uint32_t status() const {
    uint32_t value = 0;
    for (int group = 0; group < 2; ++group)
      if (enabled[group]) value |= (group == consumer ? 1u : 2u) << (16 * group);
    return value;
  }
};

}  // namespace

struct Device::State {
  State(const Configuration &variant, int thread_count, bool is_exact)
      : configuration(is_exact ? of_halves(variant) : variant),
        threads(thread_count),
        exact(is_exact),
        memory(is_exact ? 2 : 1),
        registers(variant),
        parts{configuration, memory, threads} {}

  const Configuration configuration;
  const int threads;
  const bool exact;
  float parameters[6] = {};  // of the next function and its table
  Memory memory;
  RegisterFile registers;
  const Parts parts;
  PingPong blocks[kBlocks];
  LutMemory sdp_tables, cdp_tables;
  ConvolutionBuffer buffer;
  std::vector<Copy> copies;
  uint32_t interrupts = 0;
  bool different[2] = {};  // of SDP's comparisons, by group
  uint64_t accesses = 0;
  std::vector<Operation> operations;

  Group group(int block) const { return Group(registers, blocks[block].consumer); }
  LutMemory &tables(int block) { return block == kSDP ? sdp_tables : cdp_tables; }

  void write(int index, uint32_t value);
  void write_doubled(int index, uint32_t value);
  uint32_t read(int index);
  void write_table(int block, uint32_t value);
  uint32_t read_table(int block);
  void advance_table(int block);
  void check_table_free(int index);
  void write_bdma(int index, uint32_t value);
  void name_function(uint32_t place, uint32_t value);

  void check_address(uint64_t address, std::size_t size) const;
  void settle();
  bool ready(int block, int waiting);
  bool try_sdp();
  bool try_pdp();
  bool try_cdp();
  bool try_rubik();
  Map run_convolution(const Convolution &convolution, const Fetch &fetch, const SdpPlan &plan);
  void check_flying(const Convolution &convolution, const SdpPlan &plan, const Group &sdp) const;
  Operation started(int block) const;
  void finish(int block);
  std::string waiting() const;
};

void Device::State::write(int index, uint32_t value) {
  const Register &row = kRegisters[index];
  if (row.block == kGLB) {
    registers.store(index, 0, value);
    if (named(index, "S_INTR_STATUS")) interrupts &= ~value;
    if (named(index, "S_INTR_SET")) interrupts |= value;
    return;
  }
  if (row.doubled) return write_doubled(index, value);
  if (named(index, "S_POINTER")) {
    registers.store(index, 0, value);
    blocks[row.block].producer = value & 1;
    return;
  }
  if (row.name[0] == 'S' && std::string(row.name).rfind("S_LUT", 0) == 0) check_table_free(index);
  registers.store(index, 0, value);
  if (named(index, "S_LUT_ACCESS_DATA")) write_table(row.block, value);
  if (row.block == kBDMA) write_bdma(index, value);
}

void Device::State::write_doubled(int index, uint32_t value) {
  const Register &row = kRegisters[index];
  PingPong &block = blocks[row.block];
  const int to = block.producer;
  if (block.enabled[to])
    throw Refusal(register_name(index) + " (group " + std::to_string(to) + "): the group is enabled, so its registers must not change");
  registers.store(index, to, value);
  if (!named(index, "D_OP_ENABLE") || !value) return;
  block.enabled[to] = true;
  block.enabled_at[to] = accesses;
  block.waits_for[to].clear();
  settle();
}

// Entries go in one after the other.
void Device::State::write_table(int block, uint32_t value) {
  const Group of(registers, 0);
  const Field &type = block == kSDP ? SDP::S_LUT_ACCESS_CFG_LUT_ACCESS_TYPE : CDP::S_LUT_ACCESS_CFG_LUT_ACCESS_TYPE;
  const Field &id = block == kSDP ? SDP::S_LUT_ACCESS_CFG_LUT_TABLE_ID : CDP::S_LUT_ACCESS_CFG_LUT_TABLE_ID;
  const Field &address = block == kSDP ? SDP::S_LUT_ACCESS_CFG_LUT_ADDR : CDP::S_LUT_ACCESS_CFG_LUT_ADDR;
  if (!of(type)) of.refuse(type, "the table is being read, not written");
  const int table = of(id), entry = of(address);
  of.at_most(address, entry, LutMemory::size(table) - 1, "the entry");
  tables(block).entries[table][entry] = static_cast<int16_t>(value);
  tables(block).written[table][entry] = true;
  tables(block).exact = nullptr;
  advance_table(block);
}

uint32_t Device::State::read_table(int block) {
  const Group of(registers, 0);
  const Field &id = block == kSDP ? SDP::S_LUT_ACCESS_CFG_LUT_TABLE_ID : CDP::S_LUT_ACCESS_CFG_LUT_TABLE_ID;
  const Field &address = block == kSDP ? SDP::S_LUT_ACCESS_CFG_LUT_ADDR : CDP::S_LUT_ACCESS_CFG_LUT_ADDR;
  const int table = of(id), entry = of(address);
  of.at_most(address, entry, LutMemory::size(table) - 1, "the entry");
  if (!tables(block).written[table][entry]) of.refuse(address, "this entry of the table was never written");
  const uint32_t value = static_cast<uint16_t>(tables(block).entries[table][entry]);
  advance_table(block);
  return value;
}

void Device::State::advance_table(int block) {
  const Field &address = block == kSDP ? SDP::S_LUT_ACCESS_CFG_LUT_ADDR : CDP::S_LUT_ACCESS_CFG_LUT_ADDR;
  registers.store(address.index, 0, registers.value(address.index, 0) + 1);
}

void Device::State::check_table_free(int index) {
  const int block = kRegisters[index].block;
  for (int number = 0; number < 2; ++number) {
    if (!blocks[block].enabled[number]) continue;
    const Group own(registers, number);
    if (block == kSDP && (own(SDP::D_DP_EW_CFG_EW_BYPASS) || own(SDP::D_DP_EW_CFG_EW_LUT_BYPASS))) continue;
    throw Refusal(register_name(index) + ": group " + std::to_string(number) + " is enabled and reads the table");
  }
}

// place: 0 for the number, or that of a parameter.
void Device::State::name_function(uint32_t place, uint32_t value) {
  if (place) {
    std::memcpy(&parameters[place - 1], &value, sizeof value);
    return;
  }
  LutMemory &table = tables(value & kOfCdp ? kCDP : kSDP);
  table.exact = exact_function(value & ~kOfCdp, parameters);
  table.low = parameters[3];
  table.high = parameters[4];
  table.largest_error = parameters[5];
}

void Device::State::write_bdma(int index, uint32_t value) {
  const Group bdma(registers, 0);
  if (index == BDMA::CFG_OP.index && value) {
    bdma.at_most(BDMA::CFG_OP, copies.size() + 1, kBdmaSlots, "the number of copies at a launch");
    copies.push_back(copy_of(bdma));
  }
  const bool second = index == BDMA::CFG_LAUNCH1.index;
  if ((index != BDMA::CFG_LAUNCH0.index && !second) || !value) return;
  if (copies.empty()) bdma.refuse(second ? BDMA::CFG_LAUNCH1 : BDMA::CFG_LAUNCH0, "there is no copy to launch");
  Operation operation;
  operation.engine = "BDMA";
  operation.group = second;
  operation.enabled = operation.started = accesses;
  uint64_t bytes = 0;
  for (const Copy &copy : copies) bytes += run_copy(parts, bdma, copy);
  copies.clear();
  operation.traffic = {{"BDMA_READ", bytes}, {"BDMA_WRITE", bytes}};
  operations.push_back(operation);
  interrupts |= 1u << (kBdmaDone + second);
}

uint32_t Device::State::read(int index) {
  const Register &row = kRegisters[index];
  const PingPong &block = blocks[row.block];
  if (named(index, "S_NVDLA_HW_VERSION")) return kVersion;
  if (named(index, "S_INTR_STATUS")) return interrupts;
  if (named(index, "S_STATUS")) return block.status();
  if (named(index, "S_POINTER")) return static_cast<uint32_t>(block.producer | block.consumer << 16);
  if (named(index, "S_CBUF_FLUSH_STATUS")) return 1;
  if (named(index, "D_OP_ENABLE")) return block.enabled[block.producer];
  if (named(index, "S_LUT_ACCESS_DATA")) return read_table(row.block);
  if (index == BDMA::STATUS_IDLE.index) return static_cast<uint32_t>(kBdmaSlots - copies.size()) | 1u << 8;
  if (index == SDP::D_STATUS.index) return different[block.producer];
  if (row.read_only) throw Refusal(register_name(index) + ": the twin does not count this");
  return registers.value(index, row.doubled ? block.producer : 0);
}

// Whether a block's next group is enabled. If not, the waiting block's group remembers it.
bool Device::State::ready(int block, int waiting) {
  if (blocks[block].ready()) return true;
  blocks[waiting].waits_for[blocks[waiting].consumer] = kBlockNames[block];
  return false;
}

void Device::State::settle() {
  for (const int block : kConvolution)
    if (blocks[block].ready()) ready(kSDP, block);
  while (try_sdp() || try_pdp() || try_cdp() || try_rubik()) {
  }
}

Operation Device::State::started(int block) const {
  const PingPong &of = blocks[block];
  Operation operation;
  operation.engine = kBlockNames[block];
  operation.group = of.consumer;
  operation.enabled = of.enabled_at[of.consumer];
  operation.started = accesses;
  operation.waited_for = of.waits_for[of.consumer];
  return operation;
}

void Device::State::finish(int block) {
  PingPong &of = blocks[block];
  of.enabled[of.consumer] = false;
  of.consumer ^= 1;
}

void Device::State::check_flying(const Convolution &convolution, const SdpPlan &plan, const Group &sdp) const {
  sdp.must_be(SDP::D_DATA_CUBE_WIDTH, plan.width, convolution.out_width, "the width, by the convolution,");
  sdp.must_be(SDP::D_DATA_CUBE_HEIGHT, plan.height, convolution.out_height, "the height, by the convolution,");
  sdp.must_be(SDP::D_DATA_CUBE_CHANNEL, plan.channels, convolution.kernels, "the number of channels, by the convolution,");
  sdp.must_be(SDP::D_DATA_FORMAT_PROC_PRECISION, plan.processing, convolution.precision, "the precision, by the convolution,");
}

Map Device::State::run_convolution(const Convolution &convolution, const Fetch &fetch, const SdpPlan &plan) {
  const Group cdma = group(kCDMA);
  std::vector<int16_t> input, weights;
  std::vector<float> exact_input, exact_weights;
  Map output;
  if (exact) {
    exact_input = fetch.exact_input();
    exact_weights = fetch.exact_weights();
    output = convolve_exactly(parts, convolution, exact_input, exact_weights);
  } else {
    input = fetch.input();
    weights = fetch.weights();
    output = convolve_for(parts, plan, convolution, input, weights);
  }
  const uint64_t bytes = convolution.kernels * convolution.kernel_elements() * element_bytes(convolution.precision);
  buffer.banks = cdma(CDMA::D_BANK_DATA_BANK) << 16 | cdma(CDMA::D_BANK_WEIGHT_BANK);
  buffer.uneven_weights = cdma(CDMA::D_WEIGHT_BYTES) != rounded_up(bytes, configuration.cbuf_entry_bytes);
  buffer.keeps_input = cdma(CDMA::D_MISC_CFG_SKIP_DATA_RLS);
  buffer.keeps_weights = cdma(CDMA::D_MISC_CFG_SKIP_WEIGHT_RLS);
  buffer.of = convolution;
  if (buffer.keeps_input) {
    buffer.input = std::move(input);
    buffer.exact_input = std::move(exact_input);
  }
  if (buffer.keeps_weights) {
    buffer.weights = std::move(weights);
    buffer.exact_weights = std::move(exact_weights);
  }
  Operation operation = started(kCDMA);
  operation.engine = "CONV";
  operation.traffic = {{"CDMA_DAT", fetch.input_bytes()}, {"CDMA_WT", fetch.weight_bytes()}};
  operation.mac_cycles = mac_cycles(configuration, convolution);
  operations.push_back(operation);
  interrupts |= 1u << (kDataDone + cdma.number()) | 1u << (kWeightsDone + cdma.number());
  interrupts |= 1u << (kCaccDone + blocks[kCACC].consumer);
  for (const int block : kConvolution) finish(block);
  return output;
}

bool Device::State::try_sdp() {
  if (!blocks[kSDP].ready()) return false;
  const Group sdp = group(kSDP), rdma = group(kSDP_RDMA), pdp = group(kPDP);
  const bool flying = sdp(SDP::D_FEATURE_MODE_CFG_FLYING_MODE), to_pdp = sdp(SDP::D_FEATURE_MODE_CFG_OUTPUT_DST);
  const bool reads = needs_rdma(sdp);
  if (reads && !ready(kSDP_RDMA, kSDP)) return false;
  if (to_pdp && !ready(kPDP, kSDP)) return false;
  if (flying)
    for (const int block : kConvolution)
      if (!ready(block, kSDP)) return false;

  const ConvolutionGroups groups{group(kCDMA), group(kCSC), group(kCMAC_A), group(kCMAC_B), group(kCACC)};
  const SdpPlan plan = plan_sdp(parts, sdp, reads ? &rdma : nullptr, sdp_tables);
  PdpPlan pooling;
  if (to_pdp) {
    const Field &mode = PDP::D_OPERATION_MODE_CFG_FLYING_MODE;
    pdp.must_be(mode, pdp(mode), 0, "the mode, as SDP writes to PDP,");
    pooling = plan_pdp(parts, pdp, nullptr);
    pdp.must_be(PDP::D_DATA_CUBE_IN_WIDTH, pooling.width, plan.width, "the width, by SDP,");
    pdp.must_be(PDP::D_DATA_CUBE_IN_HEIGHT, pooling.height, plan.height, "the height, by SDP,");
    pdp.must_be(PDP::D_DATA_CUBE_IN_CHANNEL, pooling.channels, plan.channels, "the number of channels, by SDP,");
    pdp.must_be(PDP::D_DATA_FORMAT, pooling.precision, plan.out, "the precision, by SDP,");
  }
  Map convolved;
  if (flying) {
    const Convolution convolution = convolution_of(configuration, groups);
    check_flying(convolution, plan, sdp);
    const Fetch fetch(parts, groups.cdma, convolution, buffer);
    if (!convolution.pixels) memory.require_written(fetch.inputs().front());
    const Cube &written = to_pdp ? pooling.destination : plan.destination;
    if (!plan.compares())
      for (const Cube &input : fetch.inputs()) check_apart(written, input);
    convolved = run_convolution(convolution, fetch, plan);
  }
  if (!flying) memory.require_written(plan.source);
  for (const Unit &unit : plan.units)
    if (unit.data.used) memory.require_written(unit.data.cube);
  SdpResult result = (exact ? run_sdp_exactly : run_sdp)(parts, plan, flying ? &convolved : nullptr);
  different[sdp.number()] = result.different;
  Operation operation = started(kSDP);
  if (!flying) operation.traffic.push_back({"SDP_RDMA", plan.source.bytes()});
  static constexpr const char *kPorts[] = {"BRDMA", "NRDMA", "ERDMA"};
  for (int i = 0; i < 3; ++i)
    if (plan.units[i].data.used) operation.traffic.push_back({kPorts[i], plan.units[i].data.cube.bytes(), plan.units[i].data.cube.address});
  if (!to_pdp && !plan.compares()) operation.traffic.push_back({"SDP_WDMA", plan.destination.bytes()});
  operations.push_back(operation);
  if (reads) finish(kSDP_RDMA);
  finish(kSDP);
  interrupts |= 1u << (kSdpDone + sdp.number());
  if (!to_pdp) return true;
  (exact ? run_pdp_exactly : run_pdp)(parts, pooling, &result.map);
  Operation pool = started(kPDP);
  pool.traffic = {{"PDP_WDMA", pooling.destination.bytes()}};
  operations.push_back(pool);
  finish(kPDP);
  interrupts |= 1u << (kPdpDone + pdp.number());
  return true;
}

bool Device::State::try_pdp() {
  if (!blocks[kPDP].ready()) return false;
  const Group pdp = group(kPDP), rdma = group(kPDP_RDMA);
  if (!pdp(PDP::D_OPERATION_MODE_CFG_FLYING_MODE)) {
    ready(kSDP, kPDP);
    return false;
  }
  if (!ready(kPDP_RDMA, kPDP)) return false;
  const PdpPlan plan = plan_pdp(parts, pdp, &rdma);
  memory.require_written(plan.source);
  (exact ? run_pdp_exactly : run_pdp)(parts, plan, nullptr);
  Operation operation = started(kPDP);
  operation.traffic = {{"PDP_RDMA", plan.source.bytes()}, {"PDP_WDMA", plan.destination.bytes()}};
  operations.push_back(operation);
  finish(kPDP_RDMA);
  finish(kPDP);
  interrupts |= 1u << (kPdpDone + pdp.number());
  return true;
}

bool Device::State::try_cdp() {
  if (!blocks[kCDP].ready() || !ready(kCDP_RDMA, kCDP)) return false;
  const Group cdp = group(kCDP), rdma = group(kCDP_RDMA);
  const CdpPlan plan = plan_cdp(parts, cdp, rdma, cdp_tables);
  memory.require_written(plan.source);
  (exact ? run_cdp_exactly : run_cdp)(parts, plan);
  Operation operation = started(kCDP);
  operation.traffic = {{"CDP_RDMA", plan.source.bytes()}, {"CDP_WDMA", plan.destination.bytes()}};
  operations.push_back(operation);
  finish(kCDP_RDMA);
  finish(kCDP);
  interrupts |= 1u << (kCdpDone + cdp.number());
  return true;
}

bool Device::State::try_rubik() {
  if (!blocks[kRBK].ready()) return false;
  const Group rubik = group(kRBK);
  const uint64_t bytes = run_rubik(parts, rubik);
  Operation operation = started(kRBK);
  operation.traffic = {{"RBK_READ", bytes}, {"RBK_WRITE", bytes}};
  operations.push_back(operation);
  finish(kRBK);
  interrupts |= 1u << (kRubikDone + rubik.number());
  return true;
}

std::string Device::State::waiting() const {
  std::string all;
  for (int block = 0; block < kBlocks; ++block)
    for (int number = 0; number < 2; ++number) {
      const PingPong &of = blocks[block];
      if (!of.enabled[number]) continue;
      if (!all.empty()) all += ", ";
      all += std::string(kBlockNames[block]) + " (group " + std::to_string(number) + ") ";
      if (number != of.consumer)
        all += "runs after group " + std::to_string(of.consumer);
      else
        all += of.waits_for[number].empty() ? "is enabled, and nothing needs it" : "waits for " + of.waits_for[number];
    }
  return all.empty() ? "nothing is enabled" : all;
}

Device::Device(const Configuration &configuration, int threads, bool exact) : state_(new State(configuration, threads, exact)) {}
Device::~Device() = default;

void Device::State::check_address(uint64_t address, std::size_t size) const {
  const uint32_t bits = configuration.address_bits;
  if (bits < 64 && (address + size) >> bits)
    throw Refusal("memory: " + hexadecimal(address) + " is beyond the " + text(bits) + " bits of addresses");
}

void Device::add_memory(uint64_t address, uint64_t size) {
  state_->check_address(address, size / state_->memory.scale());
  state_->memory.add(address, size);
}

void Device::add_memory(uint64_t address, uint8_t *data, std::size_t size) {
  state_->check_address(address, size);
  state_->memory.add(address, data, size);
}

void Device::add_unwritten_memory(uint64_t address, uint8_t *data, std::size_t size) {
  state_->check_address(address, size);
  state_->memory.add(address, data, size, true);
}

uint8_t *Device::memory(uint64_t address) { return state_->memory.at(address, 0); }

void Device::write(uint32_t address, uint32_t value) {
  const uint32_t place = (address - kExactFunction) / 4;
  if (state_->exact && address % 4 == 0 && place < 7) return state_->name_function(place, value);
  state_->write(state_->registers.find(address), value);
  ++state_->accesses;
}

uint32_t Device::read(uint32_t address) {
  const uint32_t value = state_->read(state_->registers.find(address));
  ++state_->accesses;
  return value;
}

void Device::wait(uint32_t interrupts) {
  const uint32_t missing = interrupts & ~state_->interrupts;
  if (missing)
    throw Refusal("GLB.S_INTR_STATUS: nothing will set the bits " + hexadecimal(missing) + ": " + state_->waiting());
  ++state_->accesses;
}

const std::vector<Operation> &Device::operations() const { return state_->operations; }

}  // namespace nvdla
