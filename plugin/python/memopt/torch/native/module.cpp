// The Python module: programs, steps, and handles of saved tensors as types of C.
#include <Python.h>
#include <structmember.h>

#include <torch/csrc/Storage.h>

#include "interceptor.h"

namespace {

using namespace memopt;

PyTypeObject *program_type, *step_type, *handle_type;

struct ProgramObject {
  PyObject_HEAD
  std::shared_ptr<Program> program;
};

struct StepObject {
  PyObject_HEAD
  Step* step;  // from begin() on
  PyObject* strict;
  Step* before;  // the step that the thread was in
};

template <class T>
T* allocated(PyTypeObject* type) {
  auto* made = reinterpret_cast<T*>(PyType_GenericAlloc(type, 0));
  if (made == nullptr) throw python_error();
  return made;
}

void free_object(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

// Programs.

PyObject* program_new(PyObject*, PyObject* args) {
  HANDLE_TH_ERRORS
  PyObject* names;
  Py_buffer numbers;
  if (!PyArg_ParseTuple(args, "O!y*", &PyList_Type, &names, &numbers)) return nullptr;
  const std::unique_ptr<Py_buffer, void (*)(Py_buffer*)> held(&numbers, PyBuffer_Release);
  std::vector<std::string> all;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(names); i++) {
    const char* name = PyUnicode_AsUTF8(PyList_GET_ITEM(names, i));
    if (name == nullptr) return nullptr;
    all.emplace_back(name);
  }
  auto program = std::make_shared<Program>(all, Reader(static_cast<const int64_t*>(numbers.buf), numbers.len / sizeof(int64_t)));
  for (const auto& call : program->calls) {
    Interceptor::the().cover(*call.op);
    TORCH_CHECK(Interceptor::the().covers(*call.op), call.name->name, " is made of other operators");
  }
  auto* made = allocated<ProgramObject>(program_type);
  new (&made->program) std::shared_ptr<Program>(std::move(program));
  return reinterpret_cast<PyObject*>(made);
  END_HANDLE_TH_ERRORS
}

void program_free(PyObject* self) {
  reinterpret_cast<ProgramObject*>(self)->program.~shared_ptr();
  free_object(self);
}

// Handles.

void handle_free(PyObject* self) {
  auto* handle = reinterpret_cast<Handle*>(self);
  handle->kept.~Tensor();
  handle->view.~View();
  handle->writes.~VariableVersion();
  free_object(self);
}

// Steps.

Step& step_of(PyObject* self) { return *reinterpret_cast<StepObject*>(self)->step; }

// Calls a method of the Python part, and says whether it returned True. Its errors are the step's; what it computes is not.
template <class... Args>
bool told(PyObject* self, const char* method, const char* format, Args... args) {
  pybind11::gil_scoped_acquire gil;
  const c10::impl::ExcludeDispatchKeyGuard unseen(KEYS | PYTHON);
  PyObject* found = PyObject_CallMethod(self, method, format, args...);
  if (found == nullptr) {
    python_error error;
    error.persist();
    throw error;
  }
  const bool yes = found == Py_True;
  Py_DECREF(found);
  return yes;
}

PyObject* step_begin(PyObject* self, PyObject* args) {
  HANDLE_TH_ERRORS
  PyObject *program, *strict;
  int audited;
  if (!PyArg_ParseTuple(args, "O!Op", program_type, &program, &strict, &audited)) return nullptr;
  auto* step = reinterpret_cast<StepObject*>(self);
  TORCH_CHECK(step->step == nullptr, "memopt: the step has begun");
  step->strict = Py_NewRef(strict);
  step->step = new Step(reinterpret_cast<ProgramObject*>(program)->program, strict == Py_None ? nullptr : strict, handle_type);
  step->step->left = [self](bool forward) { told(self, "left", "sO", step_of(self).diverged->c_str(), forward ? Py_True : Py_False); };
  step->step->another = [self](const c10::OperatorName* name) {
    return name == nullptr ? told(self, "another", nullptr) : told(self, "another", "ss", name->name.c_str(), name->overload_name.c_str());
  };
  step->step->move = [self](int64_t to) { told(self, "move", "L", static_cast<long long>(to)); };
  step->step->fetch = [self](Number number) { told(self, "fetch", "i", static_cast<int>(number)); };
  if (audited) step->step->differs = [self](int64_t which) { told(self, "differs", "L", static_cast<long long>(which)); };
  Py_RETURN_NONE;
  END_HANDLE_TH_ERRORS
}

PyObject* step_follow(PyObject* self, PyObject* program) {
  HANDLE_TH_ERRORS
  TORCH_CHECK(Py_TYPE(program) == program_type, "memopt: this is no program");
  step_of(self).turn(reinterpret_cast<ProgramObject*>(program)->program);
  Py_RETURN_NONE;
  END_HANDLE_TH_ERRORS
}

PyObject* step_held(PyObject* self, PyObject* number) {
  HANDLE_TH_ERRORS
  const auto found = step_of(self).held(static_cast<Number>(PyLong_AsLong(number)));
  return found ? THPStorage_Wrap(found) : Py_NewRef(Py_None);
  END_HANDLE_TH_ERRORS
}

PyObject* step_hold(PyObject* self, PyObject* args) {
  HANDLE_TH_ERRORS
  int number;
  PyObject* storage;
  if (!PyArg_ParseTuple(args, "iO", &number, &storage)) return nullptr;
  step_of(self).hold(number, storage == Py_None ? c10::Storage() : THPStorage_Unpack(storage));
  Py_RETURN_NONE;
  END_HANDLE_TH_ERRORS
}

PyObject* step_bits(PyObject* self, PyObject* number) {
  HANDLE_TH_ERRORS
  const auto found = step_of(self).bits(static_cast<Number>(PyLong_AsLong(number)));
  return found ? PyLong_FromLongLong(*found) : Py_NewRef(Py_None);
  END_HANDLE_TH_ERRORS
}

PyObject* step_packed(PyObject* self, PyObject* behind) {
  HANDLE_TH_ERRORS
  const auto n = PyLong_AsSize_t(behind);
  if (n == static_cast<size_t>(-1) && PyErr_Occurred()) return nullptr;
  return PyLong_FromLongLong(step_of(self).packed(n));
  END_HANDLE_TH_ERRORS
}

PyObject* step_away(PyObject* self, PyObject* by) {
  HANDLE_TH_ERRORS
  step_of(self).away(static_cast<int>(PyLong_AsLong(by)));
  Py_RETURN_NONE;
  END_HANDLE_TH_ERRORS
}

void step_free(PyObject* self) {
  auto* step = reinterpret_cast<StepObject*>(self);
  delete step->step;
  Py_XDECREF(step->strict);
  free_object(self);
}

PyObject* step_pack(PyObject* self, PyObject* tensor) {
  HANDLE_TH_ERRORS
  return step_of(self).pack(tensor);
  END_HANDLE_TH_ERRORS
}

PyObject* step_unpacked(PyObject* self, PyObject* handle) {
  HANDLE_TH_ERRORS
  TORCH_CHECK(Py_TYPE(handle) == handle_type, "memopt: this is no handle of a saved tensor");
  return step_of(self).unpack(*reinterpret_cast<Handle*>(handle));
  END_HANDLE_TH_ERRORS
}

PyObject* step_unpack(PyObject* self, PyObject* handle) {
  PyObject* tensor = step_unpacked(self, handle);
  if (tensor != nullptr || !step_of(self).failed || !PyErr_ExceptionMatches(PyExc_RuntimeError)) return tensor;
  step_of(self).failed = false;
  PyObject *type, *error, *traceback;
  PyErr_Fetch(&type, &error, &traceback);
  PyErr_NormalizeException(&type, &error, &traceback);
  PyObject* failed = PyObject_GetAttrString(self, "failed");
  if (failed != nullptr && failed != Py_None) Py_XDECREF(PyObject_CallFunctionObjArgs(failed, error, nullptr));
  Py_XDECREF(failed);
  if (PyErr_Occurred() == nullptr) {
    PyErr_Restore(type, error, traceback);
  } else {
    Py_XDECREF(type);
    Py_XDECREF(error);
    Py_XDECREF(traceback);
  }
  return nullptr;
}

PyMethodDef pack_method = {"pack", step_pack, METH_O, nullptr}, unpack_method = {"unpack", step_unpack, METH_O, nullptr};

PyObject* step_enter(PyObject* self, PyObject*) {
  HANDLE_TH_ERRORS
  PyObject *pack = PyCFunction_New(&pack_method, self), *unpack = PyCFunction_New(&unpack_method, self);
  if (pack == nullptr || unpack == nullptr) throw python_error();
  step_of(self).enter(pack, unpack);
  reinterpret_cast<StepObject*>(self)->before = here;
  here = &step_of(self);
  switched(true);
  Py_RETURN_NONE;
  END_HANDLE_TH_ERRORS
}

PyObject* step_exit(PyObject* self, PyObject*) {
  HANDLE_TH_ERRORS
  here = reinterpret_cast<StepObject*>(self)->before;
  switched(here != nullptr);
  step_of(self).exit();
  Py_RETURN_NONE;
  END_HANDLE_TH_ERRORS
}

PyObject* step_diverged(PyObject* self, void*) {
  const auto& why = step_of(self).diverged;
  return why ? PyUnicode_FromString(why->c_str()) : Py_NewRef(Py_None);
}

int step_set_diverged(PyObject* self, PyObject* value, void*) {
  auto& why = step_of(self).diverged;
  if (value == nullptr || value == Py_None) {
    why.reset();
    return 0;
  }
  const char* text = PyUnicode_AsUTF8(value);
  if (text == nullptr) return -1;
  why = text;
  return 0;
}

PyObject* step_reached(PyObject* self, void*) { return PyLong_FromLongLong(step_of(self).reached); }

PyObject* step_begun(PyObject* self, void*) { return PyBool_FromLong(step_of(self).begun); }

PyObject* step_calls(PyObject* self, void*) { return PyLong_FromSize_t(step_of(self).calls); }

PyObject* list_of(const std::vector<int64_t>& all) {
  PyObject* list = PyList_New(static_cast<Py_ssize_t>(all.size()));
  for (size_t i = 0; list != nullptr && i < all.size(); i++) PyList_SET_ITEM(list, i, PyLong_FromLongLong(all[i]));
  return list;
}

PyObject* step_ran(PyObject* self, void*) { return list_of(step_of(self).ran); }

PyObject* step_dropped(PyObject* self, void*) { return list_of(step_of(self).dropped()); }

// Whether an operator that a mode is told of is autograd's copy of a result.
PyObject* saves_result(PyObject*, PyObject* args) {
  HANDLE_TH_ERRORS
  const char *name, *overload;
  if (!PyArg_ParseTuple(args, "ss", &name, &overload)) return nullptr;
  return PyBool_FromLong(here != nullptr && here->saves_result({name, overload}));
  END_HANDLE_TH_ERRORS
}

// Somebody enters a mode.
PyObject* wake(PyObject*, PyObject*) {
  HANDLE_TH_ERRORS
  if (here != nullptr) here->wake(true);
  Py_RETURN_NONE;
  END_HANDLE_TH_ERRORS
}

// What comes by, to see whether the interceptor sees what a mode sees.

PyObject* hear(PyObject*, PyObject*) {
  HANDLE_TH_ERRORS
  TORCH_CHECK(hearing == nullptr && here == nullptr, "memopt: this thread is in a step");
  hearing = new std::vector<std::string>();
  switched(true);
  Py_RETURN_NONE;
  END_HANDLE_TH_ERRORS
}

PyObject* heard(PyObject*, PyObject*) {
  HANDLE_TH_ERRORS
  TORCH_CHECK(hearing != nullptr, "memopt: nothing is heard");
  switched(false);
  const std::unique_ptr<std::vector<std::string>> all(std::exchange(hearing, nullptr));
  PyObject* list = PyList_New(0);
  for (const auto& name : *all) {
    PyObject* text = PyUnicode_FromString(name.c_str());
    PyList_Append(list, text);
    Py_DECREF(text);
  }
  return list;
  END_HANDLE_TH_ERRORS
}

// Covers an operator. False for one that is seen above autograd.
PyObject* cover(PyObject*, PyObject* args) {
  HANDLE_TH_ERRORS
  const char *name, *overload;
  if (!PyArg_ParseTuple(args, "ss", &name, &overload)) return nullptr;
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
  Interceptor::the().cover(op);
  return PyBool_FromLong(!without_tensors(op));
  END_HANDLE_TH_ERRORS
}

PyTypeObject* type_of(const char* name, int size, unsigned long flags, std::vector<PyType_Slot> slots) {
  slots.push_back({0, nullptr});
  PyType_Spec spec = {name, size, 0, static_cast<unsigned int>(Py_TPFLAGS_DEFAULT | flags), slots.data()};
  return reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
}

PyMethodDef step_methods[] = {{"begin", step_begin, METH_VARARGS, nullptr}, {"enter", step_enter, METH_NOARGS, nullptr}, {"exit", step_exit, METH_NOARGS, nullptr},
                              {"follow", step_follow, METH_O, nullptr}, {"packed", step_packed, METH_O, nullptr},
                              {"held", step_held, METH_O, nullptr}, {"hold", step_hold, METH_VARARGS, nullptr}, {"bits", step_bits, METH_O, nullptr}, {"away", step_away, METH_O, nullptr}, {nullptr, nullptr, 0, nullptr}};

PyGetSetDef step_members[] = {
    {"diverged", step_diverged, step_set_diverged, nullptr, nullptr},
    {"begun", step_begun, nullptr, nullptr, nullptr},
    {"calls", step_calls, nullptr, nullptr, nullptr},
    {"reached", step_reached, nullptr, nullptr, nullptr},
    {"repeated", step_ran, nullptr, nullptr, nullptr},
    {"dropped", step_dropped, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyMethodDef functions[] = {
    {"program", program_new, METH_VARARGS, nullptr}, {"hear", hear, METH_NOARGS, nullptr},
    {"heard", heard, METH_NOARGS, nullptr},          {"cover", cover, METH_VARARGS, nullptr}, {"wake", wake, METH_NOARGS, nullptr}, {"saves_result", saves_result, METH_VARARGS, nullptr}, {nullptr, nullptr, 0, nullptr}};

PyModuleDef definition = {PyModuleDef_HEAD_INIT, "memopt_native", nullptr, -1, functions, nullptr, nullptr, nullptr, nullptr};

}  // namespace


PyMODINIT_FUNC PyInit_memopt_native() {
  HANDLE_TH_ERRORS
  program_type = type_of("memopt.native.Program", sizeof(ProgramObject), Py_TPFLAGS_DISALLOW_INSTANTIATION, {{Py_tp_dealloc, reinterpret_cast<void*>(program_free)}});
  handle_type = type_of("memopt.native.Handle", sizeof(Handle), Py_TPFLAGS_DISALLOW_INSTANTIATION, {{Py_tp_dealloc, reinterpret_cast<void*>(handle_free)}});
  step_type = type_of(
      "memopt.native.Step", sizeof(StepObject), Py_TPFLAGS_BASETYPE,
      {{Py_tp_dealloc, reinterpret_cast<void*>(step_free)}, {Py_tp_methods, step_methods}, {Py_tp_getset, step_members}});
  if (program_type == nullptr || handle_type == nullptr || step_type == nullptr) return nullptr;
  Interceptor::the();
  PyObject* module = PyModule_Create(&definition);
  if (module == nullptr || PyModule_AddObjectRef(module, "Step", reinterpret_cast<PyObject*>(step_type)) != 0) return nullptr;
  return module;
  END_HANDLE_TH_ERRORS
}
