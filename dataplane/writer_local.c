/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Readers of the writer's own worker: each sample is handed to them as it is served, from a cursor of their own.
 *
 * One whose present filter is in the writer's index is *indexed*: a sample that its filter rejects does not touch
 * it. It is done with everything that was served unless it owes an acknowledgement, so its cursor is of use only
 * then; what it was spared it counts later, all at once. Its admission still decides: it is told of a verdict only
 * where that is of this very sample and filter. A reader whose filter changes says so, and is visited for every
 * sample, as one without a filter is, until the index is that of its new filter.
 */
#include "dataplane/reader.h"
#include "dataplane/writer_internal.h"

#define NONE APUS_SHM_NO_SLOT

/* Hands one sample to a reader of this worker; false if the reader refused and wants it again. */
static bool deliver(struct apus_dp_writer *w, struct apus_dp_writer_state *s, uint32_t slot,
		    bool filter_passed, struct apus_mono now)
{
	const struct apus_dp_entry *e = &w->cache.entries[slot];
	struct apus_dp_local_sample sample = {
		.writer = &w->config.guid,
		.match_id = s->match_id,
		.seq = e->seq,
		.source = e->source,
		.kind = e->kind,
		.key_only = e->key_only,
		.payload = apus_dp_cache_payload(&w->cache, slot),
		.payload_bytes = e->payload_bytes,
		.marks = e->marks,
		.filter_passed = filter_passed,
	};

	return apus_dp_reader_local(s->local, &sample, now) || !s->reliable;
}

/* Hands ends of sets below a number to a local reader; false if it refused. */
static bool pass_markers(struct apus_dp_writer *w, struct apus_dp_writer_state *s, apus_seq below,
			 struct apus_mono now)
{
	const struct apus_dp_marker *m;

	while (w->marker_count && (m = apus_dp_writer_marker(w, s->acked + 1, below - 1))) {
		struct apus_dp_local_sample sample = {
			.writer = &w->config.guid,
			.match_id = s->match_id,
			.seq = m->seq,
			.source = m->source,
			.marks = m->marks,
		};

		if (!apus_dp_reader_local(s->local, &sample, now) && s->reliable)
			return false;
		s->acked = m->seq;
	}
	return true;
}

/* Serves one local reader from its cursor. passed: the number of a sample that its present filter is known to
 * pass, or 0. */
static bool advance(struct apus_dp_writer *w, struct apus_dp_writer_state *s, apus_seq passed,
		    struct apus_mono now)
{
	uint32_t slot = apus_dp_writer_slot_behind(w, s->acked);
	apus_seq before = s->acked;

	for (; slot != NONE && w->cache.entries[slot].seq <= w->sent;
	     slot = w->cache.entries[slot].next) {
		if (!pass_markers(w, s, w->cache.entries[slot].seq, now))
			return s->acked != before;
		if (!deliver(w, s, slot, w->cache.entries[slot].seq == passed, now))
			return s->acked != before;
		s->acked = w->cache.entries[slot].seq;
	}
	if (pass_markers(w, s, w->sent + 1, now) && s->acked < w->sent)
		s->acked = w->sent;
	return s->acked != before;
}

/* --- the index ---------------------------------------------------------------------------------- */

void apus_dp_writer_skipped(struct apus_dp_writer *w, struct apus_dp_writer_state *s,
			    uint64_t served)
{
	uint64_t judged = w->filtering.local_judged;

	if (!s->indexed || !s->local)
		return;
	/* Who owes is offered everything behind its cursor. */
	if (!s->owing_at)
		apus_dp_reader_skipped(s->local, judged - served - s->skipped_to);
	s->skipped_to = judged;
}

static bool knows_match(const struct apus_dp_reader *r, uint64_t match_id)
{
	for (uint32_t i = 0; i < r->match_count; i++)
		if (r->states[r->order[i]].match_id == match_id)
			return true;
	return false;
}

/* Coherent sets and groups look at the numbers that have come. */
static bool may_be_indexed(const struct apus_dp_writer *w, const struct apus_dp_writer_state *s)
{
	const struct apus_dp_reader *r = s->local;

	/* What is too large for it is lost, whatever its filter says. */
	return r && s->local_generation &&
	       r->config.payload_bytes_max >= w->config.cache.payload_bytes_max &&
	       !r->config.sink && r->inbox.filter && !r->inbox.sets &&
	       !r->inbox.options.group_end && r->inbox.filter_generation == s->local_generation &&
	       knows_match(r, s->match_id);
}

void apus_dp_writer_derive_indexed(struct apus_dp_writer *w)
{
	w->refilter = false;
	w->indexed_count = 0;
	for (uint32_t i = 0; i < w->match_count; i++) {
		struct apus_dp_writer_state *s = &w->states[w->order[i]];
		bool behind = !s->reliable && s->acked < w->sent, may = may_be_indexed(w, s);

		apus_dp_writer_skipped(w, s, 0);
		s->skipped_to = w->filtering.local_judged;
		/* It has yet to be given the history, and is not in the heap of those who owe. */
		w->refilter |= may && behind;
		s->indexed = may && !behind;
		w->indexed_count += s->indexed;
	}
}

/* It is visited for every sample from now on, and has to say that it takes each. */
static void unindex(struct apus_dp_writer *w, struct apus_dp_writer_state *s)
{
	apus_dp_writer_skipped(w, s, 0);
	if (!s->owing_at && s->acked < w->sent)
		s->acked = w->sent;
	s->indexed = false;
	w->indexed_count--;
	apus_dp_writer_owing_pin(w, s);
	apus_dp_writer_open(w, s);
}

static void index_again(struct apus_dp_writer *w, struct apus_dp_writer_state *s)
{
	s->skipped_to = w->filtering.local_judged;
	s->indexed = true;
	w->indexed_count++;
	apus_dp_writer_owing_unpin(w, s);
	apus_dp_writer_close(w, s);
}

void apus_dp_writer_refilter(struct apus_dp_writer *writer, const struct apus_dp_reader *reader)
{
	struct apus_dp_writer_state *s = apus_dp_writer_find_state(writer, &reader->config.guid);
	bool may = s && s->local == reader && may_be_indexed(writer, s);

	if (!s || s->local != reader || may == s->indexed)
		return;
	if (!may)
		unindex(writer, s);
	else if (!s->reliable && s->acked < writer->sent)
		writer->refilter = true; /* as in the derivation */
	else
		index_again(writer, s);
}

void apus_dp_writer_forget_local(struct apus_dp_writer *writer, const struct apus_dp_reader *reader)
{
	struct apus_dp_writer_state *s = apus_dp_writer_find_state(writer, &reader->config.guid);

	if (!s || s->local != reader)
		return;
	apus_dp_writer_skipped(writer, s, 0);
	if (s->indexed)
		writer->indexed_count--;
	else
		apus_dp_writer_close(writer, s);
	apus_dp_writer_owing_drop(writer, s);
	/* It neither gets nor acknowledges anything until its match ends. */
	s->indexed = false;
	s->pinned = true;
	s->local = NULL;
	s->reliable = false;
	s->addr.family = 0;
	writer->local_count--;
	apus_dp_writer_settle(writer);
}

void apus_dp_writer_count_all_skipped(struct apus_dp_writer *writer)
{
	for (uint32_t i = 0; i < writer->match_count; i++)
		apus_dp_writer_skipped(writer, &writer->states[writer->order[i]], 0);
}

void apus_dp_writer_count_skipped(struct apus_dp_writer *writer,
				  const struct apus_dp_reader *reader)
{
	struct apus_dp_writer_state *s = apus_dp_writer_find_state(writer, &reader->config.guid);

	if (s && s->local == reader)
		apus_dp_writer_skipped(writer, s, 0);
}

/* --- serving ------------------------------------------------------------------------------------ */

/* Where a reader now stands, for the heap of those who owe. */
static void note_cursor(struct apus_dp_writer *w, struct apus_dp_writer_state *s)
{
	if (!s->reliable)
		return;
	if (!s->indexed) {
		apus_dp_writer_owing_moved(w, s);
		return;
	}
	if (s->acked < w->sent)
		apus_dp_writer_owes(w, s, s->acked + 1);
	s->owed_last = w->sent;
	apus_dp_writer_owing_acked(w, s, s->acked);
}

/* done: it is done with everything up to here, if it is indexed and owes nothing. */
static bool visit(struct apus_dp_writer *w, struct apus_dp_writer_state *s, apus_seq done,
		  apus_seq passed, struct apus_mono now)
{
	if (s->indexed && !s->owing_at && s->acked < done)
		s->acked = done;
	if (s->acked >= w->sent || !advance(w, s, s->indexed ? passed : 0, now)) {
		if (s->indexed)
			note_cursor(w, s);
		return false;
	}
	note_cursor(w, s);
	return true;
}

static void visit_chosen(struct apus_dp_writer *w, apus_seq from, struct apus_mono now)
{
	struct apus_dp_writer_filtering *f = &w->filtering;
	uint64_t n = (uint64_t)(w->sent - from) + 1;
	bool sure = n == 1 && !w->cache.entries[w->cache.tail].unsure;

	f->local_judged += n;
	for (uint32_t i = 0; i < f->local_visit_count; i++) {
		struct apus_dp_writer_state *s = &w->states[f->local_visits[i]];

		if (!s->local)
			continue;
		apus_dp_writer_skipped(w, s, n);
		visit(w, s, from - 1, sure ? from : 0, now);
	}
}

bool apus_dp_writer_serve_local(struct apus_dp_writer *w, apus_seq from, struct apus_mono now)
{
	bool moved = false;

	if (w->chosen && w->indexed_count && from <= w->sent) {
		visit_chosen(w, from, now);
		return true;
	}
	for (uint32_t i = 0; i < w->match_count; i++) {
		struct apus_dp_writer_state *s = &w->states[w->order[i]];

		if (!s->local)
			continue;
		apus_dp_writer_skipped(w, s, 0);
		moved |= visit(w, s, from - 1, 0, now);
	}
	return moved;
}

/* Nothing is derived here: a reader may adopt its snapshot before the writer does, whose index is then gone. */
void apus_dp_writer_retry_local(struct apus_dp_writer *writer, struct apus_mono now)
{
	if (apus_dp_writer_serve_local(writer, writer->sent + 1, now))
		apus_dp_writer_settle(writer);
}
