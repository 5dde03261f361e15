/* SPDX-License-Identifier: Apache-2.0 */
/* A log-linear histogram; see histogram.h. Buckets below 2^7 ns are 1 ns wide. */
#include "histogram.h"

#include <math.h>

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

static void print_moments(const struct histogram *h, FILE *to)
{
	double n = h->count ? (double)h->count : 1, mean = 0, square = 0;

	for (uint32_t i = 0; i < HISTOGRAM_BUCKETS - 1; i++) {
		double us = (double)(lower_bound(i) + lower_bound(i + 1)) / 2000;

		mean += us * h->bucket[i] / n;
		square += us * us * h->bucket[i] / n;
	}
	square -= mean * mean;
	fprintf(to, "#[Mean    = %12.3f, StdDeviation   = %12.3f]\n", mean,
		square > 0 ? sqrt(square) : 0);
	fprintf(to, "#[Max     = %12.3f, Total count    = %12llu]\n", (double)h->max_ns / 1000,
		(unsigned long long)h->count);
	fprintf(to, "#[Buckets = %12u, SubBuckets     = %12u]\n", 64 - HISTOGRAM_STEP_BITS, STEPS);
}

void histogram_hgrm(const struct histogram *h, FILE *to)
{
	uint64_t seen = 0;

	fprintf(to, "%12s %14s %10s %14s\n\n", "Value", "Percentile", "TotalCount",
		"1/(1-Percentile)");
	for (uint32_t i = 0; i < HISTOGRAM_BUCKETS - 1; i++) {
		double share;

		if (h->bucket[i] == 0)
			continue;
		seen += h->bucket[i];
		share = (double)seen / (double)h->count;
		fprintf(to, "%12.3f %2.12f %10llu ",
			(double)(seen == h->count ? h->max_ns : lower_bound(i + 1) - 1) / 1000,
			share, (unsigned long long)seen);
		if (seen == h->count)
			fprintf(to, "%14s\n", "inf");
		else
			fprintf(to, "%14.2f\n", 1 / (1 - share));
	}
	print_moments(h, to);
}
