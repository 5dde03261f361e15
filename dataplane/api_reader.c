/* SPDX-License-Identifier: Apache-2.0 */
/* The public data calls of a reader (include/apus/participant.h). */
#include <apus/status.h>

#include "dataplane/entity.h"

#include <poll.h>

struct apus_guid apus_reader_guid(const struct apus_reader *reader)
{
	return reader->dp->config.guid;
}

const char *apus_reader_topic(const struct apus_reader *reader)
{
	return reader->topic;
}

uint32_t apus_reader_matched(const struct apus_reader *reader)
{
	/* Relaxed: a number to look at; nothing is published with it. */
	return atomic_load_explicit(&reader->dp->matched, memory_order_relaxed);
}

/* The time, if it matters to an access: lifespans and deadlines ask for it, and what is sent after one. Under
 * the turn. */
static struct apus_mono access_time(const struct apus_dp_reader *r)
{
	if (apus_dp_history_is_timed(&r->inbox.history) || r->any_refused || r->inbox.peers.leased)
		return apus_mono_now();
	return r->inbox.history.clock;
}

/* Is there nothing to take, and nothing that an access would change or be refused for? Under the turn. */
static bool is_idle(const struct apus_dp_reader *r)
{
	const struct apus_dp_history *h = &r->inbox.history;

	return h->first == APUS_DP_NONE && !r->event_raised && !r->any_refused && !h->purges &&
	       h->loan_count < h->options.max_loans && !r->inbox.late.items &&
	       !r->inbox.peers.leased;
}

int apus_dp_access(struct apus_reader *r, struct apus_sample *samples_out, uint32_t max,
		   const struct apus_select *select, const struct apus_dp_predicate *query,
		   bool take)
{
	struct apus_mono now;
	int n;

	if (!samples_out || max == 0)
		return APUS_EINVAL;
	if (!apus_dp_alive(r->fork_count))
		return APUS_ECLOSED;
	apus_dp_worker_take_turn(r->worker);
	/* Who takes in a loop need not poll the worker in between. */
	if (r->dp->shm_count && r->dp->inbox.history.first == APUS_DP_NONE)
		apus_dp_reader_fetch(r->dp);
	if (is_idle(r->dp)) {
		apus_dp_worker_end_turn(r->worker);
		return 0;
	}
	now = access_time(r->dp);
	apus_dp_reader_expire(r->dp, now);
	n = apus_dp_reader_access_where(r->dp, select, query, take, now, samples_out, max);
	if (!take && n > 0) /* conditions on read samples may be true now */
		apus_dp_watched_tell(&r->dp->watched, APUS_STATUS_DATA_AVAILABLE);
	apus_dp_worker_end_turn(r->worker);
	return n;
}

static int access(struct apus_reader *r, struct apus_sample *samples_out, uint32_t max,
		  const struct apus_select *select, bool take)
{
	return apus_dp_access(r, samples_out, max, select, NULL, take);
}

int apus_take(struct apus_reader *reader, struct apus_sample *samples_out, uint32_t max,
	      const struct apus_select *select)
{
	return access(reader, samples_out, max, select, true);
}

int apus_read(struct apus_reader *reader, struct apus_sample *samples_out, uint32_t max,
	      const struct apus_select *select)
{
	return access(reader, samples_out, max, select, false);
}

static int access_next(struct apus_reader *r, struct apus_sample *samples_out, uint32_t max,
		       apus_instance previous, const struct apus_select *select, bool take)
{
	struct apus_select s = {0};

	if (select)
		s = *select;
	if (s.instance != APUS_INSTANCE_NONE)
		return APUS_EINVAL;
	s.instance = previous;
	s.next_instance = true;
	return access(r, samples_out, max, &s, take);
}

int apus_take_next_instance(struct apus_reader *reader, struct apus_sample *samples_out,
			    uint32_t max, apus_instance previous, const struct apus_select *select)
{
	return access_next(reader, samples_out, max, previous, select, true);
}

int apus_read_next_instance(struct apus_reader *reader, struct apus_sample *samples_out,
			    uint32_t max, apus_instance previous, const struct apus_select *select)
{
	return access_next(reader, samples_out, max, previous, select, false);
}

apus_instance apus_reader_lookup_instance(struct apus_reader *reader, const void *sample)
{
	const struct apus_dp_instances *t = &reader->dp->inbox.history.instances;
	const struct apus_dp_instance *i = NULL;
	apus_instance handle = APUS_INSTANCE_NONE;
	uint8_t key[APUS_DP_KEY_BYTES_MAX];
	int n;

	if (!sample || reader->dp->plan->max_bytes == 0 || !apus_dp_alive(reader->fork_count))
		return APUS_INSTANCE_NONE;
	n = apus_wire_key_from_sample(reader->dp->plan, sample, key, sizeof(key));
	if (n < 0)
		return APUS_INSTANCE_NONE;
	apus_dp_worker_take_turn(reader->worker);
	i = apus_dp_instances_find(t, key, (size_t)n);
	/* One that only remembers an owner has never been shown. */
	if (i && i->ever_stored)
		handle = i->handle;
	apus_dp_worker_end_turn(reader->worker);
	return handle;
}

int apus_reader_instance_key(struct apus_reader *reader, apus_instance instance, void *payload_out,
			     size_t payload_bytes)
{
	const struct apus_dp_reader *r = reader->dp;
	const struct apus_dp_instance *i;
	int rc = APUS_ENOENT;

	if (!payload_out)
		return APUS_EINVAL;
	if (!apus_dp_alive(reader->fork_count))
		return APUS_ECLOSED;
	apus_dp_worker_take_turn(reader->worker);
	i = r->plan->max_bytes ? apus_dp_instances_get(&r->inbox.history.instances, instance)
			       : NULL;
	if (i && i->ever_stored)
		rc = apus_wire_key_payload(
			r->plan, apus_dp_instances_key(&r->inbox.history.instances, i),
			i->key_bytes, r->config.representation, payload_out, payload_bytes);
	apus_dp_worker_end_turn(reader->worker);
	return rc;
}

int apus_return(struct apus_reader *reader, struct apus_sample *samples, uint32_t count)
{
	int rc = 0;

	if (!samples && count)
		return APUS_EINVAL;
	if (!apus_dp_alive(reader->fork_count))
		return APUS_ECLOSED;
	apus_dp_worker_take_turn(reader->worker);
	for (uint32_t i = 0; i < count; i++)
		if (apus_dp_reader_return(reader->dp, &samples[i]) != 0)
			rc = APUS_EINVAL;
	apus_dp_worker_end_turn(reader->worker);
	return rc;
}

int apus_reader_fd(struct apus_reader *reader)
{
	int fd;

	if (!apus_dp_alive(reader->fork_count))
		return APUS_ECLOSED;
	apus_dp_worker_take_turn(reader->worker);
	fd = apus_dp_reader_fd(reader->dp, apus_mono_now());
	apus_dp_worker_end_turn(reader->worker);
	return fd;
}

/* Waits on the eventfd until the deadline; true if it became readable. */
static bool sleep_on(int fd, struct apus_mono deadline)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int64_t ns = deadline.ns - apus_mono_now().ns;
	struct timespec ts = {ns / APUS_NS_PER_SEC, ns % APUS_NS_PER_SEC};

	return ns > 0 && ppoll(&p, 1, &ts, NULL) > 0;
}

int apus_reader_wait(struct apus_reader *reader, int64_t timeout_ns)
{
	struct apus_mono deadline = apus_mono_add(apus_mono_now(), timeout_ns);
	int fd = apus_reader_fd(reader);
	bool available;

	if (fd < 0)
		return fd;
	for (;;) {
		apus_dp_worker_take_turn(reader->worker);
		available = apus_dp_reader_available(reader->dp, apus_mono_now());
		apus_dp_worker_end_turn(reader->worker);
		if (available)
			return 0;
		if (!apus_mono_before(apus_mono_now(), deadline))
			return APUS_ETIMEDOUT;
		if (apus_dp_worker_thread)
			return APUS_EDEADLK;
		if (reader->worker->spawned)
			sleep_on(fd, deadline);
		else
			apus_dp_pass_time_until(reader->worker, deadline);
	}
}

int apus_reader_wait_matched(struct apus_reader *reader, uint32_t count, int64_t timeout_ns)
{
	struct apus_mono deadline = apus_mono_add(apus_mono_now(), timeout_ns);

	if (!apus_dp_alive(reader->fork_count))
		return APUS_ECLOSED;
	while (apus_reader_matched(reader) < count) {
		if (!apus_mono_before(apus_mono_now(), deadline))
			return APUS_ETIMEDOUT;
		if (apus_dp_worker_thread)
			return APUS_EDEADLK;
		apus_dp_pass_time_until(reader->worker, deadline);
	}
	return 0;
}
