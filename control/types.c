/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store of TypeObjects; see the header.
 *
 * Entries stand in one array and are found by a chained hash table; an entry is free, wanted, given up, or
 * holds an object. Walks over what a type refers to mark entries with the number of the walk and keep the
 * ones still to be looked at in a stack of as many places, so that neither depth nor cycles matter.
 */
#include "control/types.h"

#include "base/fresh.h"

#include <apus/core.h>
#include <stdlib.h>

#define NONE UINT32_MAX
/* A request is repeated after this time, doubled each time, so often. */
#define ASK_AGAIN_NS (200 * APUS_NS_PER_MS)
#define ASK_TIMES    5
/* What was given up may be wanted again after this time. */
#define FORGIVE_NS (5 * APUS_NS_PER_SEC)

enum state { FREE, WANTED, GIVEN_UP, LOCAL, LEARNT };

struct entry {
	struct apus_wire_type_hash hash;
	struct apus_wire_type_hash minimal; /* of complete local ones */
	enum state state;
	uint32_t next; /* hash chain, or free list */
	uint64_t walk; /* number of the last walk that met it */
	uint64_t kept; /* number of the last clearing that kept it */

	/* WANTED, GIVEN_UP. */
	struct apus_prefix from;
	struct apus_mono due; /* when to ask, or when it may be wanted again */
	uint32_t asked;

	/* LOCAL, LEARNT. */
	struct apus_wire_type_object object;
	uint8_t *memory; /* what `object` points to; then, of learnt ones, the bytes */
	uint64_t memory_bytes;
	const uint8_t *bytes;
	uint32_t byte_count;
};

struct apus_ctl_types {
	struct apus_ctl_types_config config;
	struct apus_ctl_types_counters counters;
	struct entry *entries;
	uint32_t *buckets;
	uint32_t mask;
	uint32_t
		free; /* given back; NONE: those from `unused` on are, and have never been touched */
	uint32_t unused;
	uint32_t *stack; /* of a walk */
	uint32_t stack_count;
	uint64_t walk, clearing, version, bytes;
	uint32_t wanted_count;
	bool full;
	bool news;
};

/* ---- entries ------------------------------------------------------------------------------------ */

static uint32_t *bucket_of(const struct apus_ctl_types *t, const struct apus_wire_type_hash *hash)
{
	uint64_t key;

	memcpy(&key, hash->bytes, sizeof(key));
	key = (key ^ hash->kind ^ t->config.seed) * UINT64_C(0x9e3779b97f4a7c15);
	return &t->buckets[(key >> 32) & t->mask];
}

static struct entry *find(const struct apus_ctl_types *t, const struct apus_wire_type_hash *hash)
{
	uint32_t idx = *bucket_of(t, hash);

	while (idx != NONE && !apus_wire_type_hash_equal(&t->entries[idx].hash, hash))
		idx = t->entries[idx].next;
	return idx == NONE ? NULL : &t->entries[idx];
}

static bool is_known(const struct entry *e)
{
	return e && e->state >= LOCAL;
}

static struct entry *make(struct apus_ctl_types *t, const struct apus_wire_type_hash *hash)
{
	uint32_t idx = t->free, *bucket = bucket_of(t, hash);
	struct entry *e;

	if (idx == NONE && t->unused == t->config.entries) {
		t->full = true;
		apus_counter_add(&t->counters.refused, 1);
		return NULL;
	}
	if (idx == NONE)
		idx = t->unused++;
	else
		t->free = t->entries[idx].next;
	e = &t->entries[idx];
	memset(e, 0, sizeof(*e));
	e->hash = *hash;
	e->next = *bucket;
	*bucket = idx;
	return e;
}

static void set_state(struct apus_ctl_types *t, struct entry *e, enum state state)
{
	t->wanted_count -= e->state == WANTED;
	t->wanted_count += state == WANTED;
	e->state = state;
}

static void drop(struct apus_ctl_types *t, struct entry *e)
{
	uint32_t idx = (uint32_t)(e - t->entries), *link = bucket_of(t, &e->hash);

	while (*link != idx)
		link = &t->entries[*link].next;
	*link = e->next;
	t->bytes -= e->memory_bytes;
	free(e->memory);
	set_state(t, e, FREE);
	memset(e, 0, sizeof(*e));
	e->next = t->free;
	t->free = idx;
}

/* ---- life --------------------------------------------------------------------------------------- */

int apus_ctl_types_create(const struct apus_ctl_types_config *config,
			  struct apus_ctl_types **types_out)
{
	struct apus_ctl_types *t = calloc(1, sizeof(*t));
	uint32_t buckets = 16;

	if (!t)
		return APUS_ENOMEM;
	t->config = *config;
	while (buckets < config->entries)
		buckets *= 2;
	t->mask = buckets - 1;
	t->entries = apus_fresh_alloc(config->entries, sizeof(*t->entries));
	t->stack = apus_fresh_alloc(config->entries, sizeof(*t->stack));
	t->buckets = calloc(buckets, sizeof(*t->buckets));
	if (!t->entries || !t->stack || !t->buckets) {
		apus_ctl_types_destroy(t);
		return APUS_ENOMEM;
	}
	memset(t->buckets, 0xff, buckets * sizeof(*t->buckets));
	t->free = NONE;
	*types_out = t;
	return 0;
}

void apus_ctl_types_destroy(struct apus_ctl_types *t)
{
	if (!t)
		return;
	for (uint32_t i = 0; t->entries && i < t->unused; i++)
		free(t->entries[i].memory);
	apus_fresh_free(t->entries, t->config.entries, sizeof(*t->entries));
	apus_fresh_free(t->stack, t->config.entries, sizeof(*t->stack));
	free(t->buckets);
	free(t);
}

/* ---- storing objects ---------------------------------------------------------------------------- */

/* Parses into memory of exactly the size needed. copy: the bytes too, for they will go away. Returns 0,
 * APUS_EINVAL, APUS_ELIMIT or APUS_ENOMEM; then `e` is as it was. */
static int store(struct apus_ctl_types *t, struct entry *e, const uint8_t *object,
		 size_t object_bytes, bool copy)
{
	struct apus_wire_type_object parsed;
	struct apus_wire_type_arena arena = {.bytes = apus_wire_type_object_arena(object_bytes)};
	size_t parsed_bytes;
	uint8_t *memory;

	arena.base = malloc(arena.bytes);
	if (!arena.base)
		return APUS_ENOMEM;
	if (apus_wire_type_object_parse(object, object_bytes, &arena, &parsed) !=
		    APUS_WIRE_ACCEPT ||
	    parsed.equivalence != e->hash.kind) {
		free(arena.base);
		return APUS_EINVAL;
	}
	free(arena.base);
	parsed_bytes = (arena.used + 15) & ~(size_t)15;
	arena.bytes = parsed_bytes + (copy ? object_bytes : 0);
	if (copy && t->bytes + arena.bytes > t->config.bytes) {
		t->full = true;
		return APUS_ELIMIT;
	}
	memory = malloc(arena.bytes ? arena.bytes : 1);
	if (!memory)
		return APUS_ENOMEM;
	e->bytes = object;
	if (copy)
		e->bytes = memcpy(memory + parsed_bytes, object, object_bytes);
	e->byte_count = (uint32_t)object_bytes;
	e->memory = memory;
	e->memory_bytes = copy ? arena.bytes : 0;
	t->bytes += e->memory_bytes;
	arena = (struct apus_wire_type_arena){memory, parsed_bytes, 0};
	/* The same bytes as before: it succeeds, and uses the same memory. */
	apus_wire_type_object_parse(e->bytes, object_bytes, &arena, &e->object);
	t->news |= e->state == WANTED || e->state == GIVEN_UP;
	set_state(t, e, copy ? LEARNT : LOCAL);
	t->version++;
	return 0;
}

static int add_pairs(struct apus_ctl_types *t, struct apus_wire_value *mapping)
{
	struct apus_wire_type_pairs pairs;
	struct apus_wire_type_hash hash;
	const uint8_t *object;
	size_t bytes;
	int rc = 0;

	if (!apus_wire_type_pairs_open(mapping, &pairs))
		return APUS_EINVAL;
	while (rc == 0 && apus_wire_type_pairs_next(&pairs, &hash, &object, &bytes)) {
		struct entry *e = find(t, &hash);

		if (hash.kind == APUS_WIRE_EK_NONE || is_known(e))
			continue;
		if (!e)
			e = make(t, &hash);
		if (!e)
			return APUS_ELIMIT;
		rc = store(t, e, object, bytes, false);
		if (rc != 0 && e->state == FREE)
			drop(t, e);
	}
	return rc ? rc : apus_wire_value_bad(&pairs.value) ? APUS_EINVAL : 0;
}

/* The third part of a TypeMapping: complete and minimal hashes of the same types. */
static int add_links(struct apus_ctl_types *t, struct apus_wire_value *mapping)
{
	struct apus_wire_value sequence;
	uint32_t count;

	if (!apus_wire_value_enter(mapping, &sequence))
		return APUS_EINVAL;
	count = apus_wire_value_u32(&sequence);
	for (uint32_t i = 0; i < count && !apus_wire_value_bad(&sequence); i++) {
		struct apus_wire_type_hash hash[2];
		struct entry *e;

		for (int k = 0; k < 2; k++) {
			const uint8_t *bytes;

			hash[k].kind = apus_wire_value_u8(&sequence);
			bytes = apus_wire_value_bytes(&sequence, sizeof(hash[k].bytes));
			if (!bytes)
				return APUS_EINVAL;
			memcpy(hash[k].bytes, bytes, sizeof(hash[k].bytes));
		}
		e = find(t, &hash[0]);
		if (e && hash[1].kind == APUS_WIRE_EK_MINIMAL)
			e->minimal = hash[1];
	}
	return apus_wire_value_bad(&sequence) ? APUS_EINVAL : 0;
}

int apus_ctl_types_add_local(struct apus_ctl_types *t, const struct apus_type *type)
{
	struct apus_wire_value mapping;
	int rc;

	if (type->type_mapping_bytes == 0)
		return 0;
	mapping = apus_wire_value_make(type->type_mapping, type->type_mapping_bytes, true);
	rc = add_pairs(t, &mapping);
	if (rc == 0)
		rc = add_pairs(t, &mapping);
	if (rc == 0)
		rc = add_links(t, &mapping);
	return rc;
}

/* ---- looking up --------------------------------------------------------------------------------- */

const struct apus_wire_type_object *apus_ctl_types_get(const struct apus_ctl_types *t,
						       const struct apus_wire_type_hash *hash)
{
	const struct entry *e = find(t, hash);

	return is_known(e) ? &e->object : NULL;
}

bool apus_ctl_types_bytes(const struct apus_ctl_types *t, const struct apus_wire_type_hash *hash,
			  const uint8_t **object_out, uint32_t *object_bytes_out)
{
	const struct entry *e = find(t, hash);

	if (!is_known(e))
		return false;
	*object_out = e->bytes;
	*object_bytes_out = e->byte_count;
	return true;
}

struct apus_wire_type_hash apus_ctl_types_minimal_of(const struct apus_ctl_types *t,
						     const struct apus_wire_type_hash *complete)
{
	const struct entry *e = find(t, complete);

	return e ? e->minimal : (struct apus_wire_type_hash){0};
}

uint64_t apus_ctl_types_version(const struct apus_ctl_types *t)
{
	return t->version;
}

bool apus_ctl_types_news(struct apus_ctl_types *t)
{
	bool news = t->news;

	t->news = false;
	return news;
}

const struct apus_ctl_types_counters *apus_ctl_types_counters(const struct apus_ctl_types *t)
{
	return &t->counters;
}

/* ---- walks -------------------------------------------------------------------------------------- */

typedef bool ref_fn(void *user, const struct apus_wire_type_hash *hash);

/* Each hash an identifier is made of. Nesting is bounded by the parser. */
static bool visit_ref(const struct apus_wire_type_ref *ref, ref_fn *visit, void *user)
{
	for (; ref; ref = ref->element) {
		if (ref->hash.kind != APUS_WIRE_EK_NONE && !visit(user, &ref->hash))
			return false;
		if (ref->key && !visit_ref(ref->key, visit, user))
			return false;
	}
	return true;
}

static bool visit_object(const struct apus_wire_type_object *o, ref_fn *visit, void *user)
{
	if (!visit_ref(o->inner, visit, user) || !visit_ref(o->key, visit, user))
		return false;
	for (uint32_t i = 0; i < o->member_count; i++)
		if (!visit_ref(o->members[i].type, visit, user))
			return false;
	return true;
}

struct walk {
	struct apus_ctl_types *types;
	const struct apus_prefix *from;
	struct apus_mono now;
	bool wanted, missing;
	ref_fn *visit;
	void *user;
};

static void want(struct apus_ctl_types *t, struct entry *e, const struct apus_prefix *from,
		 struct apus_mono now)
{
	set_state(t, e, WANTED);
	e->from = *from;
	e->due = now;
	e->asked = 0;
}

/* An object that is not there: is it on its way? */
static void note_missing(struct walk *w, struct entry *e, const struct apus_wire_type_hash *hash)
{
	if (!e && w->from)
		e = make(w->types, hash);
	if (!e) {
		w->missing = true;
		return;
	}
	e->walk = w->types->walk;
	if (w->from &&
	    (e->state == FREE || (e->state == GIVEN_UP && !apus_mono_before(w->now, e->due))))
		want(w->types, e, w->from, w->now);
	if (e->state == WANTED)
		w->wanted = true;
	else
		w->missing = true;
}

static bool meet(void *user, const struct apus_wire_type_hash *hash)
{
	struct walk *w = user;
	struct apus_ctl_types *t = w->types;
	struct entry *e = find(t, hash);

	if (e && e->walk == t->walk)
		return true;
	if (!is_known(e)) {
		note_missing(w, e, hash);
	} else {
		e->walk = t->walk;
		t->stack[t->stack_count++] = (uint32_t)(e - t->entries);
	}
	return !w->visit || w->visit(w->user, hash);
}

static void begin_walk(struct apus_ctl_types *t)
{
	t->walk++;
	t->stack_count = 0;
}

/* Goes on from what has been met. Each entry enters the stack once, so that it cannot overflow. */
static void go_on(struct walk *w)
{
	struct apus_ctl_types *t = w->types;

	while (t->stack_count > 0)
		if (!visit_object(&t->entries[t->stack[--t->stack_count]].object, meet, w))
			return;
}

static void walk(struct walk *w, const struct apus_wire_type_hash *hash)
{
	begin_walk(w->types);
	if (meet(w, hash))
		go_on(w);
}

enum apus_ctl_closure apus_ctl_types_closure(struct apus_ctl_types *t,
					     const struct apus_wire_type_hash *hash,
					     const struct apus_prefix *from, struct apus_mono now)
{
	struct walk w = {.types = t, .from = from, .now = now};

	walk(&w, hash);
	return w.missing  ? APUS_CTL_CLOSURE_MISSING
	       : w.wanted ? APUS_CTL_CLOSURE_WANTED
			  : APUS_CTL_CLOSURE_COMPLETE;
}

void apus_ctl_types_dependencies(struct apus_ctl_types *t, const struct apus_wire_type_hash *hashes,
				 uint32_t count,
				 bool (*visit)(void *user, const struct apus_wire_type_hash *hash),
				 void *user)
{
	struct walk w = {.types = t};

	begin_walk(t);
	for (uint32_t i = 0; i < count; i++)
		meet(&w, &hashes[i]); /* met, but not visited */
	w.visit = visit;
	w.user = user;
	go_on(&w);
}

/* ---- asking ------------------------------------------------------------------------------------- */

static struct apus_mono earlier(struct apus_mono a, struct apus_mono b)
{
	return apus_mono_before(a, b) ? a : b;
}

/* Counts an attempt, or gives up. True if it is to be asked now. */
static bool attempt(struct apus_ctl_types *t, struct entry *e, struct apus_mono now)
{
	if (e->asked == ASK_TIMES) {
		set_state(t, e, GIVEN_UP);
		e->due = apus_mono_add(now, FORGIVE_NS);
		apus_counter_add(&t->counters.given_up, 1);
		return false;
	}
	e->due = apus_mono_add(now, ASK_AGAIN_NS << e->asked);
	e->asked++;
	return true;
}

uint32_t apus_ctl_types_next_request(struct apus_ctl_types *t, struct apus_mono now,
				     struct apus_prefix *from_out,
				     struct apus_wire_type_hash *hashes_out, uint32_t max,
				     struct apus_mono *due_out)
{
	uint32_t count = 0;

	*due_out = (struct apus_mono){INT64_MAX};
	if (t->wanted_count == 0)
		return 0;
	for (uint32_t i = 0; i < t->unused && count < max; i++) {
		struct entry *e = &t->entries[i];

		if (e->state != WANTED)
			continue;
		if (apus_mono_before(now, e->due)) {
			*due_out = earlier(*due_out, e->due);
			continue;
		}
		if (count > 0 && !apus_prefix_equal(from_out, &e->from))
			continue;
		if (!attempt(t, e, now))
			continue;
		*from_out = e->from;
		hashes_out[count++] = e->hash;
	}
	return count;
}

static int refuse(struct apus_counter *reason)
{
	apus_counter_add(reason, 1);
	return 0;
}

static int learn(struct apus_ctl_types *t, struct entry *e, const uint8_t *object,
		 size_t object_bytes, struct apus_mono now)
{
	int rc = store(t, e, object, object_bytes, true);

	if (rc == 0)
		return 1;
	set_state(t, e, GIVEN_UP);
	if (rc == APUS_EINVAL) {
		/* Another answer would be the same. */
		e->due = (struct apus_mono){INT64_MAX};
		apus_counter_add(&t->counters.unusable, 1);
	} else {
		/* There is no room now: others' types may have taken it, and go. */
		e->due = apus_mono_add(now, FORGIVE_NS);
		apus_counter_add(&t->counters.refused, 1);
	}
	return 0;
}

int apus_ctl_types_learn(struct apus_ctl_types *t, const struct apus_wire_type_hash *hash,
			 const uint8_t *object, size_t object_bytes, const struct apus_prefix *from,
			 struct apus_mono now)
{
	struct apus_wire_type_hash actual;
	struct entry *e = find(t, hash);

	if (!e || e->state != WANTED)
		return refuse(&t->counters.unwanted);
	apus_wire_type_hash_of(hash->kind, object, object_bytes, &actual);
	if (!apus_wire_type_hash_equal(&actual, hash) || object_bytes > UINT32_MAX)
		return refuse(&t->counters.forged);
	if (!learn(t, e, object, object_bytes, now))
		return 0;
	apus_counter_add(&t->counters.learnt, 1);
	apus_ctl_types_closure(t, hash, from, now);
	return 1;
}

/* ---- clearing out ------------------------------------------------------------------------------- */

bool apus_ctl_types_full(const struct apus_ctl_types *t)
{
	return t->full;
}

void apus_ctl_types_keep_begin(struct apus_ctl_types *t)
{
	t->clearing++;
}

static bool keep_one(void *user, const struct apus_wire_type_hash *hash)
{
	struct apus_ctl_types *t = user;
	struct entry *e = find(t, hash);

	if (e)
		e->kept = t->clearing;
	return true;
}

void apus_ctl_types_keep(struct apus_ctl_types *t, const struct apus_wire_type_hash *hash)
{
	struct walk w = {.types = t, .visit = keep_one, .user = t};

	if (hash->kind != APUS_WIRE_EK_NONE)
		walk(&w, hash);
}

void apus_ctl_types_keep_end(struct apus_ctl_types *t)
{
	for (uint32_t i = 0; i < t->unused; i++) {
		struct entry *e = &t->entries[i];

		if (e->state == FREE || e->state == LOCAL || e->kept == t->clearing)
			continue;
		drop(t, e);
		t->version++;
	}
	t->full = false;
}
