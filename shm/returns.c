/* SPDX-License-Identifier: Apache-2.0 */
/* Slots that come back from readers; see returns.h. */
#include "shm/returns.h"

#include <apus/core.h>

#include <stdlib.h>
#include <string.h>

int apus_shm_held_init(struct apus_shm_held *held, uint32_t slot_count, apus_shm_word *returned)
{
	uint32_t words = APUS_SHM_RETURN_WORDS(slot_count);

	*held = (struct apus_shm_held){.returned = returned, .words = words};
	held->bits = calloc(words ? words : 1, sizeof(*held->bits));
	return held->bits ? 0 : APUS_ENOMEM;
}

void apus_shm_held_fini(struct apus_shm_held *held)
{
	free(held->bits);
	memset(held, 0, sizeof(*held));
}

static uint64_t bit_of(uint32_t slot_idx)
{
	return UINT64_C(1) << (slot_idx % 64);
}

void apus_shm_held_add(struct apus_shm_held *held, uint32_t slot_idx)
{
	held->bits[slot_idx / 64] |= bit_of(slot_idx);
	held->count++;
}

bool apus_shm_held_has(const struct apus_shm_held *held, uint32_t slot_idx)
{
	return slot_idx / 64 < held->words && (held->bits[slot_idx / 64] & bit_of(slot_idx));
}

bool apus_shm_held_remove(struct apus_shm_held *held, uint32_t slot_idx)
{
	if (!apus_shm_held_has(held, slot_idx))
		return false;
	held->bits[slot_idx / 64] &= ~bit_of(slot_idx);
	held->count--;
	return true;
}

/* All set bits of a word of slots, which the reader does not hold any more. */
static uint32_t give_back(struct apus_shm_held *held, uint32_t word, uint64_t slots,
			  apus_shm_held_fn back, void *user)
{
	uint32_t n = (uint32_t)__builtin_popcountll(slots);

	held->bits[word] &= ~slots;
	held->count -= n;
	for (; slots; slots &= slots - 1)
		back(user, word * 64 + (uint32_t)__builtin_ctzll(slots));
	return n;
}

uint32_t apus_shm_held_collect(struct apus_shm_held *held, uint32_t words_max,
			       apus_shm_held_fn back, void *user, uint64_t *false_out)
{
	uint32_t n = 0;

	if (!held->returned)
		return 0;
	if (words_max > held->words)
		words_max = held->words;
	for (uint32_t i = 0; i < words_max && held->count; i++) {
		uint32_t word = held->next;
		uint64_t slots;

		held->next = word + 1 < held->words ? word + 1 : 0;
		/* Relaxed: an empty word is the usual case, and an exchange would take its line from the reader. */
		if (apus_shm_load(&held->returned[word], relaxed) == 0)
			continue;
		/* Acquire: R, pairs with the release in apus_shm_return(): the payload may be written again. */
		slots = apus_shm_exchange(&held->returned[word], 0, acquire);
		if (false_out)
			*false_out += (uint32_t)__builtin_popcountll(slots & ~held->bits[word]);
		n += give_back(held, word, slots & held->bits[word], back, user);
	}
	return n;
}

uint32_t apus_shm_held_drop(struct apus_shm_held *held, apus_shm_held_fn back, void *user)
{
	uint32_t n = 0;

	for (uint32_t word = 0; word < held->words; word++)
		n += give_back(held, word, held->bits[word], back, user);
	held->returned = NULL;
	return n;
}
