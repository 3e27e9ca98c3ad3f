// Handles of the C interface: reference counts, and proof that a handle is alive.
#ifndef DV_REGISTRY_H
#define DV_REGISTRY_H

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "error.h"

namespace dv {

// Objects by handle. A command list that is being executed, say, keeps its objects by shared_ptr: they outlive the
// release of their handles.
template <class Handle, class Object>
class Registry {
 public:
  explicit Registry(const char *kind) : kind_(kind) {}

  Handle add(std::shared_ptr<Object> object) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const Handle handle = reinterpret_cast<Handle>(object.get());
    entries_[handle] = Entry{std::move(object), 1};
    return handle;
  }

  std::shared_ptr<Object> get(Handle handle) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return find(handle).object;
  }

  // The first object that fits; null when there is none.
  template <class Predicate>
  std::shared_ptr<Object> find_if(const Predicate &predicate) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto &entry : entries_)
      if (predicate(*entry.second.object)) return entry.second.object;
    return nullptr;
  }

  int retain(Handle handle) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return ++find(handle).count;
  }

  int release(Handle handle) {
    if (!handle) return 0;
    std::shared_ptr<Object> last;  // destroyed after the lock is given back
    const std::lock_guard<std::mutex> lock(mutex_);
    Entry &entry = find(handle);
    if (--entry.count > 0) return entry.count;
    last = std::move(entry.object);
    entries_.erase(handle);
    return 0;
  }

 private:
  struct Entry {
    std::shared_ptr<Object> object;
    int count = 0;
  };

  Entry &find(Handle handle) {
    const auto found = entries_.find(handle);
    if (found != entries_.end()) return found->second;
    throw Error(std::string(handle ? "released or foreign " : "null ") + kind_ + " handle");
  }

  const char *kind_;
  std::mutex mutex_;
  std::unordered_map<Handle, Entry> entries_;
};

}  // namespace dv

#endif
