/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reassembly of fragmented samples (RTPS 2.5 §8.4.14), straight into the slot the sample will live in.
 *
 * A reader puts together at most assembly_max samples at a time. One begins with its first fragment, if
 * the sample is wanted, not above the declared size, and a slot is free; so memory is spent only for what
 * arrived. Fragment size and sample size must be those of the first fragment.
 *
 * When all places are taken, one whose writer has fallen silent or that cannot be asked for again gives
 * way, then the latest sample of a writer that has several; else the new one has to wait its turn, and is
 * asked for later. So samples are finished in the order in which they are delivered, and a writer that
 * begins many keeps no other out.
 *
 * Requests (NACK_FRAG) name up to 256 missing fragments, no more than fit a small socket buffer unless
 * the writer itself holds back (an Apus writer does). The next request leaves as soon as those have
 * come, when a HEARTBEAT says that nothing more is on its way, or after a pause. So a sample of any size
 * passes through a socket buffer of any size.
 */
#include "dataplane/reader_internal.h"

#include <string.h>

#define NONE APUS_SHM_NO_SLOT

/* A fragment that came less than this ago means that more may be on their way. */
#define QUIET_NS (1 * APUS_NS_PER_MS)
/* An answer that has begun and then paused for so long is over. */
#define BROKEN_OFF_NS (2 * APUS_NS_PER_MS)
/* Pause after which what is still missing is asked for again: at first; once it is known how long the writer
 * takes to answer, a little longer than that. While nothing comes at all it doubles. */
#define AGAIN_FIRST_NS (10 * APUS_NS_PER_MS)
#define AGAIN_MIN_NS   (3 * APUS_NS_PER_MS)
#define AGAIN_MAX_NS   (20 * APUS_NS_PER_MS)
#define SILENT_MAX_NS  (APUS_NS_PER_SEC / 2)
/* While samples are being put together others are asked for as a whole no more often than that. Interop: a Fast DDS
 * 2.9.1 writer sends all of them again each time. */
#define WHOLE_AGAIN_NS (50 * APUS_NS_PER_MS)
/* An assembly that got no fragment for so long may give way to another. */
#define STALE_NS (100 * APUS_NS_PER_MS)
/* Asked of foreign writers at a time, which answer at full speed. */
#define ASK_BYTES       ((uint32_t)128 * 1024)
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

static uint32_t give_way(struct apus_dp_reader *r, struct apus_dp_assembly *a)
{
	apus_counter_add(&r->counters.incomplete, 1);
	end(r, a);
	return (uint32_t)(a - r->assemblies);
}

/* Which assembly gives way when all places are taken; assembly_max if none does. */
static uint32_t choose(struct apus_dp_reader *r, const struct apus_dp_reader_state *s, apus_seq seq,
		       struct apus_mono now)
{
	struct apus_dp_assembly *oldest = &r->assemblies[0], *latest = NULL;

	for (uint32_t i = 0; i < r->config.assembly_max; i++) {
		struct apus_dp_assembly *a = &r->assemblies[i];

		if (apus_mono_before(a->last, oldest->last))
			oldest = a;
		if (a->state == s ? a->seq > seq
				  : s->assembly_count == 0 && a->state->assembly_count > 1)
			latest = !latest || a->seq > latest->seq ? a : latest;
	}
	if (!oldest->state->reliable || now.ns - oldest->last.ns >= STALE_NS)
		return give_way(r, oldest);
	return latest ? give_way(r, latest) : r->config.assembly_max;
}

/* A place for an assembly, or NULL. */
static struct apus_dp_assembly *place(struct apus_dp_reader_state *s, apus_seq seq,
				      struct apus_mono now)
{
	struct apus_dp_reader *r = s->reader;
	uint32_t i;

	for (i = 0; i < r->config.assembly_max; i++)
		if (!r->assemblies[i].state)
			return &r->assemblies[i];
	if (i > 0)
		i = choose(r, s, seq, now);
	if (i < r->config.assembly_max)
		return &r->assemblies[i];
	apus_counter_add(&r->counters.assembly_full, 1);
	return NULL;
}

/* A sample that can never be stored is settled, or it would be offered for ever: when it is the next one, and at a
 * second fragment, for the first may be forged. */
static void settle_too_large(struct apus_dp_reader_state *s, apus_seq seq, struct apus_mono now)
{
	const struct apus_wire_seqset behind = {.base = seq + 1};

	if (s->reliable && (!s->window.started || seq == s->window.next) &&
	    s->too_large_seq != seq) {
		s->too_large_seq = seq;
		return;
	}
	if (s->reliable && s->window.started && seq != s->window.next)
		return;
	s->too_large_seq = 0;
	apus_counter_add(&s->reader->counters.too_large, 1);
	/* As irrelevant, not as delivered: a forged one must not count as proof that the number exists. */
	if (s->reliable)
		apus_dp_window_gap(&s->window, seq, &behind);
	else
		apus_dp_window_done(&s->window, seq);
	apus_dp_reader_lose(s);
	if (s->held_first)
		apus_dp_reader_drain(s, now);
}

static struct apus_dp_assembly *begin(struct apus_dp_reader_state *s,
				      const struct apus_wire_data_frag *f,
				      const struct apus_dp_origin *origin, struct apus_mono now)
{
	struct apus_dp_reader *r = s->reader;
	uint32_t count =
		f->sample_bytes / f->fragment_bytes + (f->sample_bytes % f->fragment_bytes != 0);
	struct apus_dp_assembly *a;
	uint32_t slot;

	if (count > r->assembly_fragments) {
		apus_counter_add(&r->counters.bad_fragment, 1);
		return NULL;
	}
	a = place(s, f->seq, now);
	if (!a)
		return NULL;
	slot = apus_shm_pool_acquire(&r->pool);
	if (slot == NONE) {
		apus_counter_add(&r->counters.no_slot, 1);
		return NULL;
	}
	*a = (struct apus_dp_assembly){
		.state = s,
		.bits = r->assembly_bits +
			(size_t)(a - r->assemblies) * ((r->assembly_fragments + 63) / 64),
		.seq = f->seq,
		.source = origin->timestamp,
		.slot = slot,
		.sample_bytes = f->sample_bytes,
		.fragment_bytes = f->fragment_bytes,
		.fragment_count = count,
		.change = (uint8_t)(f->qos.status_info &
				    (APUS_WIRE_STATUS_DISPOSED | APUS_WIRE_STATUS_UNREGISTERED)),
		.key_only = f->key_only,
		.has_hash = f->qos.has_key_hash,
	};
	apus_dp_marks_read(&f->qos, &a->marks);
	memcpy(a->key_hash, f->qos.key_hash, 16);
	memset(a->bits, 0, ((size_t)count + 63) / 64 * sizeof(*a->bits));
	s->assembly_count++;
	return a;
}

/* The first fragment after a request: so long the writer takes to answer. Rises at once, falls slowly. After a
 * repeated request it may be the answer to the one before, and says nothing. */
static void note_answer(struct apus_dp_assembly *a, struct apus_mono now)
{
	struct apus_dp_reader_state *s = a->state;
	int64_t took_ns = now.ns - a->asked_at.ns;

	if (!a->asked || a->answered)
		return;
	a->answered = true;
	if (a->repeated)
		return;
	s->frag_answer_ns = took_ns > s->frag_answer_ns
				    ? took_ns
				    : s->frag_answer_ns - (s->frag_answer_ns - took_ns) / 8;
}

/* What a fragment says of the filter holds for the sample as long as the filter is the same. */
static void note_filter_info(struct apus_dp_assembly *a, const struct apus_wire_data_frag *f)
{
	enum apus_dp_filter_word word =
		apus_dp_reader_filter_word(a->state, f->qos.filter_info, f->qos.filter_info_bytes);

	if (word == APUS_DP_FILTER_UNKNOWN)
		return;
	a->filter_word = (uint8_t)word;
	a->filter_generation = a->state->reader->inbox.filter_generation;
}

/* Guesses that the fragment behind this one is next. */
static void expect_next(struct apus_dp_reader *r, const struct apus_dp_assembly *a,
			const struct apus_wire_data_frag *f)
{
	struct apus_dp_expected *e = &r->worker->expected;
	uint32_t least = r->worker->config.queue->place_min_bytes;
	uint32_t k = f->first - 1 + f->count;

	if (!e->datagram || least == 0 || f->fragment_bytes < least || f->qos.list ||
	    k >= a->fragment_count || has(a, k))
		return;
	e->next = (struct apus_dp_guess){
		.reader = r,
		.state = a->state,
		.seq = a->seq,
		.assembly_idx = (uint32_t)(a - r->assemblies),
		.fragment_idx = k,
		.head_bytes = (uint32_t)(f->payload - e->datagram),
	};
}

void apus_dp_reader_place(const struct apus_dp_guess *guess, struct apus_dp_rx_place *place)
{
	const struct apus_dp_assembly *a = &guess->reader->assemblies[guess->assembly_idx];
	uint32_t at = guess->fragment_idx * a->fragment_bytes;

	/* It may have ended since. */
	if (a->state != guess->state || a->seq != guess->seq ||
	    guess->fragment_idx >= a->fragment_count || has(a, guess->fragment_idx))
		return;
	place->base = apus_dp_reader_slot(guess->reader, a->slot) + at;
	place->room_bytes =
		a->sample_bytes - at < a->fragment_bytes ? a->sample_bytes - at : a->fragment_bytes;
	place->head_bytes = guess->head_bytes;
}

/* Is this the fragment that was placed where it belongs? If not, and it was placed all the same, its payload goes back
 * to its datagram: what follows may use that memory for something else. */
static bool is_placed(const struct apus_dp_reader_state *s, const struct apus_wire_data_frag *f)
{
	struct apus_dp_expected *e = &s->reader->worker->expected;

	if (APUS_LIKELY(!e->placed))
		return false;
	if (e->payload == f->payload && f->count == 1 && e->current.state == s &&
	    e->current.seq == f->seq && e->current.fragment_idx == f->first - 1) {
		e->right = true;
		return true;
	}
	apus_dp_queue_unplace(s->reader->worker->config.queue);
	e->placed = NULL;
	return false;
}

/* Copies fragments that have not come yet into place; numbers and sizes were proved by the parser. */
static void fill(struct apus_dp_reader *r, struct apus_dp_assembly *a,
		 const struct apus_wire_data_frag *f, const uint8_t *payload, struct apus_mono now)
{
	uint8_t *sample = apus_dp_reader_slot(r, a->slot);

	for (uint32_t k = f->first - 1; k < f->first - 1 + f->count; k++) {
		size_t from = (size_t)(k - (f->first - 1)) * f->fragment_bytes;
		size_t n = f->payload_bytes - from;
		uint8_t *to = sample + (size_t)k * f->fragment_bytes;

		if (has(a, k))
			continue;
		n = n < f->fragment_bytes ? n : f->fragment_bytes;
		if (to != payload + from) /* which it is if it was placed there */
			memmove(to, payload + from, n);
		a->bits[k / 64] |= UINT64_C(1) << k % 64;
		a->have++;
		if (a->asked_left)
			a->asked_left--;
	}
	if (f->first - 1 + f->count > a->highest)
		a->highest = f->first - 1 + f->count;
	if (f->qos.filter_info)
		note_filter_info(a, f);
	note_answer(a, now);
	a->last = now;
	a->settled = false;
	expect_next(r, a, f);
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
		.marks = whole.marks,
		.origin = origin,
	};

	if (whole.filter_generation == r->inbox.filter_generation)
		in.filter_word = whole.filter_word;

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
	enum apus_dp_seq_verdict v;
	struct apus_dp_assembly *a;
	const uint8_t *payload = is_placed(state, f) ? r->worker->expected.placed : f->payload;

	apus_counter_add(&r->counters.fragments, 1);
	if (state->local || state->shm)
		return;
	v = apus_dp_reader_check(state, f->seq, now);
	if (v == APUS_DP_SEQ_BEYOND)
		return;
	if (v == APUS_DP_SEQ_DUPLICATE) {
		apus_counter_add(&r->counters.late_fragments, 1);
		return;
	}
	if (f->sample_bytes > r->config.payload_bytes_max) {
		settle_too_large(state, f->seq, now);
		return;
	}
	a = find(r, state, f->seq);
	if (!a)
		a = begin(state, f, origin, now);
	if (!a)
		return;
	if (a->sample_bytes != f->sample_bytes || a->fragment_bytes != f->fragment_bytes) {
		apus_counter_add(&r->counters.bad_fragment, 1);
		return;
	}
	fill(r, a, f, payload, now);
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

/* Fast DDS sends large samples from a thread of its own and heartbeats from another, by a timer. */
static bool heartbeats_aside(const struct apus_prefix *p)
{
	return p->bytes[0] == 0x01 && p->bytes[1] == 0x0f;
}

/* What was asked for last may still come. */
static bool is_under_way(const struct apus_dp_assembly *a, struct apus_mono now)
{
	int64_t pause_ns = a->wait_ns / 2 > BROKEN_OFF_NS ? a->wait_ns / 2 : BROKEN_OFF_NS;

	if (!a->asked || a->asked_left == 0 || a->settled)
		return false;
	return now.ns - a->asked_at.ns < a->wait_ns ||
	       (a->answered && now.ns - a->last.ns < pause_ns);
}

/* How long a request has for its answer. */
static int64_t time_to_answer(const struct apus_dp_assembly *a)
{
	int64_t ns = a->state->frag_answer_ns;

	if (a->asked && !a->answered && a->wait_ns)
		return a->wait_ns * 2 < SILENT_MAX_NS ? a->wait_ns * 2 : SILENT_MAX_NS;
	if (ns == 0)
		return AGAIN_FIRST_NS;
	ns += ns / 2 + APUS_NS_PER_MS;
	if (ns < AGAIN_MIN_NS)
		return AGAIN_MIN_NS;
	return ns < AGAIN_MAX_NS ? ns : AGAIN_MAX_NS;
}

/* One NACK_FRAG: the first missing fragments, at most 256 and within the budget. Of a sample that may
 * still be arriving only the holes. False if nothing is to be asked for now. */
static bool ask_for(struct apus_dp_reader_state *s, struct apus_dp_assembly *a, uint32_t *budget,
		    struct apus_mono now)
{
	struct apus_dp_reader *r = s->reader;
	struct apus_wire_nack_frag n = {.reader = r->eid, .writer = s->eid, .seq = a->seq};
	bool quiet =
		a->settled || now.ns - a->last.ns >= QUIET_NS || (a->asked && a->asked_left == 0);
	bool repeated;
	uint32_t end_k = quiet ? a->fragment_count : a->highest;

	if (is_under_way(a, now))
		return false;
	repeated = a->asked && a->asked_left && !a->settled;
	a->asked_left = 0;
	for (uint32_t k = 0; k < end_k && *budget; k++) {
		if (has(a, k))
			continue;
		if (n.set.base == 0)
			n.set.base = k + 1;
		if (!apus_wire_fragset_add(&n.set, k + 1))
			break;
		a->asked_left++;
		*budget -= a->fragment_bytes < *budget ? a->fragment_bytes : *budget;
	}
	if (n.set.base == 0)
		return false;
	a->wait_ns = time_to_answer(a);
	a->asked = true;
	a->repeated = repeated;
	a->answered = false;
	a->asked_at = now;
	a->settled = false;
	n.count = ++s->frag_count;
	return apus_wire_nack_frag(
		       apus_dp_out_at(&r->worker->out, &s->addr, &s->prefix, NACK_FRAG_BYTES),
		       &n) == 0;
}

void apus_dp_reader_settle_fragments(struct apus_dp_reader_state *state, apus_seq last)
{
	struct apus_dp_reader *r = state->reader;
	bool asks = false;

	if (heartbeats_aside(&state->prefix))
		return;
	for (uint32_t i = 0; i < r->config.assembly_max; i++) {
		struct apus_dp_assembly *a = &r->assemblies[i];

		if (a->state == state && a->seq <= last && !a->asked)
			asks = a->settled = true;
	}
	/* What room was refused to comes back for room: that must not turn in circles. */
	if (asks && !r->any_refused)
		apus_dp_reader_queue_ack(state);
}

/* Leaves the first `count` bits of those that are set. */
static void keep_first(struct apus_wire_seqset *set, uint32_t count)
{
	uint32_t end = 0;

	for (uint32_t i = 0; i < set->num_bits; i++) {
		if (!apus_wire_bit_test(set->bitmap, i))
			continue;
		if (count == 0) {
			set->bitmap[i / 32] &= ~(UINT32_C(1) << (31 - i % 32));
			continue;
		}
		count--;
		end = i + 1;
	}
	set->num_bits = end;
}

void apus_dp_reader_spare_fragmented(struct apus_dp_reader_state *state,
				     struct apus_wire_seqset *set, struct apus_mono now)
{
	struct apus_dp_reader *r = state->reader;
	uint32_t places = 0;

	for (uint32_t i = 0; i < r->config.assembly_max; i++) {
		struct apus_dp_assembly *a = &r->assemblies[i];
		apus_seq bit = a->seq - set->base;

		places += a->state == NULL;
		if (a->state == state && bit >= 0 && bit < (apus_seq)set->num_bits)
			set->bitmap[bit / 32] &= ~(UINT32_C(1) << (31 - bit % 32));
	}
	if (now.ns - state->whole_asked.ns < WHOLE_AGAIN_NS)
		places = 0;
	keep_first(set, places);
	if (set->num_bits)
		state->whole_asked = now;
}

void apus_dp_reader_heartbeat_frag(struct apus_dp_reader_state *state,
				   const struct apus_wire_heartbeat_frag *heartbeat,
				   struct apus_mono now)
{
	struct apus_dp_assembly *a;
	uint32_t budget = UINT32_MAX;

	if (!state->reliable || state->local || state->shm)
		return;
	/* Other writers send them in the middle of a sample, where they tell us nothing. */
	if (!apus_dp_prefix_is_apus(&state->prefix) ||
	    !apus_dp_count_accept(&state->frag_hb_count, (int32_t)heartbeat->count, now))
		return;
	a = find(state->reader, state, heartbeat->seq);
	if (!a)
		return;
	a->settled = true;
	if (ask_for(state, a, &budget, now))
		apus_counter_add(&state->reader->counters.nack_frags_sent, 1);
}

/* The assembly of a writer's lowest number above `seq`. */
static struct apus_dp_assembly *next_above(struct apus_dp_reader_state *s, apus_seq seq)
{
	struct apus_dp_reader *r = s->reader;
	struct apus_dp_assembly *next = NULL;

	for (uint32_t i = 0; i < r->config.assembly_max; i++) {
		struct apus_dp_assembly *a = &r->assemblies[i];

		if (a->state == s && a->seq > seq && (!next || a->seq < next->seq))
			next = a;
	}
	return next;
}

void apus_dp_reader_send_nack_frags(struct apus_dp_reader_state *state, struct apus_mono now)
{
	struct apus_dp_reader *r = state->reader;
	uint32_t budget = apus_dp_prefix_is_apus(&state->prefix) ? UINT32_MAX : ASK_BYTES;

	int64_t wait_ns = SILENT_MAX_NS;
	struct apus_mono due;

	for (struct apus_dp_assembly *a = next_above(state, 0); a; a = next_above(state, a->seq)) {
		int64_t own_ns;

		if (ask_for(state, a, &budget, now))
			apus_counter_add(&r->counters.nack_frags_sent, 1);
		own_ns = a->asked ? a->wait_ns : AGAIN_FIRST_NS;
		wait_ns = own_ns < wait_ns ? own_ns : wait_ns;
	}
	due = apus_mono_add(now, wait_ns);
	if (!apus_dp_timer_armed(&state->timer) || apus_mono_before(due, state->timer.due))
		apus_dp_wheel_arm(&r->worker->wheel, &state->timer, due);
}
