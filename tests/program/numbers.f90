! SPDX-License-Identifier: Apache-2.0
! A Fortran program: hidden lengths, complex results, an xerbla of its own,
! array sections, assumed-shape arrays. Prints whole numbers only.
module numbers
  implicit none
  integer, parameter :: dp = kind(1.0d0)
contains
  subroutine fill(x, seed)
    real(dp), intent(out) :: x(:, :)
    integer, intent(in) :: seed
    integer :: i, j
    do j = 1, size(x, 2)
      do i = 1, size(x, 1)
        x(i, j) = mod(i * 7 + j * 13 + seed * 5, 11) - 5
      end do
    end do
  end subroutine fill

  subroutine multiply(a, b, c)
    real(dp), intent(in) :: a(:, :), b(:, :)
    real(dp), intent(inout) :: c(:, :)
    external :: dgemm
    ! Sections that are not contiguous come as copies, and go back.
    call dgemm('N', 'T', size(c, 1), size(c, 2), size(a, 2), 1.0d0, a, &
               size(a, 1), b, size(b, 1), 1.0d0, c, size(c, 1))
  end subroutine multiply
end module numbers

subroutine xerbla(name, info)
  character(len=*), intent(in) :: name
  integer, intent(in) :: info
  write (*, '(a, a, a, i0, a, i0)') 'xerbla [', trim(name), '] ', info
end subroutine xerbla

program main
  use numbers
  implicit none
  integer, parameter :: n = 48
  real(dp) :: a(n, n), b(n, n), c(n, n), x(n)
  complex(dp) :: z(n, n), y(n, n), w(n, n)
  complex(dp), external :: zdotc, zdotu
  real(dp), external :: ddot, dasum
  integer, external :: idamax
  external :: dgemm, zgemm, dsyrk, dtrmm, dgemv, zherk
  integer :: info

  call fill(a, 1)
  call fill(b, 2)
  call fill(c, 3)
  call multiply(a(1:n:2, 1:n:3), b(2:n:2, 1:n:3), c(1:n:2, 2:n:2))
  print '(a, i0)', 'sections ', nint(sum(c * a))
  call dgemm('Transpose', 'No', n, n, n, 2.0d0, a, n, b, n, 0.0d0, c, n)
  print '(a, i0)', 'dgemm ', nint(sum(c * a))
  call dsyrk('Upper', 'Trans', n - 3, n, 1.0d0, a, n, 1.0d0, c(2, 3), n)
  print '(a, i0)', 'dsyrk ', nint(sum(c * b))
  call dtrmm('R', 'L', 'N', 'U', n - 8, n - 9, 1.0d0, a(3, 3), n, c(5, 6), n)
  print '(a, i0)', 'dtrmm ', nint(sum(c * b))
  z = cmplx(a, b, dp)
  y = cmplx(b, -a, dp)
  w = 0
  call zgemm('C', 'T', n, n, n, (1.0d0, 1.0d0), z, n, y, n, (0.0d0, 0.0d0), w, n)
  print '(a, i0, 1x, i0)', 'zgemm ', nint(real(sum(w * z))), &
    nint(aimag(sum(w * z)))
  call zherk('L', 'N', n, n, 1.0d0, z, n, 1.0d0, w, n)
  print '(a, i0, 1x, i0)', 'zherk ', nint(real(sum(w * z))), &
    nint(aimag(sum(w * z)))
  print '(a, i0, 1x, i0)', 'zdotc ', nint(real(zdotc(n, z, 1, y, -1))), &
    nint(aimag(zdotc(n, z, 1, y, -1)))
  print '(a, i0, 1x, i0)', 'zdotu ', nint(real(zdotu(n, z, 2, y, 1))), &
    nint(aimag(zdotu(n, z, 2, y, 1)))
  print '(a, i0, 1x, i0, 1x, i0)', 'level 1 ', nint(ddot(n, a, 1, b, n)), &
    nint(dasum(n, a, 1)), idamax(n, a(1, 2), 1)
  x = 1
  call dgemv('T', n, n, 1.0d0, a, n, b(1, 4), 1, 2.0d0, x, 1)
  print '(a, i0)', 'dgemv ', nint(sum(x * b(:, 1)))
  info = -1
  call dgemm('N', 'N', n, info, n, 1.0d0, a, n, b, n, 1.0d0, c, n)
  call dgemm('N', 'N', n, n, n, 1.0d0, a, n - 1, b, n, 1.0d0, c, n)
  print '(a, i0)', 'unchanged ', nint(sum(c * b))
end program main
