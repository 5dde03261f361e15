/* SPDX-License-Identifier: Apache-2.0 */
/* A log-linear histogram; see histogram.h. Buckets below 2^7 ns are 1 ns wide. */
#include "histogram.h"

#define STEPS (1u << HISTOGRAM_STEP_BITS)

static uint32_t bucket_of(uint64_t ns)
{
	uint32_t shift;

	if (ns < 2 * STEPS)
		return (uint32_t)ns;
	shift = 63u - HISTOGRAM_STEP_BITS - (uint32_t)__builtin_clzll(ns);
	return (shift << HISTOGRAM_STEP_BITS) + (uint32_t)(ns >> shift);
}

static uint64_t lower_bound(uint32_t bucket)
{
	uint32_t shift;

	if (bucket < 2 * STEPS)
		return bucket;
	shift = (bucket >> HISTOGRAM_STEP_BITS) - 1;
	return (uint64_t)(bucket - (shift << HISTOGRAM_STEP_BITS)) << shift;
}

void histogram_add(struct histogram *h, uint64_t ns)
{
	/* The last power of two would not fit; no duration of ours comes near it. */
	if (ns > INT64_MAX)
		ns = INT64_MAX;
	if (h->count == 0 || ns < h->min_ns)
		h->min_ns = ns;
	if (ns > h->max_ns)
		h->max_ns = ns;
	h->count++;
	h->bucket[bucket_of(ns)]++;
}

void histogram_merge(struct histogram *h, const struct histogram *more)
{
	if (more->count == 0)
		return;
	if (h->count == 0 || more->min_ns < h->min_ns)
		h->min_ns = more->min_ns;
	if (more->max_ns > h->max_ns)
		h->max_ns = more->max_ns;
	h->count += more->count;
	for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++)
		h->bucket[i] += more->bucket[i];
}

uint64_t histogram_quantile(const struct histogram *h, double share)
{
	uint64_t rank = (uint64_t)(share * (double)h->count), seen = 0;

	if (share <= 0 || h->count == 0)
		return h->min_ns;
	if (rank >= h->count)
		return h->max_ns;
	for (uint32_t i = 0; i < HISTOGRAM_BUCKETS - 1; i++) {
		seen += h->bucket[i];
		if (seen > rank)
			return (lower_bound(i) + lower_bound(i + 1)) / 2;
	}
	return h->max_ns;
}

void histogram_json(const struct histogram *h, FILE *to)
{
	const char *comma = "";

	fputc('[', to);
	for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
		if (h->bucket[i] == 0)
			continue;
		fprintf(to, "%s[%llu,%u]", comma, (unsigned long long)lower_bound(i), h->bucket[i]);
		comma = ",";
	}
	fputc(']', to);
}
