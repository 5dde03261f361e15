/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader's side of the protocol; see reader.h. In this file: life, arrival, holding back,
 * acknowledgements. Adoption of snapshots is in reader_adopt.c, the application's side in reader_access.c.
 */
#include "dataplane/reader.h"

#include "dataplane/cache.h"
#include "dataplane/worker.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define NONE APUS_SHM_NO_SLOT

/* Requests to a writer that has not heartbeated yet: the first soon after the match, then ever rarer. */
#define GREET_FIRST_NS (100 * APUS_NS_PER_MS)
#define GREET_MAX_NS (5 * APUS_NS_PER_SEC)
/* A hole seen by a DATA is asked for after this time if no HEARTBEAT came meanwhile: some writers
 * heartbeat only every 3 s, and plain reordering closes most holes sooner. */
#define HOLE_NS (5 * APUS_NS_PER_MS)
/* Requests for the same holes are at least this far apart: what was asked for may be on its way. */
#define ASK_AGAIN_NS (2 * APUS_NS_PER_MS)
#define ACKNACK_BYTES 64
#define KEY_BYTES_MAX 1024

/* --- life --------------------------------------------------------------------------------------- */

static void release_slot(void *context, uint32_t slot_ref)
{
	struct apus_dp_reader *r = context;

	apus_shm_pool_release(&r->pool, slot_ref);
}

static void hash_key(const void *context, const uint8_t *key, size_t key_bytes, uint8_t hash_out[16])
{
	apus_wire_key_hash(context, key, key_bytes, hash_out);
}

static uint8_t *slot_payload(const struct apus_dp_reader *r, uint32_t slot)
{
	return (uint8_t *)apus_shm_pool_slot(&r->pool, slot) + APUS_DP_SLOT_PAYLOAD;
}

/* Copies a payload into a slot and zeroes the padding to a multiple of 4. */
static uint32_t store_payload(struct apus_dp_reader *r, const uint8_t *payload, size_t bytes)
{
	uint32_t slot = apus_shm_pool_acquire(&r->pool);

	if (slot == NONE) {
		apus_counter_add(&r->counters.no_slot, 1);
		return NONE;
	}
	memcpy(slot_payload(r, slot), payload, bytes);
	r->slot_payload_bytes[slot] = (uint32_t)bytes;
	return slot;
}

/* The slot that a payload lies in already, because its sample was held back; else NONE. */
static uint32_t slot_of(const struct apus_dp_reader *r, const uint8_t *payload)
{
	uintptr_t base = (uintptr_t)r->pool.segment.base;
	uintptr_t at = (uintptr_t)payload;

	if (at < base || at >= base + (size_t)r->pool.slot_bytes * r->pool.slot_count)
		return NONE;
	return (uint32_t)((at - base) / r->pool.slot_bytes);
}

static uint32_t hold_payload(void *context, const struct apus_dp_arrival *arrival)
{
	struct apus_dp_reader *r = context;
	uint32_t slot = slot_of(r, arrival->payload);

	if (slot == NONE)
		return store_payload(r, arrival->payload, arrival->payload_bytes);
	apus_shm_pool_hold(&r->pool, slot);
	return slot;
}

static int create_inbox(struct apus_dp_reader *r)
{
	struct apus_dp_inbox_options *o = &r->config.inbox;
	size_t bytes;

	o->hold = hold_payload;
	o->hold_context = r;
	o->history.release = release_slot;
	o->history.release_context = r;
	o->history.instances.key_bytes_max = r->plan.max_bytes;
	o->history.instances.match_count_max = r->config.match_max;
	if (r->plan.max_bytes == 0) {
		o->history.instances.capacity = 1;
	} else {
		o->history.instances.key_hash = hash_key;
		o->history.instances.key_hash_context = &r->plan;
	}
	bytes = apus_dp_inbox_bytes(o);
	if (bytes == 0)
		return APUS_ELIMIT;
	r->inbox_memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
	if (!r->inbox_memory)
		return APUS_ENOMEM;
	r->inbox_ready = apus_dp_inbox_init(&r->inbox, o, r->inbox_memory) == 0;
	return r->inbox_ready ? 0 : APUS_EINVAL;
}

static int create_pool(struct apus_dp_reader *r, uint32_t slot_count)
{
	r->slot_payload_bytes = calloc(slot_count, sizeof(*r->slot_payload_bytes));
	if (!r->slot_payload_bytes)
		return APUS_ENOMEM;
	return apus_shm_pool_init(&r->pool,
				  APUS_DP_SLOT_PAYLOAD + ((r->config.payload_bytes_max + 3) & ~3u),
				  slot_count, r->worker->config.segment_flags);
}

/* Everything a reader with a history has and one with a sink has not. */
static int create_history(struct apus_dp_reader *r)
{
	const struct apus_dp_history_options *o = &r->config.inbox.history;
	uint32_t entries;
	int rc;

	rc = apus_wire_keyplan_init(&r->plan, r->config.type, KEY_BYTES_MAX);
	if (rc == 0)
		rc = create_inbox(r);
	if (rc != 0)
		return rc;
	entries = r->inbox.history.entry_count;
	r->key_slots = malloc(entries * sizeof(*r->key_slots));
	if (!r->key_slots)
		return APUS_ENOMEM;
	for (uint32_t i = 0; i < entries; i++)
		r->key_slots[i] = NONE;
	return create_pool(r, o->max_samples + o->max_loans + 1 + r->config.held_max);
}

static int create_held(struct apus_dp_reader *r)
{
	r->held_memory = calloc(r->config.held_max + 1, sizeof(*r->held_memory));
	if (!r->held_memory)
		return APUS_ENOMEM;
	for (uint32_t i = 0; i < r->config.held_max; i++) {
		r->held_memory[i].next = r->held_free;
		r->held_free = &r->held_memory[i];
	}
	if (!r->config.sink)
		return 0;
	return create_pool(r, r->config.held_max + 1);
}

int apus_dp_reader_create(struct apus_dp_worker *worker, const struct apus_dp_reader_config *config,
			  struct apus_dp_reader **reader_out)
{
	struct apus_dp_reader *r;
	int rc = APUS_ENOMEM;

	if (config->match_max == 0 || config->payload_bytes_max < 4)
		return APUS_EINVAL;
	r = calloc(1, sizeof(*r));
	if (!r)
		return APUS_ENOMEM;
	r->worker = worker;
	r->config = *config;
	r->eid = apus_guid_eid(&config->guid);
	r->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	r->states = calloc(config->match_max, sizeof(*r->states));
	r->order = calloc(config->match_max, sizeof(*r->order));
	r->order_new = calloc(config->match_max, sizeof(*r->order_new));
	if (!r->states || !r->order || !r->order_new)
		goto fail;
	rc = APUS_EIO;
	if (r->event_fd < 0)
		goto fail;
	rc = config->sink ? 0 : create_history(r);
	if (rc == 0)
		rc = create_held(r);
	if (rc != 0)
		goto fail;
	*reader_out = r;
	return 0;
fail:
	apus_dp_reader_destroy(r);
	return rc;
}

void apus_dp_reader_destroy(struct apus_dp_reader *reader)
{
	if (!reader)
		return;
	if (reader->inbox_ready)
		apus_dp_inbox_fini(&reader->inbox);
	apus_shm_pool_fini(&reader->pool);
	free(reader->inbox_memory);
	free(reader->slot_payload_bytes);
	free(reader->key_slots);
	free(reader->held_memory);
	free(reader->states);
	free(reader->order);
	free(reader->order_new);
	if (reader->event_fd >= 0)
		close(reader->event_fd);
	free(reader);
}

/* --- admission ----------------------------------------------------------------------------------- */

/* One sample on its way in, whatever the route. */
struct incoming {
	apus_seq seq;
	struct apus_wall source;
	uint8_t change; /* status info bits */
	bool key_only;
	const uint8_t *payload;
	uint32_t payload_bytes;
	const uint8_t *key_hash;
	const struct apus_dp_origin *origin; /* NULL: same process */
};

void apus_dp_reader_raise(struct apus_dp_reader *reader)
{
	uint64_t one = 1;

	if (!reader->event_wanted || reader->event_raised)
		return;
	reader->event_raised = true;
	(void)!write(reader->event_fd, &one, sizeof(one));
}

static enum apus_dp_admit_result to_sink(struct apus_dp_reader_state *s, const struct incoming *in,
					 struct apus_mono now)
{
	struct apus_dp_sink_sample sample = {
		.writer = s->guid,
		.seq = in->seq,
		.change = in->change,
		.key_only = in->key_only,
		.payload = in->payload,
		.payload_bytes = in->payload_bytes,
		.key_hash = in->key_hash,
		.from = in->origin ? in->origin->from : NULL,
		.datagram_bytes = in->origin ? in->origin->datagram_bytes : 0,
	};

	s->reader->config.sink(s->reader->config.sink_user, &sample, now);
	return APUS_DP_STORED;
}

/* Names the instance: by the key in the payload, else by the key that a short hash holds in clear, else
 * by the hash itself (a notice for an instance already known). False: it names none. */
static bool name_instance(struct apus_dp_reader *r, const struct incoming *in,
			  struct apus_dp_arrival *a, uint8_t *key)
{
	int n;

	if (r->plan.max_bytes == 0)
		return true;
	if (in->payload) {
		n = apus_wire_key_extract(&r->plan, in->payload, in->payload_bytes, in->key_only, key,
					  KEY_BYTES_MAX);
		if (n < 0)
			return false;
		a->key = key;
		a->key_bytes = (size_t)n;
		return true;
	}
	if (!in->key_hash)
		return false;
	n = apus_wire_key_from_hash(&r->plan, in->key_hash, key, KEY_BYTES_MAX);
	if (n >= 0) {
		a->key = key;
		a->key_bytes = (size_t)n;
	} else {
		a->key_hash = in->key_hash;
	}
	return true;
}

static enum apus_dp_admit_result to_inbox(struct apus_dp_reader_state *s, const struct incoming *in,
					  struct apus_mono now)
{
	struct apus_dp_reader *r = s->reader;
	uint8_t key[KEY_BYTES_MAX];
	struct apus_dp_admission admission;
	struct apus_dp_arrival a = {
		.match_slot = s->slot,
		.seq = in->seq,
		.reliable = s->reliable,
		.refused_before = apus_dp_window_was_refused(&s->window, in->seq),
		.has_data = in->payload && !in->key_only,
		.change = in->change & (APUS_DP_DISPOSE | APUS_DP_UNREGISTER),
		.source_time = in->source,
		.payload = in->payload,
		.payload_bytes = in->payload_bytes,
	};

	if (!a.has_data && a.change == 0) {
		/* Neither data nor a change of state: nothing a reader could show. */
		apus_counter_add(&r->counters.bad_key, 1);
		return APUS_DP_MALFORMED;
	}
	if (!name_instance(r, in, &a, key)) {
		apus_counter_add(&r->counters.bad_key, 1);
		return APUS_DP_MALFORMED;
	}
	a.wall_now = r->inbox.peers.peers[s->slot].lifespan_ns != APUS_INFINITE_NS ||
				     r->config.inbox.lifespan_ns != APUS_INFINITE_NS
			     ? apus_wall_now()
			     : APUS_WALL_NONE;
	apus_dp_admit(&r->inbox, &a, now, &admission);
	if (admission.available) {
		apus_counter_add(&r->counters.delivered, 1);
		apus_dp_reader_raise(r);
	}
	return admission.result;
}

static enum apus_dp_admit_result admit(struct apus_dp_reader_state *s, const struct incoming *in,
				       struct apus_mono now)
{
	struct apus_dp_reader *r = s->reader;
	enum apus_dp_admit_result result;

	if (in->payload_bytes > r->config.payload_bytes_max) {
		apus_counter_add(&r->counters.too_large, 1);
		return APUS_DP_MALFORMED;
	}
	result = r->config.sink ? to_sink(s, in, now) : to_inbox(s, in, now);
	apus_counter_add(&r->counters.results[result], 1);
	return result;
}

/* --- order --------------------------------------------------------------------------------------- */

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

static void hold_back(struct apus_dp_reader_state *s, const struct incoming *in)
{
	struct apus_dp_reader *r = s->reader;
	struct apus_dp_held *h = r->held_free;
	uint32_t slot = NONE;

	if (in->payload_bytes > r->config.payload_bytes_max) {
		apus_counter_add(&r->counters.too_large, 1);
		return;
	}
	if (h && in->payload)
		slot = store_payload(r, in->payload, in->payload_bytes);
	if (!h || (in->payload && slot == NONE)) {
		apus_counter_add(&r->counters.held_full, 1);
		return;
	}
	r->held_free = h->next;
	*h = (struct apus_dp_held){
		.seq = in->seq,
		.source = in->source,
		.slot = slot,
		.payload_bytes = in->payload_bytes,
		.change = in->change,
		.key_only = in->key_only,
		.has_hash = in->key_hash != NULL,
	};
	if (in->key_hash)
		memcpy(h->key_hash, in->key_hash, 16);
	link_held(s, h);
	apus_dp_window_hold(&s->window, in->seq);
	apus_counter_add(&r->counters.held, 1);
}

/* Settles one number after admission; false if the sample was refused. */
static bool settle(struct apus_dp_reader_state *s, apus_seq seq, enum apus_dp_admit_result result)
{
	if (apus_dp_admit_settles(result)) {
		apus_dp_window_done(&s->window, seq);
		return true;
	}
	apus_dp_window_refuse(&s->window, seq);
	s->reader->any_refused = true;
	return false;
}

/* Delivers held samples whose turn has come. */
static void drain(struct apus_dp_reader_state *s, struct apus_mono now)
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
		struct incoming in;
		bool stored;

		if (!h || h->seq != seq)
			break; /* cannot happen: the window holds what the list holds */
		in = (struct incoming){
			.seq = h->seq,
			.source = h->source,
			.change = h->change,
			.key_only = h->key_only,
			.payload = h->slot == NONE ? NULL : slot_payload(r, h->slot),
			.payload_bytes = h->payload_bytes,
			.key_hash = h->has_hash ? h->key_hash : NULL,
		};
		stored = settle(s, seq, admit(s, &in, now));
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

/* --- acknowledgements ---------------------------------------------------------------------------- */

static void queue_ack(struct apus_dp_reader_state *s)
{
	if (s->ack_queued)
		return;
	s->ack_queued = true;
	s->ack_next = s->reader->worker->ack_list;
	s->reader->worker->ack_list = s;
}

void apus_dp_reader_send_ack(struct apus_dp_reader_state *state, struct apus_mono now)
{
	struct apus_dp_reader *r = state->reader;
	struct apus_wire_acknack a = {.reader = r->eid, .writer = state->eid};

	if (state->addr.family == 0)
		return;
	apus_dp_window_acknack(&state->window, &a.set, &a.final);
	a.count = ++state->ack_count;
	if (a.set.num_bits)
		state->asked = now;
	if (apus_wire_acknack(apus_dp_out_at(&r->worker->out, &state->addr, &state->prefix,
					     ACKNACK_BYTES),
			      &a) == 0)
		apus_counter_add(&r->counters.acknacks_sent, 1);
}

/* Asks for what is missing: now, or so much later that requests keep their distance. */
static void ask(struct apus_dp_reader_state *s, struct apus_mono now, int64_t delay_ns)
{
	struct apus_mono due = apus_mono_add(now, delay_ns);
	struct apus_mono spaced = apus_mono_add(s->asked, ASK_AGAIN_NS);

	if (s->asked.ns && apus_mono_before(due, spaced))
		due = spaced;
	if (!apus_mono_before(now, due)) {
		queue_ack(s);
		return;
	}
	if (!apus_dp_timer_armed(&s->timer) || apus_mono_before(due, s->timer.due))
		apus_dp_wheel_arm(&s->reader->worker->wheel, &s->timer, due);
}

void apus_dp_reader_timer(struct apus_dp_timer *timer, struct apus_mono now)
{
	struct apus_dp_reader_state *s =
		(struct apus_dp_reader_state *)((char *)timer -
						offsetof(struct apus_dp_reader_state, timer));

	if (!s->window.heartbeat_seen) {
		/* The writer has not been heard: it may not know us yet. Keep asking, ever rarer. */
		queue_ack(s);
		s->greet_ns = s->greet_ns * 2 < GREET_MAX_NS ? s->greet_ns * 2 : GREET_MAX_NS;
		apus_dp_wheel_arm(&s->reader->worker->wheel, &s->timer,
				  apus_mono_add(now, s->greet_ns));
	} else if (s->answer_due || apus_dp_window_has_missing(&s->window)) {
		queue_ack(s);
	}
	s->answer_due = false;
}

void apus_dp_reader_greet(struct apus_dp_reader_state *state, struct apus_mono now)
{
	queue_ack(state);
	state->greet_ns = GREET_FIRST_NS;
	apus_dp_wheel_arm(&state->reader->worker->wheel, &state->timer,
			  apus_mono_add(now, state->greet_ns));
}

/* --- submessages --------------------------------------------------------------------------------- */

static void arrive(struct apus_dp_reader_state *s, const struct incoming *in, struct apus_mono now)
{
	struct apus_dp_reader *r = s->reader;

	apus_counter_add(&r->counters.received, 1);
	switch (apus_dp_window_check(&s->window, in->seq)) {
	case APUS_DP_SEQ_NEW_IN_ORDER:
		settle(s, in->seq, admit(s, in, now));
		if (s->held_first)
			drain(s, now);
		break;
	case APUS_DP_SEQ_NEW_OUT_OF_ORDER:
		hold_back(s, in);
		ask(s, now, HOLE_NS);
		break;
	case APUS_DP_SEQ_DUPLICATE: apus_counter_add(&r->counters.duplicates, 1); break;
	case APUS_DP_SEQ_BEYOND: apus_counter_add(&r->counters.beyond, 1); break;
	}
}

static struct incoming from_data(const struct apus_wire_data *data,
				 const struct apus_dp_origin *origin)
{
	return (struct incoming){
		.seq = data->seq,
		.source = origin->timestamp,
		.change = (uint8_t)(data->qos.status_info &
				    (APUS_WIRE_STATUS_DISPOSED | APUS_WIRE_STATUS_UNREGISTERED)),
		.key_only = data->key_only,
		.payload = data->payload,
		.payload_bytes = data->payload ? data->payload_bytes : 0,
		.key_hash = data->qos.has_key_hash ? data->qos.key_hash : NULL,
		.origin = origin,
	};
}

void apus_dp_reader_data(struct apus_dp_reader_state *state, const struct apus_wire_data *data,
			 const struct apus_dp_origin *origin, struct apus_mono now)
{
	struct incoming in = from_data(data, origin);

	if (state->local) {
		apus_counter_add(&state->reader->counters.other_route, 1);
		return;
	}
	arrive(state, &in, now);
}

void apus_dp_reader_stateless(struct apus_dp_reader *reader, const struct apus_guid *writer,
			      const struct apus_wire_data *data,
			      const struct apus_dp_origin *origin, struct apus_mono now)
{
	struct incoming in = from_data(data, origin);
	struct apus_dp_reader_state nobody = {.guid = *writer, .reader = reader};

	apus_counter_add(&reader->counters.received, 1);
	if (in.payload_bytes > reader->config.payload_bytes_max)
		apus_counter_add(&reader->counters.too_large, 1);
	else
		to_sink(&nobody, &in, now);
}

/* Several heartbeats within the delay get one answer. */
static void answer_later(struct apus_dp_reader_state *s, struct apus_mono now, int64_t delay_ns)
{
	struct apus_mono due = apus_mono_add(now, delay_ns);

	s->answer_due = true;
	if (!apus_dp_timer_armed(&s->timer) || apus_mono_before(due, s->timer.due))
		apus_dp_wheel_arm(&s->reader->worker->wheel, &s->timer, due);
}

void apus_dp_reader_heartbeat(struct apus_dp_reader_state *state,
			      const struct apus_wire_heartbeat *heartbeat, struct apus_mono now)
{
	int64_t delay_ns = state->reader->worker->config.ack_delay_ns;
	unsigned result;

	if (!state->reliable || state->local)
		return;
	apus_counter_add(&state->reader->counters.heartbeats, 1);
	result = apus_dp_window_heartbeat(&state->window, heartbeat->first, heartbeat->last,
					  (int32_t)heartbeat->count, heartbeat->final,
					  heartbeat->liveliness, now);
	if (result & APUS_DP_HB_RESTORED)
		apus_dp_reader_drop_held(state); /* the window has forgotten them */
	if (result & APUS_DP_HB_ADVANCED)
		drain(state, now);
	if (result & APUS_DP_HB_LIVELINESS && !state->reader->config.sink)
		apus_dp_inbox_assert(&state->reader->inbox, state->slot, now);
	if (!(result & APUS_DP_HB_ACK))
		return;
	if (apus_dp_window_has_missing(&state->window))
		ask(state, now, delay_ns);
	else if (delay_ns == 0)
		queue_ack(state);
	else
		answer_later(state, now, delay_ns);
}

void apus_dp_reader_gap(struct apus_dp_reader_state *state, const struct apus_wire_gap *gap,
			struct apus_mono now)
{
	if (!state->reliable || state->local)
		return;
	apus_counter_add(&state->reader->counters.gaps, 1);
	if (apus_dp_window_gap(&state->window, gap->start, &gap->set))
		drain(state, now);
}

bool apus_dp_reader_local(struct apus_dp_reader *reader, const struct apus_dp_local_sample *sample,
			  struct apus_mono now)
{
	struct incoming in = {
		.seq = sample->seq,
		.source = sample->source,
		.change = sample->kind,
		.key_only = sample->key_only,
		.payload = sample->payload_bytes ? sample->payload : NULL,
		.payload_bytes = sample->payload_bytes,
	};

	for (uint32_t i = 0; i < reader->match_count; i++) {
		struct apus_dp_reader_state *s = &reader->states[reader->order[i]];

		if (s->match_id != sample->match_id)
			continue;
		apus_counter_add(&reader->counters.received, 1);
		if (admit(s, &in, now) != APUS_DP_REFUSED)
			return true;
		reader->any_refused = true;
		return false;
	}
	/* The reader has not adopted this match yet: the writer offers again. */
	return false;
}
