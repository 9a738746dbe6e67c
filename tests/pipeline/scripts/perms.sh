# SPDX-License-Identifier: Apache-2.0
# sh=bash,dash,zsh placed=22
# Permission errors, umask, read-only folders.
umask 027; sort notes/a.txt >u1; mkdir d1; cp notes/a.txt d1; touch t1; stat -c '%a %n' u1 d1 d1/* t1
umask 077; cat notes/*.txt >u2; tar cf u.tar notes; mkdir -p d2/e; stat -c '%a %n' u2 u.tar d2 d2/e
umask 022; mkdir -m 700 d3; install -m 755 src/main.c inst; cp -p src/main.c pres; stat -c '%a %n' d3 inst pres
chmod 444 u1; echo x >>u1; echo $?; cp notes/b.txt u1; rm -f u1; ls u1; echo $?
chmod 4755 t1; stat -c %a t1; chmod u-s,g+w,o= t1; stat -c %a t1; chmod -R go-rwx d1; stat -c '%a %n' d1 d1/*
ls /nosuch notes/nosuch; echo $?; cat notes; echo $?; cp notes x; echo $?; rm notes; echo $?; mkdir notes; echo $?; rmdir notes; echo $?; mv nosuch y; echo $?
cat </nosuch; echo $?; ./notes/a.txt; echo $?; nosuchcommand; echo $?
ln -s loop loop; cat loop; echo $?; touch notes/a.txt/x; echo $?
su -s /bin/sh nobody -c 'cat notes/a.txt | wc -l; touch notes/new; rm notes/b.txt; ls notes/b.txt' </dev/null; echo $?
chmod 700 photos; su -s /bin/sh nobody -c 'ls photos; find photos -type f | wc -l'; echo $?
chown nobody notes/c.txt; stat -c %U notes/c.txt
