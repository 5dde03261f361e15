/* SPDX-License-Identifier: Apache-2.0 */
/* Publishers and subscribers: their life, and how endpoints join them (include/apus/group.h). */
#include "control/domain.h"

#include <stdlib.h>

/* Entity kind of a writer group (RTPS 2.5 table 9.1). */
#define KIND_WRITER_GROUP 0x08u

static int check_group(const struct apus_participant *p, const struct apus_group_options *o)
{
	if (!apus_dp_alive(p->fork_count))
		return APUS_ECLOSED;
	return o->access_scope <= APUS_SCOPE_GROUP && o->worker_idx < p->worker_count ? 0
										      : APUS_EINVAL;
}

int apus_publisher_create(struct apus_participant *participant,
			  const struct apus_group_options *options,
			  struct apus_publisher **publisher_out)
{
	static const struct apus_group_options none;
	const struct apus_group_options *o = options ? options : &none;
	struct apus_publisher *g;
	int rc = check_group(participant, o);

	if (rc != 0)
		return rc;
	g = calloc(1, sizeof(*g));
	if (!g)
		return APUS_ENOMEM;
	g->dp.access_scope = o->access_scope;
	g->dp.coherent_access = o->coherent_access;
	g->dp.ordered_access = o->ordered_access;
	g->participant = participant;
	g->worker = participant->workers[o->worker_idx];
	g->worker_idx = o->worker_idx;
	g->fork_count = participant->fork_count;
	pthread_mutex_lock(&participant->lock);
	g->dp.eid.value = (++participant->entity_key & 0xffffff) << 8 | KIND_WRITER_GROUP;
	g->next = participant->publishers;
	g->link = &participant->publishers;
	if (g->next)
		g->next->link = &g->next;
	participant->publishers = g;
	pthread_mutex_unlock(&participant->lock);
	*publisher_out = g;
	return 0;
}

int apus_publisher_destroy(struct apus_publisher *publisher)
{
	struct apus_participant *p;
	int rc = APUS_EINVAL;

	if (!publisher)
		return 0;
	if (!apus_dp_alive(publisher->fork_count))
		return APUS_ECLOSED;
	p = publisher->participant;
	pthread_mutex_lock(&p->lock);
	if (publisher->member_count == 0) {
		*publisher->link = publisher->next;
		if (publisher->next)
			publisher->next->link = publisher->link;
		rc = 0;
	}
	pthread_mutex_unlock(&p->lock);
	if (rc == 0)
		free(publisher);
	return rc;
}

int apus_subscriber_create(struct apus_participant *participant,
			   const struct apus_group_options *options,
			   struct apus_subscriber **subscriber_out)
{
	static const struct apus_group_options none;
	const struct apus_group_options *o = options ? options : &none;
	struct apus_subscriber *g;
	int rc = check_group(participant, o);

	if (rc != 0)
		return rc;
	g = calloc(1, sizeof(*g));
	if (!g)
		return APUS_ENOMEM;
	g->dp.access_scope = o->access_scope;
	g->dp.coherent_access = o->coherent_access;
	g->dp.ordered_access = o->ordered_access;
	g->participant = participant;
	g->worker = participant->workers[o->worker_idx];
	g->worker_idx = o->worker_idx;
	g->fork_count = participant->fork_count;
	g->dp.stamp = 1;
	pthread_mutex_lock(&participant->lock);
	g->next = participant->subscribers;
	g->link = &participant->subscribers;
	if (g->next)
		g->next->link = &g->next;
	participant->subscribers = g;
	pthread_mutex_unlock(&participant->lock);
	*subscriber_out = g;
	return 0;
}

int apus_subscriber_destroy(struct apus_subscriber *subscriber)
{
	struct apus_participant *p;
	int rc = APUS_EINVAL;

	if (!subscriber)
		return 0;
	if (!apus_dp_alive(subscriber->fork_count))
		return APUS_ECLOSED;
	p = subscriber->participant;
	pthread_mutex_lock(&p->lock);
	if (subscriber->member_count == 0) {
		*subscriber->link = subscriber->next;
		if (subscriber->next)
			subscriber->next->link = subscriber->link;
		rc = 0;
	}
	pthread_mutex_unlock(&p->lock);
	if (rc == 0)
		free(subscriber);
	return rc;
}

/* A member's QoS takes its group's presentation if it is silent about it, or says the same. */
static int take_presentation(struct apus_qos *qos, uint8_t scope, bool coherent, bool ordered)
{
	bool silent = qos->access_scope == APUS_SCOPE_INSTANCE && !qos->coherent_access &&
		      !qos->ordered_access;

	if (!silent && (qos->access_scope != scope || qos->coherent_access != coherent ||
			qos->ordered_access != ordered))
		return APUS_EINVAL;
	qos->access_scope = scope;
	qos->coherent_access = coherent;
	qos->ordered_access = ordered;
	return 0;
}

int apus_ctl_domain_join(const struct apus_participant *p, const struct apus_endpoint_options *o,
			 bool is_writer, struct apus_qos *qos)
{
	const struct apus_publisher *w = o->publisher;
	const struct apus_subscriber *r = o->subscriber;

	if (is_writer ? r != NULL : w != NULL)
		return APUS_EINVAL;
	if ((w && (w->participant != p || w->worker_idx != o->worker_idx)) ||
	    (r && (r->participant != p || r->worker_idx != o->worker_idx)))
		return APUS_EINVAL;
	if (w)
		return take_presentation(qos, w->dp.access_scope, w->dp.coherent_access,
					 w->dp.ordered_access);
	if (r)
		return take_presentation(qos, r->dp.access_scope, r->dp.coherent_access,
					 r->dp.ordered_access);
	return 0;
}
