/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Telling the application what changed: what control publishes for everybody, and listeners.
 *
 * One recursive lock a participant serialises all callbacks, so that an entity can be deleted from any of them
 * and a listener that was replaced is not running any more. It comes before control's lock and before every turn,
 * and callbacks run with nothing else held. A worker whose callbacks would have to wait for another's goes to
 * sleep, and is woken by whoever gives the lock up.
 */
#include "control/domain.h"

#include "dataplane/observe.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* --- what control knows --------------------------------------------------------------------------- */

/* Which kinds of a writer or reader the difference between two looks of control amounts to. */
static uint32_t changed_kinds(const struct apus_ctl_endpoint *e,
			      const struct apus_dp_graph_status *before)
{
	uint32_t kinds = 0;

	if (e->transitions != before->transitions)
		kinds |= APUS_STATUS_PUBLICATION_MATCHED | APUS_STATUS_SUBSCRIPTION_MATCHED;
	if (e->incompatible_total != before->incompatible)
		kinds |= APUS_STATUS_OFFERED_INCOMPATIBLE_QOS |
			 APUS_STATUS_REQUESTED_INCOMPATIBLE_QOS;
	if (e->inconsistent_topics != before->inconsistent)
		kinds |= APUS_STATUS_INCONSISTENT_TOPIC;
	return kinds;
}

void apus_ctl_domain_published(void *user, struct apus_ctl_endpoint *endpoint, uint32_t dirty)
{
	struct apus_dp_board *board = endpoint->local.board;
	struct apus_dp_graph_status s;
	uint32_t kinds;

	(void)user;
	(void)dirty;
	if (!board)
		return;
	apus_dp_board_mine(board, &s);
	kinds = changed_kinds(endpoint, &s);
	if (!kinds)
		return;
	s.current = endpoint->match_count;
	s.total = endpoint->matched_total;
	s.transitions = endpoint->transitions;
	s.incompatible = endpoint->incompatible_total;
	s.inconsistent = endpoint->inconsistent_topics;
	s.last_policy = endpoint->incompatible_policy;
	apus_dp_board_write(board, &s);
	if (endpoint->is_writer) {
		struct apus_writer *w = endpoint->local.owner;

		apus_dp_watched_tell(&w->dp->watched, kinds);
	} else {
		struct apus_reader *r = endpoint->local.owner;

		apus_dp_watched_tell(&r->dp->watched, kinds);
	}
}

/* --- watches of an endpoint ------------------------------------------------------------------------ */

void apus_ctl_domain_watch_writer(struct apus_writer *w, struct apus_dp_watch *watch, uint32_t mask)
{
	pthread_mutex_lock(&w->participant->lock);
	apus_dp_worker_take_turn(w->worker);
	apus_dp_watched_set(&w->dp->watched, watch, mask);
	apus_dp_writer_want_alarm(w->dp, apus_mono_now());
	apus_dp_worker_end_turn(w->worker);
	pthread_mutex_unlock(&w->participant->lock);
}

void apus_ctl_domain_watch_reader(struct apus_reader *r, struct apus_dp_watch *watch, uint32_t mask)
{
	pthread_mutex_lock(&r->participant->lock);
	apus_dp_worker_take_turn(r->worker);
	apus_dp_watched_set(&r->dp->watched, watch, mask);
	apus_dp_reader_want_alarm(r->dp, apus_mono_now());
	apus_dp_worker_end_turn(r->worker);
	pthread_mutex_unlock(&r->participant->lock);
}

static void set_watch(struct apus_dp_listening *l, struct apus_dp_watch *watch, uint32_t mask)
{
	if (l->is_writer)
		apus_ctl_domain_watch_writer(l->writer, watch, mask);
	else
		apus_ctl_domain_watch_reader(l->reader, watch, mask);
}

/* --- the lock ------------------------------------------------------------------------------------- */

/* A bit a worker. */
_Static_assert(APUS_CTL_CORES_MAX <= 64, "a worker has a bit in listen_missed");

/* Gives the listeners' lock up. M1: the exchange comes after the unlocking, and M2 before a second try; both are
 * read-modify-writes of one word, so either M1 sees the bit, or that try comes after this unlocking. */
static void unlock(struct apus_participant *p)
{
	uint64_t missed;

	pthread_mutex_unlock(&p->listen_lock);
	missed = atomic_exchange(&p->listen_missed, 0); /* M1, seq_cst */
	for (uint32_t i = 0; missed; i++, missed >>= 1)
		if (missed & 1)
			apus_dp_worker_wake(p->workers[i]);
}

static uint64_t worker_bit(const struct apus_participant *p, const struct apus_dp_worker *worker)
{
	uint32_t i = 0;

	while (p->workers[i] != worker)
		i++;
	return UINT64_C(1) << i;
}

/* The lock, or false: the worker will be woken. */
static bool try_lock(struct apus_participant *p, struct apus_dp_worker *worker)
{
	if (pthread_mutex_trylock(&p->listen_lock) == 0)
		return true;
	atomic_fetch_or(&p->listen_missed, worker_bit(p, worker)); /* M2, seq_cst */
	return pthread_mutex_trylock(&p->listen_lock) == 0;
}

/* --- masks ---------------------------------------------------------------------------------------- */

static uint32_t writer_mask(const struct apus_listener *l)
{
	return (l->on_offered_incompatible_qos ? APUS_STATUS_OFFERED_INCOMPATIBLE_QOS : 0) |
	       (l->on_publication_matched ? APUS_STATUS_PUBLICATION_MATCHED : 0) |
	       (l->on_liveliness_lost ? APUS_STATUS_LIVELINESS_LOST : 0) |
	       (l->on_offered_deadline_missed ? APUS_STATUS_OFFERED_DEADLINE_MISSED : 0);
}

static uint32_t reader_mask(const struct apus_listener *l)
{
	return (l->on_requested_incompatible_qos ? APUS_STATUS_REQUESTED_INCOMPATIBLE_QOS : 0) |
	       (l->on_subscription_matched ? APUS_STATUS_SUBSCRIPTION_MATCHED : 0) |
	       (l->on_liveliness_changed ? APUS_STATUS_LIVELINESS_CHANGED : 0) |
	       (l->on_requested_deadline_missed ? APUS_STATUS_REQUESTED_DEADLINE_MISSED : 0) |
	       (l->on_sample_lost ? APUS_STATUS_SAMPLE_LOST : 0) |
	       (l->on_sample_rejected ? APUS_STATUS_SAMPLE_REJECTED : 0) |
	       (l->on_data_available ? APUS_STATUS_DATA_AVAILABLE : 0);
}

static uint32_t mask_of(const struct apus_listener *l, bool is_writer)
{
	return (is_writer ? writer_mask(l) : reader_mask(l)) |
	       (l->on_inconsistent_topic ? APUS_STATUS_INCONSISTENT_TOPIC : 0);
}

static struct apus_dp_target *target_of(struct apus_participant *p, const struct apus_listener *l)
{
	return l->on == APUS_LISTEN_WORKER ? &p->workers[l->worker_idx]->listeners : &p->dispatch;
}

static bool is_sound(const struct apus_participant *p, const struct apus_listener *l)
{
	if (l->on != APUS_LISTEN_DISPATCH && l->on != APUS_LISTEN_WORKER)
		return false;
	return l->on == APUS_LISTEN_WORKER ? l->worker_idx < p->worker_count : l->worker_idx == 0;
}

/* Ends one watch, wherever it is queued. Under the listeners' lock. */
static void end_watch(struct apus_dp_listening *l, struct apus_dp_watch *w)
{
	if (!w->target)
		return;
	if (w->mask)
		set_watch(l, w, 0);
	apus_dp_target_forget(w->target, w);
	w->target = NULL;
}

static void begin_watch(struct apus_dp_listening *l, struct apus_dp_watch *w,
			struct apus_dp_target *target, uint32_t mask)
{
	if (!mask)
		return;
	w->target = target;
	w->owner = l;
	set_watch(l, w, mask);
	apus_dp_watch_fire(w); /* something may have changed before */
}

/* Brings both watches in line with the listeners. Under the listeners' lock. */
static void apply(struct apus_participant *p, struct apus_dp_listening *l)
{
	uint32_t own = mask_of(&l->listener, l->is_writer);
	uint32_t inherited = mask_of(&p->listener, l->is_writer) & ~own;

	end_watch(l, &l->own);
	end_watch(l, &l->inherited);
	begin_watch(l, &l->own, target_of(p, &l->listener), own);
	begin_watch(l, &l->inherited, target_of(p, &p->listener), inherited);
}

/* Endpoints have one as soon as somebody listens, to them or to all. NULL without memory. Under the listeners'
 * lock. */
static struct apus_dp_listening *join(struct apus_participant *p, struct apus_dp_listening **of)
{
	struct apus_dp_listening *l = *of;

	if (l)
		return l;
	l = calloc(1, sizeof(*l));
	if (!l)
		return NULL;
	l->next = p->listenings;
	l->link = &p->listenings;
	if (l->next)
		l->next->link = &l->next;
	p->listenings = l;
	*of = l;
	return l;
}

static struct apus_dp_listening *join_writer(struct apus_writer *w)
{
	struct apus_dp_listening *l = join(w->participant, &w->listening);

	if (l) {
		l->is_writer = true;
		l->writer = w;
	}
	return l;
}

static struct apus_dp_listening *join_reader(struct apus_reader *r)
{
	struct apus_dp_listening *l = join(r->participant, &r->listening);

	if (l)
		l->reader = r;
	return l;
}

/* Every endpoint but those that are being deleted. Under the listeners' lock; false without memory. */
static bool join_all(struct apus_participant *p)
{
	bool ok = true;

	pthread_mutex_lock(&p->lock);
	for (struct apus_writer *w = p->writers; w; w = w->next)
		ok = ok && (w->deaf || join_writer(w));
	for (struct apus_reader *r = p->readers; r; r = r->next)
		ok = ok && (r->deaf || join_reader(r));
	pthread_mutex_unlock(&p->lock);
	return ok;
}

static bool hears_anything(const struct apus_listener *l)
{
	return mask_of(l, true) || mask_of(l, false);
}

static void replace_listener(struct apus_participant *p, struct apus_dp_listening *l,
			     const struct apus_listener *listener)
{
	l->listener = listener ? *listener : (struct apus_listener){0};
	apply(p, l);
}

int apus_writer_set_listener(struct apus_writer *writer, const struct apus_listener *listener)
{
	struct apus_dp_listening *l;
	struct apus_participant *p;

	if (!writer ||
	    (listener && (!is_sound(writer->participant, listener) || reader_mask(listener))))
		return APUS_EINVAL;
	if (!apus_dp_alive(writer->fork_count))
		return APUS_ECLOSED;
	p = writer->participant;
	pthread_mutex_lock(&p->listen_lock);
	l = listener ? join_writer(writer) : writer->listening;
	if (l)
		replace_listener(p, l, listener);
	unlock(p);
	return listener && !l ? APUS_ENOMEM : 0;
}

int apus_reader_set_listener(struct apus_reader *reader, const struct apus_listener *listener)
{
	struct apus_dp_listening *l;
	struct apus_participant *p;

	if (!reader ||
	    (listener && (!is_sound(reader->participant, listener) || writer_mask(listener))))
		return APUS_EINVAL;
	if (!apus_dp_alive(reader->fork_count))
		return APUS_ECLOSED;
	p = reader->participant;
	pthread_mutex_lock(&p->listen_lock);
	l = listener ? join_reader(reader) : reader->listening;
	if (l)
		replace_listener(p, l, listener);
	unlock(p);
	return listener && !l ? APUS_ENOMEM : 0;
}

int apus_participant_set_listener(struct apus_participant *participant,
				  const struct apus_listener *listener)
{
	struct apus_participant *p = participant;
	bool joined;

	if (!p || (listener && !is_sound(p, listener)))
		return APUS_EINVAL;
	if (!apus_dp_alive(p->fork_count))
		return APUS_ECLOSED;
	pthread_mutex_lock(&p->listen_lock);
	joined = !listener || !hears_anything(listener) || join_all(p);
	if (joined) {
		p->listener = listener ? *listener : (struct apus_listener){0};
		for (struct apus_dp_listening *l = p->listenings; l; l = l->next)
			apply(p, l);
	}
	unlock(p);
	return joined ? 0 : APUS_ENOMEM;
}

int apus_ctl_domain_listen_begin(struct apus_writer *w, struct apus_reader *r)
{
	struct apus_participant *p = w ? w->participant : r->participant;
	struct apus_dp_listening *l = NULL;
	bool heard;

	pthread_mutex_lock(&p->listen_lock);
	heard = hears_anything(&p->listener);
	if (heard)
		l = w ? join_writer(w) : join_reader(r);
	if (l)
		apply(p, l);
	unlock(p);
	return heard && !l ? APUS_ENOMEM : 0;
}

void apus_ctl_domain_listen_end(struct apus_participant *p, struct apus_dp_listening **of,
				bool *deaf)
{
	struct apus_dp_listening *l;

	pthread_mutex_lock(&p->listen_lock);
	l = *of;
	*of = NULL;
	*deaf = true;
	if (l) {
		end_watch(l, &l->own);
		end_watch(l, &l->inherited);
		*l->link = l->next;
		if (l->next)
			l->next->link = l->link;
		if (p->listen_current == l)
			p->listen_current = NULL;
	}
	unlock(p);
	free(l);
}

/* --- calling -------------------------------------------------------------------------------------- */

/* One callback, if the listener has it, the watch is for it, and something changed. False: the entity is gone
 * or its listener was replaced. */
#define CALL(field, bit, observe, ...)                  \
	do {                                            \
		if ((mask & (bit)) && observe > 0) {    \
			c->field(__VA_ARGS__, c->user); \
			(*calls)++;                     \
			if (p->listen_current != l)     \
				return;                 \
		}                                       \
	} while (0)

static void call_writer(struct apus_participant *p, struct apus_dp_listening *l,
			const struct apus_listener *c, uint32_t mask, int *calls)
{
	struct apus_writer *w = l->writer;
	struct apus_observer *o = &l->seen;
	struct apus_inconsistent_status inconsistent;
	struct apus_incompatible_status incompatible;
	struct apus_matched_status matched;
	struct apus_liveliness_lost_status liveliness;
	struct apus_deadline_status deadline;

	CALL(on_inconsistent_topic, APUS_STATUS_INCONSISTENT_TOPIC,
	     apus_writer_inconsistent_status(w, o, &inconsistent), w, NULL, &inconsistent);
	CALL(on_offered_incompatible_qos, APUS_STATUS_OFFERED_INCOMPATIBLE_QOS,
	     apus_writer_incompatible_status(w, o, &incompatible), w, &incompatible);
	CALL(on_publication_matched, APUS_STATUS_PUBLICATION_MATCHED,
	     apus_writer_matched_status(w, o, &matched), w, &matched);
	CALL(on_liveliness_lost, APUS_STATUS_LIVELINESS_LOST,
	     apus_writer_liveliness_status(w, o, &liveliness), w, &liveliness);
	CALL(on_offered_deadline_missed, APUS_STATUS_OFFERED_DEADLINE_MISSED,
	     apus_writer_deadline_status(w, o, &deadline), w, &deadline);
}

static void call_reader(struct apus_participant *p, struct apus_dp_listening *l,
			const struct apus_listener *c, uint32_t mask, int *calls)
{
	struct apus_reader *r = l->reader;
	struct apus_observer *o = &l->seen;
	struct apus_inconsistent_status inconsistent;
	struct apus_incompatible_status incompatible;
	struct apus_matched_status matched;
	struct apus_liveliness_status liveliness;
	struct apus_deadline_status deadline;
	struct apus_lost_status lost;
	struct apus_rejected_status rejected;
	struct apus_available_status available;

	CALL(on_inconsistent_topic, APUS_STATUS_INCONSISTENT_TOPIC,
	     apus_reader_inconsistent_status(r, o, &inconsistent), NULL, r, &inconsistent);
	CALL(on_requested_incompatible_qos, APUS_STATUS_REQUESTED_INCOMPATIBLE_QOS,
	     apus_reader_incompatible_status(r, o, &incompatible), r, &incompatible);
	CALL(on_subscription_matched, APUS_STATUS_SUBSCRIPTION_MATCHED,
	     apus_reader_matched_status(r, o, &matched), r, &matched);
	CALL(on_liveliness_changed, APUS_STATUS_LIVELINESS_CHANGED,
	     apus_reader_liveliness_status(r, o, &liveliness), r, &liveliness);
	CALL(on_requested_deadline_missed, APUS_STATUS_REQUESTED_DEADLINE_MISSED,
	     apus_reader_deadline_status(r, o, &deadline), r, &deadline);
	CALL(on_sample_lost, APUS_STATUS_SAMPLE_LOST, apus_reader_lost_status(r, o, &lost), r,
	     &lost);
	CALL(on_sample_rejected, APUS_STATUS_SAMPLE_REJECTED,
	     apus_reader_rejected_status(r, o, &rejected), r, &rejected);
	CALL(on_data_available, APUS_STATUS_DATA_AVAILABLE,
	     apus_reader_available_status(r, o, &available), r);
}

/* Calls what the ready watches of a target stand for. Under the listeners' lock. */
static int run(struct apus_participant *p, struct apus_dp_target *target)
{
	struct apus_dp_watch *w;
	int calls = 0;

	apus_dp_target_collect(target);
	while ((w = apus_dp_target_next(target))) {
		struct apus_dp_listening *l = w->owner;
		/* A copy: the callback may replace its own listener. */
		struct apus_listener c = w == &l->own ? l->listener : p->listener;

		p->listen_current = l;
		if (l->is_writer)
			call_writer(p, l, &c, w->mask, &calls);
		else
			call_reader(p, l, &c, w->mask, &calls);
		p->listen_current = NULL;
	}
	return calls;
}

void apus_ctl_domain_listen(void *user, struct apus_dp_worker *worker)
{
	struct apus_participant *p = user;
	bool locked = try_lock(p, worker);

	if (worker->spawned)
		worker->listen_missed = !locked;
	if (!locked)
		return; /* another thread is calling */
	if (p->listen_depth == 0) {
		p->listen_depth = 1;
		run(p, &worker->listeners);
		p->listen_depth = 0;
	} else {
		/* Inside a callback of its own: again when that has returned. M2. */
		atomic_fetch_or(&p->listen_missed, worker_bit(p, worker));
	}
	unlock(p);
}

int apus_participant_dispatch(struct apus_participant *participant)
{
	struct apus_participant *p = participant;
	int calls = APUS_EDEADLK;

	if (!p)
		return APUS_EINVAL;
	if (!apus_dp_alive(p->fork_count))
		return APUS_ECLOSED;
	pthread_mutex_lock(&p->listen_lock);
	if (p->listen_depth == 0) {
		p->listen_depth = 1;
		apus_dp_target_lower(&p->dispatch);
		calls = run(p, &p->dispatch);
		p->listen_depth = 0;
	}
	unlock(p);
	return calls;
}

int apus_participant_fd(struct apus_participant *participant)
{
	struct apus_participant *p = participant;

	if (!p)
		return APUS_EINVAL;
	if (!apus_dp_alive(p->fork_count))
		return APUS_ECLOSED;
	/* seq_cst: before the look, as watch.h wants it. */
	atomic_store(&p->dispatch.interest, 1);
	if (apus_dp_target_is_pending(&p->dispatch))
		apus_dp_target_raise(&p->dispatch);
	return p->dispatch.fd;
}

bool apus_ctl_domain_is_calling(struct apus_participant *p)
{
	bool is;

	/* Another thread's callback ends first; what is left is ours. */
	pthread_mutex_lock(&p->listen_lock);
	is = p->listen_depth > 0;
	unlock(p);
	return is;
}

/* --- life ----------------------------------------------------------------------------------------- */

int apus_ctl_domain_listen_open(struct apus_participant *p)
{
	pthread_mutexattr_t attr;
	int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);

	apus_dp_target_init(&p->dispatch, fd);
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&p->listen_lock, &attr);
	pthread_mutexattr_destroy(&attr);
	return fd < 0 ? APUS_EIO : 0;
}

void apus_ctl_domain_listen_close(struct apus_participant *p)
{
	if (p->dispatch.fd >= 0)
		close(p->dispatch.fd);
	pthread_mutex_destroy(&p->listen_lock);
}
