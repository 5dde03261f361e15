/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A writer as a member of its publisher: coherent sets, numbers in the group's count, suspension. What goes
 * onto the wire is in group.h.
 *
 * The end of a set is a change with a number of its own but without data, so it has no place in the history,
 * where it would displace a sample. The last MARKER_MAX ends are kept aside and repaired from there; of an older
 * one a reader that still asks gets a GAP, and takes whatever follows for the end of the set.
 */
#include "dataplane/group.h"
#include "dataplane/worker.h"
#include "dataplane/writer_internal.h"

#include <apus/qos.h>

static bool counts(const struct apus_dp_publisher *g)
{
	return g->access_scope == APUS_SCOPE_GROUP && (g->coherent_access || g->ordered_access);
}

void apus_dp_writer_mark(struct apus_dp_writer *w, apus_seq seq, struct apus_dp_marks *marks)
{
	struct apus_dp_publisher *g = w->config.publisher;

	if (!g)
		return;
	if (counts(g))
		marks->group_seq = ++g->group_seq;
	if (g->coherent_depth == 0)
		return;
	if (w->set_first == 0)
		w->set_first = seq;
	marks->coherent_seq = w->set_first;
	if (!counts(g))
		return;
	if (g->set_first == 0)
		g->set_first = marks->group_seq;
	marks->group_coherent_seq = g->set_first;
}

/* --- ends of sets -------------------------------------------------------------------------------- */

const struct apus_dp_marker *apus_dp_writer_marker(const struct apus_dp_writer *w, apus_seq from,
						   apus_seq to)
{
	/* Oldest first: numbers rise along the ring. */
	for (uint32_t i = 0; i < APUS_DP_MARKER_MAX; i++) {
		const struct apus_dp_marker *m =
			&w->markers[(w->marker_count + i) % APUS_DP_MARKER_MAX];

		if (m->seq >= from && m->seq <= to && m->seq > 0)
			return m;
	}
	return NULL;
}

void apus_dp_writer_put_marker(struct apus_dp_writer *w, const struct apus_dp_marker *marker,
			       const struct apus_dp_addr *to, const struct apus_prefix *dest,
			       struct apus_eid reader)
{
	struct apus_wire_data_out d = {.reader = reader, .writer = w->eid, .seq = marker->seq};

	apus_dp_marks_put(&marker->marks, &d.qos);
	apus_counter_add(&w->counters.data_sent, 1);
	apus_dp_out_data(&w->worker->out, to, dest, marker->source, &d);
}

/* Ends the writer's part of a set. The marker is held or sent like a sample. */
static void end_set(struct apus_dp_writer *w, apus_seq group_coherent, struct apus_wall source,
		    struct apus_mono now)
{
	struct apus_dp_publisher *g = w->config.publisher;
	struct apus_dp_marker *m = &w->markers[w->marker_count % APUS_DP_MARKER_MAX];

	if (m->seq > w->sent)
		apus_dp_writer_serve(w, now); /* the oldest was never sent: nothing is given up */
	*m = (struct apus_dp_marker){
		.seq = ++w->last,
		.source = source,
		.marks = {.coherent_seq = APUS_WIRE_SEQ_UNKNOWN,
			  .group_coherent_seq = group_coherent,
			  .group_seq = counts(g) ? ++g->group_seq : 0},
	};
	w->marker_count++;
	w->set_first = 0;
	apus_dp_writer_release(w, now);
}

static bool is_member(const struct apus_dp_writer *w, const struct apus_dp_publisher *g)
{
	return w->config.publisher == g;
}

int apus_dp_publisher_begin(struct apus_dp_publisher *g)
{
	if (!g->coherent_access || g->access_scope == APUS_SCOPE_INSTANCE)
		return APUS_EQOS;
	if (g->coherent_depth == UINT32_MAX)
		return APUS_ELIMIT;
	g->coherent_depth++;
	return 0;
}

int apus_dp_publisher_end(struct apus_dp_publisher *g, struct apus_dp_worker *worker,
			  struct apus_wall source, struct apus_mono now)
{
	apus_seq first = g->set_first;

	if (g->coherent_depth == 0)
		return APUS_EINVAL;
	if (--g->coherent_depth)
		return 0;
	g->set_first = 0;
	for (uint32_t i = 0; i < worker->writer_count; i++) {
		struct apus_dp_writer *w = worker->writers[i];

		if (is_member(w, g) && (w->set_first || first))
			end_set(w, first, source, now);
	}
	return 0;
}

/* --- suspension ------------------------------------------------------------------------------------ */

int apus_dp_publisher_suspend(struct apus_dp_publisher *g, struct apus_dp_worker *worker)
{
	if (g->suspended == UINT32_MAX)
		return APUS_ELIMIT;
	if (g->suspended++)
		return 0;
	for (uint32_t i = 0; i < worker->writer_count; i++)
		if (is_member(worker->writers[i], g))
			apus_dp_writer_suspend(worker->writers[i]);
	return 0;
}

int apus_dp_publisher_resume(struct apus_dp_publisher *g, struct apus_dp_worker *worker,
			     struct apus_mono now)
{
	if (g->suspended == 0)
		return APUS_EINVAL;
	if (--g->suspended)
		return 0;
	for (uint32_t i = 0; i < worker->writer_count; i++)
		if (is_member(worker->writers[i], g))
			apus_dp_writer_resume(worker->writers[i], now);
	return 0;
}
