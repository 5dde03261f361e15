/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the allocations of all threads: every allocation function is wrapped at link time. */
#ifndef TESTS_API_ALLOCATIONS_H
#define TESTS_API_ALLOCATIONS_H

/** Starts counting from 0. */
void allocations_begin(void);
/** Stops counting. Returns the number since allocations_begin(). */
unsigned long allocations_end(void);

#endif
