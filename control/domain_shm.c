/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matches through shared memory, from control's side: who is on this host, which matches take that route, and when
 * what they share can be let go.
 *
 * Every participant listens on a socket named after its GUID prefix. Each sends its messages on the connection it has
 * made itself and reads those that others made, so the two need no agreement on who connects. A match is born on
 * one route and stays on it:
 *
 *     writer   OFFER ------ pool, cells, page ------>   reader maps them
 *              <------------ ACCEPT, eventfd --------   publishes the match
 *              publishes the match                      (REFUSE: both take the network)
 *
 * Until it is settled the match is in no snapshot. A reader waits WAIT_NS for an offer; a writer that will not make one
 * says so (NONE). When a match ends, the reader unmaps once no worker can look at it any more and sends DETACH; only
 * then, or when the reader's process is dead, the writer uses the slots again that were out.
 *
 * All under the participant's lock. Messages are of this user's processes, and still nothing in them is believed
 * unchecked: they can make us map memfds that cannot shrink, bounded in number, and refuse their own matches.
 */
#include "control/domain.h"
#include "control/domain_shm.h"
#include "dataplane/shm_match.h"
#include "shm/link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC        0x53555041u /* "APUS" */
#define VERSION      1
#define WAIT_NS      (100 * APUS_NS_PER_MS)
#define CONNECTIONS  256               /* that others made; more are hung up on */
#define MESSAGES     64                /* read of one connection in a round */
#define LENT_BYTES   ((size_t)8 << 20) /* of a writer's slots for readers; but at least … */
#define LENT_MIN     16u
#define SLOTS_MAX    APUS_DP_SHM_SLOTS_MAX
#define CAPACITY_MAX 4096u

enum kind { HELLO = 1, OFFER, NONE, ACCEPT, REFUSE, DETACH, WITHDRAW };

struct message {
	uint32_t magic;
	uint16_t version, kind;
	struct apus_prefix sender;
	uint32_t capacity; /* of the ring */
	struct apus_guid writer, reader;
	uint64_t offer; /* the writer's number for it */
	uint32_t slot_bytes, slot_count;
};

/* A participant on this host. */
struct peer {
	struct peer *next;
	struct apus_prefix prefix;
	int out;   /* our connection to it; -1: it is gone */
	int pidfd; /* of its process; -1: not told yet, or dead */
};

/* A connection somebody made to us. */
struct connection {
	struct connection *next;
	struct peer *peer; /* NULL: it has not said who it is */
	int fd;
};

enum state { WAITING, OFFERED, READY };

/* A match, or an offer for one that we do not know yet. */
struct route {
	struct route *next;
	struct peer *peer;
	struct apus_guid writer, reader;
	uint64_t match_id; /* 0: not known yet */
	uint64_t offer;
	enum state state;
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
	struct peer *peers;
	struct connection *connections;
	struct route *routes;
	uint32_t connection_count, route_count;
	uint64_t offers;
	uint64_t *
		network; /* by match slot: the id of the match that has been given to the network */
};

static void name_of(const struct apus_prefix *prefix, char out[2 * sizeof(*prefix) + 1])
{
	for (size_t i = 0; i < sizeof(prefix->bytes); i++)
		snprintf(out + 2 * i, 3, "%02x", prefix->bytes[i]);
}

/* Descriptors that others have, too, stay in an epoll set when they are closed here. */
static void drop_fd(struct apus_ctl_shm *s, int fd)
{
	if (fd < 0)
		return;
	if (s->epoll >= 0)
		(void)epoll_ctl(s->epoll, EPOLL_CTL_DEL, fd, NULL);
	close(fd);
}

static int watch(struct apus_ctl_shm *s, int fd)
{
	struct epoll_event event = {.events = EPOLLIN};

	return fd < 0 || epoll_ctl(s->epoll, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : APUS_EIO;
}

/* --- peers --------------------------------------------------------------------------------------- */

static int say(struct apus_participant *p, struct peer *peer, struct message *m, const int *fds,
	       uint32_t fd_count)
{
	m->magic = MAGIC;
	m->version = VERSION;
	m->sender = p->prefix;
	return peer->out < 0 ? APUS_ECLOSED
			     : apus_shm_send(peer->out, m, sizeof(*m), fds, fd_count);
}

static void say_of(struct apus_participant *p, const struct route *r, enum kind kind)
{
	struct message m = {.kind = (uint16_t)kind,
			    .writer = r->writer,
			    .reader = r->reader,
			    .offer = r->offer};

	(void)say(p, r->peer, &m, NULL, 0);
}

/* A participant of this host, connected to if need be. NULL: it is not on this host, or does not listen. */
static struct peer *peer_of(struct apus_participant *p, const struct apus_prefix *prefix)
{
	struct apus_ctl_shm *s = p->shm;
	struct message hello = {.kind = HELLO};
	char name[sizeof(s->name)];
	struct peer *peer;
	int fd;

	for (peer = s->peers; peer; peer = peer->next)
		if (apus_prefix_equal(&peer->prefix, prefix))
			return peer->out < 0 ? NULL : peer;
	name_of(prefix, name);
	fd = apus_shm_connect(s->directory, name);
	if (fd < 0)
		return NULL;
	peer = calloc(1, sizeof(*peer));
	if (!peer) {
		close(fd);
		return NULL;
	}
	*peer = (struct peer){.next = s->peers, .prefix = *prefix, .out = fd, .pidfd = -1};
	s->peers = peer;
	if (say(p, peer, &hello, &s->self, s->self >= 0) != 0) {
		close(fd);
		peer->out = -1;
		return NULL;
	}
	apus_counter_add(&p->shm_counters.links, 1);
	return peer;
}

/* --- routes -------------------------------------------------------------------------------------- */

static struct route *route_of(const struct apus_ctl_shm *s, uint64_t match_id)
{
	for (struct route *r = s->routes; r; r = r->next)
		if (r->match_id == match_id && !r->ended)
			return r;
	return NULL;
}

static struct route *new_route(struct apus_participant *p, struct peer *peer,
			       const struct apus_guid *writer, const struct apus_guid *reader)
{
	struct apus_ctl_shm *s = p->shm;
	struct route *r;

	if (s->route_count == p->config.shm_matches)
		return NULL;
	r = calloc(1, sizeof(*r));
	if (!r)
		return NULL;
	r->peer = peer;
	r->writer = *writer;
	r->reader = *reader;
	r->out.bell_fd = -1;
	r->next = s->routes;
	s->routes = r;
	s->route_count++;
	return r;
}

static void free_route(struct apus_ctl_shm *s, struct route *r)
{
	struct route **link = &s->routes;

	while (*link != r)
		link = &(*link)->next;
	*link = r->next;
	s->route_count--;
	if (r->out.bell_fd >= 0)
		close(r->out.bell_fd);
	apus_dp_shm_out_fini(&r->out);
	apus_shm_segment_destroy(&r->cells);
	apus_shm_segment_destroy(&r->page);
	for (int i = 0; i < 3; i++)
		apus_shm_unmap(r->mapped[i], r->mapped_bytes[i]);
	free(r);
}

static void mark_dirty(struct apus_participant *p, const struct apus_guid *guid)
{
	struct apus_ctl_endpoint *e = apus_ctl_graph_endpoint(p->graph, guid);

	if (e && e->is_local)
		apus_ctl_graph_mark_dirty(p->graph, e, APUS_CTL_DIRTY_MATCHES);
}

/* The network has this match, for good. */
static enum apus_ctl_route to_network(struct apus_participant *p,
				      const struct apus_ctl_match *match)
{
	p->shm->network[match->idx] = match->id;
	return APUS_CTL_ROUTE_NETWORK;
}

static struct apus_ctl_match *match_of(struct apus_participant *p, const struct apus_guid *writer,
				       const struct apus_guid *reader)
{
	const struct apus_ctl_endpoint *w = apus_ctl_graph_endpoint(p->graph, writer);
	const struct apus_ctl_endpoint *r = apus_ctl_graph_endpoint(p->graph, reader);

	return w && r ? apus_ctl_graph_match(p->graph, w, r) : NULL;
}

/* The other side has begun this match anew, for its lease had run out there and not here: so do we. */
static void renew(struct apus_participant *p, struct route *r)
{
	struct apus_ctl_match *match = match_of(p, &r->writer, &r->reader);

	if (match && match->id == r->match_id)
		apus_ctl_graph_renew_match(p->graph, match);
	r->ended = true;
}

/* A route that comes to nothing: its match goes by the network. */
static void give_up(struct apus_participant *p, struct route *r)
{
	struct apus_ctl_match *match = match_of(p, &r->writer, &r->reader);

	if (match && match->id == r->match_id) {
		to_network(p, match);
		mark_dirty(p, r->is_writer ? &r->writer : &r->reader);
	}
	apus_counter_add(&p->shm_counters.fallbacks, 1);
	free_route(p->shm, r);
}

/* --- the writer's side --------------------------------------------------------------------------- */

uint32_t apus_ctl_domain_shm_lent(const struct apus_participant *p, uint32_t payload_bytes)
{
	uint32_t slots = p->config.shm_slots;

	if (!p->shm)
		return 0;
	if (slots > LENT_BYTES / payload_bytes)
		slots = (uint32_t)(LENT_BYTES / payload_bytes);
	return slots > LENT_MIN ? slots : LENT_MIN;
}

/* Slots for one more reader; 0: there are none. */
static uint32_t quota_of(const struct apus_participant *p, const struct apus_writer *w)
{
	uint32_t lent = w->dp->config.cache.lent_slots, readers = 0;
	uint32_t quota = lent / p->config.shm_readers;

	for (const struct route *r = p->shm->routes; r; r = r->next)
		readers += r->is_writer && r->owner == w;
	quota = quota ? quota : 1;
	return readers < lent / quota && readers < p->config.shm_readers ? quota : 0;
}

/* Cells of a ring: less than the quota, so that a best-effort ring is full, and displaces its oldest, before the
 * slots are out that the reader has taken and not given back yet. */
static uint32_t capacity_of(uint32_t quota)
{
	uint32_t capacity = 1;

	while (4 * capacity <= quota && capacity < CAPACITY_MAX)
		capacity *= 2;
	return capacity;
}

/* Makes what a match shares, and offers it. */
static bool offer(struct apus_participant *p, struct route *r, uint32_t quota)
{
	struct apus_shm_pool *pool = &r->owner->dp->cache.pool;
	struct message m = {.kind = OFFER,
			    .writer = r->writer,
			    .reader = r->reader,
			    .capacity = capacity_of(quota),
			    .slot_bytes = pool->slot_bytes,
			    .slot_count = pool->slot_count};
	int fds[3];

	r->is_writer = true;
	r->state = OFFERED;
	m.offer = r->offer = ++p->shm->offers;
	if (apus_shm_segment_create(apus_shm_ring_bytes(m.capacity), APUS_SHM_OWN | APUS_SHM_TOUCH,
				    &r->cells) != 0 ||
	    apus_shm_segment_create(apus_dp_shm_page_bytes(pool->slot_count),
				    APUS_SHM_OWN | APUS_SHM_TOUCH, &r->page) != 0 ||
	    apus_shm_seal(&r->cells) != 0 || apus_shm_seal(&pool->segment) != 0 ||
	    apus_dp_shm_out_init(&r->out, r->cells.base, r->page.base, m.capacity, pool, quota,
				 -1) != 0)
		return false;
	fds[0] = pool->segment.fd;
	fds[1] = r->cells.fd;
	fds[2] = r->page.fd;
	return say(p, r->peer, &m, fds, 3) == 0;
}

static void say_none(struct apus_participant *p, struct peer *peer, const struct apus_guid *writer,
		     const struct apus_guid *reader)
{
	struct message m = {.kind = NONE, .writer = *writer, .reader = *reader};

	(void)say(p, peer, &m, NULL, 0);
}

static enum apus_ctl_route first_out(struct apus_participant *p, const struct apus_ctl_match *match,
				     const struct apus_ctl_endpoint *writer,
				     const struct apus_ctl_endpoint *reader)
{
	struct apus_writer *w = writer->local.owner;
	struct apus_prefix prefix = apus_guid_prefix(&reader->guid);
	struct peer *peer = apus_dp_prefix_is_apus(&prefix) ? peer_of(p, &prefix) : NULL;
	uint32_t quota;
	struct route *r;

	if (!peer)
		return to_network(p, match);
	quota = w->dp->config.cache.lent_slots ? quota_of(p, w) : 0;
	r = quota ? new_route(p, peer, &writer->guid, &reader->guid) : NULL;
	if (r) {
		r->match_id = match->id;
		r->owner = w;
		if (offer(p, r, quota))
			return APUS_CTL_ROUTE_PENDING;
		free_route(p->shm, r);
	}
	apus_counter_add(&p->shm_counters.fallbacks, 1);
	say_none(p, peer, &writer->guid, &reader->guid);
	return to_network(p, match);
}

enum apus_ctl_route apus_ctl_domain_shm_out(void *user, const struct apus_ctl_match *match,
					    const struct apus_ctl_endpoint *writer,
					    const struct apus_ctl_endpoint *reader,
					    struct apus_dp_shm_out **out)
{
	struct apus_participant *p = user;
	struct route *r;

	if (p->shm->network[match->idx] == match->id)
		return APUS_CTL_ROUTE_NETWORK;
	r = route_of(p->shm, match->id);
	if (!r)
		return first_out(p, match, writer, reader);
	if (r->state != READY)
		return APUS_CTL_ROUTE_PENDING;
	*out = &r->out;
	return APUS_CTL_ROUTE_SHM;
}

/* The reader has what it needs, and has told where its worker sleeps. */
static void on_accept(struct apus_participant *p, struct peer *peer, const struct message *m,
		      struct apus_shm_message *raw)
{
	for (struct route *r = p->shm->routes; r; r = r->next) {
		if (!r->is_writer || r->offer != m->offer || r->peer != peer ||
		    r->state != OFFERED || raw->fd_count != 1)
			continue;
		r->out.bell_fd = raw->fds[0];
		raw->fds[0] = -1;
		r->state = READY;
		apus_counter_add(&p->shm_counters.matches, 1);
		mark_dirty(p, &r->writer);
		return;
	}
}

static void on_refuse(struct apus_participant *p, struct peer *peer, const struct message *m)
{
	for (struct route *r = p->shm->routes; r; r = r->next) {
		if (!r->is_writer || r->offer != m->offer || r->peer != peer || r->state != OFFERED)
			continue;
		give_up(p, r);
		return;
	}
}

static void on_detach(struct apus_participant *p, struct peer *peer, const struct message *m)
{
	for (struct route *r = p->shm->routes; r; r = r->next) {
		if (!r->is_writer || r->offer != m->offer || r->peer != peer)
			continue;
		r->let_go = true;
		if (!r->ended)
			renew(p, r);
	}
}

void apus_ctl_domain_shm_forget(struct apus_participant *p, const struct apus_writer *writer)
{
	struct route *next;

	for (struct route *r = p->shm ? p->shm->routes : NULL; r; r = next) {
		next = r->next;
		if (!r->is_writer || r->owner != writer)
			continue;
		/* The reader keeps its own mapping of what it is looking at. */
		say_of(p, r, WITHDRAW);
		apus_dp_shm_out_drop(&r->out);
		free_route(p->shm, r);
	}
}

/* --- the reader's side --------------------------------------------------------------------------- */

/* Maps what was offered. The descriptors stay the message's. */
static bool attach(struct route *r, const struct message *m, const struct apus_shm_message *raw)
{
	size_t bytes[3] = {(size_t)m->slot_bytes * m->slot_count, apus_shm_ring_bytes(m->capacity),
			   0};

	if (raw->fd_count != 3 || m->slot_count == 0 || m->slot_count >= SLOTS_MAX ||
	    m->capacity > CAPACITY_MAX)
		return false;
	bytes[2] = apus_dp_shm_page_bytes(m->slot_count);
	for (int i = 0; i < 3; i++) {
		if (apus_shm_map(raw->fds[i], bytes[i], i == 2, &r->mapped[i]) != 0)
			return false;
		r->mapped_bytes[i] = bytes[i];
	}
	r->offer = m->offer;
	return apus_dp_shm_in_init(&r->in, r->mapped[1], r->mapped[2], m->capacity, r->mapped[0],
				   bytes[0], m->slot_bytes, m->slot_count) == 0;
}

static bool accept_offer(struct apus_participant *p, struct route *r)
{
	const struct apus_ctl_endpoint *e = apus_ctl_graph_endpoint(p->graph, &r->reader);
	const struct apus_reader *reader = e ? e->local.owner : NULL;
	struct message m = {
		.kind = ACCEPT, .writer = r->writer, .reader = r->reader, .offer = r->offer};

	if (!reader || say(p, r->peer, &m, &reader->worker->wake_fd, 1) != 0)
		return false;
	r->state = READY;
	apus_counter_add(&p->shm_counters.matches, 1);
	return true;
}

static struct route *reader_route(const struct apus_ctl_shm *s, const struct apus_guid *writer,
				  const struct apus_guid *reader)
{
	for (struct route *r = s->routes; r; r = r->next)
		if (!r->is_writer && !r->ended && apus_guid_equal(&r->writer, writer) &&
		    apus_guid_equal(&r->reader, reader))
			return r;
	return NULL;
}

static enum apus_ctl_route first_in(struct apus_participant *p, const struct apus_ctl_match *match,
				    const struct apus_ctl_endpoint *writer,
				    const struct apus_ctl_endpoint *reader)
{
	struct apus_prefix prefix = apus_guid_prefix(&writer->guid);
	struct route *r = reader_route(p->shm, &writer->guid, &reader->guid);
	struct peer *peer;

	/* It has been offered before we knew of the match. */
	if (r && r->match_id == 0) {
		r->match_id = match->id;
		if (accept_offer(p, r))
			return APUS_CTL_ROUTE_SHM;
		free_route(p->shm, r);
		return to_network(p, match);
	}
	peer = apus_dp_prefix_is_apus(&prefix) ? peer_of(p, &prefix) : NULL;
	r = peer ? new_route(p, peer, &writer->guid, &reader->guid) : NULL;
	if (!r)
		return to_network(p, match);
	r->match_id = match->id;
	r->state = WAITING;
	r->deadline = apus_mono_add(apus_mono_now(), WAIT_NS);
	return APUS_CTL_ROUTE_PENDING;
}

enum apus_ctl_route apus_ctl_domain_shm_in(void *user, const struct apus_ctl_match *match,
					   const struct apus_ctl_endpoint *writer,
					   const struct apus_ctl_endpoint *reader,
					   struct apus_dp_shm_in **in_out)
{
	struct apus_participant *p = user;
	struct route *r;

	if (p->shm->network[match->idx] == match->id)
		return APUS_CTL_ROUTE_NETWORK;
	r = route_of(p->shm, match->id);
	if (!r && first_in(p, match, writer, reader) == APUS_CTL_ROUTE_NETWORK)
		return APUS_CTL_ROUTE_NETWORK;
	r = route_of(p->shm, match->id);
	if (!r || r->state != READY)
		return APUS_CTL_ROUTE_PENDING;
	*in_out = &r->in;
	return APUS_CTL_ROUTE_SHM;
}

/* True if this match has been given to the network, or there can be none: the reader is not ours. */
static bool is_unwanted(struct apus_participant *p, const struct message *m)
{
	const struct apus_ctl_endpoint *e = apus_ctl_graph_endpoint(p->graph, &m->reader);
	const struct apus_ctl_match *match = match_of(p, &m->writer, &m->reader);

	return !e || !e->is_local || e->is_writer ||
	       (match && p->shm->network[match->idx] == match->id);
}

static void on_offer(struct apus_participant *p, struct peer *peer, const struct message *m,
		     const struct apus_shm_message *raw)
{
	struct route *r = reader_route(p->shm, &m->writer, &m->reader);
	struct route refused = {
		.peer = peer, .writer = m->writer, .reader = m->reader, .offer = m->offer};
	bool waiting;

	if (r && r->state == READY && r->peer == peer && m->offer != r->offer) {
		struct apus_ctl_match *match;

		renew(p, r);
		r = new_route(p, peer, &m->writer, &m->reader);
		match = match_of(p, &m->writer, &m->reader);
		if (r && match)
			r->match_id = match->id;
	} else if (!is_unwanted(p, m) && !r) {
		r = new_route(p, peer, &m->writer, &m->reader);
	} else if (r && (r->state != WAITING || r->match_id == 0)) {
		r = NULL;
	}
	if (!r || is_unwanted(p, m)) {
		say_of(p, &refused, REFUSE);
		return;
	}
	waiting = r->match_id != 0;
	if (attach(r, m, raw) && (!waiting || accept_offer(p, r))) {
		if (waiting)
			mark_dirty(p, &r->reader);
		return;
	}
	say_of(p, &refused, REFUSE);
	give_up(p, r);
}

/* NONE and WITHDRAW: nothing will come of it. A match in use goes on until discovery ends it. */
static void on_none(struct apus_participant *p, struct peer *peer, const struct message *m)
{
	struct route *r = reader_route(p->shm, &m->writer, &m->reader);

	if (r && r->peer == peer && r->state == WAITING)
		give_up(p, r);
}

/* --- messages ------------------------------------------------------------------------------------ */

static struct peer *greet(struct apus_participant *p, const struct message *m,
			  struct apus_shm_message *raw)
{
	struct peer *peer = peer_of(p, &m->sender);

	if (!peer || peer->pidfd >= 0 || raw->fd_count != 1 || watch(p->shm, raw->fds[0]) != 0)
		return peer;
	peer->pidfd = raw->fds[0];
	raw->fds[0] = -1;
	return peer;
}

/* Writers speak of their own writers, readers of their own readers. */
static bool speaks_for_itself(const struct message *m)
{
	bool of_writer = m->kind == OFFER || m->kind == NONE || m->kind == WITHDRAW;
	struct apus_prefix prefix = apus_guid_prefix(of_writer ? &m->writer : &m->reader);

	return apus_prefix_equal(&prefix, &m->sender);
}

/* False: this connection is of no use. */
static bool handle(struct apus_participant *p, struct connection *c, struct apus_shm_message *raw)
{
	struct message m;

	if (raw->length != sizeof(m))
		return false;
	memcpy(&m, raw->bytes, sizeof(m));
	if (m.magic != MAGIC || m.version != VERSION)
		return false;
	if (!c->peer) {
		if (m.kind != HELLO || apus_prefix_equal(&m.sender, &p->prefix))
			return false;
		c->peer = greet(p, &m, raw);
		return c->peer != NULL;
	}
	if (!apus_prefix_equal(&m.sender, &c->peer->prefix) || !speaks_for_itself(&m))
		return false;
	switch (m.kind) {
	case OFFER: on_offer(p, c->peer, &m, raw); return true;
	case NONE:
	case WITHDRAW: on_none(p, c->peer, &m); return true;
	case ACCEPT: on_accept(p, c->peer, &m, raw); return true;
	case REFUSE: on_refuse(p, c->peer, &m); return true;
	case DETACH: on_detach(p, c->peer, &m); return true;
	default: return false;
	}
}

/* Reads what has come; false if the connection has ended, or is not worth keeping. */
static bool serve(struct apus_participant *p, struct connection *c)
{
	struct apus_shm_message raw;
	bool good = true;
	int rc = 0;

	for (int i = 0; i < MESSAGES && good; i++) {
		rc = apus_shm_receive(c->fd, &raw);
		if (rc == APUS_EAGAIN)
			return true;
		if (rc != 0)
			break;
		good = handle(p, c, &raw);
		apus_shm_message_close(&raw);
	}
	if (!good || rc == APUS_EENCODING)
		apus_counter_add(&p->shm_counters.malformed, 1);
	return good && rc == 0;
}

static void admit_connections(struct apus_ctl_shm *s)
{
	int fd;

	while ((fd = apus_shm_accept(s->listener)) >= 0) {
		struct connection *c =
			s->connection_count < CONNECTIONS ? calloc(1, sizeof(*c)) : NULL;

		if (!c || watch(s, fd) != 0) {
			free(c);
			close(fd);
			continue;
		}
		c->fd = fd;
		c->next = s->connections;
		s->connections = c;
		s->connection_count++;
	}
}

/* The other side has closed, or is dead: nobody looks at our memory from there any more. Which of the two, the process
 * tells, a moment later. */
static void lose(struct apus_participant *p, struct peer *peer)
{
	drop_fd(p->shm, peer->out);
	peer->out = -1;
	for (struct route *r = p->shm->routes; r; r = r->next)
		if (r->peer == peer)
			r->let_go = true;
}

/* Participants of a dead process are gone; no need to wait for their leases. */
static void bury(struct apus_participant *p, struct peer *peer)
{
	struct apus_guid gone =
		apus_guid_make(&peer->prefix, (struct apus_eid){APUS_CTL_EID_PARTICIPANT});

	drop_fd(p->shm, peer->pidfd);
	peer->pidfd = -1;
	lose(p, peer);
	apus_counter_add(&p->shm_counters.deaths, 1);
	apus_dp_worker_take_turn(p->control);
	apus_ctl_discovery_on_participant_gone(p->discovery, &gone, &peer->prefix);
	apus_dp_worker_end_turn(p->control);
}

static void serve_all(struct apus_participant *p)
{
	struct apus_ctl_shm *s = p->shm;

	admit_connections(s);
	for (struct connection **link = &s->connections, *c; (c = *link);) {
		if (serve(p, c)) {
			link = &c->next;
			continue;
		}
		*link = c->next;
		s->connection_count--;
		drop_fd(s, c->fd);
		if (c->peer)
			lose(p, c->peer);
		free(c);
	}
	for (struct peer *peer = s->peers; peer; peer = peer->next)
		if (peer->pidfd >= 0 && apus_shm_is_dead(peer->pidfd))
			bury(p, peer);
}

/* --- ends ---------------------------------------------------------------------------------------- */

void apus_ctl_domain_shm_ended(void *user, const struct apus_ctl_match *match)
{
	struct apus_participant *p = user;
	struct route *r = route_of(p->shm, match->id);

	if (!r)
		return;
	r->ended = true;
	apus_dp_worker_wake(p->control);
}

/* Lets go of what an ended match shared, if nobody can look at it any more. */
static bool release(struct apus_participant *p, struct route *r)
{
	if (!r->epoch)
		/* Relaxed: written only under the lock we hold; the match is in no snapshot since. */
		r->epoch = atomic_load_explicit(&p->epoch->current, memory_order_relaxed);
	if (!apus_ctl_publisher_passed(p->publisher, r->epoch))
		return false;
	if (!r->is_writer) {
		say_of(p, r, DETACH);
		free_route(p->shm, r);
		return true;
	}
	if (!r->let_go && r->state == READY)
		return false;
	apus_dp_worker_take_turn(r->owner->worker);
	apus_dp_shm_out_drop(&r->out);
	apus_dp_worker_end_turn(r->owner->worker);
	free_route(p->shm, r);
	return true;
}

/* Peers that are gone and of whom nothing is left. */
static void forget_peers(struct apus_participant *p)
{
	struct apus_ctl_shm *s = p->shm;

	for (struct peer **link = &s->peers, *peer; (peer = *link);) {
		/* One that has closed may yet turn out to be dead, as long as discovery knows it. */
		bool used = peer->out >= 0 || (peer->pidfd >= 0 &&
					       apus_ctl_graph_participant(p->graph, &peer->prefix));

		for (const struct route *r = s->routes; r && !used; r = r->next)
			used = r->peer == peer;
		for (const struct connection *c = s->connections; c && !used; c = c->next)
			used = c->peer == peer;
		if (used) {
			link = &peer->next;
			continue;
		}
		*link = peer->next;
		drop_fd(s, peer->pidfd);
		free(peer);
	}
}

struct apus_mono apus_ctl_domain_shm_turn(struct apus_participant *p, struct apus_mono now)
{
	struct apus_mono next_look = (struct apus_mono){INT64_MAX};
	struct epoll_event events[1];
	struct route *next;

	if (!p->shm)
		return next_look;
	if (epoll_wait(p->shm->epoll, events, 1, 0) > 0)
		serve_all(p);
	for (struct route *r = p->shm->routes; r; r = next) {
		next = r->next;
		if (r->state == WAITING && r->match_id && !r->ended) {
			if (!apus_mono_before(now, r->deadline))
				give_up(p, r);
			else if (apus_mono_before(r->deadline, next_look))
				next_look = r->deadline;
		}
	}
	return next_look;
}

bool apus_ctl_domain_shm_reclaim(struct apus_participant *p)
{
	bool left = false;
	struct route *next;

	if (!p->shm)
		return false;
	for (struct route *r = p->shm->routes; r; r = next) {
		next = r->next;
		/* An offer whose writer's process has gone before we knew of the match. */
		if (r->let_go && r->match_id == 0 && !r->is_writer)
			r->ended = true;
		if (r->ended)
			left |= !release(p, r) && (!r->is_writer || r->let_go);
	}
	forget_peers(p);
	return left;
}

/* --- life ---------------------------------------------------------------------------------------- */

static void ignore(void *user, const char *name, bool alive)
{
	(void)user;
	(void)name;
	(void)alive;
}

int apus_ctl_domain_shm_open(struct apus_participant *p, char *why, size_t why_bytes)
{
	struct apus_ctl_shm *s;
	int rc;

	if (!p->config.shm)
		return 0;
	s = p->shm = calloc(1, sizeof(*s));
	if (!s)
		return APUS_ENOMEM;
	s->listener = s->epoll = s->self = -1;
	s->network = calloc(p->config.matches, sizeof(*s->network));
	if (!s->network)
		return APUS_ENOMEM;
	rc = apus_shm_directory(p->config.shm_directory[0] ? p->config.shm_directory : NULL,
				s->directory, sizeof(s->directory));
	if (rc != 0) {
		snprintf(why, why_bytes, "shm.directory: %s: %s", s->directory, apus_strerror(rc));
		return rc;
	}
	/* Names of those that were killed. */
	(void)apus_shm_sweep(s->directory, true, ignore, NULL);
	name_of(&p->prefix, s->name);
	s->listener = apus_shm_listen(s->directory, s->name);
	if (s->listener < 0) {
		snprintf(why, why_bytes, "shm: cannot listen in %s: %s", s->directory,
			 apus_strerror(s->listener));
		return s->listener;
	}
	s->self = apus_shm_self();
	s->epoll = epoll_create1(EPOLL_CLOEXEC);
	rc = s->epoll < 0 ? APUS_EIO : watch(s, s->listener);
	return rc ? rc : watch(s, p->netwatch_fd);
}

int apus_ctl_domain_shm_fd(const struct apus_participant *p)
{
	return p->shm ? p->shm->epoll : -1;
}

void apus_ctl_domain_shm_close(struct apus_participant *p)
{
	struct apus_ctl_shm *s = p->shm;
	struct connection *c;
	struct peer *peer;

	if (!s)
		return;
	while (s->routes)
		free_route(s, s->routes);
	while ((c = s->connections)) {
		s->connections = c->next;
		drop_fd(s, c->fd);
		free(c);
	}
	while ((peer = s->peers)) {
		s->peers = peer->next;
		drop_fd(s, peer->out);
		drop_fd(s, peer->pidfd);
		free(peer);
	}
	if (s->listener >= 0)
		apus_shm_unlisten(s->directory, s->name, s->listener);
	if (s->self >= 0)
		close(s->self);
	if (s->epoll >= 0)
		close(s->epoll);
	free(s->network);
	free(s);
	p->shm = NULL;
}

bool apus_ctl_domain_shm_has(const struct apus_participant *p, uint64_t match_id)
{
	const struct route *r = p->shm ? route_of(p->shm, match_id) : NULL;

	return r && r->state == READY;
}
