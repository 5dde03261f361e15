/* SPDX-License-Identifier: Apache-2.0 */
/* The application's side of a reader: take, read, return, and the descriptor to wait on. */
#include "dataplane/reader.h"
#include "dataplane/cache.h"
#include "dataplane/worker.h"
#include "dataplane/writer.h"

#include <string.h>
#include <unistd.h>

#define NONE  APUS_SHM_NO_SLOT
#define BATCH 64

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

	if (*place == NONE)
		*place = apus_shm_pool_acquire(&r->pool);
	if (*place == NONE)
		return;
	payload = (uint8_t *)apus_shm_pool_slot(&r->pool, *place) + APUS_DP_SLOT_PAYLOAD;
	n = apus_wire_key_payload(&r->plan, key, key_bytes, r->config.representation, payload,
				  r->pool.slot_bytes - APUS_DP_SLOT_PAYLOAD);
	if (n > 0) {
		out->payload = payload;
		out->payload_bytes = (uint32_t)n;
	}
}

static void show(struct apus_dp_reader *r, const struct apus_dp_loan *loan, struct apus_sample *out)
{
	const struct apus_dp_sample *e = loan->entry;

	memset(out, 0, sizeof(*out));
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
		.filter_generation = e->record.filter_generation,
	};
	if (e->valid_data) {
		out->payload = (uint8_t *)apus_shm_pool_slot(&r->pool, e->record.slot_ref) +
			       APUS_DP_SLOT_PAYLOAD;
		out->payload_bytes = r->slot_payload_bytes[e->record.slot_ref];
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

void apus_dp_reader_ask_again(struct apus_dp_reader *reader, struct apus_mono now)
{
	if (!reader->any_refused)
		return;
	reader->any_refused = false;
	for (uint32_t i = 0; i < reader->match_count; i++) {
		struct apus_dp_reader_state *s = &reader->states[reader->order[i]];
		struct apus_dp_writer *local =
			s->local ? apus_dp_worker_writer(reader->worker, s->eid) : NULL;

		if (local)
			apus_dp_writer_retry_local(local, now);
		else if (s->reliable && apus_dp_window_has_missing(&s->window))
			apus_dp_reader_send_ack(s, now);
	}
}

static int access_batch(struct apus_dp_reader *r, const struct apus_dp_select *select, bool take,
			struct apus_mono now, struct apus_sample *out, uint32_t max)
{
	struct apus_dp_loan loans[BATCH];
	int n = apus_dp_history_access(&r->inbox.history, select, take, now, loans,
				       max < BATCH ? max : BATCH);

	for (int i = 0; i < n; i++)
		show(r, &loans[i], &out[i]);
	return n;
}

int apus_dp_reader_access(struct apus_dp_reader *reader, const struct apus_select *select,
			  bool take, struct apus_mono now, struct apus_sample *samples_out,
			  uint32_t max)
{
	struct apus_dp_select s = {0};
	uint32_t total = 0;
	int n = 0;

	if (select) {
		s.instance_states = select->instance_states;
		s.sample_states = select->sample_states;
		s.view_states = select->view_states;
		s.instance = select->instance;
	}
	/* Reading leaves samples in place, so a second batch would begin with the same ones. */
	if (!take && max > BATCH)
		max = BATCH;
	while (total < max) {
		n = access_batch(reader, &s, take, now, samples_out + total, max - total);
		if (n <= 0)
			break;
		total += (uint32_t)n;
		if (!take || n < BATCH)
			break;
	}
	/* Not where the limit of loans cut the call short: samples are waiting for some to be returned. */
	if (total < max &&
	    reader->inbox.history.loan_count < reader->inbox.history.options.max_loans)
		lower_event(reader);
	if (take && total)
		apus_dp_reader_ask_again(reader, now);
	return total ? (int)total : n;
}

int apus_dp_reader_return(struct apus_dp_reader *reader, struct apus_sample *sample)
{
	uint32_t idx = sample->reserved;
	int rc;

	if (!sample->payload && !sample->info.seq)
		return APUS_EINVAL;
	if (idx >= reader->inbox.history.entry_count)
		return APUS_EINVAL;
	rc = apus_dp_history_return(&reader->inbox.history, idx);
	if (rc == 0 && reader->key_slots[idx] != NONE &&
	    reader->inbox.history.entries[idx].loans == 0) {
		apus_shm_pool_release(&reader->pool, reader->key_slots[idx]);
		reader->key_slots[idx] = NONE;
	}
	sample->payload = NULL;
	sample->info.seq = 0;
	return rc;
}

bool apus_dp_reader_available(struct apus_dp_reader *reader, struct apus_mono now)
{
	if (apus_dp_history_available(&reader->inbox.history, NULL, now))
		return true;
	lower_event(reader); /* what raised it has expired or was pruned */
	return false;
}

int apus_dp_reader_fd(struct apus_dp_reader *reader, struct apus_mono now)
{
	reader->event_wanted = true;
	if (apus_dp_reader_available(reader, now))
		apus_dp_reader_raise(reader);
	return reader->event_fd;
}
