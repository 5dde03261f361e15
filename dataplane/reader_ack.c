/* SPDX-License-Identifier: Apache-2.0 */
/* Requests and acknowledgements of a reader, and when they leave (RTPS 2.5 §8.4.12.2). */
#include "dataplane/reader_internal.h"

#include <stddef.h>

/* Requests to a writer that has not heartbeated yet: the first soon after the match, then ever rarer. */
#define GREET_FIRST_NS (100 * APUS_NS_PER_MS)
#define GREET_MAX_NS   (5 * APUS_NS_PER_SEC)
/* Requests for the same holes are at least this far apart: what was asked for may be on its way. */
#define ASK_AGAIN_NS (2 * APUS_NS_PER_MS)
/* The same while the next sample would be refused again; a take asks at once. */
#define REFUSED_AGAIN_NS (20 * APUS_NS_PER_MS)
/* A request, or its answer, may be lost: it is repeated after this time, which doubles while nothing comes. The
 * last pause is half a second; after that only the writer's HEARTBEATs say that it is still there. */
#define REPEAT_FIRST_NS (4 * APUS_NS_PER_MS)
#define REPEAT_MAX_NS   (APUS_NS_PER_SEC / 2)
#define ACKNACK_BYTES   64

void apus_dp_reader_queue_ack(struct apus_dp_reader_state *s)
{
	if (s->ack_queued)
		return;
	s->ack_queued = true;
	s->ack_next = s->reader->worker->ack_list;
	s->reader->worker->ack_list = s;
}

/* Something was asked for: if nothing has come by then, the timer asks again. What had been refused for want of
 * room comes with room, not with requests. */
static void repeat_later(struct apus_dp_reader_state *s, struct apus_mono now)
{
	apus_seq missing = s->window.next;

	if (missing != s->repeat_seq) {
		s->repeat_seq = missing;
		s->repeat_ns = REPEAT_FIRST_NS;
	} else if (s->repeat_ns <= REPEAT_MAX_NS) {
		s->repeat_ns *= 2;
	}
	if (s->repeat_ns > REPEAT_MAX_NS || s->reader->any_refused)
		return;
	if (!apus_dp_timer_armed(&s->timer))
		apus_dp_wheel_arm(&s->reader->worker->wheel, &s->timer,
				  apus_mono_add(now, s->repeat_ns));
}

void apus_dp_reader_send_ack(struct apus_dp_reader_state *state, struct apus_mono now)
{
	struct apus_dp_reader *r = state->reader;
	struct apus_wire_acknack a = {.reader = r->eid, .writer = state->eid};

	if (state->addr.family == 0)
		return;
	apus_dp_window_acknack(&state->window, &a.set, &a.final);
	if (state->assembly_count) {
		apus_dp_reader_spare_fragmented(state, &a.set, now);
		a.final = a.set.num_bits == 0; /* fragments are asked for aside */
	}
	a.count = ++state->ack_count;
	if (a.set.num_bits) {
		state->asked = now;
		state->asked_end = a.set.base + a.set.num_bits;
		repeat_later(state, now);
	}
	if (apus_wire_acknack(
		    apus_dp_out_at(&r->worker->out, &state->addr, &state->prefix, ACKNACK_BYTES),
		    &a) == 0)
		apus_counter_add(&r->counters.acknacks_sent, 1);
	if (state->assembly_count)
		apus_dp_reader_send_nack_frags(state, now);
}

/* Between requests. What was refused for want of room, and nobody has taken anything since, is refused again. */
static int64_t distance(const struct apus_dp_reader_state *s)
{
	return s->reader->any_refused && apus_dp_window_was_refused(&s->window, s->window.next)
		       ? REFUSED_AGAIN_NS
		       : ASK_AGAIN_NS;
}

/* Asks for what is missing: now, or so much later that requests keep their distance. */
void apus_dp_reader_ask(struct apus_dp_reader_state *s, struct apus_mono now, int64_t delay_ns)
{
	struct apus_mono due = apus_mono_add(now, delay_ns);
	struct apus_mono spaced = apus_mono_add(s->asked, distance(s));

	/* When all that was asked for has come, what lies beyond has not been asked for yet. */
	if (s->asked.ns && s->window.next < s->asked_end && apus_mono_before(due, spaced))
		due = spaced;
	if (!apus_mono_before(now, due)) {
		apus_dp_reader_queue_ack(s);
		return;
	}
	if (!apus_dp_timer_armed(&s->timer) || apus_mono_before(due, s->timer.due))
		apus_dp_wheel_arm(&s->reader->worker->wheel, &s->timer, due);
}

/* Interop: a Fast DDS 2.9.1 writer has forgotten whatever was acknowledged, and remembers all it still has when it is
 * told number 0, as by a reader that knows of nothing yet. */
static void recall(struct apus_dp_reader_state *s)
{
	struct apus_dp_reader *r = s->reader;
	struct apus_wire_acknack a = {.reader = r->eid, .writer = s->eid, .count = ++s->ack_count};

	if (s->addr.family && s->prefix.bytes[0] == 0x01 && s->prefix.bytes[1] == 0x0f &&
	    apus_wire_acknack(apus_dp_out_at(&r->worker->out, &s->addr, &s->prefix, ACKNACK_BYTES),
			      &a) == 0)
		apus_counter_add(&r->counters.acknacks_sent, 1);
}

bool apus_dp_reader_ask_from(struct apus_dp_reader *reader, const struct apus_guid *writer,
			     apus_seq from, struct apus_mono now)
{
	for (uint32_t i = 0; i < reader->match_count; i++) {
		struct apus_dp_reader_state *s = &reader->states[reader->order[i]];

		if (!apus_guid_equal(&s->guid, writer))
			continue;
		if (s->local || s->shm || !apus_dp_window_reopen(&s->window, from))
			return false;
		apus_dp_reader_drop_held(s);
		s->asked.ns = 0;
		recall(s);
		apus_dp_reader_ask(s, now, 0);
		return true;
	}
	return false;
}

void apus_dp_reader_timer(struct apus_dp_timer *timer, struct apus_mono now)
{
	struct apus_dp_reader_state *s =
		(struct apus_dp_reader_state *)((char *)timer -
						offsetof(struct apus_dp_reader_state, timer));

	if (!s->window.heartbeat_seen) {
		/* The writer has not been heard: it may not know us yet. Keep asking, ever rarer. */
		apus_dp_reader_queue_ack(s);
		s->greet_ns = s->greet_ns * 2 < GREET_MAX_NS ? s->greet_ns * 2 : GREET_MAX_NS;
		apus_dp_wheel_arm(&s->reader->worker->wheel, &s->timer,
				  apus_mono_add(now, s->greet_ns));
	} else if (s->answer_due || s->assembly_count || apus_dp_window_has_missing(&s->window)) {
		apus_dp_reader_queue_ack(s);
	}
	s->answer_due = false;
}

void apus_dp_reader_greet(struct apus_dp_reader_state *state, struct apus_mono now)
{
	apus_dp_reader_queue_ack(state);
	state->greet_ns = GREET_FIRST_NS;
	apus_dp_wheel_arm(&state->reader->worker->wheel, &state->timer,
			  apus_mono_add(now, state->greet_ns));
}
