// The part of the C interface that deals with command lists.
#include <chrono>
#include <functional>
#include <future>
#include <mutex>
#include <utility>
#include <variant>
#include <vector>

#include "command.h"
#include "dmp_dv_host.h"
#include "execute.h"
#include "ipu.h"
#include "maximizer.h"
#include "report.h"
#include "tiling.h"
#include "weights.h"

namespace dv {
namespace {

// A command of any block.
using AnyCommand = std::variant<Command, Maximizer, Ipu>;

AnyCommand accept_any(const dmp_dv_cmdraw &raw, const Context &context) {
  if (context.has(raw.device_type)) {
    if (raw.device_type == DMP_DV_DEV_CONV) return accept(raw, context.limits);
    if (raw.device_type == DMP_DV_DEV_MAXIMIZER) return accept_maximizer(raw);
    if (raw.device_type == DMP_DV_DEV_IPU) return accept_ipu(raw);
  }
  throw Error("header.device_type = " + std::to_string(raw.device_type) +
              ": the device has no such block (it has " + context.blocks + ")");
}

// What a command reads or writes.
struct Use {
  std::shared_ptr<Memory> memory;
  uint64_t offset, bytes;
  bool writes;
};

std::vector<Use> uses_of(const Command &command) {
  const auto batch = static_cast<uint64_t>(command.batch);
  std::vector<Use> uses = {{command.input_memory, command.input_offset, command.input_bytes() * batch, false},
                           {command.output_memory, command.output_offset, command.output_bytes() * batch, true}};
  for (const Run &run : command.runs) {
    if (run.adds) uses.push_back({command.operand_memory, command.operand_offset, run.operand().bytes(), false});
    if (run.convolves) uses.push_back({run.weights, run.weights_offset, PackedWeights::bytes(run), false});
  }
  return uses;
}

std::vector<Use> uses_of(const Maximizer &command) {
  return {{command.input_memory, command.input_offset, command.input.bytes(), false},
          {command.output_memory, command.output_offset, command.input.positions(), true}};
}

std::vector<Use> uses_of(const Ipu &) { return {}; }

// The device, which does one thing at a time, in the order in which it is asked.
class Queue {
 public:
  std::shared_future<void> add(std::function<void()> work) {
    const std::lock_guard<std::mutex> lock(mutex_);
    last_ = std::async(std::launch::async, [work = std::move(work), before = std::move(last_)]() mutable {
              if (before.valid()) std::exchange(before, {}).wait();
              std::exchange(work, nullptr)();
            }).share();
    return last_;
  }

 private:
  std::mutex mutex_;
  std::shared_future<void> last_;
};

Queue &queue() {
  static auto *const only = new Queue;  // never destroyed: the device may be at work when the process ends
  return *only;
}

class CommandList {
 public:
  explicit CommandList(std::shared_ptr<Context> context) : context_(std::move(context)) {}
  ~CommandList() {
    for (const Execution &execution : executions_) execution.end.wait();
  }
  CommandList(const CommandList &) = delete;
  CommandList &operator=(const CommandList &) = delete;

  void add(const dmp_dv_cmdraw &raw) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (committed_) throw Error("add_raw: the list is committed already");
    commands_.push_back(accept_any(raw, *context_));
  }

  void commit() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (committed_) throw Error("commit: the list is committed already");
    if (commands_.empty()) throw Error("commit: the list is empty");
    committed_ = true;
  }

  // Starts an execution and returns at once. wait() has its failure.
  int64_t exec() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!committed_) throw Error("exec: the list is not committed");
    each_use([](const Use &use) { use.memory->begin_use(use.offset, use.bytes, use.writes); });
    executions_.push_back({queue().add([this, about = subject_now()] {
                             const Subject subject(about);
                             run();
                           }),
                           false});
    return static_cast<int64_t>(executions_.size()) - 1;
  }

  void wait(int64_t id) {
    std::shared_future<void> end;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (id < 0 || static_cast<std::size_t>(id) >= executions_.size())
        throw Error("wait: no execution has the id " + std::to_string(id));
      end = executions_[static_cast<std::size_t>(id)].end;
    }
    end.wait();
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      bool &is_known = executions_[static_cast<std::size_t>(id)].is_known;
      if (!is_known) each_use([](const Use &use) { use.memory->end_use(use.offset, use.bytes, use.writes); });
      is_known = true;
    }
    end.get();
  }

  int64_t last_time() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (executions_.empty()) throw Error("the list has not been executed");
    executions_.back().end.wait();
    return microseconds_;
  }

 private:
  // is_known: it has been waited for.
  struct Execution {
    std::shared_future<void> end;
    bool is_known;
  };

  template <class Function>
  void each_use(const Function &function) const {
    for (const AnyCommand &any : commands_)
      for (const Use &use : std::visit([](const auto &command) { return uses_of(command); }, any)) function(use);
  }

  void run() {
    const auto start = std::chrono::steady_clock::now();
    static Workspace room;  // of the one command that runs; a new one would touch new pages for each list
    const auto executor = [](const auto &command) {
      if constexpr (std::is_same_v<std::decay_t<decltype(command)>, Command>)
        execute(command, room);
      else
        execute(command);
    };
    for (std::size_t i = 0; i < commands_.size(); ++i) {
      try {
        std::visit(executor, commands_[i]);
      } catch (const Error &error) {
        throw Error("command " + std::to_string(i) + " of the list: " + error.what());
      }
    }
    const auto spent = std::chrono::steady_clock::now() - start;
    microseconds_ = std::chrono::duration_cast<std::chrono::microseconds>(spent).count();
  }

  std::shared_ptr<Context> context_;
  std::mutex mutex_;
  std::vector<AnyCommand> commands_;
  bool committed_ = false;
  std::vector<Execution> executions_;
  int64_t microseconds_ = 0;  // of the last execution
};

Registry<dmp_dv_cmdlist, CommandList> &lists() {
  static Registry<dmp_dv_cmdlist, CommandList> registry("command list");
  return registry;
}

}  // namespace
}  // namespace dv

using dv::Error;
using dv::guarded;
using dv::lists;

dmp_dv_cmdlist dmp_dv_cmdlist_create(dmp_dv_context ctx) {
  return guarded(static_cast<dmp_dv_cmdlist>(nullptr),
                 [&] { return lists().add(std::make_shared<dv::CommandList>(dv::contexts().get(ctx))); });
}

int dmp_dv_cmdlist_retain(dmp_dv_cmdlist list) {
  return guarded(-1, [&] { return lists().retain(list); });
}

int dmp_dv_cmdlist_release(dmp_dv_cmdlist list) {
  return guarded(-1, [&] { return lists().release(list); });
}

int dmp_dv_cmdlist_add_raw(dmp_dv_cmdlist list, struct dmp_dv_cmdraw *cmd) {
  return guarded(-1, [&] {
    if (!cmd) throw Error("cmd is null");
    lists().get(list)->add(*cmd);
    return 0;
  });
}

int dmp_dv_cmdlist_commit(dmp_dv_cmdlist list) {
  return guarded(-1, [&] {
    lists().get(list)->commit();
    return 0;
  });
}

int64_t dmp_dv_cmdlist_exec(dmp_dv_cmdlist list) {
  return guarded(int64_t{-1}, [&] { return lists().get(list)->exec(); });
}

int dmp_dv_cmdlist_wait(dmp_dv_cmdlist list, int64_t exec_id) {
  return guarded(-1, [&] {
    lists().get(list)->wait(exec_id);
    return 0;
  });
}

int64_t dmp_dv_cmdlist_get_last_exec_time(dmp_dv_cmdlist list) {
  return guarded(int64_t{-1}, [&] { return lists().get(list)->last_time(); });
}

int dmp_dv_host_unified_buffer(const struct dmp_dv_cmdraw *cmd, int64_t ub_size, int64_t *need_bytes, int *strips) {
  return guarded(-1, [&] {
    if (!cmd || !need_bytes || !strips) throw Error("a pointer is null");
    dv::Limits limits;
    limits.ub_size = ub_size;
    const dv::Command command = dv::accept_shapes(dv::conv_command(*cmd), limits);
    *need_bytes = dv::unified_buffer_need(command);
    *strips = dv::strips(command.runs.front(), ub_size);
    return 0;
  });
}
