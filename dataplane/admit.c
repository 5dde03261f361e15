/* SPDX-License-Identifier: Apache-2.0 */
/* Admission: the steps of admit.h, in their order. Everything before store_sample() only tests. */
#include "dataplane/admit.h"

#include "base/atomics.h"

#include <string.h>

/* ---- set-up --------------------------------------------------------------------------------- */

static size_t history_part(const struct apus_dp_inbox_options *o)
{
	return (apus_dp_history_bytes(&o->history) + 15) & ~(size_t)15;
}

static size_t peers_part(const struct apus_dp_inbox_options *o)
{
	size_t bytes = o->history.instances.match_count_max * sizeof(struct apus_dp_peer);

	if (o->peers)
		return 0;
	return (bytes + 15) & ~(size_t)15;
}

static size_t late_part(const struct apus_dp_inbox_options *o)
{
	return o->late ? apus_dp_late_bytes(o->history.instances.capacity) : 0;
}

size_t apus_dp_inbox_bytes(const struct apus_dp_inbox_options *options)
{
	size_t history = history_part(options);

	if (history == 0 || !options->hold)
		return 0;
	return history + peers_part(options) + late_part(options) +
	       (options->coherent
			? options->history.instances.match_count_max * sizeof(struct apus_dp_set)
			: 0);
}

int apus_dp_inbox_init(struct apus_dp_inbox *inbox, const struct apus_dp_inbox_options *options,
		       void *memory)
{
	uint8_t *behind_peers;

	if (apus_dp_inbox_bytes(options) == 0)
		return APUS_EINVAL;
	behind_peers = (uint8_t *)memory + history_part(options) + peers_part(options);
	memset(inbox, 0, sizeof(*inbox));
	inbox->options = *options;
	apus_dp_history_init(&inbox->history, &options->history, memory);
	apus_dp_peers_init(
		&inbox->peers,
		options->peers ? options->peers
			       : (struct apus_dp_peer *)((uint8_t *)memory + history_part(options)),
		options->history.instances.match_count_max);
	apus_dp_late_init(&inbox->late, options->history.instances.capacity,
			  options->late ? behind_peers : NULL);
	if (options->coherent) {
		inbox->sets = (struct apus_dp_set *)(behind_peers + late_part(options));
		memset(inbox->sets, 0,
		       options->history.instances.match_count_max * sizeof(*inbox->sets));
	}
	return 0;
}

void apus_dp_inbox_fini(struct apus_dp_inbox *inbox)
{
	for (uint32_t i = apus_dp_late_next(&inbox->late, APUS_DP_NONE); i != APUS_DP_NONE;
	     i = apus_dp_late_next(&inbox->late, i))
		inbox->options.history.release(inbox->options.history.release_context,
					       inbox->late.items[i].record.slot_ref);
	apus_dp_history_fini(&inbox->history);
}

/* ---- the tests ------------------------------------------------------------------------------ */

enum apus_dp_rate apus_dp_rate_test(const struct apus_dp_instance *instance, int64_t separation_ns,
				    bool has_data, struct apus_mono received)
{
	if (!has_data || separation_ns <= 0 || received.ns == 0)
		return APUS_DP_RATE_UNTRACKED;
	if (!instance || instance->last_accepted.ns == 0)
		return APUS_DP_RATE_TOKEN;
	/* Out of order gives a negative distance and is rejected as well. */
	if (received.ns < instance->last_accepted.ns ||
	    received.ns - instance->last_accepted.ns < separation_ns)
		return APUS_DP_RATE_REJECTED;
	return APUS_DP_RATE_TOKEN;
}

static bool owner_holds(struct apus_dp_peers *peers, const struct apus_dp_instance *instance,
			int64_t deadline_ns, struct apus_mono now)
{
	struct apus_dp_peer *owner;

	if (instance->owner >= peers->capacity || !peers->peers[instance->owner].used)
		return false;
	owner = &peers->peers[instance->owner];
	apus_dp_peer_expire(peers, owner, now);
	if (!owner->lease.alive)
		return false;
	return apus_dp_deadline_missed(&instance->deadline, deadline_ns, now) ==
	       instance->deadline.folded;
}

bool apus_dp_ownership_test(struct apus_dp_peers *peers, struct apus_dp_instance *instance,
			    uint32_t slot, int64_t deadline_ns, struct apus_mono now)
{
	if (instance->owner == slot)
		return true;
	if (owner_holds(peers, instance, deadline_ns, now) &&
	    !apus_dp_peer_stronger(&peers->peers[slot], &peers->peers[instance->owner]))
		return false;
	instance->owner = slot;
	return true;
}

/** Age of a sample when it arrives: source time against wall clock, never negative. From here on only
 *  monotonic time is added. */
static int64_t age_on_arrival(const struct apus_dp_arrival *a)
{
	int64_t age;

	if (a->source_time.ns == APUS_WALL_NONE.ns || a->wall_now.ns <= a->source_time.ns)
		return 0;
	return __builtin_sub_overflow(a->wall_now.ns, a->source_time.ns, &age) ? INT64_MAX : age;
}

/** When the sample expires; false if it has already. The shorter of both lifespans counts. */
static bool still_wanted(const struct apus_dp_inbox *inbox, const struct apus_dp_arrival *a,
			 struct apus_mono now, struct apus_mono *expires_out)
{
	int64_t lifespan_ns = inbox->peers.peers[a->match_slot].lifespan_ns;
	int64_t age;

	if (inbox->options.lifespan_ns < lifespan_ns)
		lifespan_ns = inbox->options.lifespan_ns;
	expires_out->ns = INT64_MAX;
	if (lifespan_ns == APUS_INFINITE_NS)
		return true;
	age = age_on_arrival(a);
	if (age >= lifespan_ns)
		return false;
	*expires_out = apus_mono_add(now, lifespan_ns - age);
	return true;
}

/* ---- commit --------------------------------------------------------------------------------- */

static void assert_peer(struct apus_dp_inbox *inbox, uint32_t slot, struct apus_mono now)
{
	apus_dp_peer_assert(&inbox->peers, &inbox->peers.peers[slot], now);
}

static apus_instance shown_handle(const struct apus_dp_inbox *inbox,
				  const struct apus_dp_instance *instance)
{
	return inbox->options.history.instances.key_bytes_max ? instance->handle
							      : APUS_INSTANCE_NONE;
}

static enum apus_dp_admit_result finish(struct apus_dp_inbox *inbox, struct apus_dp_admission *out,
					enum apus_dp_admit_result result)
{
	inbox->counters.results[result]++;
	out->result = result;
	return result;
}

static enum apus_dp_admit_result refuse(struct apus_dp_inbox *inbox,
					const struct apus_dp_arrival *a,
					enum apus_dp_refusal refusal, struct apus_dp_admission *out)
{
	if (!a->refused_before) {
		apus_counter_add(&inbox->counters.refusals[refusal], 1);
		inbox->counters.rejected++;
	}
	/* A reliable writer offers it again; the window counts it as lost if it finally goes. */
	if (!a->reliable)
		inbox->counters.lost++;
	out->refusal = refusal;
	return finish(inbox, out, APUS_DP_REFUSED);
}

static inline void make_record(const struct apus_dp_inbox *inbox, const struct apus_dp_arrival *a,
			       struct apus_mono now, struct apus_dp_record *record_out)
{
	*record_out = (struct apus_dp_record){
		.writer = inbox->peers.peers[a->match_slot].guid,
		.publisher = a->publisher,
		.seq = a->seq,
		.source_time = a->source_time,
		.reception_time = now,
		.expires_at = {INT64_MAX},
		.filter_generation = inbox->filter_generation,
		.slot_ref = APUS_DP_NONE,
		.match_slot = a->match_slot,
		.marks = a->marks,
	};
}

/** The waiting sample of an instance goes. */
static void drop_late(struct apus_dp_inbox *inbox, struct apus_dp_instance *instance)
{
	struct apus_dp_history *h = &inbox->history;
	uint32_t idx = apus_dp_instances_idx(&h->instances, instance);

	h->options.release(h->options.release_context, inbox->late.items[idx].record.slot_ref);
	apus_dp_late_take(&inbox->late, idx);
	instance->pins--;
	apus_dp_instances_settle(&h->instances, instance);
}

/** An accepted sample is shown at `at`: what waited in its instance is older, and the separation starts. */
static void redeem_token(struct apus_dp_inbox *inbox, struct apus_dp_instance *instance,
			 struct apus_mono at)
{
	uint32_t idx = apus_dp_instances_idx(&inbox->history.instances, instance);

	instance->last_accepted = at;
	if (!inbox->late.items)
		return;
	if (apus_dp_late_of(&inbox->late, idx))
		drop_late(inbox, instance);
	apus_dp_late_defer(&inbox->late, idx, apus_mono_add(at, inbox->options.separation_ns));
}

/** All tests passed and the payload is held: nothing here can fail. Liveliness is the caller's. */
static enum apus_dp_admit_result show_sample(struct apus_dp_inbox *inbox, uint8_t change,
					     struct apus_dp_instance *instance,
					     const struct apus_dp_record *record, bool redeem,
					     struct apus_mono now, struct apus_dp_admission *out)
{
	struct apus_dp_history *h = &inbox->history;
	uint64_t lost_before = h->counters.displaced_lost;
	bool displaced;

	out->entry_idx = apus_dp_history_store(h, instance, record, &displaced);
	out->instance = shown_handle(inbox, instance);
	out->available = true;
	if (redeem)
		redeem_token(inbox, instance, now);
	if (inbox->options.history.deadline_ns > 0 &&
	    inbox->options.history.deadline_ns != APUS_INFINITE_NS)
		apus_dp_deadline_activity(&instance->deadline, inbox->options.history.deadline_ns,
					  now);
	inbox->counters.available++;
	inbox->counters.lost += h->counters.displaced_lost - lost_before;
	if (change & APUS_DP_DISPOSE)
		apus_dp_history_dispose(h, instance, record, false);
	if (change & APUS_DP_UNREGISTER)
		apus_dp_history_unregister(h, instance, record);
	return finish(inbox, out, displaced ? APUS_DP_DISPLACED : APUS_DP_STORED);
}

static enum apus_dp_admit_result store_sample(struct apus_dp_inbox *inbox, uint8_t change,
					      struct apus_dp_instance *instance,
					      const struct apus_dp_record *record, bool redeem,
					      struct apus_mono now, struct apus_dp_admission *out)
{
	assert_peer(inbox, record->match_slot, now);
	return show_sample(inbox, change, instance, record, redeem, now, out);
}

/* ---- late delivery -------------------------------------------------------------------------- */

/** Shows the waiting sample of an instance as of `at`. False: there is no room for it, it still waits. It says
 *  nothing of its writer's liveliness, which wrote it earlier. */
static bool show_late(struct apus_dp_inbox *inbox, struct apus_dp_instance *instance,
		      struct apus_mono at)
{
	struct apus_dp_history *h = &inbox->history;
	uint32_t idx = apus_dp_instances_idx(&h->instances, instance);
	struct apus_dp_late_item item = *apus_dp_late_of(&inbox->late, idx);
	struct apus_dp_admission out = {.entry_idx = APUS_DP_NONE};

	if (item.record.expires_at.ns <= at.ns) {
		drop_late(inbox, instance);
		inbox->counters.results[APUS_DP_EXPIRED]++;
		return true;
	}
	if (!apus_dp_history_in_order(h, instance, &item.record, true)) {
		drop_late(inbox, instance);
		inbox->counters.results[APUS_DP_REJECTED_ORDER]++;
		return true;
	}
	if (apus_dp_history_room(h, instance, instance->key_bytes) != APUS_DP_REFUSED_NOT)
		return false;
	apus_dp_late_take(&inbox->late, idx);
	instance->pins--;
	show_sample(inbox, item.change, instance, &item.record, true, at, &out);
	apus_counter_add(&inbox->counters.late, 1);
	inbox->lapsed++;
	return true;
}

/** Shows what is due by `now`, each as of the instant it was due; what finds no room, a separation later. */
static void run_late(struct apus_dp_inbox *inbox, struct apus_mono now)
{
	uint32_t idx;

	while ((idx = apus_dp_late_due(&inbox->late, now)) != APUS_DP_NONE) {
		struct apus_mono due = inbox->late.items[idx].due;

		if (!show_late(inbox, &inbox->history.instances.items[idx], due))
			apus_dp_late_defer(&inbox->late, idx,
					   apus_mono_add(due, inbox->options.separation_ns));
	}
}

/** The writer or instance goes before the separation has passed: its last sample is shown now or never. */
static void flush_late(struct apus_dp_inbox *inbox, struct apus_dp_instance *instance,
		       struct apus_mono now)
{
	enum apus_dp_refusal why;

	if (show_late(inbox, instance, now))
		return;
	why = apus_dp_history_room(&inbox->history, instance, instance->key_bytes);
	drop_late(inbox, instance);
	apus_counter_add(&inbox->counters.refusals[why], 1);
	inbox->counters.rejected++;
	inbox->counters.lost++;
}

static void flush_writer(struct apus_dp_inbox *inbox, uint32_t slot, struct apus_mono now)
{
	uint32_t idx = apus_dp_late_next(&inbox->late, APUS_DP_NONE), next;

	/* What is shown moves to the end of the list, where nothing of it waits any more. */
	for (; idx != APUS_DP_NONE; idx = next) {
		next = apus_dp_late_next(&inbox->late, idx);
		if (inbox->late.items[idx].record.match_slot == slot)
			flush_late(inbox, &inbox->history.instances.items[idx], now);
	}
}

/** A suppressed sample waits in the place of the one before it. */
static enum apus_dp_admit_result put_late(struct apus_dp_inbox *inbox,
					  const struct apus_dp_arrival *a,
					  struct apus_dp_instance *instance, struct apus_mono now,
					  struct apus_dp_admission *out)
{
	struct apus_dp_history *h = &inbox->history;
	uint32_t idx = apus_dp_instances_idx(&h->instances, instance);
	const struct apus_dp_late_item *old = apus_dp_late_of(&inbox->late, idx);
	struct apus_dp_record record;

	if (now.ns < instance->last_accepted.ns)
		return finish(inbox, out, APUS_DP_REJECTED_RATE);
	make_record(inbox, a, now, &record);
	if (!still_wanted(inbox, a, now, &record.expires_at))
		return finish(inbox, out, APUS_DP_EXPIRED);
	if (!apus_dp_history_in_order(h, instance, &record, true) ||
	    (old && !apus_dp_history_follows(h, &old->record, &record)))
		return finish(inbox, out, APUS_DP_REJECTED_ORDER);
	record.slot_ref = inbox->options.hold(inbox->options.hold_context, a);
	if (record.slot_ref == APUS_DP_NONE)
		return refuse(inbox, a, APUS_DP_REFUSED_SLOTS, out);
	if (old)
		drop_late(inbox, instance);
	apus_dp_late_put(&inbox->late, idx, &record, a->change);
	instance->pins++;
	apus_dp_instances_settle(&h->instances, instance);
	return finish(inbox, out, APUS_DP_REJECTED_RATE);
}

/* ---- coherent sets -------------------------------------------------------------------------- */

static void drop_set(struct apus_dp_inbox *inbox, struct apus_dp_set *set)
{
	uint32_t dropped = apus_dp_sets_drop(&inbox->history, set);

	inbox->counters.results[APUS_DP_REJECTED_SET] += dropped;
	inbox->counters.lost += dropped;
}

/** What is known to be incomplete, or too large for ever, is not kept any longer. */
static void break_set(struct apus_dp_inbox *inbox, struct apus_dp_set *set)
{
	set->broken = true;
	drop_set(inbox, set);
}

/** One withheld sample becomes visible. Nothing can fail: room was charged when it came. */
static bool release_one(struct apus_dp_inbox *inbox, struct apus_dp_instance *instance,
			struct apus_dp_record *record, uint8_t change, bool with_data,
			struct apus_mono now)
{
	struct apus_dp_history *h = &inbox->history;
	struct apus_dp_admission out;
	bool available = false;

	if (!apus_dp_history_in_order(h, instance, record, with_data)) {
		if (record->slot_ref != APUS_DP_NONE)
			h->options.release(h->options.release_context, record->slot_ref);
		inbox->counters.results[APUS_DP_REJECTED_ORDER]++;
		return false;
	}
	if (with_data) {
		store_sample(inbox, change, instance, record, inbox->options.separation_ns > 0, now,
			     &out);
		return true;
	}
	if (change & APUS_DP_DISPOSE)
		available |= apus_dp_history_dispose(h, instance, record, true);
	if (change & APUS_DP_UNREGISTER)
		available |= apus_dp_history_unregister(h, instance, record);
	inbox->counters.results[APUS_DP_NOTICE]++;
	return available;
}

bool apus_dp_inbox_settle_set(struct apus_dp_inbox *inbox, uint32_t slot, struct apus_mono now)
{
	struct apus_dp_set *set = &inbox->sets[slot];
	struct apus_dp_instance *instance;
	struct apus_dp_record record;
	bool available = false, with_data;
	uint8_t change;

	if (set->broken) {
		drop_set(inbox, set);
		apus_counter_add(&inbox->counters.sets_dropped, 1);
	} else {
		while ((instance = apus_dp_sets_pop(&inbox->history, set, &record, &change,
						    &with_data)))
			available |= release_one(inbox, instance, &record, change, with_data, now);
		apus_counter_add(&inbox->counters.sets_released, 1);
	}
	*set = (struct apus_dp_set){.first = 0};
	return available;
}

bool apus_dp_inbox_end_set(struct apus_dp_inbox *inbox, uint32_t slot, bool lost,
			   struct apus_mono now, bool *available_out)
{
	struct apus_dp_set *set = inbox->sets ? &inbox->sets[slot] : NULL;

	if (!set || set->first == 0)
		return true;
	if (lost && !set->ended)
		break_set(inbox, set);
	set->ended = true;
	if (inbox->options.group_end &&
	    !inbox->options.group_end(inbox->options.group_context, slot, now))
		return false;
	/* The group may have settled it already. */
	if (set->first)
		*available_out |= apus_dp_inbox_settle_set(inbox, slot, now);
	return true;
}

/** Opens, continues or ends the sets of a writer as the marks of its next change say. False: it must wait. */
static bool turn_set(struct apus_dp_inbox *inbox, const struct apus_dp_arrival *a,
		     struct apus_mono now, struct apus_dp_admission *out)
{
	struct apus_dp_set *set = &inbox->sets[a->match_slot];
	apus_seq first = a->marks.coherent_seq;

	if (set->first && set->first == first && !set->ended) {
		if (a->lost && !set->broken)
			break_set(inbox, set);
		return true;
	}
	if (!apus_dp_inbox_end_set(inbox, a->match_slot, a->lost, now, &out->available)) {
		if (a->reliable)
			return false;
		/* It will not be offered again, so the set before it is given up. */
		break_set(inbox, set);
		apus_dp_inbox_settle_set(inbox, a->match_slot, now);
	}
	if (first > 0) {
		set->first = first;
		set->group = a->marks.group_coherent_seq;
		set->broken = first > a->seq || first < a->began || (a->lost && a->seq > first);
	}
	return true;
}

/** A sample of an open set: withheld, refused for want of room, or rejected with its set. */
static enum apus_dp_admit_result withhold(struct apus_dp_inbox *inbox,
					  const struct apus_dp_arrival *a,
					  struct apus_dp_instance *instance, size_t key_bytes,
					  struct apus_dp_record *record,
					  struct apus_dp_admission *out)
{
	struct apus_dp_history *h = &inbox->history;
	struct apus_dp_set *set = &inbox->sets[a->match_slot];
	enum apus_dp_refusal refusal = apus_dp_sets_room(h, instance, key_bytes, a->has_data);

	if (refusal == APUS_DP_REFUSED_NOT && a->has_data) {
		record->slot_ref = inbox->options.hold(inbox->options.hold_context, a);
		if (record->slot_ref == APUS_DP_NONE)
			refusal = APUS_DP_REFUSED_SLOTS;
	}
	if (refusal != APUS_DP_REFUSED_NOT) {
		/* With nothing left to take no room will ever come. */
		bool hopeless = h->sample_count == 0 && h->invalid_count == 0 && h->loan_count == 0;

		if (a->reliable && !hopeless)
			return refuse(inbox, a, refusal, out);
		break_set(inbox, set);
		inbox->counters.lost++;
		return finish(inbox, out, APUS_DP_REJECTED_SET);
	}
	if (!instance)
		instance = apus_dp_instances_insert(&h->instances, a->key, key_bytes);
	apus_dp_sets_withhold(h, set, instance, record, a->change, a->has_data);
	out->instance = shown_handle(inbox, instance);
	return finish(inbox, out, APUS_DP_WITHHELD);
}

/* ---- the order ------------------------------------------------------------------------------ */

static struct apus_dp_instance *find_instance(const struct apus_dp_inbox *inbox,
					      const struct apus_dp_arrival *a)
{
	const struct apus_dp_instances *t = &inbox->history.instances;

	if (a->key || t->options.key_bytes_max == 0)
		return apus_dp_instances_find(t, a->key,
					      t->options.key_bytes_max ? a->key_bytes : 0);
	return a->key_hash ? apus_dp_instances_find_hash(t, a->key_hash, a->hash_is_alias) : NULL;
}

/** True for a change of a set that is still hoped for; a broken one is told apart before. */
static bool in_set(const struct apus_dp_inbox *inbox, const struct apus_dp_arrival *a)
{
	return inbox->sets && a->marks.coherent_seq > 0;
}

/** What waits comes before the notice that ends its instance, or its writer's part in it. */
static void flush_before_notice(struct apus_dp_inbox *inbox, const struct apus_dp_arrival *a,
				struct apus_dp_instance *instance, struct apus_mono now)
{
	uint32_t idx = apus_dp_instances_idx(&inbox->history.instances, instance);
	const struct apus_dp_late_item *item = apus_dp_late_of(&inbox->late, idx);

	if (item && ((a->change & APUS_DP_DISPOSE) || item->record.match_slot == a->match_slot))
		flush_late(inbox, instance, now);
}

/** Dispose and unregister without data: no filter, rate, lifespan or limit applies; only an owner (or
 *  whoever becomes it) disposes, anybody ends his own registration. */
static enum apus_dp_admit_result admit_notice(struct apus_dp_inbox *inbox,
					      const struct apus_dp_arrival *a, struct apus_mono now,
					      struct apus_dp_admission *out)
{
	struct apus_dp_instance *instance = find_instance(inbox, a);
	struct apus_dp_record record;
	bool disposes = a->change & APUS_DP_DISPOSE, owner = true, late = false;

	if (!instance || (!instance->ever_stored && instance->withheld_count == 0))
		return finish(inbox, out, APUS_DP_IGNORED);
	make_record(inbox, a, now, &record);
	out->instance = shown_handle(inbox, instance);
	if (disposes && inbox->options.exclusive)
		owner = apus_dp_ownership_test(&inbox->peers, instance, a->match_slot,
					       inbox->options.history.deadline_ns, now);
	if (inbox->late.waiting_count && owner)
		flush_before_notice(inbox, a, instance, now);
	if (in_set(inbox, a) && owner)
		return withhold(inbox, a, instance, instance->key_bytes, &record, out);
	if (disposes && owner &&
	    !apus_dp_history_in_order(&inbox->history, instance, &record, false))
		late = true;
	if (disposes && owner && !late)
		out->available |= apus_dp_history_dispose(&inbox->history, instance, &record, true);
	if (a->change & APUS_DP_UNREGISTER)
		out->available |= apus_dp_history_unregister(&inbox->history, instance, &record);
	if (!owner)
		return finish(inbox, out, APUS_DP_REJECTED_OWNERSHIP);
	if (late)
		return finish(inbox, out, APUS_DP_REJECTED_ORDER);
	assert_peer(inbox, a->match_slot, now);
	return finish(inbox, out, APUS_DP_NOTICE);
}

static bool is_sound(const struct apus_dp_inbox *inbox, const struct apus_dp_arrival *a)
{
	uint32_t key_bytes_max = inbox->options.history.instances.key_bytes_max;

	if (a->match_slot >= inbox->peers.capacity || !inbox->peers.peers[a->match_slot].used)
		return false;
	if (a->has_data && key_bytes_max > 0 && !a->key)
		return false;
	return !a->key || a->key_bytes <= key_bytes_max || key_bytes_max == 0;
}

static enum apus_dp_admit_result admit_data(struct apus_dp_inbox *inbox,
					    const struct apus_dp_arrival *a, struct apus_mono now,
					    struct apus_dp_admission *out)
{
	struct apus_dp_instances *t = &inbox->history.instances;
	size_t key_bytes = t->options.key_bytes_max ? a->key_bytes : 0;
	struct apus_dp_instance *instance = find_instance(inbox, a);
	struct apus_dp_record apart, *record = &apart;
	enum apus_dp_refusal refusal;
	enum apus_dp_rate rate;
	struct apus_mono expires;
	uint32_t slot;

	if (inbox->options.exclusive) {
		if (!instance)
			instance = apus_dp_instances_insert(t, a->key, key_bytes);
		if (!instance)
			return refuse(inbox, a, APUS_DP_REFUSED_INSTANCES, out);
		if (!apus_dp_ownership_test(&inbox->peers, instance, a->match_slot,
					    inbox->options.history.deadline_ns, now))
			return finish(inbox, out, APUS_DP_REJECTED_OWNERSHIP);
	}
	rate = apus_dp_rate_test(instance, inbox->options.separation_ns, true, now);
	if (rate == APUS_DP_RATE_REJECTED)
		return inbox->late.items ? put_late(inbox, a, instance, now, out)
					 : finish(inbox, out, APUS_DP_REJECTED_RATE);
	if (!still_wanted(inbox, a, now, &expires))
		return finish(inbox, out, APUS_DP_EXPIRED);
	if (inbox->options.history.by_source || in_set(inbox, a)) {
		make_record(inbox, a, now, record);
		record->expires_at = expires;
		if (!apus_dp_history_in_order(&inbox->history, instance, record, true))
			return finish(inbox, out, APUS_DP_REJECTED_ORDER);
		if (in_set(inbox, a))
			return withhold(inbox, a, instance, key_bytes, record, out);
	}
	refusal = apus_dp_history_room(&inbox->history, instance, key_bytes);
	if (refusal != APUS_DP_REFUSED_NOT)
		return refuse(inbox, a, refusal, out);
	slot = inbox->options.hold(inbox->options.hold_context, a);
	if (slot == APUS_DP_NONE)
		return refuse(inbox, a, APUS_DP_REFUSED_SLOTS, out);
	if (!instance)
		instance = apus_dp_instances_insert(t, a->key, key_bytes);
	/* Nothing can refuse it any more: its record is made where it will stay. */
	record = apus_dp_history_blank(&inbox->history, &apart);
	make_record(inbox, a, now, record);
	record->expires_at = expires;
	record->slot_ref = slot;
	return store_sample(inbox, a->change, instance, record, rate == APUS_DP_RATE_TOKEN, now,
			    out);
}

enum apus_dp_admit_result apus_dp_admit(struct apus_dp_inbox *inbox,
					const struct apus_dp_arrival *arrival, struct apus_mono now,
					struct apus_dp_admission *out)
{
	*out = (struct apus_dp_admission){.entry_idx = APUS_DP_NONE};
	if (!is_sound(inbox, arrival))
		return finish(inbox, out, APUS_DP_MALFORMED);
	apus_dp_inbox_catch_up(inbox, now); /* one comparison until one has lapsed */
	apus_dp_history_purge(&inbox->history, now);
	if (inbox->sets) {
		if (!turn_set(inbox, arrival, now, out))
			return finish(inbox, out, APUS_DP_REFUSED);
		if (in_set(inbox, arrival) && inbox->sets[arrival->match_slot].broken) {
			inbox->counters.lost += arrival->has_data;
			return finish(inbox, out, APUS_DP_REJECTED_SET);
		}
	}
	if (!arrival->has_data)
		return admit_notice(inbox, arrival, now, out);
	if (inbox->filter && arrival->filter_word != APUS_DP_FILTER_PASSED) {
		enum apus_dp_verdict verdict = APUS_DP_REJECT;

		if (arrival->filter_word == APUS_DP_FILTER_UNKNOWN)
			verdict = inbox->filter(inbox->filter_context, arrival->payload,
						arrival->payload_bytes);
		if (verdict != APUS_DP_PASS)
			return finish(inbox, out,
				      verdict == APUS_DP_REJECT ? APUS_DP_REJECTED_FILTER
								: APUS_DP_MALFORMED);
	}
	return admit_data(inbox, arrival, now, out);
}

/* ---- runs ------------------------------------------------------------------------------------ */

/** True if nothing but room decides about a sample of the writer at `slot`, and it touches one known instance. */
static bool is_plain(const struct apus_dp_inbox *inbox, uint32_t slot)
{
	const struct apus_dp_inbox_options *o = &inbox->options;

	return !inbox->filter && !o->exclusive && o->separation_ns <= 0 && !inbox->sets &&
	       !inbox->late.items && !o->history.by_source &&
	       o->history.instances.key_bytes_max == 0 && o->lifespan_ns == APUS_INFINITE_NS &&
	       slot < inbox->peers.capacity && inbox->peers.peers[slot].used &&
	       inbox->peers.peers[slot].lifespan_ns == APUS_INFINITE_NS;
}

uint32_t apus_dp_admit_run_room(struct apus_dp_inbox *inbox, uint32_t slot, uint32_t count,
				struct apus_mono now)
{
	const struct apus_dp_instance *instance;

	if (!is_plain(inbox, slot))
		return 0;
	apus_dp_inbox_catch_up(inbox, now);
	apus_dp_history_purge(&inbox->history, now);
	instance = apus_dp_instances_only(&inbox->history.instances);
	return instance ? apus_dp_history_room_for(&inbox->history, instance, count) : 0;
}

void apus_dp_admit_run(struct apus_dp_inbox *inbox, const struct apus_dp_arrival *arrival,
		       const struct apus_dp_run_item *items, uint32_t count, struct apus_mono now)
{
	struct apus_dp_instance *instance = apus_dp_instances_only(&inbox->history.instances);
	int64_t deadline_ns = inbox->options.history.deadline_ns;
	struct apus_dp_record record;

	make_record(inbox, arrival, now, &record);
	assert_peer(inbox, arrival->match_slot, now);
	apus_dp_history_store_run(&inbox->history, instance, &record, items, count);
	if (apus_dp_is_finite(deadline_ns))
		apus_dp_deadline_activity(&instance->deadline, deadline_ns, now);
	inbox->counters.available += count;
	inbox->counters.results[APUS_DP_STORED] += count;
}

/* ---- changes from outside -------------------------------------------------------------------- */

static uint32_t prune_late(struct apus_dp_inbox *inbox,
			   bool (*keep)(void *context, const struct apus_dp_sample *entry),
			   void *context)
{
	uint32_t idx = apus_dp_late_next(&inbox->late, APUS_DP_NONE), next, pruned = 0;

	for (; idx != APUS_DP_NONE; idx = next) {
		struct apus_dp_late_item *item = &inbox->late.items[idx];
		struct apus_dp_sample entry = {
			.record = item->record, .instance_idx = idx, .valid_data = true};

		next = apus_dp_late_next(&inbox->late, idx);
		item->record.filter_generation = inbox->filter_generation;
		if (keep(context, &entry))
			continue;
		drop_late(inbox, &inbox->history.instances.items[idx]);
		pruned++;
	}
	inbox->history.counters.pruned += pruned;
	return pruned;
}

uint32_t apus_dp_inbox_set_filter(struct apus_dp_inbox *inbox, apus_dp_filter_fn *filter,
				  const void *filter_context, uint64_t filter_generation,
				  bool (*keep)(void *context, const struct apus_dp_sample *entry),
				  void *keep_context)
{
	uint32_t withheld = 0;

	inbox->filter = filter;
	inbox->filter_context = filter_context;
	inbox->filter_generation = filter_generation;
	if (!keep)
		return 0;
	withheld = prune_late(inbox, keep, keep_context);
	for (uint32_t i = 0; inbox->sets && i < inbox->peers.capacity; i++)
		withheld += apus_dp_sets_prune(&inbox->history, &inbox->sets[i], keep, keep_context,
					       filter_generation);
	return withheld +
	       apus_dp_history_prune(&inbox->history, keep, keep_context, filter_generation);
}

int apus_dp_inbox_match(struct apus_dp_inbox *inbox, uint32_t slot, const struct apus_guid *guid,
			int32_t strength, int64_t lease_ns, int64_t lifespan_ns,
			struct apus_mono now)
{
	return apus_dp_peers_set(&inbox->peers, slot, guid, strength, lease_ns, lifespan_ns, now);
}

static uint32_t writer_gone(struct apus_dp_inbox *inbox, uint32_t slot, struct apus_mono now)
{
	struct apus_dp_arrival a = {.match_slot = slot, .source_time = APUS_WALL_NONE};
	struct apus_dp_record record;

	make_record(inbox, &a, now, &record);
	if (inbox->late.waiting_count) {
		run_late(inbox, now);
		flush_writer(inbox, slot, now);
	}
	return apus_dp_history_writer_gone(&inbox->history, &record);
}

uint32_t apus_dp_inbox_unmatch(struct apus_dp_inbox *inbox, uint32_t slot, struct apus_mono now)
{
	uint64_t shown;
	uint32_t changed;

	if (slot >= inbox->peers.capacity || !inbox->peers.peers[slot].used)
		return 0;
	changed = apus_dp_inbox_catch_up(inbox, now);
	if (inbox->sets && inbox->sets[slot].first) {
		break_set(inbox, &inbox->sets[slot]);
		apus_dp_inbox_settle_set(inbox, slot, now);
	}
	shown = inbox->lapsed;
	changed += writer_gone(inbox, slot, now);
	changed += (uint32_t)(inbox->lapsed - shown);
	apus_dp_peers_remove(&inbox->peers, slot, now);
	return changed;
}

/* The writer whose lapse by `now` has to be carried to the instances next: the earliest. Finds out besides when
 * the next of the others lapses. */
static struct apus_dp_peer *next_lapsed(struct apus_dp_peers *p, struct apus_mono now)
{
	struct apus_dp_peer *first = NULL;

	p->due_ns = INT64_MAX;
	for (uint32_t slot = 0; slot < p->capacity; slot++) {
		struct apus_dp_peer *peer = &p->peers[slot];
		struct apus_mono due;

		if (!peer->used || !apus_dp_is_finite(peer->lease.lease_ns))
			continue;
		apus_dp_peer_expire(p, peer, now);
		due = apus_dp_lease_due(&peer->lease);
		if (due.ns < p->due_ns)
			p->due_ns = due.ns;
		if (peer->lease.alive || peer->swept)
			continue;
		if (!first || apus_mono_add(peer->lease.since, peer->lease.lease_ns).ns <
				      apus_mono_add(first->lease.since, first->lease.lease_ns).ns)
			first = peer;
	}
	return first;
}

uint32_t apus_dp_inbox_catch_up(struct apus_dp_inbox *inbox, struct apus_mono now)
{
	struct apus_dp_peers *p = &inbox->peers;
	struct apus_dp_peer *peer;
	bool leases = now.ns >= p->due_ns;
	uint64_t before = inbox->lapsed;
	uint32_t changed = 0;

	if (APUS_LIKELY(now.ns < p->due_ns && now.ns < inbox->late.due_ns))
		return 0;
	/* Each at the instant of its lapse, in their order: as if a timer had fired then. */
	while (leases && (peer = next_lapsed(p, now))) {
		peer->swept = true;
		changed += writer_gone(inbox, (uint32_t)(peer - p->peers),
				       apus_mono_add(peer->lease.since, peer->lease.lease_ns));
	}
	run_late(inbox, now);
	inbox->lapsed += changed;
	return (uint32_t)(inbox->lapsed - before);
}

void apus_dp_inbox_assert(struct apus_dp_inbox *inbox, uint32_t slot, struct apus_mono now)
{
	if (slot >= inbox->peers.capacity || !inbox->peers.peers[slot].used)
		return;
	apus_dp_inbox_catch_up(inbox, now);
	assert_peer(inbox, slot, now);
}
