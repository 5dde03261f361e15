/* SPDX-License-Identifier: Apache-2.0 */
/* A worker's life, its turn and its endpoints; see worker.h. Reception is in worker_poll.c. */
#include "dataplane/worker.h"

#include "base/fresh.h"

#include "dataplane/group.h"
#include "dataplane/reader.h"
#include "dataplane/shm_match.h"
#include "dataplane/writer.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

_Thread_local bool apus_dp_worker_thread;

/* A blocked worker looks around at least this often. */
#define SLEEP_MAX_NS (500 * APUS_NS_PER_MS)

/* Zeroed memory whose pages are touched now, or when they are needed: most of it is output buffers. */
static struct apus_dp_worker *map_worker(bool lazy)
{
	struct apus_dp_worker *w =
		mmap(NULL, sizeof(*w), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (w == MAP_FAILED)
		return NULL;
	if (!lazy)
		memset(w, 0, sizeof(*w));
	return w;
}

int apus_dp_worker_create(const struct apus_dp_worker_config *config,
			  struct apus_dp_worker **worker_out)
{
	struct apus_dp_worker *w = map_worker(config->lazy_memory);
	uint32_t buckets = 16;

	if (!w)
		return APUS_ENOMEM;
	while (buckets < config->match_max)
		buckets *= 2;
	w->config = *config;
	w->event_fd = w->timer_fd = -1;
	w->by_writer_mask = buckets - 1;
	w->readers = apus_fresh_alloc(config->endpoint_max, sizeof(*w->readers));
	w->writers = apus_fresh_alloc(config->endpoint_max, sizeof(*w->writers));
	w->by_writer = apus_fresh_alloc(buckets, sizeof(*w->by_writer));
	w->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (!w->readers || !w->writers || !w->by_writer || w->wake_fd < 0) {
		int rc = w->wake_fd < 0 ? APUS_EIO : APUS_ENOMEM;

		w->config.queue = NULL;
		apus_dp_worker_destroy(w);
		return rc;
	}
	apus_dp_wheel_init(&w->wheel, apus_mono_now());
	if (apus_dp_alarms_init(&w->alarms, config->endpoint_max, &w->wheel) != 0) {
		w->config.queue = NULL;
		apus_dp_worker_destroy(w);
		return APUS_ENOMEM;
	}
	apus_dp_target_init(&w->listeners, w->wake_fd);
	apus_dp_out_init(&w->out, config->queue, &config->prefix, config->fragment_bytes);
	w->out.may_send = config->may_send;
	w->out.may_send_user = config->control_user;
	*worker_out = w;
	return 0;
}

void apus_dp_worker_destroy(struct apus_dp_worker *worker)
{
	if (!worker)
		return;
	apus_dp_queue_close(worker->config.queue);
	if (worker->event_fd >= 0) {
		close(worker->event_fd);
		close(worker->timer_fd);
	}
	if (worker->wake_fd >= 0)
		close(worker->wake_fd);
	apus_dp_alarms_fini(&worker->alarms);
	apus_fresh_free(worker->readers, worker->config.endpoint_max, sizeof(*worker->readers));
	apus_fresh_free(worker->writers, worker->config.endpoint_max, sizeof(*worker->writers));
	apus_fresh_free(worker->by_writer, (size_t)worker->by_writer_mask + 1,
			sizeof(*worker->by_writer));
	free(worker->scratch);
	munmap(worker, sizeof(*worker));
}

int apus_dp_worker_reserve_scratch(struct apus_dp_worker *worker, size_t bytes)
{
	void *more;

	if (bytes <= worker->scratch_bytes)
		return 0;
	more = malloc(bytes);
	if (!more)
		return APUS_ENOMEM;
	free(worker->scratch);
	worker->scratch = more;
	worker->scratch_bytes = bytes;
	return 0;
}

/* --- the turn ------------------------------------------------------------------------------------ */

static struct apus_dp_reader *reader_of(struct apus_dp_news_link *link)
{
	return (void *)((char *)link - offsetof(struct apus_dp_reader, port.link));
}

static struct apus_dp_writer *writer_of(struct apus_dp_news_link *link)
{
	return (void *)((char *)link - offsetof(struct apus_dp_writer, port.link));
}

/* Readers first: a writer that greets a reader of this worker finds its match there. What is refused until now is asked
 * for last. */
static void adopt_news(struct apus_dp_worker *w, struct apus_mono now)
{
	struct apus_dp_news_link *l = apus_dp_news_take(&w->news_readers), *next;

	for (; l; l = next) {
		next = apus_dp_news_begin(l);
		apus_dp_reader_adopt(reader_of(l), now);
	}
	for (l = apus_dp_news_take(&w->news_writers); l; l = next) {
		next = apus_dp_news_begin(l);
		apus_dp_writer_adopt(writer_of(l), now);
	}
	while (w->ask_first) {
		struct apus_dp_reader *r = w->ask_first;

		w->ask_first = r->ask_next;
		apus_dp_reader_ask_again(r, false, now);
	}
}

/* From now on what is published for an endpoint is adopted; what was before, with the next publication. */
static void enter_news(struct apus_dp_news_link *link, struct apus_dp_news *news)
{
	link->news = news;
	apus_dp_news_add(link);
}

/* --- assertions of liveliness from control ------------------------------------------------------- */

void apus_dp_worker_apply_pulse(struct apus_dp_worker *worker, const struct apus_dp_pulse *pulse)
{
	for (uint32_t i = 0; i < worker->reader_count; i++)
		if (worker->readers[i]->inbox.peers.leased)
			apus_dp_reader_pulse(worker->readers[i], &pulse->prefix, pulse->liveliness,
					     pulse->at);
	if (!pulse->readers_only && pulse->liveliness == APUS_MANUAL_BY_PARTICIPANT &&
	    apus_prefix_equal(&pulse->prefix, &worker->config.prefix))
		apus_dp_worker_manual(worker, pulse->at);
	apus_counter_add(&worker->counters.pulses, 1);
}

static void drain_pulses(struct apus_dp_worker *w)
{
	/* Relaxed: only the holder of the turn moves the head. */
	uint32_t head = atomic_load_explicit(&w->pulse_head, memory_order_relaxed);
	/* Acquire: P2, pairs with P1: the pulses below the tail are there. */
	uint32_t tail = atomic_load_explicit(&w->pulse_tail, memory_order_acquire);

	for (; head != tail; head++)
		apus_dp_worker_apply_pulse(w, &w->pulses[head % APUS_DP_PULSES]);
	/* Release: P3, pairs with P4: what was read is read before control overwrites it. */
	atomic_store_explicit(&w->pulse_head, head, memory_order_release);
}

void apus_dp_worker_post_pulse(struct apus_dp_worker *worker, const struct apus_dp_pulse *pulse)
{
	/* Relaxed: only control, under its lock, moves the tail. */
	uint32_t tail = atomic_load_explicit(&worker->pulse_tail, memory_order_relaxed);

	/* Acquire: P4, pairs with P3. */
	if (tail - atomic_load_explicit(&worker->pulse_head, memory_order_acquire) ==
	    APUS_DP_PULSES) {
		apus_counter_add(&worker->counters.pulses_lost, 1);
		return;
	}
	worker->pulses[tail % APUS_DP_PULSES] = *pulse;
	/* Release: P1, pairs with P2. */
	atomic_store_explicit(&worker->pulse_tail, tail + 1, memory_order_release);
	if (apus_dp_worker_try_turn(worker))
		apus_dp_worker_end_turn(worker);
}

/* --- the turn ------------------------------------------------------------------------------------ */

bool apus_dp_worker_try_turn(struct apus_dp_worker *worker)
{
	/* T1: acquire, pairs with S2; an older value would only delay a reclaim. */
	uint64_t epoch = atomic_load_explicit(&worker->config.epoch->current, memory_order_acquire);
	uint64_t free_word = 0;

	/* A look before the exchange keeps waiting threads from taking the line away from the holder.
	 * Relaxed: the exchange below decides. */
	if (atomic_load_explicit(&worker->turn.word, memory_order_relaxed) != 0)
		return false;
	/* T2: seq_cst, pairs with S3; also acquires what the previous holder released. */
	if (!atomic_compare_exchange_strong(&worker->turn.word, &free_word, epoch))
		return false;
	/* T3 for all ports at once: seq_cst, pairs with S2, and after T2. What T1 read does not do: control
	 * may have published and, before T2, found the word free and reclaimed what we adopted last. */
	epoch = atomic_load(&worker->config.epoch->current);
	if (APUS_UNLIKELY(epoch != worker->adopted_epoch)) {
		worker->adopted_epoch = epoch;
		adopt_news(worker, apus_mono_now());
	}
	/* Acquire: P2, pairs with P1. Before anything judges a lease. */
	if (APUS_UNLIKELY(atomic_load_explicit(&worker->pulse_tail, memory_order_acquire) !=
			  atomic_load_explicit(&worker->pulse_head, memory_order_relaxed)))
		drain_pulses(worker);
	return true;
}

void apus_dp_worker_take_turn(struct apus_dp_worker *worker)
{
	uint32_t spins = 0;

	if (apus_dp_worker_try_turn(worker))
		return;
	/* Relaxed: a request, looked at between bursts; being seen late only costs the caller a burst. */
	atomic_fetch_add_explicit(&worker->turn.waiters, 1, memory_order_relaxed);
	while (!apus_dp_worker_try_turn(worker)) {
		apus_cpu_relax();
		/* The holder may be preempted, or share this core: do not burn its time slice. */
		if (++spins % 256 == 0)
			sched_yield();
	}
	/* Relaxed: as above. */
	atomic_fetch_sub_explicit(&worker->turn.waiters, 1, memory_order_relaxed);
}

static void release_turn(struct apus_dp_worker *w)
{
	/* Release: what this holder did to the worker's state is visible to the next, which acquires it at
	 * T2. */
	atomic_store_explicit(&w->turn.word, 0, memory_order_release);
}

/* Sends the acknowledgements that came due. */
static int send_acks(struct apus_dp_worker *w, struct apus_mono now)
{
	int n = 0;

	while (w->ack_list) {
		struct apus_dp_reader_state *s = w->ack_list;

		w->ack_list = s->ack_next;
		s->ack_queued = false;
		apus_dp_reader_send_ack(s, now);
		n++;
	}
	return n;
}

void apus_dp_worker_finish(struct apus_dp_worker *worker, struct apus_mono now)
{
	if (worker->ack_list)
		send_acks(worker, now);
	apus_dp_out_flush(&worker->out);
}

/* W2: if the thread sleeps past the earliest timer, it must be told. seq_cst on both sides (W1 in
 * sleep_until): either we see its sleep, or it sees the turn's timers, because it computes its sleep under
 * the turn and we armed ours under the turn. */
static bool must_wake(struct apus_dp_worker *w)
{
	/* seq_cst: W2, pairs with W1. */
	int64_t until = atomic_load(&w->sleep_until_ns);

	return until != 0 && apus_dp_wheel_next(&w->wheel).ns < until;
}

void apus_dp_worker_wake(struct apus_dp_worker *worker)
{
	uint64_t one = 1;

	(void)!write(worker->wake_fd, &one, sizeof(one));
}

/* Lets a waiting thread have the turn: a bounded pause, after which the next try competes as usual. */
static void give_way(struct apus_dp_worker *w)
{
	for (int i = 0; i < 4096; i++) {
		/* Relaxed: only a hint that somebody still wants the turn. */
		if (atomic_load_explicit(&w->turn.waiters, memory_order_relaxed) == 0)
			return;
		/* Relaxed: the waiter has got it. */
		if (atomic_load_explicit(&w->turn.word, memory_order_relaxed) != 0)
			return;
		apus_cpu_relax();
	}
	sched_yield();
}

void apus_dp_worker_end_turn(struct apus_dp_worker *worker)
{
	bool wake;

	if (worker->ack_list)
		send_acks(worker, apus_mono_now());
	apus_dp_out_flush(&worker->out);
	if (APUS_UNLIKELY(worker->event_fd >= 0))
		apus_dp_worker_fd_arm(worker);
	wake = must_wake(worker);
	release_turn(worker);
	if (wake)
		apus_dp_worker_wake(worker);
	/* Relaxed: a hint; see apus_dp_worker_take_turn(). A caller in a loop must not keep others out. */
	if (APUS_UNLIKELY(atomic_load_explicit(&worker->turn.waiters, memory_order_relaxed)))
		give_way(worker);
}

/* --- the thread ---------------------------------------------------------------------------------- */

int apus_dp_worker_sleep(struct apus_dp_worker *worker, int64_t until_ns)
{
	/* Negative descriptors are passed over. */
	struct pollfd fds[3] = {{.fd = worker->wake_fd, .events = POLLIN},
				{.fd = apus_dp_queue_fd(worker->config.queue), .events = POLLIN},
				{.fd = worker->config.watch_fd > 0 ? worker->config.watch_fd : -1,
				 .events = POLLIN}};
	struct apus_mono now = apus_mono_now();
	struct apus_mono next = apus_dp_wheel_next(&worker->wheel);
	struct timespec ts;
	uint64_t count;
	int64_t ns;

	if (next.ns < until_ns)
		until_ns = next.ns;
	if (worker->shm_first && !apus_dp_shm_doze(worker))
		until_ns = now.ns;
	worker->net_looked.ns = 0; /* what wakes it may have come from there */
	/* W1: seq_cst, pairs with W2 in must_wake(); set under the turn, so whoever arms an earlier timer
	 * afterwards sees it. */
	atomic_store(&worker->sleep_until_ns, until_ns);
	release_turn(worker);
	ns = until_ns - now.ns;
	if (ns > SLEEP_MAX_NS)
		ns = SLEEP_MAX_NS;
	if (ns > 0) {
		ts = (struct timespec){ns / APUS_NS_PER_SEC, ns % APUS_NS_PER_SEC};
		ppoll(fds, 3, &ts, NULL);
	}
	/* Relaxed: awake again; a needless wake-up costs one more look. */
	atomic_store_explicit(&worker->sleep_until_ns, 0, memory_order_relaxed);
	(void)!read(worker->wake_fd, &count, sizeof(count));
	/* seq_cst: L2 of watch.h; the caller looks at what is pending afterwards. */
	atomic_store(&worker->listeners.raised, false);
	return 0;
}

struct thread_start {
	struct apus_dp_worker *worker;
	enum apus_dp_idle idle;
};

static void one_turn(struct apus_dp_worker *w, enum apus_dp_idle idle)
{
	int work;

	apus_dp_worker_take_turn(w);
	work = apus_dp_worker_poll(w, apus_mono_now());
	if (work > 0 || idle != APUS_DP_IDLE_BLOCK) {
		apus_dp_worker_end_turn(w);
		if (work == 0 && idle == APUS_DP_IDLE_PAUSE)
			apus_cpu_relax();
		return;
	}
	if (apus_dp_target_is_pending(&w->listeners) && !w->listen_missed)
		apus_dp_worker_end_turn(w);
	else
		apus_dp_worker_sleep(w, INT64_MAX);
}

static void call_listeners(struct apus_dp_worker *w)
{
	if (apus_dp_target_is_pending(&w->listeners) && w->config.listen)
		w->config.listen(w->config.listen_user, w);
}

static void *thread_main(void *arg)
{
	struct thread_start start = *(struct thread_start *)arg;
	struct apus_dp_worker *w = start.worker;

	free(arg);
	apus_dp_worker_thread = true;
	/* F2's counterpart: only a thread that sleeps needs the descriptor; set before the first sleep. */
	atomic_store(&w->listeners.interest, start.idle == APUS_DP_IDLE_BLOCK);
	/* Acquire: pairs with the release in apus_dp_worker_stop(). */
	while (!atomic_load_explicit(&w->stop, memory_order_acquire)) {
		one_turn(w, start.idle);
		call_listeners(w);
	}
	return NULL;
}

static int start_thread(struct apus_dp_worker *w, struct thread_start *start, int core,
			int priority)
{
	pthread_attr_t attr;
	struct sched_param param = {.sched_priority = priority};
	int rc;

	pthread_attr_init(&attr);
	if (core >= 0) {
		cpu_set_t set;

		CPU_ZERO(&set);
		CPU_SET(core, &set);
		pthread_attr_setaffinity_np(&attr, sizeof(set), &set);
	}
	if (priority > 0) {
		pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED);
		pthread_attr_setschedpolicy(&attr, SCHED_FIFO);
		pthread_attr_setschedparam(&attr, &param);
	}
	rc = pthread_create(&w->thread, &attr, thread_main, start);
	pthread_attr_destroy(&attr);
	if (rc == EPERM)
		return APUS_EPERM;
	return rc == EINVAL ? APUS_EINVAL : rc ? APUS_EIO : 0;
}

int apus_dp_worker_spawn(struct apus_dp_worker *worker, enum apus_dp_idle idle, int core,
			 int priority)
{
	struct thread_start *start = malloc(sizeof(*start));
	int rc;

	if (!start)
		return APUS_ENOMEM;
	*start = (struct thread_start){worker, idle};
	rc = start_thread(worker, start, core, priority);
	if (rc != 0)
		free(start);
	worker->spawned = rc == 0;
	return rc;
}

void apus_dp_worker_stop(struct apus_dp_worker *worker)
{
	if (!worker->spawned)
		return;
	/* Release: pairs with the acquire in thread_main(). */
	atomic_store_explicit(&worker->stop, true, memory_order_release);
	apus_dp_worker_wake(worker);
	pthread_join(worker->thread, NULL);
	worker->spawned = false;
}

/* --- endpoints ----------------------------------------------------------------------------------- */

static bool full(const struct apus_dp_worker *w)
{
	return w->reader_count + w->writer_count >= w->config.endpoint_max;
}

int apus_dp_worker_add_reader(struct apus_dp_worker *worker, struct apus_dp_reader *reader)
{
	uint32_t i = worker->reader_count;

	if (full(worker))
		return APUS_ELIMIT;
	for (; i > 0 && worker->readers[i - 1]->eid.value > reader->eid.value; i--)
		worker->readers[i] = worker->readers[i - 1];
	worker->readers[i] = reader;
	worker->reader_count++;
	enter_news(&reader->port.link, &worker->news_readers);
	apus_dp_group_join(reader);
	return 0;
}

int apus_dp_worker_add_writer(struct apus_dp_worker *worker, struct apus_dp_writer *writer)
{
	uint32_t i = worker->writer_count;

	if (full(worker))
		return APUS_ELIMIT;
	for (; i > 0 && worker->writers[i - 1]->eid.value > writer->eid.value; i--)
		worker->writers[i] = worker->writers[i - 1];
	worker->writers[i] = writer;
	worker->writer_count++;
	enter_news(&writer->port.link, &worker->news_writers);
	if (writer->config.publisher && writer->config.publisher->suspended)
		apus_dp_writer_suspend(writer);
	apus_dp_writer_enlist(writer, apus_mono_now());
	return 0;
}

struct apus_dp_reader *apus_dp_worker_reader(struct apus_dp_worker *worker, struct apus_eid eid)
{
	uint32_t low = 0, high = worker->reader_count;

	while (low < high) {
		uint32_t mid = (low + high) / 2;

		if (worker->readers[mid]->eid.value == eid.value)
			return worker->readers[mid];
		if (worker->readers[mid]->eid.value < eid.value)
			low = mid + 1;
		else
			high = mid;
	}
	return NULL;
}

struct apus_dp_writer *apus_dp_worker_writer(struct apus_dp_worker *worker, struct apus_eid eid)
{
	uint32_t low = 0, high = worker->writer_count;

	while (low < high) {
		uint32_t mid = (low + high) / 2;

		if (worker->writers[mid]->eid.value == eid.value)
			return worker->writers[mid];
		if (worker->writers[mid]->eid.value < eid.value)
			low = mid + 1;
		else
			high = mid;
	}
	return NULL;
}

void apus_dp_worker_remove_reader(struct apus_dp_worker *worker, struct apus_dp_reader *reader)
{
	uint32_t i = 0;

	adopt_news(worker, apus_mono_now()); /* afterwards it stands in no list */
	reader->port.link.news = NULL;
	worker->expected.next.reader = NULL;
	apus_dp_reader_detach(reader, apus_mono_now());
	apus_dp_group_leave(reader);
	while (worker->readers[i] != reader)
		i++;
	memmove(&worker->readers[i], &worker->readers[i + 1],
		(--worker->reader_count - i) * sizeof(worker->readers[0]));
	/* Writers of this worker must not deliver to it any more, though their snapshots still name it. */
	for (uint32_t k = 0; k < worker->writer_count; k++)
		apus_dp_writer_forget_local(worker->writers[k], reader);
}

void apus_dp_worker_remove_writer(struct apus_dp_worker *worker, struct apus_dp_writer *writer)
{
	uint32_t i = 0;

	adopt_news(worker, apus_mono_now()); /* afterwards it stands in no list */
	writer->port.link.news = NULL;
	apus_dp_writer_count_all_skipped(writer);
	apus_dp_writer_pace_flush(writer);
	apus_dp_alarm_cancel(&worker->alarms, &writer->alarm);
	apus_dp_wheel_cancel(&worker->wheel, &writer->hb_timer);
	apus_dp_wheel_cancel(&worker->wheel, &writer->gap_timer);
	apus_dp_wheel_cancel(&worker->wheel, &writer->pace_timer);
	apus_dp_wheel_cancel(&worker->wheel, &writer->batch_timer);
	apus_dp_wheel_cancel(&worker->wheel, &writer->answer_timer);
	apus_dp_wheel_cancel(&worker->wheel, &writer->shm_timer);
	while (worker->writers[i] != writer)
		i++;
	memmove(&worker->writers[i], &worker->writers[i + 1],
		(--worker->writer_count - i) * sizeof(worker->writers[0]));
}
