/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Public questions about types: what type an endpoint has, and why two endpoints do not match.
 *
 * A question that needs answers from others waits outside the lock and looks again; descriptors made are
 * kept, one for each complete hash, until the participant ends.
 */
#include "control/assign.h"
#include "control/domain.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* How often a waiting question looks for answers. */
#define LOOK_NS (5 * APUS_NS_PER_MS)
/* Descriptors kept. */
#define FOUND_MAX 1024

struct apus_ctl_type_found {
	struct apus_ctl_type_found *next;
	struct apus_wire_type_hash complete;
	struct apus_ctl_built *built;
};

void apus_ctl_domain_forget_found(struct apus_participant *p)
{
	while (p->types_found) {
		struct apus_ctl_type_found *next = p->types_found->next;

		apus_ctl_built_free(p->types_found->built);
		free(p->types_found);
		p->types_found = next;
	}
}

/* --- the type of an endpoint --------------------------------------------------------------------- */

static const struct apus_type *found(const struct apus_participant *p,
				     const struct apus_wire_type_hash *complete)
{
	const struct apus_ctl_type_found *f = p->types_found;

	while (f && !apus_wire_type_hash_equal(&f->complete, complete))
		f = f->next;
	return f ? apus_ctl_built_type(f->built) : NULL;
}

static int build(struct apus_participant *p, const struct apus_wire_type_information *information,
		 const struct apus_type **type_out)
{
	struct apus_ctl_type_found *f;
	int rc;

	if (p->types_found_count == FOUND_MAX)
		return APUS_ELIMIT;
	f = calloc(1, sizeof(*f));
	if (!f)
		return APUS_ENOMEM;
	rc = apus_ctl_type_build(p->types, information, &f->built);
	if (rc != 0) {
		free(f);
		return rc;
	}
	f->complete = information->complete;
	f->next = p->types_found;
	p->types_found = f;
	p->types_found_count++;
	*type_out = apus_ctl_built_type(f->built);
	return 0;
}

/* APUS_EAGAIN: not all is known yet. Under lock. */
static int look(struct apus_participant *p, const struct apus_guid *guid,
		const struct apus_type **type_out)
{
	struct apus_ctl_endpoint *e = apus_ctl_graph_endpoint(p->graph, guid);
	const struct apus_wire_type_information *information;
	struct apus_prefix prefix = apus_guid_prefix(guid);

	if (!e || e->is_builtin)
		return APUS_ENOENT;
	*type_out = e->is_local ? e->local.type : NULL;
	if (*type_out)
		return 0;
	information = &e->record->types;
	if (information->complete.kind == APUS_WIRE_EK_NONE)
		return APUS_ENOENT;
	*type_out = found(p, &information->complete);
	if (*type_out)
		return 0;
	if (apus_ctl_types_closure(p->types, &information->complete, &prefix, apus_mono_now()) !=
	    APUS_CTL_CLOSURE_COMPLETE) {
		apus_dp_worker_wake(p->control);
		return APUS_EAGAIN;
	}
	return build(p, information, type_out);
}

static void pause_for(int64_t ns)
{
	struct timespec t = {.tv_nsec = (long)ns};

	nanosleep(&t, NULL);
}

int apus_type_lookup(struct apus_participant *participant, const struct apus_guid *endpoint,
		     int64_t timeout_ns, const struct apus_type **type_out)
{
	struct apus_mono end = apus_mono_add(apus_mono_now(), timeout_ns);
	const struct apus_type *type;
	int rc;

	if (!endpoint || !type_out || timeout_ns < 0)
		return APUS_EINVAL;
	if (!apus_dp_alive(participant->fork_count))
		return APUS_ECLOSED;
	for (;;) {
		pthread_mutex_lock(&participant->lock);
		rc = look(participant, endpoint, &type);
		pthread_mutex_unlock(&participant->lock);
		if (rc != APUS_EAGAIN)
			break;
		if (!apus_mono_before(apus_mono_now(), end))
			return APUS_ETIMEDOUT;
		pause_for(LOOK_NS);
	}
	if (rc == 0)
		*type_out = type;
	return rc;
}

/* --- why two do not match ------------------------------------------------------------------------ */

/* Types that differ: the reason, or that it is not known yet. Under lock. */
static int explain(struct apus_participant *p, const struct apus_wire_endpoint_record *w,
		   const struct apus_wire_endpoint_record *r, char *why, size_t why_bytes)
{
	struct apus_prefix from[2] = {apus_guid_prefix(&w->guid), apus_guid_prefix(&r->guid)};
	const struct apus_wire_type_hash *hash[2] = {&w->types.minimal, &r->types.minimal};
	char reason[APUS_CTL_ASSIGN_WHY_BYTES];
	bool wanted = false;

	for (int i = 0; i < 2; i++)
		wanted |= apus_ctl_types_closure(p->types, hash[i],
						 apus_prefix_equal(&from[i], &p->prefix) ? NULL
											 : &from[i],
						 apus_mono_now()) == APUS_CTL_CLOSURE_WANTED;
	if (wanted) {
		apus_dp_worker_wake(p->control);
		return APUS_EAGAIN;
	}
	apus_ctl_types_assignable(p->types, hash[1], hash[0], &r->qos.consistency, reason);
	snprintf(why, why_bytes, "%s", reason);
	return APUS_POLICY_TYPE;
}

/* The policy at hand, with a sentence where it is one of types. Under lock. */
static int mismatch(struct apus_participant *p, const struct apus_wire_endpoint_record *w,
		    const struct apus_wire_endpoint_record *r, char *why, size_t why_bytes)
{
	const struct apus_ctl_type_rule rule = {
		.strict = p->config.type_matching == APUS_CTL_TYPES_STRICT,
		.assignable = apus_ctl_domain_assignable,
		.user = p,
	};
	int policy = apus_ctl_graph_mismatch(w, r, &rule);

	if (policy == APUS_POLICY_TYPE_CONSISTENCY)
		snprintf(why, why_bytes, "the reader wants types validated; one is not announced");
	if (policy != APUS_POLICY_TYPE)
		return policy;
	if (strcmp(apus_wire_record_text(w, w->type), apus_wire_record_text(r, r->type)) != 0)
		snprintf(why, why_bytes, "the type names differ");
	else if (!w->types.minimal.kind || !r->types.minimal.kind)
		snprintf(why, why_bytes, "one type is not announced, and type_matching is strict");
	else if (r->qos.consistency.kind == APUS_DISALLOW_TYPE_COERCION)
		snprintf(why, why_bytes, "the types differ, and the reader allows no coercion");
	else
		return explain(p, w, r, why, why_bytes);
	return policy;
}

int apus_pair_mismatch(struct apus_participant *participant, const struct apus_guid *writer,
		       const struct apus_guid *reader, char *why_out, size_t why_bytes)
{
	struct apus_ctl_endpoint *w, *r;
	char ignored[8];
	int rc = APUS_ENOENT;

	if (!writer || !reader)
		return APUS_EINVAL;
	if (!apus_dp_alive(participant->fork_count))
		return APUS_ECLOSED;
	if (!why_out || why_bytes == 0) {
		why_out = ignored;
		why_bytes = sizeof(ignored);
	}
	why_out[0] = '\0';
	pthread_mutex_lock(&participant->lock);
	w = apus_ctl_graph_endpoint(participant->graph, writer);
	r = apus_ctl_graph_endpoint(participant->graph, reader);
	if (w && r && (w->is_builtin || r->is_builtin || !w->is_writer || r->is_writer))
		rc = APUS_EINVAL;
	else if (w && r)
		rc = mismatch(participant, w->record, r->record, why_out, why_bytes);
	pthread_mutex_unlock(&participant->lock);
	return rc;
}
