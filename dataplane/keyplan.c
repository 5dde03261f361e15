/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared plans of keys; see keyplan.h. Two plans of the same bytes are one: the bytes name the type by its address, and a
 * type outlives the plans made of it, so an address that is used again never meets an old plan.
 */
#include "dataplane/keyplan.h"

#include <apus/core.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define BUCKETS 256

struct shared {
	struct shared *next;
	uint64_t hash;
	uint32_t users;
	uint32_t bytes;
	/* Cut to what the type uses: it has a few keys, a plan has room for 128. */
	_Alignas(struct apus_wire_keyplan) uint8_t plan[];
};

/* Under lock: endpoints come and go on any thread. No data path comes here. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct shared *plans[BUCKETS];

static struct shared *find(const struct apus_wire_keyplan *plan, size_t bytes, uint64_t hash)
{
	struct shared *s = plans[hash % BUCKETS];

	while (s && (s->hash != hash || s->bytes != bytes || memcmp(s->plan, plan, bytes) != 0))
		s = s->next;
	return s;
}

static struct shared *add(const struct apus_wire_keyplan *plan, size_t bytes, uint64_t hash)
{
	struct shared *s = malloc(sizeof(*s) + bytes);

	if (!s)
		return NULL;
	s->hash = hash;
	s->users = 0;
	s->bytes = (uint32_t)bytes;
	memcpy(s->plan, plan, bytes);
	s->next = plans[hash % BUCKETS];
	plans[hash % BUCKETS] = s;
	return s;
}

int apus_dp_keyplan_acquire(const struct apus_type *type, size_t limit_bytes,
			    const struct apus_wire_keyplan **plan_out)
{
	struct apus_wire_keyplan plan;
	struct shared *s;
	uint64_t hash;
	size_t bytes;
	int rc = apus_wire_keyplan_init(&plan, type, (uint32_t)limit_bytes);

	if (rc != 0)
		return rc;
	bytes = apus_wire_keyplan_bytes(&plan);
	hash = XXH3_64bits(&plan, bytes);
	pthread_mutex_lock(&lock);
	s = find(&plan, bytes, hash);
	if (!s)
		s = add(&plan, bytes, hash);
	if (s) {
		s->users++;
		*plan_out = (const void *)s->plan;
	}
	pthread_mutex_unlock(&lock);
	return s ? 0 : APUS_ENOMEM;
}

void apus_dp_keyplan_release(const struct apus_wire_keyplan *plan)
{
	struct shared *s, **link;

	if (!plan)
		return;
	s = (struct shared *)((uintptr_t)plan - offsetof(struct shared, plan));
	pthread_mutex_lock(&lock);
	if (--s->users == 0) {
		for (link = &plans[s->hash % BUCKETS]; *link != s;)
			link = &(*link)->next;
		*link = s->next;
		free(s);
	}
	pthread_mutex_unlock(&lock);
}
