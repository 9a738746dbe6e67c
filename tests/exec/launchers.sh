#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Programs that start programs, in a session and without ferry: the same output,
# errors and status, and every annotated command on the mount became a stub.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=common.sh disable=SC1091
t=''
. "$here/common.sh"
cd "$t/work" || exit 99
m=$t/mount
# Outside of any pyenv.
python=/usr/bin/python3
# Theirs would be in what is compared.
unset BASH_ENV ENV
HOME=$t/work XDG_CONFIG_HOME=$t/work XDG_DATA_HOME=$t/work
export HOME XDG_CONFIG_HOME XDG_DATA_HOME

# has PROGRAM: whether it is installed; tells when it is not.
has()
{
    if ! command -v "${1%% *}" >/dev/null; then
        skip "${2:-$1}" "${1%% *} is not installed"
    elif [ "${1%% *}" = busybox ] && ! ldd "$(command -v busybox)" >/dev/null 2>&1; then
        skip "${2:-$1}" "busybox is linked statically"
    else
        return 0
    fi
    return 1
}

# started NAME COUNT: after same, so many commands became stubs.
started()
{
    equal "$1: stubs" "$(grep -c . "$t/stubs")" "$2"
}

# ---- shells -----------------------------------------------------------------------
# Through a shell each, all with words that every one of them has.
while read -r shell; do
    has "$shell" || continue
    # shellcheck disable=SC2086
    {
        same "$shell: a pipeline" $shell -c "cat $m/f | grep -v t $m/f - | sort | wc -l; exit 0"
        # fish looks at grep once, for itself
        started "$shell: the command that reads the mount" \
            "$(if grep -q "^/usr/bin/cat|cat|$m/f" "$t/stubs" && grep -q "|$m/f|-$" "$t/stubs"; then grep -c . "$t/stubs"; else echo none; fi)"
        same "$shell: one command" $shell -c "cat $m/f"
        stubs "$shell: one command" "/usr/bin/cat|cat|$m/f"
        same "$shell: not on the mount" $shell -c "cat /etc/hostname; wc -c /etc/passwd; ls -d /etc"
        stubs "$shell: not on the mount"
        same "$shell: redirected" $shell -c "wc -l < $m/f"
        # tcsh shows the process id
        same "$shell: in the background" sh -c \
            "$shell -c 'cat $m/f & wait' | sed '/^.1. [0-9]*\$/d'"
        stubs "$shell: in the background" "/usr/bin/cat|cat|$m/f"
        same "$shell: not found" $shell -c "no-such-command $m/f"
        same "$shell: no program" $shell -c "$m/f"
        same "$shell: a folder" $shell -c "$m"
        same "$shell: no such file" $shell -c "cat $m/none; $m/none"
        same "$shell: status" $shell -c "grep -q nothing $m/f || exit 41"
        same "$shell: env -i" $shell -c "env -i /bin/sh -c 'cat $m/f; env'"
        stubs "$shell: env -i" "/usr/bin/cat|cat|$m/f"
        same "$shell: in the mount" $shell -c "cd $m; cat f; ls; true"
        # fish's ls is a function that adds an option and tries it before
        equal "$shell: in the mount: stubs" \
            "$(sed 's/|--color=auto.*//' "$t/stubs" | sort -u | xargs)" \
            "/usr/bin/cat|cat|f /usr/bin/ls|ls"
    }
done <<END
bash
dash
zsh -f
busybox sh
mksh
fish
tcsh -f
END
same "bash: substitutions, functions, a trap" bash -c "
    f() { cat $m/f; }; trap 'echo trapped' EXIT; x=\$(f | sort); echo \"\$x\"
    diff <(cat $m/f) <(sort $m/f); coproc cat $m/f; wait; echo \${PIPESTATUS[@]}"
same "bash: exec" bash -c "exec -a other cat $m/f"
stubs "bash: exec" "/usr/bin/cat|other|$m/f"
same "bash: job control" sh -c "bash -mc 'cat $m/f | sort & wait; cat $m/f' 2>/dev/null"

# ---- what starts one command after another ---------------------------------------
printf '%s\n' "$m/f" "$m/f" "$m/f" >list
same "xargs" xargs -a list -n 1 cat
started "xargs" 3
same "xargs -P" sh -c "xargs -a list -n 1 -P 3 cat | sort"
same "xargs: not found" xargs -a list no-such-command
same "find -exec" find "$m" -type f -exec cat {} \;
started "find -exec" 1
same "find -exec +" find "$m" -type f -exec cat {} + -execdir wc -l {} \;
started "find -exec +" 2
printf 'all: a b c\na b c: ; @cat %s\nd: ; @cat %s | sort\ne: ; @no-such-command\n' "$m/f" "$m/f" >Makefile
has make && {
    same "make" make
    started "make" 3
    same "make -j" sh -c "make -j3 | sort"
    same "make: a pipeline" make d
    same "make: not found" make e
}
has parallel && {
    mkdir -p .parallel && : >.parallel/will-cite
    same "parallel" parallel -k cat ::: "$m/f" "$m/f"
    started "parallel" 2
}
has perl && {
    # shellcheck disable=SC2016
    same "perl" perl -e '$| = 1; $m = shift; system("cat", $m); print system("cat $m | sort"), "\n";
        print `cat $m`; open(F, "-|", "cat", $m); print <F>; close F; print "$?\n";
        open(F, "|sort"); print F "b\na\n"; close F; system("nosuch"); print "$!\n";
        print join(",", map { "$_=$ENV{$_}" } sort keys %ENV), "\n"; exec "cat", $m' "$m/f"
    equal "perl: stubs" "$(grep -c "cat|$m/f" "$t/stubs")" 5
}
[ -x $python ] && {
    cat >subprocesses.py <<'END'
import os, subprocess, sys
m = sys.argv[1]
def show(*args, **more):
    sys.stdout.flush()
    try:
        done = subprocess.run(*args, stdout=subprocess.PIPE, **more)
        print(done.returncode, done.stdout)
    except OSError as error:
        print(type(error).__name__, error)
    sys.stdout.flush()
show(["cat", m])
show(["cat", m], close_fds=False)
show(["/bin/cat", m], close_fds=False)
show(["cat", m], preexec_fn=lambda: None)
show(["cat", m], env={})
show(["/usr/bin/env"], env={})
show(["/usr/bin/env"], env={"A": "1", "LD_PRELOAD": "libm.so.6"})
show("cat %s | sort" % m, shell=True)
show(["no-such-command"])
show([os.path.dirname(m)])
show([m])
show(["cat", m], cwd="/nowhere")
print(os.system("cat " + m), os.popen("cat " + m).read())
pid = os.posix_spawn("/bin/cat", ["cat", m], {}, file_actions=[(os.POSIX_SPAWN_OPEN, 5, m, 0, 0)])
print(os.waitpid(pid, 0)[1])
pid = os.posix_spawnp("cat", ["cat", m], os.environ, setpgroup=0, setsigmask=[2], setsigdef=[3])
print(os.waitpid(pid, 0)[1])
os.mkdir("inner")
for path in "./own", "inner/own", "own":
    try:
        pid = os.posix_spawn(path, ["own", m], os.environ, file_actions=[(os.POSIX_SPAWN_CLOSE, 77)])
        print(os.waitpid(pid, 0)[1])
    except OSError as error:
        print(error)
os.rmdir("inner")
first = subprocess.Popen(["cat", m], stdout=subprocess.PIPE)
second = subprocess.Popen(["sort"], stdin=first.stdout, stdout=subprocess.PIPE)
first.stdout.close()
print(second.communicate(), first.wait())
print(sorted(os.environ.items()))
os.environ["NEW"] = "1"
sys.stdout.flush()
os.execvp("cat", ["cat", m])
END
    cp /bin/cat own
    same "python" $python subprocesses.py "$m/f"
    equal "python: stubs" "$(grep -c "|cat|$m/f" "$t/stubs")" 11
}

# ---- chains ------------------------------------------------------------------------
same "nice, nohup, timeout, env, setsid, stdbuf" nice nohup timeout 900 env A=1 \
    setsid -w stdbuf -o0 cat "$m/f"
stubs "a chain" "/usr/bin/cat|cat|$m/f"
same "stdbuf is seen" stdbuf -oL env
same "what /proc shows of an environment" \
    sh -c "grep -c -i ferry /proc/self/environ; sh -c 'grep -c -i -e ferry /proc/self/environ; cat $m/f'"
same "env -i, env -u, and on" env -i A=1 sh -c "env -u A sh -c 'cat $m/f; env'; env"
stubs "env -i" "/usr/bin/cat|cat|$m/f"
same "the dynamic linker as a command" /lib64/ld-linux-x86-64.so.2 /bin/sh -c "cat $m/f; env"
stubs "the dynamic linker as a command" "/usr/bin/cat|cat|$m/f"
same "LD_BIND_NOW" env LD_BIND_NOW=1 sh -c "cat $m/f; env"
stubs "LD_BIND_NOW" "/usr/bin/cat|cat|$m/f"
has busybox && same "busybox by its other names" busybox env sh -c "busybox cat $m/f; cat $m/f"
same "env FERRY_SETTINGS of the user's" env FERRY_SETTINGS=mine sh -c 'env; echo $FERRY_SETTINGS'
same "script without #!" sh -c "echo 'cat $m/f' >headless; chmod +x headless; ./headless; env ./headless; find headless -exec ./{} \\;"
printf '#!/bin/sh -e\ncat %s\necho "$0 $*"\n' "$m/f" >script
printf '#!/nowhere/sh\n' >bad
chmod +x script bad
same "script with #!" sh -c "./script a; env ./script b"
same "script that is annotated" sh -c "PATH=.:\$PATH; script $m/f; true"
equal "script that is annotated: stubs" "$(grep -c '^./script|' "$t/stubs")" 1
same "script without its interpreter" sh -c "./bad $m/f; env ./bad"
same "a program of its own group" sh -c "cp /bin/cat own; chmod 2755 own; ./own $m/f"
mkdir setgid && cp /bin/cat setgid/cat && chmod u+s setgid/cat
same "a setuid program" setgid/cat "$m/f"
stubs "a setuid program"
# What lists libraries does not name ferry's object.
names="sed 's/ (0x.*//'"
same "ldd" sh -c "ldd /bin/cat | $names"
same "... by its variable" sh -c "LD_TRACE_LOADED_OBJECTS=1 cat $m/f | $names"
same "... by the dynamic linker" sh -c "/lib64/ld-linux-x86-64.so.2 --library-path / --list /bin/cat | $names"
cat >secure.c <<'END'
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
extern char **environ;
int main(void) {
    printf("%lu\n", getauxval(AT_SECURE));
    for (char **e = environ; *e; e++) puts(*e);
    return 0;
}
END
compile -o secure secure.c
# By system call: with -f where a filter forbids execveat(2), with -d in a folder.
cat >number.c <<'END'
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
extern char **environ;
int main(int argc, char **argv) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_execveat, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {4, rules};
    int at = 1;
    if (strcmp(argv[1], "-f") == 0) {
        at = 2;
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 98;
    }
    if (strcmp(argv[1], "-d") == 0) {
        syscall(SYS_execveat, open(argv[2], O_PATH), argv[3], argv + 3, environ, 0);
    } else {
        syscall(SYS_execve, argv[at], argv + at, environ);
    }
    perror("execve");
    return 99;
}
END
compile -o number number.c
same "execve by number" ./number /bin/cat "$m/f"
stubs "execve by number" "/bin/cat|/bin/cat|$m/f"
same "execve by number, no execveat" ./number -f /bin/cat /etc/hostname
same "execveat by number, in a folder" ./number -d /bin cat /etc/hostname
same "execveat by number, in a folder, of a mount" ./number -d /bin cat "$m/f"
stubs "execveat by number, in a folder, of a mount" ""
same "execveat by number, beside a folder" ./number -d /etc /bin/cat "$m/f"
stubs "execveat by number, beside a folder" "/bin/cat|/bin/cat|$m/f"
same "execveat by number, not in the folder" ./number -d /bin number
same "execve by number, no such file" ./number -f ./none
chmod 755 "$t" "$t/work"
if chown nobody secure 2>/dev/null && chmod 4755 secure; then
    same "a setuid program's environment, by number" ./number ./secure
    same "a setuid program's environment" sh -c ./secure
    same "a setuid program's environment, found in PATH" env PATH="$t/work" secure
else
    skip "a setuid program's environment" "not root"
fi
same "an environment of twenty thousand variables" sh -c \
    "env -i \$(seq -f V%g=1 20000) /bin/sh -c '/usr/bin/env; /bin/cat $m/f'"
stubs "an environment of twenty thousand variables" "/bin/cat|/bin/cat|$m/f"
same "arguments of half a megabyte" sh -c "cat $m/f \$(seq 1 70000); true"
same "too many arguments" $python -c "
import os, subprocess
try:
    subprocess.run(['cat', '$m/f'] + ['x' * 100000] * 80)
except OSError as error:
    print(error)
try:
    subprocess.run(['cat', '$m/f', 'x' * 200000])
except OSError as error:
    print(error)"

# ---- the environment as programs show it -------------------------------------------
# shellcheck disable=SC2016
listings()
{
    while IFS='|' read -r program command; do
        has "$program" "$1: $program" && same "$1: $program" sh -c "exec $command"
    done <<'END'
env|env
printenv|printenv
dash|dash -c 'export -p; echo "$LD_PRELOAD"'
bash|bash -c 'export -p; declare -p; env' | grep -v -e BASHPID -e SRANDOM -e RANDOM -e EPOCH -e 'declare -i*r* PPID' -e SECONDS -e ' _='
zsh|zsh -f -c 'export; env'
mksh|mksh -c 'export -p; env'
busybox|busybox sh -c 'export -p; busybox env'
fish|fish -c 'set -x; env'
tcsh|tcsh -f -c 'setenv; env'
perl|perl -e 'print "$_=$ENV{$_}\n" for sort keys %ENV; $ENV{A}=1; system("env")'
python3|/usr/bin/python3 -c 'import os; print(os.environb); os.putenv("A", "1"); os.unsetenv("HOME"); os.system("env")'
gawk|gawk 'BEGIN { for (i in ENVIRON) print i, ENVIRON[i]; system("env") }'
mawk|mawk 'BEGIN { for (i in ENVIRON) print i, ENVIRON[i]; system("env") }'
make|make -s -f /dev/null --eval 'all: ; @env' all
tclsh|sh -c 'echo "puts [array get env]; puts [exec env]" | tclsh'
node|node -e 'console.log(process.env); console.log(require("child_process").execSync("env") + "")'
find|find . -maxdepth 0 -exec env ';'
git|git -c alias.e='!env' e
END
}
listings "environment"
LD_PRELOAD=libm.so.6 && export LD_PRELOAD
listings "environment with a preload of the user's"
same "a preload of the user's" sh -c 'grep -c libm.so /proc/self/maps; env -i grep -c libm.so /proc/self/maps; echo $LD_PRELOAD'
LD_PRELOAD=
listings "environment with an empty LD_PRELOAD"
unset LD_PRELOAD
# ---- programs that another dynamic linker loads ----------------------------------
if musl-gcc -o "$t/musl" -x c - 2>/dev/null <<END
#include <stdio.h>
#include <stdlib.h>
int main(void) { printf("%d\n", getenv("FERRY_SETTINGS") || getenv("LD_PRELOAD")); return 3; }
END
then
    printf '#!%s\n' "$t/musl" >"$t/muslscript"
    chmod +x "$t/muslscript"
    linker=$(readelf -lW "$t/musl" | sed -n 's/.*interpreter: \(.*\)]/\1/p')
    same "musl: sh, status and output" sh -c "$t/musl; echo \$?; $t/muslscript"
    same "musl: exec, background, pipes" sh -c "$t/musl | cat & wait; exec $t/musl"
    same "musl: the dynamic linker itself" sh -c "$linker $t/musl; echo \$?"
    same "musl: popen and system" sh -c "awk 'BEGIN { \"$t/musl\" | getline a; print a, system(\"$t/musl\") }'"
    same "musl: by descriptor and search" /usr/bin/python3 -c "
import os, subprocess
fd = os.open('$t/musl', os.O_RDONLY)
if os.fork() == 0:
    os.execve(fd, ['musl'], os.environ)
print(os.wait()[1], subprocess.run(['musl'], env=dict(os.environ, PATH='$t:/usr/bin')).returncode, flush=True)
print(os.spawnvpe(os.P_WAIT, 'musl', ['musl'], dict(os.environ, PATH='$t')))"
    # shellcheck disable=SC2154 # common.sh sets it
    "$build/ferry" run -- "$t/musl" >"$t/out" 2>&1
    equal "musl: ferry run" "$? $(cat "$t/out")" "3 0"
    "$build/ferry" run -- "$t/muslscript" >"$t/out" 2>&1
    equal "musl: ferry run of a script" "$? $(cat "$t/out")" "3 0"
    equal "musl: ferry doctor" "$("$build/ferry" doctor -- "$t/musl" | grep -c 'not for x86-64 with glibc')" 1
else
    skip "musl programs" "no musl-gcc"
fi

finish
