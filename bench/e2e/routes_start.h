/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the start of a process until its writer and its reader are matched with those of a process that runs
 * already, and how much memory it has when nothing happens.
 */
#ifndef BENCH_E2E_ROUTES_START_H
#define BENCH_E2E_ROUTES_START_H

#include "routes.h"

/** First argument of the program when it is one of these processes. */
#define START_SIDE "--start-side"

/** Starts pairs of processes of this program; prints a JSON object. Returns the exit code. */
int start_main(const struct peer *peer, const struct routes_options *o);
/** One of them. begin_ns: when it was started; spec: "route,domain,side". Returns the exit code. */
int start_side(const struct peer *peer, const char *begin_ns, const char *spec);

#endif
