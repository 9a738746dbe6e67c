# SPDX-License-Identifier: Apache-2.0
# sh=bash,dash,zsh placed=13
# Split a large file, check sums, put it together, flip bytes, resume.
set -e
split -b 300k -d big.bin piece.
ls piece.* | wc -l
sha256sum piece.* >SUMS
sha256sum -c --quiet SUMS && echo fine
cat piece.* | cmp - big.bin && echo whole
cat piece.* >again.bin
sha256sum big.bin again.bin | cut -c1-64 | uniq | wc -l
printf X | dd of=piece.01 bs=1 seek=1000 conv=notrunc 2>/dev/null
sha256sum -c SUMS 2>&1 || echo "bad $?"
dd if=big.bin of=piece.01 bs=300k skip=1 count=1 2>/dev/null
sha256sum -c --status SUMS && echo mended
md5sum big.bin | md5sum -c
head -c 1000 big.bin | sha1sum; tail -c +1001 big.bin | cksum
rm piece.*
ls
