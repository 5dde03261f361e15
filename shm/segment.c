/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for slots; see segment.h. */
#include "shm/segment.h"

#include <apus/core.h>

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define HUGE_BYTES ((size_t)2 << 20)
#define PAGE_BYTES ((size_t)4096)

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

int apus_shm_segment_create(size_t bytes, unsigned flags, struct apus_shm_segment *segment_out)
{
	int rc = APUS_ENOMEM;

	if (bytes == 0 || bytes > SIZE_MAX - HUGE_BYTES)
		return APUS_EINVAL;
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
	if (segment->base) {
		munmap(segment->base, segment->bytes);
		close(segment->fd);
	}
	memset(segment, 0, sizeof(*segment));
}
