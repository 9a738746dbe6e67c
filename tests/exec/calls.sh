#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The functions that start programs, one by one: what they do, with which
# errno they fail, and that a process in the middle of them is not harmed.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=common.sh disable=SC1091
t='' build=''
. "$here/common.sh"

compile -o "$t/calls" "$here/calls.c"
compile -o "$t/waits" "$here/waits.c" -lpthread
compile -o "$t/shared" "$here/shared.c" -lpthread
cd "$t/work" || exit 99
mkdir folder first second locked
printf 'text\n' >text
printf 'plain\n' >plain
printf '#!/bin/sh\necho no\n' >noexec
printf '#!/nowhere/sh\n' >badinterp
printf '\177ELF garbage' >garbage
printf '#!/bin/sh\necho "script $0 $*"\n' >script
printf 'echo "headless $0 $*"\n' >headless
chmod +x badinterp garbage script headless
ln -s loop loop
cp "$t/calls" cat
cp "$t/calls" setuid
chmod u+s setuid
cp script second/script
cp headless second/headless
cp "$t/calls" second/ran
cp noexec first/script
cp noexec first/headless
mkdir first/cat
cp cat second/cat
cp script locked/hidden
printf '#!/bin/sh\necho found\n' >second/hidden
chmod +x second/hidden
chmod 0 locked

# ---- what is started, and with what ---------------------------------------------
same "every form, every environment" "$t/calls" forms
stubs "every form"
same "errors" "$t/calls" errors
# The same with the name of an annotated command and a mount in the arguments.
sed "s|\"it\", \"1\", \"2\", \"3\"|\"it\", \"$t/mount/f\", \"2\", \"3\"|" \
    "$here/calls.c" >"$t/mounted.c"
compile -o "$t/mounted" "$t/mounted.c"
same "errors, with a mount in the arguments" "$t/mounted" errors
equal "only what exists becomes a stub" \
    "$(cut -d '|' -f 1 "$t/stubs" | grep -v '^/' | sort -u | xargs)" \
    "./script cat script second/cat second/script"
same "the largest arguments" "$t/calls" limits
same "a caller without root's rights" setpriv --reuid 65534 --clear-groups \
    "$t/calls" errors

# ---- those that wait -------------------------------------------------------------
same "system: status, signals, mask" "$t/waits" system
same "system: cancelled" "$t/waits" cancel
same "system: by several threads" "$t/waits" threads
same "popen" "$t/waits" popen
same "popen: without standard fds" "$t/waits" closed
same "popen: many at once" "$t/waits" many
same "popen: in a forked child" "$t/waits" forked
: >"$t/stubs"
ferry "$t/waits" "covers" "cat $t/mount/f" >/dev/null
stubs "system and popen" "/usr/bin/cat|cat|$t/mount/f" "/usr/bin/cat|cat|$t/mount/f"

# ---- vfork children, handlers, threads ----------------------------------------------
same "vfork: the parent's memory" "$t/shared" vfork "$t/mount/f"
equal "vfork: stubs" "$(sort -u "$t/stubs")" "/bin/cat|cat|$t/mount/f"
same "a signal handler that starts programs" "$t/shared" handler "$t/mount/f"
same "threads that start programs" "$t/shared" threads "$t/mount/f"

# ---- a snapshot that is none ------------------------------------------------------
snapshot "$t/mount" -
same "a snapshot" cat "$t/mount/f"
same "a session's shell" sh -c "cat '$t/mount/f'; :"
equal "a session's shell: stubs" "$(grep -c . "$t/stubs")" 1
bytes=$(wc -c <"$t/snapshot")
none=0
for at in 0 8 12 15 23 27 31 35 39 43 59 60 67 $((bytes - 1)); do
    snapshot "$t/mount" -
    "$build/tests/exec/make_snapshot" --spoil $at "$t/snapshot"
    ferry sh -c "cat '$t/mount/f'; :" >"$t/ferry" 2>&1
    [ "$(cat "$t/ferry")" = "$(cat "$t/mount/f")" ] || none="$none $at"
done
equal "a spoiled snapshot is no session" "$none" 0
for size in 0 1 30 47 48 60 $((bytes - 1)); do
    snapshot "$t/mount" -
    truncate -s "$size" "$t/snapshot"
    ferry sh -c "cat '$t/mount/f'; :" >"$t/ferry" 2>&1
    [ "$(cat "$t/ferry")" = "$(cat "$t/mount/f")" ] && [ ! -s "$t/stubs" ] ||
        none="$none $size"
done
equal "a short snapshot is no session" "$none" 0
rm "$t/snapshot"
same "no snapshot" sh -c "cat '$t/mount/f'; :"
mkfifo "$t/snapshot"
same "a snapshot that is a pipe" sh -c "cat '$t/mount/f'; :"
rm "$t/snapshot"
snapshot "$t/mount" -
"$build/tests/exec/make_snapshot" --idle "$t/snapshot"
same "a session that has ended" sh -c "cat '$t/mount/f'; :"
stubs "a session that has ended"
snapshot "$t/mount" -
mv "$t/stub" "$t/gone"
same "a stub that is gone" sh -c "cat '$t/mount/f'; :"
chmod 777 locked
finish
