/* SPDX-License-Identifier: Apache-2.0 */
/* Statuses as totals derived from stored instants; see status.h for the rules. */
#include "dataplane/status.h"

#include <string.h>

/* ---- deadlines ----------------------------------------------------------------------------- */

uint64_t apus_dp_deadline_missed(const struct apus_dp_deadline *d, int64_t period_ns,
				 struct apus_mono now)
{
	int64_t elapsed_ns = now.ns - d->since.ns;

	/* Most activity comes in time: admission pays a comparison instead of a division. */
	if (d->since.ns == 0 || !apus_dp_is_finite(period_ns) || elapsed_ns < period_ns)
		return d->folded;
	return d->folded + (uint64_t)(elapsed_ns / period_ns);
}

void apus_dp_deadline_activity(struct apus_dp_deadline *d, int64_t period_ns, struct apus_mono now)
{
	/* Bank first: moving the instant before would erase the periods that have elapsed. */
	d->folded = apus_dp_deadline_missed(d, period_ns, now);
	d->since = now;
}

struct apus_mono apus_dp_deadline_due(const struct apus_dp_deadline *d, int64_t period_ns,
				      struct apus_mono now)
{
	if (d->since.ns == 0 || !apus_dp_is_finite(period_ns))
		return (struct apus_mono){INT64_MAX};
	if (now.ns < d->since.ns)
		return apus_mono_add(d->since, period_ns);
	return apus_mono_add(now, period_ns - (now.ns - d->since.ns) % period_ns);
}

void apus_dp_deadline_stop(struct apus_dp_deadline *d, int64_t period_ns, struct apus_mono now)
{
	d->folded = apus_dp_deadline_missed(d, period_ns, now);
	d->since.ns = 0;
}

/* ---- liveliness ---------------------------------------------------------------------------- */

void apus_dp_lease_init(struct apus_dp_lease *l, int64_t lease_ns, struct apus_mono now)
{
	*l = (struct apus_dp_lease){.lease_ns = lease_ns, .since = now, .alive = true};
}

bool apus_dp_lease_expire(struct apus_dp_lease *l, struct apus_mono now)
{
	if (!l->alive || !apus_dp_is_finite(l->lease_ns) || now.ns < l->since.ns)
		return false;
	if (now.ns - l->since.ns < l->lease_ns)
		return false;
	l->alive = false;
	l->losses++;
	return true;
}

void apus_dp_lease_assert(struct apus_dp_lease *l, struct apus_mono now)
{
	apus_dp_lease_expire(l, now);
	l->alive = true;
	l->since = now;
}

struct apus_mono apus_dp_lease_due(const struct apus_dp_lease *l)
{
	if (!l->alive || !apus_dp_is_finite(l->lease_ns))
		return (struct apus_mono){INT64_MAX};
	return apus_mono_add(l->since, l->lease_ns);
}

void apus_dp_peers_init(struct apus_dp_peers *p, struct apus_dp_peer *memory, uint32_t capacity)
{
	if (capacity > 0)
		memset(memory, 0, capacity * sizeof(*memory));
	*p = (struct apus_dp_peers){.peers = memory, .capacity = capacity, .due_ns = INT64_MAX};
}

static void flip(struct apus_dp_peers *p, const struct apus_dp_peer *peer)
{
	p->flips++;
	p->last = peer->guid;
}

/* A lease may lapse earlier than those known. */
static void hurry(struct apus_dp_peers *p, const struct apus_dp_peer *peer)
{
	struct apus_mono due = apus_dp_lease_due(&peer->lease);

	if (due.ns < p->due_ns)
		p->due_ns = due.ns;
}

bool apus_dp_peer_expire(struct apus_dp_peers *p, struct apus_dp_peer *peer, struct apus_mono now)
{
	if (!apus_dp_lease_expire(&peer->lease, now))
		return false;
	flip(p, peer);
	return true;
}

void apus_dp_peer_assert(struct apus_dp_peers *p, struct apus_dp_peer *peer, struct apus_mono now)
{
	if (now.ns < peer->lease.since.ns)
		return;
	apus_dp_peer_expire(p, peer, now);
	if (!peer->lease.alive) {
		peer->lease.alive = true;
		peer->lease.since = now;
		flip(p, peer);
		hurry(p, peer);
	}
	peer->lease.since = now;
	peer->swept = false;
}

int apus_dp_peers_set(struct apus_dp_peers *p, uint32_t slot, const struct apus_guid *guid,
		      int32_t strength, int64_t lease_ns, int64_t lifespan_ns, struct apus_mono now)
{
	struct apus_dp_peer *peer;

	if (slot >= p->capacity)
		return APUS_EINVAL;
	peer = &p->peers[slot];
	if (peer->used && !apus_guid_equal(&peer->guid, guid))
		return APUS_EINVAL;
	peer->guid = *guid;
	if (!peer->used) {
		apus_dp_lease_init(&peer->lease, lease_ns, now);
		flip(p, peer);
		p->leased += apus_dp_is_finite(lease_ns);
	} else if (peer->lease.lease_ns != lease_ns) {
		apus_dp_peer_expire(p, peer, now); /* under the promise it had until now */
		p->leased -= apus_dp_is_finite(peer->lease.lease_ns);
		p->leased += apus_dp_is_finite(lease_ns);
	}
	peer->lease.lease_ns = lease_ns;
	if (!apus_dp_is_finite(lease_ns) && !peer->lease.alive) {
		peer->lease.alive = true; /* it no longer promises anything it could break */
		flip(p, peer);
	}
	peer->strength = strength;
	peer->lifespan_ns = lifespan_ns;
	peer->used = true;
	hurry(p, peer);
	return 0;
}

void apus_dp_peers_remove(struct apus_dp_peers *p, uint32_t slot, struct apus_mono now)
{
	struct apus_dp_peer *peer;

	if (slot >= p->capacity || !p->peers[slot].used)
		return;
	peer = &p->peers[slot];
	apus_dp_peer_expire(p, peer, now);
	p->losses_gone += peer->lease.losses;
	p->leased -= apus_dp_is_finite(peer->lease.lease_ns);
	flip(p, peer);
	memset(peer, 0, sizeof(*peer));
}

bool apus_dp_peer_stronger(const struct apus_dp_peer *a, const struct apus_dp_peer *b)
{
	if (a->strength != b->strength)
		return a->strength > b->strength;
	return apus_guid_compare(&a->guid, &b->guid) < 0;
}

bool apus_dp_peers_observe(struct apus_dp_peers *p, struct apus_dp_liveliness_cursor *cursor,
			   struct apus_mono now, struct apus_dp_liveliness *out)
{
	uint32_t alive = 0, not_alive = 0;

	out->losses = p->losses_gone;
	for (uint32_t i = 0; i < p->capacity; i++) {
		struct apus_dp_peer *peer = &p->peers[i];

		if (!peer->used)
			continue;
		apus_dp_peer_expire(p, peer, now);
		if (peer->lease.alive)
			alive++;
		else
			not_alive++;
		out->losses += peer->lease.losses;
	}
	out->alive_count = alive;
	out->not_alive_count = not_alive;
	out->alive_change = (int32_t)(alive - cursor->alive);
	out->not_alive_change = (int32_t)(not_alive - cursor->not_alive);
	*cursor = (struct apus_dp_liveliness_cursor){alive, not_alive};
	return out->alive_change != 0 || out->not_alive_change != 0;
}

/* ---- matches ------------------------------------------------------------------------------- */

bool apus_dp_matches_observe(const struct apus_dp_matches *m, struct apus_dp_matches_cursor *cursor,
			     struct apus_dp_match_report *out)
{
	uint64_t transitions = m->arrivals + m->departures;

	if (m->current == cursor->current && transitions == cursor->transitions)
		return false;
	*out = (struct apus_dp_match_report){
		.current = m->current,
		.change = (int32_t)(m->current - cursor->current),
		.transitions = transitions,
		.total = m->arrivals,
	};
	*cursor = (struct apus_dp_matches_cursor){m->current, transitions};
	return true;
}
