# SPDX-License-Identifier: Apache-2.0
# sh=bash slow placed=3
# A Fortran program with BLAS and LAPACK, built and run on the mount.
cat >solve.f90 <<'F'
program solve
  implicit none
  integer, parameter :: n = 300
  double precision :: a(n,n), b(n), c(n,n), s
  integer :: i, j, info, ipiv(n)
  do j = 1, n
    do i = 1, n
      a(i,j) = mod(i * 7 + j * 13, 31) / 31d0
    end do
    a(j,j) = a(j,j) + n
    b(j) = j
  end do
  call dgemm('N', 'T', n, n, n, 1d0, a, n, a, n, 0d0, c, n)
  call dgesv(n, 1, a, n, ipiv, b, n, info)
  s = sum(abs(b))
  open(10, file='result.dat'); write(10, '(es12.5)') s; close(10)
  print '(i0, es12.5, es12.5)', info, s, c(3,5)
end program
F
gfortran -O1 -o solve solve.f90 -lopenblas 2>/dev/null || gfortran -O1 -o solve solve.f90 -llapack -lblas; echo $?
./solve; cat result.dat
for i in 1 2 3; do ./solve >run.$i; done; cmp run.1 run.2 && cat run.* | sort -u
python3 -c 'import numpy as n; a = n.arange(90000.).reshape(300, 300) / 1e4; print("%.6e" % (a @ a).sum()); n.save("a.npy", a)' 2>/dev/null; md5sum a.npy 2>/dev/null; wc -l <solve.f90
