/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the end-to-end benchmarks share: two processes on two cores that meet in a page of memory, a
 * topic type of any size, participants that the benchmark itself polls, plain sockets, and the context
 * a result is printed with. Everything stays on 127.0.0.1.
 */
#ifndef BENCH_E2E_COMMON_H
#define BENCH_E2E_COMMON_H

#include <apus/apus.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <sys/types.h>

#define NS_PER_SEC INT64_C(1000000000)
#define NS_PER_MS  INT64_C(1000000)

/** Exit codes of the benchmarks. */
enum { EXIT_DONE = 0, EXIT_TIMED_OUT = 1, EXIT_USAGE = 2, EXIT_FAILED = 3 };

/** The program's name in messages; set it first. */
extern const char *program_name;

/** Prints a sentence (with errno, if it is set) and ends the process with EXIT_FAILED. */
void __attribute__((noreturn)) die(const char *what);

/** CLOCK_MONOTONIC in ns. */
int64_t now_ns(void);
/** Moves the calling thread to one core. */
void pin(int core);

/** Different sample sizes of one run, and the largest one in bytes. */
#define SIZES_MAX  8
#define BYTES_MAX  1048576
#define ROUNDS_MAX 1000

/** What both benchmarks let their user choose. */
struct options {
	uint32_t bytes[SIZES_MAX]; /**< multiples of 8, 16…BYTES_MAX */
	uint32_t size_count;
	uint32_t seconds; /**< measured, all variants together */
	uint32_t rounds;  /**< 1…ROUNDS_MAX */
	uint32_t domain;
	int core[2]; /**< -1: the first two */
	const char *transport;
	bool json;
	const char *only; /**< throughput: kinds that have this in their name; NULL: all */
	bool peers;       /**< throughput: measure other implementations too */
};

/** Parses the command line over the defaults in `*options`, and finds the cores. --help prints `usage` and
 *  ends the process; a mistake ends it with EXIT_USAGE. */
void parse_options(int argc, char **argv, const char *usage, struct options *options);

/* ---- the other process ---- */

/** What both processes see. Each word has one writer; all start at 0. */
struct meeting {
	/* Written by the leader: what the follower is to do now. */
	_Alignas(128) _Atomic uint32_t order;
	/* Written by the follower: the order it has begun with. */
	_Alignas(128) _Atomic uint32_t begun;
	/* Handed back and forth by both to time a cache line. */
	_Alignas(128) _Atomic uint32_t line;
	/* Written by the follower before `begun` first changes: ports, failures. */
	_Alignas(128) uint16_t port[8];
	uint64_t number[8];
};

/** Shared memory for fork(). */
struct meeting *meeting_create(void);
/** Forks. In the child, ends it when the parent ends. Both end themselves after `limit_seconds`. */
pid_t fork_follower(uint32_t limit_seconds);
/** While one process waits for the other it polls worker 0 of `participant`; NULL: it only spins. A driven
 *  worker has to be polled until both sides have found each other. */
void poll_while_waiting(struct apus_participant *participant);
/** Leader: gives an order (another than the last) and waits until it is begun; exits if the follower ended. */
void give_order(struct meeting *m, pid_t follower, uint32_t order);
/** Follower: spins until there is another order than `last`; returns it without beginning it. */
uint32_t next_order(const struct meeting *m, uint32_t last);
/** Follower: true as long as the order stands. */
static inline bool order_stands(const struct meeting *m, uint32_t order)
{
	/* Relaxed: a flag to stop at; what the next order needs is acquired in next_order(). */
	return atomic_load_explicit(&m->order, memory_order_relaxed) == order;
}
/** Follower: says that an order is begun. */
static inline void begin_order(struct meeting *m, uint32_t order)
{
	/* Release, pairs with give_order(): ports and what else was prepared are visible. */
	atomic_store_explicit(&m->begun, order, memory_order_release);
}
/** Waits for the follower's end; its exit code. */
int await_follower(pid_t follower);

#define LINE_TURNS 20000

/** Both processes at once, side 0 and 1: hands a cache line over; returns ns one way. */
double hand_line_over(struct meeting *m, uint32_t side);

/* ---- endpoints ---- */

/** A keyless final type of exactly `bytes` bytes of CDR: a number, then octets. */
struct sized_type {
	struct apus_type octets, type;
	struct apus_member members[2];
	char name[32];
};

/** bytes: a multiple of 8, 16…BYTES_MAX. `t` must outlive the participants and not move. */
void sized_type_init(struct sized_type *t, uint32_t bytes);

/** A participant on loopback whose only worker the caller polls. settings: further "name=value" texts,
 *  NULL-terminated, or NULL. transport NULL: the settings say transport and interface. Ends the process on
 *  failure. */
struct apus_participant *open_participant(uint32_t domain, const char *transport,
					  const char *const *settings);
/** Endpoints, a writer that lends one sample at a time, of a topic named "<name>_<bytes>_<reliability>". */
struct apus_writer *open_writer(struct apus_participant *p, const char *name,
				const struct sized_type *type, uint32_t bytes,
				struct apus_qos *qos);
struct apus_reader *open_reader(struct apus_participant *p, const char *name,
				const struct sized_type *type, uint32_t bytes,
				struct apus_qos *qos);
/** A non-blocking UDP socket on a free port of 127.0.0.1. receive_bytes: buffer wanted, 0 = default. */
int open_socket(int receive_bytes, uint16_t *port_out);
struct sockaddr_in loopback_address(uint16_t port);

/**
 * Begins the report: versions, CPU, kernel, cores, transport, the cache line's time in each round, and the
 * table's head (`columns`, a line) or the JSON object up to and with `"results":[`.
 */
void print_head(const char *benchmark, const struct options *options,
		const struct apus_participant *participant, const double *line_ns,
		const char *columns);

#endif
