/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many small samples may be on their way to one reliable reader.
 *
 * A socket buffer of 212,992 bytes holds less than 300 small datagrams, and a reader may be slower than its
 * writer: what is sent beyond that is lost and sent again. So a KEEP_ALL writer keeps a window for each
 * reader that has a destination to itself. Samples beyond it wait in the history, where KEEP_ALL has room for
 * them and pushes back where it has not; `waiting_seq` says from where on. What the reader's filter rejects is
 * not sent and takes nothing of the window. Acknowledgements, which the HEARTBEAT
 * in front of the gap asks for, move the window. It shrinks by half when something is asked for again (once
 * for what was on its way then), and grows where it is what holds the writer up: doubling below three
 * quarters of where it last failed (at first, below what a default buffer holds), slowly above, and very slowly
 * above that buffer, for there nearly every step ends in a loss.
 *
 * A foreign reader may take its time to acknowledge (Fast DDS 2.9: 5 ms), so once a millisecond one window
 * goes to it unasked: `paced_seq`.
 *
 * KEEP_LAST has no window: there a sample that waits could be displaced by the next. Nor has a writer whose
 * samples may be large: writer_frag.c looks after those.
 */
#include "dataplane/writer_internal.h"

#define NONE APUS_SHM_NO_SLOT

#define WINDOW_MIN_BYTES ((uint32_t)32 * 1024)
#define WINDOW_MAX_BYTES ((uint32_t)4 * 1024 * 1024)

/* Bytes of a receive buffer that the kernel takes for a datagram beside its payload, and that a sample takes
 * in a packed one. */
#define DATAGRAM_OVERHEAD_BYTES 640
#define PACKED_OVERHEAD_BYTES   40

#define PACE_NS APUS_NS_PER_MS

/* Where samples may be large, writer_frag.c paces them, and its window counts the small ones between them. */
static bool has_window(const struct apus_dp_writer *w)
{
	return w->config.cache.depth == 0 && !w->config.proof_secret &&
	       w->config.cache.payload_bytes_max <= w->worker->config.fragment_bytes;
}

uint32_t apus_dp_writer_overhead(const struct apus_dp_writer *w, bool alone)
{
	if (!has_window(w))
		return 0;
	return alone && w->config.batch_bytes == 0 ? DATAGRAM_OVERHEAD_BYTES
						   : PACKED_OVERHEAD_BYTES;
}

struct apus_dp_writer_state *apus_dp_writer_windowed(struct apus_dp_writer *w, uint32_t destination)
{
	const struct apus_dp_destination *d = &w->destinations[destination];

	if (d->eid.value == 0 || !d->reliable || !has_window(w))
		return NULL;
	return &w->states[d->first_state];
}

bool apus_dp_writer_window_admits(struct apus_dp_writer *w, struct apus_dp_writer_state *s,
				  uint32_t slot, struct apus_mono now)
{
	apus_seq from = s->acked + 1 > s->paced_seq ? s->acked + 1 : s->paced_seq;
	const struct apus_dp_entry *e = &w->cache.entries[slot];
	uint64_t before = s->lazy ? s->pending_bytes : apus_dp_writer_outstanding(w, from, slot);

	if (before == 0 || before + e->payload_bytes <= s->window_bytes ||
	    apus_dp_writer_is_large(w, slot))
		return true;
	s->waiting_seq = e->seq;
	if (!apus_dp_prefix_is_apus(&s->prefix) && !apus_dp_timer_armed(&w->pace_timer))
		apus_dp_wheel_arm(&w->worker->wheel, &w->pace_timer, apus_mono_add(now, PACE_NS));
	return false;
}

uint64_t apus_dp_writer_window_end(const struct apus_dp_writer *w,
				   const struct apus_dp_writer_state *s, uint32_t slot)
{
	apus_seq from = s->acked + 1 > s->paced_seq ? s->acked + 1 : s->paced_seq;
	uint64_t before = apus_dp_writer_outstanding(w, from, slot);

	return w->cache.entries[slot].offset_bytes +
	       (before < s->window_bytes ? s->window_bytes - before : 0);
}

/* What a sample takes of the window of a lazy reader. */
static uint64_t share_of(const struct apus_dp_writer *w, uint32_t slot)
{
	return w->cache.entries[slot].payload_bytes + apus_dp_writer_overhead(w, true);
}

void apus_dp_writer_window_sent(const struct apus_dp_writer *w, struct apus_dp_writer_state *s,
				uint32_t slot)
{
	if (s->lazy && has_window(w))
		s->pending_bytes += share_of(w, slot);
}

void apus_dp_writer_window_acked(const struct apus_dp_writer *w, struct apus_dp_writer_state *s,
				 apus_seq seq)
{
	uint32_t slot, idx = (uint32_t)(s - w->states);
	apus_seq from = s->acked + 1 > s->paced_seq ? s->acked + 1 : s->paced_seq;

	if (s->pending_bytes == 0)
		return;
	if (seq >= s->owed_last) {
		s->pending_bytes = 0;
		return;
	}
	for (slot = apus_dp_writer_find_from(w, from);
	     slot != NONE && w->cache.entries[slot].seq <= seq;
	     slot = w->cache.entries[slot].next) {
		uint64_t share = share_of(w, slot);

		if (!apus_dp_writer_is_rejected(w, slot, idx))
			s->pending_bytes -= share < s->pending_bytes ? share : s->pending_bytes;
	}
}

void apus_dp_writer_window_move(struct apus_dp_writer *w, struct apus_dp_writer_state *s,
				struct apus_mono now)
{
	struct apus_dp_follow_up f = {0};
	apus_seq from = s->waiting_seq > s->acked ? s->waiting_seq : s->acked + 1;
	uint32_t slot = apus_dp_writer_find_from(w, from);

	s->waiting_seq = 0;
	for (; slot != NONE && w->cache.entries[slot].seq <= w->sent;
	     slot = w->cache.entries[slot].next) {
		if (!apus_dp_writer_wanted(w, slot, s->destination))
			continue;
		if (!apus_dp_writer_window_admits(w, s, slot, now))
			break;
		apus_dp_writer_send_one(w, slot, s->destination, now, &f);
	}
	apus_dp_writer_heartbeat(w, s);
	apus_dp_writer_lagging(w, now);
}

void apus_dp_writer_stop_waiting(struct apus_dp_writer *w, struct apus_dp_writer_state *s)
{
	if (!s->waiting_seq)
		return;
	apus_dp_writer_cover(w, s, s->waiting_seq - 1);
	s->waiting_seq = 0;
	s->covered = s->owed_last = w->sent;
}

void apus_dp_writer_window_learn(const struct apus_dp_writer *w, struct apus_dp_writer_state *s,
				 bool progress, bool missing)
{
	if (missing && s->acked >= s->window_mark) {
		s->window_limit = s->window_bytes / 4 * 3;
		s->window_bytes = s->window_bytes / 2 > WINDOW_MIN_BYTES ? s->window_bytes / 2
									 : WINDOW_MIN_BYTES;
		s->window_mark = apus_dp_writer_told(w, s);
	} else if (progress && !missing && s->waiting_seq) {
		s->window_bytes += s->window_bytes < s->window_limit ? s->window_bytes
				   : s->window_bytes < APUS_DP_WINDOW_LIMIT_BYTES
					   ? s->window_bytes / 32
					   : s->window_bytes / 256;
		if (s->window_bytes > WINDOW_MAX_BYTES)
			s->window_bytes = WINDOW_MAX_BYTES;
	}
}
