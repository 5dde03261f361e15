/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: whatever is written, disposed of and unregistered at one end of a wire that loses, doubles and reorders,
 * a reader at the other end shows what DDS 1.4 §2.2.2.5 says: the same samples, states, counts and ranks as a
 * model that is told of the changes in the order in which the reader accepts them.
 *
 * Method: random steps on a writer, a wire in memory and a reader; each access is compared sample by sample.
 * Reliable: the writer keeps all, so every change arrives in the end, and the window says how far the reader is.
 * Best effort: the datagrams that get through are read off the wire. A failing run prints its seed;
 * APUS_MODEL_STEPS sets how many steps the whole program makes.
 */
#include "tests/dataplane/wire_pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEYS = 5, OPS = 1 << 12, MAX = 64, LENT = 24, SECOND = 1000000000 };

/* One change as written, by sequence number modulo OPS. */
struct op {
	int64_t source;
	uint32_t key;
	uint8_t kind;
};

struct sample {
	apus_seq seq;
	int64_t source;
	uint32_t key, dgc, nwgc;
	bool data, read;
};

struct key {
	bool known, registered, view_new, has_floor;
	uint8_t state;
	uint32_t dgc, nwgc;
	int64_t floor_source;
	apus_seq floor_seq;
};

static struct model {
	struct sample at[MAX]; /* in order of reception; late ones before what they precede */
	uint32_t count;
	struct key keys[KEYS];
	apus_seq applied; /* changes the model has been told of */
	apus_seq gone;    /* best effort: of these, not received */
} m;

static struct wire_pair p;
static struct wire_endpoints e;
static struct wire_options o;
static struct op ops[OPS];
static uint64_t rng, steps_left;
static struct apus_sample lent[LENT];
static uint32_t lent_count;
static uint64_t compared, refused_seen, rejected_seen;

static uint32_t rnd(uint32_t n)
{
	return wire_random(&rng, n);
}

/* ---- the model ------------------------------------------------------------------------------ */

static int32_t oldest(uint32_t key, bool data)
{
	for (uint32_t i = 0; i < m.count; i++)
		if (m.at[i].key == key && m.at[i].data == data)
			return (int32_t)i;
	return -1;
}

static uint32_t held(uint32_t key, bool all)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < m.count; i++)
		n += m.at[i].data && (all || m.at[i].key == key);
	return n;
}

static void drop(uint32_t i)
{
	memmove(&m.at[i], &m.at[i + 1], (--m.count - i) * sizeof(m.at[0]));
}

static void drop_notice(uint32_t key)
{
	int32_t i = oldest(key, false);

	if (i >= 0)
		drop((uint32_t)i);
}

static bool before(int64_t source_a, apus_seq a, int64_t source_b, apus_seq b)
{
	return source_a < source_b || (source_a == source_b && a < b);
}

static void raise_floor(struct key *k, int64_t source, apus_seq seq)
{
	if (!o.by_source || (k->has_floor && !before(k->floor_source, k->floor_seq, source, seq)))
		return;
	k->has_floor = true;
	k->floor_source = source;
	k->floor_seq = seq;
}

static bool below_floor(const struct key *k, const struct op *op, apus_seq seq)
{
	return k->has_floor && before(op->source, seq, k->floor_source, k->floor_seq);
}

static uint32_t depth(void)
{
	return o.reader_depth ? o.reader_depth : o.keep_all ? MAX : o.depth;
}

static bool full(uint32_t key)
{
	bool keeps_all = o.keep_all && !o.reader_depth;

	return !keeps_all && held(key, false) > 0 &&
	       (held(key, false) >= depth() || held(0, true) >= o.reader_max_samples);
}

static void insert(uint32_t at, const struct sample *s)
{
	assert_true(m.count < MAX);
	memmove(&m.at[at + 1], &m.at[at], (m.count++ - at) * sizeof(m.at[0]));
	m.at[at] = *s;
}

static void append(uint32_t key, const struct op *op, apus_seq seq, bool data)
{
	struct sample s = {.seq = seq,
			   .source = op->source,
			   .key = key,
			   .dgc = m.keys[key].dgc,
			   .nwgc = m.keys[key].nwgc,
			   .data = data};
	uint32_t at = m.count;

	for (uint32_t i = 0; data && o.by_source && i < m.count; i++)
		if (m.at[i].key == key && before(s.source, s.seq, m.at[i].source, m.at[i].seq)) {
			at = i;
			break;
		}
	insert(at, &s);
}

static void apply_data(const struct op *op, apus_seq seq)
{
	struct key *k = &m.keys[op->key];
	int32_t first = oldest(op->key, true);

	if (seq % 11 == 0) /* the reader's filter */
		return;
	if (o.by_source) {
		bool late = below_floor(k, op, seq) ||
			    (full(op->key) &&
			     before(op->source, seq, m.at[first].source, m.at[first].seq));

		rejected_seen += late;
		if (late)
			return;
	}
	/* No room, and nothing of its own to give: a reliable writer would offer it again. */
	if (!o.reliable && first < 0 && held(0, true) >= o.reader_max_samples)
		return;
	if (full(op->key))
		drop((uint32_t)first);
	drop_notice(op->key);
	if (!k->known)
		*k = (struct key){.view_new = true, .state = APUS_STATE_ALIVE};
	k->known = k->registered = true;
	k->dgc += k->state == APUS_STATE_DISPOSED;
	k->nwgc += k->state == APUS_STATE_NO_WRITERS;
	k->view_new |= k->state != APUS_STATE_ALIVE;
	k->state = APUS_STATE_ALIVE;
	append(op->key, op, seq, true);
}

static void tell(const struct op *op, apus_seq seq, uint8_t state)
{
	m.keys[op->key].state = state;
	drop_notice(op->key);
	append(op->key, op, seq, false);
}

static void apply_notice(const struct op *op, apus_seq seq)
{
	struct key *k = &m.keys[op->key];
	bool late = o.by_source && below_floor(k, op, seq);

	if (!k->known)
		return;
	for (uint32_t i = 0; o.by_source && i < m.count; i++)
		late |= m.at[i].key == op->key && m.at[i].data &&
			before(op->source, seq, m.at[i].source, m.at[i].seq);
	if ((op->kind & APUS_DISPOSE) && !late && k->state != APUS_STATE_DISPOSED) {
		tell(op, seq, APUS_STATE_DISPOSED);
		raise_floor(k, op->source, seq);
	}
	if (!(op->kind & APUS_UNREGISTER) || !k->registered)
		return;
	k->registered = false;
	if (k->state == APUS_STATE_ALIVE)
		tell(op, seq, APUS_STATE_NO_WRITERS);
}

static void apply(apus_seq seq)
{
	const struct op *op = &ops[seq % OPS];

	m.applied = seq;
	if (op->kind == APUS_ALIVE)
		apply_data(op, seq);
	else
		apply_notice(op, seq);
}

/* ---- what the reader has accepted ----------------------------------------------------------- */

static struct apus_dp_reader_state *match(void)
{
	return &e.reader->states[e.reader->order[0]];
}

/* Best effort: what is on the wire will be received, in this order; numbers only rise. */
static void read_off_the_wire(void)
{
	for (uint32_t i = p.a_to_b.head; i != p.a_to_b.tail; i++) {
		const struct wire_datagram *d = &p.a_to_b.ring[i % WIRE_DATAGRAMS];
		struct apus_wire_submessage s;
		struct apus_wire_message msg;

		assert_int_equal(apus_wire_open(&msg, d->bytes, d->length), APUS_WIRE_ACCEPT);
		while (apus_wire_next(&msg, &s) != APUS_WIRE_END)
			if (s.id == APUS_WIRE_DATA && s.data.seq > m.applied) {
				m.gone += s.data.seq - m.applied - 1;
				apply(s.data.seq);
			}
	}
}

static void let_time_pass(uint32_t steps)
{
	while (steps-- > 0) {
		if (!o.reliable)
			read_off_the_wire();
		do /* a poll takes one burst */
			wire_run(&p, 100 * APUS_NS_PER_US);
		while (!o.reliable && p.a_to_b.head != p.a_to_b.tail);
	}
}

static void catch_up(void)
{
	if (!o.reliable)
		return;
	while (m.applied + 1 < match()->window.next)
		apply(m.applied + 1);
}

/* ---- steps ---------------------------------------------------------------------------------- */

static void step_write(void)
{
	static const uint8_t kinds[] = {APUS_ALIVE,   APUS_ALIVE,      APUS_ALIVE,
					APUS_ALIVE,   APUS_ALIVE,      APUS_ALIVE,
					APUS_DISPOSE, APUS_UNREGISTER, APUS_DISPOSE_UNREGISTER};
	apus_seq seq = e.writer->last + 1;
	struct op op = {.source = (int64_t)(seq / 4 + 1 + rnd(6)) * SECOND,
			.key = rnd(KEYS),
			.kind = kinds[rnd(9)]};
	char color[3] = {'K', (char)('0' + op.key), 0};

	if (seq - m.applied >= OPS - 1)
		return;
	ops[seq % OPS] = op;
	if (wire_write_at(&p, &e, color, (int32_t)seq, (enum apus_change)op.kind, op.source) == 0)
		assert_int_equal(e.writer->last, seq);
}

static bool wanted(const struct apus_select *s, const struct sample *x)
{
	const struct key *k = &m.keys[x->key];

	return (!s->instance_states || (s->instance_states & k->state)) &&
	       (!s->sample_states || (s->sample_states & (x->read ? 1 : 2))) &&
	       (!s->view_states || (s->view_states & (k->view_new ? 1 : 2)));
}

/* The indices an access returns, in order. key KEYS: any. */
static uint32_t choose(const struct apus_select *s, uint32_t key, uint32_t max, uint32_t *out)
{
	bool done[KEYS] = {false};
	uint32_t n = 0;

	for (uint32_t i = 0; i < m.count; i++) {
		uint32_t k = m.at[i].key;

		if ((key != KEYS && key != k) || (o.by_instance && done[k]))
			continue;
		done[k] = true;
		for (uint32_t j = i; j < m.count && n < max; j++) {
			if (m.at[j].key == k && wanted(s, &m.at[j]))
				out[n++] = j;
			if (!o.by_instance)
				break;
		}
	}
	return n;
}

static int32_t x_of(const struct apus_sample *s)
{
	int32_t x;

	memcpy(&x, (const uint8_t *)s->payload + 12, 4); /* header, "K0", padding */
	return x;
}

static void compare(const struct apus_sample *got, const uint32_t *idx, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		const struct sample *x = &m.at[idx[i]];
		const struct key *k = &m.keys[x->key];
		const struct apus_sample_info *info = &got[i].info;
		uint32_t after = 0, last = i;

		for (uint32_t j = i + 1; j < n; j++)
			if (m.at[idx[j]].key == x->key) {
				after++;
				last = j;
			}
		assert_int_equal(info->seq, x->seq);
		assert_int_equal(info->source_time_ns, x->source);
		assert_int_equal(info->valid_data, x->data);
		assert_int_equal(((const char *)got[i].payload)[9], '0' + (int)x->key);
		if (x->data)
			assert_int_equal(x_of(&got[i]), x->seq);
		assert_int_equal(info->instance_state, k->state);
		assert_int_equal(info->view_new, k->view_new);
		assert_int_equal(info->read_before, x->read);
		assert_int_equal(info->disposed_generation_count, x->dgc);
		assert_int_equal(info->no_writers_generation_count, x->nwgc);
		assert_int_equal(info->sample_rank, after);
		assert_int_equal(
			info->generation_rank,
			(int32_t)(m.at[idx[last]].dgc + m.at[idx[last]].nwgc - x->dgc - x->nwgc));
		assert_int_equal(info->absolute_generation_rank,
				 (int32_t)(k->dgc + k->nwgc - x->dgc - x->nwgc));
	}
	compared += n;
}

static void consume(const uint32_t *idx, uint32_t n, bool take)
{
	bool out[MAX] = {false};

	for (uint32_t i = 0; i < n; i++) {
		struct sample *x = &m.at[idx[i]];

		x->read = true;
		m.keys[x->key].view_new = false;
		out[idx[i]] = take;
		if (take && x->data)
			raise_floor(&m.keys[x->key], x->source, x->seq);
	}
	for (uint32_t i = m.count; i-- > 0;)
		if (out[i])
			drop(i);
}

static apus_instance handle_of(uint32_t key)
{
	const struct apus_dp_instances *t = &e.reader->inbox.history.instances;
	uint8_t bytes[8] = {0, 0, 0, 3, 'K', (uint8_t)('0' + key), 0};
	const struct apus_dp_instance *i = apus_dp_instances_find(t, bytes, 7);

	return i ? i->handle : APUS_INSTANCE_NONE;
}

/* Chooses a place to look: all, one instance, or the next one behind some instance. */
static uint32_t aim(struct apus_select *s)
{
	uint32_t any[MAX], start = rnd(KEYS), best = KEYS;
	const struct apus_dp_instances *t = &e.reader->inbox.history.instances;

	s->instance = rnd(3) == 0 ? APUS_INSTANCE_NONE : handle_of(start);
	s->next_instance = rnd(2) == 0;
	if (!s->next_instance)
		return s->instance == APUS_INSTANCE_NONE ? KEYS : start;
	for (uint32_t k = 0; k < KEYS; k++) {
		uint32_t place = (uint32_t)handle_of(k);

		if (place > (uint32_t)s->instance && choose(s, k, 1, any) == 1 &&
		    (best == KEYS || place < (uint32_t)handle_of(best)))
			best = k;
	}
	(void)t;
	return best == KEYS ? KEYS + 1 : best; /* KEYS + 1: nothing */
}

static void step_access(bool take)
{
	struct apus_select s = {.instance_states = (uint8_t)(rnd(2) ? 0 : 1 + rnd(7)),
				.sample_states = (uint8_t)rnd(4),
				.view_states = (uint8_t)(rnd(2) ? 0 : rnd(4))};
	uint32_t idx[MAX], key, n, max = 1 + rnd(8);
	int got;

	if (lent_count + max > LENT)
		return;
	catch_up();
	key = aim(&s);
	n = key > KEYS ? 0 : choose(&s, key, max, idx);
	apus_dp_worker_take_turn(p.b.worker);
	got = apus_dp_reader_access(e.reader, &s, take, p.now, &lent[lent_count], max);
	apus_dp_worker_end_turn(p.b.worker);
	assert_int_equal(got, n);
	compare(&lent[lent_count], idx, n);
	consume(idx, n, take);
	lent_count += n;
}

static void step_return(void)
{
	uint32_t i;

	if (lent_count == 0)
		return;
	i = rnd(lent_count);
	apus_dp_worker_take_turn(p.b.worker);
	assert_int_equal(apus_dp_reader_return(e.reader, &lent[i]), 0);
	apus_dp_worker_end_turn(p.b.worker);
	lent[i] = lent[--lent_count];
}

static void step(void)
{
	switch (rnd(16)) {
	default: step_write(); break;
	case 0:
	case 1:
	case 2: let_time_pass(1 + rnd(3)); break;
	case 3:
	case 4: step_access(false); break;
	case 5:
	case 6: step_access(true); break;
	case 7:
	case 8:
	case 9: step_return(); break;
	}
}

/* ---- runs ----------------------------------------------------------------------------------- */

static enum apus_dp_verdict by_number(const void *context, const uint8_t *payload, size_t bytes)
{
	int32_t x;

	(void)context;
	(void)bytes;
	memcpy(&x, payload + 12, 4);
	return x % 11 == 0 ? APUS_DP_REJECT : APUS_DP_PASS;
}

/* Everything that was written arrives, once room is made for it. */
static void drain(void)
{
	for (int i = 0; i < 20000 && m.applied < e.writer->last; i++) {
		while (lent_count)
			step_return();
		step_access(true);
		let_time_pass(4);
		catch_up();
	}
	assert_int_equal(m.applied, e.writer->last);
	assert_int_equal(match()->window.lost, 0);
}

static void run(uint64_t seed, uint64_t steps)
{
	rng = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
	memset(&m, 0, sizeof(m));
	lent_count = 0;
	o = (struct wire_options){
		.reliable = rnd(4) != 0,
		.keep_all = true,
		.max_samples = 64,
		.reader_max_samples = 4 + rnd(10),
		.reader_depth = rnd(2) ? 1 + rnd(3) : 0,
		.by_source = rnd(2),
		.by_instance = rnd(2),
	};
	if (!o.reliable) { /* a best-effort writer that keeps all would fill up */
		o.keep_all = false;
		o.depth = 1;
		o.reader_depth = 1 + rnd(3);
	}
	wire_pair_init(&p, seed);
	wire_endpoints_init(&p, &e, &o);
	e.reader->inbox.filter = by_number;
	wire_match(&p, &e, true, &o);
	e.reader->inbox.filter = by_number;
	wire_run(&p, 20 * APUS_NS_PER_MS);
	wire_set(&p, rnd(4) ? rnd(30) : 0, rnd(20), rnd(30));
	while (steps-- > 0)
		step();
	if (o.reliable)
		drain();
	else
		assert_true(m.gone == 0 || p.a_to_b.dropped > 0 || p.a_to_b.reorder_percent > 0);
	refused_seen += apus_counter_get(&e.reader->counters.results[APUS_DP_REFUSED]);
	while (lent_count)
		step_return();
	wire_endpoints_fini(&p, &e);
	wire_pair_fini(&p);
}

static void like_the_model(void **state)
{
	const char *text = getenv("APUS_MODEL_STEPS"), *first = getenv("APUS_MODEL_SEED");
	uint64_t seed = first ? strtoull(first, NULL, 10) : 1;

	(void)state;
	steps_left = text ? strtoull(text, NULL, 10) : 1000000;
	for (; steps_left > 0; seed++) {
		uint64_t steps = steps_left < 5000 ? steps_left : 5000;

		fprintf(stderr, "seed %llu\r", (unsigned long long)seed);
		run(seed, steps);
		steps_left -= steps;
	}
	print_message("last seed %llu, %llu samples compared, %llu refused, %llu too late\n",
		      (unsigned long long)seed - 1, (unsigned long long)compared,
		      (unsigned long long)refused_seen, (unsigned long long)rejected_seen);
	assert_true(compared > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(like_the_model)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
