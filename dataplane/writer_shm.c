/* SPDX-License-Identifier: Apache-2.0 */
/* The writer's end of matches through shared memory; see shm_match.h. */
#include "dataplane/shm_match.h"
#include "dataplane/writer_internal.h"

#include <apus/core.h>

#include <string.h>
#include <unistd.h>

size_t apus_dp_shm_page_bytes(uint32_t slot_count)
{
	return sizeof(struct apus_dp_shm_page) +
	       (size_t)APUS_SHM_RETURN_WORDS(slot_count) * sizeof(apus_shm_word);
}

int apus_dp_shm_out_init(struct apus_dp_shm_out *end, struct apus_shm_ring_out *out,
			 struct apus_dp_shm_page *page, uint32_t capacity, uint32_t inline_bytes,
			 struct apus_shm_pool *pool, uint32_t quota, int bell_fd)
{
	memset(end, 0, sizeof(*end));
	if (apus_shm_ring_bytes(capacity, inline_bytes) == 0 || quota == 0 ||
	    pool->slot_count >= APUS_DP_SHM_SLOTS_MAX)
		return APUS_EINVAL;
	end->pool = pool;
	end->page = page;
	end->quota = quota;
	end->bell_fd = bell_fd;
	apus_shm_ring_writer_init(&end->ring, out, &page->ring, capacity, inline_bytes);
	/* What is left of the cache line costs nothing, but a ring that was asked for without payloads has none. */
	if (inline_bytes)
		end->inline_bytes = apus_shm_ring_inline_bytes(end->ring.cell_words);
	return apus_shm_held_init(&end->held, pool->slot_count, page->returned);
}

static void slot_back(void *user, uint32_t slot)
{
	apus_shm_pool_release(user, slot);
}

void apus_dp_shm_out_drop(struct apus_dp_shm_out *end)
{
	apus_shm_held_drop(&end->held, slot_back, end->pool);
}

void apus_dp_shm_out_fini(struct apus_dp_shm_out *end)
{
	apus_shm_held_fini(&end->held);
	memset(end, 0, sizeof(*end));
}

/* In a descriptor that has no slot. */
#define SLOT_NONE (APUS_DP_SHM_SLOTS_MAX - 1)

_Static_assert(sizeof(struct apus_dp_marks) <= APUS_DP_SLOT_PAYLOAD,
	       "marks fit in front of a slot");

void apus_dp_writer_mark_slot(struct apus_dp_writer *w, uint32_t slot)
{
	const struct apus_dp_marks *marks = &w->cache.entries[slot].marks;

	if (apus_dp_marks_any(marks))
		memcpy(apus_shm_pool_slot(&w->cache.pool, slot), marks, sizeof(*marks));
}

static struct apus_shm_desc describe(const struct apus_dp_shm_out *end,
				     const struct apus_dp_entry *e, uint32_t slot, bool is_inline)
{
	uint64_t flags = e->kind | (e->key_only ? APUS_DP_SHM_KEY_ONLY : 0) |
			 (is_inline                      ? APUS_DP_SHM_INLINE
			  : apus_dp_marks_any(&e->marks) ? APUS_DP_SHM_MARKED
							 : 0);

	if (is_inline)
		slot = SLOT_NONE;

	return (struct apus_shm_desc){{(uint64_t)e->seq, (uint64_t)end->before,
				       (uint64_t)e->payload_bytes << 32 | flags << 24 | slot,
				       (uint64_t)e->source.ns}};
}

static void collect(struct apus_dp_shm_out *end)
{
	apus_shm_held_collect(&end->held, end->held.words, slot_back, end->pool,
			      &end->false_returns);
}

/* A descriptor that was displaced: its slot is not the reader's any more. */
static void displaced(struct apus_dp_writer *w, struct apus_dp_shm_out *end,
		      const struct apus_shm_desc *old)
{
	uint32_t slot = (uint32_t)old->word[2] & (APUS_DP_SHM_SLOTS_MAX - 1);

	if (old->word[2] >> 24 & (APUS_DP_SHM_ASSERTION | APUS_DP_SHM_END))
		return;
	if (!(old->word[2] >> 24 & APUS_DP_SHM_INLINE) && apus_shm_held_remove(&end->held, slot))
		apus_shm_pool_release(end->pool, slot);
	apus_counter_add(&w->counters.shm_displaced, 1);
}

/* Room for one more in the ring; where it displaces, there always is. */
static bool has_cell(struct apus_dp_writer *w, struct apus_dp_shm_out *end, bool reliable)
{
	struct apus_shm_desc old;
	bool has_old = false, has_room;

	if (reliable)
		return apus_shm_ring_reserve(&end->ring) == APUS_SHM_DONE;
	has_room = apus_shm_ring_reserve_over(&end->ring, &old, &has_old) == APUS_SHM_DONE;
	if (has_old)
		displaced(w, end, &old);
	return has_room;
}

/* Is there a slot for one more sample in the quota? A best-effort reader gives up its oldest for it. */
static bool has_slot(struct apus_dp_writer *w, struct apus_dp_shm_out *end, bool reliable)
{
	struct apus_shm_desc old;

	if (end->held.count >= end->quota)
		collect(end);
	/* At most once round the ring: not all of them have slots. */
	while (end->held.count >= end->quota && !reliable &&
	       apus_shm_ring_take_back(&end->ring, &old) == APUS_SHM_DONE)
		displaced(w, end, &old);
	return end->held.count < end->quota;
}

/* What was put into the ring is there for a reader that sleeps, too. */
static void publish(struct apus_dp_shm_out *end)
{
	uint64_t one = 1;

	if (!apus_shm_ring_publish(&end->ring) || !apus_shm_bell_signal(&end->page->bell) ||
	    end->bell_fd < 0)
		return;
	(void)!write(end->bell_fd, &one, sizeof(one));
}

/* Puts one sample of the cache into the reader's ring, its payload with it if it fits. False: no room, and the reader
 * is to have it later. */
static bool push(struct apus_dp_writer *w, struct apus_dp_writer_state *s, uint32_t slot)
{
	struct apus_dp_shm_out *end = s->shm;
	const struct apus_dp_entry *e = &w->cache.entries[slot];
	bool is_inline = e->payload_bytes <= end->inline_bytes && !apus_dp_marks_any(&e->marks);
	struct apus_shm_desc desc = describe(end, e, slot, is_inline);

	/* Nothing more is owed to a reader that wrote nonsense; its match is about to end. */
	if (end->ring.broken)
		return true;
	if (!is_inline && !has_slot(w, end, s->reliable)) {
		if (s->reliable)
			return false;
		/* It has them all in its hands. */
		apus_counter_add(&w->counters.shm_displaced, 1);
		end->before = e->seq;
		return true;
	}
	if (!has_cell(w, end, s->reliable))
		return end->ring.broken;
	apus_shm_ring_put(&end->ring, &desc,
			  is_inline ? apus_dp_cache_payload(&w->cache, slot) : NULL,
			  is_inline ? e->payload_bytes : 0);
	end->before = e->seq;
	if (is_inline)
		return true;
	apus_shm_held_add(&end->held, slot);
	apus_shm_pool_hold(end->pool, slot);
	return true;
}

/* How far the reader has admitted what it was given. */
static apus_seq admitted(struct apus_dp_shm_out *end)
{
	uint32_t waiting = apus_shm_ring_waiting(&end->ring);
	const struct apus_shm_ring_writer *r = &end->ring;

	if (waiting == 0 || r->broken)
		return end->cursor;
	return (apus_seq)apus_shm_ring_oldest(r) - 1;
}

/* A reader that has no room admits nothing and is there all the same: it is asked, and its worker woken to answer. True if
 * it has answered. */
static bool is_there(const struct apus_dp_writer *w, struct apus_dp_shm_out *end,
		     struct apus_mono now)
{
	uint64_t one = 1;

	/* Relaxed: a number, and nothing goes with it. */
	if (end->asked && apus_shm_load(&end->page->answered, relaxed) == end->asked) {
		end->asked_at = now;
		end->asked = 0;
		return true;
	}
	if (now.ns - end->moved.ns < w->worker->config.demote_ns / 4 ||
	    (end->asked && now.ns - end->asked_at.ns < w->worker->config.demote_ns / 4))
		return false;
	end->asked_at = now;
	if (end->asked == 0)
		end->asked = ++end->questions;
	/* Relaxed: as above; the system call orders it before the reader wakes. */
	apus_shm_store(&end->page->asked, end->asked, relaxed);
	if (end->bell_fd >= 0)
		(void)!write(end->bell_fd, &one, sizeof(one));
	return false;
}

/* A reader that neither admits anything nor answers for the configured time while there is something for it is waited
 * for no more (writer_demote.c), until it goes on. Returns true if that has changed. */
static bool judge_silence(struct apus_dp_writer *w, struct apus_dp_writer_state *s, bool further,
			  struct apus_mono now)
{
	struct apus_dp_shm_out *end = s->shm;

	if (further || s->acked >= w->sent || end->moved.ns == 0) {
		end->moved = now;
		end->asked = 0;
		return further && apus_dp_writer_heard(w, s);
	}
	if (w->worker->config.demote_ns <= 0)
		return false;
	if (is_there(w, end, now)) {
		end->moved = now;
		return apus_dp_writer_heard(w, s);
	}
	if (s->demoted || now.ns - end->moved.ns < w->worker->config.demote_ns)
		return false;
	s->demoted = true;
	apus_counter_add(&w->counters.demotions, 1);
	apus_dp_writer_derive(w);
	return true;
}

/* Takes back what readers returned, and notes how far they have come. True if somebody has come further. */
static bool collect_all(struct apus_dp_writer *w, struct apus_mono now)
{
	bool moved = false;

	for (uint32_t i = 0; i < w->match_count; i++) {
		struct apus_dp_writer_state *s = &w->states[w->order[i]];
		apus_seq seq;

		if (!s->shm)
			continue;
		collect(s->shm);
		if (!s->reliable)
			continue;
		seq = admitted(s->shm);
		if (seq > s->acked) {
			s->acked = seq;
			apus_dp_writer_owing_moved(w, s);
			moved = true;
			(void)judge_silence(w, s, true, now);
		} else {
			moved |= judge_silence(w, s, false, now);
		}
	}
	return moved;
}

/* --- serving --------------------------------------------------------------------------------------- */

/* How often readers that are behind, or have not admitted everything, are looked at while nobody writes. */
#define LOOK_NS (100 * APUS_NS_PER_US)

/* The next number for a reader is this one. What is between it and the cursor was displaced. */
static void reach(struct apus_dp_shm_out *end, apus_seq seq)
{
	if (seq > end->cursor + 1)
		end->before = seq - 1;
}

/* Puts the end of a set into the ring; false: no room. */
static bool push_end(struct apus_dp_writer *w, struct apus_dp_writer_state *s,
		     const struct apus_dp_marker *m)
{
	struct apus_dp_shm_out *end = s->shm;
	uint64_t began = m->marks.group_coherent_seq
				 ? (uint64_t)(m->marks.group_seq - m->marks.group_coherent_seq) + 1
				 : 0;
	struct apus_shm_desc desc = {{(uint64_t)m->seq, (uint64_t)end->before,
				      began << 32 | (uint64_t)APUS_DP_SHM_END << 24 | SLOT_NONE,
				      (uint64_t)m->marks.group_seq}};

	if (!has_cell(w, end, s->reliable))
		return end->ring.broken;
	apus_shm_ring_put(&end->ring, &desc, NULL, 0);
	end->before = m->seq;
	return true;
}

/* Ends of sets below a number; false: no room. */
static bool push_ends(struct apus_dp_writer *w, struct apus_dp_writer_state *s, apus_seq below)
{
	const struct apus_dp_marker *m;

	while (w->marker_count && (m = apus_dp_writer_marker(w, s->shm->cursor + 1, below - 1))) {
		reach(s->shm, m->seq);
		if (!push_end(w, s, m))
			return false;
		s->shm->cursor = m->seq;
	}
	return true;
}

/* Serves one reader from its cursor, until its ring or its quota is full. */
static void advance(struct apus_dp_writer *w, struct apus_dp_writer_state *s)
{
	uint32_t idx = (uint32_t)(s - w->states);

	for (uint32_t slot = apus_dp_writer_slot_behind(w, s->shm->cursor);
	     slot != APUS_SHM_NO_SLOT && w->cache.entries[slot].seq <= w->sent;
	     slot = w->cache.entries[slot].next) {
		apus_seq seq = w->cache.entries[slot].seq;

		if (!push_ends(w, s, seq))
			return;
		reach(s->shm, seq);
		if (s->filtered_from && apus_dp_writer_is_rejected(w, slot, idx))
			apus_counter_add(&w->counters.filtered, 1);
		else if (!push(w, s, slot))
			return;
		s->shm->cursor = seq;
	}
	if (push_ends(w, s, w->sent + 1))
		s->shm->cursor = w->sent;
}

void apus_dp_writer_serve_shm(struct apus_dp_writer *w, struct apus_mono now)
{
	bool pending = false;

	for (uint32_t i = 0; i < w->match_count; i++) {
		struct apus_dp_writer_state *s = &w->states[w->order[i]];

		if (!s->shm)
			continue;
		if (s->shm->cursor < w->sent)
			advance(w, s);
		if (!s->reliable)
			s->acked = s->shm->cursor;
		pending |= s->acked < w->sent;
	}
	/* Telling a reader waits until what was written for it is in the cache; so all are written to first. */
	for (uint32_t i = 0; i < w->match_count; i++)
		if (w->states[w->order[i]].shm)
			publish(w->states[w->order[i]].shm);
	if (pending && !apus_dp_timer_armed(&w->shm_timer))
		apus_dp_wheel_arm(&w->worker->wheel, &w->shm_timer, apus_mono_add(now, LOOK_NS));
}

void apus_dp_writer_look_at_shm(struct apus_dp_writer *w, struct apus_mono now)
{
	if (collect_all(w, now))
		apus_dp_writer_settle(w);
	apus_dp_writer_serve_shm(w, now);
}

void apus_dp_writer_shm_fn(struct apus_dp_timer *timer, struct apus_mono now)
{
	apus_dp_writer_look_at_shm(
		(struct apus_dp_writer *)((char *)timer -
					  offsetof(struct apus_dp_writer, shm_timer)),
		now);
}

void apus_dp_writer_assert_shm(struct apus_dp_writer_state *s)
{
	struct apus_dp_shm_out *end = s->shm;
	struct apus_shm_desc desc = {
		{(uint64_t)end->before, 0, (uint64_t)APUS_DP_SHM_ASSERTION << 24 | SLOT_NONE}};

	/* A full ring holds samples, and those say as much. */
	if (apus_shm_ring_reserve(&end->ring) != APUS_SHM_DONE)
		return;
	apus_shm_ring_put(&end->ring, &desc, NULL, 0);
	publish(end);
}
