// A planned step: what replay.py does, at a microsecond an operator.
#pragma once

#include <ATen/SavedTensorHooks.h>
#include <ATen/ops/empty.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/PyInterpreter.h>
#include <torch/csrc/autograd/python_variable.h>

#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "captured.h"

namespace torch::autograd {
TORCH_API int get_current_graph_task_id();
}

namespace memopt {

// The interceptor's keys. Nothing uses CustomRNGKeyId, which lies below autograd, Python's modes, and BackendSelect, so that operators are seen as
// a mode sees them. Operators without tensor operands do not come by there, since BackendSelect sends them straight to a
// backend: they are seen at a key above all others.
constexpr auto BELOW = c10::DispatchKey::CustomRNGKeyId;
constexpr auto ABOVE = c10::DispatchKey::TESTING_ONLY_GenericMode;
constexpr c10::DispatchKeySet KEYS({BELOW, ABOVE});

// A saved tensor, as autograd holds it: the tensor, or how to view the value when it was made again.
struct Handle {
  PyObject_HEAD
  at::Tensor kept;
  View view;
  c10::VariableVersion writes;  // counts them, also when the tensor is gone
  uint32_t version;
  int64_t save;  // or -1
  Number number;
};

// Which values the storages of a step carry. Weak references keep the address of one that is gone from being another's.
class Tags {
 public:
  explicit Tags(size_t values) : storages_(values) { numbers_.reserve(values); }
  Number of(const at::Tensor& t) const { return t.has_storage() ? of(t.storage()) : OUTSIDE; }
  Number of(const c10::Storage& storage) const {
    const auto found = numbers_.find(storage.unsafeGetStorageImpl());
    return found == numbers_.end() ? OUTSIDE : found->second;
  }
  void set(const c10::Storage& storage, Number number) {
    numbers_[storage.unsafeGetStorageImpl()] = number;
    storages_[number].push_back(storage.getWeakStorageImpl());
  }
  void resize(size_t values) { storages_.resize(values); }
  void clear(const c10::Storage& storage) { numbers_.erase(storage.unsafeGetStorageImpl()); }

 private:
  std::unordered_map<const c10::StorageImpl*, Number> numbers_;
  std::vector<c10::SmallVector<c10::weak_intrusive_ptr<c10::StorageImpl>, 1>> storages_;
};

class Step {
 public:
  std::optional<std::string> diverged;  // where the step left the recorded one, and how
  bool begun = false;                   // the backward pass
  bool failed = false;                  // an operator that ran again
  size_t calls = 0;
  int64_t reached = -1;         // the step of the plan that the backward pass is at
  std::vector<int64_t> ran;  // again, in this order

  // Told of why the step leaves its program, in a forward pass or in a backward pass.
  std::function<void(bool)> left;
  // Asked whether it goes on as another one, with this operator or with a backward pass, which has taken its place then.
  std::function<bool(const c10::OperatorName*)> another;
  // Has values leave and come back, as the plan says up to a step of it.
  std::function<void(int64_t)> move;
  // Has a value come back that is away, out of order.
  std::function<void(Number)> fetch;
  // Told of an operator that gave other bits when it ran again, where that is looked for.
  std::function<void(int64_t)> differs;

  // strict is an exception's class, or null.
  Step(std::shared_ptr<Program> program, PyObject* strict, PyTypeObject* handles)
      : program_(std::move(program)), p_(program_.get()), strict_(strict), handles_(handles), tags_(p_->values), captured_(p_->captured), store_(p_->values),
        dropped_(p_->values), spoiled_(p_->values), left_(p_->instances.size(), -1) {}

  // Values that saved tensors were dropped of.
  std::vector<int64_t> dropped() const {
    std::vector<int64_t> all;
    for (size_t i = 0; i < dropped_.size(); i++) {
      if (dropped_[i]) all.push_back(static_cast<int64_t>(i));
    }
    return all;
  }

  // What is held of a value, and its digest in a step that is audited: of those that leave and come back.
  c10::Storage held(Number number) const { return store_.at(number); }
  void hold(Number number, c10::Storage storage) { store_.at(number) = std::move(storage); }
  std::optional<int64_t> bits(Number number) const {
    const auto found = bits_.find(number);
    return found == bits_.end() ? std::nullopt : std::make_optional(found->second);
  }

  // The forward pass.

  // Goes on as another program, which has run the same operators so far.
  void turn(std::shared_ptr<Program> to) {
    std::vector<Captured> captured(to->captured);
    for (size_t i = 0; i < std::min({calls, p_->calls.size(), to->calls.size()}); i++) {
      if (p_->calls[i].captured >= 0 && to->calls[i].captured >= 0) captured[to->calls[i].captured] = std::move(captured_[p_->calls[i].captured]);
    }
    captured_ = std::move(captured);
    store_.resize(to->values);
    for (size_t i = 0; i < store_.size(); i++) {
      if (!to->held[i]) store_[i] = c10::Storage();
    }
    dropped_.resize(to->values);
    spoiled_.resize(to->values);
    tags_.resize(to->values);
    left_.assign(to->instances.size(), -1);
    next_ = next_move_ = 0;
    program_ = std::move(to);
    p_ = program_.get();
  }

  // Saved tensors that came by behind so many operators.
  int64_t packed(size_t behind) const { return packed_in_ == behind ? packed_ : 0; }

  // Modes are taken away from the thread, as PyTorch does for what it computes on the side, or given back.
  void away(int by) { away_ += by; }
  bool is_away() const { return away_ > 0; }

  // There is a mode already, that passes everything on: composite operators are made of others where there is one, as when the step was recorded.
  // It is called where the module enters a mode of its own, and where autograd saves a result, once.
  void enter(PyObject* pack, PyObject* unpack) {
    modes_ = c10::impl::TorchDispatchModeTLS::stack_len();
    wake(false);
    at::SavedTensorDefaultHooks::lazy_initialize();
    base_ = depth();
    hooks_.emplace(c10::SafePyObject(pack, getPyInterpreter()), c10::SafePyObject(unpack, getPyInterpreter()));
    open();
  }

  void exit() {
    if (on_) at::SavedTensorDefaultHooks::pop_hooks();
    on_ = false;
    hooks_.reset();  // they hold the step
  }

  // Whether a result is saved, by a copy that a mode is told of. Next time there are hooks in its place.
  bool saves_result(const c10::OperatorName& name) {
    if (awake_ || diverged || calls >= p_->gaps.size() || (calls < p_->calls.size() && *p_->calls[calls].name == name)) return false;
    return p_->gaps[calls].hooked = true;
  }

  bool awake() const { return awake_; }

  void wake(bool awake) {
    awake_ = awake;
    c10::impl::tls_set_dispatch_key_included(c10::DispatchKey::Python, awake);
    c10::impl::tls_set_dispatch_key_included(c10::DispatchKey::PythonTLSSnapshot, awake);
  }

  // Runs an operator as the program says. From where the step leaves the recorded one, everything is kept.
  template <class Run>
  void call(const c10::OperatorHandle& op, torch::jit::Stack* stack, Run&& run) {
    if (awake_ && c10::impl::TorchDispatchModeTLS::stack_len() == modes_) wake(false);
    close();
    const size_t at = calls++;
    const Call* call = follow(at, op);
    if (call != nullptr && call->plain) {
      run();
    } else {
      if (call != nullptr && call->moved >= 0) moved(call->moved);
      if (call != nullptr && call->captured >= 0 && !captured_[call->captured].take(*call, *stack, [this](const at::Tensor& t) { return tags_.of(t); })) {
        leave("operator " + std::to_string(at) + ", " + shown(*call->name) + ", reads other tensors than when it was recorded", true);
        be_strict();
        call = nullptr;
      }
      std::vector<c10::Storage> written;
      if (call == nullptr) {
        written = writes_of(op, *stack);
      } else if (!call->writes.empty()) {
        written = pick(*stack, op.schema().arguments().size(), call->writes);
      }
      run();
      for (size_t i = 0; i < written.size(); i++) wrote(written[i], call == nullptr ? OUTSIDE : call->writes[i].number);
      if (call != nullptr && !call->makes.empty()) {
        const auto made = pick(*stack, op.schema().returns().size(), call->makes);
        for (size_t i = 0; i < made.size(); i++) watch(made[i], call->makes[i].number);
      }
    }
    open();
  }

  // Saved tensors.

  PyObject* pack(PyObject* given) {
    const auto& t = THPVariable_Unpack(given);
    auto* handle = reinterpret_cast<Handle*>(PyType_GenericAlloc(handles_, 0));
    if (handle == nullptr) throw python_error();
    new (&handle->kept) at::Tensor();
    new (&handle->view) View();
    new (&handle->writes) c10::VariableVersion(t.unsafeGetTensorImpl()->version_counter());
    handle->version = handle->writes.current_version();
    handle->save = -1;
    handle->number = OUTSIDE;
    if (!diverged && calls < p_->gaps.size()) {
      const auto& gap = p_->gaps[calls];
      if (packed_in_ != calls) packed_in_ = calls, packed_ = 0;
      if (packed_ < gap.count) {
        handle->save = gap.first + packed_++;
        const auto& save = p_->saves[handle->save];
        if (!save.kept && THPVariable_CheckExact(given) && is_view_of_storage(t) && tags_.of(t) == save.number) {
          handle->number = save.number;
          handle->view = View(t);
          dropped_[save.number] = 1;
          if (differs && bits_.count(save.number) == 0) {
            const Below below;
            bits_[save.number] = digest(t.storage());
          }
          return reinterpret_cast<PyObject*>(handle);
        }
      }
    }
    handle->kept = t.is_leaf() ? t : is_view_of_storage(t) ? without_past(t) : t.detach();
    return reinterpret_cast<PyObject*>(handle);
  }

  PyObject* unpack(const Handle& handle) {
    Locked lock(mutex_);
    const bool running = torch::autograd::get_current_graph_task_id() != -1;  // else somebody looks at what autograd saved
    begun = begun || running;
    if (handle.writes.current_version() != handle.version) modified(shape(handle), handle.writes.current_version(), handle.version);
    if (handle.number != OUTSIDE && spoiled_[handle.number]) modified(shape(handle), handle.version + 1, handle.version);
    if (!diverged && running && c10::GradMode::is_enabled()) {
      leave("a backward pass makes a graph, which asks for everything again", false);  // so nothing is released
    }
    auto [save, step, first] = asks(handle, !diverged && running);
    if (step > reached && p_->before[step] != static_cast<int64_t>(calls)) {
      if (reached < 0 && another(nullptr)) {
        std::tie(save, step, first) = asks(handle, true);
      } else {
        leave("a backward pass begins after " + std::to_string(calls) + " operators, not after " + std::to_string(p_->before[step]) + " as recorded", false);
        be_strict();
      }
    }
    if (!diverged && step > reached) {
      reached = step;
      advance(step);
    }
    if (handle.number == OUTSIDE) return THPVariable_Wrap(handle.kept);
    const c10::Storage storage = make_released(handle.number);
    if (!diverged && first && save->source >= 0 && save->step == p_->instances[save->source].last) {
      auto& left = left_[save->source];
      if (left < 0) left = p_->instances[save->source].uses;
      if (--left <= 0) drop(handle.number, storage);
    }
    return THPVariable_Wrap(handle.view.of(storage));
  }

 private:
  // The interpreter's lock is never waited for by one who waits for a step's.
  class Locked {
   public:
    explicit Locked(std::recursive_mutex& mutex) : lock_(mutex, std::try_to_lock) {
      if (!lock_.owns_lock()) {
        pybind11::gil_scoped_release no_gil;
        lock_.lock();
      }
    }

   private:
    std::unique_lock<std::recursive_mutex> lock_;
  };

  // Below autograd and autocast, invisible to modes and to the interceptor.
  class Below {
    at::AutoDispatchBelowAutograd autograd_;
    c10::impl::ExcludeDispatchKeyGuard others_{c10::autocast_dispatch_keyset | KEYS | PYTHON};
    c10::AutoGradMode grad_{c10::GradMode::is_enabled()};
  };

  static std::string shown(const c10::OperatorName& name) {
    std::string text = name.name;
    const auto at = text.find("::");
    if (at != std::string::npos) text.replace(at, 2, ".");
    return text + "." + (name.overload_name.empty() ? "default" : name.overload_name);
  }

  static at::IntArrayRef shape(const Handle& handle) { return handle.number != OUTSIDE ? handle.view.size() : handle.kept.sizes(); }

  // What a saved tensor is to the program, the step of the plan that asks for it now, or -1, and whether it is the first one that does.
  std::tuple<const Save*, int64_t, bool> asks(const Handle& handle, bool follows) {
    if (!follows || handle.save < 0 || handle.save >= static_cast<int64_t>(p_->saves.size())) return {nullptr, -1, false};
    const Save& save = p_->saves[handle.save];
    if (save.later.empty()) return {&save, save.step, true};
    const size_t n = asked_[handle.save]++;
    return {&save, n == 0 ? save.step : save.later[std::min(n, save.later.size()) - 1], n == 0};
  }

  // A digest of a storage: the sum of its words, which needs no memory.
  static int64_t digest(const c10::Storage& storage) {
    const at::NoGradGuard no_grad;
    const auto size = static_cast<int64_t>(storage.nbytes());
    const auto on = at::TensorOptions().device(storage.device());
    auto words = at::empty({0}, on.dtype(at::kLong)).set_(storage, 0, {size / 8}, {1});
    auto rest = at::empty({0}, on.dtype(at::kByte)).set_(storage, size - size % 8, {size % 8}, {1});
    return words.sum().item<int64_t>() + rest.sum().item<int64_t>();
  }

  // Hooks are there only where something is dropped: elsewhere autograd saves by itself. Those that the module pushes itself lie above ours, or
  // in their place.

  static size_t depth() { return at::SavedTensorDefaultHooks::get_tls_state().stack.size(); }

  void open() {
    if (on_ || diverged || calls >= p_->gaps.size() || !p_->gaps[calls].hooked || depth() != base_ || at::SavedTensorDefaultHooks::get_disabled_error_message()) return;
    at::SavedTensorDefaultHooks::push_hooks(std::move(hooks_->first), std::move(hooks_->second));
    on_ = true;
  }

  void close() {
    if (!on_ || depth() != base_ + 1) return;
    auto hooks = at::SavedTensorDefaultHooks::pop_hooks();
    hooks_.emplace(std::move(hooks.first), std::move(hooks.second));
    on_ = false;
  }

  const Call* follow(size_t at, const c10::OperatorHandle& op) {
    if (diverged) return nullptr;
    const Call* call = at < p_->calls.size() ? &p_->calls[at] : nullptr;
    if (call != nullptr && call->name == &op.operator_name()) return call;
    if (reached < 0 && another(&op.operator_name())) return &p_->calls[at];
    leave("operator " + std::to_string(at) + " is " + shown(op.operator_name()) + ", where " + (call != nullptr ? shown(*call->name) : "the end") + " was recorded", true);
    be_strict();
    return nullptr;
  }

  void leave(std::string why, bool forward) {
    diverged = std::move(why);
    left(forward);
  }

  void be_strict() {
    if (strict_ == nullptr) return;
    pybind11::gil_scoped_acquire gil;
    PyErr_SetString(strict_, ("the step leaves the recorded one, for which the plan holds: " + *diverged).c_str());
    python_error error;
    error.persist();
    throw error;
  }

  // The storages of tensors by their places among the last n on the stack.
  static std::vector<c10::Storage> pick(const torch::jit::Stack& stack, size_t n, const std::vector<Place>& places) {
    std::vector<c10::Storage> found;
    int64_t at = 0;
    for (size_t i = stack.size() - n; i < stack.size(); i++) {
      each_tensor(stack[i], [&](const at::Tensor& t) {
        if (found.size() < places.size() && places[found.size()].at == at) found.push_back(t.storage());
        at++;
      });
    }
    return found;
  }

  static std::vector<c10::Storage> writes_of(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
    std::vector<c10::Storage> found;
    const auto& arguments = op.schema().arguments();
    for (size_t i = 0; i < arguments.size(); i++) {
      if (arguments[i].alias_info() != nullptr && arguments[i].alias_info()->isWrite()) {
        each_tensor(stack[stack.size() - arguments.size() + i], [&](const at::Tensor& t) {
          if (t.has_storage()) found.push_back(t.storage());
        });
      }
    }
    return found;
  }

  void watch(const c10::Storage& storage, Number number) {
    tags_.set(storage, number);
    if (p_->held[number]) store_[number] = storage;
  }

  // A storage was written to and shows another value now, or the same one further on.
  void wrote(const c10::Storage& storage, Number number) {
    const Number old = tags_.of(storage);
    if (old != OUTSIDE && dropped_[old]) spoiled_[old] = 1;
    if (old != OUTSIDE && old != number) {
      tags_.clear(storage);
      drop(old, storage);
    }
    if (number != OUTSIDE && p_->watched[number]) watch(storage, number);
  }

  void drop(Number number, const c10::Storage& storage) {
    if (store_[number].unsafeGetStorageImpl() == storage.unsafeGetStorageImpl()) store_[number] = c10::Storage();
  }

  // The backward pass.

  // Runs recomputations that the plan has before a step, and drops values that it drops.
  void advance(int64_t to) {
    if (next_ < p_->events.size() && p_->events[next_].step < to) {
      pybind11::gil_scoped_release no_gil;
      const Below below;
      for (; next_ < p_->events.size() && p_->events[next_].step < to; next_++) {
        const auto& event = p_->events[next_];
        moved(event.step);
        if (event.op >= 0) {
          auto made = run(event.op);
          for (const auto number : event.stored) {
            for (auto& [n, storage] : made) {
              if (n == number) store_[n] = std::move(storage);
            }
          }
        }
        for (const auto number : event.released) store_[number] = c10::Storage();
      }
    }
    moved(to);
    const auto read_last = p_->read_last.find(to);
    if (read_last == p_->read_last.end()) return;
    for (const auto number : read_last->second) store_[number] = c10::Storage();
  }

  void moved(int64_t to) {
    if (next_move_ >= p_->moves.size() || p_->moves[next_move_] > to) return;
    while (next_move_ < p_->moves.size() && p_->moves[next_move_] <= to) next_move_++;
    move(to);
  }

  c10::Storage make_released(Number number) {
    if (store_[number]) return store_[number];
    pybind11::gil_scoped_release no_gil;
    const Below below;
    return make(number);
  }

  // Recomputes a value out of order, for a step that differs from the recorded one.
  c10::Storage make(Number number) {
    if (!store_[number] && p_->away[number]) fetch(number);
    if (store_[number]) return store_[number];
    const int64_t maker = p_->maker[number];
    bool known = maker >= 0;
    for (size_t i = 0; known && i < p_->ops[maker].calls.size(); i++) known = captured_[p_->calls[p_->ops[maker].calls[i]].captured].there();
    TORCH_CHECK(
        known, "a tensor that the plan dropped is asked for a second time, as by a second backward pass through one graph; memopt.restore(model) lifts the plan");
    auto made = run(maker);
    c10::Storage found;
    for (auto& [n, storage] : made) {
      if (n == number) found = storage;
      if (diverged) store_[n] = std::move(storage);
    }
    TORCH_CHECK(found, "memopt: an operator that ran again made other results than the first time");
    return found;
  }

  using Made = c10::SmallVector<std::pair<Number, c10::Storage>, 2>;

  // Repeats an operator.
  Made run(int64_t which) {
    const auto& op = p_->ops[which];
    ran.push_back(which);
    Made made;
    auto storages = [&](Number number) {
      for (const auto& [n, storage] : made) {
        if (n == number) return storage;
      }
      return make(number);
    };
    try {
      for (size_t i = 0; i < op.calls.size(); i++) {
        const auto& call = p_->calls[op.calls[i]];
        torch::jit::Stack stack;
        captured_[call.captured].run(call, stack, storages);
        const auto found = pick(stack, stack.size(), op.outputs[i]);
        for (size_t k = 0; k < found.size(); k++) {
          bool there = false;
          for (auto& [n, storage] : made) {
            if (n == op.outputs[i][k].number) storage = found[k], there = true;
          }
          if (!there) made.emplace_back(op.outputs[i][k].number, found[k]);
        }
      }
    } catch (...) {
      failed = true;
      throw;
    }
    for (const auto& [number, storage] : made) {
      const auto was = bits_.find(number);
      if (was == bits_.end()) continue;
      const bool same = was->second == digest(storage);
      bits_.erase(was);
      if (!same) differs(which);
    }
    return made;
  }

  std::shared_ptr<Program> program_;
  Program* p_;
  PyObject* strict_;
  PyTypeObject* handles_;
  Tags tags_;
  std::vector<Captured> captured_;
  std::vector<c10::Storage> store_;  // by value
  std::vector<uint8_t> dropped_;     // values that saved tensors were dropped of
  std::vector<uint8_t> spoiled_;     // those of them that were written to afterwards
  std::vector<int64_t> left_;        // uses still to come, by instance
  std::unordered_map<int64_t, size_t> asked_;  // how often, by save that several backward passes ask for
  std::unordered_map<Number, int64_t> bits_;   // digests of dropped values, where differs is told of others
  int away_ = 0;
  std::optional<std::pair<c10::SafePyObject, c10::SafePyObject>> hooks_;
  bool on_ = false, awake_ = false;
  int64_t modes_ = 0;
  size_t base_ = 0, packed_in_ = SIZE_MAX, next_ = 0, next_move_ = 0;
  int64_t packed_ = 0;
  std::recursive_mutex mutex_;
};

}  // namespace memopt
