/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef TIMED_H
#define TIMED_H

#include "spread.h"

/*
 * Runs the workload by the clock, for plan->milliseconds, and prints
 * "PARTYWALL ops INDEX COUNT NANOSECONDS".  All processes of all containers
 * begin together, and work a little before and after what is counted, so that
 * none is measured while another has not begun or is done.
 */
void timed(const struct plan *plan);

#endif
