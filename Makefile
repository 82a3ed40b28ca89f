# SPDX-License-Identifier: MIT
# kmerformer: DNA sequences to vectors. `make help` lists the targets, `make info` what was found.

# ---------------------------------------------------------------- knobs ----------------------

# CC=clang             the C compiler; CXX is used by a test only
# CFLAGS= LDFLAGS=     yours, after ours, so they win
BUILD  ?= build#       where everything that is made goes; other settings deserve another folder
WERROR ?= 0#           1: a warning is an error
NATIVE ?= 0#           1: for this processor alone (-march=native); results may differ in the last bits
MPI    ?= 0#           1: pretrain on several processes; wants an MPI's development files
ISAL   ?= 1#           0: zlib in place of ISA-L, even where that is found
SAN    ?=#             address,undefined: build with these sanitizers
V      ?= 0#           1: show whole commands
prefix ?= /usr/local#  where `make install` puts things; PREFIX says the same
DESTDIR ?=#            in front of prefix, for packagers

ifeq ($(origin PREFIX),command line)
prefix := $(PREFIX)
endif
bindir     ?= $(prefix)/bin
libdir     ?= $(prefix)/lib
includedir ?= $(prefix)/include
datadir    ?= $(prefix)/share
mandir     ?= $(datadir)/man

# A comment that follows a value on its line leaves blanks behind.
override BUILD   := $(strip $(BUILD))
override prefix  := $(strip $(prefix))
override DESTDIR := $(strip $(DESTDIR))
# To make and to the shell it would be two folders, of which the first is somebody else's.
$(foreach name,BUILD DESTDIR prefix bindir libdir includedir datadir mandir, \
    $(if $(word 2,$($(name))),$(error $(name) is '$($(name))': it cannot have a blank in it)))
Q := $(if $(filter 1,$(V)),,@)

# ---------------------------------------------------------------- probes ---------------------

# $(call probe,PKG-CONFIG NAME,MIN VERSION,HEADER,LIBRARY): "pkg" if pkg-config knows the library,
# "cc" if the compiler finds it by itself, else nothing.
probe = $(shell \
    if pkg-config --exists '$(1)$(if $(2), >= $(2))' 2>/dev/null; then echo pkg; \
    elif ! pkg-config --exists '$(1)' 2>/dev/null && mkdir -p $(BUILD) && \
        printf '\043include <stddef.h>\n\043include <stdio.h>\n\043include <$(3)>\nint main(void) { return 0; }\n' | \
        $(CC) -x c - -o $(BUILD)/probe $(CFLAGS) $(LDFLAGS) -l$(4) 2>/dev/null; \
    then echo cc; rm -f $(BUILD)/probe; fi)

HAVE_HTSLIB   := $(call probe,htslib,1.16,htslib/sam.h,hts)
HAVE_OPENBLAS := $(call probe,openblas,,cblas.h,openblas)
HAVE_ZLIB     := $(call probe,zlib,,zlib.h,z)
HAVE_JANSSON  := $(call probe,jansson,,jansson.h,jansson)
HAVE_CHECK    := $(call probe,check,,check.h,check)
HAVE_ISAL     := $(if $(filter 1,$(ISAL)),$(call probe,libisal,2.30,isa-l.h,isal))

MISSING := $(if $(HAVE_HTSLIB),,libhts-dev) $(if $(HAVE_OPENBLAS),,libopenblas-dev) \
           $(if $(HAVE_ZLIB),,zlib1g-dev) $(if $(HAVE_JANSSON),,libjansson-dev)
MISSING := $(strip $(MISSING))

BY_PKG := $(if $(filter pkg,$(HAVE_HTSLIB)),htslib) $(if $(filter pkg,$(HAVE_OPENBLAS)),openblas) \
          $(if $(filter pkg,$(HAVE_ZLIB)),zlib) $(if $(filter pkg,$(HAVE_JANSSON)),jansson) \
          $(if $(filter pkg,$(HAVE_ISAL)),libisal)
BY_PKG := $(strip $(BY_PKG))
BY_CC  := $(if $(filter cc,$(HAVE_HTSLIB)),-lhts) $(if $(filter cc,$(HAVE_OPENBLAS)),-lopenblas) \
          $(if $(filter cc,$(HAVE_ZLIB)),-lz) $(if $(filter cc,$(HAVE_JANSSON)),-ljansson) \
          $(if $(filter cc,$(HAVE_ISAL)),-lisal)
BY_CC  := $(strip $(BY_CC)) -lm -lpthread

# Whichever MPI pkg-config knows: the system's choice, Open MPI, MPICH.
ifeq ($(MPI),1)
MPI_PKG := $(firstword $(foreach name,mpi-c ompi-c ompi mpich,$(shell pkg-config --exists $(name) 2>/dev/null && echo $(name))))
MISSING += $(if $(MPI_PKG),,libopenmpi-dev)
BY_PKG  += $(MPI_PKG)
endif

# Foreign headers are not held to our warnings.
LIB_CFLAGS := $(if $(BY_PKG),$(patsubst -I%,-isystem %,$(shell pkg-config --cflags $(BY_PKG)))) \
              $(if $(HAVE_ISAL),-DKMF_ISAL)
LIBS       := $(if $(BY_PKG),$(shell pkg-config --libs $(BY_PKG))) $(BY_CC)
CHECK_LIBS := $(if $(filter pkg,$(HAVE_CHECK)),$(shell pkg-config --libs check),-lcheck -lsubunit -lrt)

# ---------------------------------------------------------------- flags ----------------------

# Constants are enumerators, and may meet floats: -Wconversion of clang 19 warns of that.
WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-enum-float-conversion -Wstrict-prototypes \
            -Wmissing-prototypes -Wvla -Wcast-align -Wformat=2 -Wundef -Wimplicit-fallthrough \
            -Wdouble-promotion $(if $(filter 1,$(WERROR)),-Werror)
INCLUDES := -Iinclude -Isrc $(LIB_CFLAGS)
# No fused multiply-add behind our back, no -ffast-math: the same bits from every compiler. Nobody
# reads the exception flags of floats, so loops that compare them may become vector code.
BASE     := -std=c11 -D_POSIX_C_SOURCE=200809L -O3 -ffp-contract=off -fno-trapping-math -g -fPIC -fvisibility=hidden \
            -fno-semantic-interposition
SANFLAGS := $(if $(SAN),-O1 -fsanitize=$(SAN) -fno-sanitize-recover=all -fno-omit-frame-pointer)
FLAGS    := $(BASE) $(if $(filter 1,$(MPI)),-DKMF_MPI) $(if $(filter 1,$(NATIVE)),-march=native) $(SANFLAGS) $(WARNINGS) $(INCLUDES)
LINK     := $(if $(SAN),-fsanitize=$(SAN)) $(LDFLAGS)

# ---------------------------------------------------------------- modules --------------------

VERSION := $(shell sed -n 's/^.define KMF_VERSION "\(.*\)"/\1/p' include/kmerformer/base.h)
SONAME  := libkmerformer.so.$(firstword $(subst ., ,$(VERSION)))

SRC     := $(sort $(wildcard src/*/*.c src/*/*/*.c))
CLI_SRC := $(filter src/cli/%,$(SRC))
LIB_SRC := $(filter-out src/cli/%,$(SRC))
HEADERS := $(sort $(wildcard include/*.h include/*/*.h src/*/*.h src/*/*/*.h))
LIB_OBJ := $(LIB_SRC:src/%.c=$(BUILD)/obj/%.o)
CLI_OBJ := $(CLI_SRC:src/%.c=$(BUILD)/obj/%.o)

PROGRAM := $(BUILD)/kmerformer
STATIC  := $(BUILD)/libkmerformer.a
SHARED  := $(BUILD)/libkmerformer.so.$(VERSION)

TESTS   := $(patsubst tests/%.c,$(BUILD)/tests/%,$(sort $(wildcard tests/test_*.c)))
FUZZERS := $(patsubst tests/fuzz/%.c,%,$(sort $(wildcard tests/fuzz/fuzz_*.c)))
REPLAYS := $(FUZZERS:%=$(BUILD)/tests/replay_%)
BENCHES := $(patsubst tests/bench/%.c,$(BUILD)/bench/%,$(sort $(wildcard tests/bench/bench_*.c)))

# ---------------------------------------------------------------- rules ----------------------

.DELETE_ON_ERROR:
.SUFFIXES:
.PHONY: all lib build-check check check-unit check-replay check-cli check-layers check-symbols warnings \
        check-plain check-data check-install check-mpi check-mistakes check-readme lint format \
        format-check bench fuzz reference install uninstall clean help info FORCE

all: $(PROGRAM) lib ## the program and the libraries (default)
lib: $(STATIC) $(SHARED) $(BUILD)/kmerformer.pc ## libkmerformer.a, .so and .pc

# Files that change only when a setting does; what depends on them is then made again.
SETTINGS = $(CC) $(shell $(CC) -dumpfullversion -dumpversion 2>/dev/null) $(FLAGS) $(CFLAGS) $(LINK) $(LIBS)
stamp    = $(Q)mkdir -p $(@D); printf '%s\n' '$(subst ','\'',$(1))' > $@.new; \
           if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi

$(BUILD)/config: FORCE
	$(if $(MISSING),$(error a library is missing; on Debian: apt-get install $(MISSING)))
	$(call stamp,$(SETTINGS))

$(BUILD)/datadir: FORCE
	$(call stamp,$(libdir) $(includedir) $(datadir))

# So that a source which is gone leaves the libraries as well.
$(BUILD)/sources: FORCE
	$(call stamp,$(LIB_SRC))

$(BUILD)/obj/%.o: src/%.c $(BUILD)/config
	@mkdir -p $(@D)
	$(if $(Q),@echo "  CC    $<")
	$(Q)$(CC) $(FLAGS) $(DEFINES) $(CFLAGS) -MMD -MP -c $< -o $@

# Only the sources that ask for it learn where the data is installed, and only they are compiled
# again for another prefix.
DATADIR_OBJ := $(patsubst src/%.c,$(BUILD)/obj/%.o,$(shell grep -l KMF_DATADIR $(SRC) /dev/null))
$(DATADIR_OBJ): DEFINES = -DKMF_DATADIR='"$(datadir)/kmerformer"'
$(DATADIR_OBJ): $(BUILD)/datadir

# Nobody reads errno after a square root; only then does its loop become vector code.
$(BUILD)/obj/nn/adamw.o: DEFINES = -fno-math-errno

$(STATIC): $(LIB_OBJ) $(BUILD)/sources
	$(if $(Q),@echo "  AR    $@")
	$(Q)rm -f $@; $(AR) rcs $@ $(LIB_OBJ)

# dlclose leaves it where it is: standard output keeps a buffer of ours.
$(SHARED): $(LIB_OBJ) $(BUILD)/sources
	$(if $(Q),@echo "  LD    $@")
	$(Q)$(CC) -shared -Wl,-soname,$(SONAME) -Wl,-z,nodelete $(if $(SAN),,-Wl,-z,defs) $(CFLAGS) $(LINK) $(LIB_OBJ) -o $@ $(LIBS)
	$(Q)ln -sf $(@F) $(BUILD)/$(SONAME); ln -sf $(SONAME) $(BUILD)/libkmerformer.so

$(PROGRAM): $(CLI_OBJ) $(STATIC)
	$(if $(Q),@echo "  LD    $@")
	$(Q)$(CC) $(CFLAGS) $(LINK) $^ -o $@ $(LIBS)

define PC_FILE
prefix=$(prefix)
libdir=$(libdir)
includedir=$(includedir)

Name: kmerformer
Description: DNA sequences to vectors
Version: $(VERSION)
Requires.private: $(BY_PKG)
Libs: -L$${libdir} -lkmerformer
Libs.private: $(BY_CC)
Cflags: -I$${includedir}
endef

$(BUILD)/kmerformer.pc: $(BUILD)/config $(BUILD)/datadir Makefile
	$(file >$@,$(PC_FILE))@:

# ---------------------------------------------------------------- checks ---------------------

# $(call test_program): from one source, $<, with the library linked in, so that names which are
# not exported can be tested too.
test_program = $(if $(Q),@echo "  CC    $<";) mkdir -p $(@D); \
    $(CC) $(FLAGS) $(DEFINES) $(CFLAGS) -MMD -MP -MF $@.d -MT $@ $(LINK) $(filter %.c %.o %.a,$^) -o $@

$(BUILD)/tests/test_%: tests/test_%.c $(STATIC) $(BUILD)/config
	$(if $(HAVE_CHECK),,$(error the check library is missing; on Debian: apt-get install check))
	$(test_program) $(CHECK_LIBS) $(LIBS)

# The arithmetic once more in double: beside ten digits a gradient can be told from a near miss.
DOUBLE_SRC := src/nn/ops.c src/nn/attention_train.c src/nn/loss.c src/nn/dropout.c src/nn/adamw.c src/nn/composition.c \
              tests/gemm_double.c
DOUBLE_SRC += src/model/layout.c $(wildcard src/learn/mlm*.c) src/learn/contrast.c
DOUBLE_OBJ := $(DOUBLE_SRC:%.c=$(BUILD)/double/%.o)

$(BUILD)/double/%.o: %.c $(BUILD)/config
	@mkdir -p $(@D)
	$(if $(Q),@echo "  CC    $< (in double)")
	$(Q)$(CC) $(FLAGS) -DKMF_DOUBLE $(CFLAGS) -MMD -MP -c $< -o $@

DOUBLE_TESTS := $(addprefix $(BUILD)/tests/test_,gradients mlm_gradients contrast_gradients)
$(DOUBLE_TESTS): private DEFINES = -DKMF_DOUBLE
$(DOUBLE_TESTS): $(BUILD)/tests/%: tests/%.c $(DOUBLE_OBJ) $(STATIC) $(BUILD)/config
	$(if $(HAVE_CHECK),,$(error the check library is missing; on Debian: apt-get install check))
	$(test_program) $(CHECK_LIBS) $(LIBS)

$(BUILD)/tests/replay_%: tests/fuzz/%.c tests/fuzz/replay.c $(STATIC) $(BUILD)/config
	$(test_program) $(LIBS)

$(BUILD)/bench/%: tests/bench/%.c $(STATIC) $(BUILD)/config
	$(test_program) $(LIBS)

# scripts/run_tests prints one closing line, "N passed, N failed, N skipped".
export BUILD CC CXX SAN MAKE
build-check: all $(TESTS) $(REPLAYS)
check: build-check ## all tests
	@scripts/run_tests unit replay cli layers symbols plain data install readme
check-unit: $(TESTS) ## unit tests, tests/test_*.c
	@scripts/run_tests unit
check-replay: $(REPLAYS) ## every saved fuzzing input once, tests/fuzz/corpus
	@scripts/run_tests replay
check-cli: all ## the command line, tests/cli/*.reg
	@scripts/run_tests cli
check-layers: ## each folder includes only what lies below it
	@scripts/run_tests layers
check-symbols: lib ## names with external linkage
	@scripts/run_tests symbols
check-plain: ## one compiler line builds everything
	@scripts/run_tests plain
check-data: ## data/ is what scripts/simulate makes
	@scripts/run_tests data
check-install: all ## installs to a folder; the example of the header as C11 and C++
	@scripts/run_tests install
check-mpi: ## pretrain on several ranks, by a build of its own in BUILD/mpi
	$(MAKE) BUILD=$(BUILD)/mpi MPI=1 all $(BUILD)/mpi/tests/test_ranks
	BUILD=$(BUILD)/mpi scripts/run_cli_tests tests/cli/pretrain_mpi.reg \
	    tests/cli/pretrain_mpi_more.reg
check-mistakes: ## mistakes made on purpose in a copy of src/, which tests have to catch; minutes
	python3 scripts/mutate_families
check-readme: all ## the blocks of README.md
	@scripts/run_tests readme

lint: lib ## clang's warnings, clang-tidy, cppcheck, shellcheck, headers alone, symbols, layers, habits
	@scripts/lint
FORMATTED = $(wildcard include/*.h include/*/*.h src/*/*.[ch] src/*/*/*.[ch] tests/*.[ch] tests/*/*.[ch])
warnings: # those of the build, for scripts/lint
	@echo $(WARNINGS)
format: ## rewrites the sources by .clang-format
	clang-format -i $(FORMATTED)
format-check: ## says what `make format` would change
	clang-format --dry-run --Werror $(FORMATTED)

bench: all $(BENCHES) ## speed beside its peers and limits
	@scripts/bench $(BENCHES)

# make fuzz TARGET=fuzz_seqio TIME=600: libFuzzer from the saved corpus on a copy of it; a finding
# is left in build/fuzz/.
TARGET ?= $(firstword $(FUZZERS))
TIME   ?= 60
FUZZCC ?= clang
$(BUILD)/fuzz/%: tests/fuzz/%.c $(LIB_SRC) $(HEADERS) $(BUILD)/config
	@mkdir -p $(@D)
	$(Q)$(FUZZCC) $(BASE) -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all \
	    $(INCLUDES) $(CFLAGS) $< $(LIB_SRC) -o $@ $(LIBS)
fuzz: $(BUILD)/fuzz/$(TARGET) ## TARGET=fuzz_x TIME=seconds: libFuzzer
	@mkdir -p $(BUILD)/fuzz/work_$(TARGET) tests/fuzz/corpus/$(TARGET)
	cp -R tests/fuzz/corpus/$(TARGET)/. $(BUILD)/fuzz/work_$(TARGET)/
	$< -max_total_time=$(TIME) -artifact_prefix=$(BUILD)/fuzz/$(TARGET)- $(FUZZARGS) \
	    $(BUILD)/fuzz/work_$(TARGET)

reference: ## golden files of the families anew (NumPy)
	python3 scripts/golden_families.py

# ---------------------------------------------------------------- installation ---------------

install: all ## to prefix=/usr/local, under DESTDIR
	install -d $(DESTDIR)$(bindir) $(DESTDIR)$(includedir)/kmerformer $(DESTDIR)$(libdir)/pkgconfig \
	    $(DESTDIR)$(mandir)/man1 $(DESTDIR)$(datadir)/kmerformer/default
	install -m 755 $(PROGRAM) $(DESTDIR)$(bindir)/kmerformer
	install -m 644 include/kmerformer.h $(DESTDIR)$(includedir)/kmerformer.h
	install -m 644 include/kmerformer/*.h $(DESTDIR)$(includedir)/kmerformer/
	install -m 644 $(STATIC) $(DESTDIR)$(libdir)/libkmerformer.a
	install -m 755 $(SHARED) $(DESTDIR)$(libdir)/$(notdir $(SHARED))
	ln -sf $(notdir $(SHARED)) $(DESTDIR)$(libdir)/$(SONAME)
	ln -sf $(SONAME) $(DESTDIR)$(libdir)/libkmerformer.so
	install -m 644 $(BUILD)/kmerformer.pc $(DESTDIR)$(libdir)/pkgconfig/kmerformer.pc
	install -m 644 src/cli/kmerformer.1 $(DESTDIR)$(mandir)/man1/kmerformer.1
	install -m 644 data/default/* $(DESTDIR)$(datadir)/kmerformer/default/

uninstall: ## what `make install` put there
	rm -f $(DESTDIR)$(bindir)/kmerformer $(DESTDIR)$(includedir)/kmerformer.h
	rm -f $(DESTDIR)$(libdir)/libkmerformer.a $(DESTDIR)$(libdir)/libkmerformer.so*
	rm -f $(DESTDIR)$(libdir)/pkgconfig/kmerformer.pc $(DESTDIR)$(mandir)/man1/kmerformer.1
	rm -rf $(DESTDIR)$(includedir)/kmerformer $(DESTDIR)$(datadir)/kmerformer

clean: ## removes the build folder
	rm -rf $(BUILD)

# ---------------------------------------------------------------- help -----------------------

found = $(if $(1),yes,NO)
info: ## settings and libraries found
	@echo 'kmerformer $(VERSION)'
	@echo 'compiler   $(CC) $(shell $(CC) -dumpfullversion -dumpversion 2>/dev/null)'
	@echo 'flags      $(FLAGS) $(CFLAGS)'
	@echo 'libraries  $(LIBS)'
	@echo 'htslib     $(call found,$(HAVE_HTSLIB))'
	@echo 'OpenBLAS   $(call found,$(HAVE_OPENBLAS))'
	@echo 'zlib       $(call found,$(HAVE_ZLIB))'
	@echo 'jansson    $(call found,$(HAVE_JANSSON))'
	@echo 'ISA-L      $(if $(HAVE_ISAL),yes,no, zlib in its place)'
	@echo 'check      $(call found,$(HAVE_CHECK)) (tests only)'
	@echo 'MPI        $(if $(filter 1,$(MPI)),$(MPI_PKG),no)'
	@echo 'build      $(BUILD)'
	@echo 'prefix     $(prefix)'

help: ## this list
	@echo 'Targets:'
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/\1\t\2/p' Makefile | awk -F '\t' '{ printf "  %-15s %s\n", $$1, $$2 }'
	@echo 'Settings (make NAME=value):'
	@echo '  CC CFLAGS LDFLAGS'
	@sed -n 's/^\([A-Za-z]*\) *?=\( *[^#]*\)# *\(.*\)/\1\t\2\t\3/p' Makefile | \
	    awk -F '\t' '{ gsub(" ", "", $$2); printf "  %-15s %s\n", $$1 "=" $$2, $$3 }'

-include $(LIB_OBJ:.o=.d) $(CLI_OBJ:.o=.d) $(DOUBLE_OBJ:.o=.d) $(TESTS:=.d) $(REPLAYS:=.d) $(BENCHES:=.d)
