/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Readers that have stopped answering.
 *
 * A KEEP_ALL writer may not overwrite what a reliable reader has not acknowledged, so one reader that hangs
 * would stop it, and with it all the others. So a reader is *demoted* when it has been asked at least
 * ASKED_MIN times and for demote_ns on end, and has not been heard: neither ACKNACK nor NACK_FRAG. One that
 * answers, but acknowledges nothing because its own history is full, is slow and not silent: for that
 * KEEP_ALL has back-pressure and max_blocking_time, and it is never demoted.
 *
 * Nothing waits for a demoted reader and nothing is sent to it but a HEARTBEAT each heartbeat period. What
 * it lacks stays in the history until a write finds that full; then the oldest that everybody else has goes,
 * counted. As soon as it is heard it is a reader like any other: it asks for what it lacks, gets what is still
 * there and a GAP for the rest.
 *
 * So a write that finds the history full because of a silent reader fails with a time-out, after at most
 * max_blocking_time each, until demote_ns has passed; if the history holds what is written in demote_ns, no
 * write notices anything.
 */
#include "dataplane/writer_internal.h"

#define NONE APUS_SHM_NO_SLOT

/* A single lost datagram or a busy moment of the reader is no silence. */
#define ASKED_MIN 4

bool apus_dp_writer_ask(struct apus_dp_writer *w, struct apus_dp_writer_state *s,
			struct apus_mono now)
{
	if (s->demoted && now.ns - s->asked_last.ns < w->worker->config.heartbeat_ns)
		return false;
	if (s->asked == 0)
		s->asked_at = now;
	if (s->asked < UINT32_MAX)
		s->asked++;
	s->asked_last = now;
	return true;
}

bool apus_dp_writer_heard(struct apus_dp_writer *w, struct apus_dp_writer_state *s)
{
	s->asked = 0;
	if (!s->demoted)
		return false;
	s->demoted = false;
	apus_counter_add(&w->counters.returns, 1);
	apus_dp_writer_derive(w);
	apus_dp_writer_settle(w);
	return true;
}

bool apus_dp_writer_demote_silent(struct apus_dp_writer *w, struct apus_mono now)
{
	uint32_t n = 0;

	if (w->worker->config.demote_ns <= 0)
		return false;
	for (uint32_t i = 0; i < w->owing_count; i++) {
		struct apus_dp_writer_state *s = &w->states[w->owing[i]];

		if (s->demoted || s->asked < ASKED_MIN ||
		    now.ns - s->asked_at.ns < w->worker->config.demote_ns)
			continue;
		s->demoted = true;
		s->unsent_seq = 0;
		apus_dp_writer_stop_waiting(w, s);
		n++;
	}
	if (n == 0)
		return false;
	apus_counter_add(&w->counters.demotions, n);
	apus_dp_writer_derive(w);
	return true;
}

/* What everybody has acknowledged but those demoted. */
static apus_seq acked_by_active(const struct apus_dp_writer *w)
{
	apus_seq low = w->sent;

	for (uint32_t i = 0; i < w->owing_count; i++) {
		const struct apus_dp_writer_state *s = &w->states[w->owing[i]];

		if (!s->demoted && s->acked < low)
			low = s->acked;
	}
	return low;
}

bool apus_dp_writer_give_up(struct apus_dp_writer *w, uint32_t instance_idx)
{
	const struct apus_dp_cache *c = &w->cache;
	const struct apus_dp_cache_instance *inst = &c->instances[instance_idx];
	uint32_t slot = c->head;

	if (w->demoted_count == 0 || w->config.transient_local)
		return false;
	if (inst->count >= w->config.cache.max_samples_per_instance)
		slot = inst->oldest;
	if (slot == NONE || c->entries[slot].seq > acked_by_active(w))
		return false;
	apus_dp_cache_remove(&w->cache, slot);
	apus_counter_add(&w->counters.demoted_lost, 1);
	return true;
}
