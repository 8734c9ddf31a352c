# The one Makefile of osprey. `make help` lists the targets; docs/building.md explains them.
#
# Folders under src/ decide where a file goes: cli and serve make the program, everything else
# libosprey. Adding a .c file, a tests/unit/test_*.c or a tests/check_*.c needs no edit here.

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

# ---- what the set-up made ---------------------------------------------------------------------
# Goals that promise to work on a bare machine include a file that tools/setup.sh writes: make builds
# it first, when it is missing or old, and then starts over, so that everything below sees the
# installed packages.

BARE_RUN  := run
BARE_TEST := setup test test-quick asan tsan check-clang check-format bundle
ifneq ($(filter $(BARE_TEST),$(MAKECMDGOALS)),)
include build/setup/test.mk
else ifneq ($(filter $(BARE_RUN),$(MAKECMDGOALS)),)
include build/setup/run.mk
endif

build/setup/%.mk: tools/setup.sh
	@tools/setup.sh $* $@

# ---- third-party libraries --------------------------------------------------------------------
# Asked from pkg-config once, when a recipe first needs them.

once = $(eval $(1) := $(shell $(2)))$($(1))
PKG_CONFIG  ?= pkg-config
LIB_PKGS    := jansson
APP_PKGS    := libuv libedit
LIB_CFLAGS   = $(call once,LIB_CFLAGS,$(PKG_CONFIG) --cflags $(LIB_PKGS))
LIB_LIBS     = $(call once,LIB_LIBS,$(PKG_CONFIG) --libs $(LIB_PKGS)) -lm -pthread
APP_CFLAGS   = $(call once,APP_CFLAGS,$(PKG_CONFIG) --cflags $(APP_PKGS)) $(LLHTTP_CFLAGS)
APP_LIBS     = $(call once,APP_LIBS,$(PKG_CONFIG) --libs $(APP_PKGS)) $(LLHTTP_LIBS)
CMOCKA_LIBS  = $(call once,CMOCKA_LIBS,$(PKG_CONFIG) --libs cmocka)

# llhttp is C sources in Debian 12 (node-llhttp) and a library in later releases.
LLHTTP_FOLDER := $(firstword $(wildcard /usr/share/llhttp))
ifneq ($(LLHTTP_FOLDER),)
LLHTTP_OBJ    := $(patsubst $(LLHTTP_FOLDER)/%.c,$(BUILD)/obj/llhttp/%.o,\
                   $(wildcard $(LLHTTP_FOLDER)/*.c))
LLHTTP_CFLAGS := -isystem /usr/share/include/llhttp -DLLHTTP_STRICT_MODE=1
LLHTTP_LIBS   :=
else
LLHTTP_CFLAGS := -DLLHTTP_STRICT_MODE=1
LLHTTP_LIBS   := -lllhttp
endif

# ---- files ------------------------------------------------------------------------------------

object = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))
APP_SRC   := $(wildcard src/cli/*.c src/serve/*.c)
LIB_SRC   := $(filter-out $(APP_SRC),$(wildcard src/*/*.c))
UNIT_SRC  := $(wildcard tests/unit/test_*.c)
CHECK_SRC := $(wildcard tests/check_*.c)
APP_OBJ   := $(call object,$(filter-out src/cli/main.c,$(APP_SRC))) $(LLHTTP_OBJ)
MAIN_OBJ  := $(call object,$(wildcard src/cli/main.c))
LIB_OBJ   := $(call object,$(LIB_SRC))
UNITS     := $(patsubst tests/%.c,$(BUILD)/tests/%,$(UNIT_SRC))
CHECKS    := $(patsubst tests/%.c,$(BUILD)/tests/%,$(CHECK_SRC))
PROGRAM   := $(if $(MAIN_OBJ),$(BUILD)/osprey)
SHARED    := $(BUILD)/$(SONAME)
FORMATTED := $(wildcard include/*.h src/*/*.[ch] tests/*.[ch] tests/*/*.[ch] examples/*.c)
VENV      := build/venv

# ---- building ---------------------------------------------------------------------------------

.PHONY: build
build: $(BUILD)/libosprey.a $(SHARED) $(PROGRAM) ## Build libosprey and build/osprey (the default)

.PHONY: tests
tests: build $(UNITS) $(CHECKS) ## Build the test programs too

COMPILE = $(CC) $(CFLAGS) $(LANGUAGE) $(WARNINGS) $(INCLUDES)

# Objects are made again when the compiler or its flags change.
$(BUILD)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(COMPILE) $(LLHTTP_CFLAGS)' | cmp -s - $@ || echo '$(COMPILE) $(LLHTTP_CFLAGS)' >$@
.PHONY: FORCE

$(BUILD)/obj/src/%.o: src/%.c $(BUILD)/flags
	@mkdir -p $(@D)
	@echo "  CC    src/$*.c"
	@$(COMPILE) $(PART_CFLAGS) -MMD -MP -c -o $@ $<
$(LIB_OBJ): PART_CFLAGS = $(LIB_CFLAGS)
$(APP_OBJ) $(MAIN_OBJ): PART_CFLAGS = $(LIB_CFLAGS) $(APP_CFLAGS)

# Not ours: no warnings, and none of our language settings.
$(BUILD)/obj/llhttp/%.o: $(LLHTTP_FOLDER)/%.c $(BUILD)/flags
	@mkdir -p $(@D)
	@echo "  CC    $<"
	@$(CC) $(CFLAGS) -fPIC -w $(LLHTTP_CFLAGS) -c -o $@ $<

$(BUILD)/obj/tests/%.o: tests/%.c $(BUILD)/flags
	@mkdir -p $(@D)
	@echo "  CC    tests/$*.c"
	@$(COMPILE) -Itests/unit -Itests $(LIB_CFLAGS) $(APP_CFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/libosprey.a: $(LIB_OBJ)
	@echo "  AR    $@"
	@rm -f $@ && ar rcs $@ $^

$(BUILD)/libapp.a: $(APP_OBJ)
	@echo "  AR    $@"
	@rm -f $@ && ar rcs $@ $^

$(SHARED): $(LIB_OBJ)
	@echo "  LD    $@"
	@$(CC) $(CFLAGS) -shared -Wl,-soname,$(SONAME) -o $@ $^ $(LIB_LIBS)

$(BUILD)/osprey: $(MAIN_OBJ) $(BUILD)/libapp.a $(BUILD)/libosprey.a
	@echo "  LD    $@"
	@$(CC) $(CFLAGS) -o $@ $^ -Wl,--as-needed $(APP_LIBS) $(LIB_LIBS)

$(UNITS) $(CHECKS): $(BUILD)/tests/%: $(BUILD)/obj/tests/%.o $(BUILD)/libapp.a $(BUILD)/libosprey.a
	@mkdir -p $(@D)
	@echo "  LD    $@"
	@$(CC) $(CFLAGS) -o $@ $^ -Wl,--as-needed $(APP_LIBS) $(LIB_LIBS) $(CMOCKA_LIBS)

-include $(patsubst %.o,%.d,$(LIB_OBJ) $(APP_OBJ) $(MAIN_OBJ))
-include $(patsubst %.c,$(BUILD)/obj/%.d,$(UNIT_SRC) $(CHECK_SRC))

.DEFAULT_GOAL := build

.PHONY: units
units: $(UNITS) ## Run the unit tests of this build alone
	@tests/run_units $(UNITS)

.PHONY: clean
clean: ## Remove what was built, but not the Python environment
	@rm -rf build-* dist
	@[ ! -d build ] || find build -mindepth 1 -maxdepth 1 ! -name venv -exec rm -rf {} +
