# SPDX-License-Identifier: Apache-2.0
# sh=bash,dash,zsh placed=29
# Log rotation and keeping the newest three.
cd logs || exit
for i in 5 4 3 2 1; do [ -e access.log.$i.gz ] && mv access.log.$i.gz access.log.$((i + 1)).gz; done
mv access.log access.log.1 && gzip access.log.1 && : >access.log
ls
ls -t *.gz | tail -n +4 | sort | wc -l
ls -t *.gz | tail -n +4 | xargs rm -f
ls | wc -l
for i in 1 2 3 4 5 6 7 8; do touch -d "2021-01-0$i" snap.$i; done
ls -1t snap.* | tail -n +4 | while read -r f; do echo "rm $f"; rm "$f"; done
ls snap.*
find . -name 'snap.*' -mtime +30 -exec rm {} \; ; ls
find . -mmin -5 -type f | sort
touch new; find . -newer new | sort; [ new -nt access.log ] || echo older; test access.log -ot new; echo $?
