/* SPDX-License-Identifier: Apache-2.0 */
/* The application's side of a reader: take, read, return, and the descriptor to wait on. */
#include <apus/status.h>

#include "dataplane/cache.h"
#include "dataplane/group.h"
#include "dataplane/reader_internal.h"
#include "dataplane/worker.h"
#include "dataplane/writer.h"

#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define NONE APUS_SHM_NO_SLOT

/* So much room in a history, or a quarter of it, is worth going back to a ring for. */
#define ROOM_ENOUGH 32

/* An entry without data is shown with a key-only payload, built in a spare slot of the pool; it lives as
 * long as the entry is lent. Loans are bounded and each has a slot reserved, so there is always one. */
static void show_key(struct apus_dp_reader *r, const struct apus_dp_loan *loan,
		     struct apus_sample *out)
{
	const struct apus_dp_history *h = &r->inbox.history;
	uint32_t *place = &r->key_slots[loan->entry_idx];
	uint32_t key_bytes;
	const uint8_t *key = apus_dp_history_key(h, loan->entry, &key_bytes);
	uint8_t *payload;
	int n;

	if (!*place) /* none is NONE, and NONE + 1 is 0 */
		*place = apus_shm_pool_acquire(&r->pool) + 1;
	if (!*place)
		return;
	payload = (uint8_t *)apus_shm_pool_slot(&r->pool, *place - 1) + APUS_DP_SLOT_PAYLOAD;
	n = apus_wire_key_payload(r->plan, key, key_bytes, r->config.representation, payload,
				  r->pool.slot_bytes - APUS_DP_SLOT_PAYLOAD);
	if (n > 0) {
		out->payload = payload;
		out->payload_bytes = (uint32_t)n;
	}
}

static void show(struct apus_dp_reader *r, const struct apus_dp_loan *loan, struct apus_sample *out)
{
	const struct apus_dp_sample *e = loan->entry;

	out->payload = NULL;
	out->payload_bytes = 0;
	out->reserved = loan->entry_idx;
	out->info = (struct apus_sample_info){
		.writer = e->record.writer,
		.seq = e->record.seq,
		.source_time_ns = e->record.source_time.ns,
		.reception_time_ns = e->record.reception_time.ns,
		.instance = loan->instance,
		.instance_state = loan->instance_state,
		.valid_data = e->valid_data,
		.read_before = loan->read_before,
		.view_new = loan->view_new,
		.disposed_generation_count = e->disposed_generation_count,
		.no_writers_generation_count = e->no_writers_generation_count,
		.related_writer = e->record.marks.related_writer,
		.related_seq = e->record.marks.related_seq,
		.filter_generation = e->record.filter_generation,
	};
	if (e->valid_data) {
		out->payload = apus_dp_reader_payload(r, e->record.slot_ref, &out->payload_bytes);
		apus_dp_lent_show(r, e->record.slot_ref);
	} else {
		show_key(r, loan, out);
	}
}

/* The descriptor stays readable exactly as long as something new may be there. */
static void lower_event(struct apus_dp_reader *r)
{
	uint64_t count;

	if (!r->event_raised)
		return;
	r->event_raised = false;
	(void)!read(r->event_fd, &count, sizeof(count));
}

/* There may be room for what was left in the ring. */
static void retry_shm(struct apus_dp_reader_state *s, struct apus_mono now)
{
	s->shm_stalled = false;
	apus_dp_shm_drain(s, now);
	/* It went to sleep without this ring's bell up. */
	if (s->reader->worker->shm_dozing)
		apus_dp_worker_wake(s->reader->worker);
}

/* Room for one at a time has a sample refused for each that is taken, and its writer look for room as often. Who takes
 * what is there, and will come back for it, makes room for several first; who waits to be told has no reason to. */
static bool spares_rings(const struct apus_dp_reader *r)
{
	const struct apus_dp_history *h = &r->inbox.history;
	uint32_t enough = h->options.max_samples / 4;

	if (enough > ROOM_ENOUGH)
		enough = ROOM_ENOUGH;
	return h->sample_count + h->withheld_count + enough > h->options.max_samples &&
	       h->first != APUS_DP_NONE && !r->worker->shm_dozing &&
	       !(r->watched.mask & APUS_STATUS_DATA_AVAILABLE);
}

void apus_dp_reader_ask_again(struct apus_dp_reader *reader, bool more, struct apus_mono now)
{
	bool spare = more && spares_rings(reader);

	if (!reader->any_refused)
		return;
	reader->any_refused = reader->shm_spared = false;
	for (uint32_t i = 0; i < reader->match_count; i++) {
		struct apus_dp_reader_state *s = &reader->states[reader->order[i]];
		struct apus_dp_writer *local =
			s->local ? apus_dp_worker_writer(reader->worker, s->eid) : NULL;

		if (local)
			apus_dp_writer_retry_local(local, now);
		else if (s->shm_stalled && spare)
			reader->any_refused = reader->shm_spared = true;
		else if (s->shm_stalled)
			retry_shm(s, now);
		else if (s->reliable && apus_dp_window_has_missing(&s->window))
			apus_dp_reader_send_ack(s, now);
	}
}

/* The conditions of an access that only the reader understands. */
struct wanted {
	const struct apus_dp_reader *reader;
	const struct apus_select *select;      /* with a related writer, or NULL */
	const struct apus_dp_predicate *query; /* or NULL */
};

static bool answers(const struct apus_select *s, const struct apus_dp_sample *e)
{
	const struct apus_dp_marks *m = &e->record.marks;

	return m->related_seq && apus_guid_equal(&m->related_writer, s->related_writer) &&
	       (s->related_seq == 0 || s->related_seq == m->related_seq);
}

static bool satisfies(const struct apus_dp_reader *r, const struct apus_dp_predicate *query,
		      const struct apus_dp_sample *e)
{
	const uint8_t *payload;
	uint32_t bytes;

	if (!e->valid_data || e->record.slot_ref == NONE)
		return false;
	payload = apus_dp_reader_payload(r, e->record.slot_ref, &bytes);
	return apus_dp_predicate_eval(query, payload, bytes) == APUS_DP_PASS;
}

static bool wants(void *context, const struct apus_dp_sample *e)
{
	const struct wanted *w = context;

	return (!w->select || answers(w->select, e)) &&
	       (!w->query || satisfies(w->reader, w->query, e));
}

static struct apus_dp_select select_of(const struct apus_select *select, struct wanted *w)
{
	struct apus_dp_select s = {0};

	if (w->reader->config.subscriber)
		s.stamp_max = apus_dp_group_stamp_max(w->reader->config.subscriber);
	w->select = select && select->related_writer ? select : NULL;
	if (w->select || w->query) {
		s.match = wants;
		s.match_context = w;
	}
	if (!select)
		return s;
	s.instance_states = select->instance_states;
	s.sample_states = select->sample_states;
	s.view_states = select->view_states;
	s.instance = select->instance;
	s.next_instance = select->next_instance;
	return s;
}

/* Order across readers: each sample may be followed by one of another reader (DDS 1.4 §2.2.2.5.3.8). */
static bool one_by_one(const struct apus_dp_reader *r)
{
	const struct apus_dp_subscriber *g = r->config.subscriber;

	return g && g->ordered_access && g->access_scope == APUS_SCOPE_GROUP;
}

/* Ranks, and what the access changes; backwards over the batch. */
static void finish(struct apus_dp_reader *r, const struct apus_dp_walk *walk,
		   struct apus_sample *samples, uint32_t count)
{
	for (uint32_t i = count; i-- > 0;) {
		struct apus_dp_loan loan = {.entry_idx = samples[i].reserved};

		apus_dp_history_finish(&r->inbox.history, walk, &loan);
		samples[i].info.sample_rank = loan.sample_rank;
		samples[i].info.generation_rank = loan.generation_rank;
		samples[i].info.absolute_generation_rank = loan.absolute_generation_rank;
	}
}

int apus_dp_reader_access(struct apus_dp_reader *reader, const struct apus_select *select,
			  bool take, struct apus_mono now, struct apus_sample *samples_out,
			  uint32_t max)
{
	return apus_dp_reader_access_where(reader, select, NULL, take, now, samples_out, max);
}

bool apus_dp_reader_has(struct apus_dp_reader *reader, const struct apus_select *select,
			const struct apus_dp_predicate *query, struct apus_mono now)
{
	struct wanted w = {.reader = reader, .query = query};
	struct apus_dp_select s = select_of(select, &w);

	apus_dp_reader_expire(reader, now);
	return apus_dp_history_available(&reader->inbox.history, &s, now);
}

int apus_dp_reader_access_where(struct apus_dp_reader *reader, const struct apus_select *select,
				const struct apus_dp_predicate *query, bool take,
				struct apus_mono now, struct apus_sample *samples_out, uint32_t max)
{
	struct apus_dp_history *h = &reader->inbox.history;
	struct wanted w = {.reader = reader, .query = query};
	struct apus_dp_select s = select_of(select, &w);
	struct apus_dp_walk walk;
	struct apus_dp_loan loan;
	uint32_t count = 0;
	int room = apus_dp_history_begin(h, &s, take, now, &walk);
	uint32_t limit = room < 0 ? 0 : (uint32_t)room;

	if (max < limit)
		limit = max;
	if (limit > 1 && one_by_one(reader))
		limit = 1;
	while (count < limit && apus_dp_history_next(h, &s, &walk, &loan))
		show(reader, &loan, &samples_out[count++]);
	finish(reader, &walk, samples_out, count);
	/* Not where the limit of loans cut the call short: samples are waiting for some to be returned. */
	if (count < limit && h->loan_count < h->options.max_loans)
		lower_event(reader);
	if (take && (count || APUS_UNLIKELY(reader->shm_spared)))
		apus_dp_reader_ask_again(reader, count && count == limit, now);
	return count ? (int)count : room < 0 ? room : 0;
}

int apus_dp_reader_return(struct apus_dp_reader *reader, struct apus_sample *sample)
{
	uint32_t idx = sample->reserved;
	int rc;

	if (!sample->payload && !sample->info.seq)
		return APUS_EINVAL;
	if (idx >= reader->inbox.history.entry_count)
		return APUS_EINVAL;
	if (reader->inbox.history.entries[idx].loans)
		apus_dp_lent_unshow(reader, reader->inbox.history.entries[idx].record.slot_ref);
	rc = apus_dp_history_return(&reader->inbox.history, idx);
	if (rc == 0 && reader->key_slots[idx] && reader->inbox.history.entries[idx].loans == 0) {
		apus_shm_pool_release(&reader->pool, reader->key_slots[idx] - 1);
		reader->key_slots[idx] = 0;
	}
	sample->payload = NULL;
	sample->info.seq = 0;
	return rc;
}

bool apus_dp_reader_available(struct apus_dp_reader *reader, struct apus_mono now)
{
	struct wanted w = {.reader = reader};
	struct apus_dp_select s = select_of(NULL, &w);

	apus_dp_reader_expire(reader, now);
	if (apus_dp_history_available(&reader->inbox.history, &s, now))
		return true;
	lower_event(reader); /* what raised it has expired or was pruned */
	return false;
}

int apus_dp_reader_fd(struct apus_dp_reader *reader, struct apus_mono now)
{
	if (reader->event_fd < 0)
		reader->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (reader->event_fd < 0)
		return APUS_EIO;
	reader->event_wanted = true;
	apus_dp_reader_want_alarm(reader, now);
	if (apus_dp_reader_available(reader, now))
		apus_dp_reader_raise(reader);
	return reader->event_fd;
}
