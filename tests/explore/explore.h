/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exhaustive exploration of small concurrent programs under the C11 memory model, for code whose shared words
 * go through shm/atomic.h.
 *
 * A program is a few threads of ordinary code. The explorer runs it again and again, each time with another
 * order of its atomic operations and another permitted value for each load, until nothing new is left. A state
 * reached twice (same memory, same views, same results seen by each thread) is followed once.
 *
 * The model is an operational one: each word has a list of the values written to it; each thread has a view
 * of how far into each list it must have seen; a release write carries the view of its thread, an acquire read
 * takes it over; sequentially consistent accesses of a word also see everything such accesses did before. Weaker
 * than x86: stale values, and stores that pass loads. Not covered: plain stores by two threads to the same
 * word that happen in another order than they become visible, and reads from the future (load buffering).
 *
 * Broken variants: explore_weaken() gives the operations of one function another order; a program that still
 * holds then does not need that order, or does not test it.
 */
#ifndef APUS_TESTS_EXPLORE_H
#define APUS_TESTS_EXPLORE_H

#define APUS_SHM_EXPLORED 1

#include "shm/atomic.h"

enum explore_order {
	EXPLORE_relaxed,
	EXPLORE_acquire,
	EXPLORE_release,
	EXPLORE_acq_rel,
	EXPLORE_seq_cst
};
enum explore_kind { EXPLORE_LOAD, EXPLORE_STORE, EXPLORE_EXCHANGE, EXPLORE_OR, EXPLORE_REPLACE };

/** One atomic operation; `function` names the place in the source. Returns the value read, or for REPLACE whether
 *  it succeeded. Only inside a thread, or in a program's begin and end. */
uint64_t explore_op(const char *function, enum explore_kind kind, const apus_shm_word *word,
		    uint64_t value, uint64_t expected, enum explore_order order);

#define apus_shm_load(word, order) explore_op(__func__, EXPLORE_LOAD, word, 0, 0, EXPLORE_##order)
#define apus_shm_store(word, value, order) \
	((void)explore_op(__func__, EXPLORE_STORE, word, value, 0, EXPLORE_##order))
#define apus_shm_exchange(word, value, order) \
	explore_op(__func__, EXPLORE_EXCHANGE, word, value, 0, EXPLORE_##order)
#define apus_shm_fetch_or(word, value, order) \
	explore_op(__func__, EXPLORE_OR, word, value, 0, EXPLORE_##order)
#define apus_shm_replace(word, expected, value, order) \
	(explore_op(__func__, EXPLORE_REPLACE, word, value, expected, EXPLORE_##order) != 0)

#define EXPLORE_THREADS 3

/** What is explored. All state of the program lies in static memory that begin() resets. */
struct explore_program {
	const char *name;
	void (*begin)(void);                   /* before the threads; sees all it writes */
	void (*thread[EXPLORE_THREADS])(void); /* NULL: none */
	void (*end)(void);                     /* after them; has seen everything */
	int mortal; /* this thread (> 0) may end between any two operations */
};

struct explore_result {
	uint64_t runs;   /* executions, also those cut short */
	uint64_t states; /* different ones */
	bool failed;     /* explore_check() failed in one */
	char why[128];
};

/** All operations of one kind in one function have another order while the next explorations run; NULL: none. */
void explore_weaken(const char *function, enum explore_kind kind, enum explore_order order);

/** Explores a program; stops at the first failure. Aborts beyond its own limits (words, writes, steps). */
struct explore_result explore(const struct explore_program *program);

/** In begin(): accesses to this word must be ordered by others, as those to plain memory; a race is a failure. */
void explore_watch(const apus_shm_word *word);

/** Notes a failure of the present execution. */
void explore_check(bool holds, const char *what);

#endif
