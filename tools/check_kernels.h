/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ferry check' of code that is compiled only on a machine with CUDA: kernels of the
 * user, and those that maps become. Without NVRTC it says that it did not look.
 */
#ifndef FERRY_TOOLS_CHECK_KERNELS_H
#define FERRY_TOOLS_CHECK_KERNELS_H

#include "annotations/model/model.h"

/*
 * Compiles all kernels of the model, for the first card or, without one, for a
 * usual one; the compiler's messages go to stderr, and a line about the work
 * to stdout. FY_ERR_INVALID: one does not compile.
 */
int fy_check_kernels(const struct fy_model *model);

#endif
