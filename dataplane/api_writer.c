/* SPDX-License-Identifier: Apache-2.0 */
/* The public data calls of a writer (include/apus/participant.h). */
#include "dataplane/entity.h"
#include "wire/cdr.h"

#include <string.h>

#define KEY_BYTES_MAX 1024
/* Samples apus_write_many() writes in one turn. */
#define MANY_TURN 256

struct apus_guid apus_writer_guid(const struct apus_writer *writer)
{
	return writer->dp->config.guid;
}

const char *apus_writer_topic(const struct apus_writer *writer)
{
	return writer->topic;
}

uint32_t apus_writer_matched(const struct apus_writer *writer)
{
	/* Relaxed: a number to look at; nothing is published with it. */
	return atomic_load_explicit(&writer->dp->matched, memory_order_relaxed);
}

/* After a sample of at least so many bytes a driven worker is polled. */
#define LOOK_BYTES 32768

/* A change on its way into a slot: either a sample in memory or a payload. */
struct source {
	const void *sample;
	const void *payload;
	size_t payload_bytes;
	bool key_only;
	struct apus_dp_marks marks;
	bool in_place; /* the sample is a loan */
};

/* Writes what goes around a sample that lies in its slot. */
static int enclose(const struct apus_writer *w, uint8_t *payload)
{
	const uint32_t size = w->type->size_bytes, pad = -size & 3;
	const uint8_t header[APUS_WIRE_ENCAP_BYTES] = {
		0, (uint8_t)apus_wire_encap_of(w->type, w->representation == APUS_XCDR2), 0,
		(uint8_t)pad};

	memcpy(payload, header, sizeof(header));
	memset(payload + sizeof(header) + size, 0, pad);
	return (int)(sizeof(header) + size + pad);
}

static int fill(struct apus_writer *w, const struct source *src, uint8_t *out)
{
	size_t room = w->dp->config.cache.payload_bytes_max;

	if (src->in_place)
		return enclose(w, out);
	if (w->fixed.payload_bytes && src->sample && !src->key_only)
		return apus_wire_fixed_encode(&w->fixed, src->sample, out, room);
	if (src->sample)
		return apus_type_encode(w->type, src->sample, w->representation, src->key_only, out,
					room);
	if (src->payload_bytes > room)
		return APUS_ELIMIT;
	memcpy(out, src->payload, src->payload_bytes);
	/* A datagram carries multiples of 4; the bytes behind the payload leave the process. */
	memset(out + src->payload_bytes, 0, -src->payload_bytes & 3);
	return (int)src->payload_bytes;
}

/* Can a sample be sent from where it lies? Its fragments but the first are then bytes of it, and of no other. */
static bool lies_outside(const struct apus_writer *w, const struct source *src)
{
	if (src->in_place || src->key_only)
		return false;
	if (src->sample)
		return w->fixed.payload_bytes &&
		       w->fixed.payload_bytes <= w->dp->config.cache.payload_bytes_max &&
		       apus_dp_writer_takes_outside(w->dp, w->fixed.payload_bytes);
	return src->payload_bytes <= w->dp->config.cache.payload_bytes_max &&
	       src->payload_bytes % 4 == 0 &&
	       apus_dp_writer_takes_outside(w->dp, (uint32_t)src->payload_bytes);
}

/* Fills the first fragment only, and says where the others are. Returns the payload's bytes. */
static int fill_first(struct apus_writer *w, const struct source *src, uint32_t slot)
{
	uint32_t size = w->worker->config.fragment_bytes;
	uint32_t at = src->sample ? APUS_WIRE_ENCAP_BYTES : 0;
	uint8_t *out = apus_dp_cache_payload(&w->dp->cache, slot);
	const uint8_t *bytes = src->sample ? src->sample : src->payload;

	memcpy(out, w->fixed.header, at);
	memcpy(out + at, bytes, size - at);
	w->dp->outside = bytes;
	w->dp->outside_at = at;
	w->dp->outside_slot = slot;
	return src->sample ? (int)w->fixed.payload_bytes : (int)src->payload_bytes;
}

/* The sample has been written: if it is still in the history, its slot gets the rest of it. */
static void fill_rest(struct apus_writer *w, uint32_t slot, uint32_t payload_bytes)
{
	struct apus_dp_writer *dp = w->dp;
	uint32_t size = w->worker->config.fragment_bytes;

	if (dp->cache.entries[slot].seq == dp->last)
		memcpy(apus_dp_cache_payload(&dp->cache, slot) + size,
		       dp->outside + (size - dp->outside_at), payload_bytes - size);
}

static int find_key(struct apus_writer *w, const struct source *src, uint8_t *key)
{
	if (w->plan->max_bytes == 0)
		return 0;
	if (src->sample)
		return apus_wire_key_from_sample(w->plan, src->sample, key, KEY_BYTES_MAX);
	return apus_wire_key_extract(w->plan, src->payload, src->payload_bytes, src->key_only, key,
				     KEY_BYTES_MAX);
}

/* What the data plane gets as the time of a write; the clock is read only if somebody will look at it. */
static struct apus_mono write_time(const struct apus_writer *w, uint32_t payload_bytes)
{
	if (apus_dp_writer_needs_time(w->dp, payload_bytes))
		return apus_quick_mono(&w->worker->clock);
	return (struct apus_mono){w->worker->wheel.tick * APUS_DP_WHEEL_TICK_NS};
}

/* The source time of a sample whose writer gives none. Nothing is older than its batch. */
static struct apus_wall source_now(struct apus_writer *w)
{
	const struct apus_dp_writer *dp = w->dp;
	int64_t tick = w->worker->wheel.tick;

	if (dp->config.batch_bytes == 0 || dp->config.batch_delay_ns == APUS_INFINITE_NS)
		return apus_quick_wall(&w->worker->clock);
	if (dp->sent == dp->last || !apus_dp_batch_time_serves(&w->batch_time, tick))
		apus_dp_batch_time_set(&w->batch_time, apus_wall_now(), tick);
	return w->batch_time.time;
}

/* One attempt, under the turn: serialise into a free slot, then commit. more: others follow. */
static int try_write(struct apus_writer *w, const struct source *src, enum apus_change kind,
		     struct apus_wall source_time, bool more)
{
	struct apus_dp_cache *cache = &w->dp->cache;
	uint32_t slot =
		src->in_place ? apus_dp_loan_slot(w, src->sample) : apus_dp_cache_acquire(cache);
	uint8_t key[KEY_BYTES_MAX], hash[16];
	struct apus_dp_write change = {.kind = (uint8_t)kind,
				       .key_only = src->key_only,
				       .source = source_time,
				       .marks = src->marks,
				       .key = key,
				       .more = more};
	int rc;

	if (slot == APUS_SHM_NO_SLOT)
		return src->in_place ? APUS_EINVAL : APUS_EAGAIN;
	rc = lies_outside(w, src) ? fill_first(w, src, slot)
				  : fill(w, src, apus_dp_cache_payload(cache, slot));
	if (rc < 0)
		goto abandon;
	change.payload_bytes = (uint32_t)rc;
	rc = find_key(w, src, key);
	if (rc < 0)
		goto abandon;
	change.key_bytes = (uint32_t)rc;
	/* The hash (an MD5 for most keys) is wanted once an instance. */
	if (w->plan->max_bytes &&
	    apus_dp_keytable_find(&cache->keys, key, change.key_bytes) == APUS_DP_NO_KEY) {
		apus_wire_key_hash(w->plan, key, change.key_bytes, hash);
		change.key_hash = hash;
	}
	rc = apus_dp_writer_write(w->dp, slot, &change, write_time(w, change.payload_bytes));
	if (rc == 0 && w->dp->outside)
		fill_rest(w, slot, change.payload_bytes);
	w->dp->outside = NULL;
	if (rc == 0) {
		w->loan_count -= src->in_place;
		return 0;
	}
abandon:
	w->dp->outside = NULL;
	if (!src->in_place)
		apus_dp_cache_abandon(cache, slot);
	return rc;
}

/* Looks at readers in shared memory before somebody sleeps who waits for them: longer than such a reader takes to
 * make room, if it polls. */
#define LOOKS_BEFORE_NAP 64
#define PAUSES_A_LOOK    16

/* A write that waits: 0 at first. */
struct wait {
	struct apus_mono deadline; /* the time runs from the first refusal on */
	uint32_t looks;
	bool is_near; /* under the turn, some reader was fed by rings */
};

/* Waits a little for acknowledgements to make room, not beyond the deadline, at which there is a last attempt.
 * False: waited long enough, or waiting is no use, for best effort never waits for any. */
static bool await_room(struct apus_writer *w, struct wait *wait)
{
	struct apus_mono now;

	if (!w->dp->config.reliable || w->max_blocking_ns <= 0)
		return false;
	now = apus_mono_now();
	if (wait->deadline.ns == 0)
		wait->deadline = apus_mono_add(now, w->max_blocking_ns);
	else if (!apus_mono_before(now, wait->deadline))
		return false;
	if (wait->is_near && wait->looks++ < LOOKS_BEFORE_NAP) {
		/* What they have read in this time is taken back at once: each look takes a line from them. */
		for (int i = 0; i < PAUSES_A_LOOK; i++)
			apus_cpu_relax();
		return true;
	}
	wait->looks = 0;
	apus_dp_pass_time_until(w->worker, wait->deadline);
	return true;
}

/* What is large fills a reader's window, and its answers let the rest go. Who writes several between two polls of a
 * driven worker would leave the path idle; a look costs little beside such a sample. Under the turn. */
static void look_for_answers(struct apus_writer *w)
{
	const struct apus_dp_writer *dp = w->dp;
	uint32_t newest = dp->cache.tail;

	if (w->worker->spawned || !dp->config.reliable || dp->min_acked >= dp->sent ||
	    newest == APUS_SHM_NO_SLOT || dp->cache.entries[newest].payload_bytes < LOOK_BYTES)
		return;
	apus_dp_worker_poll(w->worker, apus_mono_now());
}

static int write_source(struct apus_writer *w, const struct source *src, enum apus_change kind,
			int64_t source_time_ns)
{
	struct apus_wall t = {source_time_ns};
	struct wait wait = {0};
	int rc;

	if (!apus_dp_alive(w->fork_count))
		return APUS_ECLOSED;
	for (;;) {
		apus_dp_worker_take_turn(w->worker);
		if (t.ns == INT64_MIN)
			t = source_now(w);
		rc = try_write(w, src, kind, t, false);
		if (rc == 0)
			look_for_answers(w);
		wait.is_near = w->dp->shm_count > 0;
		apus_dp_worker_end_turn(w->worker);
		if (rc != APUS_EAGAIN)
			return rc;
		if (apus_dp_worker_thread)
			return APUS_EDEADLK; /* acknowledgements are this thread's business */
		if (!await_room(w, &wait))
			return APUS_ETIMEDOUT;
	}
}

/* Writes samples in one turn until one is refused; *done counts them. */
static int write_turn(struct apus_writer *w, const uint8_t *samples, uint32_t count,
		      struct apus_wall t, uint32_t *done, struct wait *wait)
{
	int rc = 0;

	apus_dp_worker_take_turn(w->worker);
	while (rc == 0 && *done < count) {
		struct source src = {.sample = samples + (size_t)*done * w->type->size_bytes};

		rc = try_write(w, &src, APUS_ALIVE, t, true);
		*done += rc == 0;
		/* Others get their turn; what has been written leaves with it. */
		if (*done % MANY_TURN == 0)
			break;
	}
	apus_dp_writer_many_done(w->dp, apus_mono_now());
	wait->is_near = w->dp->shm_count > 0;
	apus_dp_worker_end_turn(w->worker);
	return rc;
}

int apus_write_many(struct apus_writer *writer, const void *samples, uint32_t count)
{
	struct wait wait = {0};
	struct apus_wall t;
	uint32_t done = 0;
	int rc = 0;

	if (!samples || count == 0 || count > INT32_MAX)
		return APUS_EINVAL;
	if (!apus_dp_alive(writer->fork_count))
		return APUS_ECLOSED;
	t = apus_wall_now();
	while (done < count) {
		rc = write_turn(writer, samples, count, t, &done, &wait);
		if (rc == APUS_EAGAIN && apus_dp_worker_thread)
			rc = APUS_EDEADLK;
		if (rc == APUS_EAGAIN && await_room(writer, &wait))
			continue;
		if (rc != 0)
			break;
	}
	if (done)
		return (int)done;
	return rc == APUS_EAGAIN ? APUS_ETIMEDOUT : rc;
}

int apus_writer_flush(struct apus_writer *writer)
{
	if (!apus_dp_alive(writer->fork_count))
		return APUS_ECLOSED;
	apus_dp_worker_take_turn(writer->worker);
	apus_dp_writer_release(writer->dp, apus_mono_now());
	apus_dp_worker_end_turn(writer->worker);
	return 0;
}

static int write_change(struct apus_writer *writer, struct source *src, enum apus_change kind,
			int64_t source_time_ns)
{
	if (!src->sample || kind < APUS_ALIVE || kind > APUS_DISPOSE_UNREGISTER)
		return APUS_EINVAL;
	if (kind != APUS_ALIVE && writer->plan->max_bytes == 0)
		return APUS_EINVAL; /* a keyless topic has no instance life cycle to announce */
	src->key_only = kind != APUS_ALIVE;
	return write_source(writer, src, kind, source_time_ns);
}

int apus_write_as(struct apus_writer *writer, const void *sample, enum apus_change kind,
		  int64_t source_time_ns)
{
	struct source src = {.sample = sample};

	return write_change(writer, &src, kind, source_time_ns);
}

int apus_write_related(struct apus_writer *writer, const void *sample, enum apus_change kind,
		       int64_t source_time_ns, const struct apus_guid *related_writer,
		       int64_t related_seq)
{
	struct source src = {.sample = sample};

	if (!related_writer || related_seq < 1 || related_seq > APUS_WIRE_SEQ_MAX)
		return APUS_EINVAL;
	src.marks.related_writer = *related_writer;
	src.marks.related_seq = related_seq;
	return write_change(writer, &src, kind, source_time_ns);
}

int apus_write(struct apus_writer *writer, const void *sample)
{
	return apus_write_as(writer, sample, APUS_ALIVE, INT64_MIN);
}

int apus_write_loaned(struct apus_writer *writer, void *sample)
{
	struct source src = {.sample = sample, .in_place = true};

	return sample ? write_source(writer, &src, APUS_ALIVE, INT64_MIN) : APUS_EINVAL;
}

int apus_dispose(struct apus_writer *writer, const void *sample)
{
	return apus_write_as(writer, sample, APUS_DISPOSE, INT64_MIN);
}

int apus_unregister(struct apus_writer *writer, const void *sample)
{
	/* Relaxed: it orders nothing. */
	bool dispose = atomic_load_explicit(&writer->autodispose, memory_order_relaxed);

	return apus_write_as(writer, sample, dispose ? APUS_DISPOSE_UNREGISTER : APUS_UNREGISTER,
			     INT64_MIN);
}

/* Readers have matched the representation the writer offers, and may understand no other. */
static bool is_offered(const struct apus_writer *w, const void *payload, size_t payload_bytes)
{
	struct apus_wire_cdr cdr;

	return apus_wire_cdr_open(&cdr, payload, payload_bytes) == 0 &&
	       cdr.xcdr2 == (w->representation == APUS_XCDR2);
}

int apus_write_cdr(struct apus_writer *writer, const void *payload, size_t payload_bytes)
{
	struct source src = {.payload = payload, .payload_bytes = payload_bytes};
	size_t size = (writer->type->size_bytes + 15) & ~(size_t)15;
	int rc;

	if (!payload)
		return APUS_EINVAL;
	if (!apus_dp_alive(writer->fork_count))
		return APUS_ECLOSED;
	if (!is_offered(writer, payload, payload_bytes))
		return APUS_EENCODING;
	apus_dp_worker_take_turn(writer->worker); /* the scratch memory is the turn's */
	/* A view: what is not converted needs no room, however large it is. */
	rc = apus_type_view(writer->type, payload, payload_bytes, false, writer->worker->scratch,
			    (uint8_t *)writer->worker->scratch + size,
			    writer->scratch_bytes - size);
	apus_dp_worker_end_turn(writer->worker);
	if (rc < 0)
		return rc;
	return write_source(writer, &src, APUS_ALIVE, INT64_MIN);
}

static bool reached(const struct apus_mono deadline)
{
	return !apus_mono_before(apus_mono_now(), deadline);
}

int apus_writer_wait_acked(struct apus_writer *writer, int64_t timeout_ns)
{
	struct apus_mono deadline = apus_mono_add(apus_mono_now(), timeout_ns);
	apus_seq target;
	bool acked;

	if (!apus_dp_alive(writer->fork_count))
		return APUS_ECLOSED;
	apus_dp_worker_take_turn(writer->worker);
	apus_dp_writer_release(writer->dp, apus_mono_now()); /* who is not sent to cannot answer */
	target = writer->dp->last;
	for (;;) {
		acked = apus_dp_writer_acked(writer->dp, target);
		apus_dp_worker_end_turn(writer->worker);
		if (acked)
			return 0;
		if (reached(deadline))
			return APUS_ETIMEDOUT;
		if (apus_dp_worker_thread)
			return APUS_EDEADLK;
		apus_dp_pass_time_until(writer->worker, deadline);
		apus_dp_worker_take_turn(writer->worker);
	}
}

int apus_writer_wait_matched(struct apus_writer *writer, uint32_t count, int64_t timeout_ns)
{
	struct apus_mono deadline = apus_mono_add(apus_mono_now(), timeout_ns);

	if (!apus_dp_alive(writer->fork_count))
		return APUS_ECLOSED;
	while (apus_writer_matched(writer) < count) {
		if (reached(deadline))
			return APUS_ETIMEDOUT;
		if (apus_dp_worker_thread)
			return APUS_EDEADLK;
		apus_dp_pass_time_until(writer->worker, deadline);
	}
	return 0;
}
