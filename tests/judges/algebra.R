# SPDX-License-Identifier: Apache-2.0
# Linear algebra in R: prints residuals as TRUE or FALSE and results to six
# digits, so that the output does not depend on rounding.
set.seed(7)
n <- 60
a <- matrix(rnorm(n * n), n)
b <- matrix(rnorm(n * 5), n)
small <- function(x) max(abs(x)) < 1e-8
s <- crossprod(a) + diag(n)
x <- solve(a, b)
print(small(a %*% x - b))
r <- chol(s)
print(small(t(r) %*% r - s))
print(small(chol2inv(r) %*% s - diag(n)))
e <- eigen(s, symmetric = TRUE)
print(small(e$vectors %*% (e$values * t(e$vectors)) - s))
d <- svd(a)
print(small(d$u %*% (d$d * t(d$v)) - a))
q <- qr(a, LAPACK = TRUE)
print(small(qr.Q(q) %*% qr.R(q) - a[, q$pivot]))
print(small(backsolve(r, r %*% b) - b))
print(small(tcrossprod(a) - a %*% t(a)))
z <- a + 1i * t(a)
print(small(Mod(solve(z) %*% z - diag(n))))
print(signif(c(sum(x), det(a), d$d[1:3], e$values[1:3]), 6))
f <- lm(b[, 1] ~ a[, 1:6])
print(signif(unname(coef(f)), 6))
