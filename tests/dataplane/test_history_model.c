/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: any interleaving of store, dispose, unregister, departure, read, take, return, expiry and pruning
 * shows the application what DDS 1.4 §2.2.2.5 says. Method: random operations on a small history and on a
 * model that keeps its samples in one array in order of reception; every access is compared sample by
 * sample, every slot must be let go once and no later than the model lets it go.
 */
#include "dataplane/history.h"

#include <apus/participant.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

enum {
	KEYS = 7,
	WRITERS = 3,
	CAPACITY = 5,
	MAX_SAMPLES = 9,
	PER_INSTANCE = 4,
	DEPTH = 2,
	LOANS = 5
};
enum { SLOTS = MAX_SAMPLES + LOANS + 1, MODEL_MAX = 64 };

struct model_sample {
	uint32_t slot; /* APUS_DP_NONE: no data */
	uint32_t key, dgc, nwgc, loans, entry_idx;
	int64_t expires;
	bool read, in_history;
};

struct model_key {
	bool exists, view_new, ever_stored, idle;
	uint8_t state;
	uint32_t dgc, nwgc, writers;
	uint64_t idle_since;
};

static struct model {
	struct model_sample samples[MODEL_MAX]; /* in order of reception */
	uint32_t count;
	struct model_key keys[KEYS];
	uint64_t clock, displaced, displaced_lost, expired, pruned;
	uint32_t loans;
	bool slot_used[SLOTS];
	bool keep_all;
} m;

static bool released[SLOTS]; /* since the model last looked */
static uint64_t rng_state;

static uint32_t rnd(uint32_t n)
{
	rng_state ^= rng_state << 13;
	rng_state ^= rng_state >> 7;
	rng_state ^= rng_state << 17;
	return (uint32_t)((rng_state >> 20) % n);
}

static void on_release(void *context, uint32_t slot_ref)
{
	(void)context;
	assert_in_range(slot_ref, 0, SLOTS - 1);
	assert_false(released[slot_ref]);
	released[slot_ref] = true;
}

static uint32_t free_slot(void)
{
	for (uint32_t i = 0; i < SLOTS; i++) {
		if (!m.slot_used[i])
			return i;
	}
	fail_msg("the pool ran dry");
	return 0;
}

/* ---- model ---------------------------------------------------------------------------------- */

static uint32_t key_samples(uint32_t key, bool with_data)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < m.count; i++) {
		const struct model_sample *s = &m.samples[i];

		n += s->key == key && s->in_history && (s->slot != APUS_DP_NONE) == with_data;
	}
	return n;
}

static uint32_t all_samples(void)
{
	uint32_t n = 0;

	for (uint32_t key = 0; key < KEYS; key++)
		n += key_samples(key, true);
	return n;
}

static void model_settle(uint32_t key)
{
	struct model_key *k = &m.keys[key];
	bool idle = k->writers == 0 || k->state == APUS_STATE_DISPOSED;

	for (uint32_t i = 0; i < m.count; i++)
		idle = idle && m.samples[i].key != key;
	if (idle && !k->idle)
		k->idle_since = ++m.clock;
	k->idle = idle;
}

/** The sample is neither in the history nor lent any more. */
static void model_forget(uint32_t idx)
{
	uint32_t key = m.samples[idx].key, slot = m.samples[idx].slot;

	if (slot != APUS_DP_NONE) {
		assert_true(released[slot]);
		released[slot] = false;
		m.slot_used[slot] = false;
	}
	memmove(&m.samples[idx], &m.samples[idx + 1], (--m.count - idx) * sizeof(m.samples[0]));
	model_settle(key);
}

static void model_remove(uint32_t idx)
{
	m.samples[idx].in_history = false;
	if (m.samples[idx].loans == 0)
		model_forget(idx);
}

/** Index of the oldest sample of a key with or without data, or MODEL_MAX. */
static uint32_t model_oldest(uint32_t key, bool with_data)
{
	for (uint32_t i = 0; i < m.count; i++) {
		const struct model_sample *s = &m.samples[i];

		if (s->key == key && s->in_history && (s->slot != APUS_DP_NONE) == with_data)
			return i;
	}
	return MODEL_MAX;
}

static void model_append(uint32_t key, uint32_t slot, int64_t expires)
{
	assert_true(m.count < MODEL_MAX);
	m.samples[m.count++] = (struct model_sample){.slot = slot,
						     .key = key,
						     .dgc = m.keys[key].dgc,
						     .nwgc = m.keys[key].nwgc,
						     .expires = expires,
						     .in_history = true};
	if (slot != APUS_DP_NONE)
		m.slot_used[slot] = true;
	model_settle(key);
}

static void model_drop_notice(uint32_t key)
{
	uint32_t idx = model_oldest(key, false);

	if (idx != MODEL_MAX)
		model_remove(idx);
}

static enum apus_dp_refusal model_room(uint32_t key)
{
	uint32_t keys = 0, idle = 0, own = key_samples(key, true);

	for (uint32_t k = 0; k < KEYS; k++) {
		keys += m.keys[k].exists;
		idle += m.keys[k].exists && m.keys[k].idle;
	}
	if (!m.keys[key].exists && keys == CAPACITY && idle == 0)
		return APUS_DP_REFUSED_INSTANCES;
	if (!m.keep_all && own > 0)
		return APUS_DP_REFUSED_NOT;
	if (all_samples() == MAX_SAMPLES)
		return APUS_DP_REFUSED_SAMPLES;
	return own == PER_INSTANCE ? APUS_DP_REFUSED_PER_INSTANCE : APUS_DP_REFUSED_NOT;
}

/** Makes the key known; the longest idle one goes if need be. */
static void model_insert(uint32_t key)
{
	uint32_t keys = 0, victim = KEYS;

	for (uint32_t k = 0; k < KEYS; k++) {
		keys += m.keys[k].exists;
		if (m.keys[k].exists && m.keys[k].idle &&
		    (victim == KEYS || m.keys[k].idle_since < m.keys[victim].idle_since))
			victim = k;
	}
	if (keys == CAPACITY)
		m.keys[victim] = (struct model_key){.exists = false};
	m.keys[key] = (struct model_key){
		.exists = true, .view_new = true, .state = APUS_STATE_ALIVE, .idle = true};
	m.keys[key].idle_since = ++m.clock;
}

static void model_store(uint32_t key, uint32_t writer, uint32_t slot, int64_t expires)
{
	struct model_key *k = &m.keys[key];
	uint32_t own = key_samples(key, true);

	if (!m.keep_all && own > 0 && (own == DEPTH || all_samples() == MAX_SAMPLES)) {
		uint32_t idx = model_oldest(key, true);

		m.displaced++;
		m.displaced_lost += !m.samples[idx].read;
		model_remove(idx);
	}
	model_drop_notice(key);
	if (k->state == APUS_STATE_DISPOSED)
		k->dgc++;
	if (k->state == APUS_STATE_NO_WRITERS)
		k->nwgc++;
	k->view_new = k->view_new || k->state != APUS_STATE_ALIVE;
	k->state = APUS_STATE_ALIVE;
	k->ever_stored = true;
	k->writers |= 1u << writer;
	model_append(key, slot, expires);
}

static bool model_dispose(uint32_t key)
{
	struct model_key *k = &m.keys[key];

	if (!k->ever_stored || k->state == APUS_STATE_DISPOSED)
		return false;
	k->state = APUS_STATE_DISPOSED;
	model_drop_notice(key);
	model_append(key, APUS_DP_NONE, INT64_MAX);
	return true;
}

static bool model_unregister(uint32_t key, uint32_t writer)
{
	struct model_key *k = &m.keys[key];
	bool changed = k->exists && k->writers == 1u << writer && k->state == APUS_STATE_ALIVE;

	if (!k->exists || !(k->writers & 1u << writer))
		return false;
	k->writers &= ~(1u << writer);
	if (changed) {
		k->state = APUS_STATE_NO_WRITERS;
		model_drop_notice(key);
		model_append(key, APUS_DP_NONE, INT64_MAX);
	}
	model_settle(key);
	return changed;
}

/* ---- steps on both -------------------------------------------------------------------------- */

static struct apus_dp_instance *find(struct apus_dp_history *h, uint32_t key)
{
	uint8_t byte = (uint8_t)key;
	struct apus_dp_instance *i = apus_dp_instances_find(&h->instances, &byte, 1);

	assert_int_equal(i != NULL, m.keys[key].exists);
	return i;
}

static struct apus_dp_record record(uint32_t writer, int64_t now)
{
	return (struct apus_dp_record){.reception_time = {now},
				       .expires_at = {INT64_MAX},
				       .slot_ref = APUS_DP_NONE,
				       .match_slot = writer};
}

static void step_store(struct apus_dp_history *h, int64_t now)
{
	uint32_t key = rnd(KEYS), writer = rnd(WRITERS);
	struct apus_dp_instance *i = find(h, key);
	struct apus_dp_record r = record(writer, now);
	enum apus_dp_refusal room = model_room(key);
	uint64_t displaced_before = m.displaced;
	uint8_t byte = (uint8_t)key;
	bool displaced;

	assert_int_equal(apus_dp_history_room(h, i, 1), room);
	if (room != APUS_DP_REFUSED_NOT)
		return;
	r.slot_ref = free_slot();
	if (rnd(3) == 0)
		r.expires_at.ns = now + rnd(60);
	if (!i) {
		i = apus_dp_instances_insert(&h->instances, &byte, 1);
		assert_non_null(i);
		model_insert(key);
	}
	apus_dp_history_store(h, i, &r, &displaced);
	model_store(key, writer, r.slot_ref, r.expires_at.ns);
	assert_int_equal(displaced, m.displaced > displaced_before);
}

static void step_notice(struct apus_dp_history *h, int64_t now)
{
	uint32_t key = rnd(KEYS), writer = rnd(WRITERS), kind = rnd(8);
	struct apus_dp_record r = record(writer, now);
	struct apus_dp_instance *i = find(h, key);

	if (kind == 0) {
		uint32_t changed = apus_dp_history_writer_gone(h, &r), expected = 0;

		/* In the order of the table, which decides the order of the notices. */
		for (uint32_t n = 0; n < CAPACITY; n++) {
			struct apus_dp_instance *at = apus_dp_instances_at(&h->instances, n);

			if (at->handle)
				expected += model_unregister(
					*apus_dp_instances_key(&h->instances, at), writer);
		}
		assert_int_equal(changed, expected);
	} else if (i && kind < 4) {
		assert_int_equal(apus_dp_history_dispose(h, i, &r, true), model_dispose(key));
	} else if (i) {
		assert_int_equal(apus_dp_history_unregister(h, i, &r),
				 model_unregister(key, writer));
	}
}

static bool model_wants(const struct apus_dp_select *s, uint32_t key, const struct model_sample *e)
{
	const struct model_key *k = &m.keys[e->key];

	return e->in_history && (key == KEYS || key == e->key) &&
	       (!s->instance_states || (s->instance_states & k->state)) &&
	       (!s->sample_states || (s->sample_states & (e->read ? 1 : 2))) &&
	       (!s->view_states || (s->view_states & (k->view_new ? 1 : 2)));
}

static void compare_loan(const struct apus_dp_loan *loan, const struct model_sample *s)
{
	const struct model_key *k = &m.keys[s->key];

	assert_int_equal(loan->entry->record.slot_ref, s->slot);
	assert_int_equal(loan->entry->valid_data, s->slot != APUS_DP_NONE);
	assert_int_equal(loan->entry->disposed_generation_count, s->dgc);
	assert_int_equal(loan->entry->no_writers_generation_count, s->nwgc);
	assert_int_equal(loan->read_before, s->read);
	assert_int_equal(loan->instance_state, k->state);
	assert_int_equal(loan->view_new, k->view_new);
}

/** The model's side of an access whose loans are known; views and read flags move only at the end. */
static void model_access(const struct apus_dp_select *s, uint32_t key, bool take, int64_t now,
			 const struct apus_dp_loan *loans, uint32_t count, uint32_t max)
{
	uint32_t order[LOANS], n = 0;

	for (uint32_t i = 0; i < m.count && n < max; i++) {
		struct model_sample *e = &m.samples[i];

		if (!model_wants(s, key, e))
			continue;
		if (now >= e->expires) {
			if (take) {
				m.expired++;
				e->in_history = false;
				if (e->loans == 0)
					model_forget(i--);
			}
			continue;
		}
		assert_true(n < count);
		compare_loan(&loans[n], e);
		e->entry_idx = loans[n].entry_idx;
		e->loans++;
		order[n++] = i;
	}
	assert_int_equal(n, count);
	for (uint32_t i = 0; i < n; i++) {
		struct model_sample *e = &m.samples[order[i]];

		e->read = true;
		e->in_history = !take;
		m.keys[e->key].view_new = false;
	}
	m.loans += n;
}

static void step_access(struct apus_dp_history *h, int64_t now)
{
	struct apus_dp_select s = {.instance_states = (uint8_t)rnd(8),
				   .sample_states = (uint8_t)rnd(4),
				   .view_states = (uint8_t)rnd(4)};
	uint32_t max = 1 + rnd(LOANS), key = KEYS;
	struct apus_dp_loan loans[LOANS];
	bool take = rnd(2), all = rnd(3) == 0;
	int count;

	if (rnd(4) == 0 && m.keys[key = rnd(KEYS)].exists)
		s.instance = find(h, key)->handle;
	else
		key = KEYS;
	if (all) {
		s = (struct apus_dp_select){0};
		key = KEYS;
	}
	count = apus_dp_history_access(h, all ? NULL : &s, take, (struct apus_mono){now}, loans,
				       max);
	if (m.loans == LOANS) {
		assert_int_equal(count, APUS_ELIMIT);
		return;
	}
	assert_true(count >= 0);
	if (max > LOANS - m.loans)
		max = LOANS - m.loans;
	model_access(&s, key, take, now, loans, (uint32_t)count, max);
}

static void step_return(struct apus_dp_history *h)
{
	uint32_t start = m.count ? rnd(m.count) : 0;

	for (uint32_t n = 0; n < m.count; n++) {
		uint32_t idx = (start + n) % m.count;
		struct model_sample *e = &m.samples[idx];

		if (e->loans == 0)
			continue;
		assert_int_equal(apus_dp_history_return(h, e->entry_idx), 0);
		m.loans--;
		if (--e->loans == 0 && !e->in_history)
			model_forget(idx);
		return;
	}
	assert_int_equal(m.loans, 0);
}

static bool keeps(void *context, const struct apus_dp_sample *e)
{
	return e->record.slot_ref % 3 != *(uint32_t *)context;
}

static void step_prune(struct apus_dp_history *h)
{
	uint32_t out = rnd(3), pruned = 0;

	pruned = apus_dp_history_prune(h, keeps, &out, 1);
	m.pruned += pruned;
	for (uint32_t i = 0; i < m.count; i++) {
		struct model_sample *e = &m.samples[i];

		if (!e->in_history || e->slot == APUS_DP_NONE || e->slot % 3 != out)
			continue;
		e->in_history = false;
		pruned--;
		if (e->loans == 0)
			model_forget(i--);
	}
	assert_int_equal(pruned, 0);
}

static void compare_totals(const struct apus_dp_history *h)
{
	assert_int_equal(h->sample_count, all_samples());
	assert_int_equal(h->loan_count, m.loans);
	assert_int_equal(h->counters.displaced, m.displaced);
	assert_int_equal(h->counters.displaced_lost, m.displaced_lost);
	assert_int_equal(h->counters.expired, m.expired);
	assert_int_equal(h->counters.pruned, m.pruned);
	for (uint32_t i = 0; i < SLOTS; i++)
		assert_false(released[i]); /* the model has let go of all the history has */
}

static void run(bool keep_all, uint64_t seed)
{
	struct apus_dp_history_options o = {
		.keep_all = keep_all,
		.depth = DEPTH,
		.max_samples = MAX_SAMPLES,
		.max_samples_per_instance = PER_INSTANCE,
		.max_loans = LOANS,
		.instances = {.capacity = CAPACITY, .key_bytes_max = 1, .match_count_max = WRITERS},
		.release = on_release,
	};
	struct apus_dp_history h;
	void *memory = malloc(apus_dp_history_bytes(&o));

	assert_int_equal(apus_dp_history_init(&h, &o, memory), 0);
	memset(&m, 0, sizeof(m));
	memset(released, 0, sizeof(released));
	m.keep_all = keep_all;
	rng_state = seed;
	for (int64_t now = 1; now <= 100000; now++) {
		switch (rnd(20)) {
		default: step_store(&h, now); break;
		case 0:
		case 1:
		case 2: step_notice(&h, now); break;
		case 3:
		case 4:
		case 5: step_access(&h, now); break;
		case 6:
		case 7:
		case 8:
		case 9: step_return(&h); break;
		case 10:
			if (rnd(8) == 0)
				step_prune(&h);
			break;
		}
		compare_totals(&h);
	}
	assert_true(m.expired > 100 && m.pruned > 100 && (keep_all || m.displaced_lost > 1000));
	apus_dp_history_fini(&h);
	for (uint32_t i = 0; i < SLOTS; i++)
		assert_int_equal(released[i], m.slot_used[i]);
	free(memory);
}

static void keep_last_like_the_model(void **state)
{
	(void)state;
	run(false, 0x9e3779b97f4a7c15);
	run(false, 88172645463325252u);
}

static void keep_all_like_the_model(void **state)
{
	(void)state;
	run(true, 0x9e3779b97f4a7c15);
	run(true, 88172645463325252u);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keep_last_like_the_model),
		cmocka_unit_test(keep_all_like_the_model),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
