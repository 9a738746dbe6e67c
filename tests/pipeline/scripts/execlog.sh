# SPDX-License-Identifier: Apache-2.0
# sh=bash placed=1
# All output goes through tee to a log on the mount, with xtrace in another. The
# members of a pipeline trace in any order: the trace is compared sorted.
exec > >(tee -a run.log) 2>&1
exec 7>trace.log; BASH_XTRACEFD=7; PS4='+$LINENO: '; set -x
sort notes/a.txt | head -2
wc -l nosuch
for f in notes/*.txt; do wc -c <"$f"; done
set +x
trap 'echo "err at $LINENO: $BASH_COMMAND"' ERR
grep -q nosuchword notes/a.txt
cat nosuch | sort
trap - ERR
unset BASH_XTRACEFD; exec >/dev/null 2>&1
LC_ALL=C sort -o trace.log trace.log
for i in 1 2 3 4 5 6 7 8 9 10; do [ "$(wc -l <run.log)" -ge 9 ] && break; sleep 0.1; done
