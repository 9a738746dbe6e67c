# SPDX-License-Identifier: Apache-2.0
# sh=bash,dash placed=9
# Space: du, df, ls -s, quota-like report.
du -sb --apparent-size . | awk '{print ($1 > 1000)}'
du -a --apparent-size -b notes | sort -k2
du -b --apparent-size --max-depth=1 | sort -k2 | awk '{print $2}'
df . | awk 'NR == 2 {print NF >= 5}'
df --output=target . | tail -1 | grep -c .
ls -lS photos | awk 'NR > 1 {print $5}' | head -3
stat -c '%s %n' big.bin; stat -f -c %T . >/dev/null; echo $?
du -ch --apparent-size notes/*.txt | tail -1
ls -la --time-style=+%s | awk '{print $1, $2 > 0, $5 > 0, $7}' | sort -k4
find . -type f -printf '%s\n' | awk '{s += $1} END {print s > 0}'
