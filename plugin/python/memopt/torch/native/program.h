// A plan as positions: what to do at each operator, each saved tensor, and each step of the backward pass.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace memopt {

using Number = int32_t;  // of a value
constexpr Number OUTSIDE = -1;

// A tensor among the operands or results of a call, and the value that it is.
struct Place {
  int64_t at;
  Number number;
};

// An operator of the forward pass. Operators are compared by the address of their name, which the dispatcher keeps.
struct Call {
  std::optional<c10::OperatorHandle> op;
  const c10::OperatorName* name = nullptr;
  int64_t captured = -1;  // among those that run again
  int64_t moved = -1;     // the step of the plan up to which values leave and come back before it
  bool plain = true;
  std::vector<Number> reads;
  std::vector<Place> makes, writes;
  int64_t training = -1, mean = -1, variance = -1;  // operands of an operator whose second run must not move its statistics
};

// What autograd saves between two calls.
struct Gap {
  int64_t first = 0, count = 0;
  bool hooked = false;  // some of it is dropped, or tells how far the backward pass is, or is a result
};

struct Save {
  bool kept;
  Number number;
  int64_t source;  // the instance that a dropped one is made from
  int64_t step;    // of the plan, that asks for it
  std::vector<Number> later;  // steps of later backward passes that do
};

struct Instance {
  Number number;
  int64_t last, uses;
};

// An operator that runs again, as several calls where later ones write into what the first makes.
struct Op {
  std::string name;
  std::vector<int64_t> calls;
  std::vector<std::vector<Place>> outputs;  // by call: those that are results of the operator
};

// A second run, and values that are dropped.
struct Event {
  int64_t step;
  int64_t op;  // or -1
  std::vector<Number> stored, released;
};

// Reads the numbers that layout.py writes.
class Reader {
 public:
  Reader(const int64_t* at, size_t count) : at_(at), end_(at + count) {}
  int64_t next() {
    TORCH_CHECK(at_ < end_, "memopt: the program ends early");
    return *at_++;
  }
  size_t count() {
    const int64_t n = next();
    TORCH_CHECK(n >= 0 && n <= end_ - at_, "memopt: the program has a list of ", n);
    return static_cast<size_t>(n);
  }
  std::vector<Number> numbers() {
    std::vector<Number> all(count());
    for (auto& n : all) n = static_cast<Number>(next());
    return all;
  }
  std::vector<Place> places() {
    std::vector<Place> all(count());
    for (auto& p : all) {
      p.at = next();
      p.number = static_cast<Number>(next());
    }
    return all;
  }
  bool ended() const { return at_ == end_; }

 private:
  const int64_t *at_, *end_;
};

struct Program {
  size_t values = 0, captured = 0;
  std::vector<Call> calls;
  std::vector<Gap> gaps;  // before each call, and behind the last
  std::vector<Save> saves;
  std::vector<Instance> instances;
  std::vector<Op> ops;
  std::vector<int64_t> maker;  // by value: the operator that makes it again, or -1
  std::vector<uint8_t> watched, held;  // by value
  std::vector<Event> events;
  std::vector<int64_t> before;  // by step of the backward passes: the calls of forward passes that come before it
  std::map<int64_t, std::vector<Number>> read_last;  // by step: first instances that autograd holds itself from there on
  std::vector<uint8_t> away;   // by value: it leaves
  std::vector<int64_t> moves;  // steps before which values leave or come back, in order

  Program(const std::vector<std::string>& names, Reader in) {
    values = in.next();
    std::vector<c10::OperatorHandle> known;
    for (const auto& name : names) {
      const auto dot = name.find('.');
      known.push_back(c10::Dispatcher::singleton().findSchemaOrThrow(name.substr(0, dot).c_str(), dot == std::string::npos ? "" : name.substr(dot + 1).c_str()));
    }
    calls.resize(in.count());
    for (auto& call : calls) {
      call.op = known.at(in.next());
      call.name = &call.op->operator_name();
      if (in.next() != 0) {
        call.captured = static_cast<int64_t>(captured++);
        find_statistics(call);
      }
      call.moved = in.next();
      call.reads = in.numbers();
      call.makes = in.places();
      call.writes = in.places();
      call.plain = call.captured < 0 && call.moved < 0 && call.makes.empty() && call.writes.empty();
    }
    gaps.resize(calls.size() + 1);
    for (auto& gap : gaps) {
      gap.first = in.next();
      gap.count = in.next();
      gap.hooked = in.next() != 0;
    }
    saves.resize(in.count());
    for (auto& save : saves) {
      save.kept = in.next() != 0;
      save.number = static_cast<Number>(in.next());
      save.source = in.next();
      save.step = in.next();
      save.later = in.numbers();
    }
    instances.resize(in.count());
    for (auto& instance : instances) {
      instance.number = static_cast<Number>(in.next());
      instance.last = in.next();
      instance.uses = in.next();
    }
    ops.resize(in.count());
    for (auto& op : ops) {
      op.calls.resize(in.count());
      for (auto& call : op.calls) {
        call = in.next();
        op.outputs.push_back(in.places());
      }
      if (!op.calls.empty()) op.name = calls.at(op.calls[0]).name->name;
    }
    maker.assign(values, -1);
    for (const auto& p : in.places()) maker.at(p.number) = p.at;
    for (auto* flags : {&watched, &held}) {
      flags->assign(values, 0);
      for (const auto n : in.numbers()) flags->at(n) = 1;
    }
    before.resize(in.count());
    for (auto& calls : before) calls = in.next();
    events.resize(in.count());
    for (auto& event : events) {
      event.step = in.next();
      event.op = in.next();
      event.stored = in.numbers();
      event.released = in.numbers();
    }
    for (size_t n = in.count(); n > 0; n--) {
      const int64_t step = in.next();
      read_last[step] = in.numbers();
    }
    away.assign(values, 0);
    for (const auto n : in.numbers()) away.at(n) = 1;
    moves.resize(in.count());
    for (auto& step : moves) step = in.next();
    TORCH_CHECK(in.ended(), "memopt: the program goes on behind its end");
  }

 private:
  static void find_statistics(Call& call) {
    const auto& name = call.name->name;
    if (name != "aten::native_batch_norm" && name != "aten::cudnn_batch_norm" && name != "aten::miopen_batch_norm") return;
    const auto& arguments = call.op->schema().arguments();
    for (size_t i = 0; i < arguments.size(); i++) {
      if (arguments[i].name() == "training") call.training = static_cast<int64_t>(i);
      if (arguments[i].name() == "running_mean") call.mean = static_cast<int64_t>(i);
      if (arguments[i].name() == "running_var") call.variance = static_cast<int64_t>(i);
    }
  }
};

}  // namespace memopt
