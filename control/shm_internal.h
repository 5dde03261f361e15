/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the two files about matches through shared memory share: domain_shm.c (which matches take that route, and what
 * they hold) and domain_shm_link.c (who is on this host, and what is said). Nothing else includes this.
 */
#ifndef APUS_CONTROL_SHM_INTERNAL_H
#define APUS_CONTROL_SHM_INTERNAL_H

#include "control/domain.h"
#include "control/domain_shm.h"
#include "dataplane/shm_match.h"
#include "shm/link.h"

enum apus_ctl_shm_kind {
	APUS_CTL_SHM_HELLO = 1,
	APUS_CTL_SHM_OFFER,
	APUS_CTL_SHM_NONE,
	APUS_CTL_SHM_ACCEPT,
	APUS_CTL_SHM_REFUSE,
	APUS_CTL_SHM_DETACH,
	APUS_CTL_SHM_WITHDRAW,
	APUS_CTL_SHM_ASK, /* of no participant: what do you share? */
	APUS_CTL_SHM_TOLD,
	APUS_CTL_SHM_BYE /* the last one of a participant that is destroyed */
};

struct apus_ctl_shm_message {
	uint32_t magic;
	uint16_t version, kind;
	struct apus_prefix sender;
	uint32_t capacity; /* of the ring */
	struct apus_guid writer, reader;
	uint64_t offer; /* the writer's number for it */
	uint32_t slot_bytes, slot_count;
	uint32_t quota;        /* slots the reader may have */
	uint32_t inline_bytes; /* of payload, that cells of the ring have room for */
	uint32_t reserved;     /* 0; no byte of the message is unset */
	uint32_t no_reader;    /* REFUSE, DETACH: 1 if it is because that reader is no more */
};

/* A participant on this host. */
struct apus_ctl_shm_peer {
	struct apus_ctl_shm_peer *next;
	struct apus_prefix prefix;
	int out;   /* our connection to it; -1: it is gone */
	int pidfd; /* of its process; -1: not known yet, or dead */
	bool told; /* pidfd came with its HELLO; else it is of who listened */
	bool left; /* it has said BYE: what its process does now is no death of a participant */
};

/* A connection somebody made to us. */
struct apus_ctl_shm_connection {
	struct apus_ctl_shm_connection *next;
	struct apus_ctl_shm_peer *peer; /* NULL: it has not said who it is */
	int fd;
	bool answered; /* it has asked; once is enough */
};

enum apus_ctl_shm_state { APUS_CTL_SHM_WAITING, APUS_CTL_SHM_OFFERED, APUS_CTL_SHM_READY };

/* A match, or an offer for one that we do not know yet. */
struct apus_ctl_shm_route {
	struct apus_ctl_shm_route *next;
	struct apus_ctl_shm_peer *peer;
	struct apus_guid writer, reader;
	uint64_t match_id; /* 0: not known yet */
	uint64_t offer;
	enum apus_ctl_shm_state state;
	bool is_writer;
	bool ended;     /* the match is not in the graph any more */
	bool let_go;    /* writer: the reader has unmapped, or is dead */
	uint64_t epoch; /* when no worker can see it any more; 0: not published yet */
	struct apus_mono deadline;
	struct apus_writer *owner; /* writer */
	/* Writer. */
	struct apus_shm_segment cells, page;
	struct apus_dp_shm_out out;
	/* Reader. */
	void *mapped[3]; /* pool, cells, page */
	size_t mapped_bytes[3];
	struct apus_dp_shm_in in;
};

struct apus_ctl_shm {
	char directory[108];
	char name[2 * sizeof(struct apus_prefix) + 1];
	int listener, epoll, self;
	struct apus_ctl_shm_peer *peers;
	struct apus_ctl_shm_connection *connections;
	struct apus_ctl_shm_route *routes;
	uint32_t connection_count, route_count;
	uint64_t offers;
	uint64_t *
		network; /* by match slot: the id of the match that has been given to the network */
};

/* ---- domain_shm_link.c ----------------------------------------------------------------------------- */

/** Marks a message as ours, of this version; p: the sender, or NULL where nobody is. */
void apus_ctl_shm_sign(const struct apus_participant *p, struct apus_ctl_shm_message *m);
/** True if it is marked so. */
bool apus_ctl_shm_is_ours(const struct apus_ctl_shm_message *m);
/** Sends a message with descriptors; returns as apus_shm_send(). */
int apus_ctl_shm_say(struct apus_participant *p, struct apus_ctl_shm_peer *peer,
		     struct apus_ctl_shm_message *m, const int *fds, uint32_t fd_count);
/** Sends one that names a route and nothing else. */
void apus_ctl_shm_say_of(struct apus_participant *p, const struct apus_ctl_shm_route *r,
			 enum apus_ctl_shm_kind kind);
/** A participant of this host, connected to if need be; NULL: it is on another, or does not listen. */
struct apus_ctl_shm_peer *apus_ctl_shm_peer_of(struct apus_participant *p,
					       const struct apus_prefix *prefix);
/** False if it has said that it leaves, or hung up, or is dead: its matches end, they do not fall back. */
bool apus_ctl_shm_is_there(const struct apus_ctl_shm_peer *peer);
/** Reads all that has come, and looks who is dead. */
void apus_ctl_shm_serve_all(struct apus_participant *p);
/** Forgets peers that are gone and of whom nothing is left. */
void apus_ctl_shm_forget_peers(struct apus_participant *p);

/* ---- domain_shm_tell.c ----------------------------------------------------------------------------- */

/** Answers, on a connection, what this participant shares. */
void apus_ctl_shm_tell(struct apus_participant *p, int fd);

/* ---- domain_shm.c ---------------------------------------------------------------------------------- */

/** What a peer says. Descriptors of the message that are taken become -1 there. */
void apus_ctl_shm_on_offer(struct apus_participant *p, struct apus_ctl_shm_peer *peer,
			   const struct apus_ctl_shm_message *m,
			   const struct apus_shm_message *raw);
void apus_ctl_shm_on_none(struct apus_participant *p, struct apus_ctl_shm_peer *peer,
			  const struct apus_ctl_shm_message *m);
void apus_ctl_shm_on_accept(struct apus_participant *p, struct apus_ctl_shm_peer *peer,
			    const struct apus_ctl_shm_message *m, struct apus_shm_message *raw);
void apus_ctl_shm_on_refuse(struct apus_participant *p, struct apus_ctl_shm_peer *peer,
			    const struct apus_ctl_shm_message *m);
void apus_ctl_shm_on_detach(struct apus_participant *p, struct apus_ctl_shm_peer *peer,
			    const struct apus_ctl_shm_message *m);
/** Takes a route out of the list, and frees what it maps. */
void apus_ctl_shm_free_route(struct apus_ctl_shm *s, struct apus_ctl_shm_route *r);

#endif
