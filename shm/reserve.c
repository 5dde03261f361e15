/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reserved memory; see reserve.h. A shelf is a mapping of 64 pieces of one size. Shelves with room hang in a list by size;
 * an empty one is unmapped. A piece that was used before is cleared when it is taken again.
 */
#include "shm/reserve.h"

#include "base/fresh.h"

#include <apus/core.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PIECES     64
#define UNIT_BYTES ((size_t)128) /* what the most aligned struct needs */
/* Above this size a piece fills pages by itself. */
#define PIECE_BYTES_MAX ((size_t)16384)
#define SIZES           (PIECE_BYTES_MAX / UNIT_BYTES)
/* More is a mistake, and no allocator need be asked; sanitizers end the process that does. */
#define BYTES_MAX ((size_t)1 << 38)

struct apus_shm_shelf {
	char *base;
	size_t piece_bytes;
	uint64_t used;                      /* a bit for each piece */
	uint64_t ever;                      /* those that were used at some time */
	struct apus_shm_shelf *next, *prev; /* in the list of its size while it has room */
};

/* Under lock: endpoints come and go on any thread. No data path comes here. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct apus_shm_shelf *with_room[SIZES];

static struct apus_shm_shelf **list_of(const struct apus_shm_shelf *s)
{
	return &with_room[s->piece_bytes / UNIT_BYTES - 1];
}

static void link_shelf(struct apus_shm_shelf *s)
{
	s->prev = NULL;
	s->next = *list_of(s);
	if (s->next)
		s->next->prev = s;
	*list_of(s) = s;
}

static void unlink_shelf(struct apus_shm_shelf *s)
{
	*(s->prev ? &s->prev->next : list_of(s)) = s->next;
	if (s->next)
		s->next->prev = s->prev;
}

/* With room for one piece more; NULL without memory. Under lock. */
static struct apus_shm_shelf *shelf_of(size_t piece_bytes)
{
	struct apus_shm_shelf *s = with_room[piece_bytes / UNIT_BYTES - 1];

	if (s)
		return s;
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	s->piece_bytes = piece_bytes;
	s->base = mmap(NULL, piece_bytes * PIECES, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (s->base == MAP_FAILED) {
		free(s);
		return NULL;
	}
	/* One piece in use must not bring 2 MiB of its neighbours in. A kernel without huge pages refuses. */
	(void)madvise(s->base, piece_bytes * PIECES, MADV_NOHUGEPAGE);
	link_shelf(s);
	return s;
}

static int take_piece(size_t piece_bytes, struct apus_shm_reserve *out)
{
	struct apus_shm_shelf *s;
	bool is_zero = false;
	uint32_t piece = 0;

	pthread_mutex_lock(&lock);
	s = shelf_of(piece_bytes);
	if (s) {
		piece = (uint32_t)__builtin_ctzll(~s->used);
		is_zero = !(s->ever >> piece & 1);
		s->used |= UINT64_C(1) << piece;
		s->ever |= UINT64_C(1) << piece;
		if (s->used == UINT64_MAX)
			unlink_shelf(s);
	}
	pthread_mutex_unlock(&lock);
	if (!s)
		return APUS_ENOMEM;
	*out = (struct apus_shm_reserve){.base = s->base + piece * piece_bytes, .shelf = s};
	if (!is_zero)
		memset(out->base, 0, piece_bytes);
	return 0;
}

static int take_whole(size_t bytes, struct apus_shm_reserve *out)
{
	/* Under the address sanitizer it may be heap memory, which is aligned to 16. */
	char *whole = apus_fresh_alloc(1, bytes + UNIT_BYTES);

	if (!whole)
		return APUS_ENOMEM;
	out->whole = whole;
	out->whole_bytes = bytes + UNIT_BYTES;
	out->base = whole + (-(uintptr_t)whole & (UNIT_BYTES - 1));
	return 0;
}

int apus_shm_reserve(size_t bytes, unsigned flags, struct apus_shm_reserve *reserve_out)
{
	int rc;

	*reserve_out = (struct apus_shm_reserve){0};
	if (bytes == 0 || bytes > BYTES_MAX)
		return APUS_ENOMEM;
	rc = bytes <= PIECE_BYTES_MAX
		     ? take_piece((bytes + UNIT_BYTES - 1) / UNIT_BYTES * UNIT_BYTES, reserve_out)
		     : take_whole(bytes, reserve_out);
	if (rc == 0 && !(flags & APUS_SHM_LAZY))
		memset(reserve_out->base, 0, bytes);
	return rc;
}

void apus_shm_unreserve(struct apus_shm_reserve *reserve)
{
	struct apus_shm_shelf *s = reserve->shelf;
	size_t piece;

	if (!s) {
		apus_fresh_free(reserve->whole, 1, reserve->whole_bytes);
	} else {
		piece = (size_t)((char *)reserve->base - s->base) / s->piece_bytes;
		pthread_mutex_lock(&lock);
		if (s->used == UINT64_MAX)
			link_shelf(s);
		s->used &= ~(UINT64_C(1) << piece);
		if (s->used == 0) {
			unlink_shelf(s);
			munmap(s->base, s->piece_bytes * PIECES);
			free(s);
		}
		pthread_mutex_unlock(&lock);
	}
	*reserve = (struct apus_shm_reserve){0};
}
