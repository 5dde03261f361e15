/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large samples for best-effort readers (RTPS 2.5 §8.4.14): a beginning at once, the rest in portions by the timer.
 *
 * Nobody asks for what a full socket buffer of 212,992 bytes has dropped, and without one fragment the sample is lost. So
 * no more leaves at a time than such a buffer holds, and no more than a reader empties: `pace_bytes` each time the timer
 * fires, every 1 to 2 ms, and half as much again at once in the beginning. A writer that is faster finds the rest of its sample unsent when it writes the next: then the rest leaves at once,
 * before it can be displaced. The same at the end of the writer.
 *
 * A destination is served by the state of its first reader: `rest_seq`, `rest_fragment`. What has an unsent rest stays in the
 * history, and is not acknowledged. A destination with a reliable reader is writer_frag.c's: there the best-effort
 * readers beside it are lucky or not.
 */
#include "dataplane/writer_internal.h"

#define NONE APUS_SHM_NO_SLOT

/* Sends fragments of the rest, one at least. */
static void portion(struct apus_dp_writer *w, struct apus_dp_writer_state *s, uint64_t budget)
{
	uint32_t size = w->worker->config.fragment_bytes, slot = NONE, count;
	const struct apus_dp_destination *d;

	if (s->destination < w->destination_count)
		slot = apus_dp_cache_find(&w->cache, s->rest_seq);
	if (slot == NONE) { /* removed, or nobody is there any more */
		s->rest_seq = 0;
		return;
	}
	d = &w->destinations[s->destination];
	count = apus_dp_writer_fragment_count(w, slot);
	do {
		apus_dp_writer_put_fragment(w, slot, s->rest_fragment++, d);
		budget -= size < budget ? size : budget;
	} while (s->rest_fragment <= count && budget >= size);
	if (s->rest_fragment > count)
		s->rest_seq = 0;
}

void apus_dp_writer_pace_begin(struct apus_dp_writer *w, uint32_t slot, uint32_t destination,
			       struct apus_mono now)
{
	struct apus_dp_writer_state *s = &w->states[w->destinations[destination].first_state];

	if (s->rest_seq)
		portion(w, s, UINT64_MAX);
	s->rest_seq = w->cache.entries[slot].seq;
	s->rest_fragment = 1;
	portion(w, s, (uint64_t)w->worker->config.pace_bytes * 3 / 2);
	if (s->rest_seq == 0)
		return;
	w->paces = true;
	if (!apus_dp_timer_armed(&w->pace_timer))
		apus_dp_wheel_arm(&w->worker->wheel, &w->pace_timer,
				  apus_mono_add(now, APUS_DP_WRITER_PACE_NS));
}

/* Sends of each rest so many bytes. */
static void advance(struct apus_dp_writer *w, uint64_t budget)
{
	bool more = false;

	for (uint32_t i = 0; i < w->match_count; i++) {
		struct apus_dp_writer_state *s = &w->states[w->order[i]];

		if (s->rest_seq)
			portion(w, s, budget);
		more |= s->rest_seq != 0;
	}
	w->paces = more;
	if (more)
		return;
	apus_dp_out_flush(&w->worker->out); /* the slots that it refers to are given back now */
	apus_dp_writer_settle(w);
}

bool apus_dp_writer_pace_on(struct apus_dp_writer *w)
{
	advance(w, w->worker->config.pace_bytes);
	return w->paces;
}

void apus_dp_writer_pace_flush(struct apus_dp_writer *writer)
{
	if (writer->paces)
		advance(writer, UINT64_MAX);
}

apus_seq apus_dp_writer_pace_low(const struct apus_dp_writer *w)
{
	apus_seq low = INT64_MAX;

	for (uint32_t i = 0; i < w->match_count; i++) {
		const struct apus_dp_writer_state *s = &w->states[w->order[i]];

		if (s->rest_seq && s->rest_seq < low)
			low = s->rest_seq;
	}
	return low;
}
