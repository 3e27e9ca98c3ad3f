// What a generated source sees in place of the SDK's headers and of the standard library. Fields note where they are assigned.
//
// The audit compiles it with each source, and neither other headers nor libraries, so it stays small. A field has its size in
// the SDK. The members of the union in fpga_layer lie behind each other here, so that the record has all that are assigned.
#if !defined(__x86_64__) && !defined(__aarch64__)
#error "the audit runs sources on x86-64 and on 64-bit Arm"
#endif

typedef __INT8_TYPE__ int8_t;
typedef __INT16_TYPE__ int16_t;
typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;
typedef __UINT8_TYPE__ uint8_t;
typedef __UINT16_TYPE__ uint16_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __UINT64_TYPE__ uint64_t;
typedef __SIZE_TYPE__ size_t;
typedef __UINTPTR_TYPE__ uintptr_t;
typedef __PTRDIFF_TYPE__ ptrdiff_t;
#define NULL nullptr
#define assert(condition) static_cast<void>(0)

// What the compiler itself calls, under other names in C++: a source's memset is the one below.
extern "C" {
void *plain_memcpy(void *to, const void *from, size_t size) __asm__("memcpy");
void *plain_memset(void *to, int value, size_t size) __asm__("memset");
}

namespace recording {

enum { kMostLayers = 100000, kMostMarks = 1 << 20, kSlots = 4 * kMostMarks };

// --- the system: this program writes its record, and ends ---

#ifdef __x86_64__
enum { kWrite = 1, kExit = 231 };
inline void call_system(long number, long first, const void *second, size_t third) {
  __asm__ volatile("syscall" : "+a"(number) : "D"(first), "S"(second), "d"(third) : "rcx", "r11", "memory");
}
#else
enum { kWrite = 64, kExit = 94 };
inline void call_system(long number, long first, const void *second, size_t third) {
  register long x8 __asm__("x8") = number, x0 __asm__("x0") = first;
  register const void *x1 __asm__("x1") = second;
  register size_t x2 __asm__("x2") = third;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
}
#endif

enum Status { kRecorded = 0, kTooMuch = 3 };

[[noreturn]] inline void end(Status status) {
  for (;;) call_system(kExit, status, nullptr, 0);
}

inline void *allocated(size_t size) {
  alignas(16) static char memory[1 << 26];
  static size_t used = 0;
  if (size > sizeof(memory) - used) end(kTooMuch);
  char *start = memory + used;
  used += size;
  used += -used % 16;
  return start;
}

// --- the record: JSON ---

inline char written[1 << 16];
inline size_t count_written = 0;

inline void flush() {
  call_system(kWrite, 1, written, count_written);
  count_written = 0;
}

inline void put(char letter) {
  if (count_written == sizeof(written)) flush();
  written[count_written++] = letter;
}

inline void put(const char *text) {
  while (*text) put(*text++);
}

template <class T>
void put_number(T number) {
  char digits[20];
  int count = 0;
  const bool is_negative = number < T();
  unsigned long long rest = static_cast<unsigned long long>(number);
  for (rest = is_negative ? -rest : rest; rest || !count; rest /= 10) digits[count++] = static_cast<char>('0' + rest % 10);
  if (is_negative) put('-');
  while (count) put(digits[--count]);
}

inline void put_text(const char *text, size_t length) {
  put('"');
  for (; length; --length, ++text) {
    const unsigned char letter = static_cast<unsigned char>(*text);
    if (letter >= 0x20 && letter != '"' && letter != '\\') {
      put(*text);
    } else {
      put("\\u00");
      put("0123456789abcdef"[letter >> 4]);
      put("0123456789abcdef"[letter & 15]);
    }
  }
  put('"');
}

// --- marks: where fields were assigned ---

struct Mark {
  const void *at;
  int line;      // 0: not assigned
  bool is_lost;  // the value did not fit
};

inline Mark marks[kSlots];

// The mark of a field, or the free place for one. Fields that are near each other have marks near each other.
inline Mark &mark_of(const void *at) {
  size_t slot = reinterpret_cast<uintptr_t>(at) / 2 % kSlots;
  while (marks[slot].at && marks[slot].at != at) slot = (slot + 1) % kSlots;
  return marks[slot];
}

inline void note(const void *at, int line, bool is_lost) {
  static int used = 0;
  Mark &mark = mark_of(at);
  if (!mark.at && ++used > kMostMarks) end(kTooMuch);
  mark = {at, line, is_lost};
}

inline void forget(const void *at) {
  Mark &mark = mark_of(at);
  if (mark.at) mark.line = 0;
}

inline void copy_mark(const void *to, const void *from) {
  const Mark mark = mark_of(from);
  mark.at && mark.line ? note(to, mark.line, mark.is_lost) : forget(to);
}

// --- fields ---

template <class T>
class Field;

// A value on its way into a field, and the line of the assignment.
template <class T>
struct Given {
  T value;
  int line;
  bool is_lost;

  template <class U>
  Given(U from, int line = __builtin_LINE()) : value(static_cast<T>(from)), line(line) {
    is_lost = static_cast<U>(value) != from || (value < T()) != (from < U());
  }
  template <class U>
  Given(const Field<U> &from, int line = __builtin_LINE()) : Given(static_cast<U>(from), line) {}
};

template <class T>
struct Given<T *> {
  T *value;
  int line;
  bool is_lost = false;

  Given(int, int line = __builtin_LINE()) : value(nullptr), line(line) {}  // of a literal 0
  template <class U>
  Given(U from, int line = __builtin_LINE()) : value(from), line(line) {}
};

template <class T>
class Field {
 public:
  Field() : value_() { forget(this); }
  Field(const Field &other) : value_(other.value_) { copy_mark(this, &other); }
  Field &operator=(const Field &other) { return value_ = other.value_, copy_mark(this, &other), *this; }
  Field &operator=(Given<T> given) { return value_ = given.value, note(this, given.line, given.is_lost), *this; }
  Field &operator+=(Given<T> given) { return *this = Given<T>(value_ + given.value, given.line); }
  Field &operator-=(Given<T> given) { return *this = Given<T>(value_ - given.value, given.line); }
  Field &operator*=(Given<T> given) { return *this = Given<T>(value_ * given.value, given.line); }
  Field &operator|=(Given<T> given) { return *this = Given<T>(value_ | given.value, given.line); }
  Field &operator&=(Given<T> given) { return *this = Given<T>(value_ & given.value, given.line); }
  operator T() const { return value_; }
  T operator->() const { return value_; }

 private:
  T value_;
};

}  // namespace recording

// --- what sources use of the standard library ---

inline size_t strlen(const char *text) {
  size_t length = 0;
  while (text[length]) ++length;
  return length;
}

inline int strcmp(const char *a, const char *b) {
  for (; *a && *a == *b; ++a, ++b) {}
  return static_cast<unsigned char>(*a) - static_cast<unsigned char>(*b);
}

inline void *memset(void *to, int value, size_t size) {
  for (size_t i = 0; i < size; ++i) recording::forget(static_cast<char *>(to) + i);
  return plain_memset(to, value, size);
}

inline void *memcpy(void *to, const void *from, size_t size) {
  for (size_t i = 0; i < size; ++i) recording::copy_mark(static_cast<char *>(to) + i, static_cast<const char *>(from) + i);
  return plain_memcpy(to, from, size);
}

inline void bzero(void *to, size_t size) { memset(to, 0, size); }

template <class... T>
int printf(const char *, T...) {
  return 0;
}

inline void *operator new(size_t size) { return recording::allocated(size); }
inline void *operator new[](size_t size) { return recording::allocated(size); }
inline void operator delete(void *) noexcept {}
inline void operator delete[](void *) noexcept {}
inline void operator delete(void *, size_t) noexcept {}
inline void operator delete[](void *, size_t) noexcept {}

namespace std {

using ::bzero;
using ::int16_t;
using ::int32_t;
using ::int64_t;
using ::int8_t;
using ::memcpy;
using ::memset;
using ::printf;
using ::ptrdiff_t;
using ::size_t;
using ::strcmp;
using ::strlen;
using ::uint16_t;
using ::uint32_t;
using ::uint64_t;
using ::uint8_t;
using ::uintptr_t;

class string {
 public:
  string(const char *text = "") : string(text, ::strlen(text)) {}
  string(const char *text, size_t size) : text_(static_cast<char *>(recording::allocated(size + 1))), size_(size) {
    plain_memcpy(text_, text, size);
    text_[size] = 0;
  }
  const char *c_str() const { return text_; }
  size_t size() const { return size_; }

 private:
  char *text_;
  size_t size_;
};

inline string operator+(const string &a, const string &b) {
  char *text = static_cast<char *>(recording::allocated(a.size() + b.size()));
  plain_memcpy(text, a.c_str(), a.size());
  plain_memcpy(text + a.size(), b.c_str(), b.size());
  return string(text, a.size() + b.size());
}

inline string to_string(long long number) {
  char digits[24], *first = digits + sizeof(digits);
  unsigned long long rest = static_cast<unsigned long long>(number < 0 ? -number : number);
  do *--first = static_cast<char>('0' + rest % 10);
  while (rest /= 10);
  if (number < 0) *--first = '-';
  return string(first, static_cast<size_t>(digits + sizeof(digits) - first));
}

// For functions that a network's header defines, and that no source calls.
template <class T>
struct vector {
  void reserve(size_t);
  void push_back(T);
};

template <class T>
struct shared_ptr {};

}  // namespace std

namespace recording {

template <>
struct Given<std::string> {
  std::string value;
  int line;
  bool is_moved = false;

  Given(const char *from, int line = __builtin_LINE()) : value(from), line(line) {}
  Given(const std::string &from, int line = __builtin_LINE()) : value(from), line(line) {}
  Given(std::string &&from, int line = __builtin_LINE()) : value(from), line(line), is_moved(true) {}
};

// A layer's name. Its mark says that it is lost if it is moved from a std::string that has the text in itself.
class Name {
 public:
  Name &operator=(Given<std::string> given) {
    value_ = given.value;
    note(this, given.line, given.is_moved && value_.size() < 16);
    return *this;
  }
  operator const std::string &() const { return value_; }

 private:
  std::string value_;
};

// A map that a custom layer reads, as our custom_param lists it: offset, bytes, height, width, channels, bytes of an element.
enum { kMapParts = 6 };
struct Map {
  long long parts[kMapParts];
};

// An address on its way into a layer: of its function, which may be defined elsewhere, or of its parameters, with the maps in
// their member `inputs`.
struct Address {
  bool is_set;
  int line;
  Map *maps = nullptr;
  size_t count = 0;

  Address(int, int line = __builtin_LINE()) : is_set(false), line(line) {}
  Address(decltype(nullptr), int line = __builtin_LINE()) : is_set(false), line(line) {}
  template <class T>
  Address(T *from, int line = __builtin_LINE()) : is_set(true), line(line) {
    list(from, 0);
  }

 private:
  template <class T>
  auto list(T *from, int) -> decltype(static_cast<void>(from->inputs[0].element_bytes)) {
    count = sizeof(from->inputs) / sizeof(from->inputs[0]);
    maps = static_cast<Map *>(allocated(sizeof(Map) * count));
    for (size_t i = 0; i < count; ++i) {
      const auto &map = from->inputs[i];
      const Map parts = {{static_cast<long long>(map.offset), static_cast<long long>(map.bytes), map.height, map.width,
                          map.channels, map.element_bytes}};
      maps[i] = parts;
    }
  }
  void list(...) {}
};

class AddressField {
 public:
  AddressField &operator=(Address address) { return address_ = address, note(this, address.line, false), *this; }
  const Address &address() const { return address_; }

 private:
  Address address_;
};

}  // namespace recording

// --- the SDK ---

typedef struct dmp_dv_mem_impl *dmp_dv_mem;
typedef struct dmp_dv_context_impl *dmp_dv_context;
typedef struct dmp_dv_cmdlist_impl *dmp_dv_cmdlist;
inline int dmp_dv_cmdlist_release(dmp_dv_cmdlist) { return 0; }
inline int dmp_dv_mem_sync_start(dmp_dv_mem, int, int) { return 0; }
inline int dmp_dv_mem_sync_end(dmp_dv_mem) { return 0; }
inline int dmp_dv_mem_to_device(dmp_dv_mem, size_t, size_t, int) { return 0; }
inline int dmp_dv_mem_to_cpu(dmp_dv_mem, size_t, size_t, int) { return 0; }
enum { DMP_DV_MEM_CPU_WONT_READ = 1, DMP_DV_MEM_AS_DEV_OUTPUT = 2 };

enum { DMP_DV_DEV_CONV = 1, DMP_DV_DEV_FC, DMP_DV_DEV_IPU, DMP_DV_DEV_MAXIMIZER, DMP_DV_MAX_RUNS = 32 };
enum { DMP_DV_ORDER_WHC8, DMP_DV_ORDER_TRANSPOSED = 0x8000, DMP_DV_OUTPUT_CONCAT = 0, DMP_DV_OUTPUT_ADD };
enum { DMP_DV_CONV_OFF, DMP_DV_CONV_NORMAL, DMP_DV_CONV_DEPTHWISE = 3, DMP_DV_CONV_DECONV = 5, DMP_DV_CONV_DEPTHWISE_DECONV = 7 };
enum { DMP_DV_WEIGHT_NONE, DMP_DV_WEIGHT_FP16, DMP_DV_WEIGHT_PALETTE8 = 3 };
enum { DMP_DV_POOL_NONE, DMP_DV_POOL_MAX, DMP_DV_POOL_AVERAGE, DMP_DV_POOL_UPSAMPLE = 4 };
enum { DMP_DV_ACT_NONE, DMP_DV_ACT_TANH, DMP_DV_ACT_RELU, DMP_DV_ACT_SIGMOID, DMP_DV_ACT_PRELU, DMP_DV_ACT_ELU, DMP_DV_ACT_RELU6 };
enum layer_type { LT_INPUT, LT_CONV, LT_FC, LT_FLATTEN, LT_CONCAT, LT_COPY_CONCAT, LT_SOFTMAX, LT_CUSTOM };
enum convert_policy {
  CP_DIV_255,
  CP_MINUS_128,
  CP_MINUS_128_DIV_128,
  CP_MINUS_127_5_DIV_128,
  CP_DIRECT_CVT,
  CP_USER_SPECIFY,
  CP_NOTHING
};

#define FOR_HEADER(DO) DO(uint32_t, size) DO(uint8_t, device_type) DO(uint8_t, version)
#define FOR_RUN(DO) \
  DO(uint32_t, conv_pad) DO(uint32_t, pool_pad) DO(uint16_t, m) DO(uint16_t, conv_enable) DO(uint16_t, p) \
  DO(uint16_t, pz) DO(uint16_t, conv_stride) DO(uint16_t, conv_dilation) DO(uint16_t, weight_fmt) \
  DO(uint16_t, pool_enable) DO(uint16_t, pool_avg_param) DO(uint16_t, pool_size) DO(uint16_t, pool_stride) \
  DO(uint16_t, actfunc) DO(uint16_t, actfunc_param) DO(uint16_t, rectifi_en) DO(uint16_t, lrn) DO(uint16_t, rsvd)
#define FOR_COMMAND(DO) \
  DO(uint32_t, topo) DO(uint16_t, w) DO(uint16_t, h) DO(uint16_t, z) DO(uint16_t, c) \
  DO(uint16_t, input_circular_offset) DO(uint16_t, output_mode)
#define FOR_LAYER(DO) \
  DO(layer_type, type) DO(int, softmax_axis) DO(int, input_layer_num) DO(size_t, input_offs) DO(size_t, output_offs) \
  DO(size_t, output_size) DO(int, input_dim_size) DO(int, output_dim_size) DO(bool, is_output) DO(bool, is_f32_output) \
  DO(bool, is_input_hw_layout)
#define FIELD(type, name) recording::Field<type> name;
#define ZEROS(type) type() = default; type(decltype(nullptr)) {}  // = {} and = {0}

struct dmp_dv_cmdraw {
  ZEROS(dmp_dv_cmdraw)
  FOR_HEADER(FIELD)
  recording::Field<uint8_t> rsvd[2];
};

struct dmp_dv_buf {
  ZEROS(dmp_dv_buf)
  recording::Field<dmp_dv_mem> mem;
  recording::Field<uint64_t> offs;
};

struct dmp_dv_cmdraw_conv_v0_run {
  ZEROS(dmp_dv_cmdraw_conv_v0_run)
  dmp_dv_buf weight_buf;
  FOR_RUN(FIELD)
};

struct dmp_dv_cmdraw_conv_v0 {
  ZEROS(dmp_dv_cmdraw_conv_v0)
  dmp_dv_cmdraw header;
  dmp_dv_buf input_buf, output_buf, eltwise_buf;
  FOR_COMMAND(FIELD)
  dmp_dv_cmdraw_conv_v0_run run[32];
};

struct dmp_dv_cmdraw_conv_v1 {
  ZEROS(dmp_dv_cmdraw_conv_v1)
  dmp_dv_cmdraw header;
  dmp_dv_buf u8tofp16_table;
  recording::Field<uint16_t> to_bgr, rsvd[3];
  dmp_dv_cmdraw_conv_v0 conv_cmd;
};

static_assert(sizeof(dmp_dv_cmdraw_conv_v0) == 1864 && sizeof(dmp_dv_cmdraw_conv_v1) == 1896, "the sizes of the driver");

struct fpga_layer;
typedef void (*run_custom_callback_proc)(fpga_layer &layer, void *custom_param, uint8_t *io_ptr);

struct fpga_layer {
  recording::Name name;
  dmp_dv_cmdraw_conv_v0 conv_conf;
  dmp_dv_cmdraw_conv_v1 conv_conf_v1;
  recording::Field<fpga_layer **> input_layers;
  recording::AddressField custom_proc_ptr, custom_param;
  FOR_LAYER(FIELD)
  recording::Field<int> input_dim[3], output_dim[3];

  fpga_layer() = delete;
  fpga_layer(const fpga_layer &) = delete;  // a source that copies a layer would describe the copy
};

namespace recording {

// An index, and the line of the statement.
struct Index {
  long long value;
  int line;

  template <class T>
  Index(T value, int line = __builtin_LINE()) : value(static_cast<long long>(value)), line(line) {}
};

static bool is_first_call = true;

// Writes a call that the audit judges: its name, its line, its arguments.
template <class... T>
void put_call(const char *name, int line, T... arguments) {
  put(is_first_call ? "[\"" : ",[\"");
  is_first_call = false;
  put(name);
  put("\",");
  put_number(line);
  ((put(','), put_number(arguments)), ...);
  put(']');
}

// Room for as many elements as a network may have: zeros, as in the SDK. The last one stands for all behind it.
template <class T>
struct Room {
  bool is_named[kMostLayers + 1];
  alignas(8) char bytes[sizeof(T) * (kMostLayers + 1)];

  T &at(const char *name, Index index) {
    const bool is_there = index.value >= 0 && index.value < kMostLayers;
    if (!is_there) put_call(name, index.line, index.value);
    const long long place = is_there ? index.value : kMostLayers;
    is_named[place] = true;
    return (*this)[place];
  }
  T &operator[](long long place) { return reinterpret_cast<T *>(bytes)[place]; }
  long long place_of(const T *element) const {
    const uintptr_t distance = reinterpret_cast<uintptr_t>(element) - reinterpret_cast<uintptr_t>(bytes);
    return distance < sizeof(T) * kMostLayers ? static_cast<long long>(distance / sizeof(T)) : -1;
  }
};

static Room<fpga_layer> layers;
static Room<Field<fpga_layer *>> outputs;
static bool has_layers = false;

inline fpga_layer &layer_at(Index index) {
  if (!has_layers) put_call("get_layer", index.line, index.value);
  return layers.at("layers_", index);
}

struct Layers {
  fpga_layer &operator[](Index index) { return layer_at(index); }
  fpga_layer &at(Index index) { return layer_at(index); }
};

struct Outputs {
  Field<fpga_layer *> &operator[](Index index) { return outputs.at("output_layers_", index); }
  Field<fpga_layer *> &at(Index index) { return outputs.at("output_layers_", index); }
};

}  // namespace recording

class CDMP_Network {
 public:
  virtual ~CDMP_Network() = default;
  virtual bool Initialize() = 0;
  fpga_layer &get_layer(recording::Index index) { return recording::layer_at(index); }
  bool Commit(int line = __builtin_LINE()) { return put_call("Commit", line); }
  bool SetConvertPolicy(convert_policy, bool, uint16_t * = nullptr) { return true; }
  bool is_transposed() const { return is_weight_transposed; }

 protected:
  bool GenerateCommandLists(int line = __builtin_LINE()) { return put_call("GenerateCommandLists", line); }
  bool ReserveMemory(size_t weights, size_t io, int line = __builtin_LINE()) {
    return put_call("ReserveMemory", line, weights, io);
  }
  void set_num_layers(int count, int line = __builtin_LINE()) {
    recording::has_layers = true;
    put_call("set_num_layers", line, count);
  }
  void set_num_output_layers(int count, int line = __builtin_LINE()) { put_call("set_num_output_layers", line, count); }
  void enter(const char *name, int line = __builtin_LINE()) { put_call(name, line); }  // the audit inserts its calls

  bool is_weight_transposed = false;
  recording::Layers layers_;
  recording::Outputs output_layers_;
  dmp_dv_context ctx_ = reinterpret_cast<dmp_dv_context>(1);
  dmp_dv_mem io_mem_ = reinterpret_cast<dmp_dv_mem>(2), weights_mem_ = reinterpret_cast<dmp_dv_mem>(3);
  uint8_t *io_ptr_ = reinterpret_cast<uint8_t *>(4);

 private:
  template <class... T>
  static bool put_call(const char *name, int line, T... arguments) {
    recording::put_call(name, line, arguments...);
    return true;
  }
};

// --- the record of a network ---

namespace recording {

// The names around a field, and whether a field of its layer has been written.
static char path[200];
static size_t path_length = 0;
static bool is_first_field = true;

// A name that stands in the path for as long as the object lives. index: of an array's element, below 100.
struct Part {
  const size_t outer = path_length;

  Part(const char *name, int index = -1) {
    if (outer) path[path_length++] = '.';
    while (*name) path[path_length++] = *name++;
    if (index < 0) return;
    path[path_length++] = '[';
    if (index >= 10) path[path_length++] = static_cast<char>('0' + index / 10);
    path[path_length++] = static_cast<char>('0' + index % 10);
    path[path_length++] = ']';
  }
  ~Part() { path_length = outer; }
};

template <class T>
void put_plain(T number) {
  put_number(number);
}
inline void put_plain(dmp_dv_mem memory) { put_number(reinterpret_cast<uintptr_t>(memory)); }
inline void put_plain(fpga_layer *layer) { put_number(layers.place_of(layer)); }
inline void put_plain(fpga_layer **list) { put_number(list != nullptr); }

template <class T>
void put_value(const Field<T> &field) {
  put_plain(static_cast<T>(field));
}
inline void put_value(const Name &name) {
  const std::string &text = name;
  put_text(text.c_str(), text.size());
}
inline void put_value(const AddressField &field) { put_number(field.address().is_set); }

template <class T>
bool is_zero(const Field<T> &field) {
  return !static_cast<T>(field);
}
inline bool is_zero(const Name &) { return true; }
inline bool is_zero(const AddressField &) { return true; }

// Writes a field that is assigned, or that copied bytes have filled: its path, value and line, and whether its value is lost.
template <class T>
void put_field(const T &field, const char *name, int index = -1) {
  const Mark &mark = mark_of(&field);
  if (!mark.line && is_zero(field)) return;
  Part part(name, index);
  put(is_first_field ? "\"" : ",\"");
  is_first_field = false;
  for (size_t i = 0; i < path_length; ++i) put(path[i]);
  put("\":[");
  put_value(field);
  put(',');
  put_number(mark.line);
  put(mark.line && mark.is_lost ? ",1]" : ",0]");
}

#define PUT(type, name) put_field(of.name, #name);

inline void put_header(const dmp_dv_cmdraw &of) {
  Part part("header");
  FOR_HEADER(PUT)
}

inline void put_buffer(const dmp_dv_buf &of, const char *name) {
  Part part(name);
  put_field(of.mem, "mem");
  put_field(of.offs, "offs");
}

inline void put_command(const dmp_dv_cmdraw_conv_v0 &of) {
  put_header(of.header);
  put_buffer(of.input_buf, "input_buf");
  put_buffer(of.output_buf, "output_buf");
  put_buffer(of.eltwise_buf, "eltwise_buf");
  FOR_COMMAND(PUT)
  for (int i = 0; i < 32; ++i) {
    Part part("run", i);
    const dmp_dv_cmdraw_conv_v0_run &of_run = of.run[i];
    put_buffer(of_run.weight_buf, "weight_buf");
    const dmp_dv_cmdraw_conv_v0_run &of = of_run;
    FOR_RUN(PUT)
  }
}

inline void put_layer(const fpga_layer &of) {
  is_first_field = true;
  put_field(of.name, "name");
  {
    Part part("conv_conf");
    put_command(of.conv_conf);
  }
  {
    Part part("conv_conf_v1");
    put_header(of.conv_conf_v1.header);
    put_buffer(of.conv_conf_v1.u8tofp16_table, "u8tofp16_table");
    put_field(of.conv_conf_v1.to_bgr, "to_bgr");
    Part command("conv_cmd");
    put_command(of.conv_conf_v1.conv_cmd);
  }
  put_field(of.input_layers, "input_layers");
  put_field(of.custom_proc_ptr, "custom_proc_ptr");
  put_field(of.custom_param, "custom_param");
  FOR_LAYER(PUT)
  for (int i = 0; i < 3; ++i) put_field(of.input_dim[i], "input_dim", i);
  for (int i = 0; i < 3; ++i) put_field(of.output_dim[i], "output_dim", i);
}

// The layers in input_layers, up to the first pointer that is none.
inline void put_sources(const fpga_layer &of) {
  fpga_layer **list = of.input_layers;
  for (int i = 0; list && i < of.input_layer_num && layers.place_of(list[i]) >= 0; ++i) {
    if (i) put(',');
    put_number(layers.place_of(list[i]));
  }
}

inline void put_maps(const fpga_layer &of) {
  const Address &given = of.custom_param.address();
  for (size_t i = 0; i < given.count; ++i) {
    put(i ? ",[" : "[");
    for (int part = 0; part < kMapParts; ++part) {
      if (part) put(',');
      put_number(given.maps[i].parts[part]);
    }
    put(']');
  }
}

inline void put_outputs() {
  const char *separator = "";
  for (int i = 0; i < kMostLayers; ++i) {
    if (!outputs.is_named[i]) continue;
    put(separator);
    separator = ",";
    put('[');
    put_number(i);
    put(',');
    put_plain(static_cast<fpga_layer *>(outputs[i]));
    put(',');
    put_number(mark_of(&outputs[i]).line);
    put(']');
  }
}

inline void put_layers() {
  const char *separator = "";
  for (int i = 0; i < kMostLayers; ++i) {
    if (!layers.is_named[i]) continue;
    put(separator);
    separator = ",";
    put("{\"index\":");
    put_number(i);
    put(",\"fields\":{");
    put_layer(layers[i]);
    put("},\"sources\":[");
    put_sources(layers[i]);
    put("],\"maps\":[");
    put_maps(layers[i]);
    put("]}");
  }
}

}  // namespace recording

CDMP_Network &new_network();  // the audit defines it behind the source

extern "C" void (*__init_array_start[])();
extern "C" void (*__init_array_end[])();

extern "C" [[noreturn]] void record() {
  using namespace recording;
  for (auto start = __init_array_start; start != __init_array_end; ++start) (*start)();
  put("{\"calls\":[");
  CDMP_Network &network = new_network();
  const bool succeeds = network.Initialize();
  put(succeeds ? "],\"succeeds\":true" : "],\"succeeds\":false");
  put(network.is_transposed() ? ",\"transposed\":true" : ",\"transposed\":false");
  put(",\"outputs\":[");
  put_outputs();
  put("],\"layers\":[");
  put_layers();
  put("]}");
  flush();
  end(kRecorded);
}

#ifdef __x86_64__
__asm__(".globl _start\n_start: and $-16, %rsp\n call record\n");
#else
__asm__(".globl _start\n_start: bl record\n");
#endif

extern "C" {
void *plain_memcpy(void *to, const void *from, size_t size) {
  for (size_t i = 0; i < size; ++i) static_cast<char *>(to)[i] = static_cast<const char *>(from)[i];
  return to;
}
void *plain_memset(void *to, int value, size_t size) {
  for (size_t i = 0; i < size; ++i) static_cast<char *>(to)[i] = static_cast<char>(value);
  return to;
}
int __cxa_atexit(void (*)(void *), void *, void *) { return 0; }
void __cxa_pure_virtual() { recording::end(recording::kTooMuch); }
void *__dso_handle;
}

#pragma GCC poison recording asm __asm __asm__ dependency
