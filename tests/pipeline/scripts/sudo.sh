# SPDX-License-Identifier: Apache-2.0
# sh=bash,dash placed=12
# Other users, groups and read-only places.
chmod 755 .; mkdir open; chmod 1777 open; su -s /bin/sh nobody -c 'sort notes/a.txt >open/mine; wc -l open/mine; stat -c %U open/mine; cat src/main.c | wc -l; mkdir open/d; cp notes/*.txt open/d; ls open/d; sed -i s/a/b/ open/d/a.txt; grep -c b open/d/a.txt >/dev/null; echo x >notes/a.txt; rm -f notes/a.txt; mv notes/a.txt open; tar cf open/t.tar notes; id -un'
ls -l open | awk 'NR > 1 {print $1, $3, $9}' | sort; chown -R root open; ls -l open | awk 'NR > 1 {print $3}' | sort -u
chmod 000 notes/d.txt; su -s /bin/sh nobody -c 'cat notes/d.txt; grep x notes/*.txt | wc -l; find notes -readable -type f | sort; tar cf /dev/null notes; cp -r notes open/copy; test -r notes/d.txt; echo $?; head -1 notes/d.txt notes/c.txt'; cat notes/d.txt | wc -l
setpriv --reuid 12345 --regid 12345 --clear-groups sh -c 'wc -l notes/a.txt; touch x; sort notes/c.txt >open/byid; stat -c %u open/byid'; chmod 711 notes; su -s /bin/sh nobody -c 'ls notes; cat notes/a.txt | wc -l; wc -l notes/*.txt'; chmod 700 notes; su -s /bin/sh nobody -c 'cat notes/a.txt; cd notes; ls'; umask 0; touch laxer; stat -c %a laxer; sort notes/a.txt >lax2; stat -c %a lax2
