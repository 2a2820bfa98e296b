# A script runner: every target is what one would type.

GO      ?= go
PYTHON  := $(shell .ci/python --where)
TORCH_PYTHON := $(shell .ci/peers --where)
ORT_PYTHON := $(shell .ci/peers --onnxruntime --where)
export MEMOPT_PYTHON = $(PYTHON)
export MEMOPT_TORCH_PYTHON = $(TORCH_PYTHON)
export MEMOPT_ORT_PYTHON = $(ORT_PYTHON)

# Steps on Vulkan, and whether there is no device here that can run them.
VULKAN    = env $$(.ci/vulkan --env)
no_vulkan = all=$$($(VULKAN) bin/memopt devices --format json) || exit 1; echo "$$all" | awk '/"device": "vulkan:/ {n++} /"unfit":/ {n--} END {exit n > 0}'

.PHONY: build run wheel check test test-torch-matrix bench fmt clean

build:
	$(GO) build -trimpath -o bin/memopt ./cmd/memopt

# A GPT that the program makes itself: planned under a budget, trained, and
# measured beside what was promised.
run: build
	@mkdir -p demo
	@test -f demo/gpt.onnx || bin/memopt new gpt -o demo/gpt.onnx --data demo/gpt.npz --samples 160 --seq 64
	bin/memopt plan demo/gpt.onnx --dims batch=8,seq=64 --activation-budget 50% -o demo/gpt.plan.json
	bin/memopt train demo/gpt.onnx --dims batch=8,seq=64 --activation-budget 50% --data demo/gpt.npz --steps 20 --optimizer adamw --lr 3e-4
	@echo; echo "The same on whatever Vulkan there is:"
	@if $(no_vulkan); then echo "(none here, which is fine)"; else \
		$(VULKAN) bin/memopt train demo/gpt.onnx --dims batch=8,seq=64 --activation-budget 50% --data demo/gpt.npz --steps 3 --optimizer adamw --lr 3e-4 --device vulkan; fi

# The Python package with the binary inside, and its source distribution, which go
# builds anywhere. NATIVE="2.13 2.15" has the native module built in for these versions of PyTorch.
wheel:
	.ci/wheel dist

# The fast tier, in about a minute on two cores.
check:
	.ci/check

# Everything that can run. The Python half needs the packages of
# .ci/requirements.txt; .ci/python puts them in a cache folder once. .ci/vulkan
# does so with a Vulkan driver for the processor; where it cannot, the tests of
# Vulkan are skipped, unless MEMOPT_NEED_VULKAN is set. Most of their time is lavapipe's
# compiler: GALLIVM_PERF=nopt leaves out its optimizations, which few runs repay.
test: build
	.ci/python
	.ci/peers
	.ci/peers --onnxruntime
	.ci/vulkan || test -z "$$MEMOPT_NEED_VULKAN"
	$(VULKAN) GALLIVM_PERF=nopt $(GO) test -timeout 40m ./...
	PYTHON=$(PYTHON) TORCH_PYTHON=$(TORCH_PYTHON) MEMOPT_PLUGIN_PATH=$(CURDIR)/bin/memopt plugin/python/run_tests.sh

# The tests of PyTorch with the oldest version that is supported and one between it
# and the newest, which make test has. Graphs of 2.9 give other bits than its eager mode
# without any plan (aot_eager), which test_compile.py compares.
test-torch-matrix: build
	.ci/peers --torch 2.9.1
	TORCH_ONLY=1 TORCH_LEAVE_OUT=test_compile.py TORCH_PYTHON=$$(.ci/peers --torch 2.9.1 --where) MEMOPT_PLUGIN_PATH=$(CURDIR)/bin/memopt plugin/python/run_tests.sh
	.ci/peers --torch 2.12.1
	TORCH_ONLY=1 TORCH_PYTHON=$$(.ci/peers --torch 2.12.1 --where) MEMOPT_PLUGIN_PATH=$(CURDIR)/bin/memopt plugin/python/run_tests.sh

# Beside NumPy and PyTorch, which .ci/peers puts in a cache folder once.
bench: build
	.ci/peers
	bin/memopt bench cpu --python $$(.ci/peers --where)
	PYTHONPATH=plugin/python bin/memopt bench torch --python $$(.ci/peers --where)
	@if $(no_vulkan); then echo "(no Vulkan here, which is fine)"; else $(VULKAN) bin/memopt bench vulkan --python $$(.ci/peers --where); fi
	$(GO) test -run '^$$' -bench . -benchmem ./...

fmt:
	gofmt -w .

clean:
	rm -rf bin demo dist
