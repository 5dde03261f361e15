/* SPDX-License-Identifier: Apache-2.0 */
/* Samples that arrived out of order wait here until those before them are settled. */
#include "dataplane/reader_internal.h"

#include <string.h>

#define NONE APUS_SHM_NO_SLOT

static void free_held(struct apus_dp_reader *r, struct apus_dp_held *h)
{
	if (h->slot != NONE)
		apus_shm_pool_release(&r->pool, h->slot);
	h->next = r->held_free;
	r->held_free = h;
}

static void unlink_held(struct apus_dp_reader_state *s, struct apus_dp_held *h)
{
	*(h->prev ? &h->prev->next : &s->held_first) = h->next;
	*(h->next ? &h->next->prev : &s->held_last) = h->prev;
}

/* Into the list by sequence number, from the end, where it nearly always belongs. */
static void link_held(struct apus_dp_reader_state *s, struct apus_dp_held *h)
{
	struct apus_dp_held *after = s->held_last;

	while (after && after->seq > h->seq)
		after = after->prev;
	h->prev = after;
	h->next = after ? after->next : s->held_first;
	*(h->prev ? &h->prev->next : &s->held_first) = h;
	*(h->next ? &h->next->prev : &s->held_last) = h;
}

/* NULL: there is none. */
static struct apus_dp_held *free_place(struct apus_dp_reader *r)
{
	if (r->held_free || r->held_used >= r->config.held_max)
		return r->held_free;
	return &r->held_memory[r->held_used];
}

void apus_dp_reader_hold_back(struct apus_dp_reader_state *s, const struct apus_dp_incoming *in)
{
	struct apus_dp_reader *r = s->reader;
	struct apus_dp_held *h = free_place(r);
	uint32_t slot = NONE;

	if (in->payload_bytes > r->config.payload_bytes_max) {
		apus_counter_add(&r->counters.too_large, 1);
		return;
	}
	if (h && in->payload) {
		/* A sample put together from fragments lies in a slot already. */
		slot = apus_dp_reader_slot_of(r, in->payload);
		if (slot == NONE)
			slot = apus_dp_reader_store(r, in->payload, in->payload_bytes);
		else
			apus_shm_pool_hold(&r->pool, slot);
	}
	if (!h || (in->payload && slot == NONE)) {
		apus_counter_add(&r->counters.held_full, 1);
		return;
	}
	if (h == r->held_free)
		r->held_free = h->next;
	else
		r->held_used++;
	*h = (struct apus_dp_held){
		.seq = in->seq,
		.source = in->source,
		.slot = slot,
		.payload_bytes = in->payload_bytes,
		.change = in->change,
		.key_only = in->key_only,
		.has_hash = in->key_hash != NULL,
		.marks = in->marks,
	};
	if (in->key_hash)
		memcpy(h->key_hash, in->key_hash, 16);
	link_held(s, h);
	apus_dp_window_hold(&s->window, in->seq);
	apus_counter_add(&r->counters.held, 1);
}

/* Settles one number after admission; false if the sample was refused. */
bool apus_dp_reader_settle(struct apus_dp_reader_state *s, apus_seq seq,
			   enum apus_dp_admit_result result)
{
	if (result == APUS_DP_MALFORMED && s->reliable) {
		apus_dp_window_reject(&s->window, seq);
		return true;
	}
	if (apus_dp_admit_settles(result)) {
		apus_dp_window_done(&s->window, seq);
		return true;
	}
	apus_dp_window_refuse(&s->window, seq);
	s->reader->any_refused = true;
	return false;
}

/* Delivers held samples whose turn has come. */
void apus_dp_reader_drain(struct apus_dp_reader_state *s, struct apus_mono now)
{
	struct apus_dp_reader *r = s->reader;
	apus_seq seq;

	/* A GAP or HEARTBEAT may have passed over held samples that are not wanted any more. */
	while (s->held_first && s->held_first->seq < s->window.next) {
		struct apus_dp_held *h = s->held_first;

		unlink_held(s, h);
		free_held(r, h);
	}
	while (apus_dp_window_ready(&s->window, &seq)) {
		struct apus_dp_held *h = s->held_first;
		struct apus_dp_incoming in;
		bool stored;

		if (!h || h->seq != seq)
			break; /* cannot happen: the window holds what the list holds */
		in = (struct apus_dp_incoming){
			.seq = h->seq,
			.source = h->source,
			.change = h->change,
			.key_only = h->key_only,
			.payload = h->slot == NONE ? NULL : apus_dp_reader_slot(r, h->slot),
			.payload_bytes = h->payload_bytes,
			.key_hash = h->has_hash ? h->key_hash : NULL,
			.marks = h->marks,
		};
		stored = apus_dp_reader_settle(s, seq, apus_dp_reader_admit(s, &in, now));
		unlink_held(s, h);
		free_held(r, h);
		if (!stored)
			break;
	}
}

void apus_dp_reader_drop_held(struct apus_dp_reader_state *state)
{
	while (state->held_first) {
		struct apus_dp_held *h = state->held_first;

		unlink_held(state, h);
		free_held(state->reader, h);
	}
}
