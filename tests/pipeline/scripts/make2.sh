# SPDX-License-Identifier: Apache-2.0
# sh=bash placed=30
# Recursion, generated dependencies, ONESHELL, DELETE_ON_ERROR, shell functions.
mkdir p p/lib; cat >p/Makefile <<'K'
SHELL = /bin/bash
.SHELLFLAGS = -euo pipefail -c
.DELETE_ON_ERROR:
.ONESHELL:
N := $(shell wc -l <../notes/a.txt)
TXT := $(wildcard ../notes/*.txt)
CNT := $(notdir $(TXT:.txt=.cnt))
all: lib $(CNT) sum.out
	@echo all $(N)
%.cnt: ../notes/%.txt | out
	@x=$$(sort $< | uniq | wc -l)
	echo $$x >$@
	cp $@ out/
out: ; @mkdir -p $@
sum.out: $(CNT)
	@cat $^ | paste -sd+ | bc >$@
	cat $@
lib: ; @$(MAKE) --no-print-directory -C lib
fail.out:
	@sort ../notes/a.txt | head -3 >$@
	cat nosuch | wc -l
	echo not reached
.PHONY: all lib
K
cat >p/lib/Makefile <<'K'
all: x.o
-include x.d
%.o: %.c ; @$(CC) -MMD -c $< -o $@ && echo CC $<
x.c: ; @printf '#include "y.h"\nint x = Y;\n' >$@; echo '#define Y 1' >y.h
K
make -C p --no-print-directory; make -C p --no-print-directory -j3; sleep 1.1; echo '#define Y 2' >p/lib/y.h; make -C p --no-print-directory lib
make -C p --no-print-directory fail.out; echo $?; ls p p/lib p/out; make -C p -n sum.out | head -2; touch notes/a.txt; make -C p --no-print-directory -s; cat p/lib/x.d; make -s -C p -q; echo $?
