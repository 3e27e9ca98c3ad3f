// A network whose program is data: the file that DMP_DV_PROGRAM names. It does what the generated sources of the program do.
//
// The file consists of words. Blanks, "(", ")" and "," separate them; "{", "}" and ";" are words of their own. A word says what
// follows: "layer.output_offs 64" assigns a field, "Tensor x(io, 64, 1, 1, 8, kHalf);" names a map, "call Softmax(x, y, ...);"
// binds the function to the layer. Anything else is an error, and so is a file that does not end with "end".
#ifndef PROGRAM_NETWORK_H
#define PROGRAM_NETWORK_H

#include <cstdlib>
#include <deque>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "dmp_network.h"
#include "memory.h"
#include "registers.h"
#include "threads.h"
#include "kernels.h"  // generated: the functions of CPU layers, FOR_EACH_KERNEL, FOR_EACH_WORD
#ifdef PROGRAM_RUN  // a header with the generated runtime of a network called Program, which then runs the program
#include PROGRAM_RUN
using ProgramBase = Program_run::Network;
#else
using ProgramBase = CDMP_Network;
#endif

namespace program {

[[noreturn]] inline void refuse(const std::string &why) { throw std::runtime_error("the program's file: " + why); }

// The words of a file, one after the other.
class Words {
 public:
  explicit Words(std::string text) : text_(std::move(text)) {}

  std::string next() {
    at_ = text_.find_first_not_of(" \n(),", at_);
    if (at_ == std::string::npos) refuse("it ends too early");
    const std::size_t end = std::strchr("{};", text_[at_]) ? at_ + 1 : text_.find_first_of(" \n(),{};", at_);
    const std::string word = text_.substr(at_, end - at_);
    at_ = std::min(end, text_.size());
    return word;
  }

  // Characters of any kind, after one blank.
  std::string raw(std::size_t count) {
    if (text_.size() - at_ < count + 1) refuse("it ends too early");
    at_ += count + 1;
    return text_.substr(at_ - count, count);
  }

  void expect(const std::string &wanted) {
    const std::string word = next();
    if (word != wanted) refuse("\"" + word + "\" is where \"" + wanted + "\" belongs");
  }

  // Whether the statement has the word, further on.
  bool has_ahead(const std::string &wanted) const {
    Words ahead = *this;
    for (std::string word = ahead.next(); word != ";"; word = ahead.next())
      if (word == wanted) return true;
    return false;
  }

  bool is_at_end() const { return text_.find_first_not_of(" \n", at_) == std::string::npos; }

 private:
  std::string text_;
  std::size_t at_ = 0;
};

inline long long constant(const std::string &word) {
  using namespace cpu_functions;
#define WORD(name) {#name, name},
  static const std::map<std::string, long long> constants = {FOR_EACH_WORD(WORD){"true", 1}, {"false", 0}};
#undef WORD
  const auto known = constants.find(word);
  if (known != constants.end()) return known->second;
  std::size_t length = 0;
  long long value = 0;
  try {
    value = std::stoll(word, &length, 0);
  } catch (const std::logic_error &) {
  }
  if (length != word.size()) refuse("\"" + word + "\" is not a number or a constant");
  return value;
}

template <class T>
T number(const std::string &word) {
  const long long value = constant(word);
  const auto result = static_cast<T>(value);
  if (static_cast<long long>(result) != value) refuse(word + " does not fit its field");
  return result;
}

// The number of a struct's fields: how many values can initialize it.
struct Anything {
  template <class T>
  operator T() const;
};
template <class T, class = void, class... Values>
struct FieldsOf : std::integral_constant<std::size_t, sizeof...(Values) - 1> {};
template <class T, class... Values>
struct FieldsOf<T, std::void_t<decltype(T{std::declval<Values>()...})>, Values...>
    : FieldsOf<T, void, Values..., Anything> {};

template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};

// A map as the argument of a call: whole, or what a piece has of it or for it.
enum class Cut { WHOLE, OF, FIRST, REST, ROOM };
struct MapArgument {
  Cut cut;
  std::optional<cpu_functions::Tensor> map;
  std::size_t room = 0;
};

// Reads the arguments of a call, by their types: structs as Name{fields}, lists as {items}, maps by their names.
class Arguments {
 public:
  Arguments(Words &words, const std::map<std::string, cpu_functions::Tensor> &maps) : words_(words), maps_(maps) {}

  template <class T>
  T read() {
    return read_word<T>(words_.next());
  }

 private:
  template <class T>
  T read_word(const std::string &word) {
    if constexpr (std::is_same_v<T, MapArgument>) {
      static const std::map<std::string, Cut> cuts = {
          {"piece.Of", Cut::OF}, {"piece.First", Cut::FIRST}, {"piece.Rest", Cut::REST}, {"piece.Room", Cut::ROOM}};
      const auto known = cuts.find(word);
      if (known == cuts.end()) return {Cut::WHOLE, read_word<cpu_functions::Tensor>(word)};
      if (known->second == Cut::ROOM) return {Cut::ROOM, std::nullopt, number<std::size_t>(words_.next())};
      return {known->second, read_word<cpu_functions::Tensor>(words_.next())};
    } else if constexpr (std::is_same_v<T, cpu_functions::Tensor>) {
      const auto map = maps_.find(word);
      if (map == maps_.end()) refuse("no map is called \"" + word + "\"");
      return map->second;
    } else if constexpr (std::is_same_v<T, float>) {
      char *end = nullptr;
      const float value = std::strtof(word.c_str(), &end);
      if (end == word.c_str() || (*end && std::strcmp(end, "f") != 0)) refuse("\"" + word + "\" is not a number");
      return value;
    } else if constexpr (IsVector<T>::value) {
      if (word != "{") refuse("\"" + word + "\" is where a list belongs");
      T values;
      for (std::string item = words_.next(); item != "}"; item = words_.next())
        values.push_back(read_word<typename T::value_type>(item));
      return values;
    } else if constexpr (std::is_class_v<T>) {
      words_.expect("{");
      const T value = read_fields<T>(std::make_index_sequence<FieldsOf<T>::value>());
      words_.expect("}");
      return value;
    } else {
      return number<T>(word);
    }
  }

  struct Field {
    Arguments &arguments;
    template <class T>
    operator T() const {
      return arguments.read<T>();
    }
  };
  template <class T, std::size_t... I>
  T read_fields(std::index_sequence<I...>) {
    return T{(static_cast<void>(I), Field{*this})...};
  }

  Words &words_;
  const std::map<std::string, cpu_functions::Tensor> &maps_;
};

using Call = std::function<void(cpu_functions::Piece *)>;

template <class T>
using Stored = std::conditional_t<std::is_same_v<T, cpu_functions::Tensor>, MapArgument, T>;

template <class T>
const T &given(const T &value, cpu_functions::Piece *) {
  return value;
}
inline cpu_functions::Tensor given(const MapArgument &argument, cpu_functions::Piece *piece) {
  if (argument.cut != Cut::WHOLE && !piece) refuse("a piece is used outside of its call");
  switch (argument.cut) {
    case Cut::OF: return piece->Of(*argument.map);
    case Cut::FIRST: return piece->First(*argument.map);
    case Cut::REST: return piece->Rest(*argument.map);
    case Cut::ROOM: return piece->Room(argument.room);
    default: return *argument.map;
  }
}

template <class... Parameters>
Call bound(void (*function)(Parameters...), Arguments arguments) {
  // In braces, so that the arguments are read in their order.
  return [function, values = std::tuple<Stored<std::decay_t<Parameters>>...>{
                        arguments.read<Stored<std::decay_t<Parameters>>>()...}](cpu_functions::Piece *piece) {
    std::apply([&](const auto &...each) { function(given(each, piece)...); }, values);
  };
}

inline Call call_of(const std::string &function, Words &words, const std::map<std::string, cpu_functions::Tensor> &maps) {
  using namespace cpu_functions;
#define KERNEL(name, argument, code) \
  if (function == #name && (!*#argument || words.has_ahead(#argument))) return bound(&code, {words, maps});
  FOR_EACH_KERNEL(KERNEL)
#undef KERNEL
  refuse("no function is called \"" + function + "\"");
}

// As in NAME_gen.h.
struct Maximizer {
  dmp_dv_context context = nullptr;
  dmp_dv_mem memory = nullptr;
  dmp_dv_cmdlist list = nullptr;
  bool is_tried = false;

  bool HandOver(std::size_t, std::size_t, std::size_t, std::size_t) const { return dmp_dv_mem_sync_end(memory) == 0; }
  bool TakeBack(std::size_t, std::size_t) const { return dmp_dv_mem_sync_start(memory, 1, 1) == 0; }

  Maximizer() = default;
  Maximizer(const Maximizer &) = delete;
  Maximizer &operator=(const Maximizer &) = delete;
  ~Maximizer() {
    if (list) dmp_dv_cmdlist_release(list);
  }
};

// Calls that take a map in pieces: Average, and InPieces with what it does for each.
inline Call average(Words &words, const std::map<std::string, cpu_functions::Tensor> &maps) {
  Arguments arguments(words, maps);
  const auto from = arguments.read<MapArgument>(), to = arguments.read<MapArgument>();
  const auto factor = arguments.read<float>();
  return [=](cpu_functions::Piece *piece) { piece->Average(given(from, piece), given(to, piece), factor); };
}

inline Call in_pieces(Words &words, const std::map<std::string, cpu_functions::Tensor> &maps, std::vector<Call> steps) {
  Arguments arguments(words, maps);
  const auto map = arguments.read<cpu_functions::Tensor>();
  const auto rooms = arguments.read<std::size_t>();
  const auto has_sums = arguments.read<bool>();
  return [=](cpu_functions::Piece *) {
    cpu_functions::InPieces(map, rooms, has_sums, [&](cpu_functions::Piece &piece) {
      for (const Call &step : steps) step(&piece);
    });
  };
}

// An FP32 copy of an FP16 map, on which a function works where nothing is rounded.
struct Copy {
  dmp_dv_mem memory;
  std::size_t offset;
  bool is_output;
  std::vector<float> values;
};

// A call that works on copies: unrounded values go in, and come out.
inline Call unrounded(const Call &call, const std::shared_ptr<std::deque<Copy>> &copies) {
  return [=](cpu_functions::Piece *piece) {
    for (Copy &copy : *copies)
      if (!copy.is_output) dv::memories().get(copy.memory)->read(copy.offset, copy.values.size(), copy.values.data());
    call(piece);
    for (Copy &copy : *copies)
      if (copy.is_output) dv::memories().get(copy.memory)->write(copy.offset, copy.values.size(), copy.values.data());
  };
}

inline void run_call(fpga_layer &, void *call, uint8_t *) { (*static_cast<Call *>(call))(nullptr); }

}  // namespace program

class ProgramNetwork : public ProgramBase {
 public:
  bool Initialize() override {
    const char *path = std::getenv("DMP_DV_PROGRAM");
    std::ifstream file(path ? path : "", std::ios::binary);
    if (!file) program::refuse("the variable DMP_DV_PROGRAM does not name a file that can be read");
    program::Words words(std::string(std::istreambuf_iterator<char>(file), {}));
    words.expect("program");
    words.expect("1");
    for (std::string word = words.next(); word != "end"; word = words.next()) read(word, words);
    if (!words.is_at_end()) program::refuse("it goes on after its end");
    return true;
  }

 private:
  template <class T>
  T number(program::Words &words) {
    return program::number<T>(words.next());
  }

  // A statement that begins with a word.
  void read(const std::string &word, program::Words &words) {
    if (word == "transposed") {
      is_weight_transposed = cpu_functions::kRowByRow = number<bool>(words);
    } else if (word == "reserve") {
      const auto weights = number<std::size_t>(words), io = number<std::size_t>(words);
      if (!ReserveMemory(weights, io)) program::refuse("its memory cannot be reserved");
    } else if (word == "layers") {
      set_num_layers(number<int>(words));
      set_num_output_layers(number<int>(words));
    } else if (word == "layer") {
      layer_ = &layers_.at(number<std::size_t>(words));
      layer_->type = number<layer_type>(words);
      const auto length = number<std::size_t>(words);
      const std::string name = words.raw(length);
      layer_->name = name;  // a copy: see fpga_layer
      maps_.clear();
      copies_ = std::make_shared<std::deque<program::Copy>>();
    } else if (word == "convert") {
      const auto policy = number<convert_policy>(words);
      table_ = numbers<uint16_t>(words);
#ifdef PROGRAM_RUN
      static_cast<void>(policy);
      set_table(table_.data());
    } else if (word == "timetable") {
      read_timetable(words);
#else
      if (!SetConvertPolicy(policy, false, table_.empty() ? nullptr : table_.data())) program::refuse("its table");
#endif
    } else if (!layer_) {
      program::refuse("\"" + word + "\" is before the first layer");
    } else {
      read(word, words, *layer_);
    }
  }

  // A statement about a layer.
  void read(const std::string &word, program::Words &words, fpga_layer &layer) {
    if (word == "command") {
      describe(layer.conv_conf_v1, 1);
      describe(layer.conv_conf_v1.conv_cmd, 0);
    } else if (word == "run") {
      run_ = number<std::size_t>(words);
      if (run_ >= std::size(layer.conv_conf_v1.conv_cmd.run)) program::refuse("a command has too many runs");
    } else if (word == "parameters") {
      program::Arguments arguments(words, maps_);
      const auto factor = arguments.read<float>();
      dv::stated_parameters()[&layer.conv_conf_v1.conv_cmd.run[run_]] = {factor, arguments.read<float>()};
    } else if (word == "sources") {
      sources_.emplace_back();
      for (const auto index : numbers<std::size_t>(words)) sources_.back().push_back(&layers_.at(index));
      layer.input_layer_num = static_cast<int>(sources_.back().size());
      layer.input_layers = sources_.back().data();
    } else if (word == "output") {
      output_layers_.at(number<std::size_t>(words)) = &layer;
    } else if (word == "Tensor") {
      const std::string name = words.next();
      maps_.emplace(name, tensor(words, name == "y"));
    } else if (word == "Bytes") {
      words.expect("y");
      bytes_ = std::make_unique<cpu_functions::Bytes>(map<cpu_functions::Bytes, cpu_functions::ByteFormat>(words));
    } else if (word == "step") {
      const std::string function = words.next();
      steps_.push_back(function == "piece.Average" ? program::average(words, maps_)
                                                   : program::call_of(function, words, maps_));
      words.expect(";");
    } else if (word == "call") {
      const std::string function = words.next();
      calls_.push_back(function == "Maximize"   ? maximize(words)
                       : function == "InPieces" ? program::in_pieces(words, maps_, std::exchange(steps_, {}))
                                                : program::call_of(function, words, maps_));
      words.expect(";");
      if (!copies_->empty()) calls_.back() = program::unrounded(calls_.back(), copies_);
      layer.custom_proc_ptr = program::run_call;
      layer.custom_param = &calls_.back();
    } else {
      assign(word, words, layer);
    }
  }

  template <class Command>
  void describe(Command &command, int8_t version) {
    command.header.size = sizeof(command);
    command.header.device_type = DMP_DV_DEV_CONV;
    command.header.version = version;
  }

  template <class T>
  std::vector<T> numbers(program::Words &words) {
    return program::Arguments(words, maps_).read<std::vector<T>>();
  }

  // A map of FP16 or FP32; where nothing is rounded, the copy of one of FP16.
  cpu_functions::Tensor tensor(program::Words &words, bool is_output) {
    const auto whole = map<cpu_functions::Tensor, cpu_functions::Format>(words);
    const auto io = dv::memories().get(io_mem_), weights = dv::memories().get(weights_mem_);
    if (!whole.is_half || io->context().residuals.empty()) return whole;
    const bool is_weight = whole.data >= weights->data() && whole.data < weights->data() + weights->size();
    const auto offset = static_cast<std::size_t>(whole.data - (is_weight ? weights : io)->data());
    copies_->push_back({is_weight ? weights_mem_ : io_mem_, offset, is_output, std::vector<float>(whole.Size())});
    uint8_t *const start = reinterpret_cast<uint8_t *>(copies_->back().values.data());
    return {cpu_functions::Memory(start, &threads_), 0, whole.height, whole.width, whole.channels, cpu_functions::kFloat};
  }

  template <class Map, class Format>
  Map map(program::Words &words) {
    const std::string memory = words.next();
    if (memory != "io" && memory != "weights") program::refuse("no memory is called \"" + memory + "\"");
    uint8_t *const start = memory == "io" ? io_ptr_ : dmp_dv_mem_map(weights_mem_);
    const auto offset = number<std::size_t>(words);
    const int height = number<int>(words), width = number<int>(words), channels = number<int>(words);
    const Map result(cpu_functions::Memory(start, &threads_), offset, height, width, channels, number<Format>(words));
    words.expect(";");
    return result;
  }

  program::Call maximize(program::Words &words) {
    words.expect("x");
    words.expect("y");
    const auto input = number<std::size_t>(words), output = number<std::size_t>(words);
    maximizers_.emplace_back();
    program::Maximizer &block = maximizers_.back();
    block.context = ctx_;
    block.memory = io_mem_;
    if (!bytes_) program::refuse("a map of bytes is missing");
    return [&block, x = maps_.at("x"), y = *bytes_, input, output](cpu_functions::Piece *) { cpu_functions::Maximize(block, x, y, input, output); };
  }

  // Assigns a value to the field that a word names.
  void assign(const std::string &word, program::Words &words, fpga_layer &layer) {
    dmp_dv_cmdraw_conv_v0 &cmd = layer.conv_conf_v1.conv_cmd;
    dmp_dv_cmdraw_conv_v0_run &run = cmd.run[run_];
    const auto set = [&](auto &field) {
      if constexpr (std::is_same_v<decltype(field), dmp_dv_mem &>)
        field = memory(words.next());
      else
        field = number<std::decay_t<decltype(field)>>(words);
    };
#define FIELD(place) \
  if (word == #place) return set(place);
    FIELD(layer.input_offs) FIELD(layer.output_offs) FIELD(layer.output_size)
    FIELD(layer.input_dim[0]) FIELD(layer.input_dim[1]) FIELD(layer.input_dim[2]) FIELD(layer.input_dim_size)
    FIELD(layer.output_dim[0]) FIELD(layer.output_dim[1]) FIELD(layer.output_dim[2]) FIELD(layer.output_dim_size)
    FIELD(layer.is_output) FIELD(layer.is_f32_output) FIELD(layer.is_input_hw_layout) FIELD(layer.softmax_axis)
    FIELD(cmd.topo) FIELD(cmd.w) FIELD(cmd.h) FIELD(cmd.z) FIELD(cmd.c)
    FIELD(cmd.input_circular_offset) FIELD(cmd.output_mode)
    FIELD(cmd.input_buf.mem) FIELD(cmd.input_buf.offs) FIELD(cmd.output_buf.mem) FIELD(cmd.output_buf.offs)
    FIELD(cmd.eltwise_buf.mem) FIELD(cmd.eltwise_buf.offs)
    FIELD(run.m) FIELD(run.conv_enable) FIELD(run.p) FIELD(run.pz)
    FIELD(run.weight_buf.mem) FIELD(run.weight_buf.offs) FIELD(run.weight_fmt)
    FIELD(run.conv_pad) FIELD(run.conv_stride) FIELD(run.conv_dilation)
    FIELD(run.pool_enable) FIELD(run.pool_size) FIELD(run.pool_stride) FIELD(run.pool_pad) FIELD(run.pool_avg_param)
    FIELD(run.actfunc) FIELD(run.actfunc_param) FIELD(run.rectifi_en) FIELD(run.lrn)
#undef FIELD
    program::refuse("it has \"" + word + "\", which this runner does not know");
  }

  dmp_dv_mem memory(const std::string &word) const {
    if (word == "io_mem_") return io_mem_;
    if (word == "weights_mem_") return weights_mem_;
    if (word == "nullptr") return nullptr;
    program::refuse("no memory is called \"" + word + "\"");
  }

  cpu_functions::Threads threads_{static_cast<unsigned>(dv::thread_count())};
  fpga_layer *layer_ = nullptr;  // that the statements are about
  std::size_t run_ = 0;          // of its command
  std::map<std::string, cpu_functions::Tensor> maps_;  // of its call
  std::shared_ptr<std::deque<program::Copy>> copies_;  // on which the call works where nothing is rounded
  std::unique_ptr<cpu_functions::Bytes> bytes_;
  std::vector<program::Call> steps_;  // of its call, for each piece of a map
  std::deque<program::Call> calls_;
  std::deque<program::Maximizer> maximizers_;
  std::deque<std::vector<fpga_layer *>> sources_;
  std::vector<uint16_t> table_;
#ifdef PROGRAM_RUN

  // The layers of all commands, the ends of lists, then five numbers for each action.
  void read_timetable(program::Words &words) {
    commands_ = numbers<int>(words);
    ends_ = numbers<int>(words);
    const std::vector<std::size_t> all = numbers<std::size_t>(words);
    for (std::size_t i = 0; i + 4 < all.size(); i += 5)
      actions_.push_back({static_cast<Program_run::Act>(all[i]), static_cast<int>(all[i + 1]), all[i + 2], all[i + 3],
                          static_cast<int>(all[i + 4])});
    set_timetable({commands_.data(), ends_.data(), static_cast<int>(ends_.size()), actions_.data(), static_cast<int>(actions_.size())});
  }

  std::vector<int> commands_, ends_;
  std::vector<Program_run::Action> actions_;
#endif
};

#endif
