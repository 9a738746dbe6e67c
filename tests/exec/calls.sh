#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The functions that start programs, one by one: what they do, with which
# errno they fail, and that a process in the middle of them is not harmed.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=common.sh disable=SC1091
t='' build='' cc=''
. "$here/common.sh"
# libferry.so has none, and what writes snapshots is run by launchers.sh as well.
[ -z "${FERRY_SANITIZED-}" ] || skip_all "the preloaded library is the same without sanitizers"

compile -o "$t/calls" "$here/calls.c"
compile -o "$t/waits" "$here/waits.c" -lpthread
compile -o "$t/shared" "$here/shared.c" -lpthread
bin_cat=$(realpath /bin/cat)
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
same "a list of 17 pages and a pointer" "$t/calls" list
equal "a list without memory for it" "$(ferry "$t/calls" crowded)" E2BIG
same "by a folder" "$t/calls" folders "$t/mount/f"
whole="$bin_cat|cat|$t/mount/f"
stubs "by a folder" "$whole" "$whole" "$whole" "$whole" "$whole" "$whole"
same "what the kernel cannot read" "$t/calls" unreadable "$t/mount/f"
same "a caller without root's rights" setpriv --reuid 65534 --clear-groups \
    "$t/calls" errors

# By a name from a folder above the mount, also of what is not there yet.
for folder in .. /; do
    below=mount
    [ "$folder" = .. ] || below=${t#/}/mount
    same "from $folder" sh -c "cd $folder && cat $below/f $below/no 2>&1; cat $below/new/no 2>&1"
    stubs "from $folder" "/usr/bin/cat|cat|$below/f|$below/no" "/usr/bin/cat|cat|$below/new/no"
done

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
# A filter is the child's alone: it starts no stub, the next child does.
cat >filters.c <<'END'
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
static void child(const char *file, struct sock_fprog *program)
{
    int status;
    pid_t pid = vfork();
    if (pid == 0) {
        if (program && (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
                        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program))) _exit(98);
        execl("/bin/cat", "cat", file, (char *)0);
        _exit(99);
    }
    waitpid(pid, &status, 0);
    printf("%d\n", status);
}
int main(int argc, char **argv)
{
    struct sock_filter row = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {1, &row};
    setbuf(stdout, NULL);
    child(argv[1], &program);
    if (argc > 2) child(argv[1], NULL);
    return 0;
}
END
compile -o filters filters.c
if grep -q '^Seccomp:' /proc/self/status; then
    same "vfork: a filter" ./filters "$t/mount/f"
    stubs "vfork: a filter"
    same "vfork: a filter, and a child without" ./filters "$t/mount/f" next
    stubs "vfork: a filter, and a child without" "/bin/cat|cat|$t/mount/f"
else
    skip "vfork: a filter" "no seccomp filter can be set"
fi
same "a signal handler that starts programs" "$t/shared" handler "$t/mount/f"
same "threads that start programs" "$t/shared" threads "$t/mount/f"

same "a handler on a small stack" "$t/shared" small-stack "$t/mount/f"
started_all=$(grep -c "|cat|$t/mount/f" "$t/stubs")
equal "a handler on a small stack: stubs" "$started_all" 3
same "a thread with a small stack" "$t/shared" small-thread "$t/mount/f"
equal "a thread with a small stack: stubs" "$(grep -c "|cat|$t/mount/f" "$t/stubs")" 4
mkdir sub && cp /bin/cat sub/cat
same "file actions" "$t/shared" actions "$t/mount/f"
same "a program that writes over its environment" "$t/shared" title "$t/mount/f"
stubs "a program that writes over its environment" \
    "/usr/bin/cat|cat|$t/mount/f" "/usr/bin/cat|cat|$t/mount/f"

# ---- another tool's wrappers ----------------------------------------------------------
cat >wraps.c <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <spawn.h>
#include <stdio.h>
#include <unistd.h>
#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
static void note(const char *name) { dprintf(2, "wrapped %s\n", name); }
int system(const char *c) { note("system"); return NEXT(system)(c); }
FILE *popen(const char *c, const char *m) { note("popen"); return NEXT(popen)(c, m); }
int pclose(FILE *f) { note("pclose"); return NEXT(pclose)(f); }
int execve(const char *p, char *const a[], char *const e[]) { note("execve"); return NEXT(execve)(p, a, e); }
int posix_spawn(pid_t *i, const char *p, const posix_spawn_file_actions_t *f,
    const posix_spawnattr_t *t, char *const a[], char *const e[]) {
    note("posix_spawn"); return NEXT(posix_spawn)(i, p, f, t, a, e); }
END
compile -shared -fPIC -o wraps.so wraps.c
LD_PRELOAD=$t/work/wraps.so && export LD_PRELOAD
same "another tool's execve" bash -c '/bin/true; env | grep PRELOAD'
same "another tool's system and popen" "$t/waits" covers true
same "another tool's posix_spawn" "$t/shared" title "$t/mount/f"
unset LD_PRELOAD

# ---- what touches a mount -----------------------------------------------------------
# A file system of its own, that no name tells.
shm=$(mktemp -d /dev/shm/ferry-exec.XXXXXX 2>/dev/null)
if [ -n "$shm" ] && [ "$(stat -c %d /dev/shm)" != "$(stat -c %d "$t")" ]; then
    trap 'rm -rf "$t" "$shm"' EXIT
    printf 'b\na\n' >"$shm/data"
    mkdir "$shm/sub"
    ln -s "$shm/data" link
    snapshot /nowhere/mount "$shm"
    while IFS='|' read -r wanted command; do
        same "by device: $command" sh -c "$command; :"
        equal "by device: $command: stubs" "$(grep -c . "$t/stubs")" "$wanted"
    done <<END
1|cat $shm/data
1|cat link
1|sort <$shm/data
1|cat 3<$shm/data <&3
0|cat 3<$shm/data </etc/hostname
0|cat /etc/hostname
1|cd $shm; ls
1|cd $shm/sub; cat ../data
1|cd $shm; /bin/cat /etc/hostname
0|ls -d /
0|cat text
1|cat text text text $shm/data
0|cat -- -x $shm-none
0|sleep 0 $shm/data
0|tail -n 1 $shm/data
1|cat text - /proc/self/cwd/text $shm/sub/../data
1|grep -e a -r $shm
END
    rm -rf "$shm"
else
    skip "by device" "no file system of its own"
fi
snapshot "$t/mount" -
# The other side of a pipe has not ended before cat opens one FIFO, and has ended
# when the other FIFO is closed.
mkfifo opened closed
while IFS='|' read -r wanted command; do
    same "by name: $command" sh -c "$command; :"
    equal "by name: $command: stubs" "$(grep -c . "$t/stubs")" "$wanted"
done <<END
1|grep --file=$t/mount/f text
1|cat text $t/mount/../mount/f
0|cat text
1|sort <$t/mount/f
0|sort <text
1|cd $t/mount; cat f
0|cd $t/mount/..; cat work/text
1|(: >opened) | cat opened -
0|(exec 3>closed; echo x; exec >&-) | (read _ <closed; cat)
0|(exec 3>closed >&-) | (read _ <closed; cat)
0|(sleep 0.2; echo x) | ls -d /
END

# ---- where we cannot be loaded --------------------------------------------------------
mkdir "$t/private" "$t/root" "$t/root/bin" "$t/root/lib64"
if cp "$library" "$t/private/libferry.so" && [ "$(id -u)" -eq 0 ]; then
    chmod 700 "$t/private"
    keep=$library library=$t/private/libferry.so
    same "a user who may not read our library" \
        setpriv --reuid 65534 --clear-groups sh -c 'env; cat /etc/hostname'
    cp /bin/cat /bin/sh "$t/root/bin" && cp /lib64/ld-linux-x86-64.so.2 \
        "$(ldconfig -p | sed -n 's/.*libc\.so\.6 (.*x86-64.*=> //p' | head -n 1)" "$t/root/lib64"
    cp "$t/mount/f" "$t/root/f"
    same "a chroot" env LD_LIBRARY_PATH=/lib64 chroot "$t/root" /bin/sh -c 'cat /f; cat /none'
    library=$keep
else
    skip "where we cannot be loaded" "not root"
fi
echo 'int main(void) { __asm__ volatile("int $0x80" : : "a"(1), "b"(7)); return 9; }' >narrow.c
if $cc -m32 -w -nostdlib -static -e main -o narrow narrow.c 2>/dev/null; then
    same "a program of another class" ./narrow
else
    skip "a program of another class" "no 32-bit compiler"
fi

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
crashed=0 at=0 step=7
[ "${FERRY_TEST_TIER-}" != edit ] || step=31
while [ $at -lt "$bytes" ]; do
    snapshot "$t/mount" -
    "$build/tests/exec/make_snapshot" --spoil $at "$t/snapshot"
    ferry "$t/calls" forms >"$t/ferry" 2>&1
    [ $? -lt 126 ] || crashed="$crashed $at"
    at=$((at + step))
done
equal "a spoiled snapshot harms nobody" "$crashed" 0
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
snapshot "$t/mount" -
chmod 666 "$t/snapshot"
same "a snapshot that anybody may write" sh -c "cat '$t/mount/f'; :"
stubs "a snapshot that anybody may write"
if [ "$(id -u)" = 0 ]; then
    snapshot "$t/mount" -
    chown 65534 "$t/snapshot"
    same "a snapshot of somebody else's" sh -c "cat '$t/mount/f'; :"
    stubs "a snapshot of somebody else's"
else
    skip "a snapshot of somebody else's" "not root"
    skip "a snapshot of somebody else's: stubs" "not root"
fi
rm "$t/snapshot"
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
same "a stub that is gone: errno" "$t/calls" errno "$t/mount/f"
same "a stub that is gone: file actions" "$t/shared" actions "$t/mount/f"
printf 'no program' >"$t/stub"
chmod +x "$t/stub"
same "a stub that is none" sh -c "cat '$t/mount/f'; :"
same "a stub that is none: file actions" "$t/shared" actions "$t/mount/f"
printf '#!/\n' >"$t/stub"
same "a stub that does not start" sh -c "cat '$t/mount/f'; :"
same "a stub that does not start: errno" "$t/calls" errno "$t/mount/f"
chmod 777 locked
finish
