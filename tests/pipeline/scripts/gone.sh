# SPDX-License-Identifier: Apache-2.0
# sh=bash,dash,zsh placed=28
# Folders and files that go away while they are used.
mkdir d; cd d; rmdir ../d; ls; echo $?; cat "$M/notes/a.txt" | wc -l; cat ../notes/a.txt; echo $?; cd "$M"
mkdir d; cd d; mv ../d ../e; echo x >f; ls; sort ../notes/c.txt | head -1; cat "$M/e/f"; wc -l f; cd "$M"; mkdir d; echo y >d/f; cat d/f e/f
exec 3<notes/a.txt; rm notes/a.txt; wc -l <&3; cat notes/a.txt; echo $?; exec 3<&-
exec 4>out; rm out; sort notes/b.txt >&4; ls out; exec 4>&-
mv notes/b.txt notes/b2.txt; wc -l notes/b.txt; wc -l notes/b2.txt; ls notes
rm -r e; ls e; mkdir e; ls e; ln -s e l; ls l; rmdir e; ls l; mkdir e; touch e/x; ls l
(sleep 0.2; rm -f notes/c.txt) & cat notes/c.txt >/dev/null; wait; [ -e notes/c.txt ]; echo $?; cat notes/c.txt; echo $?
mv csv csv2; ls csv; head -1 csv2/orders.csv; mv csv2 csv; head -1 csv/orders.csv; cp -r csv csv3; rm -r csv; mv csv3 csv; wc -l csv/*
mv src/main.c src/m.c; mv src/util.c src/main.c; mv src/m.c src/util.c; head -1 src/main.c src/util.c
