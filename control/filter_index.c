/* SPDX-License-Identifier: Apache-2.0 */
/* Indexing filters; see the header. */
#include "control/filter_index.h"

#include <stdlib.h>
#include <string.h>

#include "control/filter_internal.h"
#include "dataplane/filter_index.h"

/** Tests of a program that is looked through for terms: the search is quadratic. */
#define TESTS_MAX 64
#define NONE      UINT32_MAX

/* ---- terms ------------------------------------------------------------------------------------- */

/* True if no way leads to PASS other than through test `k` holding. */
static bool must_hold(const struct apus_dp_program *p, uint32_t k)
{
	bool reached[TESTS_MAX] = {true};

	for (uint32_t i = 0; i < p->test_count; i++) {
		const struct apus_dp_test *t = &p->tests[i];
		const uint16_t targets[3] = {i == k ? t->on_false : t->on_true, t->on_false,
					     t->on_absent};

		for (int n = 0; reached[i] && n < 3; n++) {
			if (targets[n] == APUS_DP_TO_PASS)
				return false;
			if (targets[n] != APUS_DP_TO_REJECT)
				reached[targets[n]] = true;
		}
	}
	return true;
}

/* The kind of term a test makes. */
static uint8_t kind_of(const struct apus_dp_test *t)
{
	switch (t->op) {
	case APUS_DP_RANGE:
		/* One that never holds has no targets that differ. */
		if (t->on_true == t->on_false)
			return APUS_CTL_TERM_NONE;
		return t->span == 0 ? APUS_CTL_TERM_NUMBERS : APUS_CTL_TERM_RANGE;
	case APUS_DP_SET: return APUS_CTL_TERM_NUMBERS;
	case APUS_DP_TEXT:
		return t->accept == APUS_DP_EQUAL ? APUS_CTL_TERM_TEXTS : APUS_CTL_TERM_NONE;
	case APUS_DP_TEXTS: return APUS_CTL_TERM_TEXTS;
	default: return APUS_CTL_TERM_NONE;
	}
}

static uint64_t value_count(const struct apus_dp_test *t)
{
	return t->op == APUS_DP_SET || t->op == APUS_DP_TEXTS ? t->span : 1;
}

/* The interval of all ranges on one field that must hold together. */
static void intersect(const struct apus_dp_program *p, uint16_t field,
		      struct apus_ctl_filter_term *term)
{
	term->low = 0;
	term->high = UINT64_MAX;
	for (uint32_t i = 0; i < p->test_count; i++) {
		const struct apus_dp_test *t = &p->tests[i];

		if (t->field != field || kind_of(t) != APUS_CTL_TERM_RANGE || !must_hold(p, i))
			continue;
		if (t->low > term->low)
			term->low = t->low;
		if (t->low + t->span < term->high)
			term->high = t->low + t->span;
	}
}

/* True if `a` leaves fewer samples than `b` would, as far as can be told: values before ranges, few
 * before many, texts before numbers. */
static bool is_better(const struct apus_dp_test *a, const struct apus_dp_test *b)
{
	bool a_range = kind_of(a) == APUS_CTL_TERM_RANGE,
	     b_range = kind_of(b) == APUS_CTL_TERM_RANGE;

	if (a_range != b_range)
		return b_range;
	if (a_range)
		return a->span < b->span;
	if (value_count(a) != value_count(b))
		return value_count(a) < value_count(b);
	return kind_of(a) == APUS_CTL_TERM_TEXTS && kind_of(b) != APUS_CTL_TERM_TEXTS;
}

/* True if a term is all that a filter says. */
static bool is_whole(const struct apus_dp_program *p, const struct apus_ctl_filter_term *term)
{
	uint32_t at = 0;

	while (at < p->test_count)
		at = p->tests[at].on_true;
	if (at != APUS_DP_TO_PASS)
		return false;
	for (uint32_t i = 0; i < p->test_count && p->test_count > 1; i++)
		if (term->kind != APUS_CTL_TERM_RANGE ||
		    p->tests[i].field != p->tests[term->test].field ||
		    kind_of(&p->tests[i]) != APUS_CTL_TERM_RANGE || !must_hold(p, i))
			return false;
	return true;
}

bool apus_ctl_filter_find_term(const struct apus_dp_program *program,
			       struct apus_ctl_filter_term *term_out, uint16_t *field_out)
{
	const struct apus_dp_test *best = NULL;

	term_out->kind = APUS_CTL_TERM_NONE;
	for (uint32_t i = 0; program->test_count <= TESTS_MAX && i < program->test_count; i++) {
		const struct apus_dp_test *t = &program->tests[i];

		if (kind_of(t) && (!best || is_better(t, best)) && must_hold(program, i))
			best = t;
	}
	if (!best)
		return false;
	term_out->kind = kind_of(best);
	term_out->test = (uint16_t)(best - program->tests);
	*field_out = best->field;
	if (term_out->kind == APUS_CTL_TERM_RANGE)
		intersect(program, best->field, term_out);
	term_out->whole = is_whole(program, term_out);
	return true;
}

/* ---- columns ----------------------------------------------------------------------------------- */

/* A value and the filter that wants it. */
struct pair {
	uint64_t key;
	const char *text;
	uint32_t text_bytes;
	uint32_t filter;
};

struct column {
	const struct apus_ctl_filter_term *like; /* field and kind */
	uint32_t pair_count;                     /* values, or intervals */
	uint64_t text_bytes;                     /* of values */
};

struct build {
	const struct apus_type *type;
	const struct apus_ctl_index_filter *filters;
	uint32_t count;
	struct column columns[APUS_DP_FIELDS_MAX];
	uint32_t column_count, rest_count;
	bool flat;           /* no columns: one walk could not find all fields */
	uint32_t *column_of; /* by filter; NONE: evaluated always */
	struct pair *pairs;  /* scratch of one column */
	struct apus_dp_filter_index *index;
	char *free_bytes; /* of the block */
};

static uint32_t find_column(struct build *b, const struct apus_ctl_filter_term *term)
{
	for (uint32_t i = 0; i < b->column_count; i++)
		if (b->columns[i].like->kind == term->kind &&
		    apus_wire_path_compare(&b->columns[i].like->path, &term->path) == 0)
			return i;
	if (b->column_count == APUS_DP_FIELDS_MAX)
		return NONE;
	b->columns[b->column_count] = (struct column){.like = term};
	return b->column_count++;
}

static const struct apus_dp_test *test_of(const struct apus_ctl_index_filter *f)
{
	uint32_t count;

	return apus_dp_predicate_tests(f->predicate, &count) + f->term->test;
}

static uint64_t text_bytes(const struct apus_ctl_index_filter *f)
{
	const struct apus_dp_test *t = test_of(f);
	const struct apus_dp_text *texts;
	uint64_t bytes = 0;

	if (t->op == APUS_DP_TEXT)
		return t->span;
	texts = (const struct apus_dp_text *)(apus_dp_predicate_data(f->predicate) + t->low);
	for (uint64_t i = 0; i < t->span; i++)
		bytes += texts[i].length;
	return bytes;
}

static void assign_columns(struct build *b)
{
	for (uint32_t i = 0; i < b->count; i++) {
		const struct apus_ctl_filter_term *term = b->filters[i].term;
		uint64_t pairs;

		b->column_of[i] = term->kind && !b->flat ? find_column(b, term) : NONE;
		if (b->column_of[i] == NONE) {
			b->rest_count++;
			continue;
		}
		pairs = term->kind == APUS_CTL_TERM_RANGE ? 1
							  : value_count(test_of(&b->filters[i]));
		b->columns[b->column_of[i]].pair_count += (uint32_t)pairs;
		if (term->kind == APUS_CTL_TERM_TEXTS)
			b->columns[b->column_of[i]].text_bytes += text_bytes(&b->filters[i]);
	}
}

static uint32_t places_for(uint32_t pairs)
{
	uint32_t places = 8;

	while (places < 2 * pairs)
		places *= 2;
	return places;
}

static void *carve(struct build *b, size_t bytes)
{
	void *at = b->free_bytes;

	b->free_bytes += (bytes + 7) & ~(size_t)7;
	return at;
}

static size_t block_bytes(const struct build *b)
{
	size_t bytes = sizeof(struct apus_dp_filter_index) +
		       b->column_count * sizeof(struct apus_dp_index_column);

	bytes += b->count * sizeof(void *) + (b->rest_count + 2) * sizeof(uint32_t);
	for (uint32_t i = 0; i < b->column_count; i++) {
		uint32_t n = b->columns[i].pair_count;

		if (b->columns[i].like->kind == APUS_CTL_TERM_RANGE)
			bytes += n * (sizeof(struct apus_dp_index_interval) + sizeof(uint64_t));
		else
			bytes += places_for(n) * sizeof(struct apus_dp_index_value) +
				 (n + 2) * sizeof(uint32_t) + b->columns[i].text_bytes + 8;
	}
	return bytes;
}

/* ---- tables ------------------------------------------------------------------------------------ */

static int compare_values(const struct pair *x, const struct pair *y)
{
	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	if (x->text_bytes != y->text_bytes)
		return x->text_bytes < y->text_bytes ? -1 : 1;
	return x->text_bytes ? memcmp(x->text, y->text, x->text_bytes) : 0;
}

static int compare_pairs(const void *a, const void *b)
{
	const struct pair *x = a, *y = b;

	int order = compare_values(x, y);

	return order ? order : (x->filter > y->filter) - (x->filter < y->filter);
}

static uint32_t add_numbers(const struct apus_dp_predicate *p, const struct apus_dp_test *t,
			    uint32_t filter, struct pair *out)
{
	const uint64_t *keys;

	if (t->op == APUS_DP_RANGE) {
		*out = (struct pair){.key = t->low, .filter = filter};
		return 1;
	}
	keys = (const uint64_t *)(apus_dp_predicate_data(p) + t->low);
	for (uint64_t i = 0; i < t->span; i++)
		out[i] = (struct pair){.key = keys[i], .filter = filter};
	return (uint32_t)t->span;
}

static struct pair text_pair(const char *text, uint64_t bytes, uint32_t filter)
{
	return (struct pair){apus_dp_index_hash(text, bytes), text, (uint32_t)bytes, filter};
}

static uint32_t add_texts(const struct apus_dp_predicate *p, const struct apus_dp_test *t,
			  uint32_t filter, struct pair *out)
{
	const char *text = apus_dp_predicate_text(p);
	const struct apus_dp_text *texts;

	if (t->op == APUS_DP_TEXT) {
		*out = text_pair(text + t->low, t->span, filter);
		return 1;
	}
	texts = (const struct apus_dp_text *)(apus_dp_predicate_data(p) + t->low);
	for (uint64_t i = 0; i < t->span; i++)
		out[i] = text_pair(text + texts[i].at, texts[i].length, filter);
	return (uint32_t)t->span;
}

/* The pairs of a column, sorted. A filter that lists one text twice stands there once. */
static uint32_t gather(struct build *b, uint32_t column)
{
	uint32_t n = 0, kept = 0;

	for (uint32_t i = 0; i < b->count; i++) {
		const struct apus_ctl_index_filter *f = &b->filters[i];

		if (b->column_of[i] != column)
			continue;
		n += f->term->kind == APUS_CTL_TERM_TEXTS
			     ? add_texts(f->predicate, test_of(f), i, b->pairs + n)
			     : add_numbers(f->predicate, test_of(f), i, b->pairs + n);
	}
	qsort(b->pairs, n, sizeof(*b->pairs), compare_pairs);
	for (uint32_t i = 0; i < n; i++)
		if (kept == 0 || compare_pairs(&b->pairs[kept - 1], &b->pairs[i]) != 0)
			b->pairs[kept++] = b->pairs[i];
	return kept;
}

static uint32_t marked(const struct build *b, uint32_t filter)
{
	return filter | (b->filters[filter].term->whole ? APUS_DP_INDEX_WHOLE : 0);
}

static void fill_values(struct build *b, uint32_t column, struct apus_dp_index_column *out)
{
	uint32_t places = places_for(b->columns[column].pair_count), n = gather(b, column);
	struct apus_dp_index_value *values = carve(b, places * sizeof(*values));
	uint32_t *ids = carve(b, n * sizeof(*ids));
	char *texts = carve(b, b->columns[column].text_bytes);
	uint32_t text_at = 0;

	memset(values, 0, places * sizeof(*values));
	for (uint32_t first = 0, end; first < n; first = end) {
		const struct pair *p = &b->pairs[first];
		uint32_t place = apus_dp_index_place(p->key, places);

		for (end = first; end < n && compare_values(p, &b->pairs[end]) == 0; end++)
			ids[end] = marked(b, b->pairs[end].filter);
		while (values[place].count)
			place = (place + 1) & (places - 1);
		values[place] =
			(struct apus_dp_index_value){p->key, end - first == 1 ? ids[first] : first,
						     end - first, text_at, p->text_bytes};
		if (p->text_bytes)
			memcpy(texts + text_at, p->text, p->text_bytes);
		text_at += p->text_bytes;
	}
	out->texts = texts;
	out->count = places;
	out->values = values;
	out->ids = ids;
}

static int compare_intervals(const void *a, const void *b)
{
	const struct apus_dp_index_interval *x = a, *y = b;

	return (x->low > y->low) - (x->low < y->low);
}

/* Fills in the greatest ends of [low, high), the middle being the root; depth at most 32. */
static uint64_t fill_max(struct apus_dp_index_interval *i, uint32_t low, uint32_t high)
{
	uint32_t middle = low + (high - low) / 2;
	uint64_t max, other;

	if (low == high)
		return 0;
	max = i[middle].high;
	other = fill_max(i, low, middle);
	max = other > max ? other : max;
	other = fill_max(i, middle + 1, high);
	i[middle].max = other > max ? other : max;
	return i[middle].max;
}

static bool overlap(const struct apus_dp_index_interval *i, uint32_t count)
{
	for (uint32_t k = 0; k < count; k++)
		if (i[k].low > i[k].high || (k > 0 && i[k - 1].high >= i[k].low))
			return true;
	return count == 0;
}

static uint64_t *fill_lows(struct build *b, const struct apus_dp_index_interval *i, uint32_t count)
{
	uint64_t *lows = carve(b, count * sizeof(*lows));

	for (uint32_t k = 0; k < count; k++)
		lows[k] = i[k].low;
	return lows;
}

static void fill_ranges(struct build *b, uint32_t column, struct apus_dp_index_column *out)
{
	uint32_t n = 0;
	struct apus_dp_index_interval *intervals =
		carve(b, b->columns[column].pair_count * sizeof(*intervals));

	for (uint32_t i = 0; i < b->count; i++) {
		const struct apus_ctl_filter_term *t = b->filters[i].term;

		if (b->column_of[i] == column)
			intervals[n++] =
				(struct apus_dp_index_interval){t->low, t->high, 0, marked(b, i)};
	}
	qsort(intervals, n, sizeof(*intervals), compare_intervals);
	fill_max(intervals, 0, n);
	out->count = n;
	out->intervals = intervals;
	if (!overlap(intervals, n))
		out->lows = fill_lows(b, intervals, n);
}

static void fill_columns(struct build *b)
{
	static const uint8_t kinds[] = {[APUS_CTL_TERM_RANGE] = APUS_DP_INDEX_RANGES,
					[APUS_CTL_TERM_NUMBERS] = APUS_DP_INDEX_NUMBERS,
					[APUS_CTL_TERM_TEXTS] = APUS_DP_INDEX_TEXTS};

	for (uint32_t i = 0; i < b->column_count; i++) {
		struct apus_dp_index_column *out = &b->index->columns[i];
		uint8_t kind = b->columns[i].like->kind;

		*out = (struct apus_dp_index_column){.kind = kinds[kind],
						     .load = b->columns[i].like->load};
		if (kind == APUS_CTL_TERM_RANGE)
			fill_ranges(b, i, out);
		else
			fill_values(b, i, out);
	}
}

/* ---- the whole --------------------------------------------------------------------------------- */

/* One program that finds the fields of all columns. */
static int make_locator(struct build *b)
{
	const struct apus_ctl_filter_term *terms[APUS_DP_FIELDS_MAX];
	uint16_t fields[APUS_DP_FIELDS_MAX];
	struct apus_dp_predicate *locator;
	int result;

	for (uint32_t i = 0; i < b->column_count; i++)
		terms[i] = b->columns[i].like;
	result = apus_ctl_filter_compile_locator(b->type, terms, b->column_count, fields, &locator);
	if (result < 0)
		return result;
	b->index->locator = locator;
	for (uint32_t i = 0; i < b->column_count; i++)
		b->index->columns[i].slot = fields[i];
	return 0;
}

static int build_index(struct build *b)
{
	const struct apus_dp_predicate **filters;
	uint32_t *rest, n = 0, largest = 0;

	for (uint32_t i = 0; i < b->column_count; i++)
		if (b->columns[i].pair_count > largest)
			largest = b->columns[i].pair_count;
	b->pairs = malloc((largest + 1) * sizeof(*b->pairs));
	b->index = calloc(1, block_bytes(b));
	if (!b->pairs || !b->index)
		return APUS_ENOMEM;
	b->free_bytes = (char *)&b->index->columns[b->column_count];
	filters = carve(b, b->count * sizeof(*filters));
	rest = carve(b, b->rest_count * sizeof(*rest));
	for (uint32_t i = 0; i < b->count; i++) {
		filters[i] = b->filters[i].predicate;
		if (b->column_of[i] == NONE)
			rest[n++] = i;
	}
	b->index->filter_count = b->count;
	b->index->filters = filters;
	b->index->rest = rest;
	b->index->rest_count = n;
	b->index->column_count = b->column_count;
	fill_columns(b);
	return b->column_count ? make_locator(b) : 0;
}

static int build_with(struct build *b, const struct apus_type *type,
		      const struct apus_ctl_index_filter *filters, uint32_t count, bool flat)
{
	int result;

	*b = (struct build){.type = type, .filters = filters, .count = count, .flat = flat};
	b->column_of = malloc((count + 1) * sizeof(*b->column_of));
	if (!b->column_of)
		return APUS_ENOMEM;
	assign_columns(b);
	result = build_index(b);
	free(b->column_of);
	free(b->pairs);
	if (result < 0)
		free(b->index);
	return result;
}

int apus_ctl_filter_index_build(const struct apus_type *type,
				const struct apus_ctl_index_filter *filters, uint32_t count,
				struct apus_dp_filter_index **index_out)
{
	struct build *b = malloc(sizeof(*b));
	int result;

	if (!b)
		return APUS_ENOMEM;
	result = build_with(b, type, filters, count, false);
	if (result == APUS_EFILTER)
		result = build_with(b, type, filters, count, true);
	if (result == 0)
		*index_out = b->index;
	free(b);
	return result;
}

void apus_ctl_filter_index_free(struct apus_dp_filter_index *index)
{
	if (!index)
		return;
	apus_ctl_filter_free((struct apus_dp_predicate *)(uintptr_t)index->locator);
	free(index);
}
