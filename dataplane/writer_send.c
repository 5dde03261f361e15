/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A writer's submessages and whom they go to: samples to destinations with the verdicts of the filters,
 * HEARTBEATs behind them, GAPs for what is left out; see writer.h.
 */
#include "dataplane/writer_internal.h"

#include <apus/participant.h>

#define NONE APUS_SHM_NO_SLOT

/* Data messages ask for an acknowledgement every so many samples, so that a KEEP_ALL history drains without
 * waiting for the timer; less often where the history holds many, for each answer costs a datagram. */
#define HB_ASK_EVERY     32
#define HB_ASK_EVERY_MAX 1024

/* The first number there is: of a sample, or of the end of a set that somebody has yet to acknowledge, whose samples
 * a volatile writer has let go as soon as all had those. Without it a reader took that end for lost, and the set
 * for broken. */
static apus_seq first_kept(const struct apus_dp_writer *w)
{
	apus_seq first = apus_dp_cache_first(&w->cache, w->last + 1);
	const struct apus_dp_marker *m = NULL;

	if (w->marker_count && !w->config.transient_local)
		m = apus_dp_writer_marker(w, w->min_acked + 1, first - 1);
	return m ? m->seq : first;
}

apus_seq apus_dp_writer_first(const struct apus_dp_writer *w, const struct apus_dp_writer_state *s)
{
	apus_seq first = first_kept(w);

	if (!s->lazy || s->confirmed + 1 >= first || (s->owing_at && s->acked + 1 < first))
		return first;
	return s->confirmed + 1;
}

/* The same for all readers behind a destination. */
static apus_seq first_behind(const struct apus_dp_writer *w, uint32_t destination)
{
	const struct apus_dp_destination *d = &w->destinations[destination];
	apus_seq least = INT64_MAX;

	if (!d->filtered)
		return first_kept(w);
	for (uint32_t i = 0; i < d->state_count; i++) {
		const struct apus_dp_writer_state *s = apus_dp_writer_behind(w, destination, i);
		apus_seq first = apus_dp_writer_first(w, s);

		if (s->lazy && first < least)
			least = first;
	}
	return least < INT64_MAX ? least : first_kept(w);
}

/* first, last: the numbers to tell of. */
void apus_dp_writer_put_heartbeat(struct apus_dp_writer *w, struct apus_wire_builder *b,
				  struct apus_eid reader, apus_seq first, apus_seq last, bool final)
{
	struct apus_wire_heartbeat hb = {
		.reader = reader,
		.writer = w->eid,
		.first = first <= last ? first : last + 1,
		.last = last,
		.count = ++w->hb_count,
		.final = final,
	};

	if (apus_wire_heartbeat(b, &hb) == 0)
		apus_counter_add(&w->counters.heartbeats, 1);
}

struct apus_wire_inline_out apus_dp_writer_inline_qos(const struct apus_dp_writer *w,
						      const struct apus_dp_entry *e)
{
	struct apus_wire_inline_out qos = {0};

	apus_dp_marks_put(&e->marks, &qos);
	qos.related_fastdds = w->config.related_fastdds;
	if (e->kind != APUS_ALIVE) {
		qos.status_info = e->kind; /* the bits are those of StatusInfo_t */
		qos.key_hash = w->cache.instances[e->instance_idx].key_hash;
	}
	return qos;
}

void apus_dp_writer_add_inline(const struct apus_dp_writer *w, const struct apus_dp_entry *e,
			       struct apus_wire_inline_out *qos)
{
	if (w->config.cache.key_bytes_max)
		qos->key_hash = w->cache.instances[e->instance_idx].key_hash;
	qos->qos_list = w->inline_list;
	qos->qos_list_bytes = w->inline_bytes;
}

void apus_dp_writer_put_sample(struct apus_dp_writer *w, uint32_t slot,
			       const struct apus_dp_writer_target *target)
{
	uint8_t info[APUS_DP_FILTER_INFO_BYTES];
	const struct apus_dp_entry *e = &w->cache.entries[slot];
	struct apus_wire_data_out d = {
		.reader = target->reader,
		.writer = w->eid,
		.seq = e->seq,
		.payload = apus_dp_cache_payload(&w->cache, slot),
		.payload_bytes = e->payload_bytes,
		.key_only = e->key_only,
	};

	if (e->kind != APUS_ALIVE || apus_dp_marks_any(&e->marks))
		d.qos = apus_dp_writer_inline_qos(w, e);
	if (target->inline_qos)
		apus_dp_writer_add_inline(w, e, &d.qos);
	if (e->judged) {
		d.qos.filter_info = info;
		d.qos.filter_info_bytes = apus_dp_writer_filter_info(w, slot, target->states,
								     target->state_count, info);
		apus_counter_add(&w->counters.filter_info, d.qos.filter_info_bytes > 0);
	}
	apus_counter_add(&w->counters.data_sent, 1);
	if (target->hash_only && e->kind != APUS_ALIVE && e->key_only) {
		d.payload = NULL;
		d.payload_bytes = 0;
		d.key_only = false;
	}
	apus_dp_out_data(&w->worker->out, target->to, target->dest, e->source, &d);
}

/* True if [from, to] holds a multiple of n. */
static bool passes(apus_seq from, apus_seq to, apus_seq n)
{
	return to / n != (from - 1) / n;
}

static apus_seq ask_every(const struct apus_dp_writer *w)
{
	uint32_t n = w->config.cache.depth ? 0 : w->config.cache.max_samples / 4;

	if (n < HB_ASK_EVERY)
		return HB_ASK_EVERY;
	return n < HB_ASK_EVERY_MAX ? n : HB_ASK_EVERY_MAX;
}

/* Data messages ask for an answer (a HEARTBEAT without the final flag) when a reader has never been
 * heard, every so many samples, and when a KEEP_ALL history is half full. from: the first of them. */
static bool wants_answer(const struct apus_dp_writer *w, const struct apus_dp_destination *d,
			 apus_seq from)
{
	const struct apus_dp_writer_state *s = &w->states[d->first_state];

	/* Who is sent to now and then may not be again for long. */
	return s->heard.ns == 0 || passes(from, w->sent, ask_every(w)) ||
	       (w->config.cache.depth == 0 && w->cache.count * 2 >= w->config.cache.max_samples &&
		(d->filtered || passes(from, w->sent, 4)));
}

void apus_dp_writer_gap_to(struct apus_dp_writer *w, const struct apus_dp_addr *to,
			   const struct apus_prefix *dest, struct apus_eid reader, apus_seq start,
			   apus_seq end)
{
	struct apus_wire_gap gap = {
		.reader = reader, .writer = w->eid, .start = start, .set = {.base = end}};

	if (apus_wire_gap(apus_dp_out_at(&w->worker->out, to, dest, APUS_DP_GAP_BYTES), &gap) == 0)
		apus_counter_add(&w->counters.gaps, 1);
}

void apus_dp_writer_gap(struct apus_dp_writer *w, const struct apus_dp_writer_state *s,
			apus_seq start, apus_seq end)
{
	apus_dp_writer_gap_to(w, &s->addr, &s->prefix, s->eid, start, end);
}

void apus_dp_writer_put_gap(struct apus_dp_writer *w, const struct apus_dp_writer_state *s,
			    struct apus_dp_gap_run *run)
{
	if (run->start == 0)
		return;
	apus_dp_writer_gap(w, s, run->start, run->end);
	run->start = 0;
}

void apus_dp_writer_send_one(struct apus_dp_writer *w, uint32_t slot, uint32_t i,
			     struct apus_mono now, struct apus_dp_follow_up *f)
{
	const struct apus_dp_destination *d = &w->destinations[i];
	const struct apus_prefix *dest = d->one_participant ? &d->prefix : NULL;

	apus_dp_writer_note(w, w->cache.entries[slot].seq, slot, i);
	if (!apus_dp_writer_is_large(w, slot)) {
		const struct apus_dp_writer_target target = {
			.to = &d->addr,
			.dest = dest,
			.reader = d->eid,
			.hash_only = d->hash_only_dispose,
			.inline_qos = d->inline_qos,
			.states = w->filtering.by_destination + d->first_idx,
			.state_count = d->filter_info ? d->state_count : 0,
		};

		apus_dp_writer_put_sample(w, slot, &target);
		f->heartbeat = true;
		return;
	}
	apus_counter_add(&w->counters.data_sent, 1);
	if (apus_dp_writer_push(w, slot, i, now))
		f->heartbeat = f->ask = true;
}

/* Sends the ends of sets numbered *next … below - 1 to a destination. */
static void send_markers(struct apus_dp_writer *w, uint32_t destination, apus_seq *next,
			 apus_seq below, struct apus_dp_follow_up *f)
{
	const struct apus_dp_destination *d = &w->destinations[destination];
	const struct apus_prefix *dest = d->one_participant ? &d->prefix : NULL;
	const struct apus_dp_marker *m;

	while (w->marker_count && (m = apus_dp_writer_marker(w, *next, below - 1))) {
		apus_dp_writer_note(w, m->seq, NONE, destination);
		apus_dp_writer_put_marker(w, m, &d->addr, dest, d->eid);
		f->heartbeat = true;
		*next = m->seq + 1;
	}
}

/* True if nothing has to be asked of any sample but whether it is plain: no filters, directions or ends of sets. */
static bool sends_runs(const struct apus_dp_writer *w, uint32_t destination)
{
	const struct apus_dp_destination *d = &w->destinations[destination];

	return !w->filtered_count && !w->filtering.lazy_count && !w->marker_count &&
	       !w->config.directed && !d->inline_qos && !d->filtered;
}

/* A sample whose DATA is as short as it can be. */
static bool is_plain(const struct apus_dp_writer *w, const struct apus_dp_entry *e)
{
	return e->kind == APUS_ALIVE && !e->key_only && !e->judged &&
	       e->payload_bytes <= w->worker->out.copy_bytes &&
	       e->payload_bytes <= w->worker->config.fragment_bytes && e->payload_bytes >= 4 &&
	       !apus_dp_marks_any(&e->marks);
}

/* Sends the plain samples at the beginning, as far as the window of `s` (or NULL) goes. Returns where the others
 * begin. */
static uint32_t send_run(struct apus_dp_writer *w, uint32_t first, uint32_t destination,
			 const struct apus_dp_writer_state *s)
{
	const struct apus_dp_destination *d = &w->destinations[destination];
	struct apus_dp_out_run run = {.to = &d->addr,
				      .dest = d->one_participant ? &d->prefix : NULL,
				      .reader = d->eid,
				      .writer = w->eid};
	uint64_t end = s ? apus_dp_writer_window_end(w, s, first) : UINT64_MAX;
	apus_seq last = 0;
	uint32_t slot, n = 0;

	for (slot = first; slot != NONE; n++) {
		const struct apus_dp_entry *e = &w->cache.entries[slot];

		if (!is_plain(w, e) || e->offset_bytes + e->payload_bytes > end)
			break;
		if (slot == first)
			apus_dp_writer_note(w, e->seq, slot, destination);
		apus_dp_out_run(&w->worker->out, &run, e->source, e->seq,
				apus_dp_cache_payload(&w->cache, slot), e->payload_bytes);
		last = e->seq;
		slot = e->next;
	}
	if (n) {
		apus_dp_writer_note_run(w, last, destination);
		apus_counter_add(&w->counters.data_sent, n);
	}
	return slot;
}

/* Sends changes to a destination, and one HEARTBEAT. wanted: it is known that somebody there wants them all.
 * Of readers that are not reliable nothing is looked at then: of many, their states are in no cache. */
static void send_to(struct apus_dp_writer *w, apus_seq from, uint32_t first, uint32_t i,
		    bool wanted, struct apus_mono now)
{
	const struct apus_dp_destination *d = &w->destinations[i];
	const struct apus_prefix *dest = d->one_participant ? &d->prefix : NULL;
	struct apus_dp_follow_up f = {0};
	struct apus_dp_writer_state *s = apus_dp_writer_windowed(w, i);
	apus_seq next = from, last = w->sent;

	if (d->reliable)
		apus_dp_writer_settle_behind(w, i, from - 1);
	if (first != NONE && sends_runs(w, i) && !(s && (s->waiting_seq || s->lazy))) {
		uint32_t rest = send_run(w, first, i, s);

		f.heartbeat = rest != first;
		first = rest;
	}
	for (uint32_t slot = first; slot != NONE; slot = w->cache.entries[slot].next) {
		if (!wanted && !apus_dp_writer_wanted(w, slot, i)) {
			apus_counter_add(&w->counters.filtered, 1);
			continue;
		}
		if (s && !s->waiting_seq && !apus_dp_writer_window_admits(w, s, slot, now)) {
			f.heartbeat = f.ask = true;
			last = w->cache.entries[slot].seq - 1;
		}
		if (s && s->waiting_seq)
			continue; /* only to count what is not wanted */
		send_markers(w, i, &next, w->cache.entries[slot].seq, &f);
		apus_dp_writer_send_one(w, slot, i, now, &f);
	}
	if (s && s->waiting_seq && !f.heartbeat)
		return;
	send_markers(w, i, &next, last + 1, &f);
	if (!d->reliable || !f.heartbeat)
		return;
	if (d->eid.value && w->states[d->first_state].unsent_seq &&
	    last > apus_dp_writer_told(w, &w->states[d->first_state]))
		last = apus_dp_writer_told(w, &w->states[d->first_state]);
	/* A HEARTBEAT in front of the GAP would have the reader ask for what it does not want. */
	apus_dp_writer_cover_behind(w, i, last);
	apus_dp_writer_put_heartbeat(
		w, apus_dp_out_at(&w->worker->out, &d->addr, dest, APUS_DP_HEARTBEAT_BYTES), d->eid,
		first_behind(w, i), last, !f.ask && !wants_answer(w, d, from));
}

/* Judges what is about to be sent, and chooses destinations. False: all of them. */
static bool choose(struct apus_dp_writer *w, apus_seq from, uint32_t first)
{
	uint32_t n = 0;
	bool judged = true;

	apus_dp_writer_choose(w);
	for (uint32_t slot = first; slot != NONE; slot = w->cache.entries[slot].next, n++)
		judged &= apus_dp_writer_judge(w, slot);
	/* A number without a sample is the end of a set, which is for all. */
	if (!judged || n != w->sent - from + 1)
		return false;
	apus_counter_add(&w->counters.filtered,
			 (uint64_t)n * (w->destination_count - w->filtering.visit_count));
	return true;
}

void apus_dp_writer_judge_all(struct apus_dp_writer *w, apus_seq from, uint32_t first)
{
	w->chosen = apus_dp_writer_judges(w) && choose(w, from, first);
}

void apus_dp_writer_send(struct apus_dp_writer *w, apus_seq from, uint32_t first,
			 struct apus_mono now)
{
	if (w->chosen)
		/* A single sample was chosen for. */
		for (uint32_t i = 0; i < w->filtering.visit_count; i++)
			send_to(w, from, first, w->filtering.visits[i], from == w->sent, now);
	else
		for (uint32_t i = 0; i < w->destination_count; i++)
			send_to(w, from, first, i, false, now);
	if (w->filtering.lazy_count && !apus_dp_timer_armed(&w->gap_timer))
		apus_dp_wheel_arm(&w->worker->wheel, &w->gap_timer,
				  apus_mono_add(now, APUS_DP_GAP_FLUSH_NS));
}
