# SPDX-License-Identifier: Apache-2.0
# sh=bash,dash placed=36
# Links of all kinds, copies that follow or keep them.
ln -s notes/a.txt s1; ln -s ../notes notes/self; ln notes/b.txt h1; ln -s nosuch s2; ln -s s1 s3; ls -l s1 s2 s3 | awk '{print $1, $9, $10, $11}'
cat s1 s3 | wc -l; wc -l s2; cp s1 c1; cp -P s1 c2; cp -L s3 c3; test -L c1; echo $?; test -L c2; echo $?; test -L c3; echo $?
echo more >>s1; tail -1 notes/a.txt; echo x >s2; cat nosuch; rm nosuch; sed -i 's/more/less/' s1; test -L s1; echo $?; tail -1 notes/a.txt; tail -1 s1
sed -i --follow-symlinks 's/apple/PEAR/' s3; grep -c PEAR notes/a.txt s1; mv s3 s4; cat s4 | wc -l; rm s4; sort -o h1 h1; cmp h1 notes/b.txt && stat -c %h h1
gzip h1; ls h1*; gzip -c h1 >h1.gz; rm h1; stat -c %h notes/b.txt; cp -a notes n2; ls -l n2 | awk '{print $1, $NF}'; tar cf l.tar notes s2; tar tvf l.tar | awk '{print $1, $6, $7, $8}'; tar chf l2.tar csv; find -L notes -maxdepth 2 -name '*.csv' | sort; du -L notes/csv | wc -l
readlink s2 notes/self; readlink -f notes/self/a.txt | sed 's,.*/notes,notes,'; realpath --relative-to=. notes/self/csv/orders.csv; cd notes/self; pwd | sed 's,.*/notes,notes,'; ls | wc -l; cat ../notes/c.txt | wc -l; cd ..; ls -d notes; ln -sf b.txt s; ln -sf c.txt s; readlink s; chmod 600 s; stat -c %a c.txt; touch -h s; chown -h root s; find . -xtype l | sort; rm -r self; ls
