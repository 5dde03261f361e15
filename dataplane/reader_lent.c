/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples that stay in the slot their writer, in another process, has filled; see shm_match.h.
 *
 * The history refers to such a sample by a place in `lents`; letting go of it gives the slot back. Each stands for
 * one payload that would otherwise take a slot of the reader's own pool, which has room for all: so there is one
 * to copy to when the match ends. Then the writer, or what its process has left, is let go of, but for samples the
 * application is looking at: as long as there are any, the memory stays mapped.
 *
 * Invariants: shm->lent counts the places that refer to it; a place that the application looks at does not move.
 * All under the turn of the reader's worker.
 */
#include "base/fresh.h"
#include "dataplane/reader_internal.h"
#include "dataplane/shm_match.h"
#include "wire/cdr.h"

#include <apus/core.h>

#define NONE APUS_SHM_NO_SLOT

/* Copying less costs less than what the writer waits longer for its slot. */
#define BYTES_MIN 512

int apus_dp_lent_init(struct apus_dp_reader *r)
{
	if (r->config.lent_max == 0)
		return 0;
	r->lents = apus_fresh_alloc(r->config.lent_max, sizeof(*r->lents));
	return r->lents ? 0 : APUS_ENOMEM;
}

bool apus_dp_lent_fits(const struct apus_dp_reader_state *s, const uint8_t *payload,
		       uint32_t payload_bytes)
{
	const struct apus_dp_reader *r = s->reader;
	struct apus_wire_cdr cdr;

	/* Relaxed: this side's own, under the turn. */
	if (payload_bytes < BYTES_MIN || r->lent_free == r->config.lent_max ||
	    atomic_load_explicit(&s->shm->lent, memory_order_relaxed) >= s->shm->lend_max)
		return false;
	return r->config.lend_any || (apus_wire_cdr_open(&cdr, payload, payload_bytes) == 0 &&
				      apus_wire_is_image(&cdr, r->config.type));
}

uint32_t apus_dp_lent_hold(struct apus_dp_reader *r, const uint8_t *payload, uint32_t payload_bytes)
{
	uint32_t idx = r->lent_free;
	struct apus_dp_lent *l = &r->lents[idx];

	r->lent_free = l->next ^ (idx + 1);
	*l = (struct apus_dp_lent){.payload = payload,
				   .shm = r->lending.shm,
				   .slot = r->lending.slot,
				   .payload_bytes = payload_bytes};
	/* Relaxed: control asks only when the match has ended, see detach(). */
	atomic_fetch_add_explicit(&l->shm->lent, 1, memory_order_relaxed);
	r->lending.taken = true;
	apus_counter_add(&r->counters.lent, 1);
	return APUS_DP_LENT_REF + idx;
}

/* The writer has its slot again. */
static void give_back(struct apus_dp_lent *l)
{
	struct apus_dp_shm_in *shm = l->shm;

	apus_shm_return(shm->page->returned, l->slot);
	l->shm = NULL;
	/* Release: pairs with the acquire of control, which unmaps when it reads 0. The last access was before. */
	atomic_fetch_sub_explicit(&shm->lent, 1, memory_order_release);
}

void apus_dp_lent_release(struct apus_dp_reader *r, uint32_t slot_ref)
{
	uint32_t idx = slot_ref - APUS_DP_LENT_REF;
	struct apus_dp_lent *l = &r->lents[idx];

	if (l->shm)
		give_back(l);
	else
		apus_shm_pool_release(&r->pool, l->slot);
	l->payload = NULL;
	l->next = r->lent_free ^ (idx + 1);
	r->lent_free = idx;
}

/* The sample moves into our own pool, if there is room, which there is. */
static void detach(struct apus_dp_reader *r, struct apus_dp_lent *l)
{
	uint32_t own = apus_dp_reader_store(r, l->payload, l->payload_bytes);

	if (own == NONE)
		return;
	give_back(l);
	l->slot = own;
	l->payload = apus_dp_reader_slot(r, own);
}

void apus_dp_lent_show(struct apus_dp_reader *r, uint32_t slot_ref)
{
	if (apus_dp_ref_is_lent(slot_ref))
		r->lents[slot_ref - APUS_DP_LENT_REF].shown++;
}

void apus_dp_lent_unshow(struct apus_dp_reader *r, uint32_t slot_ref)
{
	struct apus_dp_lent *l;

	if (!apus_dp_ref_is_lent(slot_ref))
		return;
	l = &r->lents[slot_ref - APUS_DP_LENT_REF];
	if (--l->shown == 0 && l->shm && l->shm->ended)
		detach(r, l);
}

void apus_dp_lent_end(struct apus_dp_reader *r, struct apus_dp_shm_in *shm)
{
	shm->ended = true;
	for (uint32_t i = 0; i < r->config.lent_max; i++) {
		struct apus_dp_lent *l = &r->lents[i];

		if (l->payload && l->shm == shm && l->shown == 0)
			detach(r, l);
	}
}
