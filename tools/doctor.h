/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of ferry doctor that look at a program, and at a storage host.
 */
#ifndef FERRY_TOOLS_DOCTOR_H
#define FERRY_TOOLS_DOCTOR_H

/* Prints which calls of `program' ferry can reach and which not; returns an
 * exit status. */
int fy_doctor_program(const char *program);

/* Prints the offers of a storage host, "[USER@]HOST[:]" or a place, in doctor_host.c;
 * returns an exit status. */
int fy_doctor_host(const char *host);

#endif
