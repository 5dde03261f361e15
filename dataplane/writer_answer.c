/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a writer answers what readers ask for, and whether one answer does for several (RTPS 2.5 §8.4.7.1,
 * nackResponseDelay and nackSuppressionDuration).
 *
 * A request is answered at once, by samples for the one who asked, unless `nack_delay_ns` or, for a reader that is
 * sent to in a group, `nack_group_delay_ns` says otherwise. Then it waits in the reader's state, what the reader asks
 * for meanwhile joins it, and one timer of the writer answers all that wait: at the first instant that is due, for
 * what waits less long merges all the better. What a datagram to a group has lost, all its readers lack: a sample
 * that `nack_group_readers` of them ask for goes to the group, once. Everything else (GAPs, the ends of sets, large
 * samples, whose pace is a matter of each reader's buffer) goes to the one who asked.
 *
 * What has just been sent again, to the reader or its group, is taken off a request when it comes.
 *
 * Cost: an answer looks at each number of 256 once, and at each reader of the writer.
 */
#include "dataplane/writer_internal.h"

#include <string.h>

#define NONE APUS_SHM_NO_SLOT

/* See repair in writer_repair.c. */
#define DATA_OVERHEAD_BYTES 64

/* The group a reader is sent to in, or NULL. */
static struct apus_dp_destination *group_of(struct apus_dp_writer *w,
					    const struct apus_dp_writer_state *s)
{
	struct apus_dp_destination *d;

	if (s->destination >= w->destination_count)
		return NULL;
	d = &w->destinations[s->destination];
	return apus_dp_addr_is_multicast(&d->addr) ? d : NULL;
}

static int64_t delay_of(const struct apus_dp_writer *w, const struct apus_dp_destination *group)
{
	const struct apus_dp_worker_config *c = &w->worker->config;

	if (!group || c->nack_group_readers == 0 || c->nack_group_delay_ns < c->nack_delay_ns)
		return c->nack_delay_ns;
	return c->nack_group_delay_ns;
}

/* Adds to a waiting request what is asked for now. Whatever is below the new base is acknowledged. */
static void join_request(struct apus_dp_writer *w, struct apus_dp_writer_state *s,
			 const struct apus_dp_destination *group,
			 const struct apus_wire_seqset *set, struct apus_mono now)
{
	struct apus_wire_seqset joined = {.base = set->base};

	for (uint32_t i = 0; i < s->request.num_bits; i++)
		if (apus_wire_bit_test(s->request.bitmap, i))
			(void)apus_wire_seqset_add(&joined, s->request.base + i);
	for (uint32_t i = 0; i < set->num_bits; i++) {
		apus_seq seq = set->base + i;

		if (!apus_wire_bit_test(set->bitmap, i) || apus_wire_seqset_test(&joined, seq))
			continue;
		if (apus_dp_writer_is_recent(w, &s->repaired, seq, now) ||
		    (group && apus_dp_writer_is_recent(w, &group->repaired, seq, now)))
			apus_counter_add(&w->counters.suppressed, 1);
		else
			(void)apus_wire_seqset_add(&joined, seq);
	}
	s->request = joined;
}

void apus_dp_writer_request_acked(struct apus_dp_writer *w, struct apus_dp_writer_state *s,
				  apus_seq base, struct apus_mono now)
{
	const struct apus_wire_seqset none = {.base = base};

	if (base > s->request.base)
		join_request(w, s, NULL, &none, now);
}

bool apus_dp_writer_put_off(struct apus_dp_writer *w, struct apus_dp_writer_state *s,
			    const struct apus_wire_seqset *set, struct apus_mono now)
{
	const struct apus_dp_destination *group = group_of(w, s);
	struct apus_mono due = apus_mono_add(now, delay_of(w, group));

	if (due.ns == now.ns)
		return false;
	join_request(w, s, group, set, now);
	if (s->request.num_bits == 0)
		apus_dp_writer_answer(w, s, &s->request, now); /* only where things stand */
	else if (!apus_dp_timer_armed(&w->answer_timer) ||
		 apus_mono_before(due, w->answer_timer.due))
		apus_dp_wheel_arm(&w->worker->wheel, &w->answer_timer, due);
	return true;
}

/* What the readers of a group ask for, while it is being answered. */
struct merge {
	apus_seq base;     /* of the 256 numbers looked at */
	apus_seq relevant; /* from here on a sample concerns all readers of the group */
	uint32_t asking[APUS_WIRE_SET_BITS]; /* readers, for each of them */
	uint32_t budget; /* bytes that may be sent: what the most cautious of them takes */
	uint32_t copies; /* of each sample: see apus_dp_writer_copies() */
	struct apus_wire_seqset sent;
	uint32_t sent_count;
};

/* The i-th reader of a group, if its request waits. */
static struct apus_dp_writer_state *asking(const struct apus_dp_writer *w, uint32_t group,
					   uint32_t i)
{
	struct apus_dp_writer_state *s = apus_dp_writer_behind(w, group, i);

	return s->request.num_bits ? s : NULL;
}

/* Returns how many ask for something; then base, relevant and budget are valid. */
static uint32_t begin_merge(const struct apus_dp_writer *w, uint32_t group, struct merge *m)
{
	uint32_t count = 0;

	*m = (struct merge){.base = INT64_MAX, .budget = UINT32_MAX};
	for (uint32_t i = 0; i < w->destinations[group].state_count; i++) {
		const struct apus_dp_writer_state *s = apus_dp_writer_behind(w, group, i);

		if (s->relevant > m->relevant)
			m->relevant = s->relevant;
		if (s->request.num_bits == 0)
			continue;
		count++;
		if (s->request.base < m->base)
			m->base = s->request.base;
		if (s->push_bytes < m->budget)
			m->budget = s->push_bytes;
	}
	m->sent.base = m->base;
	return count;
}

/* Counts who asks for each number. A request that begins far above the others' counts where it meets them. */
static void count_asking(const struct apus_dp_writer *w, uint32_t group, struct merge *m)
{
	for (uint32_t i = 0; i < w->destinations[group].state_count; i++) {
		const struct apus_dp_writer_state *s = asking(w, group, i);

		for (uint32_t k = 0; s && k < s->request.num_bits; k++) {
			apus_seq at = s->request.base + k - m->base;

			if (at < APUS_WIRE_SET_BITS && apus_wire_bit_test(s->request.bitmap, k) &&
			    s->request.base + k <= apus_dp_writer_told(w, s))
				m->asking[at]++;
		}
	}
}

static void put_to_group(struct apus_dp_writer *w, uint32_t group, uint32_t slot, struct merge *m)
{
	const struct apus_dp_destination *d = &w->destinations[group];
	const struct apus_dp_writer_target target = {
		.to = &d->addr,
		.dest = d->one_participant ? &d->prefix : NULL,
		.reader = d->eid,
		.hash_only = d->hash_only_dispose,
		.inline_qos = d->inline_qos,
		.states = w->filtering.by_destination + d->first_idx,
		.state_count = d->state_count,
	};
	uint32_t bytes = w->cache.entries[slot].payload_bytes + DATA_OVERHEAD_BYTES;

	apus_dp_writer_put_sample(w, slot, &target);
	m->budget -= bytes < m->budget ? bytes : m->budget;
}

/* Sends to the group what enough of its readers ask for. What the budget does not reach is asked for again. */
static void send_merged(struct apus_dp_writer *w, uint32_t group, struct merge *m,
			struct apus_mono now)
{
	for (uint32_t at = 0; at < APUS_WIRE_SET_BITS; at++) {
		apus_seq seq = m->base + at;
		uint32_t slot;

		if (m->asking[at] < w->worker->config.nack_group_readers || seq < m->relevant)
			continue;
		slot = apus_dp_cache_find(&w->cache, seq);
		if (slot == NONE || apus_dp_writer_is_large(w, slot) ||
		    !apus_dp_writer_wanted(w, slot, group))
			continue;
		(void)apus_wire_seqset_add(&m->sent, seq);
		if (m->budget == 0)
			continue;
		m->sent_count++;
		put_to_group(w, group, slot, m);
		apus_dp_writer_note_recent(w, &w->destinations[group].repaired, seq, now);
		apus_counter_add(&w->counters.repairs, 1);
		apus_counter_add(&w->counters.group_repairs, 1);
	}
}

/* The same once more, in datagrams of their own, for who would be late to ask again. */
static void send_copy(struct apus_dp_writer *w, uint32_t group, struct merge *m)
{
	apus_dp_out_flush(&w->worker->out);
	for (uint32_t at = 0; at < m->sent.num_bits && m->budget; at++)
		if (apus_wire_bit_test(m->sent.bitmap, at))
			put_to_group(w, group, apus_dp_cache_find(&w->cache, m->base + at), m);
}

/* Takes what the group was sent off the requests; what is left of them is each reader's own. */
static void strike_out(struct apus_dp_writer *w, uint32_t group, struct merge *m)
{
	for (uint32_t i = 0; i < w->destinations[group].state_count; i++) {
		struct apus_dp_writer_state *s = asking(w, group, i);
		struct apus_wire_seqset rest;
		uint32_t copies;

		if (!s)
			continue;
		rest = (struct apus_wire_seqset){.base = s->request.base};
		for (uint32_t k = 0; k < s->request.num_bits; k++)
			if (apus_wire_bit_test(s->request.bitmap, k) &&
			    !apus_wire_seqset_test(&m->sent, s->request.base + k))
				(void)apus_wire_seqset_add(&rest, s->request.base + k);
		/* It waits for its HEARTBEAT, even if nothing is left. */
		rest.num_bits = s->request.num_bits;
		s->request = rest;
		copies = apus_dp_writer_copies(s, m->sent_count);
		if (copies > m->copies)
			m->copies = copies;
	}
}

static void answer_group(struct apus_dp_writer *w, uint32_t group, struct apus_mono now)
{
	struct merge m;

	if (begin_merge(w, group, &m) < w->worker->config.nack_group_readers)
		return;
	count_asking(w, group, &m);
	send_merged(w, group, &m, now);
	if (m.sent.num_bits == 0)
		return;
	strike_out(w, group, &m);
	for (; m.copies > 1; m.copies--)
		send_copy(w, group, &m);
}

void apus_dp_writer_answer_fn(struct apus_dp_timer *timer, struct apus_mono now)
{
	struct apus_dp_writer *w =
		(struct apus_dp_writer *)((char *)timer -
					  offsetof(struct apus_dp_writer, answer_timer));

	apus_dp_writer_purge(w, now);
	for (uint32_t i = 0; w->worker->config.nack_group_readers && i < w->destination_count; i++)
		if (apus_dp_addr_is_multicast(&w->destinations[i].addr))
			answer_group(w, i, now);
	for (uint32_t i = 0; i < w->match_count; i++) {
		struct apus_dp_writer_state *s = &w->states[w->order[i]];

		if (s->request.num_bits == 0)
			continue;
		/* Whom nobody sends to any more asks again when somebody does. */
		if (s->destination != UINT32_MAX)
			apus_dp_writer_answer(w, s, &s->request, now);
		s->request.num_bits = 0;
	}
}
