/* SPDX-License-Identifier: Apache-2.0 */
/* A reader's life: its memory, and the slots payloads lie in; see reader.h. */
#include "base/fresh.h"
#include "dataplane/group.h"
#include "dataplane/keyplan.h"
#include "dataplane/reader_internal.h"
#include "wire/coder.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NONE APUS_SHM_NO_SLOT

static void release_slot(void *context, uint32_t slot_ref)
{
	struct apus_dp_reader *r = context;

	if (APUS_UNLIKELY(apus_dp_ref_is_lent(slot_ref)))
		apus_dp_lent_release(r, slot_ref);
	else
		apus_shm_pool_release(&r->pool, slot_ref);
}

static void hash_key(const void *context, const uint8_t *key, size_t key_bytes,
		     uint8_t hash_out[16])
{
	apus_wire_key_hash(context, key, key_bytes, hash_out);
}

static void hash_key_fast(const void *context, const uint8_t *key, size_t key_bytes,
			  uint8_t hash_out[16])
{
	/* Keys of the table are canonical. */
	(void)apus_wire_key_hash_fast(context, key, key_bytes, hash_out);
}

/* Copies a payload into a slot and zeroes the padding to a multiple of 4. */
uint32_t apus_dp_reader_store(struct apus_dp_reader *r, const uint8_t *payload, size_t bytes)
{
	uint32_t slot = apus_shm_pool_acquire(&r->pool);

	if (slot == NONE) {
		apus_counter_add(&r->counters.no_slot, 1);
		return NONE;
	}
	apus_wire_copy_short(apus_dp_reader_slot(r, slot), payload, bytes);
	r->slot_payload_bytes[slot] = (uint32_t)bytes;
	return slot;
}

/* The slot that a payload lies in already, because its sample was held back; else NONE. */
uint32_t apus_dp_reader_slot_of(const struct apus_dp_reader *r, const uint8_t *payload)
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
	uint32_t slot;

	if (r->lending.shm)
		return apus_dp_lent_hold(r, arrival->payload, (uint32_t)arrival->payload_bytes);
	slot = apus_dp_reader_slot_of(r, arrival->payload);
	if (slot == NONE)
		return apus_dp_reader_store(r, arrival->payload, arrival->payload_bytes);
	apus_shm_pool_hold(&r->pool, slot);
	return slot;
}

/* What the inbox is created with, completed. */
static void complete_options(struct apus_dp_reader *r)
{
	struct apus_dp_inbox_options *o = &r->config.inbox;

	o->hold = hold_payload;
	o->hold_context = r;
	o->history.release = release_slot;
	o->history.release_context = r;
	if (r->config.subscriber) {
		o->history.stamp = &r->config.subscriber->stamp;
		if (o->coherent && r->config.subscriber->access_scope == APUS_SCOPE_GROUP) {
			o->group_end = apus_dp_group_end;
			o->group_context = r;
		}
	}
	o->history.instances.zeroed = true;
	o->history.instances.key_bytes_max = r->plan->max_bytes;
	o->history.instances.match_count_max = r->config.match_max;
	if (r->plan->max_bytes == 0) {
		o->history.instances.capacity = 1;
	} else {
		o->history.instances.key_hash = hash_key;
		o->history.instances.alias_hash = r->plan->fast_differs ? hash_key_fast : NULL;
		o->history.instances.key_hash_context = r->plan;
	}
}

/* An array of none might be NULL, which says that there is no memory. */
static uint32_t at_least_one(uint32_t count)
{
	return count ? count : 1;
}

/* What matches need: touched when there are any. */
static size_t lay_out_matches(struct apus_dp_reader *r, void *base)
{
	uint32_t n = r->config.match_max;
	size_t at = 0;

	r->states = apus_shm_reserve_part(base, &at, n, sizeof(*r->states));
	r->order = apus_shm_reserve_part(base, &at, n, sizeof(*r->order));
	r->order_new = apus_shm_reserve_part(base, &at, n, sizeof(*r->order_new));
	if (!r->config.sink)
		r->config.inbox.peers =
			apus_shm_reserve_part(base, &at, n, sizeof(*r->config.inbox.peers));
	return at;
}

static uint32_t slot_count(const struct apus_dp_reader *r)
{
	const struct apus_dp_history_options *o = &r->config.inbox.history;
	uint32_t waiting = r->config.held_max + r->config.assembly_max + 1;

	if (r->config.sink)
		return waiting;
	return o->max_samples + o->max_loans + waiting +
	       (r->config.inbox.late ? o->instances.capacity : 0);
}

/* What samples need: all of it zero until there are some. The inbox comes first and is returned. */
static void *lay_out_samples(struct apus_dp_reader *r, void *base, size_t inbox_bytes,
			     size_t *bytes_out)
{
	const struct apus_dp_history_options *o = &r->config.inbox.history;
	size_t words = (r->assembly_fragments + 63) / 64;
	size_t at = 0;
	void *inbox = apus_shm_reserve_part(base, &at, 1, inbox_bytes);

	if (!r->config.sink)
		r->key_slots = apus_shm_reserve_part(
			base, &at, (size_t)o->max_samples + o->instances.capacity + o->max_loans,
			sizeof(*r->key_slots));
	r->slot_payload_bytes =
		apus_shm_reserve_part(base, &at, slot_count(r), sizeof(*r->slot_payload_bytes));
	r->window_bits =
		apus_shm_reserve_part(base, &at, r->config.match_max, sizeof(*r->window_bits));
	r->held_memory = apus_shm_reserve_part(base, &at, at_least_one(r->config.held_max),
					       sizeof(*r->held_memory));
	r->assemblies = apus_shm_reserve_part(base, &at, at_least_one(r->config.assembly_max),
					      sizeof(*r->assemblies));
	r->assembly_bits = apus_shm_reserve_part(base, &at, at_least_one(r->config.assembly_max),
						 words * sizeof(*r->assembly_bits));
	*bytes_out = at;
	return inbox;
}

/* Smallest fragment size provided for: peers cut to 1.3 KB and more, the smallest IPv4 MTU leaves 400. */
#define FRAGMENT_BYTES_MIN 256

static int create_samples(struct apus_dp_reader *r)
{
	size_t inbox_bytes = 0, bytes;
	void *inbox;
	int rc;

	if (!r->config.sink) {
		inbox_bytes = apus_dp_inbox_bytes(&r->config.inbox);
		if (inbox_bytes == 0)
			return APUS_ELIMIT;
	}
	r->assembly_fragments = r->config.payload_bytes_max / FRAGMENT_BYTES_MIN + 1;
	lay_out_samples(r, NULL, inbox_bytes, &bytes);
	rc = apus_shm_reserve(bytes, r->worker->config.segment_flags, &r->reserve);
	if (rc != 0)
		return rc;
	inbox = lay_out_samples(r, r->reserve.base, inbox_bytes, &bytes);
	if (!r->config.sink)
		rc = apus_dp_inbox_init(&r->inbox, &r->config.inbox, inbox);
	if (rc != 0)
		return rc;
	r->inbox_ready = !r->config.sink;
	return apus_shm_pool_init(&r->pool,
				  APUS_DP_SLOT_PAYLOAD + ((r->config.payload_bytes_max + 3) & ~3u),
				  slot_count(r), r->worker->config.segment_flags);
}

int apus_dp_reader_create(struct apus_dp_worker *worker, const struct apus_dp_reader_config *config,
			  struct apus_dp_reader **reader_out)
{
	struct apus_dp_reader *r;
	int rc = 0;

	if (config->match_max == 0 || config->payload_bytes_max < 4)
		return APUS_EINVAL;
	r = calloc(1, sizeof(*r));
	if (!r)
		return APUS_ENOMEM;
	r->worker = worker;
	r->config = *config;
	r->eid = apus_guid_eid(&config->guid);
	r->alarm.fn = apus_dp_reader_alarm;
	r->event_fd = -1;
	if (!config->sink)
		rc = apus_dp_keyplan_acquire(r->config.type, APUS_DP_KEY_BYTES_MAX, &r->plan);
	if (rc == 0 && !config->sink)
		complete_options(r);
	if (rc == 0)
		rc = apus_shm_reserve(lay_out_matches(r, NULL), APUS_SHM_LAZY, &r->match_memory);
	if (rc == 0) {
		lay_out_matches(r, r->match_memory.base);
		rc = create_samples(r);
	}
	if (rc == 0)
		rc = apus_dp_lent_init(r);
	if (rc == 0)
		*reader_out = r;
	else
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
	apus_shm_unreserve(&reader->reserve);
	apus_fresh_free(reader->lents, reader->config.lent_max, sizeof(*reader->lents));
	apus_dp_keyplan_release(reader->plan);
	apus_shm_unreserve(&reader->match_memory);
	if (reader->event_fd >= 0)
		close(reader->event_fd);
	free(reader);
}
