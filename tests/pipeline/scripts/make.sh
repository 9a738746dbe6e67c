# SPDX-License-Identifier: Apache-2.0
# sh=bash,dash placed=10
# A small C project built on the mount with pattern rules, twice.
cd src
make 2>&1
./prog 7; echo $?
make; make -q; echo "q $?"
sleep 1.05
touch util.h
make 2>&1 | sort
make -s clean; make -j2 all 2>&1 | sort
make report
cat report.txt
make broken; echo "status $?"
ls
make -s clean
ls
