/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading and taking: which entries a select means, in which order, and what the access changes. A call walks
 * first and changes afterwards, so that all of its samples are judged and shown by the state before it.
 */
#include "dataplane/history_internal.h"

/** True if a select has conditions; most have none. */
static bool has_conditions(const struct apus_dp_select *s)
{
	return s->instance_states | s->sample_states | s->view_states || s->stamp_max || s->match;
}

static bool wants(const struct apus_dp_select *s, const struct apus_dp_instance *i,
		  const struct apus_dp_sample *e)
{
	if (s->instance_states && !(s->instance_states & i->state))
		return false;
	if (s->sample_states && !(s->sample_states & (e->read ? 1 : 2)))
		return false;
	if (s->view_states && !(s->view_states & (i->view_new ? 1 : 2)))
		return false;
	if (s->stamp_max && e->stamp > s->stamp_max)
		return false;
	return !s->match || s->match(s->match_context, e);
}

static bool is_expired(const struct apus_dp_sample *e, struct apus_mono now)
{
	return e->record.expires_at.ns != INT64_MAX && now.ns >= e->record.expires_at.ns;
}

/* ---- the walk ------------------------------------------------------------------------------- */

static bool has_wanted(const struct apus_dp_history *h, const struct apus_dp_select *s,
		       const struct apus_dp_instance *i, struct apus_mono now)
{
	for (uint32_t idx = i->first; idx != APUS_DP_NONE; idx = h->entries[idx].instance_next)
		if (wants(s, i, &h->entries[idx]) && !is_expired(&h->entries[idx], now))
			return true;
	return false;
}

/** The instance a select names; NULL: none, or nothing of it is there. */
static const struct apus_dp_instance *named(const struct apus_dp_history *h,
					    const struct apus_dp_select *s, struct apus_mono now)
{
	const struct apus_dp_instance *i;

	if (!s->next_instance)
		return apus_dp_instances_get(&h->instances, s->instance);
	i = apus_dp_instances_next_occupied(&h->instances, s->instance);
	while (i && !has_wanted(h, s, i, now))
		i = apus_dp_instances_next_occupied(&h->instances, i->handle);
	return i;
}

static void walk_start(const struct apus_dp_history *h, const struct apus_dp_select *s,
		       struct apus_dp_walk *w)
{
	const struct apus_dp_instance *i;

	w->within = s->next_instance || s->instance != APUS_INSTANCE_NONE;
	w->all = w->within ? APUS_DP_NONE : h->first;
	w->one = APUS_DP_NONE;
	if (!w->within)
		return;
	i = named(h, s, w->now);
	if (i)
		w->one = i->first;
}

/** The next entry, wanted or not; APUS_DP_NONE at the end. */
static uint32_t walk_step(const struct apus_dp_history *h, struct apus_dp_walk *w)
{
	for (;;) {
		struct apus_dp_instance *i;
		uint32_t idx = w->one;

		if (idx != APUS_DP_NONE) {
			w->one = h->entries[idx].instance_next;
			return idx;
		}
		idx = w->all;
		if (idx == APUS_DP_NONE)
			return idx;
		w->all = h->entries[idx].next;
		if (!h->options.by_instance)
			return idx;
		i = apus_dp_history_instance(h, &h->entries[idx]);
		if (i->walked_stamp == h->access_stamp)
			continue;
		i->walked_stamp = h->access_stamp;
		w->one = i->first;
	}
}

/* ---- access --------------------------------------------------------------------------------- */

static const struct apus_dp_select everything;

int apus_dp_history_begin(struct apus_dp_history *h, const struct apus_dp_select *select, bool take,
			  struct apus_mono now, struct apus_dp_walk *walk)
{
	uint32_t room = h->options.max_loans - h->loan_count;

	apus_dp_history_tick(h, now);
	if (room == 0)
		return APUS_ELIMIT;
	apus_dp_history_purge(h, now);
	h->access_stamp++;
	walk->take = take;
	walk->any = !has_conditions(select ? select : &everything);
	walk->now = now;
	walk_start(h, select ? select : &everything, walk);
	return (int)room;
}

static void lend(struct apus_dp_history *h, struct apus_dp_sample *e, struct apus_dp_loan *out)
{
	struct apus_dp_instance *i = apus_dp_history_instance(h, e);

	*out = (struct apus_dp_loan){
		.entry_idx = (uint32_t)(e - h->entries),
		.entry = e,
		.instance = h->options.instances.key_bytes_max ? i->handle : APUS_INSTANCE_NONE,
		.instance_state = i->state,
		.read_before = e->read,
		.view_new = i->view_new,
	};
	e->loans++;
	h->loan_count++;
	i->pins++;
}

bool apus_dp_history_next(struct apus_dp_history *h, const struct apus_dp_select *select,
			  struct apus_dp_walk *walk, struct apus_dp_loan *loan_out)
{
	uint32_t idx;

	if (!select)
		select = &everything;
	while ((idx = walk_step(h, walk)) != APUS_DP_NONE) {
		struct apus_dp_sample *e = &h->entries[idx];

		if (!walk->any && !wants(select, apus_dp_history_instance(h, e), e))
			continue;
		if (!is_expired(e, walk->now)) {
			lend(h, e, loan_out);
			return true;
		}
		if (!walk->take)
			continue;
		if (walk->all == idx)
			walk->all = e->next;
		h->counters.expired++;
		apus_dp_history_remove(h, e);
	}
	return false;
}

void apus_dp_history_finish(struct apus_dp_history *h, const struct apus_dp_walk *walk,
			    struct apus_dp_loan *loan)
{
	struct apus_dp_sample *e = &h->entries[loan->entry_idx];
	struct apus_dp_instance *i = apus_dp_history_instance(h, e);
	uint32_t generation = e->disposed_generation_count + e->no_writers_generation_count;

	if (i->ranked_stamp != h->access_stamp) {
		i->ranked_stamp = h->access_stamp;
		i->ranked_count = 0;
		i->ranked_generation = generation;
	}
	loan->sample_rank = (int32_t)i->ranked_count++;
	loan->generation_rank = (int32_t)(i->ranked_generation - generation);
	loan->absolute_generation_rank = (int32_t)(i->disposed_generation_count +
						   i->no_writers_generation_count - generation);
	e->read = true;
	i->view_new = false;
	if (!walk->take)
		return;
	if (e->valid_data)
		apus_dp_history_raise_floor(h, i, &e->record);
	apus_dp_history_remove(h, e);
}

int apus_dp_history_access(struct apus_dp_history *h, const struct apus_dp_select *select,
			   bool take, struct apus_mono now, struct apus_dp_loan *loans_out,
			   uint32_t max)
{
	struct apus_dp_walk walk;
	uint32_t count = 0;
	int room;

	if (max == 0)
		return 0;
	room = apus_dp_history_begin(h, select, take, now, &walk);
	if (room < 0)
		return room;
	if (max > (uint32_t)room)
		max = (uint32_t)room;
	while (count < max && apus_dp_history_next(h, select, &walk, &loans_out[count]))
		count++;
	for (uint32_t i = count; i-- > 0;)
		apus_dp_history_finish(h, &walk, &loans_out[i]);
	return (int)count;
}

int apus_dp_history_return(struct apus_dp_history *h, uint32_t entry_idx)
{
	struct apus_dp_sample *e;
	struct apus_dp_instance *i;

	if (entry_idx >= h->entry_count || h->entries[entry_idx].loans == 0)
		return APUS_EINVAL;
	e = &h->entries[entry_idx];
	i = apus_dp_history_instance(h, e);
	e->loans--;
	h->loan_count--;
	i->pins--;
	if (e->loans == 0 && !e->in_history)
		apus_dp_history_free_entry(h, e);
	apus_dp_instances_settle(&h->instances, i);
	return 0;
}

bool apus_dp_history_available(struct apus_dp_history *h, const struct apus_dp_select *select,
			       struct apus_mono now)
{
	struct apus_dp_walk w = {.now = now};
	uint32_t idx;

	if (!select)
		select = &everything;
	apus_dp_history_purge(h, now);
	h->access_stamp++;
	walk_start(h, select, &w);
	while ((idx = walk_step(h, &w)) != APUS_DP_NONE) {
		const struct apus_dp_sample *e = &h->entries[idx];

		if (wants(select, apus_dp_history_instance(h, e), e) && !is_expired(e, now))
			return true;
	}
	return false;
}

uint32_t apus_dp_history_peek(const struct apus_dp_history *h, const struct apus_dp_select *select,
			      uint32_t entry_idx, struct apus_mono now)
{
	uint32_t idx = entry_idx == APUS_DP_NONE ? h->first : h->entries[entry_idx].next;

	for (; idx != APUS_DP_NONE; idx = h->entries[idx].next) {
		const struct apus_dp_sample *e = &h->entries[idx];

		if (wants(select, apus_dp_history_instance(h, e), e) && !is_expired(e, now))
			break;
	}
	return idx;
}
