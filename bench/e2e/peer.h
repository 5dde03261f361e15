/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What another implementation has to do to take part in the throughput benchmark: stream samples of one size
 * from a writer to a reader of another process over UDP on 127.0.0.1. Samples are images of sized_type, which
 * bench_peer.idl repeats; each implementation serialises and deserialises them by its own means.
 *
 * Takes part by callback: the reader's samples are handed over in whatever thread the implementation uses.
 */
#ifndef BENCH_E2E_PEER_H
#define BENCH_E2E_PEER_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What an endpoint is. */
struct peer_options {
	uint32_t domain;
	bool writer;
	bool reliable;
	bool batch;
	uint32_t bytes;                                    /* 16, 256, 4096 or 1048576 */
	uint32_t history;                                  /* KEEP_ALL with room for so many */
	void (*on_sample)(void *user, const void *sample); /* readers */
	void *user;
};

/** One implementation. */
struct peer {
	const char *name;
	bool batches; /* options.batch has an effect */
	/** Creates an endpoint (and, for the first, a participant); NULL on failure. */
	void *(*open)(const struct peer_options *options);
	/** True if it has a counterpart. */
	bool (*matched)(void *endpoint);
	/** Writes a sample; false if it was refused. May block while the history is full. */
	bool (*write)(void *endpoint, const void *sample);
	/** Sends what is batched, and waits up to 2 s for acknowledgements if it is reliable. */
	void (*drain)(void *endpoint);
};

/** NULL where not built. */
extern const struct peer *const peer_cyclone, *const peer_fastdds, *const peer_zeromq;

#ifdef __cplusplus
}
#endif

#endif
