/* SPDX-License-Identifier: Apache-2.0 */
/* Deep copies of participants and endpoints; see listing.h. */
#include "tools/listing.h"

#include <stdlib.h>
#include <string.h>

/* ---- copies ------------------------------------------------------------------------------------- */

static const char *copy_text(struct listing *l, const char *text)
{
	char *copy = text ? strdup(text) : NULL;

	l->failed |= text && !copy;
	return copy;
}

static const char *const *copy_texts(struct listing *l, const char *const *texts, uint32_t count)
{
	const char **copies = count ? calloc(count, sizeof(*copies)) : NULL;

	l->failed |= count && !copies;
	for (uint32_t i = 0; copies && i < count; i++)
		copies[i] = copy_text(l, texts[i]);
	return copies;
}

static void free_texts(const char *const *texts, uint32_t count)
{
	for (uint32_t i = 0; texts && i < count; i++)
		free((char *)texts[i]);
	free((char **)texts);
}

/* Room for one more element, zeroed; NULL without memory. */
static void *grow(struct listing *l, void **array, size_t *count, size_t *capacity, size_t bytes)
{
	size_t more = *capacity ? 2 * *capacity : 64;
	void *bigger = *array;

	if (*count == *capacity) {
		bigger = reallocarray(*array, more, bytes);
		if (!bigger) {
			l->failed = true;
			return NULL;
		}
		*array = bigger;
		*capacity = more;
	}
	return memset((char *)*array + bytes * (*count)++, 0, bytes);
}

static bool add_participant(const struct apus_participant_info *info, void *user)
{
	struct listing *l = user;
	struct apus_participant_info *copy =
		grow(l, (void **)&l->participants, &l->participant_count, &l->participant_capacity,
		     sizeof(*copy));

	if (!copy)
		return false;
	*copy = *info;
	copy->name = copy_text(l, info->name);
	copy->vendor = copy_text(l, info->vendor);
	copy->locators = copy_texts(l, info->locators, info->locator_count);
	return !l->failed;
}

static const uint8_t *copy_hash(struct listing *l, const uint8_t *hash)
{
	uint8_t *copy = hash ? malloc(APUS_TYPE_HASH_BYTES) : NULL;

	l->failed |= hash && !copy;
	return copy ? memcpy(copy, hash, APUS_TYPE_HASH_BYTES) : NULL;
}

static const struct apus_qos *copy_qos(struct listing *l, const struct apus_qos *qos)
{
	struct apus_qos *copy = malloc(sizeof(*copy));

	if (!copy) {
		l->failed = true;
		return NULL;
	}
	*copy = *qos;
	copy->partitions = copy_texts(l, qos->partitions, qos->partition_count);
	return copy;
}

static bool add_endpoint(const struct apus_endpoint_info *info, void *user)
{
	struct listing *l = user;
	struct apus_endpoint_info *copy = grow(l, (void **)&l->endpoints, &l->endpoint_count,
					       &l->endpoint_capacity, sizeof(*copy));

	if (!copy)
		return false;
	*copy = *info;
	copy->topic = copy_text(l, info->topic);
	copy->type_name = copy_text(l, info->type_name);
	copy->qos = copy_qos(l, info->qos);
	copy->filter_class = copy_text(l, info->filter_class);
	copy->filter_expression = copy_text(l, info->filter_expression);
	copy->filter_parameters =
		copy_texts(l, info->filter_parameters, info->filter_parameter_count);
	copy->locators = copy_texts(l, info->locators, info->locator_count);
	copy->minimal_hash = copy_hash(l, info->minimal_hash);
	copy->complete_hash = copy_hash(l, info->complete_hash);
	return !l->failed;
}

/* ---- the listing -------------------------------------------------------------------------------- */

struct sorted {
	struct apus_endpoint_info info;
	size_t idx;
};

static int by_topic(const void *a, const void *b)
{
	const struct sorted *x = a, *y = b;
	int order = strcmp(x->info.topic, y->info.topic);

	if (order == 0)
		order = y->info.is_writer - x->info.is_writer;
	return order ? order : (x->idx > y->idx) - (x->idx < y->idx);
}

/* qsort() is not stable: the index decides among equals. */
static void sort(struct listing *l)
{
	struct sorted *sorted =
		l->endpoint_count ? calloc(l->endpoint_count, sizeof(*sorted)) : NULL;

	if (!sorted) {
		l->failed |= l->endpoint_count > 0;
		return;
	}
	for (size_t i = 0; i < l->endpoint_count; i++)
		sorted[i] = (struct sorted){l->endpoints[i], i};
	qsort(sorted, l->endpoint_count, sizeof(*sorted), by_topic);
	for (size_t i = 0; i < l->endpoint_count; i++)
		l->endpoints[i] = sorted[i].info;
	free(sorted);
}

int listing_collect(struct apus_participant *participant, struct listing *listing)
{
	int rc = apus_visit_participants(participant, add_participant, listing);

	if (rc >= 0 && !listing->failed)
		rc = apus_visit_endpoints(participant, add_endpoint, listing);
	if (rc >= 0 && !listing->failed)
		sort(listing);
	if (listing->failed)
		return APUS_ENOMEM;
	return rc < 0 ? rc : 0;
}

void listing_fini(struct listing *l)
{
	for (size_t i = 0; i < l->participant_count; i++) {
		struct apus_participant_info *p = &l->participants[i];

		free((char *)p->name);
		free((char *)p->vendor);
		free_texts(p->locators, p->locator_count);
	}
	for (size_t i = 0; i < l->endpoint_count; i++) {
		struct apus_endpoint_info *e = &l->endpoints[i];

		free((char *)e->topic);
		free((char *)e->type_name);
		if (e->qos)
			free_texts(e->qos->partitions, e->qos->partition_count);
		free((struct apus_qos *)e->qos);
		free((char *)e->filter_class);
		free((char *)e->filter_expression);
		free_texts(e->filter_parameters, e->filter_parameter_count);
		free_texts(e->locators, e->locator_count);
		free((uint8_t *)e->minimal_hash);
		free((uint8_t *)e->complete_hash);
	}
	free(l->participants);
	free(l->endpoints);
}

size_t listing_topic_length(const struct listing *l, size_t first)
{
	size_t end = first;

	while (end < l->endpoint_count &&
	       strcmp(l->endpoints[end].topic, l->endpoints[first].topic) == 0)
		end++;
	return end - first;
}
