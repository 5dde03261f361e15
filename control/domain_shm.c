/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matches through shared memory, from control's side: which matches take that route, and when what they share can be let go. Who is on this host,
 * and how one talks to it: domain_shm_link.c.
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
 * then, or when the reader's process is dead, the writer uses the slots again that were out. An application that has not
 * returned what it was lent in place delays that: the memory stays mapped, and the match counts against shm.matches.
 * DETACH and REFUSE say if the reader is no more: then nothing is begun anew or counted, discovery tells soon.
 *
 * All under the participant's lock. Messages are of this user's processes, and still nothing in them is believed
 * unchecked: they can make us map memfds that cannot shrink, bounded in number, and refuse their own matches.
 */
#include "control/shm_internal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WAIT_NS           (100 * APUS_NS_PER_MS)
#define LOOK_NS           (20 * APUS_NS_PER_MS) /* whether an application has returned what it keeps */
#define LENT_BYTES        ((size_t)8 << 20) /* of a writer's slots for readers; but at least … */
#define LENT_MIN          16u
#define SLOTS_MAX         APUS_DP_SHM_SLOTS_MAX
#define CAPACITY_MAX      4096u
#define INLINE_RING_BYTES ((uint32_t)64 << 10) /* of a ring whose cells have payloads */
#define INLINE_TYPICAL    88u /* of a type without a size: what two cache lines have room for */

/* --- routes -------------------------------------------------------------------------------------- */

static struct apus_ctl_shm_route *route_of(const struct apus_ctl_shm *s, uint64_t match_id)
{
	for (struct apus_ctl_shm_route *r = s->routes; r; r = r->next)
		if (r->match_id == match_id && !r->ended)
			return r;
	return NULL;
}

static struct apus_ctl_shm_route *new_route(struct apus_participant *p,
					    struct apus_ctl_shm_peer *peer,
					    const struct apus_guid *writer,
					    const struct apus_guid *reader)
{
	struct apus_ctl_shm *s = p->shm;
	struct apus_ctl_shm_route *r;

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

void apus_ctl_shm_free_route(struct apus_ctl_shm *s, struct apus_ctl_shm_route *r)
{
	struct apus_ctl_shm_route **link = &s->routes;

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
static void renew(struct apus_participant *p, struct apus_ctl_shm_route *r)
{
	struct apus_ctl_match *match = match_of(p, &r->writer, &r->reader);

	if (match && match->id == r->match_id)
		apus_ctl_graph_renew_match(p->graph, match);
	r->ended = true;
}

/* A route that comes to nothing: its match goes by the network, unless its other end is leaving. */
static void give_up(struct apus_participant *p, struct apus_ctl_shm_route *r, bool is_leaving)
{
	struct apus_ctl_match *match = match_of(p, &r->writer, &r->reader);

	if (match && match->id == r->match_id) {
		to_network(p, match);
		mark_dirty(p, r->is_writer ? &r->writer : &r->reader);
	}
	if (!is_leaving && apus_ctl_shm_is_there(r->peer))
		apus_counter_add(&p->shm_counters.fallbacks, 1);
	apus_ctl_shm_free_route(p->shm, r);
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

	for (const struct apus_ctl_shm_route *r = p->shm->routes; r; r = r->next)
		readers += r->is_writer && r->owner == w;
	quota = quota ? quota : 1;
	return readers < lent / quota && readers < p->config.shm_readers ? quota : 0;
}

/* Bytes of payload that go in a ring's cells: all there are of a small type, what is short of one that has no size. */
static uint32_t inline_of(const struct apus_writer *w)
{
	uint32_t max = w->dp->config.cache.payload_bytes_max;

	if (max <= APUS_SHM_INLINE_MAX)
		return max;
	return w->fixed.payload_bytes ? 0 : INLINE_TYPICAL;
}

/* Cells of a ring: for all the slots there are, and for more payloads that need none. */
static uint32_t capacity_of(uint32_t quota, uint32_t inline_bytes)
{
	uint32_t capacity = 1;

	while (capacity < quota && capacity < CAPACITY_MAX)
		capacity *= 2;
	while (inline_bytes && capacity < CAPACITY_MAX &&
	       apus_shm_ring_bytes(2 * capacity, inline_bytes) <=
		       INLINE_RING_BYTES + sizeof(struct apus_shm_ring_out))
		capacity *= 2;
	return capacity;
}

/* Makes what a match shares, and offers it. */
static bool offer(struct apus_participant *p, struct apus_ctl_shm_route *r, uint32_t quota)
{
	struct apus_shm_pool *pool = &r->owner->dp->cache.pool;
	struct apus_ctl_shm_message m = {.kind = APUS_CTL_SHM_OFFER,
					 .writer = r->writer,
					 .reader = r->reader,
					 .capacity = capacity_of(quota, inline_of(r->owner)),
					 .inline_bytes = inline_of(r->owner),
					 .slot_bytes = pool->slot_bytes,
					 .slot_count = pool->slot_count,
					 .quota = quota};
	int fds[3];

	r->is_writer = true;
	r->state = APUS_CTL_SHM_OFFERED;
	m.offer = r->offer = ++p->shm->offers;
	if (apus_shm_segment_create(apus_shm_ring_bytes(m.capacity, m.inline_bytes),
				    APUS_SHM_OWN | APUS_SHM_TOUCH, &r->cells) != 0 ||
	    apus_shm_segment_create(apus_dp_shm_page_bytes(pool->slot_count),
				    APUS_SHM_OWN | APUS_SHM_TOUCH, &r->page) != 0 ||
	    apus_shm_seal(&r->cells) != 0 || apus_shm_seal(&pool->segment) != 0 ||
	    apus_dp_shm_out_init(&r->out, r->cells.base, r->page.base, m.capacity, m.inline_bytes,
				 pool, quota, -1) != 0)
		return false;
	fds[0] = pool->segment.fd;
	fds[1] = r->cells.fd;
	fds[2] = r->page.fd;
	return apus_ctl_shm_say(p, r->peer, &m, fds, 3) == 0;
}

static void say_none(struct apus_participant *p, struct apus_ctl_shm_peer *peer,
		     const struct apus_guid *writer, const struct apus_guid *reader)
{
	struct apus_ctl_shm_message m = {
		.kind = APUS_CTL_SHM_NONE, .writer = *writer, .reader = *reader};

	(void)apus_ctl_shm_say(p, peer, &m, NULL, 0);
}

static enum apus_ctl_route first_out(struct apus_participant *p, const struct apus_ctl_match *match,
				     const struct apus_ctl_endpoint *writer,
				     const struct apus_ctl_endpoint *reader)
{
	struct apus_writer *w = writer->local.owner;
	struct apus_prefix prefix = apus_guid_prefix(&reader->guid);
	struct apus_ctl_shm_peer *peer =
		apus_dp_prefix_is_apus(&prefix) ? apus_ctl_shm_peer_of(p, &prefix) : NULL;
	uint32_t quota;
	struct apus_ctl_shm_route *r;

	if (!peer)
		return to_network(p, match);
	quota = w->dp->config.cache.lent_slots ? quota_of(p, w) : 0;
	r = quota ? new_route(p, peer, &writer->guid, &reader->guid) : NULL;
	if (r) {
		r->match_id = match->id;
		r->owner = w;
		if (offer(p, r, quota))
			return APUS_CTL_ROUTE_PENDING;
		apus_ctl_shm_free_route(p->shm, r);
	}
	if (apus_ctl_shm_is_there(peer))
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
	struct apus_ctl_shm_route *r;

	if (p->shm->network[match->idx] == match->id)
		return APUS_CTL_ROUTE_NETWORK;
	r = route_of(p->shm, match->id);
	if (!r)
		return first_out(p, match, writer, reader);
	if (r->state != APUS_CTL_SHM_READY)
		return APUS_CTL_ROUTE_PENDING;
	*out = &r->out;
	return APUS_CTL_ROUTE_SHM;
}

/* The reader has what it needs, and has told where its worker sleeps. */
void apus_ctl_shm_on_accept(struct apus_participant *p, struct apus_ctl_shm_peer *peer,
			    const struct apus_ctl_shm_message *m, struct apus_shm_message *raw)
{
	for (struct apus_ctl_shm_route *r = p->shm->routes; r; r = r->next) {
		if (!r->is_writer || r->offer != m->offer || r->peer != peer ||
		    r->state != APUS_CTL_SHM_OFFERED || raw->fd_count != 1)
			continue;
		r->out.bell_fd = raw->fds[0];
		raw->fds[0] = -1;
		r->state = APUS_CTL_SHM_READY;
		apus_counter_add(&p->shm_counters.matches, 1);
		mark_dirty(p, &r->writer);
		return;
	}
}

void apus_ctl_shm_on_refuse(struct apus_participant *p, struct apus_ctl_shm_peer *peer,
			    const struct apus_ctl_shm_message *m)
{
	for (struct apus_ctl_shm_route *r = p->shm->routes; r; r = r->next) {
		if (!r->is_writer || r->offer != m->offer || r->peer != peer ||
		    r->state != APUS_CTL_SHM_OFFERED)
			continue;
		give_up(p, r, m->no_reader);
		return;
	}
}

void apus_ctl_shm_on_detach(struct apus_participant *p, struct apus_ctl_shm_peer *peer,
			    const struct apus_ctl_shm_message *m)
{
	for (struct apus_ctl_shm_route *r = p->shm->routes; r; r = r->next) {
		if (!r->is_writer || r->offer != m->offer || r->peer != peer)
			continue;
		r->let_go = true;
		/* Of a reader that is no more discovery will tell; one that is has begun anew. */
		if (!r->ended && !m->no_reader)
			renew(p, r);
	}
}

void apus_ctl_domain_shm_forget(struct apus_participant *p, const struct apus_writer *writer)
{
	struct apus_ctl_shm_route *next;

	for (struct apus_ctl_shm_route *r = p->shm ? p->shm->routes : NULL; r; r = next) {
		next = r->next;
		if (!r->is_writer || r->owner != writer)
			continue;
		/* The reader keeps its own mapping of what it is looking at. */
		apus_ctl_shm_say_of(p, r, APUS_CTL_SHM_WITHDRAW);
		apus_dp_shm_out_drop(&r->out);
		apus_ctl_shm_free_route(p->shm, r);
	}
}

/* --- the reader's side --------------------------------------------------------------------------- */

/* Maps what was offered. The descriptors stay the message's. */
static bool attach(struct apus_ctl_shm_route *r, const struct apus_ctl_shm_message *m,
		   const struct apus_shm_message *raw)
{
	size_t bytes[3] = {(size_t)m->slot_bytes * m->slot_count,
			   apus_shm_ring_bytes(m->capacity, m->inline_bytes), 0};

	if (raw->fd_count != 3 || m->slot_count == 0 || m->slot_count >= SLOTS_MAX ||
	    m->capacity > CAPACITY_MAX || bytes[1] == 0)
		return false;
	bytes[2] = apus_dp_shm_page_bytes(m->slot_count);
	for (int i = 0; i < 3; i++) {
		if (apus_shm_map(raw->fds[i], bytes[i], i == 2, &r->mapped[i]) != 0)
			return false;
		r->mapped_bytes[i] = bytes[i];
	}
	r->offer = m->offer;
	return apus_dp_shm_in_init(&r->in, r->mapped[1], r->mapped[2], m->capacity, m->inline_bytes,
				   r->mapped[0], bytes[0], m->slot_bytes, m->slot_count,
				   m->quota) == 0;
}

static bool accept_offer(struct apus_participant *p, struct apus_ctl_shm_route *r)
{
	const struct apus_ctl_endpoint *e = apus_ctl_graph_endpoint(p->graph, &r->reader);
	const struct apus_reader *reader = e ? e->local.owner : NULL;
	struct apus_ctl_shm_message m = {.kind = APUS_CTL_SHM_ACCEPT,
					 .writer = r->writer,
					 .reader = r->reader,
					 .offer = r->offer};

	if (!reader || apus_ctl_shm_say(p, r->peer, &m, &reader->worker->wake_fd, 1) != 0)
		return false;
	r->state = APUS_CTL_SHM_READY;
	apus_counter_add(&p->shm_counters.matches, 1);
	return true;
}

static struct apus_ctl_shm_route *reader_route(const struct apus_ctl_shm *s,
					       const struct apus_guid *writer,
					       const struct apus_guid *reader)
{
	for (struct apus_ctl_shm_route *r = s->routes; r; r = r->next)
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
	struct apus_ctl_shm_route *r = reader_route(p->shm, &writer->guid, &reader->guid);
	struct apus_ctl_shm_peer *peer;

	/* It has been offered before we knew of the match. */
	if (r && r->match_id == 0) {
		r->match_id = match->id;
		if (accept_offer(p, r))
			return APUS_CTL_ROUTE_SHM;
		apus_ctl_shm_free_route(p->shm, r);
		return to_network(p, match);
	}
	peer = apus_dp_prefix_is_apus(&prefix) ? apus_ctl_shm_peer_of(p, &prefix) : NULL;
	r = peer ? new_route(p, peer, &writer->guid, &reader->guid) : NULL;
	if (!r)
		return to_network(p, match);
	r->match_id = match->id;
	r->state = APUS_CTL_SHM_WAITING;
	r->deadline = apus_mono_add(apus_mono_now(), WAIT_NS);
	return APUS_CTL_ROUTE_PENDING;
}

enum apus_ctl_route apus_ctl_domain_shm_in(void *user, const struct apus_ctl_match *match,
					   const struct apus_ctl_endpoint *writer,
					   const struct apus_ctl_endpoint *reader,
					   struct apus_dp_shm_in **in_out)
{
	struct apus_participant *p = user;
	struct apus_ctl_shm_route *r;

	if (p->shm->network[match->idx] == match->id)
		return APUS_CTL_ROUTE_NETWORK;
	r = route_of(p->shm, match->id);
	if (!r && first_in(p, match, writer, reader) == APUS_CTL_ROUTE_NETWORK)
		return APUS_CTL_ROUTE_NETWORK;
	r = route_of(p->shm, match->id);
	if (!r || r->state != APUS_CTL_SHM_READY)
		return APUS_CTL_ROUTE_PENDING;
	*in_out = &r->in;
	return APUS_CTL_ROUTE_SHM;
}

/* True if this match has been given to the network, or there can be none: the reader is not ours. */
static bool is_unwanted(struct apus_participant *p, const struct apus_ctl_shm_message *m)
{
	const struct apus_ctl_endpoint *e = apus_ctl_graph_endpoint(p->graph, &m->reader);
	const struct apus_ctl_match *match = match_of(p, &m->writer, &m->reader);

	return !e || !e->is_local || e->is_writer ||
	       (match && p->shm->network[match->idx] == match->id);
}

void apus_ctl_shm_on_offer(struct apus_participant *p, struct apus_ctl_shm_peer *peer,
			   const struct apus_ctl_shm_message *m, const struct apus_shm_message *raw)
{
	struct apus_ctl_shm_route *r = reader_route(p->shm, &m->writer, &m->reader);
	struct apus_ctl_shm_route refused = {
		.peer = peer, .writer = m->writer, .reader = m->reader, .offer = m->offer};
	bool waiting;

	if (r && r->state == APUS_CTL_SHM_READY && r->peer == peer && m->offer != r->offer) {
		struct apus_ctl_match *match;

		renew(p, r);
		r = new_route(p, peer, &m->writer, &m->reader);
		match = match_of(p, &m->writer, &m->reader);
		if (r && match)
			r->match_id = match->id;
	} else if (!is_unwanted(p, m) && !r) {
		r = new_route(p, peer, &m->writer, &m->reader);
	} else if (r && (r->state != APUS_CTL_SHM_WAITING || r->match_id == 0)) {
		r = NULL;
	}
	if (!r || is_unwanted(p, m)) {
		apus_ctl_shm_say_of(p, &refused, APUS_CTL_SHM_REFUSE);
		return;
	}
	waiting = r->match_id != 0;
	if (attach(r, m, raw) && (!waiting || accept_offer(p, r))) {
		if (waiting)
			mark_dirty(p, &r->reader);
		return;
	}
	apus_ctl_shm_say_of(p, &refused, APUS_CTL_SHM_REFUSE);
	give_up(p, r, false);
}

/* NONE and WITHDRAW: nothing will come of it. A match in use goes on until discovery ends it. */
void apus_ctl_shm_on_none(struct apus_participant *p, struct apus_ctl_shm_peer *peer,
			  const struct apus_ctl_shm_message *m)
{
	struct apus_ctl_shm_route *r = reader_route(p->shm, &m->writer, &m->reader);

	if (r && r->peer == peer && r->state == APUS_CTL_SHM_WAITING)
		give_up(p, r, m->kind == APUS_CTL_SHM_WITHDRAW);
}

/* --- ends ---------------------------------------------------------------------------------------- */

void apus_ctl_domain_shm_ended(void *user, const struct apus_ctl_match *match)
{
	struct apus_participant *p = user;
	struct apus_ctl_shm_route *r = route_of(p->shm, match->id);

	if (!r)
		return;
	r->ended = true;
	apus_dp_worker_wake(p->control);
}

/* The application keeps samples of an ended match, where their writer wrote them. */
static bool is_looked_at(const struct apus_ctl_shm_route *r)
{
	/* Acquire: pairs with the release in reader_lent.c: at 0 nobody looks at the memory any more. */
	return atomic_load_explicit(&r->in.lent, memory_order_acquire) != 0;
}

/* A worker that was between two turns has passed the epoch and still knows the match: in its next turn it looks for
 * a last time into the ring. So it has that turn now. A reader that is no more has been taken from it under one. */
static void drain(struct apus_participant *p, const struct apus_ctl_shm_route *r)
{
	const struct apus_ctl_endpoint *e = apus_ctl_graph_endpoint(p->graph, &r->reader);
	const struct apus_reader *reader = e ? e->local.owner : NULL;

	if (!reader)
		return;
	apus_dp_worker_take_turn(reader->worker);
	apus_dp_worker_end_turn(reader->worker);
}

/* Lets go of what an ended match shared, if nobody can look at it any more. */
static bool release(struct apus_participant *p, struct apus_ctl_shm_route *r)
{
	if (!r->epoch)
		/* Relaxed: written only under the lock we hold; the match is in no snapshot since. */
		r->epoch = atomic_load_explicit(&p->epoch->current, memory_order_relaxed);
	if (!apus_ctl_publisher_passed(p->publisher, r->epoch))
		return false;
	if (!r->is_writer) {
		if (is_looked_at(r))
			return false;
		drain(p, r);
		if (is_looked_at(r)) /* also what that turn has found */
			return false;
		apus_ctl_shm_say_of(p, r, APUS_CTL_SHM_DETACH);
		apus_ctl_shm_free_route(p->shm, r);
		return true;
	}
	if (!r->let_go && r->state == APUS_CTL_SHM_READY)
		return false;
	apus_dp_worker_take_turn(r->owner->worker);
	apus_dp_shm_out_drop(&r->out);
	apus_dp_worker_end_turn(r->owner->worker);
	apus_ctl_shm_free_route(p->shm, r);
	return true;
}

struct apus_mono apus_ctl_domain_shm_turn(struct apus_participant *p, struct apus_mono now)
{
	struct apus_mono next_look = (struct apus_mono){INT64_MAX};
	struct apus_ctl_shm_route *next;

	if (!p->shm)
		return next_look;
	apus_ctl_shm_serve_all(p);
	for (struct apus_ctl_shm_route *r = p->shm->routes; r; r = next) {
		next = r->next;
		if (r->ended && !r->is_writer && is_looked_at(r) && now.ns + LOOK_NS < next_look.ns)
			next_look = apus_mono_add(now, LOOK_NS);
		if (r->state == APUS_CTL_SHM_WAITING && r->match_id && !r->ended) {
			if (!apus_mono_before(now, r->deadline))
				give_up(p, r, false);
			else if (apus_mono_before(r->deadline, next_look))
				next_look = r->deadline;
		}
	}
	return next_look;
}

bool apus_ctl_domain_shm_reclaim(struct apus_participant *p)
{
	bool left = false;
	struct apus_ctl_shm_route *next;

	if (!p->shm)
		return false;
	for (struct apus_ctl_shm_route *r = p->shm->routes; r; r = next) {
		next = r->next;
		/* An offer whose writer's process has gone before we knew of the match. */
		if (r->let_go && r->match_id == 0 && !r->is_writer)
			r->ended = true;
		if (r->ended)
			left |= !release(p, r) && (r->is_writer ? r->let_go : !is_looked_at(r));
	}
	apus_ctl_shm_forget_peers(p);
	return left;
}

bool apus_ctl_domain_shm_has(const struct apus_participant *p, uint64_t match_id)
{
	const struct apus_ctl_shm_route *r = p->shm ? route_of(p->shm, match_id) : NULL;

	return r && r->state == APUS_CTL_SHM_READY;
}
