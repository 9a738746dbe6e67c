# SPDX-License-Identifier: Apache-2.0
# sh=bash,dash placed=10
# A configure-like script with probes, here-docs, sed templates, install, and tests.
mkdir -p build && cd build
cat >conf.c <<'C'
#include <stdio.h>
int main(void) { printf("%zu\n", sizeof(long)); return 0; }
C
for h in stdio.h nosuch.h stdlib.h; do printf '#include <%s>\nint x;\n' $h >t.c; if cc -c t.c -o t.o 2>/dev/null; then echo "have $h"; else echo "no $h"; fi; done
cc conf.c -o conf && ./conf
sed -e 's/@NAME@/prog/' -e "s/@VERSION@/$(cat ../VERSION)/" ../config.in >config.h; cat config.h
install -d inst/bin inst/share; install -m 755 conf inst/bin; install -m 644 ../notes/*.txt inst/share; find inst -printf '%m %p\n' | sort
ar rcs libx.a t.o; ar t libx.a; nm libx.a 2>/dev/null | wc -l; strip -o conf.s conf; ls
(cd inst && tar cf - .) | (mkdir -p dest && cd dest && tar xpf -); diff -r inst dest && echo installed
./conf >out.txt; diff - out.txt <<X
8
X
echo $?; cmp conf conf.s >/dev/null; echo $?; cd ..; rm -rf build; ls
