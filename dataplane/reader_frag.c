/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reassembly of fragmented samples (RTPS 2.5 §8.4.14), straight into the slot the sample will live in.
 *
 * A reader puts together at most assembly_max samples at a time. One begins with its first fragment, if
 * the sample is wanted, not above the declared size, and a slot is free; so memory is spent only for what
 * arrived. Fragment size and sample size must be those of the first fragment. When all places are taken
 * the one that has waited longest gives way: a reliable writer is asked again, a best-effort sample is
 * counted as incomplete.
 *
 * Requests (NACK_FRAG) name up to 256 missing fragments; the next request leaves as soon as those have
 * come, or after a pause. So a sample of any size passes through a socket buffer of 256 fragments.
 */
#include "dataplane/reader_internal.h"

#include <string.h>

#define NONE APUS_SHM_NO_SLOT

/* A fragment that came less than this ago means that more may be on their way. */
#define QUIET_NS (1 * APUS_NS_PER_MS)
/* Pause after which what is still missing is asked for again. */
#define AGAIN_NS (15 * APUS_NS_PER_MS)
#define NACK_FRAG_BYTES 72

static bool has(const struct apus_dp_assembly *a, uint32_t k)
{
	return a->bits[k / 64] >> k % 64 & 1;
}

static struct apus_dp_assembly *find(struct apus_dp_reader *r, const struct apus_dp_reader_state *s,
				     apus_seq seq)
{
	for (uint32_t i = 0; i < r->config.assembly_max; i++)
		if (r->assemblies[i].state == s && r->assemblies[i].seq == seq)
			return &r->assemblies[i];
	return NULL;
}

static void end(struct apus_dp_reader *r, struct apus_dp_assembly *a)
{
	if (a->slot != NONE)
		apus_shm_pool_release(&r->pool, a->slot);
	a->state->assembly_count--;
	a->state = NULL;
}

/* A free place, or that of the assembly that has waited longest. */
static struct apus_dp_assembly *place(struct apus_dp_reader *r)
{
	struct apus_dp_assembly *oldest = NULL;

	for (uint32_t i = 0; i < r->config.assembly_max; i++) {
		struct apus_dp_assembly *a = &r->assemblies[i];

		if (!a->state)
			return a;
		if (!oldest || apus_mono_before(a->last, oldest->last))
			oldest = a;
	}
	if (oldest) {
		apus_counter_add(&r->counters.incomplete, 1);
		end(r, oldest);
	}
	return oldest;
}

/* A sample that can never be stored is settled at its first fragment, or it would be offered for ever. */
static void settle_too_large(struct apus_dp_reader_state *s, apus_seq seq, struct apus_mono now)
{
	apus_counter_add(&s->reader->counters.too_large, 1);
	apus_dp_window_done(&s->window, seq);
	if (s->held_first)
		apus_dp_reader_drain(s, now);
}

static struct apus_dp_assembly *begin(struct apus_dp_reader_state *s,
				      const struct apus_wire_data_frag *f,
				      const struct apus_dp_origin *origin)
{
	struct apus_dp_reader *r = s->reader;
	uint32_t count = f->sample_bytes / f->fragment_bytes + (f->sample_bytes % f->fragment_bytes != 0);
	struct apus_dp_assembly *a;
	uint32_t slot;

	if (count > r->assembly_fragments) {
		apus_counter_add(&r->counters.bad_fragment, 1);
		return NULL;
	}
	a = place(r);
	slot = a ? apus_shm_pool_acquire(&r->pool) : NONE;
	if (slot == NONE) {
		apus_counter_add(&r->counters.no_slot, 1);
		return NULL;
	}
	*a = (struct apus_dp_assembly){
		.state = s,
		.bits = a->bits,
		.seq = f->seq,
		.source = origin->timestamp,
		.slot = slot,
		.sample_bytes = f->sample_bytes,
		.fragment_bytes = f->fragment_bytes,
		.fragment_count = count,
		.change = (uint8_t)(f->qos.status_info & (APUS_WIRE_STATUS_DISPOSED |
							  APUS_WIRE_STATUS_UNREGISTERED)),
		.key_only = f->key_only,
		.has_hash = f->qos.has_key_hash,
	};
	memcpy(a->key_hash, f->qos.key_hash, 16);
	memset(a->bits, 0, ((size_t)count + 63) / 64 * sizeof(*a->bits));
	s->assembly_count++;
	return a;
}

/* Copies fragments into place; numbers and sizes were proved by the parser. */
static void fill(struct apus_dp_reader *r, struct apus_dp_assembly *a,
		 const struct apus_wire_data_frag *f, struct apus_mono now)
{
	memcpy(apus_dp_reader_slot(r, a->slot) + (size_t)(f->first - 1) * f->fragment_bytes,
	       f->payload, f->payload_bytes);
	for (uint32_t k = f->first - 1; k < f->first - 1 + f->count; k++) {
		if (has(a, k))
			continue;
		a->bits[k / 64] |= UINT64_C(1) << k % 64;
		a->have++;
		if (a->asked_left)
			a->asked_left--;
	}
	if (f->first - 1 + f->count > a->highest)
		a->highest = f->first - 1 + f->count;
	a->last = now;
}

/* The whole sample is there: it goes the way of every other, in the slot it lies in. */
static void complete(struct apus_dp_reader_state *s, struct apus_dp_assembly *a,
		     const struct apus_dp_origin *origin, struct apus_mono now)
{
	struct apus_dp_reader *r = s->reader;
	struct apus_dp_assembly whole = *a;
	struct apus_dp_incoming in = {
		.seq = whole.seq,
		.source = whole.source,
		.change = whole.change,
		.key_only = whole.key_only,
		.payload = apus_dp_reader_slot(r, whole.slot),
		.payload_bytes = whole.sample_bytes,
		.key_hash = whole.has_hash ? whole.key_hash : NULL,
		.origin = origin,
	};

	r->slot_payload_bytes[whole.slot] = whole.sample_bytes;
	a->slot = NONE;
	end(r, a);
	apus_dp_reader_arrive(s, &in, now);
	apus_shm_pool_release(&r->pool, whole.slot);
	apus_dp_reader_sweep_fragments(s);
}

void apus_dp_reader_frag(struct apus_dp_reader_state *state, const struct apus_wire_data_frag *f,
			 const struct apus_dp_origin *origin, struct apus_mono now)
{
	struct apus_dp_reader *r = state->reader;
	enum apus_dp_seq_verdict v = apus_dp_window_check(&state->window, f->seq);
	struct apus_dp_assembly *a;

	apus_counter_add(&r->counters.fragments, 1);
	if (state->local || v == APUS_DP_SEQ_DUPLICATE || v == APUS_DP_SEQ_BEYOND)
		return;
	if (f->sample_bytes > r->config.payload_bytes_max) {
		settle_too_large(state, f->seq, now);
		return;
	}
	a = find(r, state, f->seq);
	if (!a)
		a = begin(state, f, origin);
	if (!a)
		return;
	if (a->sample_bytes != f->sample_bytes || a->fragment_bytes != f->fragment_bytes) {
		apus_counter_add(&r->counters.bad_fragment, 1);
		return;
	}
	fill(r, a, f, now);
	if (a->have == a->fragment_count)
		complete(state, a, origin, now);
	else if (state->reliable && a->asked && a->asked_left == 0)
		apus_dp_reader_queue_ack(state); /* all that was asked for has come: ask for more */
	else if (state->reliable && !apus_dp_timer_armed(&state->timer))
		apus_dp_wheel_arm(&r->worker->wheel, &state->timer,
				  apus_mono_add(now, APUS_DP_HOLE_NS));
}

void apus_dp_reader_sweep_fragments(struct apus_dp_reader_state *state)
{
	struct apus_dp_reader *r = state->reader;

	for (uint32_t i = 0; state->assembly_count && i < r->config.assembly_max; i++) {
		struct apus_dp_assembly *a = &r->assemblies[i];

		if (a->state != state)
			continue;
		if (apus_dp_window_check(&state->window, a->seq) != APUS_DP_SEQ_DUPLICATE &&
		    state->match_id)
			continue;
		apus_counter_add(&r->counters.incomplete, 1);
		end(r, a);
	}
}

/* One NACK_FRAG: the first missing fragments, at most 256. Of a sample that is still arriving only the
 * holes. False if nothing is to be asked for now. */
static bool ask_for(struct apus_dp_reader_state *s, struct apus_dp_assembly *a, struct apus_mono now)
{
	struct apus_dp_reader *r = s->reader;
	struct apus_wire_nack_frag n = {.reader = r->eid, .writer = s->eid, .seq = a->seq};
	bool quiet = now.ns - a->last.ns >= QUIET_NS || (a->asked && a->asked_left == 0);
	uint32_t end_k = quiet ? a->fragment_count : a->highest;

	for (uint32_t k = 0; k < end_k; k++) {
		if (has(a, k))
			continue;
		if (n.set.base == 0)
			n.set.base = k + 1;
		if (!apus_wire_fragset_add(&n.set, k + 1))
			break;
		a->asked_left++;
	}
	if (n.set.base == 0)
		return false;
	a->asked = true;
	n.count = ++s->frag_count;
	return apus_wire_nack_frag(apus_dp_out_at(&r->worker->out, &s->addr, &s->prefix,
						  NACK_FRAG_BYTES),
				   &n) == 0;
}

void apus_dp_reader_spare_fragmented(struct apus_dp_reader_state *state,
				     struct apus_wire_seqset *set)
{
	struct apus_dp_reader *r = state->reader;

	for (uint32_t i = 0; i < r->config.assembly_max; i++) {
		struct apus_dp_assembly *a = &r->assemblies[i];
		apus_seq bit = a->seq - set->base;

		if (a->state == state && bit >= 0 && bit < (apus_seq)set->num_bits)
			set->bitmap[bit / 32] &= ~(UINT32_C(1) << (31 - bit % 32));
	}
}

void apus_dp_reader_send_nack_frags(struct apus_dp_reader_state *state, struct apus_mono now)
{
	struct apus_dp_reader *r = state->reader;

	for (uint32_t i = 0; i < r->config.assembly_max; i++) {
		struct apus_dp_assembly *a = &r->assemblies[i];

		if (a->state != state)
			continue;
		a->asked_left = 0;
		if (ask_for(state, a, now))
			apus_counter_add(&r->counters.nack_frags_sent, 1);
	}
	if (!apus_dp_timer_armed(&state->timer))
		apus_dp_wheel_arm(&r->worker->wheel, &state->timer, apus_mono_add(now, AGAIN_NS));
}
