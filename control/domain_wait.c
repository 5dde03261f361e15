/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conditions and waitsets (include/apus/waitset.h).
 *
 * A waitset is a target of watches (dataplane/watch.h): what fires is looked at, and stays in the ready list as
 * long as it is true, so that a wait costs what changed and what is true, not what is attached.
 *
 * Lock order: `life`, waitset, condition, control's lock, turn.
 */
#include "control/domain.h"

#include "dataplane/observe.h"

#include "control/filter.h"

#include <apus/waitset.h>

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Driven workers that one wait polls, at most; the others have to be polled by the application. */
#define DRIVEN_MAX 16
#define NAP_NS     (100 * APUS_NS_PER_US)

enum kind { GUARD, STATUS, READ };

/* Held by whoever ends a condition, a waitset or the endpoint of a condition, so that two of these may go in
 * different threads at the same time; and by a wait that polls an endpoint's worker, which must not end meanwhile. */
static pthread_mutex_t life = PTHREAD_MUTEX_INITIALIZER;

/* One condition in one waitset. */
struct attachment {
	struct apus_dp_watch watch;
	struct apus_condition *condition;
	struct apus_waitset *waitset;
	struct attachment *of_condition;               /* next; under the condition's lock */
	struct attachment *of_waitset, **waitset_link; /* next; under the waitset's lock */
	bool driven;                                   /* the endpoint's worker is, or was */
};

struct apus_condition {
	enum kind kind;
	pthread_mutex_t lock;
	struct attachment *attachments;
	_Atomic bool triggered; /* guard */
	/* Both NULL: a guard, or the endpoint is gone. */
	struct apus_writer *writer;
	struct apus_reader *reader;
	uint32_t mask; /* of statuses; READ: data available */
	const struct apus_observer *observer;
	struct apus_select select;
	struct apus_guid related_writer;
	struct apus_dp_predicate *query;
	struct apus_condition *next, **link; /* the endpoint's list; under control's lock */
};

struct apus_waitset {
	pthread_mutex_t lock;
	struct apus_dp_target target;
	struct attachment *attachments;
	uint32_t driven_count; /* attachments */
	bool fd_used;
	bool waiting; /* a thread is in apus_waitset_wait() */
};

/* --- conditions ----------------------------------------------------------------------------------- */

static struct apus_condition *new_condition(enum kind kind)
{
	struct apus_condition *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->kind = kind;
	pthread_mutex_init(&c->lock, NULL);
	return c;
}

static void enlist(struct apus_condition *c, struct apus_participant *p,
		   struct apus_condition **list)
{
	pthread_mutex_lock(&p->lock);
	c->next = *list;
	c->link = list;
	if (c->next)
		c->next->link = &c->next;
	*list = c;
	pthread_mutex_unlock(&p->lock);
}

int apus_writer_status_condition(struct apus_writer *writer, uint32_t mask,
				 const struct apus_observer *observer,
				 struct apus_condition **condition_out)
{
	struct apus_condition *c;

	if (!writer || !observer || !condition_out || !mask || mask & ~APUS_STATUS_WRITER_MASK)
		return APUS_EINVAL;
	if (!apus_dp_alive(writer->fork_count))
		return APUS_ECLOSED;
	c = new_condition(STATUS);
	if (!c)
		return APUS_ENOMEM;
	c->writer = writer;
	c->mask = mask;
	c->observer = observer;
	enlist(c, writer->participant, &writer->conditions);
	*condition_out = c;
	return 0;
}

int apus_reader_status_condition(struct apus_reader *reader, uint32_t mask,
				 const struct apus_observer *observer,
				 struct apus_condition **condition_out)
{
	struct apus_condition *c;

	if (!reader || !observer || !condition_out || !mask || mask & ~APUS_STATUS_READER_MASK)
		return APUS_EINVAL;
	if (!apus_dp_alive(reader->fork_count))
		return APUS_ECLOSED;
	c = new_condition(STATUS);
	if (!c)
		return APUS_ENOMEM;
	c->reader = reader;
	c->mask = mask;
	c->observer = observer;
	enlist(c, reader->participant, &reader->conditions);
	*condition_out = c;
	return 0;
}

int apus_reader_query_condition(struct apus_reader *reader, const struct apus_select *select,
				const char *expression, const char *const *parameters,
				uint32_t parameter_count, struct apus_filter_error *error_out,
				struct apus_condition **condition_out)
{
	struct apus_dp_predicate *query = NULL;
	struct apus_filter_error unused;
	struct apus_condition *c;
	int rc = 0;

	if (!reader || !expression || !condition_out)
		return APUS_EINVAL;
	if (!apus_dp_alive(reader->fork_count))
		return APUS_ECLOSED;
	rc = apus_ctl_domain_compile(reader->participant, reader->type, expression, parameters,
				     parameter_count, &query, error_out ? error_out : &unused);
	if (rc != 0)
		return rc;
	rc = apus_reader_read_condition(reader, select, &c);
	if (rc != 0) {
		apus_ctl_filter_free(query);
		return rc;
	}
	c->query = query;
	*condition_out = c;
	return 0;
}

int apus_reader_read_condition(struct apus_reader *reader, const struct apus_select *select,
			       struct apus_condition **condition_out)
{
	struct apus_condition *c;

	if (!reader || !condition_out)
		return APUS_EINVAL;
	if (!apus_dp_alive(reader->fork_count))
		return APUS_ECLOSED;
	c = new_condition(READ);
	if (!c)
		return APUS_ENOMEM;
	c->reader = reader;
	c->mask = APUS_STATUS_DATA_AVAILABLE;
	if (select)
		c->select = *select;
	if (c->select.related_writer) {
		c->related_writer = *c->select.related_writer;
		c->select.related_writer = &c->related_writer;
	}
	enlist(c, reader->participant, &reader->conditions);
	*condition_out = c;
	return 0;
}

int apus_guard_condition(struct apus_condition **condition_out)
{
	struct apus_condition *c;

	if (!condition_out)
		return APUS_EINVAL;
	c = new_condition(GUARD);
	if (!c)
		return APUS_ENOMEM;
	*condition_out = c;
	return 0;
}

int apus_guard_set(struct apus_condition *guard, bool triggered)
{
	if (!guard || guard->kind != GUARD)
		return APUS_EINVAL;
	/* seq_cst: before the watches fire; who collects them sees it. */
	atomic_store(&guard->triggered, triggered);
	if (!triggered)
		return 0;
	pthread_mutex_lock(&guard->lock);
	for (struct attachment *a = guard->attachments; a; a = a->of_condition)
		apus_dp_watch_fire(&a->watch);
	pthread_mutex_unlock(&guard->lock);
	return 0;
}

static bool has_samples(struct apus_condition *c)
{
	struct apus_reader *r = c->reader;
	bool has;

	apus_dp_worker_take_turn(r->worker);
	has = apus_dp_reader_has(r->dp, &c->select, c->query, apus_mono_now());
	apus_dp_worker_end_turn(r->worker);
	return has;
}

bool apus_condition_triggered(struct apus_condition *condition)
{
	uint64_t totals[APUS_DP_PLACES];
	bool is = false;

	if (condition->kind == GUARD)
		/* seq_cst, pairs with the store in apus_guard_set(). */
		return atomic_load(&condition->triggered);
	pthread_mutex_lock(&condition->lock);
	if (condition->kind == READ) {
		is = condition->reader && has_samples(condition);
	} else if (condition->writer || condition->reader) {
		if (condition->writer)
			apus_dp_writer_totals(condition->writer, condition->mask, totals);
		else
			apus_dp_reader_totals(condition->reader, condition->mask, totals);
		is = apus_dp_differing(totals, condition->observer, condition->mask) != 0;
	}
	pthread_mutex_unlock(&condition->lock);
	return is;
}

static int access_where(struct apus_condition *c, struct apus_sample *samples_out, uint32_t max,
			bool take)
{
	if (!c || c->kind != READ || !samples_out)
		return APUS_EINVAL;
	if (!c->reader)
		return APUS_ECLOSED;
	return apus_dp_access(c->reader, samples_out, max, &c->select, c->query, take);
}

int apus_take_where(struct apus_condition *condition, struct apus_sample *samples_out, uint32_t max)
{
	return access_where(condition, samples_out, max, true);
}

int apus_read_where(struct apus_condition *condition, struct apus_sample *samples_out, uint32_t max)
{
	return access_where(condition, samples_out, max, false);
}

/* --- joining -------------------------------------------------------------------------------------- */

/* Puts a watch on the condition's endpoint, or takes it off. Under the condition's lock. */
static void set_watch(struct apus_condition *c, struct apus_dp_watch *watch, uint32_t mask)
{
	if (c->writer)
		apus_ctl_domain_watch_writer(c->writer, watch, mask);
	else if (c->reader)
		apus_ctl_domain_watch_reader(c->reader, watch, mask);
}

/* Under the condition's lock. A condition is in few waitsets, a waitset may have thousands of conditions. */
static struct attachment *find(const struct apus_condition *c, const struct apus_waitset *ws)
{
	struct attachment *a = c->attachments;

	while (a && a->waitset != ws)
		a = a->of_condition;
	return a;
}

static struct apus_dp_worker *worker_of(const struct apus_condition *c)
{
	if (c->writer)
		return c->writer->worker;
	return c->reader ? c->reader->worker : NULL;
}

/* Under both locks. */
static int join(struct apus_waitset *ws, struct apus_condition *c)
{
	struct attachment *a;

	if (find(c, ws))
		return APUS_EEXIST;
	a = calloc(1, sizeof(*a));
	if (!a)
		return APUS_ENOMEM;
	a->watch.target = &ws->target;
	a->watch.owner = a;
	a->condition = c;
	a->waitset = ws;
	a->of_waitset = ws->attachments;
	a->waitset_link = &ws->attachments;
	if (a->of_waitset)
		a->of_waitset->waitset_link = &a->of_waitset;
	ws->attachments = a;
	a->of_condition = c->attachments;
	c->attachments = a;
	a->driven = worker_of(c) && !worker_of(c)->spawned;
	ws->driven_count += a->driven;
	set_watch(c, &a->watch, c->mask);
	apus_dp_watch_fire(&a->watch); /* it may be true already */
	return 0;
}

int apus_waitset_attach(struct apus_waitset *waitset, struct apus_condition *condition)
{
	int rc;

	if (!waitset || !condition)
		return APUS_EINVAL;
	pthread_mutex_lock(&waitset->lock);
	pthread_mutex_lock(&condition->lock);
	rc = join(waitset, condition);
	pthread_mutex_unlock(&condition->lock);
	pthread_mutex_unlock(&waitset->lock);
	return rc;
}

/* Under both locks. */
static void part(struct attachment *a)
{
	struct apus_condition *c = a->condition;
	struct attachment **link = &c->attachments;

	while (*link != a)
		link = &(*link)->of_condition;
	*link = a->of_condition;
	*a->waitset_link = a->of_waitset;
	if (a->of_waitset)
		a->of_waitset->waitset_link = a->waitset_link;
	a->waitset->driven_count -= a->driven;
	set_watch(c, &a->watch, 0);
	apus_dp_target_forget(&a->waitset->target, &a->watch);
	free(a);
}

int apus_waitset_detach(struct apus_waitset *waitset, struct apus_condition *condition)
{
	struct attachment *a;

	if (!waitset || !condition)
		return APUS_EINVAL;
	pthread_mutex_lock(&waitset->lock);
	pthread_mutex_lock(&condition->lock);
	a = find(condition, waitset);
	if (a)
		part(a);
	pthread_mutex_unlock(&condition->lock);
	pthread_mutex_unlock(&waitset->lock);
	return a ? 0 : APUS_ENOENT;
}

static struct apus_participant *participant_of(const struct apus_condition *c)
{
	if (c->writer)
		return c->writer->participant;
	return c->reader ? c->reader->participant : NULL;
}

static void delist(struct apus_condition *c)
{
	*c->link = c->next;
	if (c->next)
		c->next->link = c->link;
}

void apus_condition_destroy(struct apus_condition *condition)
{
	struct apus_participant *p;

	if (!condition)
		return;
	pthread_mutex_lock(&life);
	while (condition->attachments)
		apus_waitset_detach(condition->attachments->waitset, condition);
	p = participant_of(condition);
	if (p) {
		pthread_mutex_lock(&p->lock);
		delist(condition);
		pthread_mutex_unlock(&p->lock);
	}
	pthread_mutex_unlock(&life);
	apus_ctl_filter_free(condition->query);
	pthread_mutex_destroy(&condition->lock);
	free(condition);
}

/* The caller deletes the endpoint, so nobody makes conditions of it any more. */
void apus_ctl_domain_conditions_end(struct apus_participant *p, struct apus_condition **list)
{
	struct apus_condition *c;

	pthread_mutex_lock(&life);
	while ((c = *list)) {
		pthread_mutex_lock(&c->lock);
		for (struct attachment *a = c->attachments; a; a = a->of_condition)
			set_watch(c, &a->watch, 0);
		c->writer = NULL;
		c->reader = NULL;
		pthread_mutex_lock(&p->lock);
		delist(c);
		pthread_mutex_unlock(&p->lock);
		pthread_mutex_unlock(&c->lock);
	}
	pthread_mutex_unlock(&life);
}

/* --- waiting -------------------------------------------------------------------------------------- */

int apus_waitset_create(struct apus_waitset **waitset_out)
{
	struct apus_waitset *ws;
	int fd;

	if (!waitset_out)
		return APUS_EINVAL;
	ws = calloc(1, sizeof(*ws));
	if (!ws)
		return APUS_ENOMEM;
	fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (fd < 0) {
		free(ws);
		return APUS_EIO;
	}
	apus_dp_target_init(&ws->target, fd);
	pthread_mutex_init(&ws->lock, NULL);
	*waitset_out = ws;
	return 0;
}

void apus_waitset_destroy(struct apus_waitset *waitset)
{
	if (!waitset)
		return;
	pthread_mutex_lock(&life);
	while (waitset->attachments)
		apus_waitset_detach(waitset, waitset->attachments->condition);
	pthread_mutex_unlock(&life);
	close(waitset->target.fd);
	pthread_mutex_destroy(&waitset->lock);
	free(waitset);
}

/* Looks at what fired and at what was true; what is true stays. Returns how many are, `max` at most. */
static uint32_t look(struct apus_waitset *ws, struct apus_condition **out, uint32_t max)
{
	struct apus_dp_watch *last, *w;
	uint32_t count = 0;

	apus_dp_target_collect(&ws->target);
	last = ws->target.ready_last;
	while ((w = apus_dp_target_next(&ws->target))) {
		struct attachment *a = w->owner;

		if (apus_condition_triggered(a->condition)) {
			apus_dp_target_keep(&ws->target, w);
			if (count < max)
				out[count] = a->condition;
			count++;
		}
		if (w == last || (max && count == max))
			break;
	}
	return count;
}

struct driven {
	struct apus_dp_worker *worker[DRIVEN_MAX];
	uint32_t count;
};

/* The driven workers of what is attached. Under the waitset's lock. */
static void find_driven(struct apus_waitset *ws, struct driven *d)
{
	d->count = 0;
	for (struct attachment *a = ws->attachments; a && d->count < DRIVEN_MAX;
	     a = a->of_waitset) {
		struct apus_dp_worker *w;
		uint32_t i = 0;

		if (!a->driven)
			continue;
		pthread_mutex_lock(&a->condition->lock);
		w = worker_of(a->condition);
		pthread_mutex_unlock(&a->condition->lock);
		if (!w)
			continue;
		while (i < d->count && d->worker[i] != w)
			i++;
		if (i == d->count)
			d->worker[d->count++] = w;
	}
}

/* Polls the driven workers of what is attached; true if there are any. `life` keeps them. */
static bool poll_driven(struct apus_waitset *ws, int *work_out)
{
	struct driven d;

	*work_out = 0;
	pthread_mutex_lock(&life);
	pthread_mutex_lock(&ws->lock);
	find_driven(ws, &d);
	pthread_mutex_unlock(&ws->lock);
	for (uint32_t i = 0; i < d.count; i++) {
		if (!apus_dp_worker_try_turn(d.worker[i]))
			continue;
		*work_out += apus_dp_worker_poll(d.worker[i], apus_mono_now());
		apus_dp_worker_end_turn(d.worker[i]);
	}
	pthread_mutex_unlock(&life);
	return d.count > 0;
}

/* Sleeps, or polls driven workers, with the waitset unlocked; false if the time is over. */
static bool pass(struct apus_waitset *ws, struct apus_mono deadline)
{
	struct pollfd p = {.fd = ws->target.fd, .events = POLLIN};
	int64_t left_ns = deadline.ns - apus_mono_now().ns;
	struct timespec ts;
	bool driven = ws->driven_count > 0;
	int work = 0;

	if (left_ns <= 0)
		return false;
	pthread_mutex_unlock(&ws->lock);
	if (driven && poll_driven(ws, &work) && left_ns > NAP_NS)
		left_ns = NAP_NS;
	ts = (struct timespec){left_ns / APUS_NS_PER_SEC, left_ns % APUS_NS_PER_SEC};
	if (work == 0)
		ppoll(&p, 1, &ts, NULL);
	pthread_mutex_lock(&ws->lock);
	return true;
}

/* Under the waitset's lock. */
static uint32_t wait_locked(struct apus_waitset *ws, struct apus_condition **out, uint32_t max,
			    struct apus_mono deadline)
{
	uint32_t count;

	/* seq_cst: before anything is lowered or looked at (watch.h). */
	atomic_store(&ws->target.interest, 1);
	while ((count = look(ws, out, max)) == 0) {
		apus_dp_target_lower(&ws->target);
		if (apus_dp_target_is_pending(&ws->target))
			continue;
		if (!pass(ws, deadline))
			break;
	}
	if (!ws->fd_used)
		/* seq_cst, as above: nobody sleeps on it now. */
		atomic_store(&ws->target.interest, 0);
	else if (count)
		apus_dp_target_raise(&ws->target); /* a level: true until a wait finds nothing */
	return count;
}

int apus_waitset_wait(struct apus_waitset *waitset, struct apus_condition **conditions_out,
		      uint32_t max, int64_t timeout_ns)
{
	struct apus_mono deadline;
	uint32_t count;

	if (!waitset || (!conditions_out && max) || timeout_ns < 0)
		return APUS_EINVAL;
	if (timeout_ns && apus_dp_worker_thread)
		return APUS_EDEADLK;
	deadline = timeout_ns ? apus_mono_add(apus_mono_now(), timeout_ns) : (struct apus_mono){0};
	pthread_mutex_lock(&waitset->lock);
	if (waitset->waiting) {
		pthread_mutex_unlock(&waitset->lock);
		return APUS_EAGAIN;
	}
	waitset->waiting = true;
	count = wait_locked(waitset, conditions_out, max, deadline);
	waitset->waiting = false;
	pthread_mutex_unlock(&waitset->lock);
	return count ? (int)count : APUS_ETIMEDOUT;
}

int apus_waitset_fd(struct apus_waitset *waitset)
{
	if (!waitset)
		return APUS_EINVAL;
	pthread_mutex_lock(&waitset->lock);
	waitset->fd_used = true;
	/* seq_cst: before the look at what is ready. */
	atomic_store(&waitset->target.interest, 1);
	if (apus_dp_target_is_pending(&waitset->target) || waitset->target.ready_first)
		apus_dp_target_raise(&waitset->target);
	pthread_mutex_unlock(&waitset->lock);
	return waitset->target.fd;
}
