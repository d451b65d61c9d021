# What people type. All work is done by cmake presets and by the scripts named here. tests/README.md
# says which test runs in which target.
WEFT = build/release/bin/weft

.PHONY: help setup build quick test sanitize integration soak peers lab nightly demo bench test-gpu \
  bench-gpu bundle package format clean

help:
	@echo 'make setup    install what building and testing need (Debian; needs a network)'
	@echo 'make demo     train a small GPT on two processes for a minute, and print what it writes'
	@echo '              TEXT=FILE trains it on a text of yours'
	@echo 'make build    build/release/bin/weft and its plugins'
	@echo 'make quick    builds, and runs the tests of rules, units, plans and schedules; a minute after'
	@echo '              a change of one file'
	@echo 'make test     sets up, builds and runs the tests of the release build; 10 minutes on 2 cores'
	@echo 'make sanitize     parsers, wire, links, engine, kernels and checkpoints under the address,'
	@echo '              undefined-behaviour and thread sanitizers; 11 minutes'
	@echo 'make integration  tests with heavier needs, which it installs: a virtual machine with'
	@echo '              soft-RoCE, PyTorch, MPI; 25 minutes'
	@echo 'make soak N=20    the tests of make test N times beside two busy loops; lists what ever fails.'
	@echo '              SOAK=sanitize: those of make sanitize. TESTS=REGEX: some of them'
	@echo 'make peers    models of Hugging Face transformers there and back, and what is recorded of'
	@echo '              them anew; installs some 3 GB from PyPI'
	@echo 'make lab CMD="..."  runs a command in a virtual machine with soft-RoCE and tc'
	@echo 'make nightly  300 random jobs on several ranks against one rank, collectives in random'
	@echo '              order, 200 random failures around saves and resumes, 200 of ranks that their'
	@echo '              supervisors start again, an hour with four ranks a processor that must not'
	@echo '              be taken for frozen, verbs on soft-RoCE at length, and what make sanitize'
	@echo '              leaves out; about two hours and a half'
	@echo 'make bench    collectives and training beside the peers that are installed'
	@echo 'make test-gpu, make bench-gpu    what needs a GPU, in one report; speed beside PyTorch'
	@echo 'make bundle   programs, plugins, tests and their libraries in build/bundle, for another'
	@echo '              machine: tests/gpu/run and bench/gpu/run find them there'
	@echo 'make package  Debian packages weft, weft-cuda and weft-dev in build/release/package'
	@echo 'make format   clang-format over the tree'
	@echo 'make clean    remove build/ (runs/ stays)'

setup:
	@sh cmake/setup.sh

build:
	@sh cmake/configure.sh release
	@cmake --build --preset release

quick:
	@python3 -B tests/run.py quick

test: setup
	@python3 -B tests/run.py test

sanitize: setup
	@python3 -B tests/run.py sanitize

N ?= 20
SOAK ?= test
soak: setup
	@python3 -B tests/run.py soak $(SOAK) $(N) $(if $(TESTS),-R '$(TESTS)')

integration: setup
	@sh cmake/setup.sh integration
	@sh cmake/python.sh
	@python3 -B tests/run.py integration

peers: build
	@sh cmake/peers.sh
	@python3 -B tests/hf/peers.py $(WEFT)
	@build/peers/bin/python3 -B tests/generate/record.py $(WEFT) --check

lab:
	@sh cmake/setup.sh tests/lab
	@tests/lab/run sh -c "$$CMD"

nightly: build
	WEFT_COMM_SEED=$$(date +%j)00000000 WEFT_COMM_RUNS=100000 build/release/bin/schedule_fuzz_test
	WEFT_COMM_SEED=$$(date +%j)00000000 WEFT_COMM_RUNS=3000 build/release/bin/comm_threads_fuzz_test
	WEFT_PARITY_WHOLE=1 python3 -B tests/parity/matrix.py $(WEFT) Matrix
	WEFT_WHOLE=1 python3 -B tests/parity/cores/sets.py $(WEFT)
	WEFT_PARITY_RANDOM=300 WEFT_PARITY_SEED=$$(date +%j) python3 -B tests/parity/matrix.py $(WEFT) Drawn
	WEFT_CAMPAIGN=200 WEFT_TEST_SEED=$$(date +%j) python3 -B tests/fault/train_campaign.py $(WEFT)
	WEFT_BUSY_SECONDS=3600 WEFT_TEST_SEED=$$(date +%j) python3 -B tests/fault/watch/train_busy.py $(WEFT)
	ctest --preset release -C nightly -R '(ops|cuda)\..*\.ptx'
	sh cmake/setup.sh tests/lab
	tests/lab/run -t 1800 env -u WEFT_LAB python3 -B tests/verbs/lab.py $(WEFT) \
	  build/release/bin build/release/tests/verbs/sanitized/bin || [ $$? -eq 77 ]
	WEFT_WHOLE=1 python3 -B tests/run.py sanitize

demo: setup build
	@WEFT=$(WEFT) TEXT='$(TEXT)' sh configs/demo.sh

bench: build
	python3 bench/weights.py --weft $(WEFT)
	python3 bench/allreduce.py --weft $(WEFT)
	python3 bench/scale.py --weft $(WEFT) --no-torch
	@if python3 -c 'import torch' 2>/dev/null; then python3 bench/train.py --weft $(WEFT); \
	else echo 'there is no PyTorch here for bench/train.py to compare with'; fi

# Where there is no GPU the scripts say so and exit 77, which is no failure.
test-gpu:
	@tests/gpu/run || [ $$? -eq 77 ]

bench-gpu:
	@bench/gpu/run || [ $$? -eq 77 ]

bundle: build
	@sh cmake/bundle.sh

package: build
	@cd build/release && cpack

format:
	@find core sdk tools plugins tests bench \( -name '*.c' -o -name '*.h' -o -name '*.cc' -o -name '*.cu*' \) \
	  -exec clang-format -i {} +

clean:
	rm -rf build
