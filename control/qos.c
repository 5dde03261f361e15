/* SPDX-License-Identifier: Apache-2.0 */
/*
 * QoS: defaults, consistency of one endpoint, compatibility of two (DDS 1.4 §2.2.3).
 *
 * A check is one row of a table, in the order in which policies are reported; adding a policy is adding
 * a row. Every row is a pure function of its arguments.
 */
#include <apus/qos.h>
#include <apus/type.h>

#include <assert.h>
#include <string.h>

#include "base/atomics.h"
#include "control/partition.h"
#include "wire/record.h"

#define DEFAULT_BLOCKING_NS (INT64_C(100) * 1000000)

static_assert(APUS_CTL_PARTITIONS_MAX == APUS_WIRE_PARTITIONS_MAX &&
		      APUS_CTL_PARTITION_NAME_BYTES == APUS_WIRE_NAME_BYTES,
	      "what passes the check here must fit into a record");

/* --- Defaults ------------------------------------------------------------------------------------ */

static void set_common_defaults(struct apus_qos *qos)
{
	memset(qos, 0, sizeof(*qos));
	qos->autodispose = true;
	qos->depth = 1;
	qos->max_blocking_ns = DEFAULT_BLOCKING_NS;
	qos->deadline_ns = APUS_INFINITE_NS;
	qos->lease_ns = APUS_INFINITE_NS;
	qos->lifespan_ns = APUS_INFINITE_NS;
	qos->autopurge_no_writers_ns = APUS_INFINITE_NS;
	qos->autopurge_disposed_ns = APUS_INFINITE_NS;
	qos->consistency.kind = APUS_ALLOW_TYPE_COERCION;
	qos->consistency.ignore_sequence_bounds = true;
	qos->consistency.ignore_string_bounds = true;
}

void apus_qos_writer_default(struct apus_qos *qos)
{
	set_common_defaults(qos);
	qos->reliability = APUS_RELIABLE;
}

void apus_qos_reader_default(struct apus_qos *qos)
{
	set_common_defaults(qos);
	qos->reliability = APUS_BEST_EFFORT;
}

/* --- One endpoint -------------------------------------------------------------------------------- */

/* TRANSIENT and PERSISTENT need a durability service, which Apus does not have. */
static bool durability_ok(const struct apus_qos *qos, bool is_writer)
{
	(void)is_writer;
	return qos->durability <= APUS_TRANSIENT_LOCAL;
}

static bool presentation_ok(const struct apus_qos *qos, bool is_writer)
{
	(void)is_writer;
	return qos->access_scope <= APUS_SCOPE_GROUP;
}

/* A reader that filters more than a deadline away would miss its own deadline by design. A period of 0, as a lease
 * or lifespan of 0, cannot be kept: it would say nothing, or end everything. Others may announce them. */
static bool deadline_ok(const struct apus_qos *qos, bool is_writer)
{
	return qos->deadline_ns > 0 && (is_writer || qos->deadline_ns >= qos->time_filter_ns);
}

static bool latency_budget_ok(const struct apus_qos *qos, bool is_writer)
{
	(void)is_writer;
	return qos->latency_budget_ns >= 0;
}

/* A batch is bounded by size and by time, or there is none. */
static bool batch_ok(const struct apus_qos *qos, bool is_writer)
{
	if (qos->batch_bytes == 0)
		return qos->batch_delay_ns == 0;
	return is_writer && qos->batch_bytes >= 4 && qos->batch_bytes <= 65536 &&
	       qos->batch_delay_ns > 0;
}

static bool ownership_ok(const struct apus_qos *qos, bool is_writer)
{
	(void)is_writer;
	return qos->ownership <= APUS_EXCLUSIVE;
}

static bool strength_ok(const struct apus_qos *qos, bool is_writer)
{
	return is_writer || qos->strength == 0;
}

static bool liveliness_ok(const struct apus_qos *qos, bool is_writer)
{
	(void)is_writer;
	return qos->liveliness <= APUS_MANUAL_BY_TOPIC && qos->lease_ns > 0;
}

static bool time_filter_ok(const struct apus_qos *qos, bool is_writer)
{
	if (is_writer)
		return qos->time_filter_ns == 0 && !qos->time_filter_late;
	if (!qos->time_filter_late)
		return qos->time_filter_ns >= 0;
	return qos->time_filter_ns > 0 && qos->time_filter_ns != APUS_INFINITE_NS &&
	       qos->reliability == APUS_RELIABLE && !qos->coherent_access;
}

static bool partition_ok(const struct apus_qos *qos, bool is_writer)
{
	(void)is_writer;
	if (qos->partition_count > APUS_CTL_PARTITIONS_MAX ||
	    (qos->partition_count > 0 && !qos->partitions))
		return false;
	for (uint32_t i = 0; i < qos->partition_count; i++)
		if (!qos->partitions[i] ||
		    strnlen(qos->partitions[i], APUS_CTL_PARTITION_NAME_BYTES + 1) >
			    APUS_CTL_PARTITION_NAME_BYTES)
			return false;
	return true;
}

static bool reliability_ok(const struct apus_qos *qos, bool is_writer)
{
	(void)is_writer;
	return qos->reliability <= APUS_RELIABLE && qos->max_blocking_ns >= 0;
}

static bool destination_order_ok(const struct apus_qos *qos, bool is_writer)
{
	(void)is_writer;
	return qos->destination_order <= APUS_BY_SOURCE;
}

/* The depth goes onto the wire as a signed number; under KEEP_ALL it means nothing. */
static bool history_ok(const struct apus_qos *qos, bool is_writer)
{
	(void)is_writer;
	if (qos->history == APUS_KEEP_ALL)
		return true;
	return qos->history == APUS_KEEP_LAST && qos->depth >= 1 && qos->depth <= INT32_MAX;
}

/* 0 is "as configured" and contradicts nothing here. */
static bool resource_limits_ok(const struct apus_qos *qos, bool is_writer)
{
	(void)is_writer;
	if (qos->max_samples_per_instance == 0)
		return true;
	if (qos->history == APUS_KEEP_LAST && qos->depth > qos->max_samples_per_instance)
		return false;
	return qos->max_samples == 0 || qos->max_samples >= qos->max_samples_per_instance;
}

static bool lifecycle_ok(const struct apus_qos *qos, bool is_writer)
{
	return is_writer || qos->autodispose;
}

static bool purge_ok(const struct apus_qos *qos, bool is_writer)
{
	if (is_writer)
		return qos->autopurge_no_writers_ns == APUS_INFINITE_NS &&
		       qos->autopurge_disposed_ns == APUS_INFINITE_NS;
	return qos->autopurge_no_writers_ns >= 0 && qos->autopurge_disposed_ns >= 0;
}

static bool transport_priority_ok(const struct apus_qos *qos, bool is_writer)
{
	return is_writer || qos->transport_priority == 0;
}

/* Readers may have one of their own: it is local to them. */
static bool lifespan_ok(const struct apus_qos *qos, bool is_writer)
{
	(void)is_writer;
	return qos->lifespan_ns > 0;
}

static bool representation_known(int16_t id)
{
	return id == APUS_XCDR1 || id == APUS_XCDR2;
}

static bool representations_ok(const struct apus_qos *qos, bool is_writer)
{
	(void)is_writer;
	if (qos->representation_count > APUS_REPRESENTATIONS_MAX)
		return false;
	for (uint32_t i = 0; i < qos->representation_count; i++) {
		if (!representation_known(qos->representations[i]))
			return false;
		for (uint32_t j = 0; j < i; j++)
			if (qos->representations[j] == qos->representations[i])
				return false;
	}
	return true;
}

/* Coercion that is forbidden leaves nothing to ignore; a writer has no say in it (XTypes 1.3 §7.6.3.4). */
static bool consistency_ok(const struct apus_qos *qos, bool is_writer)
{
	const struct apus_type_consistency *c = &qos->consistency;

	if (c->kind > APUS_ALLOW_TYPE_COERCION)
		return false;
	return !is_writer || (c->kind == APUS_ALLOW_TYPE_COERCION && c->ignore_sequence_bounds &&
			      c->ignore_string_bounds && !c->ignore_member_names &&
			      !c->prevent_type_widening && !c->force_type_validation);
}

/* In the order of the policy ids. */
static const struct {
	int policy;
	bool (*ok)(const struct apus_qos *qos, bool is_writer);
} checks[] = {
	{APUS_POLICY_DURABILITY, durability_ok},
	{APUS_POLICY_PRESENTATION, presentation_ok},
	{APUS_POLICY_DEADLINE, deadline_ok},
	{APUS_POLICY_LATENCY_BUDGET, latency_budget_ok},
	{APUS_POLICY_BATCH, batch_ok},
	{APUS_POLICY_OWNERSHIP, ownership_ok},
	{APUS_POLICY_OWNERSHIP_STRENGTH, strength_ok},
	{APUS_POLICY_LIVELINESS, liveliness_ok},
	{APUS_POLICY_TIME_BASED_FILTER, time_filter_ok},
	{APUS_POLICY_PARTITION, partition_ok},
	{APUS_POLICY_RELIABILITY, reliability_ok},
	{APUS_POLICY_DESTINATION_ORDER, destination_order_ok},
	{APUS_POLICY_HISTORY, history_ok},
	{APUS_POLICY_RESOURCE_LIMITS, resource_limits_ok},
	{APUS_POLICY_WRITER_DATA_LIFECYCLE, lifecycle_ok},
	{APUS_POLICY_READER_DATA_LIFECYCLE, purge_ok},
	{APUS_POLICY_TRANSPORT_PRIORITY, transport_priority_ok},
	{APUS_POLICY_LIFESPAN, lifespan_ok},
	{APUS_POLICY_DATA_REPRESENTATION, representations_ok},
	{APUS_POLICY_TYPE_CONSISTENCY, consistency_ok},
};

int apus_qos_check(const struct apus_qos *qos, bool is_writer, int *policy_out)
{
	for (size_t i = 0; i < APUS_ARRAY_LENGTH(checks); i++) {
		if (checks[i].ok(qos, is_writer))
			continue;
		if (policy_out)
			*policy_out = checks[i].policy;
		return APUS_EQOS;
	}
	return 0;
}

/* --- Two endpoints ------------------------------------------------------------------------------- */

static bool presentation_compatible(const struct apus_qos *offered,
				    const struct apus_qos *requested)
{
	return offered->access_scope >= requested->access_scope &&
	       offered->coherent_access >= requested->coherent_access &&
	       offered->ordered_access >= requested->ordered_access;
}

/* Kinds are ordered AUTOMATIC < BY_PARTICIPANT < BY_TOPIC; the offered lease may be the shorter one. */
static bool liveliness_compatible(const struct apus_qos *offered, const struct apus_qos *requested)
{
	return offered->liveliness >= requested->liveliness &&
	       offered->lease_ns <= requested->lease_ns;
}

/* The reader must accept what the writer uses, its first one; the writer's others are never sent
 * (XTypes 1.3 §7.6.3.1.1). Count 0 is the default of apus/qos.h. */
static bool representation_compatible(const struct apus_qos *offered,
				      const struct apus_qos *requested)
{
	int16_t used = offered->representation_count > 0 ? offered->representations[0] : APUS_XCDR1;

	if (requested->representation_count == 0)
		return representation_known(used);
	for (uint32_t i = 0; i < requested->representation_count; i++)
		if (requested->representations[i] == used)
			return true;
	return false;
}

int apus_qos_mismatch(const struct apus_qos *offered, const struct apus_qos *requested)
{
	if (offered->durability < requested->durability)
		return APUS_POLICY_DURABILITY;
	if (!presentation_compatible(offered, requested))
		return APUS_POLICY_PRESENTATION;
	if (offered->deadline_ns > requested->deadline_ns)
		return APUS_POLICY_DEADLINE;
	if (offered->latency_budget_ns > requested->latency_budget_ns)
		return APUS_POLICY_LATENCY_BUDGET;
	if (offered->ownership != requested->ownership)
		return APUS_POLICY_OWNERSHIP;
	if (!liveliness_compatible(offered, requested))
		return APUS_POLICY_LIVELINESS;
	if (offered->reliability < requested->reliability)
		return APUS_POLICY_RELIABILITY;
	if (offered->destination_order < requested->destination_order)
		return APUS_POLICY_DESTINATION_ORDER;
	if (!representation_compatible(offered, requested))
		return APUS_POLICY_DATA_REPRESENTATION;
	if (!apus_ctl_partitions_match(offered->partitions, offered->partition_count,
				       requested->partitions, requested->partition_count))
		return APUS_POLICY_PARTITION;
	return APUS_POLICY_NONE;
}

const char *apus_policy_name(int policy)
{
	switch (policy) {
	case APUS_POLICY_NONE: return "none";
	case APUS_POLICY_DURABILITY: return "durability";
	case APUS_POLICY_PRESENTATION: return "presentation";
	case APUS_POLICY_DEADLINE: return "deadline";
	case APUS_POLICY_LATENCY_BUDGET: return "latency budget";
	case APUS_POLICY_OWNERSHIP: return "ownership";
	case APUS_POLICY_OWNERSHIP_STRENGTH: return "ownership strength";
	case APUS_POLICY_LIVELINESS: return "liveliness";
	case APUS_POLICY_TIME_BASED_FILTER: return "time-based filter";
	case APUS_POLICY_PARTITION: return "partition";
	case APUS_POLICY_RELIABILITY: return "reliability";
	case APUS_POLICY_DESTINATION_ORDER: return "destination order";
	case APUS_POLICY_HISTORY: return "history";
	case APUS_POLICY_RESOURCE_LIMITS: return "resource limits";
	case APUS_POLICY_WRITER_DATA_LIFECYCLE: return "writer data lifecycle";
	case APUS_POLICY_READER_DATA_LIFECYCLE: return "reader data lifecycle";
	case APUS_POLICY_TRANSPORT_PRIORITY: return "transport priority";
	case APUS_POLICY_LIFESPAN: return "lifespan";
	case APUS_POLICY_DATA_REPRESENTATION: return "data representation";
	case APUS_POLICY_TYPE_CONSISTENCY: return "type consistency";
	case APUS_POLICY_BATCH: return "batch";
	case APUS_POLICY_TOPIC: return "topic";
	case APUS_POLICY_TYPE: return "type";
	default: return "unknown";
	}
}
