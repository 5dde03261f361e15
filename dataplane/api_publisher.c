/* SPDX-License-Identifier: Apache-2.0 */
/* The public data calls of a publisher (include/apus/group.h). */
#include "dataplane/entity.h"

int apus_publisher_begin_coherent(struct apus_publisher *publisher)
{
	int rc;

	if (!apus_dp_alive(publisher->fork_count))
		return APUS_ECLOSED;
	apus_dp_worker_take_turn(publisher->worker);
	rc = apus_dp_publisher_begin(&publisher->dp);
	apus_dp_worker_end_turn(publisher->worker);
	return rc;
}

int apus_publisher_end_coherent(struct apus_publisher *publisher)
{
	int rc;

	if (!apus_dp_alive(publisher->fork_count))
		return APUS_ECLOSED;
	apus_dp_worker_take_turn(publisher->worker);
	rc = apus_dp_publisher_end(&publisher->dp, publisher->worker, apus_wall_now(),
				   apus_mono_now());
	apus_dp_worker_end_turn(publisher->worker);
	return rc;
}

int apus_publisher_suspend(struct apus_publisher *publisher)
{
	int rc;

	if (!apus_dp_alive(publisher->fork_count))
		return APUS_ECLOSED;
	apus_dp_worker_take_turn(publisher->worker);
	rc = apus_dp_publisher_suspend(&publisher->dp, publisher->worker);
	apus_dp_worker_end_turn(publisher->worker);
	return rc;
}

int apus_publisher_resume(struct apus_publisher *publisher)
{
	int rc;

	if (!apus_dp_alive(publisher->fork_count))
		return APUS_ECLOSED;
	apus_dp_worker_take_turn(publisher->worker);
	rc = apus_dp_publisher_resume(&publisher->dp, publisher->worker, apus_mono_now());
	apus_dp_worker_end_turn(publisher->worker);
	return rc;
}
