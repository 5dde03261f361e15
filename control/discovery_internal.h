/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of discovery share: discovery.c (announcing, answering, leases, what participants say of
 * themselves) and discovery_server.c (Discovery Servers, and what they say of others).
 */
#ifndef APUS_CONTROL_DISCOVERY_INTERNAL_H
#define APUS_CONTROL_DISCOVERY_INTERNAL_H

#include "control/discovery.h"

#define NEVER ((struct apus_mono){INT64_MAX})

/* What discovery knows of a participant besides its record. */
struct peer {
	struct apus_mono heard;
	struct apus_mono answer_due; /* 0: nothing is owed */
	struct apus_dp_addr before;  /* scratch of apus_ctl_discovery_set_policy() */
	uint64_t received_bytes;     /* since its address is known */
	uint64_t sent_bytes;
	bool knows_us; /* traffic of it for us has been seen */
	bool proved;   /* and it was an answer that only its address could give */
	bool withheld; /* something was not sent to it, for it could have amplified */
	apus_seq refused
		[2]; /* [is_writer] lowest number of a record there was no room for; 0: none */
	struct apus_mono regressed; /* servers: first said to have written less; 0: never */
	uint32_t told_by;           /* relayed: the servers whose word it is, as bits */

	/* The announcement that is believed, and one that contradicts it. */
	apus_seq seq, suspect_seq;
	struct apus_wall stamp, suspect_stamp;
	struct apus_mono suspected; /* 0: nothing is */
};

/* A Discovery Server that is configured. */
struct server {
	struct apus_dp_addr addr;
	bool answered; /* a participant there has proved itself and is known still */
};

/* An encoded payload. */
struct payload {
	size_t bytes;
	uint8_t at[APUS_WIRE_RECORD_PAYLOAD_MAX];
};

struct apus_ctl_discovery {
	struct apus_ctl_discovery_config config;
	struct apus_ctl_discovery_ops ops;
	struct apus_ctl_discovery_counters counters;
	struct apus_ctl_graph *graph;
	struct apus_guid guid; /* our own */
	struct apus_prefix prefix;
	struct apus_dp_addr *peers;
	struct server server[APUS_CTL_SERVERS_MAX];
	struct peer *peer; /* by participant slot */

	struct payload self;
	struct payload client; /* what servers are told instead */
	bool client_news;      /* and have not been told yet */
	struct payload scratch;
	struct apus_mono next_announcement;
	struct apus_mono next_server_retry; /* to servers that have not answered */
	struct apus_mono last_multicast;    /* 0: none yet */
	struct apus_mono
		crowd_since; /* answers that a multicast could have stood for are counted */
	uint32_t crowd_answers;
	struct apus_mono answers_since; /* begin of the present ANSWER_PAUSE_NS */
	uint32_t answers_sent;          /* in it */
	struct apus_mono next_expiry;   /* not after the first lease that can run out */
	struct apus_mono next_answer;   /* not after the first answer due */
	uint32_t burst_left;
	uint64_t random;
	bool any_refused;              /* some peer has a refused record */
	uint64_t freed_seen;           /* of the graph, when the latest was refused, or asked for */
	struct apus_mono next_refused; /* not before it are they asked for again */
	int64_t probe_ns;              /* 0: nobody is relayed */
};

static inline struct apus_mono earlier(struct apus_mono a, struct apus_mono b)
{
	return apus_mono_before(a, b) ? a : b;
}

static inline bool is_relayed(const struct apus_ctl_participant *p)
{
	return p->role == APUS_CTL_RELAYED;
}

static inline bool is_server(const struct apus_ctl_participant *p)
{
	return p->role == APUS_CTL_SERVER;
}

static inline bool is_peer(const struct apus_ctl_participant *p)
{
	return p->role == APUS_CTL_PEER;
}

static inline struct peer *peer_of(struct apus_ctl_discovery *d,
				   const struct apus_ctl_participant *p)
{
	return &d->peer[p->idx];
}

/* A participant at an address not seen before has proved nothing yet. */
static inline void begin(struct peer *peer)
{
	peer->received_bytes = peer->sent_bytes = 0;
	peer->knows_us = peer->proved = false;
}

/* When a participant's lease runs out. A lease of 0 never does. */
static inline struct apus_mono expiry(const struct apus_ctl_participant *p, const struct peer *peer)
{
	return p->record.lease_ns > 0 ? apus_mono_add(peer->heard, p->record.lease_ns) : NEVER;
}

/* ---- discovery.c ---- */

/** Removes a participant that is known. A server that goes is sought again; what it told stays. */
void apus_ctl_discovery_forget(struct apus_ctl_discovery *d, const struct apus_ctl_participant *p);

/** Keeps what is said of a participant: by itself, or by a server. *p_inout: what is known of it, NULL if nothing is;
 *  then what is known now. Returns as apus_ctl_graph_add_participant_as(). */
int apus_ctl_discovery_keep(struct apus_ctl_discovery *d,
			    const struct apus_wire_participant_record *record,
			    const struct apus_ctl_source *source,
			    const struct apus_ctl_heard *heard, struct apus_mono now,
			    struct apus_ctl_participant **p_inout);

/* ---- discovery_server.c ---- */

/** Announces to all servers, or to those that have not answered. They come first with what is new: it gets its
 *  sequence number then. */
void apus_ctl_discovery_tell_servers(struct apus_ctl_discovery *d, bool all);
/** Announces to servers that have not answered, more often than to those that have; sets when to look again. */
void apus_ctl_discovery_retry_servers(struct apus_ctl_discovery *d, struct apus_mono now);
/** Which of the configured servers a participant is; NULL: none. */
struct server *apus_ctl_discovery_server_of(struct apus_ctl_discovery *d,
					    const struct apus_ctl_participant *p);
/** What becomes of a participant by its own word. It is taken for a server if it speaks from the host of one and
 *  says that it listens at its port; it is believed as such when it has answered there. */
struct apus_ctl_source
apus_ctl_discovery_source_of(const struct apus_ctl_discovery *d,
			     const struct apus_wire_participant_record *record,
			     const struct apus_dp_addr *from);
/** The bit of a server of ours that has proved itself; 0: it is none. */
uint32_t apus_ctl_discovery_trusted_bit(struct apus_ctl_discovery *d,
					const struct apus_prefix *source);
/** A trusted server, given by its bit, tells of a participant. Whoever speaks for himself is not told of. Returns
 *  as apus_ctl_discovery_on_participant(). */
int apus_ctl_discovery_on_relayed(struct apus_ctl_discovery *d,
				  const struct apus_wire_participant_record *record,
				  const struct apus_ctl_heard *heard, uint32_t server,
				  struct apus_mono now);
/** Sets how often relayed participants are to be asked whether they live; after some have gone. */
void apus_ctl_discovery_set_probe(struct apus_ctl_discovery *d);

#endif
