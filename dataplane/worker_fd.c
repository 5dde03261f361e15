/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The descriptor of a driven worker: an epoll set of all that such a worker has to be polled for. These are
 * datagrams, timers, and what others tell it (a snapshot to adopt, a listener to call).
 *
 * Nothing here runs unless somebody has asked for the descriptor. The timer is armed before the turn is given
 * up, so arming happens in the order of the turns. It may stand for an instant that is too early, never for
 * one that is too late.
 */
#include "dataplane/worker.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

static int join(int set, int fd)
{
	struct epoll_event e = {.events = EPOLLIN};

	return epoll_ctl(set, EPOLL_CTL_ADD, fd, &e);
}

int apus_dp_worker_fd(struct apus_dp_worker *worker)
{
	int set, timer;

	if (worker->event_fd >= 0)
		return worker->event_fd;
	set = epoll_create1(EPOLL_CLOEXEC);
	timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (set < 0 || timer < 0 || join(set, apus_dp_queue_fd(worker->config.queue)) != 0 ||
	    join(set, worker->wake_fd) != 0 || join(set, timer) != 0) {
		if (set >= 0)
			close(set);
		if (timer >= 0)
			close(timer);
		return APUS_EIO;
	}
	worker->event_fd = set;
	worker->timer_fd = timer;
	worker->timer_due_ns = INT64_MAX;
	/* seq_cst: F2's counterpart (watch.h); before the look at what is pending. */
	atomic_store(&worker->listeners.interest, 1);
	if (apus_dp_target_is_pending(&worker->listeners))
		apus_dp_target_raise(&worker->listeners);
	return set;
}

void apus_dp_worker_fd_arm(struct apus_dp_worker *worker)
{
	struct apus_mono next = apus_dp_wheel_next(&worker->wheel);
	struct itimerspec at = {{0, 0}, {0, 1}}; /* what is due already: at once; 0 would disarm */

	if (next.ns >= worker->timer_due_ns)
		return;
	worker->timer_due_ns = next.ns;
	if (next.ns > 0)
		at.it_value =
			(struct timespec){next.ns / APUS_NS_PER_SEC, next.ns % APUS_NS_PER_SEC};
	timerfd_settime(worker->timer_fd, TFD_TIMER_ABSTIME, &at, NULL);
}

void apus_dp_worker_fd_lower(struct apus_dp_worker *worker, struct apus_mono now)
{
	uint64_t count;

	apus_dp_target_lower(&worker->listeners);
	if (now.ns < worker->timer_due_ns)
		return;
	(void)!read(worker->timer_fd, &count, sizeof(count));
	worker->timer_due_ns = INT64_MAX; /* armed anew when the turn ends */
}
