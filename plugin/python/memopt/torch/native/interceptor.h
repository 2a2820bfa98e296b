// Where operators are seen: a kernel for each at keys of the dispatcher that nothing else uses, which are switched on for a planned forward pass alone.
#pragma once

#include <torch/library.h>

#include <set>

#include "step.h"

namespace memopt {

inline thread_local Step* here = nullptr;                               // the step that this thread runs
inline thread_local std::vector<std::string>* hearing = nullptr;        // names of operators that come by, where that is tried

inline void intercept(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack, c10::DispatchKey at) {
  const auto below = keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, at);
  // What hides from Python's modes hides here: the tensor that torch.tensor fills, and what memopt does itself.
  const bool seen = !c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::Python) && (here == nullptr || !here->is_away());
  if (seen && here != nullptr) {
    // What an operator is made of, it is made of without a mode. Operators of others may be written in Python, with tensors that are dispatched to it.
    const bool own = !here->awake() && op.operator_name().name.compare(0, 6, "aten::") == 0;
    here->call(op, stack, [&] {
      const c10::impl::ExcludeDispatchKeyGuard inside(own ? KEYS | PYTHON : KEYS);
      op.redispatchBoxed(below, stack);
    });
    return;
  }
  if (seen && hearing != nullptr) hearing->push_back(c10::toString(op.operator_name()));
  const c10::impl::ExcludeDispatchKeyGuard inside(seen ? KEYS : c10::DispatchKeySet());
  op.redispatchBoxed(below, stack);
}

inline void intercept_below(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) { intercept(op, keys, stack, BELOW); }
inline void intercept_above(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) { intercept(op, keys, stack, ABOVE); }

// Whether an operator has no tensors to be dispatched by: modes see it whatever it is made of.
inline bool without_tensors(const c10::OperatorHandle& op) {
  for (const auto& a : op.schema().arguments()) {
    if (a.type()->repr_str().find("Tensor") != std::string::npos) return false;
  }
  return true;
}

class Interceptor {
 public:
  // For the life of the process: kernels are never taken back.
  static Interceptor& the() {
    static auto* one = new Interceptor();
    return *one;
  }

  // Covers an operator; one of a library that came later, too.
  void cover(const c10::OperatorHandle& op) {
    const auto& name = op.operator_name();
    const auto space = name.getNamespace();
    if (!space || !op.hasSchema() || covered_.count(c10::toString(name)) != 0) return;
    const bool above = without_tensors(op);
    if (!above && (op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) || op.hasKernelForDispatchKey(BELOW))) return;
    covered_.insert(c10::toString(name));
    const std::string bare = name.name.substr(space->size() + 2) + (name.overload_name.empty() ? "" : "." + name.overload_name);
    auto function = above ? torch::CppFunction::makeFromBoxedFunction<&intercept_above>() : torch::CppFunction::makeFromBoxedFunction<&intercept_below>();
    library(std::string(*space), above ? ABOVE : BELOW).impl(bare.c_str(), std::move(function));
  }

  bool covers(const c10::OperatorHandle& op) const { return covered_.count(c10::toString(op.operator_name())) != 0; }

 private:
  Interceptor() {
    for (const auto key : {BELOW, ABOVE}) library("_", key).fallback(torch::CppFunction::makeFallthrough());
    auto& dispatcher = c10::Dispatcher::singleton();
    for (const auto& name : dispatcher.getAllOpNames()) {
      if (const auto op = dispatcher.findOp(name)) cover(*op);
    }
  }

  torch::Library& library(const std::string& space, c10::DispatchKey key) {
    auto& found = libraries_[{space, key}];
    if (!found) found = std::make_unique<torch::Library>(torch::Library::IMPL, space, std::make_optional(key), __FILE__, __LINE__);
    return *found;
  }

  std::map<std::pair<std::string, c10::DispatchKey>, std::unique_ptr<torch::Library>> libraries_;
  std::set<std::string> covered_;
};

inline void switched(bool on) {
  c10::impl::tls_set_dispatch_key_included(BELOW, on);
  c10::impl::tls_set_dispatch_key_included(ABOVE, on);
}

}  // namespace memopt
