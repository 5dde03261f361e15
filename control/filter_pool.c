/* SPDX-License-Identifier: Apache-2.0 */
/* The pool of compiled filters; see the header. */
#include "control/filter_pool.h"

#include <apus/filter_class.h>

#include "control/filter_index.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

int apus_ctl_filter_pool_init(struct apus_ctl_filter_pool *pool, uint32_t capacity,
			      const struct apus_ctl_filter_limits *limits)
{
	uint32_t buckets = 8;

	while (buckets < capacity)
		buckets *= 2;
	memset(pool, 0, sizeof(*pool));
	pool->limits = *limits;
	pool->capacity = capacity;
	pool->bucket_mask = buckets - 1;
	pool->buckets = calloc(buckets, sizeof(*pool->buckets));
	return pool->buckets ? 0 : APUS_ENOMEM;
}

void apus_ctl_filter_pool_fini(struct apus_ctl_filter_pool *pool)
{
	free(pool->buckets);
}

/* Length of the expression and the parameters as they stand in a record, each with its NUL. */
static size_t parameters_bytes(const struct apus_wire_endpoint_record *record)
{
	const char *at = record->text + record->filter.parameters_offset;
	const char *end = at;

	for (uint32_t i = 0; i < record->filter.parameter_count; i++)
		end += strlen(end) + 1;
	return (size_t)(end - at);
}

static uint64_t hash_text(const struct apus_type *type, const char *text, size_t bytes)
{
	return XXH3_64bits_withSeed(text, bytes, (uint64_t)(uintptr_t)type);
}

static bool is_builtin(const struct apus_ctl_filter_pool *pool, const char *class_name)
{
	return !pool->no_builtin && strcmp(class_name, APUS_CTL_FILTER_CLASS) == 0;
}

/* A node that holds the text of a record's filter and nothing else yet. */
static struct apus_ctl_shared_filter *describe(const struct apus_type *type,
					       const struct apus_wire_endpoint_record *record,
					       uint32_t context)
{
	size_t class_name = record->filter.class_name.bytes + 1u;
	size_t expression = record->filter.expression.bytes + 1u;
	size_t parameters = parameters_bytes(record);
	struct apus_ctl_shared_filter *f =
		calloc(1, sizeof(*f) + class_name + expression + parameters);
	char *at;

	if (!f)
		return NULL;
	at = f->text;
	memcpy(at, apus_wire_record_text(record, record->filter.class_name), class_name);
	memcpy(at + class_name, apus_wire_record_text(record, record->filter.expression),
	       expression);
	memcpy(at + class_name + expression, record->text + record->filter.parameters_offset,
	       parameters);
	f->text_bytes = class_name + expression + parameters;
	f->type = type;
	f->context = context;
	f->hash = hash_text(type, f->text, f->text_bytes) + context;
	f->refs = 1;
	return f;
}

static struct apus_ctl_shared_filter *find(const struct apus_ctl_filter_pool *pool,
					   const struct apus_ctl_shared_filter *like)
{
	struct apus_ctl_shared_filter *f = pool->buckets[like->hash & pool->bucket_mask];

	while (f && (f == like || f->own != like->own || f->type != like->type ||
		     f->context != like->context || f->text_bytes != like->text_bytes ||
		     memcmp(f->text, like->text, f->text_bytes) != 0))
		f = f->next;
	return f;
}

static void link_in(struct apus_ctl_filter_pool *pool, struct apus_ctl_shared_filter *f)
{
	f->next = pool->buckets[f->hash & pool->bucket_mask];
	pool->buckets[f->hash & pool->bucket_mask] = f;
}

static void unlink_from(struct apus_ctl_filter_pool *pool, struct apus_ctl_shared_filter *f)
{
	struct apus_ctl_shared_filter **link = &pool->buckets[f->hash & pool->bucket_mask];

	while (*link != f)
		link = &(*link)->next;
	*link = f->next;
}

static bool compile(const struct apus_ctl_filter_pool *pool, struct apus_ctl_shared_filter *f,
		    const struct apus_wire_endpoint_record *record)
{
	const char *parameters[APUS_WIRE_FILTER_PARAMETERS_MAX];
	const struct apus_filter_source source = {
		.expression = f->text + strlen(f->text) + 1,
		.parameters = parameters,
		.parameter_count = apus_wire_endpoint_record_parameters(record, parameters),
		.type = f->type,
		.type_name = apus_wire_record_text(record, record->type),
	};

	f->term = calloc(1, sizeof(*f->term));
	if (!f->term)
		return false;
	if (is_builtin(pool, f->text))
		return apus_ctl_filter_compile_term(f->type, source.expression, parameters,
						    source.parameter_count, &pool->limits,
						    &f->predicate, f->term, NULL) == 0;
	return pool->custom &&
	       pool->custom(pool->custom_user, f->text, &source, f->context, &f->predicate) == 0;
}

/* Whether one more may count; see the pool's capacity. */
static bool has_room(const struct apus_ctl_filter_pool *pool, bool replaces)
{
	return pool->count < pool->capacity ||
	       (replaces && pool->count < 3 * (uint64_t)pool->capacity);
}

/* Counts a filter against the capacity, once; false: there is no room. */
static bool count(struct apus_ctl_filter_pool *pool, struct apus_ctl_shared_filter *f,
		  bool replaces)
{
	if (f->counted)
		return true;
	if (!has_room(pool, replaces))
		return false;
	f->counted = true;
	pool->count++;
	return true;
}

static struct apus_ctl_shared_filter *get(struct apus_ctl_filter_pool *pool,
					  const struct apus_type *type,
					  const struct apus_wire_endpoint_record *record,
					  uint32_t context, bool counts, bool replaces)
{
	struct apus_ctl_shared_filter *f, *known;

	if (record->filter.over_limit)
		return NULL;
	/* What the built-in class makes, any thread may evaluate. */
	if (is_builtin(pool, apus_wire_record_text(record, record->filter.class_name)))
		context = 0;
	f = describe(type, record, context);
	if (!f)
		return NULL;
	known = find(pool, f);
	if (!known && (!counts || has_room(pool, replaces)) && compile(pool, f, record)) {
		link_in(pool, f);
		if (counts)
			count(pool, f, replaces);
		return f;
	}
	free(f->term);
	free(f);
	if (known && counts && !count(pool, known, replaces))
		return NULL;
	return apus_ctl_filter_pool_hold(known);
}

struct apus_ctl_shared_filter *
apus_ctl_filter_pool_get_local(struct apus_ctl_filter_pool *pool, const struct apus_type *type,
			       const struct apus_wire_endpoint_record *record)
{
	return is_builtin(pool, apus_wire_record_text(record, record->filter.class_name))
		       ? get(pool, type, record, 0, false, false)
		       : NULL;
}

struct apus_ctl_shared_filter *
apus_ctl_filter_pool_get(struct apus_ctl_filter_pool *pool, const struct apus_type *type,
			 const struct apus_wire_endpoint_record *record, uint32_t context,
			 bool replaces)
{
	return get(pool, type, record, context, true, replaces);
}

struct apus_ctl_shared_filter *
apus_ctl_filter_pool_wrap(struct apus_ctl_filter_pool *pool, struct apus_dp_predicate *predicate,
			  const struct apus_type *type,
			  const struct apus_wire_endpoint_record *record,
			  const struct apus_ctl_shared_filter *replaces)
{
	/* Each instance of a custom class's filter is one of what the class was told to prepare for. */
	bool has_key = record->filter.present && !record->filter.over_limit &&
		       is_builtin(pool, apus_wire_record_text(record, record->filter.class_name));
	struct apus_ctl_shared_filter *f =
		has_key ? describe(type, record, 0) : calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->own = true;
	f->counted = !has_key || !find(pool, f);
	/* Only own ones count, or strangers could take all there are. The replaced one still does until its last
	 * snapshot is reclaimed, so one that takes its place may exceed the capacity for that long: a change
	 * at the limit succeeds. */
	if (f->counted && pool->own >= pool->capacity && !replaces) {
		free(f);
		return NULL;
	}
	f->predicate = predicate;
	f->refs = 1;
	pool->count += f->counted;
	pool->own += f->counted;
	if (has_key)
		link_in(pool, f);
	return f;
}

struct apus_ctl_shared_filter *apus_ctl_filter_pool_hold(struct apus_ctl_shared_filter *f)
{
	if (f)
		f->refs++;
	return f;
}

/* An own filter that counted for all that say the same leaves: another one counts from now on, if there is one. */
static bool hand_on_count(struct apus_ctl_filter_pool *pool, const struct apus_ctl_shared_filter *f)
{
	struct apus_ctl_shared_filter *heir = f->type ? find(pool, f) : NULL;

	if (heir)
		heir->counted = true;
	return heir != NULL;
}

void apus_ctl_filter_pool_drop(struct apus_ctl_filter_pool *pool, struct apus_ctl_shared_filter *f)
{
	if (!f || --f->refs)
		return;
	if (f->type)
		unlink_from(pool, f);
	if (f->counted && !(f->own && hand_on_count(pool, f))) {
		pool->count--;
		pool->own -= f->own;
	}
	apus_ctl_filter_free(f->predicate);
	free(f->term);
	free(f);
}
