/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an implementation has to do to take part in the end-to-end benchmarks `throughput` (beside Apus) and `routes`
 * (Apus is one of them): carry samples of one size from a writer to a reader of another process. Samples are images of
 * sized_type, which bench_peer.idl repeats; each implementation serialises and deserialises them by its own
 * means.
 *
 * The reader's samples are handed over by callback: in whatever thread the implementation uses or, of one that has
 * none (`poll`), in the thread that polls.
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
	uint32_t bytes;                                    /* of PEER_SIZES */
	uint32_t history;                                  /* KEEP_ALL with room for so many */
	void (*on_sample)(void *user, const void *sample); /* readers */
	void *user;
	/* `routes` only; zero means nothing special. */
	const char *route; /* one of those the implementation has; NULL: the first */
	const char *topic; /* NULL: the implementation makes one of the rest */
	bool spawned;      /* as applications have it by default: nobody polls */
	bool echoes;       /* samples are written from within on_sample */
	uint32_t side;     /* 0, 1: which of the two */
	/* Over an interface instead of loopback: the address of this side, and of the other; else NULL. */
	const char *address, *other;
	const char *const *settings; /* "name=value", NULL-terminated; NULL: none */
};

/** Sample sizes that all implementations have a type for. */
#define PEER_SIZES                                      \
	{                                               \
		16, 64, 256, 1024, 4096, 65536, 1048576 \
	}

/** One implementation. */
struct peer {
	const char *name;
	bool batches; /* options.batch has an effect */
	/** Creates an endpoint (and, for the first, a participant); NULL on failure. */
	void *(*open)(const struct peer_options *options);
	/** With how many others it is matched. */
	uint32_t (*matched)(void *endpoint);
	/** Writes a sample; false if it was refused. May block while the history is full. */
	bool (*write)(void *endpoint, const void *sample);
	/** Sends what is batched, and waits up to 2 s for acknowledgements if it is reliable. */
	void (*drain)(void *endpoint);

	/* The rest is for `routes`, and NULL where there is no such thing. */

	/** Names of the routes it can take, NULL-terminated. */
	const char *const *routes;
	/** Version, as its package says. */
	const char *(*version)(void);
	/** Once, before the process forks. */
	void (*prepare)(const struct peer_options *options);
	/** Lets what is under way go on: one look at a reader, or at what a writer has to do. Returns the samples
	 *  that were handed over. NULL: it has threads of its own. */
	uint32_t (*poll)(void *endpoint);
	/** Writes an array of samples in one call; returns how many. */
	uint32_t (*write_many)(void *endpoint, const void *samples, uint32_t count);
	/** Memory to fill in place, or NULL if there is none at present, and how it leaves. */
	void *(*loan)(void *endpoint);
	bool (*publish)(void *endpoint, void *loan);
	/** Leaves in order; nothing is called afterwards. */
	void (*leave)(void);
};

/** NULL where not built. */
extern const struct peer *const peer_cyclone, *const peer_fastdds, *const peer_zeromq;
/** Only in programs of their own (routes_NAME). */
extern const struct peer *const peer_apus,
	*const peer_iceoryx, *const peer_raw, *const peer_socket, *const peer_frames;

#ifdef __cplusplus
}
#endif

#endif
