/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls of a reader that give values instead of payloads (include/apus/participant.h). The arena is
 * the caller's for as long as the value is in use, so the turn is not held while it is filled.
 */
#include "dataplane/entity.h"
#include "wire/cdr.h"

static int refuse(struct apus_reader *r, int rc)
{
	apus_dp_worker_take_turn(r->worker); /* counters belong to who has the turn */
	apus_counter_add(&r->dp->counters.values_refused, 1);
	apus_dp_worker_end_turn(r->worker);
	return rc;
}

/* Returns 1, or an error. */
static int copy_out(struct apus_reader *r, struct apus_sample *s, void *value_out,
		    struct apus_sample_info *info_out)
{
	int rc = apus_type_decode(r->type, s->payload, s->payload_bytes, !s->info.valid_data,
				  value_out, r->values, r->value_bytes);

	if (info_out)
		*info_out = s->info;
	apus_return(r, s, 1);
	return rc < 0 ? refuse(r, rc) : 1;
}

int apus_take_next(struct apus_reader *reader, void *value_out, struct apus_sample_info *info_out,
		   const struct apus_select *select)
{
	struct apus_sample s;
	int n;

	if (!value_out)
		return APUS_EINVAL;
	n = apus_take(reader, &s, 1, select);
	return n <= 0 ? n : copy_out(reader, &s, value_out, info_out);
}

int apus_read_next(struct apus_reader *reader, void *value_out, struct apus_sample_info *info_out,
		   const struct apus_select *select)
{
	struct apus_sample s;
	int n;

	if (!value_out)
		return APUS_EINVAL;
	n = apus_read(reader, &s, 1, select);
	return n <= 0 ? n : copy_out(reader, &s, value_out, info_out);
}

const void *apus_sample_image(const struct apus_reader *reader, const struct apus_sample *sample)
{
	struct apus_wire_cdr cdr;

	if (!sample || !sample->payload || !sample->info.valid_data ||
	    !apus_dp_alive(reader->fork_count) ||
	    apus_wire_cdr_open(&cdr, sample->payload, sample->payload_bytes) != 0 ||
	    !apus_wire_is_image(&cdr, reader->type))
		return NULL;
	return cdr.base;
}

int apus_sample_value(struct apus_reader *reader, const struct apus_sample *sample, void *value_out)
{
	int rc;

	if (!sample || !sample->payload || !value_out)
		return APUS_EINVAL;
	if (!apus_dp_alive(reader->fork_count))
		return APUS_ECLOSED;
	rc = apus_type_view(reader->type, sample->payload, sample->payload_bytes,
			    !sample->info.valid_data, value_out, reader->values,
			    reader->value_bytes);
	return rc < 0 ? refuse(reader, rc) : 0;
}
