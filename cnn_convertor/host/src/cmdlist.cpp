// The part of the C interface that deals with command lists.
#include <chrono>
#include <mutex>
#include <variant>
#include <vector>

#include "command.h"
#include "dmp_dv_host.h"
#include "execute.h"
#include "ipu.h"
#include "maximizer.h"
#include "tiling.h"

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

class CommandList {
 public:
  explicit CommandList(std::shared_ptr<Context> context) : context_(std::move(context)) {}

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

  // Executes at once. Failures are reported here, not by wait().
  int64_t exec() {
    static std::mutex device;  // there is one device, which does one thing at a time
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!committed_) throw Error("exec: the list is not committed");
    const std::lock_guard<std::mutex> device_lock(device);
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
    return executions_++;
  }

  void wait(int64_t id) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (id < 0 || id >= executions_) throw Error("wait: no execution has the id " + std::to_string(id));
  }

  int64_t last_time() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (executions_ == 0) throw Error("the list has not been executed");
    return microseconds_;
  }

 private:
  std::shared_ptr<Context> context_;
  std::mutex mutex_;
  std::vector<AnyCommand> commands_;
  bool committed_ = false;
  int64_t executions_ = 0;
  int64_t microseconds_ = 0;
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
