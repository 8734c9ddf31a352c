# The one Makefile of osprey. `make help` lists the targets; docs/building.md explains them.
#
# The folder decides where a source file goes: src/cli and src/serve make the program, all other
# folders of src/ make libosprey. A new .c file there, a new tests/unit/test_*.c or a new check
# program tests/*.c needs no edit here.

MAKEFLAGS += --no-print-directory
BUILD  ?= build
PREFIX ?= /usr/local
DESTDIR ?=
CFLAGS ?= -O2 -g
ifeq ($(origin CC),default)
CC := gcc
endif

VERSION := $(shell sed -n 's/^\#define OSP_VERSION "\(.*\)"/\1/p' include/osprey.h)
SONAME  := libosprey.so.0

WARNINGS := -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wstrict-prototypes \
            -Wmissing-prototypes -Werror
# -ffp-contract=off: the same sums from every compiler.
LANGUAGE := -D_GNU_SOURCE -std=c11 -fPIC -fvisibility=hidden -ffp-contract=off -pthread
INCLUDES := -Iinclude -Isrc

# ---- set-up of a bare machine -----------------------------------------------------------------
# Goals that work on a bare machine include a file that tools/setup.sh writes. When the file is
# missing or old, make builds it first and then starts over, so that everything below sees the
# installed packages.

BARE_RUN  := run
BARE_DEPLOY := test-deploy manifests
BARE_TEST := setup kills bench-text test test-compat test-quick asan tsan check-clang check-format \
             bundle
ifneq ($(filter $(BARE_TEST),$(MAKECMDGOALS)),)
include build/setup/test.mk
else ifneq ($(filter $(BARE_DEPLOY),$(MAKECMDGOALS)),)
include build/setup/deploy.mk
else ifneq ($(filter $(BARE_RUN),$(MAKECMDGOALS)),)
include build/setup/run.mk
endif

# These goals compile on all CPUs; for the others the caller chooses -j.
ifeq ($(MAKELEVEL),0)
ifneq ($(filter run asan asan-build tsan tsan-build check-clang bundle fuzz,$(MAKECMDGOALS)),)
MAKEFLAGS += -j$(shell nproc)
endif
endif

build/setup/%.mk: tools/setup.sh
	@tools/setup.sh $* $@

# ---- third-party libraries --------------------------------------------------------------------
# pkg-config runs once, when a recipe first needs its answer.

once = $(eval $(1) := $(shell $(2)))$($(1))
PKG_CONFIG  ?= pkg-config
LIB_PKGS    := jansson libcrypto
APP_PKGS    := libuv libssl libedit
LIB_CFLAGS   = $(call once,LIB_CFLAGS,$(PKG_CONFIG) --cflags $(LIB_PKGS))
LIB_PKG_LIBS = $(call once,LIB_PKG_LIBS,$(PKG_CONFIG) --libs $(LIB_PKGS))
LIB_LIBS     = $(LIB_PKG_LIBS) -lm -ldl -pthread
APP_PKG_CFLAGS = $(call once,APP_PKG_CFLAGS,$(PKG_CONFIG) --cflags $(APP_PKGS))
APP_CFLAGS     = $(APP_PKG_CFLAGS) $(LLHTTP_CFLAGS)
APP_PKG_LIBS   = $(call once,APP_PKG_LIBS,$(PKG_CONFIG) --libs $(APP_PKGS))
APP_LIBS       = $(APP_PKG_LIBS) $(LLHTTP_LIBS)
CMOCKA_LIBS    = $(call once,CMOCKA_LIBS,$(PKG_CONFIG) --libs cmocka)

# llhttp is C sources in Debian 12 and Ubuntu 24.04 (node-llhttp), a library in later releases.
LLHTTP_FOLDER := $(wildcard /usr/share/llhttp)
LLHTTP_OBJ    := $(patsubst $(LLHTTP_FOLDER)/%.c,$(BUILD)/obj/llhttp/%.o,\
                   $(if $(LLHTTP_FOLDER),$(wildcard $(LLHTTP_FOLDER)/*.c)))
LLHTTP_CFLAGS := -DLLHTTP_STRICT_MODE=1 $(if $(LLHTTP_FOLDER),-isystem /usr/share/include/llhttp)
LLHTTP_LIBS   := $(if $(LLHTTP_FOLDER),,-lllhttp)

# ---- ISAs -------------------------------------------------------------------------------------
# Each ISA has one file of kernels with its own flags; the files of other processors are left out.
# Register tiles need full unrolling (-O3), whatever CFLAGS says. The kernels are compiled without
# stack canaries and FORTIFY_SOURCE, which cost 2 to 6 % there: their arrays are tiles of constant
# size, and memcpy() is a load. -fno-var-tracking leaves out where a debugger finds each variable of
# an unrolled loop: a fifth less time to compile, and the same code.
PLAIN := -fno-stack-protector -U_FORTIFY_SOURCE -fno-var-tracking

ARCH := $(firstword $(subst -, ,$(shell $(CC) -dumpmachine 2>/dev/null || uname -m)))
KERNELS_x86_64  := avx2 avxvnni avx512 amx
KERNELS_aarch64 := neon neon_i8mm
FLAGS_avx2    := -mavx2 -mfma -mf16c
FLAGS_avxvnni := $(FLAGS_avx2) -mavxvnni
FLAGS_avx512  := $(FLAGS_avx2) -mavx512f -mavx512dq -mavx512bw -mavx512vl -mavx512vbmi -mavx512vnni
FLAGS_amx     := $(FLAGS_avx512) -mamx-tile -mamx-bf16
FLAGS_neon    := -march=armv8.2-a+dotprod
FLAGS_neon_i8mm := $(FLAGS_neon)+i8mm
# Under sanitizers unrolled loops take minutes to compile at -O3, so those builds lower it. They
# compute with the last ISA that this CPU has, most of the time, so that one has KERNEL_OPT. Other
# ISAs have -O1, and those that the CPU lacks have no sanitizer: nothing runs them.
KERNEL_OPT    ?= -O3
CPU_FLAG_avx2      := avx2
CPU_FLAG_avxvnni   := avx_vnni
CPU_FLAG_avx512    := avx512_vnni
CPU_FLAG_amx       := amx_bf16
CPU_FLAG_neon      := asimddp
CPU_FLAG_neon_i8mm := i8mm
KERNELS       := $(KERNELS_$(ARCH))
OTHER_KERNELS := $(patsubst %,src/cpu/kernels/kernels_%.c,\
                   $(filter-out $(KERNELS),$(KERNELS_x86_64) $(KERNELS_aarch64)))
ifneq ($(findstring -fsanitize,$(CFLAGS)),)
CPU_FLAGS := $(shell sed -nE 's/^(flags|Features)[^:]*://p' /proc/cpuinfo | head -n 1)
RUNNABLE  := $(foreach k,$(KERNELS),$(if $(filter $(CPU_FLAG_$(k)),$(CPU_FLAGS)),$(k)))
endif
kernel_opt = $(if $(RUNNABLE),$(if $(filter $(1),$(lastword $(RUNNABLE))),$(KERNEL_OPT),\
               -O1 $(if $(filter $(1),$(RUNNABLE)),,-fno-sanitize=all)),$(KERNEL_OPT))

# ---- hardening ----------------------------------------------------------------------------------
# Protection against memory errors, in every object and every link. tests/tools/test_hardening.py
# checks it in the built files. FORTIFY_SOURCE needs optimisation and does not go with sanitizers.
# A level of it in CFLAGS, as distributions set it, is kept.

HARDEN_x86_64  := -fcf-protection=full
HARDEN_aarch64 := -mbranch-protection=standard
OPTIMISED := $(filter-out -O0,$(lastword $(filter -O%,$(CFLAGS))))
FORTIFY   := $(if $(findstring -fsanitize,$(CFLAGS))$(findstring _FORTIFY_SOURCE,$(CFLAGS)),,\
               $(if $(OPTIMISED),-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2))
HARDEN    := -fstack-protector-strong $(HARDEN_$(ARCH)) $(FORTIFY)
# -z shstk: start-up objects of some C libraries (Debian 12) lack the shadow stack mark, although
# they support shadow stacks. One object without it removes the mark from the program. Whether these
# objects support branch target checks (IBT) is not known, so that mark is not forced.
HARDEN_LINK_x86_64 := -Wl,-z,shstk
HARDEN_LINK  := -Wl,-z,relro,-z,now,-z,noexecstack $(HARDEN_LINK_$(ARCH))
LINK_PROGRAM  = $(CC) $(CFLAGS) -pie $(HARDEN_LINK)
LINK_SHARED   = $(CC) $(CFLAGS) -shared $(HARDEN_LINK)

# ---- the CUDA plug-in -------------------------------------------------------------------------
# Built for CUDA_ARCHS where nvcc is found; left out otherwise. The program loads it at run time.

NVCC       ?= $(firstword $(shell command -v nvcc) $(wildcard /usr/local/cuda/bin/nvcc))
CUDA_ARCHS ?= 90a 121a
CUDA_ARCHS_ALL := 80 90a 100a 120a 121a
CUDA_HOME  := $(patsubst %/bin/nvcc,%,$(realpath $(NVCC)))
CUDA_CODE   = $(foreach a,$(CUDA_ARCHS),-gencode arch=compute_$(a),code=sm_$(a))
# Compressed kernels take a fifth of the size. Drivers before CUDA 12.4 cannot read them; the
# drivers that nvcc 13 needs can, so kernels are compressed from nvcc 13 on.
CUDA_13    := sed -nE 's/.*release (1[3-9]|[2-9][0-9])\..*/--compress-mode=size/p'
CUDA_SMALL  = $(call once,CUDA_SMALL,$(NVCC) --version | $(CUDA_13))
CUDA_FLAGS  = -std=c++17 -O2 -Werror all-warnings -Xcompiler -fPIC,-fvisibility=hidden,-Wall,-Wextra \
              $(addprefix -Xcompiler ,$(HARDEN)) $(CUDA_SMALL) $(CUDA_FREE)
# Kernels without batch invariance: they may add in any order (src/cuda/common/order.h). They
# measure what batch invariance costs, and go to a folder of their own, where no program looks for
# them.
CUDA_FREE_ORDER ?=
ifneq ($(CUDA_FREE_ORDER),)
CUDA_FREE  := -DCUDA_FREE_ORDER
$(if $(filter build,$(BUILD)),$(error CUDA_FREE_ORDER needs another BUILD folder: use make cuda-free))
endif
CUDA_LINK   = $(NVCC) -shared -cudart static -Xlinker -z,defs,-z,relro,-z,now,-z,noexecstack $(CUDA_CODE)
# For an aarch64 host: CUDA_ARM is the folder whose lib/ has the CUDA runtime of that host.
ARM_CXX    ?= aarch64-linux-gnu-g++
CUDA_ARM   ?=
ifneq ($(CUDA_ARM),)
CUDA_CROSS := -ccbin $(ARM_CXX) -isystem $(CUDA_HOME)/include
CUDA_LINK   = $(ARM_CXX) -shared -Wl,-z,defs,-z,relro,-z,now,-z,noexecstack
CUDA_LINK_LIBS := $(CUDA_ARM)/lib/libcudart_static.a -ldl -lrt -lpthread -lm
endif
# `make run` builds the plug-in only on a machine with a GPU; CUDA=1 builds it on any machine.
CUDA       ?=
HAS_GPU    := $(wildcard /dev/nvidiactl /dev/dxg)
WANTS_CUDA := $(filter-out run,$(or $(MAKECMDGOALS),build))$(CUDA)$(HAS_GPU)
PLUGIN     := $(if $(CUDA_ARCHS),$(if $(NVCC),$(if $(WANTS_CUDA),$(BUILD)/osprey-cuda.so,no-gpu),no-cuda))

# ---- files ------------------------------------------------------------------------------------

object = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))
in_folder = $(wildcard $(1)/*.$(2) $(1)/*/*.$(2))
APP_SRC   := $(call in_folder,src/cli,c) $(call in_folder,src/serve,c)
CUDA_SRC  := $(call in_folder,src/cuda,c)
LIB_SRC   := $(filter-out $(APP_SRC) $(OTHER_KERNELS) $(CUDA_SRC),$(call in_folder,src/*,c))
UNIT_SRC  := $(wildcard tests/unit/test_*.c)
CHECK_SRC := $(wildcard tests/*.c)
# Folders with parts of test programs.
TEST_FOLDERS := stages load sim answers fault emulated
APP_OBJ   := $(call object,$(filter-out src/cli/main.c,$(APP_SRC))) $(LLHTTP_OBJ)
MAIN_OBJ  := $(call object,$(wildcard src/cli/main.c))
LIB_OBJ   := $(call object,$(LIB_SRC))
FUZZ_SRC  := $(wildcard tests/fuzz/*.c)
LOAD      := $(BUILD)/tests/osprey-fake $(BUILD)/tests/burden
GPU_FAULT := $(BUILD)/tests/gpu_fault.so
NCCL_STANDIN := $(BUILD)/tests/nccl_standin.so
UNITS     := $(patsubst tests/%.c,$(BUILD)/tests/%,$(UNIT_SRC))
CHECKS    := $(patsubst tests/%.c,$(BUILD)/tests/%,$(CHECK_SRC))
# Programs that other tests run with their input.
FILTERS   := measure_streams read_messages dequantize print_logits print_draft measure_drafts \
             measure_head measure_answers measure_exchange measure_fleet
# Programs that measure how much rounding costs: with a sanitizer other tests run all of their code.
WITHOUT_SANITIZER := check_isas check_quantize
RUN_CHECKS := $(filter-out $(addprefix %/,$(FILTERS) \
                $(if $(findstring -fsanitize,$(CFLAGS)),$(WITHOUT_SANITIZER))),$(CHECKS))
CUDA_CHECKS := $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/cuda/*.c))
CUDA_HOST_TEST := $(BUILD)/tests/cuda_host/test_launches
HOST_TESTS := $(if $(filter %.so,$(PLUGIN)),$(CUDA_HOST_TEST))
FUZZERS   := $(patsubst tests/%.c,$(BUILD)/tests/%,$(FUZZ_SRC))
FUZZ_OBJ  := $(patsubst %.c,$(BUILD)/obj/%.o,$(FUZZ_SRC))
PROGRAM   := $(if $(MAIN_OBJ),$(BUILD)/osprey)
SHARED    := $(BUILD)/$(SONAME)
FORMATTED := $(wildcard include/*.h $(foreach e,[ch] cu cuh,src/*/*.$(e) src/*/*/*.$(e)) \
                        bench/*.cu tests/*.[ch] tests/*/*.[ch] examples/*.c)
VENV      := build/venv

# ---- building ---------------------------------------------------------------------------------

.PHONY: build
build: $(BUILD)/libosprey.a $(SHARED) $(PROGRAM) $(PLUGIN) ## Build libosprey and build/osprey (the default)

# Names the missing libraries before the first test program fails to compile.
.PHONY: has-libraries
has-libraries:
	@$(PKG_CONFIG) --exists cmocka $(LIB_PKGS) $(APP_PKGS) || \
	    { echo "libraries for the tests are missing (pkg-config does not find all of cmocka $(LIB_PKGS) $(APP_PKGS));" \
	           "run 'make setup' first" >&2; exit 1; }

.PHONY: tests
tests: has-libraries build $(UNITS) $(CHECKS) $(LOAD) $(GPU_FAULT) $(NCCL_STANDIN) $(FUZZ_OBJ) $(if $(filter %.so,$(PLUGIN)),$(CUDA_CHECKS)) $(HOST_TESTS) ## Build the test programs, too

.PHONY: test-programs test-objects
test-programs: has-libraries $(UNITS) $(RUN_CHECKS)
test-objects: has-libraries $(patsubst %.c,$(BUILD)/obj/%.o,$(UNIT_SRC) $(CHECK_SRC) $(FUZZ_SRC) \
    $(foreach folder,$(TEST_FOLDERS),$(wildcard tests/$(folder)/*.c)))

COMPILE = $(CC) $(CFLAGS) $(HARDEN) $(LANGUAGE) $(WARNINGS) $(INCLUDES)

# A change of the compiler or its flags rebuilds every object.
$(BUILD)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(COMPILE) $(LLHTTP_CFLAGS)' | cmp -s - $@ || echo '$(COMPILE) $(LLHTTP_CFLAGS)' >$@
.PHONY: FORCE

$(BUILD)/obj/src/%.o: src/%.c $(BUILD)/flags
	@mkdir -p $(@D)
	@echo "  CC    src/$*.c"
	@$(COMPILE) $(PART_CFLAGS) -MMD -MP -c -o $@ $<
$(LIB_OBJ): PART_CFLAGS = $(LIB_CFLAGS)
$(foreach k,$(KERNELS),$(eval $(BUILD)/obj/src/cpu/kernels/kernels_$(k).o: \
    PART_CFLAGS = $$(LIB_CFLAGS) $$(call kernel_opt,$(k)) $$(PLAIN) $$(FLAGS_$(k))))
$(call object,$(wildcard src/cpu/matmul/*.c src/cpu/stages/*.c)): PART_CFLAGS = $(LIB_CFLAGS) $(PLAIN)
$(APP_OBJ) $(MAIN_OBJ): PART_CFLAGS = $(LIB_CFLAGS) $(APP_CFLAGS)

# Changes with every commit and when files are modified. Results of measurements contain it. In the
# tarball of `make dist`, tools/commit has the commit.
$(BUILD)/build-id: FORCE
	@mkdir -p $(@D)
	@id=$$(sed '/^.Format/d' tools/commit); id=$${id:-$$(git describe --always --dirty 2>/dev/null)}; echo "$$id" | cmp -s - $@ || echo "$$id" >$@
$(BUILD)/obj/src/cli/options/build_id.o: $(BUILD)/build-id
$(BUILD)/obj/src/cli/options/build_id.o: PART_CFLAGS += -DOSP_BUILD_ID="\"$$(cat $(BUILD)/build-id)\""

# web.o contains the files of the chat page.
$(BUILD)/obj/src/serve/web/web.o: $(wildcard src/serve/web/*)

# Third-party sources: no warnings, and none of the language settings above.
$(LLHTTP_OBJ): $(BUILD)/obj/llhttp/%.o: $(LLHTTP_FOLDER)/%.c $(BUILD)/flags
	@mkdir -p $(@D)
	@echo "  CC    $<"
	@$(CC) $(CFLAGS) $(HARDEN) -fPIC -w $(LLHTTP_CFLAGS) -c -o $@ $<

$(BUILD)/obj/tests/%.o: tests/%.c $(BUILD)/flags
	@mkdir -p $(@D)
	@echo "  CC    tests/$*.c"
	@$(COMPILE) $(TEST_SANITIZE) $(TEST_CFLAGS) -Itests/unit -Itests $(LIB_CFLAGS) $(APP_CFLAGS) -MMD -MP -c -o $@ $<

# Vectors of 512 bits are passed only between functions of one file, so their ABI does not matter.
# At -O2 it takes a minute to compile, at -O1 13 s, at -Og 3 s, which says nothing of the kernels.
EMULATED_x86_64 := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard tests/emulated/*.c))
EMULATED := $(EMULATED_$(ARCH))
$(EMULATED): TEST_CFLAGS += -Wno-psabi -Og
$(EMULATED): override TEST_SANITIZE := # kernels, not test code
$(BUILD)/tests/unit/test_kernels $(BUILD)/tests/unit/test_slices: $(EMULATED)

$(BUILD)/libosprey.a: $(LIB_OBJ)
	@echo "  AR    $@"
	@rm -f $@ && ar rcs $@ $^

$(BUILD)/libapp.a: $(APP_OBJ)
	@echo "  AR    $@"
	@rm -f $@ && ar rcs $@ $^

$(SHARED): $(LIB_OBJ)
	@echo "  LD    $@"
	@$(LINK_SHARED) -Wl,-soname,$(SONAME) -o $@ $^ $(LIB_LIBS)

$(BUILD)/osprey: $(MAIN_OBJ) $(BUILD)/libapp.a $(BUILD)/libosprey.a
	@echo "  LD    $@"
	@$(LINK_PROGRAM) -o $@ $^ -Wl,--as-needed $(APP_LIBS) $(LIB_LIBS)

# The plug-in links its own copy of the parts of src/base that it needs; its fail() calls the
# program's (src/cuda/device/host.c).
CUDA_OBJ := $(call object,$(CUDA_SRC))
CU_OBJ   := $(patsubst %.cu,$(BUILD)/obj/%.cu.o,$(call in_folder,src/cuda,cu))
$(CUDA_OBJ): PART_CFLAGS = $(if $(filter-out /usr,$(CUDA_HOME)),-isystem $(CUDA_HOME)/include) $(CUDA_FREE)
$(CUDA_OBJ): $(BUILD)/cuda-flags

$(BUILD)/obj/src/cuda/device/plugin.o: PART_CFLAGS += -DCUDA_ARCHS='"$(CUDA_ARCHS)"'

$(BUILD)/cuda-flags: FORCE
	@mkdir -p $(@D)
	@echo '$(NVCC) $(CUDA_CODE) $(CUDA_FLAGS)' | cmp -s - $@ || \
	    echo '$(NVCC) $(CUDA_CODE) $(CUDA_FLAGS)' >$@

$(CU_OBJ): $(BUILD)/obj/%.cu.o: %.cu $(BUILD)/cuda-flags
	@mkdir -p $(@D)
	@echo "  NVCC  $<"
	@$(NVCC) $(CUDA_FLAGS) $(CUDA_CROSS) $(CUDA_CODE) $(INCLUDES) -MMD -MP -MF $(@:.o=.d) -c -o $@ $<

$(BUILD)/osprey-cuda.so: $(CUDA_OBJ) $(CU_OBJ) $(BUILD)/obj/src/base/rng.o $(BUILD)/obj/src/base/clock.o \
                         $(BUILD)/obj/src/base/nccl_library.o $(BUILD)/obj/src/backend/tensor.o \
                         $(BUILD)/obj/src/backend/batch.o $(BUILD)/obj/src/backend/program.o
	@echo "  LD    $@"
	@$(CUDA_LINK) -o $@ $^ $(CUDA_LINK_LIBS)
	@chmod go-w $(@D) $(BUILD)/flags $@ # a plug-in that others can write is refused (base/trusted.h)

# Check programs of single kernels; they need a GPU.
CUDA_CHECK_OBJ := $(patsubst tests/%.c,$(BUILD)/obj/tests/%.o,$(wildcard tests/cuda/*.c))
$(CUDA_CHECK_OBJ): TEST_CFLAGS += $(if $(filter-out /usr,$(CUDA_HOME)),-isystem $(CUDA_HOME)/include)
$(BUILD)/kernels.a: $(CU_OBJ)
	@rm -f $@ && ar rcs $@ $^
$(CUDA_CHECKS): $(BUILD)/tests/%: $(BUILD)/obj/tests/%.o $(BUILD)/kernels.a $(BUILD)/obj/src/cuda/launch/kernel_table.o \
                $(BUILD)/obj/src/cuda/launch/launch_list.o \
                $(BUILD)/obj/src/base/rng.o $(BUILD)/obj/src/base/clock.o
	@mkdir -p $(@D)
	@echo "  LD    $@"
	@$(NVCC) -cudart static $(CUDA_CODE) -o $@ $^ -lm

# The test of launch lists needs nvcc for the launchers in .cu files, and no GPU.
CUDA_HOST_OBJ := $(patsubst tests/%.c,$(BUILD)/obj/tests/%.o,$(wildcard tests/cuda_host/*.c))
$(CUDA_HOST_OBJ): TEST_CFLAGS += $(if $(filter-out /usr,$(CUDA_HOME)),-isystem $(CUDA_HOME)/include)
$(CUDA_HOST_TEST): $(CUDA_HOST_OBJ) $(BUILD)/kernels.a $(BUILD)/obj/src/cuda/launch/launch_list.o \
                   $(BUILD)/obj/src/cuda/launch/collective.o \
                   $(BUILD)/obj/src/cuda/device/tuning.o $(BUILD)/obj/src/cuda/device/kernel_config.o \
                   $(BUILD)/obj/src/cuda/device/options.o $(BUILD)/obj/src/cuda/program/step_counts.o \
                   $(filter %/print_list.o %/hazards.o,$(CUDA_OBJ)) \
                   $(foreach o,$(CUDA_OBJ),$(if $(findstring /program/fuse,$(o)),$(o))) \
                   $(BUILD)/libosprey.a
	@mkdir -p $(@D)
	@echo "  LD    $@"
	@$(NVCC) -cudart static $(CUDA_CODE) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(filter-out -pthread,$(LIB_LIBS)) $(CMOCKA_LIBS)

.PHONY: golden-launches
golden-launches: $(CUDA_HOST_TEST) ## Write the golden launch lists of tests/golden/launches
	@$< --write

.PHONY: no-gpu no-cuda cuda-all cuda-arm cuda-free
no-cuda:
	@echo "  the CUDA plug-in is left out: nvcc is not found (NVCC=PATH names it)"

no-gpu:
	@echo "  the CUDA plug-in is left out: this machine has no GPU (CUDA=1 builds it)"

cuda-all: ## Build the CUDA plug-in for every architecture that nvcc knows; list the others
	@known=$$($(NVCC) --list-gpu-code) && has= && lacks= && for a in $(CUDA_ARCHS_ALL); do \
	    case "$$known" in *sm_$${a%a}*) has="$$has $$a" ;; *) lacks="$$lacks $$a" ;; esac; done && \
	    $(MAKE) CUDA_ARCHS="$$has" $(BUILD)/osprey-cuda.so && \
	    echo "built for:$$has; not known to this nvcc:$${lacks:- (nothing)}" && \
	    { $(MAKE) CUDA_ARCHS="$$has" cuda-arm || echo "not built for an aarch64 host"; }

cuda-arm: ## Cross-compile the CUDA plug-in for an aarch64 host, such as the DGX Spark
	@arm=$$(tools/cuda_arm.sh $(NVCC) $(ARM_CXX) build/cuda-arm $(VENV)/bin/python) && \
	    $(MAKE) BUILD=build-aarch64 CC=$(ARM_CXX:g++=gcc) CUDA_ARM=$$arm build-aarch64/osprey-cuda.so && \
	    echo "for an aarch64 host: build-aarch64/osprey-cuda.so"

cuda-free: ## Build build-free/osprey-cuda.so without batch invariance, to measure what it costs
	@$(MAKE) BUILD=build-free CUDA_FREE_ORDER=1 build-free/osprey-cuda.so

# The part of the plug-in that needs no CUDA.
$(BUILD)/tests/unit/test_cuda_tuning: $(BUILD)/obj/src/cuda/device/tuning.o $(BUILD)/obj/src/cuda/device/kernel_config.o \
                   $(BUILD)/obj/src/cuda/device/options.o $(BUILD)/obj/src/cuda/program/step_counts.o \
                                         $(BUILD)/obj/src/cuda/device/options.o

# Where NCCL is called, and what the test loads in its place.
$(BUILD)/tests/unit/test_nccl: $(BUILD)/obj/src/cuda/device/nccl.o | $(NCCL_STANDIN)
$(BUILD)/tests/unit/test_doctor: | $(NCCL_STANDIN)

# The program with a device that computes nothing, and the clients of the load tests (tests/load).
$(BUILD)/obj/tests/load/checked.o: $(BUILD)/obj/src/backend/checked.o $(BUILD)/flags
	@mkdir -p $(@D)
	@objcopy --redefine-sym cpu_backend_ops=fake_backend_ops $< $@
$(BUILD)/tests/osprey-fake: $(MAIN_OBJ) $(BUILD)/obj/tests/load/fake_device.o \
                                 $(BUILD)/obj/tests/load/checked.o $(BUILD)/libapp.a $(BUILD)/libosprey.a
	@mkdir -p $(@D)
	@echo "  LD    $@"
	@$(LINK_PROGRAM) -o $@ $^ -Wl,--as-needed $(APP_LIBS) $(LIB_LIBS)
$(BUILD)/tests/burden: $(patsubst %.c,$(BUILD)/obj/%.o,$(filter-out %/fake_device.c,$(wildcard tests/load/*.c))) \
                            $(BUILD)/libosprey.a
	@mkdir -p $(@D)
	@echo "  LD    $@"
	@$(LINK_PROGRAM) -o $@ $^ $(LIB_LIBS)

# Tests preload it into the program to make a GPU fail (tests/fault). Building it needs no CUDA.
$(GPU_FAULT): $(BUILD)/obj/tests/fault/gpu_fault.o
	@mkdir -p $(@D)
	@echo "  LD    $@"
	@$(LINK_SHARED) -o $@ $^ -ldl -pthread

$(NCCL_STANDIN): $(BUILD)/obj/tests/fault/nccl_standin.o
	@mkdir -p $(@D)
	@echo "  LD    $@"
	@$(LINK_SHARED) -o $@ $^ -pthread

# The parts of the simulator.
SIM_PARTS := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard tests/sim/*.c))
$(BUILD)/tests/sim_engine: $(SIM_PARTS)

# The parts of check_answers.
ANSWER_PARTS := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard tests/answers/*.c))
$(BUILD)/tests/check_answers: $(ANSWER_PARTS)

# The parts of check_backend.
CHECK_PARTS := $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard tests/stages/*.c))
$(BUILD)/tests/check_backend: $(CHECK_PARTS)

# These tests inject faults: calls of the wrapped functions go to the test first.
$(BUILD)/tests/unit/test_worker: TEST_LDFLAGS = -Wl,--wrap=model_step
, := ,
ALLOCATING := malloc calloc realloc aligned_alloc mem_new mem_strdup mem_strndup mem_grow
$(BUILD)/tests/unit/test_worker_frames: TEST_LDFLAGS = -Wl,--wrap=mem_try_array
$(BUILD)/tests/unit/test_no_memory: TEST_LDFLAGS = $(addprefix -Wl$(,)--wrap=,$(ALLOCATING))
$(BUILD)/tests/unit/test_step_memory: TEST_LDFLAGS = $(addprefix -Wl$(,)--wrap=,$(filter-out mem_%,$(ALLOCATING)))

$(UNITS) $(CHECKS): $(BUILD)/tests/%: $(BUILD)/obj/tests/%.o $(BUILD)/libapp.a $(BUILD)/libosprey.a
	@mkdir -p $(@D)
	@echo "  LD    $@"
	@$(LINK_PROGRAM) $(TEST_LDFLAGS) -o $@ $(filter %.o,$^) $(filter %.a,$^) \
	    -Wl,--as-needed $(APP_LIBS) $(LIB_LIBS) $(CMOCKA_LIBS)

# Needs a compiler with libFuzzer; see the goal fuzz.
$(FUZZERS): $(BUILD)/tests/%: $(BUILD)/obj/tests/%.o $(BUILD)/libapp.a $(BUILD)/libosprey.a
	@mkdir -p $(@D)
	@echo "  LD    $@"
	@$(LINK_PROGRAM) -fsanitize=fuzzer -o $@ $^ -Wl,--as-needed $(APP_LIBS) $(LIB_LIBS)

-include $(patsubst %.o,%.d,$(LIB_OBJ) $(APP_OBJ) $(MAIN_OBJ) $(CUDA_OBJ) $(CU_OBJ))
-include $(patsubst %.c,$(BUILD)/obj/%.d,$(UNIT_SRC) $(CHECK_SRC) $(FUZZ_SRC) \
    $(foreach folder,$(TEST_FOLDERS) cuda cuda_host,$(wildcard tests/$(folder)/*.c)))

.DEFAULT_GOAL := build

# ---- running and testing ----------------------------------------------------------------------

.PHONY: setup
setup: $(VENV)/stamp ## Install packages (apt) and the Python test clients; other goals do it too

$(VENV)/stamp: tests/requirements.txt build/setup/test.mk
	@tools/setup_python.sh $(VENV) tests/requirements.txt
	@touch $@

.PHONY: run
run: build ## Set up, build, serve the bundled model, ask it a question; Ctrl-C ends it
	@tools/run_demo.sh $(BUILD)/osprey

.PHONY: bench
bench: build ## Measure the bundled model: speed, memory, time per stage
	@$(BUILD)/osprey bench --stages

.PHONY: bench-text
bench-text: setup $(BUILD)/tests/check_tokenizer ## Measure the tokenizer and tiktoken on one core
	@$(VENV)/bin/python bench/tokenizer_speed.py

# tests/run_all makes the goal setup while it builds: pip waits for the network most of the time.
.PHONY: test
test: build/setup/test.mk ## Set up, build, and run every test: "N passed, N failed" (about 28 minutes on 2 cores)
	@MAKE='$(MAKE)' tests/run_all

# Browser tests: they need the distribution's chromium, and have a Python environment of their own.
WEB_VENV := build/venv-web
$(WEB_VENV)/stamp: tests/web/requirements.txt
	@tools/setup_python.sh $(WEB_VENV) tests/web/requirements.txt
	@touch $@

.PHONY: test-web
test-web: build $(WEB_VENV)/stamp ## Optional: the chat page in headless Chromium (apt-get install chromium)
	@$(WEB_VENV)/bin/python -m pytest -q -p no:cacheprovider --timeout 300 tests/web

.PHONY: test-quick
test-quick: tests check-layers check-functions check-words check-format units ## Only the source checks and the unit tests

.PHONY: units
units: $(UNITS) $(HOST_TESTS)
	@tests/run_units $(UNITS) $(HOST_TESTS)

.PHONY: checks
checks: $(RUN_CHECKS)
	@CHECK_UNTIMED=1 tests/run_checks $(RUN_CHECKS)

# Variants are the same build in another folder. With sanitizers, -O2 -g takes three times as long
# to compile as -O1 -g1. Kernels, which take most of the time of the tests, run twice as fast at
# -O2; there the address sanitizer finds what UBSan's checks of pointers would. Under sanitizers
# CHECK_QUICK makes long programs run every kernel and every path over fewer texts, rows and models
# (tests/*.c and test_forward.c say which); the plain build checks the error bounds. The code of the
# tests has no UBSan: a quarter of the time to compile it.
SANITIZE := -O1 -g1 -fno-omit-frame-pointer -fno-sanitize-recover=all
ASAN_KERNELS := -O2 -fno-sanitize=null,object-size,pointer-overflow
ASAN     := BUILD=build-asan CUDA_ARCHS= KERNEL_OPT='$(ASAN_KERNELS)' CFLAGS='$(SANITIZE) -fsanitize=address,undefined' \
            TEST_SANITIZE=-fno-sanitize=undefined
TSAN     := BUILD=build-tsan CUDA_ARCHS= KERNEL_OPT=-O2 CFLAGS='$(SANITIZE) -fsanitize=thread'
# Tests that start threads, found by the headers and functions that they use. test_quality is left
# out: it takes minutes, and its threads are the engine's, which other tests cover. Old TSan
# runtimes fail under strong address space randomisation, hence setarch -R.
THREADED_SRC := $(filter-out %/test_quality.c %/test_no_memory.c %/test_poison.c %/test_replicas.c,$(shell grep -lE \
                  'pthread\.h|base/pool\.h|osp_engine_open|engine_fixture\.h|http_fixture\.h' $(UNIT_SRC) /dev/null))

export ASAN_OPTIONS  = allocator_may_return_null=1:detect_leaks=1
export TSAN_OPTIONS  = allocator_may_return_null=1:halt_on_error=1
export UBSAN_OPTIONS = print_stacktrace=1

# The builds alone: `make test` makes them while the Python tests wait for timers and servers.
.PHONY: asan-build tsan-build
asan-build:
	@$(MAKE) $(ASAN) test-programs
tsan-build:
	@$(MAKE) $(TSAN) UNIT_SRC='$(THREADED_SRC)' CHECK_SRC= test-programs

.PHONY: asan asan-units asan-checks
asan: ## Build with address and undefined-behaviour sanitizers; run unit tests and check programs
	@$(MAKE) asan-units; code=$$?; $(MAKE) asan-checks && exit $$code
asan-units: asan-build
	@CHECK_QUICK=1 UNIT_LIMIT_SCALE=5 UNIT_TOGETHER=1 $(MAKE) $(ASAN) units
asan-checks: asan-build
	@CHECK_QUICK=1 CHECK_LIMIT_S=1800 $(MAKE) $(ASAN) checks

.PHONY: tsan
tsan: tsan-build ## Build with the thread sanitizer; run the unit tests that start threads
	@if setarch -R true 2>/dev/null; then export UNIT_WRAPPER='setarch -R'; fi; \
	    CHECK_QUICK=1 UNIT_LIMIT_SCALE=5 $(MAKE) $(TSAN) UNIT_SRC='$(THREADED_SRC)' CHECK_SRC= units

# Links only the program and the library: the test programs have no other code than their objects.
.PHONY: check-clang
check-clang: ## Compile everything with clang, warnings as errors
	@$(MAKE) BUILD=build-clang CUDA_ARCHS= CC=clang CFLAGS=-O0 KERNEL_OPT=-O0 build test-objects

# The NEON ISAs, cross-compiled and run by an emulator: the kernels' unit tests at every ISA, and
# the stages against their oracle at the best one. That ISA shares everything with "neon" except the
# matmul of many tokens. The programs need only the C library.
NEON_CC  ?= aarch64-linux-gnu-gcc
# pauth-impdef: qemu signs return addresses (-mbranch-protection) by a hash of its own instead of
# Arm's, which takes three quarters of the time.
NEON_RUN ?= qemu-aarch64 -cpu max,pauth-impdef=on
NEON     := BUILD=build-neon CUDA_ARCHS= CC=$(NEON_CC) TEST_CFLAGS=-Itests/cross
ALONE     := $(BUILD)/alone/test_kernels $(BUILD)/alone/check_backend
ALONE_OBJ := $(call object,$(filter src/base/% src/backend/% src/cpu/%,$(LIB_SRC)))
$(BUILD)/alone/test_kernels: $(BUILD)/obj/tests/unit/test_kernels.o $(EMULATED)
$(BUILD)/alone/check_backend: $(BUILD)/obj/tests/check_backend.o $(CHECK_PARTS)
$(ALONE): $(ALONE_OBJ)
	@mkdir -p $(@D)
	@echo "  LD    $@"
	@$(CC) $(CFLAGS) -static $(HARDEN_LINK) -o $@ $^ -lm -pthread

.PHONY: alone check-neon
alone: $(ALONE)
check-neon: ## Cross-compile the NEON kernels and run their tests under qemu-user
	@$(MAKE) $(NEON) alone
	@$(MAKE) -j2 neon-units neon-stages
.PHONY: neon-units neon-stages
neon-units:
	@UNIT_WRAPPER='$(NEON_RUN)' UNIT_LIMIT_SCALE=5 UNIT_JOBS=1 \
	    tests/run_units build-neon/alone/test_kernels
neon-stages:
	@CHECK_QUICK=1 $(NEON_RUN) build-neon/alone/check_backend cpu 2 neon-i8mm

.PHONY: check-layers
check-layers: ## Check that includes follow the layers of ARCHITECTURE.md
	@tools/check_layers

.PHONY: check-functions
check-functions: ## Check that functions have at most 60 lines
	@tools/check_functions

.PHONY: check-words
check-words: ## Check that no replaced name and no long line is in the tree
	@tools/check_words

# Releases of clang-format differ in details; 14 is in Debian 12 and in Ubuntu 24.04.
CLANG_FORMAT ?= $(shell command -v clang-format-14 || echo clang-format)
.PHONY: check-format
check-format: ## Check that the C files have the layout of .clang-format
	@$(CLANG_FORMAT) --dry-run -Werror $(FORMATTED)
	@echo "format: $(words $(FORMATTED)) files"

.PHONY: format
format: ## Lay out the C files by .clang-format
	@$(CLANG_FORMAT) -i $(FORMATTED)

# build-fuzz/corpus keeps the inputs that were found.
FUZZ_SECONDS ?= 60
FUZZ := BUILD=build-fuzz CUDA_ARCHS= CC=clang KERNEL_OPT=-O1 \
        CFLAGS='$(SANITIZE) -fsanitize=fuzzer-no-link -fsanitize=address,undefined'
.PHONY: structured
structured: build setup ## Optional: 1,000 random strict schemas and 1,000 tool requests, each answer validated
	@STRUCTURED=1000 $(VENV)/bin/python -m pytest -q -s -p no:cacheprovider --timeout 3600 \
	    tests/http/test_structured.py::test_random_schemas tests/http/test_tools.py::test_requests

.PHONY: fuzz fuzzers
fuzzers: $(FUZZERS)
fuzz: ## Optional: libFuzzer on each of tests/fuzz for FUZZ_SECONDS (60); needs libclang-rt-dev
	@$(MAKE) $(FUZZ) fuzzers
	@for name in $(notdir $(FUZZERS)); do \
	    mkdir -p build-fuzz/corpus/$$name && echo "$$name: $(FUZZ_SECONDS) s" && \
	    build-fuzz/tests/fuzz/$$name -max_total_time=$(FUZZ_SECONDS) -verbosity=0 \
	        -print_final_stats=1 -artifact_prefix=build-fuzz/$$name- build-fuzz/corpus/$$name \
	        || exit 1; \
	done
	@$(MAKE) fuzz-harmony

.PHONY: pull-soak
SECONDS ?= 300
pull-soak: build setup ## Optional: pull from a hub with random faults, with kills, for SECONDS (300)
	@cd tests/pull && $(CURDIR)/$(VENV)/bin/python soak.py --seconds $(SECONDS)

# A failure prints the number of the stream: build/tests/check_answers 1 NUMBER
HARMONY_STREAMS ?= 10000000
.PHONY: fuzz-harmony
# Tests with the OpenAI Agents SDK, whose many packages have a Python environment of their own.
AGENTS_VENV := build/venv-agents
$(AGENTS_VENV)/stamp: tests/agents/requirements.txt build/setup/test.mk
	@tools/setup_python.sh $(AGENTS_VENV) $<
	@touch $@

.PHONY: test-agents
test-agents: build $(BUILD)/tests/osprey-fake $(AGENTS_VENV)/stamp ## Optional: the OpenAI Agents SDK against a scripted server
	@$(AGENTS_VENV)/bin/python -m pytest -q -p no:cacheprovider --timeout 300 tests/agents

fuzz-harmony: $(BUILD)/tests/check_answers ## Optional: parse ten million random and mutated answers, on all CPUs
	@$< $(HARMONY_STREAMS)

# docs/compat.md describes the suites. SUITES is a folder with the suites that are in no registry.
COMPAT_VENV := build/venv-compat
$(COMPAT_VENV)/stamp: tests/compat/requirements.txt build/setup/test.mk
	@tools/setup_python.sh $(COMPAT_VENV) $<
	@touch $@
$(COMPAT_VENV)-clients/stamp: tests/compat/clients/requirements.txt build/setup/test.mk
	@tools/setup_python.sh $(COMPAT_VENV)-clients $<
	@touch $@

.PHONY: test-compat
test-compat: build $(CHECKS) $(COMPAT_VENV)/stamp $(COMPAT_VENV)-clients/stamp ## Optional: third-party suites and clients (40 minutes; SUITES=DIR: see docs/compat.md)
	@$(COMPAT_VENV)/bin/python -m pytest -rs -p no:cacheprovider -p no:asyncio --timeout 7200 \
	    tests/compat --ignore tests/compat/clients
	@$(COMPAT_VENV)-clients/bin/python -m pytest -rs -p no:cacheprovider --timeout 300 \
	    tests/compat/clients

.PHONY: kills
kills: setup build ## Optional: kill the server's worker process KILLS times (1,000) during streams
	@KILLS=$(or $(KILLS),1000) TOLD_S=1 $(VENV)/bin/python -m pytest -q -p no:cacheprovider \
	    tests/http/test_worker.py -k test_killed_in_mid_stream

.PHONY: ranks
ranks: setup build ## Optional: 200 requests on 1, 2 and 4 CPU ranks, 200 killed or stopped ranks (15 minutes)
	@RANK_REQUESTS=$(or $(REQUESTS),200) RANK_ROUNDS=$(or $(ROUNDS),100) TOLD_S=1 $(VENV)/bin/python -m pytest -q \
	    -p no:cacheprovider tests/http/test_ranks.py tests/http/test_ranks_hosts.py

# `make test` has a short form of it (tests/http/test_load.py).
LOAD_MINUTES ?= 10
LOAD_OUT     ?= $(BUILD)/load.json
.PHONY: load
load: build $(LOAD) ## Optional: the load test of docs/reliability.md at full size (15 minutes, 10,000 streams)
	@BUILD=$(abspath $(BUILD)) tests/load/load.py --minutes $(LOAD_MINUTES) --out $(LOAD_OUT)

# A violation prints the command that repeats its schedule.
SIM_SCHEDULES ?= 1000000
.PHONY: sim
sim: $(BUILD)/tests/sim_engine ## Optional: simulate a million schedules of the engine, on all CPUs
	@n=$$(nproc); seq 0 $$((n - 1)) | xargs -P $$n -I{} sh -c \
	    'exec $< $$(($(SIM_SCHEDULES) / '$$n')) $$(({} * ($(SIM_SCHEDULES) / '$$n') + 1))'

DRAFT_REQUESTS ?= 1000
.PHONY: drafts
drafts: $(BUILD)/tests/check_drafts ## Optional: 1,000 mixed requests with and without each drafter: equal answers
	@$< $(DRAFT_REQUESTS)

.PHONY: sim-bugs
sim-bugs: $(BUILD)/tests/sim_engine ## Optional: plant bugs in the engine; the simulator must find each one
	@tests/sim_bugs $(BUILD) '$(COMPILE)'

.PHONY: test-large
test-large: build ## Optional: load a generated checkpoint of gpt-oss-20b's shape (14 GB of disk)
	@tests/large/run $(BUILD)/osprey

# Tests of deploy/: a Debian that boots, the package, the image, Prometheus, the Helm chart.
DEPLOY_VENV := build/venv-deploy
$(DEPLOY_VENV)/stamp: tests/deploy/requirements.txt
	@tools/setup_python.sh $(DEPLOY_VENV) $<
	@touch $@

.PHONY: test-deploy manifests
test-deploy: build $(DEPLOY_VENV)/stamp ## Optional: package, image, monitoring and chart of deploy/ (15 minutes; root for the first two)
	@$(DEPLOY_VENV)/bin/python -m pytest -rs -p no:cacheprovider --timeout 3600 tests/deploy

manifests: $(DEPLOY_VENV)/stamp ## Write osprey.yaml and ranks.yaml of deploy/kubernetes from the Helm chart
	@$(DEPLOY_VENV)/bin/python deploy/helm/render.py >deploy/kubernetes/osprey.yaml
	@$(DEPLOY_VENV)/bin/python deploy/helm/render.py deploy/helm/ranks.yaml >deploy/kubernetes/ranks.yaml

# ---- installing and packing -------------------------------------------------------------------

BINDIR     := $(DESTDIR)$(PREFIX)/bin
LIBDIR     := $(DESTDIR)$(PREFIX)/lib
INCLUDEDIR := $(DESTDIR)$(PREFIX)/include
MODELDIR   := $(DESTDIR)$(PREFIX)/share/osprey/models/osprey-nano
MANDIR     := $(DESTDIR)$(PREFIX)/share/man/man1
PUBLIC_H   := $(wildcard include/*.h)
MODEL      := models/osprey-nano
HEAD       := models/osprey-nano-eagle3

# The installed static library: one object in which only the public functions are global.
$(BUILD)/public/libosprey.a: $(LIB_OBJ)
	@mkdir -p $(@D)
	@echo "  AR    $@"
	@ld -r -o $(@D)/osprey.o $^ && objcopy --localize-hidden $(@D)/osprey.o
	@rm -f $@ && ar rcs $@ $(@D)/osprey.o

# The manual page comes from the tables of commands and options.
$(BUILD)/osprey.1: $(BUILD)/osprey
	@$< help --man >$@

.PHONY: install
install: build $(BUILD)/public/libosprey.a $(BUILD)/osprey.1 ## Install below DESTDIR/PREFIX (PREFIX: /usr/local)
	@echo "installing below $(DESTDIR)$(PREFIX)"
	@install -d $(BINDIR) $(LIBDIR)/pkgconfig $(INCLUDEDIR) $(MODELDIR) $(MODELDIR)-eagle3 $(MANDIR)
	@install -m 755 $(BUILD)/osprey $(BINDIR)/osprey
	@install -m 644 $(BUILD)/public/libosprey.a $(LIBDIR)/libosprey.a
	@install -m 755 $(SHARED) $(LIBDIR)/libosprey.so.$(VERSION)
	@ln -sf libosprey.so.$(VERSION) $(LIBDIR)/$(SONAME)
	@ln -sf $(SONAME) $(LIBDIR)/libosprey.so
	@install -m 644 $(PUBLIC_H) $(INCLUDEDIR)
	@install -m 644 $(MODEL)/* $(MODELDIR)
	@install -m 644 $(HEAD)/* $(MODELDIR)-eagle3
	@install -m 644 $(BUILD)/osprey.1 $(MANDIR)/osprey.1
	@[ ! -f $(BUILD)/osprey-cuda.so ] || \
	    install -D -m 755 $(BUILD)/osprey-cuda.so $(LIBDIR)/osprey/osprey-cuda.so
	@sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(VERSION)|' tools/osprey.pc.in \
	    >$(LIBDIR)/pkgconfig/osprey.pc

SYSCONFDIR ?= /etc
ETCDIR     := $(DESTDIR)$(SYSCONFDIR)/osprey
UNITDIR    := $(DESTDIR)$(PREFIX)/lib/systemd/system
SYSUSERS   := $(DESTDIR)$(PREFIX)/lib/sysusers.d/osprey.conf

.PHONY: install-service
install-service: ## Install the systemd unit, the user's definition and /etc/osprey/serve.conf
	@install -d $(UNITDIR) $(dir $(SYSUSERS)) $(ETCDIR)
	@sed -e 's|@PREFIX@|$(PREFIX)|g' -e 's|@SYSCONFDIR@|$(SYSCONFDIR)|g' \
	    deploy/systemd/osprey.service.in >$(UNITDIR)/osprey.service
	@install -m 644 deploy/systemd/osprey.sysusers $(SYSUSERS)
	@[ -f $(ETCDIR)/serve.conf ] || install -m 644 deploy/systemd/serve.conf $(ETCDIR)/serve.conf
	@echo "next: systemd-sysusers && systemctl daemon-reload && systemctl enable --now osprey"

.PHONY: uninstall
uninstall: ## Remove the installed files, the service included; the configuration stays
	@rm -f $(BINDIR)/osprey $(LIBDIR)/libosprey.a $(LIBDIR)/libosprey.so $(LIBDIR)/$(SONAME) \
	    $(LIBDIR)/libosprey.so.$(VERSION) $(LIBDIR)/pkgconfig/osprey.pc $(MANDIR)/osprey.1 \
	    $(LIBDIR)/osprey/osprey-cuda.so $(UNITDIR)/osprey.service $(SYSUSERS) \
	    $(patsubst include/%,$(INCLUDEDIR)/%,$(PUBLIC_H))
	@rm -rf $(MODELDIR) $(MODELDIR)-eagle3
	@rmdir -p --ignore-fail-on-non-empty $(dir $(MODELDIR)) $(LIBDIR)/osprey 2>/dev/null || true

.PHONY: bundle
bundle: tests ## Pack dist/osprey-bundle: program, libraries, model, tests; runs on any x86-64 Linux
	@tools/bundle.sh $(BUILD) dist/osprey-bundle

.PHONY: dist deb
dist: ## Pack the last commit as dist/osprey-VERSION.tar.gz; the same bytes on every machine
	@tools/dist.sh $(VERSION) dist

deb: dist ## Build the Debian packages dist/deb/*.deb from the last commit (needs debhelper)
	@deploy/build_deb.sh $(VERSION) dist $(DEB_OPTIONS)

.PHONY: clean
clean: ## Remove the build folders, except for the Python environments
	@rm -rf build-* dist
	@[ ! -d build ] || find build -mindepth 1 -maxdepth 1 ! -name "venv*" -exec rm -rf {} +

.PHONY: help
help: ## List the targets
	@echo "osprey $(VERSION)"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | \
	    awk -F'|' '{ printf "%-20s %s\n", $$1, $$2 }'
	@echo "Variables: CC=$(CC) CFLAGS='$(CFLAGS)' BUILD=$(BUILD) PREFIX=$(PREFIX) DESTDIR=$(DESTDIR)"
