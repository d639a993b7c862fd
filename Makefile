# The commands of the project. `make demo` and `make test` work on a fresh machine with a Swift toolchain: what else
# they need is installed, or named, by scripts/bootstrap.sh.

.DEFAULT_GOAL := help
.PHONY: help demo examples clients load test dumps trace docs sanitize bench bench-full bench-check bench-io lint cmake assembly litmus interleavings soak faults fuzz

# A directory for the demo to index, the runs of `make test` and `make sanitize`, see scripts/test.sh, those of `make dumps`, see
# scripts/test-dumps.sh, and how long `make soak` takes on each backend, and `make fuzz` for each kind of input.
DIR ?=
RUNS ?=
DUMPS ?=
MINUTES ?= 5
SANITIZED ?= $(foreach backend,$(shell scripts/backends.sh),$(backend)-thread $(backend)-address)

help:
	@echo "make demo       build and run the example program on each context backend, and compare them"
	@echo "                (make demo DIR=/usr/include: index another directory)"
	@echo "make test       run the tests: all backends in debug, the default one in release, and confined to one processor and to two"
	@echo "                (make test RUNS=\"Boost-debug ASM-release\": just these)"
	@echo "make dumps      compare the dumps of a program on all backends, made inside, by signals, by the command"
	@echo "                coroutine-dump, and of core files"
	@echo "make trace      load a trace of the demo into Perfetto's own engine, and see what arrives there"
	@echo "make examples   run the small examples, and compare what they print with what they should"
	@echo "make clients    run the clients of databases against servers: PostgreSQL by libpq, Redis by hiredis"
	@echo "make docs       make the documentation of all products by docc, check the links of all documents, compile their"
	@echo "                examples, and run those that say what they print"
	@echo "make sanitize   run the tests under ThreadSanitizer and AddressSanitizer, on all backends"
	@echo "make load       10,000 idle connections, then 2,000 connects a second: what they leave in a server"
	@echo "make soak       five minutes of load on each backend: sums are checked, and memory stays flat (make soak MINUTES=1)"
	@echo "make fuzz       five minutes each of random programs, forged core files and libraries (make fuzz MINUTES=60)"
	@echo "make faults     refuse each system call in turn to small programs: it is survived, or told"
	@echo "make bench      run the benchmarks, beside Boost, Go, and Swift's own concurrency; then those of servers, shortly"
	@echo "make bench-full   the same with more and longer rounds, and what takes too long for the quick form"
	@echo "make bench-check  hold the runtime's ratios to its peers against Benchmarks/thresholds.json"
	@echo "make bench-io   compare servers by coroutines with an epoll loop in C, SwiftNIO, and Go: CPU time per request"
	@echo "make lint       check the format of the sources, and which folders refer to which"
	@echo "make cmake      build with CMake and run the tests by ctest, on all backends; install, and use that from outside"
	@echo "make assembly   test the assembly in C, for x86-64 and, emulated, for aarch64"
	@echo "make interleavings  try the orders in which threads access the runtime's words, in small scenes"
	@echo "make litmus     run the litmus tests of the memory model by herd7, and compare with the kept results"

demo:
	@scripts/bootstrap.sh demo
	@scripts/demo.sh $(if $(DIR),"$(DIR)")

examples:
	@scripts/bootstrap.sh demo
	@scripts/examples.sh

load:
	@scripts/load-io.sh

soak:
	@scripts/bootstrap.sh test
	@scripts/soak.sh $(MINUTES)

fuzz:
	@scripts/bootstrap.sh test
	@scripts/fuzz.sh $(MINUTES)

faults:
	@scripts/bootstrap.sh test
	@scripts/faults.sh

clients:
	@scripts/bootstrap.sh clients
	@scripts/clients.sh

docs:
	@scripts/bootstrap.sh test
	@scripts/check-links.sh
	@scripts/docc.sh
	@scripts/check-docs.sh

test:
	@scripts/bootstrap.sh test
	@scripts/test.sh $(RUNS)

dumps:
	@scripts/bootstrap.sh dumps
	@scripts/test-dumps.sh $(DUMPS)

trace:
	@scripts/bootstrap.sh trace
	@scripts/test-trace.sh

sanitize:
	@scripts/bootstrap.sh sanitize
	@scripts/test.sh $(SANITIZED)

bench:
	@scripts/bootstrap.sh bench
	@scripts/bootstrap.sh peers || true
	@scripts/bench.sh
	@scripts/bench-io.sh --if-possible 100

bench-full:
	@scripts/bootstrap.sh bench
	@scripts/bootstrap.sh peers || true
	@scripts/bench.sh --full
	@scripts/bench-io.sh --if-possible

bench-io:
	@scripts/bootstrap.sh bench
	@scripts/bootstrap.sh peers || true
	@scripts/bench-io.sh

bench-check:
	@scripts/bootstrap.sh bench
	@scripts/bootstrap.sh peers || true
	@scripts/bench.sh --check

lint:
	@scripts/bootstrap.sh lint
	@scripts/lint.sh

cmake:
	@scripts/bootstrap.sh cmake
	@scripts/cmake.sh
	@scripts/test-cmake-install.sh

assembly:
	@scripts/bootstrap.sh assembly
	@scripts/test-assembly.sh

litmus:
	@scripts/litmus.sh

interleavings:
	@scripts/interleavings.sh
