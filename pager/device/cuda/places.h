/* SPDX-License-Identifier: Apache-2.0 */
/* Finds CUDA's libraries that the loader does not know. */
#ifndef FERRY_PAGER_DEVICE_CUDA_PLACES_H
#define FERRY_PAGER_DEVICE_CUDA_PLACES_H

/*
 * Opens the library of that name (dlopen), or returns NULL: from the NVIDIA
 * wheels beside the program's own Python packages, the toolkit ($CUDA_HOME,
 * $CUDA_PATH, /usr/local/cuda), the wheels beside the python3 of $PATH. In
 * that order, because a library that the program itself may load later should
 * be the same file. Never from a folder in which any other user may write, nor
 * from a relative one.
 */
void *fy_cuda_places_open(const char *soname);
/* The first of these places only. */
void *fy_cuda_places_beside(const char *soname);

#endif
