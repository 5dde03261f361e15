/* SPDX-License-Identifier: Apache-2.0 */
/* The public calls that look at statuses (include/apus/status.h). */
#include "dataplane/observe.h"

_Static_assert(APUS_DP_PLACES <= sizeof(struct apus_observer) / sizeof(uint64_t),
	       "a cursor has a place for every total");

/* --- kinds --------------------------------------------------------------------------------------- */

static const struct kind {
	uint32_t bit;
	uint8_t first, count; /* places */
	const char *name;
} kinds[] = {
	{APUS_STATUS_INCONSISTENT_TOPIC, APUS_DP_AT_INCONSISTENT, 1, "inconsistent_topic"},
	{APUS_STATUS_OFFERED_DEADLINE_MISSED, APUS_DP_AT_DEADLINE, 1, "offered_deadline_missed"},
	{APUS_STATUS_REQUESTED_DEADLINE_MISSED, APUS_DP_AT_DEADLINE, 1,
	 "requested_deadline_missed"},
	{APUS_STATUS_OFFERED_INCOMPATIBLE_QOS, APUS_DP_AT_INCOMPATIBLE, 1,
	 "offered_incompatible_qos"},
	{APUS_STATUS_REQUESTED_INCOMPATIBLE_QOS, APUS_DP_AT_INCOMPATIBLE, 1,
	 "requested_incompatible_qos"},
	{APUS_STATUS_SAMPLE_LOST, APUS_DP_AT_LOST, 1, "sample_lost"},
	{APUS_STATUS_SAMPLE_REJECTED, APUS_DP_AT_REJECTED, 1, "sample_rejected"},
	{APUS_STATUS_DATA_AVAILABLE, APUS_DP_AT_AVAILABLE, 2, "data_available"},
	{APUS_STATUS_LIVELINESS_LOST, APUS_DP_AT_LIVELINESS_LOST, 1, "liveliness_lost"},
	{APUS_STATUS_LIVELINESS_CHANGED, APUS_DP_AT_ALIVE, 3, "liveliness_changed"},
	{APUS_STATUS_PUBLICATION_MATCHED, APUS_DP_AT_CURRENT, 3, "publication_matched"},
	{APUS_STATUS_SUBSCRIPTION_MATCHED, APUS_DP_AT_CURRENT, 3, "subscription_matched"},
};

/* What control knows; needs no turn. */
#define BOARD_MASK                                                                  \
	(APUS_STATUS_INCONSISTENT_TOPIC | APUS_STATUS_OFFERED_INCOMPATIBLE_QOS |    \
	 APUS_STATUS_REQUESTED_INCOMPATIBLE_QOS | APUS_STATUS_PUBLICATION_MATCHED | \
	 APUS_STATUS_SUBSCRIPTION_MATCHED)

const char *apus_status_name(int kind)
{
	for (size_t i = 0; i < APUS_ARRAY_LENGTH(kinds); i++)
		if (kinds[i].bit == (uint32_t)kind)
			return kinds[i].name;
	return "unknown";
}

uint32_t apus_dp_differing(const uint64_t totals[APUS_DP_PLACES],
			   const struct apus_observer *observer, uint32_t mask)
{
	uint32_t differing = 0;

	for (size_t i = 0; i < APUS_ARRAY_LENGTH(kinds); i++) {
		const struct kind *k = &kinds[i];

		if (!(k->bit & mask))
			continue;
		for (unsigned p = k->first; p < k->first + k->count; p++)
			if (totals[p] != observer->seen[p])
				differing |= k->bit;
	}
	return differing;
}

/* --- cursors ------------------------------------------------------------------------------------- */

/* How much one total moved since the cursor last looked; moves the cursor. NULL: since creation. */
static uint64_t moved(struct apus_observer *o, enum apus_dp_place place, uint64_t total)
{
	uint64_t before = o ? o->seen[place] : 0;

	if (o)
		o->seen[place] = total;
	return total - before;
}

static int report_matched(const struct apus_dp_board *board, struct apus_observer *o,
			  struct apus_matched_status *out)
{
	struct apus_dp_graph_status g;

	apus_dp_board_read(board, &g);
	*out = (struct apus_matched_status){
		.current = g.current,
		.current_change = (int32_t)moved(o, APUS_DP_AT_CURRENT, g.current),
		.total = g.total,
		.total_change = moved(o, APUS_DP_AT_MATCHED, g.total),
		.transitions = g.transitions,
		.transitions_change = moved(o, APUS_DP_AT_TRANSITIONS, g.transitions),
		.last = g.last_match,
	};
	return out->transitions_change != 0;
}

static int report_incompatible(const struct apus_dp_board *board, struct apus_observer *o,
			       struct apus_incompatible_status *out)
{
	struct apus_dp_graph_status g;

	apus_dp_board_read(board, &g);
	*out = (struct apus_incompatible_status){
		.total = g.incompatible,
		.change = moved(o, APUS_DP_AT_INCOMPATIBLE, g.incompatible),
		.last_policy = (int)g.last_policy,
		.last = g.last_incompatible,
	};
	for (size_t i = 0; i < APUS_POLICY_COUNT; i++)
		out->by_policy[i] = g.by_policy[i];
	return out->change != 0;
}

static int report_inconsistent(const struct apus_dp_board *board, struct apus_observer *o,
			       struct apus_inconsistent_status *out)
{
	struct apus_dp_graph_status g;

	apus_dp_board_read(board, &g);
	*out = (struct apus_inconsistent_status){
		.total = g.inconsistent,
		.change = moved(o, APUS_DP_AT_INCONSISTENT, g.inconsistent),
	};
	return out->change != 0;
}

static void board_totals(const struct apus_dp_board *board, uint64_t *totals)
{
	struct apus_dp_graph_status g;

	apus_dp_board_read(board, &g);
	totals[APUS_DP_AT_CURRENT] = g.current;
	totals[APUS_DP_AT_MATCHED] = g.total;
	totals[APUS_DP_AT_TRANSITIONS] = g.transitions;
	totals[APUS_DP_AT_INCOMPATIBLE] = g.incompatible;
	totals[APUS_DP_AT_INCONSISTENT] = g.inconsistent;
}

#define CHECK(entity, out)                                \
	do {                                              \
		if (!(entity) || !(out))                  \
			return APUS_EINVAL;               \
		if (!apus_dp_alive((entity)->fork_count)) \
			return APUS_ECLOSED;              \
	} while (0)

/* --- writers ------------------------------------------------------------------------------------- */

int apus_writer_matched_status(struct apus_writer *writer, struct apus_observer *observer,
			       struct apus_matched_status *status_out)
{
	CHECK(writer, status_out);
	return report_matched(&writer->board, observer, status_out);
}

int apus_writer_incompatible_status(struct apus_writer *writer, struct apus_observer *observer,
				    struct apus_incompatible_status *status_out)
{
	CHECK(writer, status_out);
	return report_incompatible(&writer->board, observer, status_out);
}

int apus_writer_inconsistent_status(struct apus_writer *writer, struct apus_observer *observer,
				    struct apus_inconsistent_status *status_out)
{
	CHECK(writer, status_out);
	return report_inconsistent(&writer->board, observer, status_out);
}

int apus_writer_deadline_status(struct apus_writer *writer, struct apus_observer *observer,
				struct apus_deadline_status *status_out)
{
	uint64_t total;
	uint32_t last;

	CHECK(writer, status_out);
	apus_dp_worker_take_turn(writer->worker);
	total = apus_dp_writer_deadlines(writer->dp, apus_mono_now(), &last);
	apus_dp_worker_end_turn(writer->worker);
	*status_out = (struct apus_deadline_status){
		.total = total,
		.change = moved(observer, APUS_DP_AT_DEADLINE, total),
		.last = last == APUS_DP_NO_KEY || writer->plan->max_bytes == 0 ? APUS_INSTANCE_NONE
									       : last + UINT64_C(1),
	};
	return status_out->change != 0;
}

int apus_writer_liveliness_status(struct apus_writer *writer, struct apus_observer *observer,
				  struct apus_liveliness_lost_status *status_out)
{
	uint64_t total;

	CHECK(writer, status_out);
	apus_dp_worker_take_turn(writer->worker);
	apus_dp_writer_expire(writer->dp, apus_mono_now());
	total = writer->dp->lease.losses;
	apus_dp_worker_end_turn(writer->worker);
	*status_out = (struct apus_liveliness_lost_status){
		.total = total,
		.change = moved(observer, APUS_DP_AT_LIVELINESS_LOST, total),
	};
	return status_out->change != 0;
}

void apus_dp_writer_totals(struct apus_writer *writer, uint32_t mask,
			   uint64_t totals_out[APUS_DP_PLACES])
{
	struct apus_dp_writer *w = writer->dp;
	struct apus_mono now;
	uint32_t last;

	memset(totals_out, 0, APUS_DP_PLACES * sizeof(totals_out[0]));
	if (mask & BOARD_MASK)
		board_totals(&writer->board, totals_out);
	if (!(mask & ~BOARD_MASK) || !w->has_status)
		return;
	apus_dp_worker_take_turn(writer->worker);
	now = apus_mono_now();
	apus_dp_writer_expire(w, now);
	totals_out[APUS_DP_AT_LIVELINESS_LOST] = w->lease.losses;
	if (mask & APUS_STATUS_OFFERED_DEADLINE_MISSED)
		totals_out[APUS_DP_AT_DEADLINE] = apus_dp_writer_deadlines(w, now, &last);
	apus_dp_worker_end_turn(writer->worker);
}

int apus_writer_status_changes(struct apus_writer *writer, const struct apus_observer *observer,
			       uint32_t mask)
{
	uint64_t totals[APUS_DP_PLACES];

	CHECK(writer, observer);
	if (mask & ~(uint32_t)APUS_STATUS_WRITER_MASK)
		return APUS_EINVAL;
	if (mask == 0)
		mask = APUS_STATUS_WRITER_MASK;
	apus_dp_writer_totals(writer, mask, totals);
	return (int)apus_dp_differing(totals, observer, mask);
}

int apus_writer_assert_liveliness(struct apus_writer *writer)
{
	CHECK(writer, writer);
	if (writer->dp->config.liveliness == APUS_AUTOMATIC)
		return APUS_EINVAL;
	if (writer->dp->config.liveliness == APUS_MANUAL_BY_PARTICIPANT)
		return apus_participant_assert_liveliness(writer->participant);
	apus_dp_worker_take_turn(writer->worker);
	apus_dp_writer_assert(writer->dp, apus_mono_now());
	apus_dp_worker_end_turn(writer->worker);
	return 0;
}

/* --- readers ------------------------------------------------------------------------------------- */

int apus_reader_matched_status(struct apus_reader *reader, struct apus_observer *observer,
			       struct apus_matched_status *status_out)
{
	CHECK(reader, status_out);
	return report_matched(&reader->board, observer, status_out);
}

int apus_reader_incompatible_status(struct apus_reader *reader, struct apus_observer *observer,
				    struct apus_incompatible_status *status_out)
{
	CHECK(reader, status_out);
	return report_incompatible(&reader->board, observer, status_out);
}

int apus_reader_inconsistent_status(struct apus_reader *reader, struct apus_observer *observer,
				    struct apus_inconsistent_status *status_out)
{
	CHECK(reader, status_out);
	return report_inconsistent(&reader->board, observer, status_out);
}

int apus_reader_deadline_status(struct apus_reader *reader, struct apus_observer *observer,
				struct apus_deadline_status *status_out)
{
	struct apus_mono now;
	apus_instance last;
	uint64_t total;

	CHECK(reader, status_out);
	apus_dp_worker_take_turn(reader->worker);
	now = apus_mono_now();
	apus_dp_reader_expire(reader->dp, now); /* instances without writers miss no deadlines */
	total = apus_dp_reader_deadlines(reader->dp, now, &last);
	apus_dp_worker_end_turn(reader->worker);
	*status_out = (struct apus_deadline_status){
		.total = total,
		.change = moved(observer, APUS_DP_AT_DEADLINE, total),
		.last = last,
	};
	return status_out->change != 0;
}

/* Under the turn. */
static void count_writers(struct apus_dp_reader *r, struct apus_liveliness_status *out)
{
	const struct apus_dp_peers *p = &r->inbox.peers;
	struct apus_dp_liveliness_cursor none = {0, 0};
	struct apus_dp_liveliness l;
	struct apus_mono now = apus_mono_now();

	apus_dp_reader_expire(r, now);
	apus_dp_peers_observe(&r->inbox.peers, &none, now, &l);
	out->alive = l.alive_count;
	out->not_alive = l.not_alive_count;
	out->losses = l.losses;
	out->last = p->last;
}

int apus_reader_liveliness_status(struct apus_reader *reader, struct apus_observer *observer,
				  struct apus_liveliness_status *status_out)
{
	struct apus_liveliness_status s = {0};

	CHECK(reader, status_out);
	apus_dp_worker_take_turn(reader->worker);
	count_writers(reader->dp, &s);
	apus_dp_worker_end_turn(reader->worker);
	s.alive_change = (int32_t)moved(observer, APUS_DP_AT_ALIVE, s.alive);
	s.not_alive_change = (int32_t)moved(observer, APUS_DP_AT_NOT_ALIVE, s.not_alive);
	s.losses_change = moved(observer, APUS_DP_AT_LOSSES, s.losses);
	*status_out = s;
	return s.alive_change || s.not_alive_change || s.losses_change;
}

static uint64_t lost_total(const struct apus_dp_reader *r)
{
	return r->inbox.counters.lost + r->window_lost;
}

int apus_reader_lost_status(struct apus_reader *reader, struct apus_observer *observer,
			    struct apus_lost_status *status_out)
{
	uint64_t total;

	CHECK(reader, status_out);
	apus_dp_worker_take_turn(reader->worker);
	total = lost_total(reader->dp);
	apus_dp_worker_end_turn(reader->worker);
	*status_out = (struct apus_lost_status){
		.total = total,
		.change = moved(observer, APUS_DP_AT_LOST, total),
	};
	return status_out->change != 0;
}

int apus_reader_rejected_status(struct apus_reader *reader, struct apus_observer *observer,
				struct apus_rejected_status *status_out)
{
	_Static_assert(APUS_REJECTED_KINDS == (int)APUS_DP_REFUSAL_KINDS &&
			       APUS_REJECTED_SLOTS == (int)APUS_DP_REFUSED_SLOTS,
		       "the same reasons in the same order");
	const struct apus_dp_reader *r;

	CHECK(reader, status_out);
	r = reader->dp;
	apus_dp_worker_take_turn(reader->worker);
	*status_out = (struct apus_rejected_status){
		.total = r->inbox.counters.rejected,
		.last_reason = r->last_refusal,
		.last = r->last_refused,
	};
	for (int i = 0; i < APUS_REJECTED_KINDS; i++)
		status_out->by_reason[i] = apus_counter_get(&r->inbox.counters.refusals[i]);
	apus_dp_worker_end_turn(reader->worker);
	status_out->change = moved(observer, APUS_DP_AT_REJECTED, status_out->total);
	return status_out->change != 0;
}

int apus_reader_available_status(struct apus_reader *reader, struct apus_observer *observer,
				 struct apus_available_status *status_out)
{
	uint64_t total, news;

	CHECK(reader, status_out);
	apus_dp_worker_take_turn(reader->worker);
	total = reader->dp->inbox.counters.available;
	news = reader->dp->news;
	apus_dp_worker_end_turn(reader->worker);
	*status_out = (struct apus_available_status){
		.total = total,
		.change = moved(observer, APUS_DP_AT_AVAILABLE, total),
	};
	return moved(observer, APUS_DP_AT_NEWS, news) || status_out->change;
}

void apus_dp_reader_totals(struct apus_reader *reader, uint32_t mask,
			   uint64_t totals_out[APUS_DP_PLACES])
{
	struct apus_dp_reader *r = reader->dp;
	struct apus_liveliness_status l = {0};
	apus_instance last;

	memset(totals_out, 0, APUS_DP_PLACES * sizeof(totals_out[0]));
	if (mask & BOARD_MASK)
		board_totals(&reader->board, totals_out);
	if (!(mask & ~BOARD_MASK))
		return;
	apus_dp_worker_take_turn(reader->worker);
	apus_dp_reader_expire(r, apus_mono_now());
	if (mask & APUS_STATUS_LIVELINESS_CHANGED)
		count_writers(r, &l);
	totals_out[APUS_DP_AT_ALIVE] = l.alive;
	totals_out[APUS_DP_AT_NOT_ALIVE] = l.not_alive;
	totals_out[APUS_DP_AT_LOSSES] = l.losses;
	if (mask & APUS_STATUS_REQUESTED_DEADLINE_MISSED)
		totals_out[APUS_DP_AT_DEADLINE] =
			apus_dp_reader_deadlines(r, apus_mono_now(), &last);
	totals_out[APUS_DP_AT_LOST] = lost_total(r);
	totals_out[APUS_DP_AT_REJECTED] = r->inbox.counters.rejected;
	totals_out[APUS_DP_AT_AVAILABLE] = r->inbox.counters.available;
	totals_out[APUS_DP_AT_NEWS] = r->news;
	apus_dp_worker_end_turn(reader->worker);
}

int apus_reader_status_changes(struct apus_reader *reader, const struct apus_observer *observer,
			       uint32_t mask)
{
	uint64_t totals[APUS_DP_PLACES];

	CHECK(reader, observer);
	if (mask & ~(uint32_t)APUS_STATUS_READER_MASK)
		return APUS_EINVAL;
	if (mask == 0)
		mask = APUS_STATUS_READER_MASK;
	apus_dp_reader_totals(reader, mask, totals);
	return (int)apus_dp_differing(totals, observer, mask);
}
