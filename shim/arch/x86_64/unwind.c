/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers the unwinder about the frame of an accepted call (enter.S): a C++
 * exception that a user's function throws in a chunk goes on to its caller,
 * and ferry tidies up as it passes. No landing pad, so nothing of libgcc is
 * needed. Itanium C++ ABI, level I. Runs on the throwing thread.
 */
#include "config.h"

#include <unwind.h>

#include "shim/calls/shim.h"

FY_HIDDEN _Unwind_Reason_Code fy_personality(int version,
                                             _Unwind_Action actions,
                                             _Unwind_Exception_Class class,
                                             struct _Unwind_Exception *thrown,
                                             struct _Unwind_Context *context);

_Unwind_Reason_Code
fy_personality(int version, _Unwind_Action actions,
               _Unwind_Exception_Class class, struct _Unwind_Exception *thrown,
               struct _Unwind_Context *context)
{
    (void)version;
    (void)class;
    (void)thrown;
    (void)context;
    if (actions & _UA_CLEANUP_PHASE) {
        fy_unwound();
    }
    return _URC_CONTINUE_UNWIND;
}
