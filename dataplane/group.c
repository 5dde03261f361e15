/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Readers of one subscriber at group scope: coherent sets of a publisher that several of them receive parts
 * of, order across them, and the frozen view between begin_access and end_access.
 *
 * A group set is named by its publisher and the group number it began with. It is complete when every writer
 * of that publisher that any reader here is matched with has *passed* it: ended its part, or shown by a later
 * group number that it has none. One writer's part broken breaks all of it.
 */
#include "dataplane/group.h"

#include "dataplane/reader_internal.h"
#include "dataplane/shm_match.h"

/* ---- membership ----------------------------------------------------------------------------- */

void apus_dp_group_join(struct apus_dp_reader *reader)
{
	struct apus_dp_subscriber *g = reader->config.subscriber;

	if (!g)
		return;
	reader->group_next = g->first;
	g->first = reader;
}

void apus_dp_group_leave(struct apus_dp_reader *reader)
{
	struct apus_dp_subscriber *g = reader->config.subscriber;
	struct apus_dp_reader **link;

	if (!g)
		return;
	for (link = &g->first; *link && *link != reader;)
		link = &(*link)->group_next;
	if (*link)
		*link = reader->group_next;
	reader->group_next = NULL;
}

static bool same_publisher(const struct apus_dp_reader_state *a,
			   const struct apus_dp_reader_state *b)
{
	if (a->publisher.value == 0 || b->publisher.value == 0)
		return apus_guid_equal(&a->guid, &b->guid);
	return a->publisher.value == b->publisher.value &&
	       apus_prefix_equal(&a->prefix, &b->prefix);
}

/* The next match of the subscriber with a writer of the publisher of `of`; NULL *reader: from the first. */
static struct apus_dp_reader_state *next_state(const struct apus_dp_reader_state *of,
					       struct apus_dp_reader **reader, uint32_t *idx)
{
	struct apus_dp_reader *r = *reader;

	if (!r) {
		r = of->reader->config.subscriber->first;
		*idx = 0;
	}
	for (; r; r = r->group_next, *idx = 0) {
		while (*idx < r->config.match_max) {
			struct apus_dp_reader_state *s = &r->states[(*idx)++];

			if (s->match_id == 0 || !same_publisher(s, of) || !r->inbox.sets)
				continue;
			*reader = r;
			return s;
		}
	}
	return NULL;
}

static struct apus_dp_set *set_of(const struct apus_dp_reader_state *s)
{
	return &s->reader->inbox.sets[s->slot];
}

/* ---- coherent sets -------------------------------------------------------------------------- */

static void settle(struct apus_dp_reader_state *s, struct apus_mono now)
{
	struct apus_dp_reader *r = s->reader;

	if (apus_dp_inbox_settle_set(&r->inbox, s->slot, now)) {
		apus_counter_add(&r->counters.delivered, 1);
		apus_dp_reader_raise(r);
	}
	/* What came behind the set had to wait: it is asked for again. */
	if (s->shm)
		apus_dp_shm_unstall(s);
	if (s->reliable && !s->local && !s->shm && apus_dp_window_has_missing(&s->window))
		apus_dp_reader_ask(s, now, 0);
	r->any_refused = true;
}

/* How far the set `group` is: 1 all parts have ended, 0 some have not, -1 one is broken. */
static int progress(const struct apus_dp_reader_state *of, apus_seq group)
{
	struct apus_dp_reader *r = NULL;
	struct apus_dp_reader_state *s;
	uint32_t idx;
	int result = 1;

	while ((s = next_state(of, &r, &idx))) {
		const struct apus_dp_set *set = set_of(s);
		bool part = set->first && set->group == group;

		if (s->group_broken == group || (part && set->broken))
			return -1;
		if (part ? !set->ended : s->group_passed < group)
			result = 0;
	}
	return result;
}

/* Settles all ended parts of a set but that of `of`; broken: as incomplete. */
static void settle_others(struct apus_dp_reader_state *of, apus_seq group, bool broken,
			  struct apus_mono now)
{
	struct apus_dp_reader *r = NULL;
	struct apus_dp_reader_state *s;
	uint32_t idx;

	while ((s = next_state(of, &r, &idx))) {
		struct apus_dp_set *set = set_of(s);

		if (s == of || set->first == 0 || set->group != group)
			continue;
		set->broken |= broken;
		if (set->ended)
			settle(s, now);
	}
}

bool apus_dp_group_end(void *context, uint32_t slot, struct apus_mono now)
{
	struct apus_dp_reader *r = context;
	struct apus_dp_reader_state *s = &r->states[slot];
	struct apus_dp_set *set = set_of(s);
	int done;

	if (set->group <= 0)
		return true; /* its writer does not count for a group */
	done = progress(s, set->group);
	if (done == 0)
		return false;
	if (done < 0) {
		set->broken = true;
		s->group_broken = set->group;
	}
	settle_others(s, set->group, done < 0, now);
	return true;
}

/* Sets of the same publisher that have waited for what this writer has just shown. */
static void retry(struct apus_dp_reader_state *of, struct apus_mono now)
{
	struct apus_dp_reader *r = NULL;
	struct apus_dp_reader_state *s;
	uint32_t idx;

	while ((s = next_state(of, &r, &idx))) {
		if (s == of || !set_of(s)->ended)
			continue;
		if (apus_dp_group_end(r, s->slot, now))
			settle(s, now);
	}
}

void apus_dp_group_passed(struct apus_dp_reader_state *s, const struct apus_dp_marks *marks,
			  struct apus_mono now)
{
	apus_seq passed = marks->group_seq;

	if (!s->reader->inbox.options.group_end)
		return;
	if (apus_dp_marks_end(marks))
		passed = marks->group_coherent_seq;
	else if (marks->coherent_seq > 0)
		passed = marks->group_coherent_seq - 1;
	if (passed <= s->group_passed)
		return;
	s->group_passed = passed;
	retry(s, now);
}

void apus_dp_group_unmatch(struct apus_dp_reader_state *s, struct apus_mono now)
{
	struct apus_dp_reader *r = NULL;
	struct apus_dp_reader_state *t;
	apus_seq part;
	uint32_t idx;

	if (!s->reader->inbox.options.group_end)
		return;
	part = set_of(s)->first ? set_of(s)->group : 0;
	while ((t = next_state(s, &r, &idx))) {
		struct apus_dp_set *set = set_of(t);

		if (t == s || set->first == 0 || set->group <= 0)
			continue;
		/* Its part went with it, or what it had for that set nobody knows. */
		if (set->group != part && s->group_passed >= set->group)
			continue;
		set->broken = true;
		if (set->ended)
			settle(t, now);
	}
}

/* ---- order and the frozen view -------------------------------------------------------------- */

/* True if b's sample must be shown before a's: both of one publisher, which counted b first. */
static bool precedes(const struct apus_dp_record *b, const struct apus_dp_record *a)
{
	return b->publisher.value && b->publisher.value == a->publisher.value &&
	       memcmp(b->writer.bytes, a->writer.bytes, 12) == 0 && b->marks.group_seq > 0 &&
	       b->marks.group_seq < a->marks.group_seq;
}

static const struct apus_dp_sample *head_of(const struct apus_dp_reader *r)
{
	return r->group_head == APUS_DP_NONE ? NULL : &r->inbox.history.entries[r->group_head];
}

/* The reader whose next sample comes first: by group number within a publisher, else by arrival. */
static struct apus_dp_reader *first_of(const struct apus_dp_subscriber *g)
{
	struct apus_dp_reader *best = NULL;

	for (struct apus_dp_reader *r = g->first; r; r = r->group_next) {
		const struct apus_dp_sample *e = head_of(r);
		bool behind = !e || (best && head_of(best)->stamp < e->stamp);

		for (struct apus_dp_reader *q = g->first; e && q && !behind; q = q->group_next)
			behind = head_of(q) && precedes(&head_of(q)->record, &e->record);
		if (!behind)
			best = r;
	}
	/* Publishers that disagree with the arrival in a circle: the first arrival breaks it. */
	for (struct apus_dp_reader *r = g->first; r && !best; r = r->group_next)
		if (head_of(r))
			best = r;
	return best;
}

uint32_t apus_dp_group_list(struct apus_dp_subscriber *g, const struct apus_dp_select *select,
			    struct apus_mono now, void **users_out, uint32_t max)
{
	bool ordered = g->ordered_access && g->access_scope == APUS_SCOPE_GROUP;
	uint32_t count = 0;
	struct apus_dp_reader *r;

	for (r = g->first; r; r = r->group_next) {
		apus_dp_reader_expire(r, now);
		apus_dp_history_purge(&r->inbox.history, now);
		r->group_head = apus_dp_history_peek(&r->inbox.history, select, APUS_DP_NONE, now);
	}
	while (count < max && (r = first_of(g))) {
		users_out[count++] = r->config.user;
		r->group_head = ordered ? apus_dp_history_peek(&r->inbox.history, select,
							       r->group_head, now)
					: APUS_DP_NONE;
	}
	return count;
}

void apus_dp_group_thaw(struct apus_dp_subscriber *g, struct apus_mono now)
{
	for (struct apus_dp_reader *r = g->first; r; r = r->group_next)
		if (apus_dp_reader_available(r, now))
			apus_dp_reader_raise(r);
}
