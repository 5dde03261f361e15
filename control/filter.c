/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public filter calls (apus/filter.h) over compiler and evaluator, and the signature by which
 * content-filter-info names a filter.
 */
#include "control/filter.h"

#include <md5.h>
#include <stdlib.h>
#include <string.h>

#include "dataplane/snapshot.h"

/* A public handle is the predicate itself: nothing else belongs to it. */
static struct apus_dp_predicate *predicate_of(struct apus_filter *filter)
{
	return (struct apus_dp_predicate *)filter;
}

int apus_filter_open(const struct apus_type *type, const char *expression,
		     const char *const *parameters, uint32_t parameter_count,
		     struct apus_filter **filter_out, struct apus_filter_error *error_out)
{
	struct apus_dp_predicate *predicate;
	int result;

	if (!filter_out || !type || apus_type_check(type) < 0)
		return APUS_EINVAL;
	result = apus_ctl_filter_compile(type, expression, parameters, parameter_count, NULL,
					 &predicate, error_out);
	if (result == 0)
		*filter_out = (struct apus_filter *)predicate;
	return result;
}

void apus_filter_close(struct apus_filter *filter)
{
	apus_ctl_filter_free(predicate_of(filter));
}

int apus_filter_check(const struct apus_type *type, const char *expression,
		      const char *const *parameters, uint32_t parameter_count,
		      struct apus_filter_error *error_out)
{
	struct apus_filter *filter;
	int result =
		apus_filter_open(type, expression, parameters, parameter_count, &filter, error_out);

	if (result == 0)
		apus_filter_close(filter);
	return result;
}

int apus_filter_match(const struct apus_filter *filter, const void *payload, size_t payload_bytes)
{
	enum apus_dp_verdict verdict = apus_dp_predicate_eval(
		(const struct apus_dp_predicate *)filter, payload, payload_bytes);

	/* No branch on the verdict itself: nothing is harder to predict. */
	return verdict == APUS_DP_ERROR ? APUS_EENCODING : (int)(verdict == APUS_DP_PASS);
}

static void add_text(MD5_CTX *md5, const char *text)
{
	MD5Update(md5, (const uint8_t *)text, strlen(text) + 1);
}

void apus_ctl_filter_signature(const char *filtered_topic, const char *related_topic,
			       const char *filter_class, const char *expression,
			       const char *const *parameters, uint32_t parameter_count,
			       uint8_t signature_out[16])
{
	MD5_CTX md5;

	MD5Init(&md5);
	add_text(&md5, filtered_topic);
	add_text(&md5, related_topic);
	add_text(&md5, filter_class);
	add_text(&md5, expression);
	for (uint32_t i = 0; i < parameter_count; i++)
		add_text(&md5, parameters[i]);
	MD5Final(signature_out, &md5);
}
