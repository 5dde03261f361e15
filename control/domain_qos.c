/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changing the QoS of writers and readers that exist (DDS 1.4 §2.2.3, the column "changeable"): validated whole,
 * announced, then applied by the data plane, or refused whole.
 */
#include "control/domain.h"

#include <stdlib.h>
#include <string.h>

/* --- what may not change --------------------------------------------------------------------------- */

static bool same_limits(const struct apus_qos *a, const struct apus_qos *b)
{
	return a->max_samples == b->max_samples && a->max_instances == b->max_instances &&
	       a->max_samples_per_instance == b->max_samples_per_instance &&
	       a->max_sample_bytes == b->max_sample_bytes && a->max_matches == b->max_matches;
}

static bool same_presentation(const struct apus_qos *a, const struct apus_qos *b)
{
	return a->access_scope == b->access_scope && a->coherent_access == b->coherent_access &&
	       a->ordered_access == b->ordered_access;
}

static bool same_representations(const struct apus_qos *a, const struct apus_qos *b)
{
	return a->representation_count == b->representation_count &&
	       memcmp(a->representations, b->representations,
		      a->representation_count * sizeof(a->representations[0])) == 0;
}

static bool same_consistency(const struct apus_type_consistency *a,
			     const struct apus_type_consistency *b)
{
	return a->kind == b->kind && a->ignore_sequence_bounds == b->ignore_sequence_bounds &&
	       a->ignore_string_bounds == b->ignore_string_bounds &&
	       a->ignore_member_names == b->ignore_member_names &&
	       a->prevent_type_widening == b->prevent_type_widening &&
	       a->force_type_validation == b->force_type_validation;
}

/* The first policy that differs and cannot be changed, or APUS_POLICY_NONE. */
static int immutable(const struct apus_qos *a, const struct apus_qos *b)
{
	const struct {
		bool same;
		int policy;
	} tests[] = {
		{a->durability == b->durability, APUS_POLICY_DURABILITY},
		{same_presentation(a, b), APUS_POLICY_PRESENTATION},
		{a->ownership == b->ownership, APUS_POLICY_OWNERSHIP},
		{a->liveliness == b->liveliness && a->lease_ns == b->lease_ns,
		 APUS_POLICY_LIVELINESS},
		{a->time_filter_late == b->time_filter_late, APUS_POLICY_TIME_BASED_FILTER},
		{a->reliability == b->reliability && a->max_blocking_ns == b->max_blocking_ns,
		 APUS_POLICY_RELIABILITY},
		{a->destination_order == b->destination_order, APUS_POLICY_DESTINATION_ORDER},
		{a->history == b->history && a->depth == b->depth, APUS_POLICY_HISTORY},
		{same_limits(a, b), APUS_POLICY_RESOURCE_LIMITS},
		{same_representations(a, b), APUS_POLICY_DATA_REPRESENTATION},
		{same_consistency(&a->consistency, &b->consistency), APUS_POLICY_TYPE_CONSISTENCY},
		{a->batch_bytes == b->batch_bytes && a->batch_delay_ns == b->batch_delay_ns,
		 APUS_POLICY_BATCH},
	};

	for (size_t i = 0; i < APUS_ARRAY_LENGTH(tests); i++)
		if (!tests[i].same)
			return tests[i].policy;
	return APUS_POLICY_NONE;
}

/* The new QoS, complete. Under lock. */
static int check(const struct apus_participant *p, const struct apus_endpoint_options *o,
		 bool is_writer, const struct apus_qos *now, struct apus_qos *next_out,
		 int *policy_out)
{
	int rc = apus_qos_check(o->qos, is_writer, policy_out), policy;

	if (rc != 0)
		return rc;
	rc = apus_ctl_domain_complete_qos(p, o, is_writer, next_out);
	policy = rc == 0 ? immutable(now, next_out) : APUS_POLICY_PRESENTATION;
	if (policy == APUS_POLICY_NONE)
		return 0;
	*policy_out = policy;
	return rc == 0 || rc == APUS_EINVAL ? APUS_EIMMUTABLE : rc;
}

/* --- announcing ------------------------------------------------------------------------------------ */

/* The present record with another QoS, in p->scratch. */
static int make_record(struct apus_participant *p, const struct apus_ctl_endpoint *e,
		       const struct apus_dp_worker *worker, const struct apus_qos *qos)
{
	const struct apus_wire_endpoint_record *old = e->record;
	const char *parameters[APUS_WIRE_FILTER_PARAMETERS_MAX];
	struct apus_wire_endpoint_source source = {
		.guid = old->guid,
		.is_writer = old->is_writer,
		.expects_inline_qos = old->expects_inline_qos,
		.group = old->group,
		.max_sample_bytes = old->max_sample_bytes,
		.topic = apus_wire_record_text(old, old->topic),
		.type = apus_wire_record_text(old, old->type),
		.qos = qos,
		.type_information = (const uint8_t *)old->text + old->information_offset,
		.type_information_bytes = old->information_bytes,
	};
	int rc;

	if (old->filter.present) {
		source.filter_name = apus_wire_record_text(old, old->filter.name);
		source.filter_class = apus_wire_record_text(old, old->filter.class_name);
		source.filter_expression = apus_wire_record_text(old, old->filter.expression);
		source.filter_parameter_count =
			apus_wire_endpoint_record_parameters(old, parameters);
		source.filter_parameters = parameters;
	}
	rc = apus_wire_endpoint_record_make(&source, p->scratch);
	if (rc == 0)
		apus_ctl_domain_add_locators(p, worker, p->scratch);
	return rc;
}

/* Announces it again and matches it again, unless nothing that others see has changed. */
static int announce(struct apus_participant *p, struct apus_ctl_endpoint *e,
		    const struct apus_dp_worker *worker, const struct apus_qos *qos)
{
	int rc = make_record(p, e, worker, qos);

	if (rc != 0)
		return rc;
	if (memcmp(p->scratch, e->record, apus_wire_endpoint_record_bytes(e->record)) == 0)
		return 0;
	apus_dp_worker_take_turn(p->control);
	rc = apus_ctl_discovery_change_local(p->discovery, p->scratch, e->generation + 1);
	apus_dp_worker_end_turn(p->control);
	return rc < 0 ? rc : 0;
}

/* --- writers --------------------------------------------------------------------------------------- */

/* Room for deadlines, if the writer has kept none so far. */
static int reserve_deadlines(const struct apus_writer *w, const struct apus_qos *qos,
			     struct apus_dp_deadline **spare_out)
{
	*spare_out = NULL;
	if (w->dp->deadlines || !apus_dp_is_finite(qos->deadline_ns))
		return 0;
	*spare_out = calloc(w->dp->config.cache.max_instances, sizeof(**spare_out));
	return *spare_out ? 0 : APUS_ENOMEM;
}

/* Under lock. */
static int change_writer(struct apus_writer *w, const struct apus_qos *next)
{
	struct apus_participant *p = w->participant;
	struct apus_dp_deadline *spare;
	int rc = reserve_deadlines(w, next, &spare);

	if (rc == 0)
		rc = announce(p, w->endpoint, w->worker, next);
	if (rc == 0) {
		apus_dp_worker_take_turn(w->worker);
		apus_dp_writer_set_timing(w->dp, next->deadline_ns, next->lifespan_ns, &spare,
					  apus_mono_now());
		apus_dp_worker_end_turn(w->worker);
		/* Relaxed: it orders nothing. */
		atomic_store_explicit(&w->autodispose, next->autodispose, memory_order_relaxed);
		w->qos = *next;
		w->qos.partitions = NULL;
		apus_ctl_domain_changed(p);
	}
	free(spare);
	return rc;
}

int apus_writer_set_qos(struct apus_writer *writer, const struct apus_qos *qos, int *policy_out)
{
	struct apus_endpoint_options o = {.qos = qos};
	int unused = APUS_POLICY_NONE, rc;
	struct apus_qos next;

	if (!writer || !qos)
		return APUS_EINVAL;
	if (!apus_dp_alive(writer->fork_count))
		return APUS_ECLOSED;
	o.type = writer->type;
	o.publisher = writer->publisher;
	o.worker_idx = writer->publisher ? writer->publisher->worker_idx : 0;
	apus_ctl_domain_await_room(writer->participant, true);
	pthread_mutex_lock(&writer->participant->lock);
	rc = check(writer->participant, &o, true, &writer->qos, &next,
		   policy_out ? policy_out : &unused);
	if (rc == 0)
		rc = change_writer(writer, &next);
	pthread_mutex_unlock(&writer->participant->lock);
	return rc;
}

int apus_writer_set_strength(struct apus_writer *writer, int32_t strength)
{
	const char *names[APUS_WIRE_PARTITIONS_MAX];
	struct apus_qos next;
	int rc = APUS_EINVAL;

	if (!apus_dp_alive(writer->fork_count))
		return APUS_ECLOSED;
	apus_ctl_domain_await_room(writer->participant, true);
	pthread_mutex_lock(&writer->participant->lock);
	next = writer->qos;
	next.strength = strength;
	next.partition_count =
		apus_wire_endpoint_record_partitions(writer->endpoint->record, names);
	next.partitions = names;
	if (next.ownership == APUS_EXCLUSIVE)
		rc = change_writer(writer, &next);
	pthread_mutex_unlock(&writer->participant->lock);
	return rc;
}

/* --- readers --------------------------------------------------------------------------------------- */

/* Under lock. */
static int change_reader(struct apus_reader *r, const struct apus_qos *next)
{
	struct apus_participant *p = r->participant;
	const struct apus_dp_reader_timing timing = {
		.deadline_ns = next->deadline_ns,
		.separation_ns = next->time_filter_ns,
		.lifespan_ns = next->lifespan_ns,
		.purge_no_writers_ns = apus_ctl_domain_purge_delay(next->autopurge_no_writers_ns),
		.purge_disposed_ns = apus_ctl_domain_purge_delay(next->autopurge_disposed_ns),
	};
	int rc = announce(p, r->endpoint, r->worker, next);

	if (rc != 0)
		return rc;
	apus_dp_worker_take_turn(r->worker);
	apus_dp_reader_set_timing(r->dp, &timing, apus_mono_now());
	apus_dp_worker_end_turn(r->worker);
	r->qos = *next;
	r->qos.partitions = NULL;
	apus_ctl_domain_changed(p);
	return 0;
}

int apus_reader_set_qos(struct apus_reader *reader, const struct apus_qos *qos, int *policy_out)
{
	struct apus_endpoint_options o = {.qos = qos};
	int unused = APUS_POLICY_NONE, rc;
	struct apus_qos next;

	if (!reader || !qos)
		return APUS_EINVAL;
	if (!apus_dp_alive(reader->fork_count))
		return APUS_ECLOSED;
	o.type = reader->type;
	o.subscriber = reader->subscriber;
	o.worker_idx = reader->subscriber ? reader->subscriber->worker_idx : 0;
	apus_ctl_domain_await_room(reader->participant, false);
	pthread_mutex_lock(&reader->participant->lock);
	rc = check(reader->participant, &o, false, &reader->qos, &next,
		   policy_out ? policy_out : &unused);
	if (rc == 0)
		rc = change_reader(reader, &next);
	pthread_mutex_unlock(&reader->participant->lock);
	return rc;
}

/* --- looking --------------------------------------------------------------------------------------- */

static int get_qos(struct apus_participant *p, const struct apus_ctl_endpoint *e,
		   const struct apus_qos *qos, struct apus_qos *qos_out, const char **names_out,
		   uint32_t max)
{
	const char *names[APUS_WIRE_PARTITIONS_MAX];
	uint32_t count;

	pthread_mutex_lock(&p->lock);
	count = apus_wire_endpoint_record_partitions(e->record, names);
	if (count <= max) {
		*qos_out = *qos;
		qos_out->partition_count = count;
		qos_out->partitions = count ? names_out : NULL;
		for (uint32_t i = 0; i < count; i++)
			names_out[i] = names[i];
	}
	pthread_mutex_unlock(&p->lock);
	return count <= max ? 0 : APUS_ELIMIT;
}

int apus_writer_qos(struct apus_writer *writer, struct apus_qos *qos_out, const char **names_out,
		    uint32_t max)
{
	if (!writer || !qos_out || (!names_out && max))
		return APUS_EINVAL;
	if (!apus_dp_alive(writer->fork_count))
		return APUS_ECLOSED;
	return get_qos(writer->participant, writer->endpoint, &writer->qos, qos_out, names_out,
		       max);
}

int apus_reader_qos(struct apus_reader *reader, struct apus_qos *qos_out, const char **names_out,
		    uint32_t max)
{
	if (!reader || !qos_out || (!names_out && max))
		return APUS_EINVAL;
	if (!apus_dp_alive(reader->fork_count))
		return APUS_ECLOSED;
	return get_qos(reader->participant, reader->endpoint, &reader->qos, qos_out, names_out,
		       max);
}
