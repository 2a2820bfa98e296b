// Calls that can be repeated: their operands as views of values, or tensors that live outside the step.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/SmallVector.h>

#include "program.h"

namespace memopt {

inline bool strided_storage(const at::Tensor& t) { return t.layout() == at::kStrided && t.has_storage(); }

// Whether a tensor is a view of one storage, and nothing more.
inline bool is_view_of_storage(const at::Tensor& t) {
  constexpr c10::DispatchKeySet more({
      c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot, c10::DispatchKey::ZeroTensor, c10::DispatchKey::Functionalize, c10::DispatchKey::FuncTorchBatched,
      c10::DispatchKey::FuncTorchGradWrapper, c10::DispatchKey::Batched, c10::DispatchKey::Quantized, c10::DispatchKey::NestedTensor});
  return strided_storage(t) && !t.key_set().has_any(more);
}

[[noreturn]] inline void modified(at::IntArrayRef shape, uint32_t now, uint32_t then) {
  TORCH_CHECK(
      false, "one of the variables needed for gradient computation has been modified by an inplace operation: a tensor of shape ", shape, " is at version ", now,
      "; expected version ", then, " instead");
}

// How a tensor shows its storage. Conjugate and negative views have their bits among the keys.
class View {
 public:
  View() = default;
  explicit View(const at::Tensor& t) : keys_(t.key_set()), dtype_(t.dtype()), size_(t.sizes()), stride_(t.strides()), offset_(t.storage_offset()) {}
  at::Tensor of(const c10::Storage& storage) const {
    auto t = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(storage), keys_, dtype_);
    t.unsafeGetTensorImpl()->set_sizes_and_strides(size_, stride_, offset_);
    return t;
  }
  at::IntArrayRef size() const { return size_; }

 private:
  c10::DispatchKeySet keys_;
  caffe2::TypeMeta dtype_;
  c10::SmallVector<int64_t, 5> size_, stride_;
  int64_t offset_ = 0;
};

constexpr c10::DispatchKeySet PYTHON({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot});

// A tensor over the same storage that counts writes with it, and has no past, which would keep the graph that leads to it. No mode sees it made.
inline at::Tensor without_past(const at::Tensor& t) {
  const c10::impl::ExcludeDispatchKeyGuard unseen(PYTHON);
  return t.tensor_data();
}

// A tensor operand.
struct Operand {
  Number number = OUTSIDE;
  View view;           // of the value
  at::Tensor outside;
  uint32_t version = 0;

  Operand(const at::Tensor& t, Number n) : number(n) {
    if (n != OUTSIDE) {
      view = View(t);
    } else {
      outside = t.is_leaf() ? t : without_past(t);
      version = outside.is_inference() ? 0 : outside.unsafeGetTensorImpl()->version_counter().current_version();
    }
  }

  template <class Storages>
  at::Tensor tensor(Storages& storages) const {
    if (number != OUTSIDE) return view.of(storages(number));
    const uint32_t now = outside.is_inference() ? 0 : outside.unsafeGetTensorImpl()->version_counter().current_version();
    if (now != version) modified(outside.sizes(), now, version);
    return outside;
  }
};

// Whether a value is a tensor that modes see. What Python has as a number they see as a number.
inline bool is_tensor(const c10::IValue& v) { return v.isTensor() && v.toTensor().defined() && !v.toTensor().unsafeGetTensorImpl()->is_wrapped_number(); }

// Calls f for each tensor of an operand or a result, in the order in which Python sees them. False where some are held in another way than in a list.
template <class F>
bool each_tensor(const c10::IValue& v, F&& f) {
  bool plain = true;
  const auto within = [&](const c10::IValue& x) {
    if (x.isList() || x.isTuple() || x.isGenericDict()) {
      each_tensor(x, f);  // as in the lists of lists of collectives
      plain = false;
    } else if (is_tensor(x)) {
      f(x.toTensor());
    }
  };
  if (v.isTensor()) {
    within(v);
  } else if (v.isList()) {
    for (const c10::IValue& x : v.toListRef()) within(x);
  } else if (v.isTuple()) {
    for (const auto& x : v.toTupleRef().elements()) within(x);
    plain = false;
  } else if (v.isGenericDict()) {
    for (const auto& entry : v.toGenericDict()) within(entry.value());
    plain = false;
  }
  return plain;
}

// An argument of a call: as it is, or made of operands.
struct Argument {
  enum Kind { AS_IT_IS, TENSOR, TENSORS, OPTIONAL_TENSORS } kind = AS_IT_IS;
  c10::IValue value;
  uint64_t there = 0;  // of the tensors of a list: those that are not None
  size_t count = 0;    // of the list
};

// A call with its operands.
class Captured {
 public:
  bool there() const { return there_; }

  // Takes down a call. False if it does not read what was recorded.
  template <class NumberOf>
  bool take(const Call& call, const torch::jit::Stack& stack, NumberOf&& number_of) {
    const auto& schema = call.op->schema().arguments();
    there_ = true;
    grad_ = c10::GradMode::is_enabled();
    arguments_.clear();
    operands_.clear();
    for (size_t i = 0; i < schema.size(); i++) {
      const auto& v = stack[stack.size() - schema.size() + i];
      const size_t before = operands_.size();
      there_ = each_tensor(v, [&](const at::Tensor& t) {
                 const Number number = number_of(t);
                 there_ = there_ && is_view_of_storage(t) && operands_.size() < call.reads.size() && call.reads[operands_.size()] == number;
                 operands_.emplace_back(t, number);
               }) && there_;
      Argument& argument = arguments_.emplace_back();
      if (operands_.size() == before) {
        argument.value = v;
      } else if (v.isTensor()) {
        argument.kind = Argument::TENSOR;
      } else {
        const auto list = v.toListRef();
        argument.kind = v.isTensorList() ? Argument::TENSORS : Argument::OPTIONAL_TENSORS;
        argument.count = list.size();
        there_ = there_ && (v.isTensorList() ? operands_.size() - before == list.size() : list.size() <= 64);
        for (size_t k = 0; k < list.size() && k < 64; k++) argument.there |= uint64_t(is_tensor(list[k])) << k;
      }
    }
    there_ = there_ && operands_.size() == call.reads.size();
    if (!there_) operands_.clear();
    return there_;
  }

  // Runs it again; its results are on the stack afterwards.
  template <class Storages>
  void run(const Call& call, torch::jit::Stack& stack, Storages& storages) const {
    stack.clear();
    auto operand = operands_.begin();
    for (const auto& argument : arguments_) {
      switch (argument.kind) {
        case Argument::AS_IT_IS:
          stack.push_back(argument.value);
          break;
        case Argument::TENSOR:
          stack.emplace_back((operand++)->tensor(storages));
          break;
        case Argument::TENSORS: {
          c10::List<at::Tensor> all;
          all.reserve(argument.count);
          for (size_t k = 0; k < argument.count; k++) all.push_back((operand++)->tensor(storages));
          stack.emplace_back(std::move(all));
          break;
        }
        case Argument::OPTIONAL_TENSORS: {
          c10::List<std::optional<at::Tensor>> all;
          all.reserve(argument.count);
          for (size_t k = 0; k < argument.count; k++) {
            all.push_back(argument.there >> k & 1 ? std::optional<at::Tensor>((operand++)->tensor(storages)) : std::nullopt);
          }
          stack.emplace_back(std::move(all));
          break;
        }
      }
    }
    if (call.training >= 0 && stack[call.training].toBool()) {
      stack[call.mean] = c10::IValue();
      stack[call.variance] = c10::IValue();
    }
    c10::GradMode::set_enabled(grad_);
    call.op->callBoxed(stack);
  }

 private:
  bool there_ = false, grad_ = false;  // whether gradients were enabled: kernels of recurrent layers ask for it
  c10::SmallVector<Argument, 6> arguments_;
  c10::SmallVector<Operand, 3> operands_;
};

}  // namespace memopt
