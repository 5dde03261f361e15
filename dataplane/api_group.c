/* SPDX-License-Identifier: Apache-2.0 */
/* The public data calls of a subscriber (include/apus/group.h). */
#include "dataplane/entity.h"

int apus_subscriber_begin_access(struct apus_subscriber *subscriber)
{
	struct apus_dp_subscriber *g = &subscriber->dp;
	int rc = 0;

	if (!apus_dp_alive(subscriber->fork_count))
		return APUS_ECLOSED;
	apus_dp_worker_take_turn(subscriber->worker);
	if (g->access_depth == UINT32_MAX)
		rc = APUS_ELIMIT;
	else if (g->access_depth++ == 0)
		g->frozen = g->stamp;
	apus_dp_worker_end_turn(subscriber->worker);
	return rc;
}

int apus_subscriber_end_access(struct apus_subscriber *subscriber)
{
	struct apus_dp_subscriber *g = &subscriber->dp;
	int rc = 0;

	if (!apus_dp_alive(subscriber->fork_count))
		return APUS_ECLOSED;
	apus_dp_worker_take_turn(subscriber->worker);
	if (g->access_depth == 0)
		rc = APUS_EINVAL;
	else if (--g->access_depth == 0)
		apus_dp_group_thaw(g, apus_mono_now());
	apus_dp_worker_end_turn(subscriber->worker);
	return rc;
}

int apus_subscriber_readers(struct apus_subscriber *subscriber, const struct apus_select *select,
			    struct apus_reader **readers_out, uint32_t max)
{
	struct apus_dp_select s = {.stamp_max = 0};
	int n;

	if (!readers_out || max == 0 || max > INT32_MAX)
		return APUS_EINVAL;
	if (select && (select->instance != APUS_INSTANCE_NONE || select->next_instance ||
		       select->related_writer))
		return APUS_EINVAL;
	if (!apus_dp_alive(subscriber->fork_count))
		return APUS_ECLOSED;
	if (select) {
		s.instance_states = select->instance_states;
		s.sample_states = select->sample_states;
		s.view_states = select->view_states;
	}
	apus_dp_worker_take_turn(subscriber->worker);
	s.stamp_max = apus_dp_group_stamp_max(&subscriber->dp);
	n = (int)apus_dp_group_list(&subscriber->dp, &s, apus_mono_now(), (void **)readers_out,
				    max);
	apus_dp_worker_end_turn(subscriber->worker);
	return n;
}
