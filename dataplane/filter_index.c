/* SPDX-License-Identifier: Apache-2.0 */
/* Looking a sample up in an index of filters; see the header. */
#include "dataplane/filter_index.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/atomics.h"
#include "dataplane/predicate_program.h"

/* Parts of an interval tree that may wait: two a level of 2^32 intervals. */
#define STACK_MAX 64

uint64_t apus_dp_index_hash(const void *text, size_t bytes)
{
	uint64_t word = 0;
	uint32_t low, high;

	if (bytes > APUS_DP_INDEX_EXACT_BYTES)
		return XXH3_64bits(text, bytes);
	/* All of it in one word, mixed by steps that can be undone. */
	if (bytes >= sizeof(low)) {
		memcpy(&low, text, sizeof(low));
		memcpy(&high, (const char *)text + bytes - sizeof(high), sizeof(high));
		word = (uint64_t)high << 32 | low;
	} else {
		memcpy(&word, text, bytes);
	}
	word = (word ^ word >> 32) * UINT64_C(0xd6e8feb86659fd93);
	word = (word ^ word >> 32) * UINT64_C(0xd6e8feb86659fd93);
	return word ^ word >> 32;
}

/* A match under way. */
struct matching {
	const struct apus_dp_filter_index *index;
	const uint8_t *payload;
	size_t payload_bytes;
	uint32_t *passed;
	uint32_t count;
	bool unsure;
};

static inline void try_filter(struct matching *m, uint32_t id)
{
	enum apus_dp_verdict verdict = APUS_DP_PASS;

	if (!(id & APUS_DP_INDEX_WHOLE))
		verdict =
			apus_dp_predicate_eval(m->index->filters[id], m->payload, m->payload_bytes);
	m->passed[m->count] = id & ~APUS_DP_INDEX_WHOLE;
	m->count += verdict != APUS_DP_REJECT;
	m->unsure |= verdict == APUS_DP_ERROR;
}

/* text: of a column of texts, else without length. */
static void look_up_value(struct matching *m, const struct apus_dp_index_column *c, uint64_t key,
			  const struct apus_wire_slot *text)
{
	uint32_t place = apus_dp_index_place(key, c->count);

	for (; c->values[place].count; place = (place + 1) & (c->count - 1)) {
		const struct apus_dp_index_value *v = &c->values[place];

		if (v->key != key || v->text_bytes != text->length ||
		    (text->length > APUS_DP_INDEX_EXACT_BYTES &&
		     memcmp(c->texts + v->text_at, text->bytes, text->length) != 0))
			continue;
		if (v->count == 1)
			try_filter(m, v->first);
		for (uint32_t i = 0; v->count > 1 && i < v->count; i++)
			try_filter(m, c->ids[v->first + i]);
		return;
	}
}

/* The one interval that can hold the key, where none overlap: the last that does not begin behind it. The loop
 * has no branch that could be mispredicted. */
static void look_up_disjoint(struct matching *m, const struct apus_dp_index_column *c, uint64_t key)
{
	const uint64_t *low = c->lows;
	const struct apus_dp_index_interval *i;

	for (uint32_t n = c->count; n > 1; n -= n / 2)
		low = low[n / 2] <= key ? low + n / 2 : low;
	i = &c->intervals[low - c->lows];
	if (i->low <= key && i->high >= key)
		try_filter(m, i->filter);
}

/* The intervals [low, high) of the array that hold the key, by parts: the root of one, then its halves. */
static void look_up_range(struct matching *m, const struct apus_dp_index_column *c, uint64_t key)
{
	struct {
		uint32_t low, high;
	} stack[STACK_MAX];
	uint32_t depth = 0, low = 0, high = c->count;

	for (;;) {
		uint32_t middle = low + (high - low) / 2;

		if (low < high && c->intervals[middle].max >= key) {
			const struct apus_dp_index_interval *i = &c->intervals[middle];

			if (i->low <= key) {
				if (i->high >= key)
					try_filter(m, i->filter);
				stack[depth].low = middle + 1;
				stack[depth++].high = high;
			}
			high = middle;
		} else if (depth == 0) {
			return;
		} else {
			low = stack[--depth].low;
			high = stack[depth].high;
		}
	}
}

static void try_all(struct matching *m)
{
	for (uint32_t id = 0; id < m->index->filter_count; id++)
		try_filter(m, id);
}

static void look_up(struct matching *m, const struct apus_wire_slot *slots, bool swap)
{
	for (uint32_t i = 0; i < m->index->column_count; i++) {
		const struct apus_dp_index_column *c = &m->index->columns[i];
		const struct apus_wire_slot *s = &slots[c->slot], none = {s->bytes, 0};

		if (!s->bytes)
			continue; /* absent: no term on it holds */
		if (c->lows)
			look_up_disjoint(m, c, apus_dp_predicate_key(c->load, s->bytes, swap));
		else if (c->kind == APUS_DP_INDEX_RANGES)
			look_up_range(m, c, apus_dp_predicate_key(c->load, s->bytes, swap));
		else if (c->kind == APUS_DP_INDEX_TEXTS)
			look_up_value(m, c, apus_dp_index_hash(s->bytes, s->length), s);
		else
			look_up_value(m, c, apus_dp_predicate_key(c->load, s->bytes, swap), &none);
	}
}

static void match(struct matching *m)
{
	const struct apus_dp_filter_index *index = m->index;
	struct apus_wire_slot slots[APUS_DP_FIELDS_MAX];
	bool swap;

	if (index->locator &&
	    !apus_dp_predicate_locate(index->locator, m->payload, m->payload_bytes, slots, &swap)) {
		try_all(m); /* each says what it makes of it */
		return;
	}
	if (index->locator)
		look_up(m, slots, swap);
	for (uint32_t i = 0; i < index->rest_count; i++)
		try_filter(m, index->rest[i]);
}

uint32_t apus_dp_filter_index_match(const struct apus_dp_filter_index *index,
				    const uint8_t *payload, size_t payload_bytes,
				    uint32_t *passed_out, bool *unsure_out)
{
	struct matching m = {index, payload, payload_bytes, passed_out, 0, false};

	match(&m);
	if (unsure_out)
		*unsure_out = m.unsure;
	return m.count;
}
