/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for slots; see segment.h. */
#include "shm/segment.h"

#include <apus/core.h>

#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define HUGE_BYTES ((size_t)2 << 20)
#define PAGE_BYTES ((size_t)4096)

/* Sizes of pieces are multiples of this, up to a largest one; a chunk has one size of them. */
#define PIECE_BYTES  ((size_t)512)
#define PIECE_SIZES  16
#define CHUNK_PIECES 64

/* A region of pieces that different pools have. */
struct apus_shm_chunk {
	struct apus_shm_segment region;
	uint32_t size_idx;
	uint64_t used;                      /* a bit for each piece */
	uint64_t ever;                      /* those that were used at some time */
	struct apus_shm_chunk *next, *prev; /* in the list of its size while it has room */
};

/* Under lock: endpoints come and go on any thread. No data path comes here. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct apus_shm_chunk *with_room[PIECE_SIZES];

static size_t round_up(size_t bytes, size_t unit)
{
	return (bytes + unit - 1) / unit * unit;
}

/* One attempt with one page size. The size is fixed by seals, so that a peer that will map the region
 * can never be made to fault by a truncation. */
static int map_region(size_t bytes, bool huge, struct apus_shm_segment *out)
{
	int fd = memfd_create("apus", MFD_CLOEXEC | MFD_ALLOW_SEALING | (huge ? MFD_HUGETLB : 0));
	void *base;

	if (fd < 0)
		return APUS_ENOMEM;
	if (ftruncate(fd, (off_t)bytes) != 0)
		goto close_fd;
	base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (base == MAP_FAILED)
		goto close_fd;
	(void)fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
	*out = (struct apus_shm_segment){.base = base, .bytes = bytes, .fd = fd, .huge = huge};
	return 0;

close_fd:
	close(fd);
	return APUS_ENOMEM;
}

static void touch(const struct apus_shm_segment *segment)
{
	size_t step = segment->huge ? HUGE_BYTES : PAGE_BYTES;
	volatile char *p = segment->base;

	for (size_t at = 0; at < segment->bytes; at += step)
		p[at] = 0;
}

static void link_chunk(struct apus_shm_chunk *c)
{
	c->prev = NULL;
	c->next = with_room[c->size_idx];
	if (c->next)
		c->next->prev = c;
	with_room[c->size_idx] = c;
}

static void unlink_chunk(struct apus_shm_chunk *c)
{
	*(c->prev ? &c->prev->next : &with_room[c->size_idx]) = c->next;
	if (c->next)
		c->next->prev = c->prev;
}

/* A chunk with room for one piece more; NULL without memory. Under lock. */
static struct apus_shm_chunk *chunk_of(uint32_t size_idx)
{
	struct apus_shm_chunk *c = with_room[size_idx];

	if (c)
		return c;
	c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	c->size_idx = size_idx;
	/* Pages that no piece has needed yet cost nothing. */
	if (map_region((size_idx + 1) * PIECE_BYTES * CHUNK_PIECES, false, &c->region) != 0) {
		free(c);
		return NULL;
	}
	link_chunk(c);
	return c;
}

static int take_piece(size_t bytes, unsigned flags, struct apus_shm_segment *out)
{
	size_t piece_bytes = round_up(bytes, PIECE_BYTES);
	struct apus_shm_chunk *c;
	bool is_zero = false;
	uint32_t piece;

	pthread_mutex_lock(&lock);
	c = chunk_of((uint32_t)(piece_bytes / PIECE_BYTES - 1));
	if (c) {
		piece = (uint32_t)__builtin_ctzll(~c->used);
		is_zero = !(c->ever >> piece & 1);
		c->used |= UINT64_C(1) << piece;
		c->ever |= UINT64_C(1) << piece;
		if (c->used == UINT64_MAX)
			unlink_chunk(c);
		*out = (struct apus_shm_segment){.base = (char *)c->region.base +
							 piece * piece_bytes,
						 .bytes = piece_bytes,
						 .fd = -1,
						 .chunk = c};
	}
	pthread_mutex_unlock(&lock);
	if (!c)
		return APUS_ENOMEM;
	/* Somebody may have had it before; and this is the first touch. */
	if (!is_zero || !(flags & APUS_SHM_LAZY))
		memset(out->base, 0, piece_bytes);
	return 0;
}

static void return_piece(struct apus_shm_segment *s)
{
	struct apus_shm_chunk *c = s->chunk;
	size_t piece = (size_t)((char *)s->base - (char *)c->region.base) / s->bytes;

	pthread_mutex_lock(&lock);
	if (c->used == UINT64_MAX)
		link_chunk(c);
	c->used &= ~(UINT64_C(1) << piece);
	if (c->used == 0) {
		unlink_chunk(c);
		munmap(c->region.base, c->region.bytes);
		close(c->region.fd);
		free(c);
	}
	pthread_mutex_unlock(&lock);
}

int apus_shm_segment_create(size_t bytes, unsigned flags, struct apus_shm_segment *segment_out)
{
	int rc = APUS_ENOMEM;

	if (bytes == 0 || bytes > SIZE_MAX - HUGE_BYTES)
		return APUS_EINVAL;
	if (!(flags & APUS_SHM_OWN) && bytes <= PIECE_SIZES * PIECE_BYTES)
		return take_piece(bytes, flags, segment_out);
	if ((flags & APUS_SHM_HUGE) && bytes >= HUGE_BYTES / 2)
		rc = map_region(round_up(bytes, HUGE_BYTES), true, segment_out);
	if (rc != 0)
		rc = map_region(round_up(bytes, PAGE_BYTES), false, segment_out);
	if (rc == 0 && (flags & APUS_SHM_TOUCH))
		touch(segment_out);
	return rc;
}

void apus_shm_segment_destroy(struct apus_shm_segment *segment)
{
	if (segment->chunk) {
		return_piece(segment);
	} else if (segment->base) {
		munmap(segment->base, segment->bytes);
		close(segment->fd);
	}
	memset(segment, 0, sizeof(*segment));
}
