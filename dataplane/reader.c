/* SPDX-License-Identifier: Apache-2.0 */
/* A reader's life: its memory, and the slots payloads lie in; see reader.h. */
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

static int create_inbox(struct apus_dp_reader *r)
{
	struct apus_dp_inbox_options *o = &r->config.inbox;
	size_t bytes;

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
	o->history.instances.key_bytes_max = r->plan->max_bytes;
	o->history.instances.match_count_max = r->config.match_max;
	if (r->plan->max_bytes == 0) {
		o->history.instances.capacity = 1;
	} else {
		o->history.instances.key_hash = hash_key;
		o->history.instances.alias_hash = r->plan->fast_differs ? hash_key_fast : NULL;
		o->history.instances.key_hash_context = r->plan;
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

	rc = apus_dp_keyplan_acquire(r->config.type, APUS_DP_KEY_BYTES_MAX, &r->plan);
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
	return create_pool(r, o->max_samples + o->max_loans + 1 + r->config.held_max +
				      (r->config.inbox.late ? o->instances.capacity : 0) +
				      r->config.assembly_max);
}

/* An array of none might be NULL, which says that there is no memory. */
static uint32_t at_least_one(uint32_t count)
{
	return count ? count : 1;
}

static int create_held(struct apus_dp_reader *r)
{
	r->held_memory = calloc(at_least_one(r->config.held_max), sizeof(*r->held_memory));
	if (!r->held_memory)
		return APUS_ENOMEM;
	for (uint32_t i = 0; i < r->config.held_max; i++) {
		r->held_memory[i].next = r->held_free;
		r->held_free = &r->held_memory[i];
	}
	if (!r->config.sink)
		return 0;
	return create_pool(r, r->config.held_max + 1 + r->config.assembly_max);
}

/* Smallest fragment size provided for: peers cut to 1.3 KB and more, the smallest IPv4 MTU leaves 400. */
#define FRAGMENT_BYTES_MIN 256

static int create_assemblies(struct apus_dp_reader *r)
{
	uint32_t n = r->config.assembly_max;
	size_t words;

	r->assembly_fragments = r->config.payload_bytes_max / FRAGMENT_BYTES_MIN + 1;
	words = (r->assembly_fragments + 63) / 64;
	r->assemblies = calloc(at_least_one(n), sizeof(*r->assemblies));
	r->assembly_bits = calloc(at_least_one(n), words * sizeof(*r->assembly_bits));
	if (!r->assemblies || !r->assembly_bits)
		return APUS_ENOMEM;
	for (uint32_t i = 0; i < n; i++)
		r->assemblies[i].bits = r->assembly_bits + i * words;
	return 0;
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
	r->alarm.fn = apus_dp_reader_alarm;
	r->event_fd = -1;
	r->states = calloc(config->match_max, sizeof(*r->states));
	r->order = calloc(config->match_max, sizeof(*r->order));
	r->order_new = calloc(config->match_max, sizeof(*r->order_new));
	if (!r->states || !r->order || !r->order_new)
		goto fail;
	rc = config->sink ? 0 : create_history(r);
	if (rc == 0)
		rc = create_held(r);
	if (rc == 0)
		rc = create_assemblies(r);
	if (rc == 0)
		rc = apus_dp_lent_init(r);
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
	free(reader->lents);
	apus_dp_keyplan_release(reader->plan);
	free(reader->held_memory);
	free(reader->assemblies);
	free(reader->assembly_bits);
	free(reader->states);
	free(reader->order);
	free(reader->order_new);
	if (reader->event_fd >= 0)
		close(reader->event_fd);
	free(reader);
}
