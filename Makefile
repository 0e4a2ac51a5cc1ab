# slabload: one non-recursive makefile. `make help` lists the targets, V=1 shows whole commands.

# The number stands in src/base/version.h alone; the commit is added where there is one.
VERSION := $(shell sed -n 's/.*SLABLOAD_VERSION "\(.*\)"/\1/p' src/base/version.h)

# Line numbers for those who look at what happened; nobody looks at a build of CI.
debug := $(if $(CI),-g0,-g1)

# What a user may set, on the command line or in the environment.
CXX      ?= g++
CC       ?= cc
MPICC    ?= mpicc
MPIRUN   ?= mpirun
CXXFLAGS ?= -O2 $(debug)
PREFIX   ?= /usr/local
DESTDIR  ?=
CUDA     ?= auto
SAN      ?=
WERROR   ?= 0
V        ?= 0

ifeq ($(origin CXX),default)
CXX := g++
endif

ifeq ($(MAKELEVEL),0)
MAKEFLAGS += -j$(shell nproc 2>/dev/null || echo 2)
endif
MAKEFLAGS += --no-builtin-rules
.SUFFIXES:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := all

# ---- configuration ------------------------------------------------------------------------------

# The CUDA toolkit with NCCL: by CUDA_HOME, or where nvcc on the path lies, or in its usual place.
ifeq ($(CUDA_HOME),)
nvcc_on_path := $(realpath $(shell command -v nvcc 2>/dev/null))
CUDA_HOME := $(if $(nvcc_on_path),$(patsubst %/bin/nvcc,%,$(nvcc_on_path)),/usr/local/cuda)
endif
NCCL_HOME ?= $(CUDA_HOME)
NVCC ?= $(CUDA_HOME)/bin/nvcc
cuda_lacks := $(if $(wildcard $(NVCC)),,nvcc) \
  $(if $(wildcard $(CUDA_HOME)/include/cuda_runtime.h),,cuda_runtime.h) \
  $(if $(wildcard $(NCCL_HOME)/include/nccl.h /usr/include/nccl.h),,nccl.h)
cuda_there := $(if $(strip $(cuda_lacks)),0,1)
cuda := $(patsubst fake,1,$(patsubst auto,$(cuda_there),$(CUDA)))
ifeq ($(filter 0 1,$(cuda)),)
$(error CUDA=$(CUDA) is none of auto, 0, 1, fake)
endif
ifeq ($(cuda)$(cuda_there),10)
$(error CUDA=$(CUDA): $(CUDA_HOME) lacks $(strip $(cuda_lacks)); set CUDA_HOME and NCCL_HOME, or build with CUDA=0)
endif

comma := ,
sans := $(sort $(subst $(comma), ,$(SAN)))
ifneq ($(filter-out address undefined thread,$(sans)),)
$(error SAN=$(SAN): the sanitizers are address, undefined, thread)
endif
ifneq ($(and $(filter thread,$(sans)),$(filter address,$(sans))),)
$(error SAN=$(SAN): thread and address exclude each other)
endif
space := $(subst ,, )
config := release$(if $(filter $(cuda),$(cuda_there)),,-host)$(if $(sans),-$(subst $(space),-,$(sans)))

B := build/$(config)
O := $(B)/obj

# ---- flags --------------------------------------------------------------------------------------

san_flags := $(if $(sans),-fsanitize=$(subst $(space),$(comma),$(sans)) -fno-omit-frame-pointer \
  $(if $(filter undefined,$(sans)),-fno-sanitize-recover=undefined))

gcc := $(shell $(CXX) --version 2>/dev/null | grep -q 'Free Software Foundation' && echo yes)
# False alarms of GCC 12 in inlined container code; the other warnings all stay.
gcc_quiet := $(if $(gcc),-Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread \
  $(if $(sans),-Wno-maybe-uninitialized))

common := -std=c++20 -pthread -Wall -Wextra $(gcc_quiet) $(if $(filter 1,$(WERROR)),-Werror) $(san_flags)

# The compilers' own words on where MPI is (Open MPI, then MPICH), and HDF5's from pkg-config. System
# headers, so that their warnings are not ours.
MPI_CFLAGS ?= $(shell $(MPICC) --showme:compile 2>/dev/null || $(MPICC) -compile_info 2>/dev/null | cut -d' ' -f2-)
MPI_LIBS   ?= $(shell $(MPICC) --showme:link 2>/dev/null || $(MPICC) -link_info 2>/dev/null | cut -d' ' -f2-)
HDF5_PC    ?= $(shell pkg-config --exists hdf5-openmpi 2>/dev/null && echo hdf5-openmpi || echo hdf5)
HDF5_CFLAGS ?= $(shell pkg-config --cflags $(HDF5_PC) 2>/dev/null)
HDF5_LIBS   ?= $(filter-out -lmpi_cxx,$(shell pkg-config --libs $(HDF5_PC) 2>/dev/null))
mpi_cflags  := $(patsubst -I%,-isystem %,$(MPI_CFLAGS) $(HDF5_CFLAGS)) -DOMPI_SKIP_MPICXX -DMPICH_SKIP_MPICXX

# Plain code sees no MPI, HDF5 or CUDA; on systems where these lie in the default include path the
# refusing headers made below come first.
refuse := $(B)/refuse
plain_flags := -Isrc -Iinclude -isystem $(refuse)
mpi_flags   := -Isrc -Iinclude $(mpi_cflags)
cuda_flags  := -DSLABLOAD_CUDA=$(cuda) $(if $(filter 1,$(cuda)),$(addprefix -isystem ,$(sort $(CUDA_HOME)/include $(wildcard $(NCCL_HOME)/include))))
test_flags  := -Itests

base_libs := -lisal -lfmt
# Dynamic on purpose: the program starts where there is no driver, and tests can put doubles in front.
cuda_libs := $(if $(filter 1,$(cuda)),$(addprefix -L,$(sort $(CUDA_HOME)/lib64 $(wildcard $(NCCL_HOME)/lib64 $(NCCL_HOME)/lib))) -lcudart -lnccl \
  $(addprefix -Wl$(comma)-rpath$(comma),$(sort $(CUDA_HOME)/lib64 $(wildcard $(NCCL_HOME)/lib64 $(NCCL_HOME)/lib))) -Wl$(comma)--enable-new-dtags)
mpi_libs   = $(cuda_libs) -lboost_program_options $(HDF5_LIBS) $(MPI_LIBS) $(base_libs)
gtest_libs := -lgmock -lgtest

# ---- sources ------------------------------------------------------------------------------------

objects = $(patsubst %.cc,$(O)/%.o,$(sort $(1)))
each_in = $(call objects,$(wildcard $(1)/*.cc))
in = $(foreach folder,$(1),$(if $(UNITY),$(call united_in,$(folder)),$(call each_in,$(folder))))

# With UNITY, up to so many sources of a folder are compiled as one, so that what they include is read once. For CI, which
# compiles everything each time; a build of each source by itself sees what one forgets to include.
UNITY ?= $(if $(CI),16)
# Linked without the rest of their folder, or compiled in a way of their own.
args_src := $(addprefix src/,app/watchdog.cc app/peer_watch.cc app/option_table.cc cli/help.cc cli/options.cc cli/near_names.cc cli/verb_table.cc)
version_src := $(shell grep -lsE 'kVersion|SLABLOAD_VERSION' src/*/*.cc src/backend/*/*.cc)
apart := $(args_src) $(wildcard src/capi/*.cc) src/app/hardware.cc src/backend/nccl/schedule.cc tests/mpi/main.cc
united_in = $(call objects,$(filter $(apart),$(wildcard $(1)/*.cc))) \
  $(call unite,$(O)/unity/$(1),$(filter-out $(apart),$(sort $(wildcard $(1)/*.cc))))
# unite START,SOURCES: the objects START.1.o, START.2.o, ...; what they are made from is in sources.START.1, ...
unite = $(if $(2),$(eval sources.$(1).$(words x $(3)) := $(wordlist 1,$(UNITY),$(2)))$(1).$(words x $(3)).o \
  $(call unite,$(1),$(filter-out $(wordlist 1,$(UNITY),$(2)),$(2)),x $(3)))
sources_of = $(sources.$(1:.o=))
write_united = $(Q)mkdir -p $(@D) && printf '\#include "%s"\n' $(call sources_of,$@) >$(@:.o=.cc)

pure_obj := $(call in,$(addprefix src/,base tensor index layout plan))
# How NCCL's calls are cut into groups needs no CUDA to be worked out and tested.
schedule_obj := $(call objects,src/backend/nccl/schedule.cc)
host_obj := $(call in,$(addprefix src/,backend/safetensors backend/host exec report)) $(schedule_obj)
cu_obj   := $(if $(filter 1,$(cuda)),$(patsubst %.cu,$(O)/%.o,$(wildcard src/backend/cuda/*.cu)))
gpu_obj  := $(if $(filter 1,$(cuda)),$(filter-out $(schedule_obj),$(call in,src/backend/cuda src/backend/nccl)))
mpi_obj  := $(call in,$(addprefix src/,backend backend/hdf5 backend/mpi app capi)) $(gpu_obj)
cli_obj  := $(call in,src/cli)
# The parser needs no MPI, so its tests are unit tests.
args_obj := $(call objects,$(args_src))
unit_obj := $(call in,tests/unit)
fake_obj := $(call in,tests/fakes)
mpit_obj := $(call in,tests/mpi)
gput_obj := $(if $(filter 1,$(cuda)),$(call in,tests/gpu))
gpu_tool_obj := $(if $(filter 1,$(cuda)),$(call each_in,tests/gpu/tools))
gpu_tools := $(patsubst $(O)/tests/gpu/tools/%.o,$(B)/gpu_tools/%,$(gpu_tool_obj))
tool_obj := $(call in,tests/tools)
program_obj := $(call in,tests/programs)
bench_obj := $(call in,tests/bench)
c_obj    := $(patsubst %.c,$(O)/%.o,$(wildcard tests/mpi/*.c))
preloads := $(patsubst tests/tools/%.c,$(B)/%.so,$(wildcard tests/tools/*_preload.c))

pure_lib := $(B)/libslabload_pure.a
host_lib := $(B)/libslabload_host.a
mpi_lib  := $(B)/libslabload_mpi.a
tool_lib := $(B)/libtest_tools.a
fake_lib := $(B)/libtest_fakes.a
user_lib := $(B)/libslabload.a
libs := $(mpi_lib) $(host_lib) $(pure_lib)

plain_obj := $(pure_obj) $(host_obj) $(unit_obj) $(fake_obj) $(bench_obj)
heavy_obj := $(mpi_obj) $(cli_obj) $(mpit_obj) $(gput_obj) $(gpu_tool_obj) $(tool_obj) $(program_obj)
test_obj  := $(unit_obj) $(fake_obj) $(mpit_obj) $(gput_obj) $(tool_obj) $(program_obj)
all_obj   := $(plain_obj) $(heavy_obj) $(c_obj)
united_obj := $(filter $(O)/unity/%,$(all_obj))

# ---- rules --------------------------------------------------------------------------------------

Q := $(if $(filter 1,$(V)),,@)
say = @printf '%-10s %-40s > %s\n' "$(1)" "$(patsubst src/%,%,$(2))" "$(patsubst build/%,%,$@)"

.PHONY: all help tests test fuzz soak soak-save soak-files soak-gpu cluster-test cluster-curve gpu-bundle demo bench bench-plan install clean deps check-layers format force
force:

all: build/slabload ## build build/slabload (the default)

# Always points at what was built last, whichever configuration that was.
build/slabload: $(B)/slabload force
	@ln -sfn $(config)/slabload $@

ifneq ($(filter address,$(sans)),)
keep_obj := $(O)/tests/tools/keep_loaded.o
keep_flags := -Wl,--export-dynamic-symbol=dlclose
$(keep_obj): tests/tools/keep_loaded.c
	@mkdir -p $(@D)
	$(Q)$(CC) -O1 -g1 -Wall -Wextra -c -o $@ $<
endif

$(B)/slabload: $(cli_obj) $(libs) $(keep_obj)
	$(call say,Linking,slabload)
	$(Q)$(CXX) $(CXXFLAGS) $(san_flags) $(keep_flags) -pthread $(LDFLAGS) -o $@ $(cli_obj) $(keep_obj) $(libs) $(mpi_libs)

$(B)/unit_tests: $(unit_obj) $(args_obj) $(fake_lib) $(host_lib) $(pure_lib)
	$(call say,Linking,unit_tests)
	$(Q)$(CXX) $(CXXFLAGS) $(san_flags) -pthread $(LDFLAGS) -o $@ $^ $(gtest_libs) -lgtest_main -lboost_program_options $(base_libs)

$(B)/mpi_tests: $(mpit_obj) $(c_obj) $(keep_obj) $(tool_lib) $(fake_lib) $(libs)
	$(call say,Linking,mpi_tests)
	$(Q)$(CXX) $(CXXFLAGS) $(san_flags) $(keep_flags) -pthread $(LDFLAGS) -o $@ $^ $(gtest_libs) $(mpi_libs)

$(B)/gpu_tests: $(gput_obj) $(O)/tests/mpi/main.o $(keep_obj) $(tool_lib) $(fake_lib) $(libs)
	$(call say,Linking,gpu_tests)
	$(Q)$(CXX) $(CXXFLAGS) $(san_flags) $(keep_flags) -pthread $(LDFLAGS) -o $@ $^ $(gtest_libs) $(mpi_libs)

$(gpu_tools): $(B)/gpu_tools/%: $(O)/tests/gpu/tools/%.o $(libs)
	$(call say,Linking,$(@F))
	@mkdir -p $(@D)
	$(Q)$(CXX) $(CXXFLAGS) $(san_flags) -pthread $(LDFLAGS) -o $@ $< $(libs) -Wl,--as-needed $(cuda_libs) $(base_libs)

$(B)/flips: $(program_obj) $(libs)
	$(call say,Linking,flips)
	$(Q)$(CXX) $(CXXFLAGS) $(san_flags) -pthread $(LDFLAGS) -o $@ $^ $(mpi_libs)

$(B)/plan_bench: $(bench_obj) $(pure_lib)
	$(call say,Linking,plan_bench)
	$(Q)$(CXX) $(CXXFLAGS) $(san_flags) -pthread $(LDFLAGS) -o $@ $^ -lbenchmark $(base_libs)

$(pure_lib): $(pure_obj)
$(host_lib): $(host_obj)
$(mpi_lib): $(mpi_obj) $(cu_obj)
$(tool_lib): $(tool_obj)
$(fake_lib): $(fake_obj)
$(user_lib): $(pure_obj) $(host_obj) $(mpi_obj) $(cu_obj)
%.a: $(O)/members
	$(call say,Archiving,$(words $(filter %.o,$^)) objects)
	@rm -f $@
	$(Q)$(AR) rcs $@ $(filter %.o,$^)

$(plain_obj): flags = $(plain_flags)
$(heavy_obj): flags = $(mpi_flags)
$(gpu_obj) $(gput_obj) $(gpu_tool_obj) $(call objects,src/app/hardware.cc): flags += $(cuda_flags)
$(gpu_tool_obj): flags += $(test_flags)
$(test_obj): flags += $(test_flags)
# What runs once a job, and the tests, cost more to optimise than to run. A value given for CXXFLAGS still wins.
ifeq ($(origin CXXFLAGS),file)
# Private: what they are made from, the file of flags above all, must not see it.
$(call in,$(addprefix src/,report app cli capi)): private CXXFLAGS = -O1 $(debug)
$(test_obj): private CXXFLAGS = -O0 $(debug)
endif

# What every test includes is read once.
pch_obj := $(unit_obj) $(mpit_obj) $(gput_obj)
ifeq ($(gcc),yes)
pch := $(O)/pch/test.h
$(pch).gch: $(O)/flags
	$(call say,Compiling,test.h)
	@mkdir -p $(@D)
	@printf '#include <%s>\n' gmock/gmock.h gtest/gtest.h fmt/format.h >$(pch)
	$(Q)$(CXX) $(common) $(CXXFLAGS) $(test_flags) $(CPPFLAGS) -x c++-header -o $@ $(pch)
$(pch_obj): $(pch).gch
$(pch_obj): private before = -include $(pch)
ifeq ($(origin CXXFLAGS),file)
$(pch).gch: private CXXFLAGS = -O0 $(debug)
endif
endif

compile = $(Q)$(CXX) $(common) $(CXXFLAGS) $(before) $(flags) $(CPPFLAGS) -MMD -MP -c -o $@
$(filter-out $(c_obj) $(united_obj),$(all_obj)): $(O)/%.o: %.cc $(O)/flags
	$(call say,Compiling,$<)
	@mkdir -p $(@D)
	$(compile) $<
$(united_obj): $(O)/flags $(O)/members
	$(call say,Compiling,$(words $(call sources_of,$@)) sources)
	$(write_united)
	$(compile) -iquote . $(@:.o=.cc)

# A user's C: no header of ours but the public one's folder and the tests', and no language but C11.
$(c_obj): $(O)/%.o: %.c $(O)/flags
	$(call say,Compiling,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) -std=c11 -Wall -Wextra -Wpedantic $(if $(filter 1,$(WERROR)),-Werror) $(san_flags) -O0 -g1 -Iinclude -Itests -MMD -MP -c -o $@ $<

# Code for the GPUs of these years, and PTX for later ones. nvcc takes a compiler without a launcher such as ccache.
CUDA_ARCH ?= 80 90
nvcc_flags = -std=c++20 -O3 -lineinfo $(foreach a,$(CUDA_ARCH),-gencode arch=compute_$(a),code=sm_$(a)) \
  -gencode arch=compute_$(lastword $(CUDA_ARCH)),code=compute_$(lastword $(CUDA_ARCH)) -ccbin $(lastword $(CXX)) -Xcompiler -fPIC,-Wall,-Wextra
$(cu_obj): $(O)/%.o: %.cu $(O)/flags
	$(call say,Compiling,$<)
	@mkdir -p $(@D)
	$(Q)$(NVCC) $(nvcc_flags) -Isrc -MMD -MP -c -o $@ $<
-include $(cu_obj:.o=.d)

# The fuzz targets, and of the program what they put to the test: by clang, with its fuzzer and sanitizers.
FUZZ_CXX ?= clang++
F := build/fuzz
fuzz_flags := -std=c++20 -O1 -gline-tables-only -pthread -fsanitize=fuzzer-no-link,address,undefined \
  -fno-sanitize-recover=all -Isrc -Iinclude -Itests
fuzz_targets := $(filter-out seeds,$(basename $(notdir $(wildcard tests/fuzz/*.cc))))
fuzz_src := $(wildcard $(addsuffix /*.cc,$(addprefix src/,base tensor index layout plan))) \
  $(addprefix src/,backend/safetensors/header.cc backend/safetensors/header_text.cc backend/safetensors/strict_json.cc \
  backend/host/file.cc backend/host/chunk_filters.cc report/explain.cc report/json_text.cc report/seconds_text.cc \
  report/tensor_moves.cc app/option_table.cc cli/near_names.cc cli/options.cc cli/verb_table.cc) tests/fakes/plan_runner.cc
often_included := fmt/format.h algorithm array atomic chrono cstdint cstring functional map memory mutex optional set span string \
  string_view tuple unordered_map utility variant vector
fuzz_united := $(if $(UNITY),$(call unite,$(F)/unity/part,$(fuzz_src)))
fuzz_lib_obj := $(or $(fuzz_united),$(patsubst %.cc,$(F)/obj/%.o,$(fuzz_src)))
fuzz_obj := $(patsubst %.cc,$(F)/obj/%.o,$(fuzz_src) $(wildcard tests/fuzz/*.cc))
fuzz_programs := $(addprefix $(F)/,$(or $(TARGET),$(fuzz_targets)))
$(F)/often.pch: Makefile
	$(call say,Compiling,often.h)
	@mkdir -p $(@D)
	@printf '#include <%s>\n' $(often_included) >$(F)/often.h
	$(Q)$(FUZZ_CXX) $(fuzz_flags) -x c++-header -o $@ $(F)/often.h
$(fuzz_obj): $(F)/obj/%.o: %.cc $(F)/often.pch
	$(call say,Compiling,$<)
	@mkdir -p $(@D)
	$(Q)$(FUZZ_CXX) $(fuzz_flags) -include-pch $(F)/often.pch -MMD -MP -c -o $@ $<
$(fuzz_united): $(F)/often.pch $(fuzz_src)
	$(call say,Compiling,$(words $(call sources_of,$@)) sources)
	$(write_united)
	$(Q)$(FUZZ_CXX) $(fuzz_flags) -include-pch $(F)/often.pch -iquote . -MMD -MP -c -o $@ $(@:.o=.cc)
$(F)/libslabload.a: $(fuzz_lib_obj)
	@rm -f $@
	$(Q)$(AR) rcs $@ $^
$(F)/seeds $(addprefix $(F)/,$(fuzz_targets)): $(F)/%: $(F)/obj/tests/fuzz/%.o $(F)/libslabload.a
	$(call say,Linking,$(@F))
	$(Q)$(FUZZ_CXX) -pthread -fsanitize=$(if $(filter seeds,$*),,fuzzer$(comma))address,undefined -o $@ $^ \
	  -lboost_program_options $(base_libs)
-include $(fuzz_obj:.o=.d) $(fuzz_united:.o=.d)

# Doubles of CUDA and NCCL, and the small programs that put them to the test.
double_flags := -std=c++20 -O1 -g1 -Wall -Wextra $(gcc_quiet) $(if $(filter 1,$(WERROR)),-Werror) -fPIC -Isrc -Itests $(cuda_flags)
fake_cudart := $(B)/fakes/libcudart.so.13
fake_nccl   := $(B)/fakes/libnccl.so.2
fake_cudart_obj := $(call in,tests/fakes/cuda)
fake_nccl_obj   := $(call in,tests/fakes/nccl)
double_obj := $(fake_cudart_obj) $(fake_nccl_obj)
$(filter-out $(O)/unity/%,$(double_obj)): $(O)/%.o: %.cc $(O)/flags
	$(call say,Compiling,$<)
	@mkdir -p $(@D)
	$(Q)$(CXX) $(double_flags) -MMD -MP -c -o $@ $<
$(filter $(O)/unity/%,$(double_obj)): $(O)/flags $(O)/members
	$(call say,Compiling,$(words $(call sources_of,$@)) sources)
	$(write_united)
	$(Q)$(CXX) $(double_flags) -iquote . -MMD -MP -c -o $@ $(@:.o=.cc)
$(fake_cudart): $(fake_cudart_obj) tests/fakes/cuda/libcudart.map
	$(call say,Linking,$(@F))
	@mkdir -p $(@D)
	$(Q)$(CXX) -shared -Wl,-soname,$(@F) -Wl,--version-script,tests/fakes/cuda/libcudart.map -o $@ $(fake_cudart_obj)
$(fake_nccl): $(fake_nccl_obj) tests/fakes/nccl/libnccl.map
	$(call say,Linking,$(@F))
	@mkdir -p $(@D)
	$(Q)$(CXX) -shared -Wl,-soname,$(@F) -Wl,--version-script,tests/fakes/nccl/libnccl.map -o $@ $(fake_nccl_obj)
-include $(double_obj:.o=.d)
double_programs := $(foreach p,$(wildcard tests/doubles/*/*.cc),$(B)/doubles/$(basename $(notdir $(p))))
vpath %.cc $(sort $(dir $(wildcard tests/doubles/*/*.cc)))
$(double_programs): $(B)/doubles/%: %.cc $(O)/flags
	$(call say,Linking,$<)
	@mkdir -p $(@D)
	$(Q)$(CXX) $(double_flags) -MMD -MP -MF $@.d -o $@ $< $(cuda_libs)
-include $(double_programs:=.d)
double_tests := $(if $(filter 1,$(cuda)),$(fake_cudart) $(fake_nccl) $(double_programs) $(B)/gpu_tests $(gpu_tools))

$(preloads): $(B)/%.so: tests/tools/%.c tests/tools/kept_env.h
	$(call say,Compiling,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) -Wall -Wextra -O1 -g1 -shared -fPIC -o $@ $< -ldl

-include $(all_obj:.o=.d)

# Files that hold a setting, rewritten only when it changes; what depends on it is then made again.
setting = @mkdir -p $(@D); text='$(subst ','\'',$(1))'; \
  [ "$$text" = "$$(cat $@ 2>/dev/null)" ] || printf '%s\n' "$$text" > $@

$(O)/flags: force | $(refuse)/mpi.h
	$(call setting,$(CXX) $(common) $(CXXFLAGS) $(CPPFLAGS) $(mpi_cflags) $(cuda_flags))

# A removed source file must leave the archives too.
$(O)/members: force
	$(call setting,$(all_obj) $(foreach o,$(united_obj) $(filter $(O)/unity/%,$(double_obj)),$(call sources_of,$(o))))

$(refuse)/mpi.h:
	@mkdir -p $(@D)
	@for header in hdf5 H5public cuda cuda_runtime nccl mpi; do \
	  echo '#error "this layer includes no MPI, HDF5 or CUDA header"' > $(@D)/$$header.h; done

# Only what names the version is compiled again when the commit changes.
git_commit := $(shell git describe --always --dirty --exclude '*' 2>/dev/null)
version_text := $(VERSION)$(if $(git_commit),+$(git_commit))
version_obj := $(filter $(call objects,$(version_src)) $(O)/unity/src/%,$(all_obj))
$(O)/version: force
	$(call setting,$(version_text))
$(version_obj): $(O)/version
$(version_obj): flags += -DSLABLOAD_VERSION='"$(version_text)"'

# ---- targets ------------------------------------------------------------------------------------

help: ## list the targets and the settings
	@echo 'make [TARGET...] [NAME=VALUE...]'; echo
	@sed -nE 's/^([a-z-]+):.*## (.*)/  \1|\2/p' Makefile | while IFS='|' read -r name text; do \
	  printf '  %-14s %s\n' "$$name" "$$text"; done
	@echo
	@echo '  SAN=address,undefined | thread    sanitizers, in a build folder of their own'
	@echo '  CUDA=auto|0|1|fake                GPU parts: if the toolkit is there (the default), never, always; fake: only the tests'
	@echo '                                    of the GPU parts, on doubles of CUDA and NCCL'
	@echo '  CUDA_HOME=/usr/local/cuda         the CUDA toolkit; NCCL_HOME if NCCL lies elsewhere; CUDA_ARCH="80 90"'
	@echo '  CXX CXXFLAGS LDFLAGS MPICC        compilers and flags; HDF5_PC=NAME picks the pkg-config module of HDF5'
	@echo '  MPIRUN="mpirun ..."               how tests and demo start ranks'
	@echo '  PREFIX=/usr/local DESTDIR=        where install puts things'
	@echo '  T="unit mpi cases ..."  K=GLOB    which tests: groups (layers unit mpi cases gpu slurm cluster fuzz), and names'
	@echo '  WERROR=1  V=1                     warnings as errors; whole commands'

tests: $(if $(filter fake,$(CUDA)),,$(B)/unit_tests $(B)/mpi_tests $(B)/flips $(preloads)) $(double_tests) all ## build the test programs

test_env = BUILD=$(B) CUDA=$(cuda) CXX='$(CXX)' MPIRUN='$(MPIRUN)' SAN='$(SAN)'

test: ## install what is missing, build, run every test; T= and K= select
	@tests/tools/deps.sh test
	@$(MAKE) --no-print-directory tests
	@$(test_env) MAKE='$(MAKE)' K='$(K)' tests/run.sh $(or $(T),$(if $(filter fake,$(CUDA)),gpu))

soak: soak-save soak-files soak-gpu ## the long tests, one after the other (over an hour)

soak-gpu: ## a long test (an hour): every CUDA and NCCL call of a load fails, hangs, or ends its process; PART=1/3 runs a third
	@tests/tools/deps.sh test
	@$(MAKE) --no-print-directory tests CUDA=fake
	@$(test_env) bash -c 'source tests/tools/env.sh && exec "$$PYTHON" tests/gpu/faults.py "$$@"' - --all $(if $(PART),--part $(PART))

soak-files: ## a long test (minutes): every bit of the metadata of small files is flipped; an error, or tensors as they were
	@tests/tools/deps.sh test
	@$(MAKE) --no-print-directory $(B)/flips all
	@$(test_env) bash tests/soak/flips.sh

soak-save: ## a long test (minutes): saves killed at MOMENTS=400 random moments, on one rank or all; the target is old or new
	@tests/tools/deps.sh test
	@$(MAKE) --no-print-directory $(preloads) all
	@$(test_env) MOMENTS=$(or $(MOMENTS),400) bash -c 'source tests/tools/env.sh && exec "$$PYTHON" tests/cases/save_faults.py'

fuzz: ## fuzz the parsers with clang's libFuzzer, two targets at a time; SECONDS=60 for each, TARGET=NAME one alone
	@tests/tools/deps.sh fuzz
	@$(MAKE) --no-print-directory $(F)/seeds $(fuzz_programs)
	@FUZZ_SECONDS=$(or $(SECONDS),60) bash tests/fuzz/run.sh $(F) $(or $(TARGET),$(fuzz_targets))

cluster-test: ## several hosts on this machine (as root), a file system that they share, loads and faults on them; K= selects
	@tests/tools/deps.sh cluster
	@$(MAKE) --no-print-directory all $(preloads)
	@$(test_env) K='$(K)' tests/cluster/test.sh

cluster-curve: all ## how loading grows with hosts, cold, by strategy and layout; HOSTS="1 2 4 8" SCALE=1 OUT=build/curve
	@tests/tools/deps.sh cluster
	@$(test_env) OUT='$(or $(OUT),build/curve)' tests/cluster/curve.sh $(HOSTS)

gpu-bundle: all $(B)/gpu_tests $(gpu_tools) $(fake_cudart) $(fake_nccl) ## what tests/gpu/one_gpu.sh takes to a machine with a GPU
	BUILD=$(B) bash tests/gpu/bundle.sh build/gpu-bundle

demo: ## install what is missing, build, load a 988 MB model on 4 ranks in two ways and compare
	@tests/tools/deps.sh build
	@$(MAKE) --no-print-directory all
	@SLABLOAD=build/slabload MPIRUN='$(MPIRUN)' jobs/demo.sh

bench: all ## every strategy side by side on the demo's checkpoint, with the raw read rate
	@SLABLOAD=build/slabload MPIRUN='$(MPIRUN)' jobs/demo.sh bench

bench-plan: ## install what is missing, then how planning grows with ranks and tensors; K=REGEX selects, REPEAT=3
	@tests/tools/deps.sh bench
	@$(MAKE) --no-print-directory $(B)/plan_bench
	@$(B)/plan_bench --benchmark_repetitions=$(or $(REPEAT),3) --benchmark_min_time=0.05 $(if $(K),--benchmark_filter='$(K)')

deps: ## install what build and tests need (apt, as root) or name what is missing
	@tests/tools/deps.sh test

# Each header on its own, with what its layer may see; then the direction of the includes.
headers := $(sort $(wildcard include/slabload/*.h include/slabload/*.hpp src/*/*.h src/backend/*/*.h))
plain_headers := $(filter-out src/backend/hdf5/% src/backend/mpi/% src/backend/cuda/% src/backend/nccl/% src/app/% src/cli/% src/capi/%,$(headers))
# A header that its own .cc includes before anything else has been compiled alone by the build.
proved := $(if $(UNITY),,$(shell tests/tools/proved_headers.sh))
headers_alone := $(filter-out $(proved) $(if $(filter 0,$(cuda)),src/backend/cuda/% src/backend/nccl/%),$(headers))
header_checks := $(patsubst %,$(O)/headers/%.ok,$(headers_alone))
$(patsubst %,$(O)/headers/%.ok,$(plain_headers)): flags = $(plain_flags)
$(patsubst %,$(O)/headers/%.ok,$(filter-out $(plain_headers),$(headers))): flags = $(mpi_flags) $(cuda_flags)
$(header_checks): $(O)/headers/%.ok: % $(O)/flags
	$(call say,Checking,$<)
	@mkdir -p $(@D)
	$(Q)echo '#include "$<"' | $(CXX) $(common) $(flags) -I. -MMD -MP -MF $(@:.ok=.d) -MT $@ -fsyntax-only -x c++ -
	@touch $@
-include $(header_checks:.ok=.d)

check-layers: $(pure_obj) $(host_obj) $(mpi_obj) $(cli_obj) $(header_checks) ## the pure layers need no MPI/HDF5/CUDA; headers stand alone; includes go downward
	@tests/tools/check_layers.sh
	@tests/tools/check_scripts.sh

# For pkg-config: the library is static, so its users link all that it stands on.
define pkgconfig
Name: slabload
Description: loads checkpoints of large models into the memory of many MPI ranks
Version: $(VERSION)
Cflags: -I$(PREFIX)/include
Libs: $(filter -fsanitize=%,$(san_flags)) -L$(PREFIX)/lib -lslabload $(cuda_libs) $(HDF5_LIBS) $(MPI_LIBS) $(base_libs) -lstdc++ -lm -pthread
endef

install: all $(user_lib) ## install the program, the library, its headers and the job scripts under PREFIX
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/include/slabload $(DESTDIR)$(PREFIX)/share/slabload/jobs \
	  $(DESTDIR)$(PREFIX)/lib/pkgconfig
	install -m 644 $(user_lib) $(DESTDIR)$(PREFIX)/lib/libslabload.a
	$(file >$(B)/slabload.pc,$(pkgconfig))
	install -m 644 $(B)/slabload.pc $(DESTDIR)$(PREFIX)/lib/pkgconfig/slabload.pc
	install -m 755 $(B)/slabload $(DESTDIR)$(PREFIX)/bin/slabload
	install -m 644 $(wildcard include/slabload/*.h include/slabload/*.hpp) $(DESTDIR)$(PREFIX)/include/slabload
	install -m 755 $(filter %.sh %.sbatch,$(wildcard jobs/*)) $(DESTDIR)$(PREFIX)/share/slabload/jobs
	install -m 644 $(filter-out %.sh %.sbatch,$(wildcard jobs/*)) $(DESTDIR)$(PREFIX)/share/slabload/jobs

format: ## clang-format every C and C++ file in place
	clang-format -i $(sort $(wildcard include/slabload/*.h include/slabload/*.hpp src/*/*.h src/*/*.cc src/backend/*/*.h src/backend/*/*.cc \
	  tests/*/*.cc tests/*/*.h tests/*/*.c tests/*/*/*.cc tests/*/*/*.h src/backend/*/*.cu))

clean: ## remove build/
	rm -rf build
