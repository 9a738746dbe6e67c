#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Scripts whose stages run at a loopback proxy while their stdin comes from this
machine, against the same scripts without it, as pipes.py does. $HERE is a folder
that is on no mount. Prints TAP."""
import sys

import pipes

MAKE = ("mkdir -p $HERE/t/a/b; seq 1 20000 > $HERE/t/a/n; echo x > $HERE/t/a/b/x;"
        "echo é > \"$HERE/t/a/b/y y\"; ln -sf x $HERE/t/a/b/l;")
TAR = MAKE + "tar cf $HERE/t.tar --mtime=@1 -C $HERE/t a;"
SHOW = "; find a -printf '%p %y %s %m %l\\n' | sort | md5sum; rm -r a"
# Until `out' has something, and a moment more, so that stdout has it as well.
WRITTEN = "until [ -s out ]; do sleep 0.1; done; sleep 1; "
# A pipe whose reader is gone; one that is full before anything else is written.
UNREAD = "exec 3> >(exit 0); wait $!; "
FILL = ("python3 -c 'import fcntl, os; "
        "os.write(1, b\"x\" * fcntl.fcntl(1, 1032))'; ")  # F_GETPIPE_SZ
WRITER = ("seq 1 150000 > $HERE/big; (cat $HERE/big missing 2>$HERE/said; "
          "echo $? >>$HERE/said) | ")
LAST = "; cat $HERE/said"
BIG = "head -c 300000000 /dev/zero | tr '\\0' 'abcdefgh'"

# name, script, what the report must hold
SCRIPTS = [
    ("tar of a pipe", TAR + "tar cf - -C $HERE/t a | tar xf -" + SHOW,
     "tar none 0"),
    ("tar of a slow pipe", TAR + "(sleep 0.3; dd if=$HERE/t.tar bs=700 "
     "2>/dev/null) | tar xf -" + SHOW, "tar none 0"),
    ("tar of a file", TAR + "tar xf - < $HERE/t.tar" + SHOW, "tar none 0"),
    ("tar into a folder", TAR + "mkdir d; tar xf - -C d < $HERE/t.tar; cd d"
     + SHOW + "; cd ..; rmdir d", "tar none 0"),
    ("a list of what is unpacked", TAR + "tar xvf - < $HERE/t.tar | sort; "
     "rm -r a", "tar none 0"),
    ("tar of no archive", "seq 1 30000 | tar xf -; echo $?", "tar none 2"),
    ("tar of half an archive", TAR + "head -c 50000 $HERE/t.tar | tar xf -; "
     "echo $?; wc -c < a/n; rm -r a", "tar none 2"),
    ("tar of nothing", "true | tar xf -; echo $?", "tar none"),
    ("a shared pipe", TAR + "{ cat $HERE/t.tar; seq 1 9; } | "
     "{ tar xf -; cat; }; rm -r a", "tar local-input"),
    ("a shared file", TAR + "{ tar xf -; cat; } < $HERE/t.tar" + SHOW,
     "tar local-input"),
    ("a shared file that is drained", "seq 1 9 > $HERE/f;"
     "{ sort -r -o out; cat; } < $HERE/f; cat out; rm out", "sort none 0"),
    ("a shared file, from its middle", "seq 1 9 > $HERE/f;"
     "{ read x; sort -r -o out; cat; echo \"[$x]\"; } < $HERE/f; cat out;"
     "rm out", "sort none 0"),
    ("a loop over a file", "seq 1 3 > $HERE/f; while read x; do "
     "echo $x | tee out$x > /dev/null; done < $HERE/f; cat out?; rm out?",
     "tee none 0"),
    ("an inherited stdin in a loop", "seq 1 3 > $HERE/f; while read x; do "
     "grep -c -f - s; done < $HERE/f", "grep local-input"),
    ("tee", "seq 1 30000 | tee out | md5sum; md5sum < out; rm out",
     "tee none 0"),
    ("tee to many", "seq 1 30000 | tee o1 o2 o3 > /dev/null;"
     "cat o1 o2 o3 | md5sum; rm o1 o2 o3", "tee none 0"),
    ("tee, appended", "echo a > out; echo b | tee -a out; cat out; rm out",
     "tee none 0"),
    ("tee to a full device", "seq 1 9 | tee out > /dev/full; echo "
     "${PIPESTATUS[*]}; cat out; rm out", "tee odd-stream"),
    ("no permission", "mkdir -p ro; echo x | tee ro; echo $?; rmdir ro",
     "tee none 1"),
    ("patterns from here", "printf '77\\n88\\n' | grep -f - n | md5sum",
     "grep none 0"),
    ("patterns of a file", "seq 7 9 > $HERE/f; grep -c -f - n < $HERE/f",
     "grep none 0"),
    ("a here document", "grep -c -f - n <<E\n77\n88\nE", "grep none 0"),
    ("a large here document", "x=$(seq 1 20000); sort -r -o out <<E\n$x\nE\n"
     "md5sum < out; rm out", "sort none 0"),
    ("both sides", "sort n > sorted; seq 5 3 99 | sort | comm -1 -2 - sorted "
     "| md5sum; rm sorted", "comm none 0"),
    ("with a file there", "echo between | cat s - t", "cat none 0"),
    ("an early end of a writer", "seq 1 2000000 | cat - missing | head -2;"
     "echo ${PIPESTATUS[*]}", None),
    ("a reader that ends early", "seq 1 200000 | grep -q 7 - n;"
     "echo ${PIPESTATUS[*]}", "grep local-input"),
    # The writer's end shows how far it got: past a pipe or two, not to the next file.
    ("a reader's reader that ends early", WRITER + "cat - n | (read x; echo $x)"
     + LAST, "cat none"),
    ("a joined reader's reader that ends early", WRITER + "cat - n | head -1" +
     LAST, "cat none"),
    ("a reader's reader that is slow", WRITER + "cat - n | (sleep 2; read x; "
     "echo $x)" + LAST, "cat none"),
    ("the reader fails at once", "yes | sort -o missing/x; "
     "echo ${PIPESTATUS[*]}", "sort none 2"),
    ("split", "seq 1 30000 | split -l 4000 - part; cat part* | md5sum;"
     "ls part*; rm part*", "split none 0"),
    ("a large stream", BIG + " | tee out | md5sum; md5sum < out; rm out",
     "tee none 0"),
    ("two writers here", "(echo a; sleep 0.1; echo b) | tee out; rm out",
     "tee none 0"),
    ("a writer here and one there", "(cat s; echo b; cat t) | tee out; rm out",
     "tee none 0"),
    ("a writer there and one here", "(echo b; cat s) | tee out | tac; rm out",
     "tee none 0"),
    ("joined behind", "seq 1 9999 | tee out | sort -r | head -2; rm out",
     "tee none 0"),
    ("a filter of here", "seq 1 9 | sort -r; seq 1 9 > $HERE/f;"
     "sort -r < $HERE/f", "sort local-input"),
    ("a filter to a file there", "seq 1 999 | sort -r > out; md5sum < out;"
     "rm out", "sort none 0"),
    ("a file of here to one there", "seq 1 9 > $HERE/f; sort -r < $HERE/f "
     "> out; cat out; rm out", "sort none 0"),
    ("an empty file", ": > $HERE/f; cat s - t < $HERE/f", "cat none 0"),
    ("read and write", "seq 1 9 > $HERE/f; cat - s <> $HERE/f", None),
    ("only for writing", "cat s - > $HERE/g < /dev/null; cat - s 0> $HERE/f;"
     "echo $?", None),
    ("behind its end", "seq 1 9 > $HERE/f; exec 3< $HERE/f; cat <&3 > $HERE/g;"
     "cat - s <&3", None),
    ("named pipe of here", "mkfifo $HERE/p; seq 1 9 > $HERE/p & "
     "cat - s < $HERE/p; wait; rm $HERE/p", "cat local-input"),
    ("process substitution", "cat - s < <(seq 1 9)", None),
    ("interrupted", "(echo x; sleep 3) | timeout 2 tee out; "
     "echo ${PIPESTATUS[*]}; cat out; rm out", "tee local-input"),
    ("killed", "(echo x; sleep 5) | tee out & " + WRITTEN +
     "kill $!; wait $! 2>/dev/null; echo $?; rm -f out", "tee none"),
    ("a signal", "(echo x; sleep 5) | tee out & " + WRITTEN +
     "kill -USR1 $!; wait $! 2>/dev/null; echo $?; rm -f out", "tee none"),
    ("coprocess", "coproc tee out; echo hi >&${COPROC[1]};"
     "read x <&${COPROC[0]}; echo $x; exec {COPROC[1]}>&-; wait; cat out;"
     "rm out", None),
    ("more than can be kept", "ulimit -f 300; seq 1 600000 | cat s - t |"
     "md5sum; echo ${PIPESTATUS[*]}", "cat limits"),
    ("more than can be kept, for an effect", "(sleep 0.4; seq 1 600000) |"
     "sh -c 'ulimit -f 300; exec cat s - t' | tee out | md5sum; rm out",
     "linked 1"),
    ("kept in a file", "seq 1 600000 | cat s - t | md5sum", "cat none 0"),
    ("an effect whose output has no room", "mkdir m; touch m/f{1..300};"
     "(trap '' XFSZ; ulimit -f 1; rm -v m/* > $HERE/g; echo $?);"
     "wc -c < $HERE/g; ls m; rmdir m", "rm none 0"),
    # Without a reader from the start it stays here.
    ("an effect that nobody reads", "mkdir m; touch m/f{1..150};" + UNREAD +
     "rm -v m/* >&3 3>&-; echo $?; ls m; rmdir m", "rm odd-stream"),
    ("an effect that nobody reads, and does not die of it",
     "mkdir m; touch m/f{1..300}; trap '' PIPE;" + UNREAD +
     "rm -v m/* >&3 3>&-; echo $?; ls m; rmdir m", "rm odd-stream"),
    ("an effect that nobody reads, and goes on", "trap '' PIPE;" + UNREAD +
     "seq 1 9999 | tee out >&3 3>&-; echo $?; md5sum < out; rm out",
     "tee odd-stream"),
    # One that it had at its start ends before anything was written.
    ("an effect that loses its reader", "mkdir m; touch m/f{1..150};"
     "{ " + FILL + "rm -v m/*; } | while [ -e m/f1 ]; do sleep 0.1; done;"
     "echo ${PIPESTATUS[*]}; ls m; rmdir m", "rm none"),
    ("an effect that loses its reader, and does not die of it",
     "mkdir m; touch m/f{1..300}; trap '' PIPE;"
     "{ " + FILL + "rm -v m/*; echo $? >&2; } | while [ -e m/f1 ]; do "
     "sleep 0.1; done; ls m; rmdir m", "rm none"),
    ("an effect that goes on", "(until [ -e $HERE/gone ]; do sleep 0.1; done;"
     "seq 1 9; seq 1 9999) | (trap '' PIPE; exec tee out) |"
     "(until [ -e out ]; do sleep 0.1; done; exec <&-; : > $HERE/gone);"
     "echo ${PIPESTATUS[*]:1}; md5sum < out; rm out $HERE/gone", "tee none"),
    ("an effect that ends by its output", "(seq 1 9; sleep 1; seq 1 99999) |"
     "tee out | (read x); echo ${PIPESTATUS[*]:1}; rm out", "tee none"),
    ("a slow reader", BIG + " | head -c 30000000 | tee out | "
     "(sleep 0.3; md5sum); rm out", "tee none 0"),
]

sys.exit(pipes.main(SCRIPTS))
