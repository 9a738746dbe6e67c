/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The half of ferry doctor that looks at a program.
 */
#ifndef FERRY_TOOLS_DOCTOR_H
#define FERRY_TOOLS_DOCTOR_H

/* Prints what can be reached of `program' and what not; an exit status. */
int fy_doctor_program(const char *program);

#endif
