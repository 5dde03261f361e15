/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples that the application fills where they will be read (include/apus/participant.h).
 *
 * A loan is a slot of the writer's cache that is in no list, marked in its entry. The cache has slots for all loans
 * beside its own, so that loans never stand in the way of apus_write().
 */
#include "dataplane/entity.h"
#include "wire/cdr.h"

uint32_t apus_dp_loan_slot(const struct apus_writer *w, const void *sample)
{
	const struct apus_dp_cache *c = &w->dp->cache;
	const struct apus_shm_pool *pool = &c->pool;
	uintptr_t at = (uintptr_t)sample - (uintptr_t)pool->segment.base - APUS_DP_SLOT_PAYLOAD -
		       APUS_WIRE_ENCAP_BYTES;
	uintptr_t slot = at / pool->slot_bytes;

	if (at % pool->slot_bytes || slot >= pool->slot_count || !c->entries[slot].loaned)
		return APUS_SHM_NO_SLOT;
	return (uint32_t)slot;
}

static int lend(struct apus_writer *w, void **sample_out)
{
	struct apus_dp_cache *c = &w->dp->cache;
	uint32_t slot;

	if (w->loan_count == w->loan_max)
		return APUS_ELIMIT;
	slot = apus_dp_cache_acquire(c);
	if (slot == APUS_SHM_NO_SLOT)
		return APUS_ELIMIT;
	w->loan_count++;
	c->entries[slot].loaned = true;
	*sample_out = apus_dp_cache_payload(c, slot) + APUS_WIRE_ENCAP_BYTES;
	return 0;
}

int apus_loan(struct apus_writer *writer, void **sample_out)
{
	int rc;

	if (!sample_out)
		return APUS_EINVAL;
	if (!apus_dp_alive(writer->fork_count))
		return APUS_ECLOSED;
	if (!apus_wire_says_plain(writer->type, writer->representation == APUS_XCDR2))
		return APUS_ENOTSUP;
	apus_dp_worker_take_turn(writer->worker);
	rc = lend(writer, sample_out);
	apus_dp_worker_end_turn(writer->worker);
	return rc;
}

int apus_discard_loan(struct apus_writer *writer, void *sample)
{
	struct apus_dp_cache *c = &writer->dp->cache;
	uint32_t slot;

	if (!sample)
		return APUS_EINVAL;
	if (!apus_dp_alive(writer->fork_count))
		return APUS_ECLOSED;
	apus_dp_worker_take_turn(writer->worker);
	slot = apus_dp_loan_slot(writer, sample);
	if (slot != APUS_SHM_NO_SLOT) {
		c->entries[slot].loaned = false;
		apus_dp_cache_abandon(c, slot);
		writer->loan_count--;
	}
	apus_dp_worker_end_turn(writer->worker);
	return slot == APUS_SHM_NO_SLOT ? APUS_EINVAL : 0;
}
