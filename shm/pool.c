/* SPDX-License-Identifier: Apache-2.0 */
/* Slot pools; see pool.h. */
#include "shm/pool.h"

#include <apus/core.h>

#include <stdlib.h>
#include <string.h>

#define SLOT_ALIGN 64u

int apus_shm_pool_init(struct apus_shm_pool *pool, uint32_t slot_bytes, uint32_t slot_count,
		       unsigned segment_flags)
{
	size_t at = 0;
	int rc;

	if (slot_bytes == 0 || slot_bytes > UINT32_MAX - SLOT_ALIGN || slot_count == 0 ||
	    slot_count >= APUS_SHM_NO_SLOT)
		return APUS_EINVAL;
	memset(pool, 0, sizeof(*pool));
	pool->slot_bytes = (slot_bytes + SLOT_ALIGN - 1) / SLOT_ALIGN * SLOT_ALIGN;
	pool->slot_count = slot_count;
	rc = apus_shm_reserve(2 * (slot_count * sizeof(uint32_t) + 16), segment_flags,
			      &pool->reserve);
	if (rc != 0)
		goto fini;
	pool->free_slots = apus_shm_reserve_part(pool->reserve.base, &at, slot_count,
						 sizeof(*pool->free_slots));
	pool->holds =
		apus_shm_reserve_part(pool->reserve.base, &at, slot_count, sizeof(*pool->holds));
	rc = apus_shm_segment_create((size_t)pool->slot_bytes * slot_count, segment_flags,
				     &pool->segment);
	if (rc != 0)
		goto fini;
	pool->free_count = slot_count;
	return 0;

fini:
	apus_shm_pool_fini(pool);
	return rc;
}

void apus_shm_pool_fini(struct apus_shm_pool *pool)
{
	apus_shm_segment_destroy(&pool->segment);
	apus_shm_unreserve(&pool->reserve);
	memset(pool, 0, sizeof(*pool));
}
