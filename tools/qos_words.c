/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of QoS words; see qos_words.h. Each row can read its value into a QoS and print it from
 * one; adding a policy is adding a row.
 */
#include "tools/qos_words.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <apus/type.h>

#include "tools/text.h"

#define VALUE_BYTES_MAX 512
#define NS_PER_MS       INT64_C(1000000)

/* Whom a word is for. */
enum side { BOTH, WRITERS, READERS };

struct word {
	const char *name;
	const char *values; /* what would be right, for messages */
	int policy;
	enum side side;
	bool (*read)(struct qos_words *words, const char *value);
	/* Prints the value, or "" if it is the default and not worth a word. NULL = never printed. */
	void (*print)(const struct apus_qos *qos, char out[VALUE_BYTES_MAX]);
};

/* ---- values ------------------------------------------------------------------------------------- */

/* Index of `value` among words separated by '|', or -1. */
static int choice(const char *value, const char *words)
{
	size_t bytes = strlen(value);

	for (int i = 0;; i++) {
		size_t length = strcspn(words, "|");

		if (length == bytes && memcmp(words, value, bytes) == 0)
			return i;
		if (!words[length])
			return -1;
		words += length + 1;
	}
}

static bool read_choice(const char *value, const char *words, uint8_t *out)
{
	int found = choice(value, words);

	if (found < 0)
		return false;
	*out = (uint8_t)found;
	return true;
}

static bool read_count(const char *value, uint32_t *out)
{
	int64_t count;

	if (!text_to_number(value, 1, INT32_MAX, &count))
		return false;
	*out = (uint32_t)count;
	return true;
}

static void print_choice(uint8_t value, const char *const *names, size_t count, char *out)
{
	strcpy(out, value < count ? names[value] : "unknown");
}

static void print_duration(int64_t ns, int64_t silent_ns, char *out)
{
	char text[DURATION_TEXT_BYTES];

	strcpy(out, ns == silent_ns ? "" : duration_to_text(ns, text));
}

/* ---- the words ---------------------------------------------------------------------------------- */

#define RELIABILITIES "best_effort|reliable"
static bool read_reliability(struct qos_words *w, const char *value)
{
	return read_choice(value, RELIABILITIES, &w->qos.reliability);
}

static void print_reliability(const struct apus_qos *qos, char *out)
{
	print_choice(qos->reliability, (const char *const[]){"best_effort", "reliable"}, 2, out);
}

#define DURABILITIES "volatile|transient_local"
static bool read_durability(struct qos_words *w, const char *value)
{
	return read_choice(value, DURABILITIES, &w->qos.durability);
}

static void print_durability(const struct apus_qos *qos, char *out)
{
	static const char *const names[] = {"volatile", "transient_local", "transient",
					    "persistent"};

	print_choice(qos->durability, names, 4, out);
}

static bool read_history(struct qos_words *w, const char *value)
{
	if (strcmp(value, "keep_all") == 0) {
		w->qos.history = APUS_KEEP_ALL;
	} else {
		if (strncmp(value, "keep_last:", 10) != 0 || !read_count(value + 10, &w->qos.depth))
			return false;
		w->qos.history = APUS_KEEP_LAST;
	}
	w->history_given = true;
	return true;
}

static void print_history(const struct apus_qos *qos, char *out)
{
	if (qos->history == APUS_KEEP_ALL)
		strcpy(out, "keep_all");
	else
		snprintf(out, VALUE_BYTES_MAX, "keep_last:%u", qos->depth);
}

static bool read_deadline(struct qos_words *w, const char *value)
{
	return text_to_duration(value, &w->qos.deadline_ns);
}

static void print_deadline(const struct apus_qos *qos, char *out)
{
	print_duration(qos->deadline_ns, APUS_INFINITE_NS, out);
}

#define LIVELINESSES "automatic|manual_by_participant|manual_by_topic"
static bool read_liveliness(struct qos_words *w, const char *value)
{
	char kind[32];
	size_t bytes = strcspn(value, ":");

	if (bytes >= sizeof(kind) || !value[bytes])
		return false;
	memcpy(kind, value, bytes);
	kind[bytes] = '\0';
	return read_choice(kind, LIVELINESSES, &w->qos.liveliness) &&
	       text_to_duration(value + bytes + 1, &w->qos.lease_ns) && w->qos.lease_ns > 0;
}

static void print_liveliness(const struct apus_qos *qos, char *out)
{
	static const char *const names[] = {"automatic", "manual_by_participant",
					    "manual_by_topic"};
	char lease[DURATION_TEXT_BYTES];

	if (qos->liveliness == APUS_AUTOMATIC && qos->lease_ns == APUS_INFINITE_NS)
		strcpy(out, "");
	else
		snprintf(out, VALUE_BYTES_MAX, "%s:%s",
			 qos->liveliness < 3 ? names[qos->liveliness] : "unknown",
			 duration_to_text(qos->lease_ns, lease));
}

static bool read_ownership(struct qos_words *w, const char *value)
{
	return read_choice(value, "shared|exclusive", &w->qos.ownership);
}

static void print_ownership(const struct apus_qos *qos, char *out)
{
	strcpy(out, qos->ownership == APUS_EXCLUSIVE ? "exclusive" : "");
}

static bool read_strength(struct qos_words *w, const char *value)
{
	int64_t strength;

	if (!text_to_number(value, INT32_MIN, INT32_MAX, &strength))
		return false;
	w->qos.strength = (int32_t)strength;
	return true;
}

static void print_strength(const struct apus_qos *qos, char *out)
{
	*out = '\0';
	if (qos->strength != 0)
		snprintf(out, VALUE_BYTES_MAX, "%d", qos->strength);
}

static bool read_lifespan(struct qos_words *w, const char *value)
{
	return text_to_duration(value, &w->qos.lifespan_ns) && w->qos.lifespan_ns > 0;
}

static void print_lifespan(const struct apus_qos *qos, char *out)
{
	print_duration(qos->lifespan_ns, APUS_INFINITE_NS, out);
}

static bool read_time_filter(struct qos_words *w, const char *value)
{
	return text_to_duration(value, &w->qos.time_filter_ns);
}

static void print_time_filter(const struct apus_qos *qos, char *out)
{
	print_duration(qos->time_filter_ns, 0, out);
}

static bool read_time_filter_late(struct qos_words *w, const char *value)
{
	uint8_t on;

	if (!read_choice(value, "off|on", &on))
		return false;
	w->qos.time_filter_late = on;
	return true;
}

static bool read_partition(struct qos_words *w, const char *value)
{
	size_t bytes = strlen(value) + 1;
	char *name = w->names + w->names_bytes, *next;

	if (bytes > sizeof(w->names) - w->names_bytes)
		return false;
	memcpy(name, value, bytes);
	w->names_bytes += bytes;
	for (; name; name = next) {
		next = strchr(name, ';');
		if (next)
			*next++ = '\0';
		if (!*name || qos_words_add_partition(w, name) != 0)
			return false;
	}
	return true;
}

static bool read_max_samples(struct qos_words *w, const char *value)
{
	return read_count(value, &w->qos.max_samples);
}

static bool read_max_instances(struct qos_words *w, const char *value)
{
	return read_count(value, &w->qos.max_instances);
}

#define REPRESENTATIONS "xcdr1|xcdr2|xcdr1;xcdr2|xcdr2;xcdr1"
static bool read_representation(struct qos_words *w, const char *value)
{
	uint8_t found;

	if (!read_choice(value, REPRESENTATIONS, &found))
		return false;
	w->qos.representations[0] = found & 1 ? APUS_XCDR2 : APUS_XCDR1;
	w->qos.representations[1] = found & 1 ? APUS_XCDR1 : APUS_XCDR2;
	w->qos.representation_count = found < 2 ? 1 : 2;
	return true;
}

static void print_representation(const struct apus_qos *qos, char *out)
{
	size_t at = 0;

	*out = '\0';
	for (uint32_t i = 0; i < qos->representation_count && i < APUS_REPRESENTATIONS_MAX; i++)
		at += (size_t)sprintf(out + at, "%s%s", i ? ";" : "",
				      qos->representations[i] == APUS_XCDR1   ? "xcdr1"
				      : qos->representations[i] == APUS_XCDR2 ? "xcdr2"
									      : "other");
}

#define SCOPES "instance|topic|group"
/* "topic;coherent;ordered": the scope, then what is asked for beside it. */
static bool read_presentation(struct qos_words *w, const char *value)
{
	size_t length = strcspn(value, ";");
	char scope[16];

	if (length >= sizeof(scope))
		return false;
	memcpy(scope, value, length);
	scope[length] = '\0';
	if (!read_choice(scope, SCOPES, &w->qos.access_scope))
		return false;
	value += length;
	w->qos.coherent_access = strncmp(value, ";coherent", 9) == 0;
	value += w->qos.coherent_access ? 9 : 0;
	w->qos.ordered_access = strcmp(value, ";ordered") == 0;
	return w->qos.ordered_access || !*value;
}

static void print_presentation(const struct apus_qos *qos, char *out)
{
	static const char *const names[] = {"instance", "topic", "group"};

	*out = '\0';
	if (qos->access_scope == APUS_SCOPE_INSTANCE && !qos->coherent_access &&
	    !qos->ordered_access)
		return;
	snprintf(out, VALUE_BYTES_MAX, "%s%s%s",
		 qos->access_scope < 3 ? names[qos->access_scope] : "unknown",
		 qos->coherent_access ? ";coherent" : "", qos->ordered_access ? ";ordered" : "");
}

static bool read_latency_budget(struct qos_words *w, const char *value)
{
	return text_to_duration(value, &w->qos.latency_budget_ns);
}

static void print_latency_budget(const struct apus_qos *qos, char *out)
{
	print_duration(qos->latency_budget_ns, 0, out);
}

static bool read_destination_order(struct qos_words *w, const char *value)
{
	return read_choice(value, "by_reception|by_source", &w->qos.destination_order);
}

static void print_destination_order(const struct apus_qos *qos, char *out)
{
	strcpy(out, qos->destination_order == APUS_BY_SOURCE ? "by_source" : "");
}

static bool read_autodispose(struct qos_words *w, const char *value)
{
	uint8_t on;

	if (!read_choice(value, "off|on", &on))
		return false;
	w->qos.autodispose = on;
	return true;
}

static bool read_purge_no_writers(struct qos_words *w, const char *value)
{
	return text_to_duration(value, &w->qos.autopurge_no_writers_ns);
}

static bool read_purge_disposed(struct qos_words *w, const char *value)
{
	return text_to_duration(value, &w->qos.autopurge_disposed_ns);
}

/* "1400:2ms": bytes, then the longest delay. */
static bool read_batch(struct qos_words *w, const char *value)
{
	size_t length = strcspn(value, ":");
	char bytes[16];
	int64_t count;

	if (length >= sizeof(bytes) || !value[length])
		return false;
	memcpy(bytes, value, length);
	bytes[length] = '\0';
	if (!text_to_number(bytes, 4, 65536, &count))
		return false;
	w->qos.batch_bytes = (uint32_t)count;
	return text_to_duration(value + length + 1, &w->qos.batch_delay_ns) &&
	       w->qos.batch_delay_ns > 0;
}

static bool read_type_consistency(struct qos_words *w, const char *value)
{
	uint8_t found;

	if (!read_choice(value, "disallow|allow|disallow;validate|allow;validate", &found))
		return false;
	w->qos.consistency.kind = found & 1;
	w->qos.consistency.force_type_validation = found > 1;
	return true;
}

static void print_type_consistency(const struct apus_qos *qos, char *out)
{
	bool disallow = qos->consistency.kind == APUS_DISALLOW_TYPE_COERCION;
	bool validate = qos->consistency.force_type_validation;

	strcpy(out, validate ? (disallow ? "disallow;validate" : "allow;validate")
			     : (disallow ? "disallow" : ""));
}

#define DURATIONS "a duration with its unit, such as 100ms, 2s, 1.5min or inf"
#define COUNTS    "a whole number from 1 to 2147483647"

/* In the order in which they are printed. */
static const struct word table[] = {
	{"reliability", "reliable or best_effort", APUS_POLICY_RELIABILITY, BOTH, read_reliability,
	 print_reliability},
	{"durability", "volatile or transient_local", APUS_POLICY_DURABILITY, BOTH, read_durability,
	 print_durability},
	{"history", "keep_all, or keep_last:N with N from 1 to 2147483647", APUS_POLICY_HISTORY,
	 BOTH, read_history, print_history},
	{"deadline", DURATIONS, APUS_POLICY_DEADLINE, BOTH, read_deadline, print_deadline},
	{"liveliness",
	 "automatic:LEASE, manual_by_participant:LEASE or manual_by_topic:LEASE with a lease such as "
	 "2s or inf",
	 APUS_POLICY_LIVELINESS, BOTH, read_liveliness, print_liveliness},
	{"ownership", "shared or exclusive", APUS_POLICY_OWNERSHIP, BOTH, read_ownership,
	 print_ownership},
	{"strength", "a whole number of 32 bits", APUS_POLICY_OWNERSHIP_STRENGTH, WRITERS,
	 read_strength, print_strength},
	{"lifespan", DURATIONS " (not 0)", APUS_POLICY_LIFESPAN, BOTH, read_lifespan,
	 print_lifespan},
	{"time_filter", DURATIONS, APUS_POLICY_TIME_BASED_FILTER, READERS, read_time_filter,
	 print_time_filter},
	{"time_filter_late", "on or off", APUS_POLICY_TIME_BASED_FILTER, READERS,
	 read_time_filter_late, NULL},
	{"partition", "up to 64 names separated by ;", APUS_POLICY_PARTITION, BOTH, read_partition,
	 NULL},
	{"presentation", "instance, topic or group, then ;coherent, ;ordered or both in this order",
	 APUS_POLICY_PRESENTATION, BOTH, read_presentation, print_presentation},
	{"latency_budget", DURATIONS, APUS_POLICY_LATENCY_BUDGET, BOTH, read_latency_budget,
	 print_latency_budget},
	{"destination_order", "by_reception or by_source", APUS_POLICY_DESTINATION_ORDER, BOTH,
	 read_destination_order, print_destination_order},
	{"autodispose", "on or off", APUS_POLICY_WRITER_DATA_LIFECYCLE, WRITERS, read_autodispose,
	 NULL},
	{"autopurge_no_writers", DURATIONS, APUS_POLICY_READER_DATA_LIFECYCLE, READERS,
	 read_purge_no_writers, NULL},
	{"autopurge_disposed", DURATIONS, APUS_POLICY_READER_DATA_LIFECYCLE, READERS,
	 read_purge_disposed, NULL},
	{"batch", "BYTES:DELAY, such as 1400:2ms, with 4 to 65536 bytes and a delay of more than 0",
	 APUS_POLICY_BATCH, WRITERS, read_batch, NULL},
	{"type_consistency", "allow or disallow, then ;validate or not",
	 APUS_POLICY_TYPE_CONSISTENCY, READERS, read_type_consistency, print_type_consistency},
	{"max_samples", COUNTS, APUS_POLICY_RESOURCE_LIMITS, BOTH, read_max_samples, NULL},
	{"max_instances", COUNTS, APUS_POLICY_RESOURCE_LIMITS, BOTH, read_max_instances, NULL},
	{"representation", "xcdr1, xcdr2, or both with ; between", APUS_POLICY_DATA_REPRESENTATION,
	 BOTH, read_representation, print_representation},
};

#define WORD_COUNT (sizeof(table) / sizeof(table[0]))

/* Words for policies of DDS that would change nothing here. */
static const char *const without_effect[] = {
	"user_data", "group_data", "topic_data", "durability_service", "transport_priority",
};

/* ---- parsing ------------------------------------------------------------------------------------ */

/* A text being parsed; `at` is the start of the present word. */
struct parse {
	struct qos_words *words;
	const char *text;
	bool is_writer;
	size_t position_of[WORD_COUNT], length_of[WORD_COUNT]; /* 0 long = not given */
	struct qos_error *error;
};

__attribute__((format(printf, 4, 5))) static int refuse(struct parse *p, size_t position,
							size_t length, const char *format, ...)
{
	va_list args;

	p->error->position = position;
	p->error->length = length;
	va_start(args, format);
	vsnprintf(p->error->reason, sizeof(p->error->reason), format, args);
	va_end(args);
	return APUS_EQOS;
}

static int refuse_name(struct parse *p, size_t position, const char *name)
{
	for (size_t i = 0; i < sizeof(without_effect) / sizeof(without_effect[0]); i++)
		if (strcmp(name, without_effect[i]) == 0)
			return refuse(p, position, strlen(name),
				      "%s has no effect in this version and is therefore refused",
				      name);
	for (size_t i = 0; i < WORD_COUNT; i++)
		if (words_are_near(name, table[i].name))
			return refuse(p, position, strlen(name),
				      "no such QoS word: %s; did you mean %s?", name,
				      table[i].name);
	return refuse(p, position, strlen(name), "no such QoS word: %s", name);
}

static int check_side(struct parse *p, size_t position, const struct word *word)
{
	if (word->side == WRITERS && !p->is_writer)
		return refuse(p, position, strlen(word->name), "%s is for writers only",
			      word->name);
	if (word->side == READERS && p->is_writer)
		return refuse(p, position, strlen(word->name), "%s is for readers only",
			      word->name);
	return 0;
}

/* One word, "name=value", in a buffer of its own; `position` is where it stands. */
static int read_word(struct parse *p, char *name, size_t position)
{
	char *equals = strchr(name, '=');
	const struct word *word = table;
	size_t row, value_position;

	if (!equals)
		return refuse(p, position, strlen(name), "%s: not of the form name=value", name);
	*equals = '\0';
	value_position = position + (size_t)(equals - name) + 1;
	while (word < table + WORD_COUNT && strcmp(word->name, name) != 0)
		word++;
	if (word == table + WORD_COUNT)
		return refuse_name(p, position, name);
	row = (size_t)(word - table);
	if (p->length_of[row])
		return refuse(p, position, strlen(name), "%s is given twice", name);
	p->position_of[row] = position;
	p->length_of[row] = strlen(name) + 1 + strlen(equals + 1);
	if (check_side(p, position, word) != 0)
		return APUS_EQOS;
	if (!word->read(p->words, equals + 1))
		return refuse(p, value_position, strlen(equals + 1), "%s=%s: should be %s", name,
			      equals + 1, word->values);
	return 0;
}

/* The library finds it out when it knows all capacities; here it can still be shown in place. */
static bool history_exceeds_limit(const struct apus_qos *qos)
{
	return qos->history == APUS_KEEP_LAST && qos->max_samples && qos->depth > qos->max_samples;
}

/* What would be right, for the contradictions that words can make. */
static const char *contradiction(int policy)
{
	switch (policy) {
	case APUS_POLICY_DEADLINE: return "it must not be shorter than the time_filter";
	case APUS_POLICY_TIME_BASED_FILTER:
		return "time_filter_late needs a time_filter, reliability=reliable and no coherent sets";
	case APUS_POLICY_PARTITION: return "a name has at most 255 bytes";
	case APUS_POLICY_RESOURCE_LIMITS: return "max_samples is too small for the history";
	default: return "it contradicts the rest";
	}
}

/* All words together; a contradiction is shown at the first word given for its policy. */
static int check_all(struct parse *p)
{
	int policy = APUS_POLICY_NONE;

	if (apus_qos_check(&p->words->qos, p->is_writer, &policy) == 0) {
		if (!history_exceeds_limit(&p->words->qos))
			return 0;
		policy = APUS_POLICY_RESOURCE_LIMITS;
	}
	for (size_t i = 0; i < WORD_COUNT; i++)
		if (table[i].policy == policy && p->length_of[i])
			return refuse(p, p->position_of[i], p->length_of[i], "%s: %s",
				      apus_policy_name(policy), contradiction(policy));
	return refuse(p, 0, 0, "%s: %s", apus_policy_name(policy), contradiction(policy));
}

void qos_words_init(struct qos_words *words, bool is_writer)
{
	memset(words, 0, sizeof(*words));
	if (is_writer)
		apus_qos_writer_default(&words->qos);
	else
		apus_qos_reader_default(&words->qos);
}

int qos_words_parse(struct qos_words *words, const char *text, bool is_writer,
		    struct qos_error *error_out)
{
	struct parse p = {words, text, is_writer, {0}, {0}, error_out};
	char word[QOS_PARTITION_BYTES_MAX];
	size_t at = 0, length;

	while (text[at]) {
		length = strcspn(text + at, ",");
		if (length == 0 || (text[at + length] && !text[at + length + 1]))
			return refuse(&p, length ? at + length : at, 1,
				      "a word is missing at a comma");
		if (length >= sizeof(word))
			return refuse(&p, at, length, "the word is too long");
		memcpy(word, text + at, length);
		word[length] = '\0';
		if (read_word(&p, word, at) != 0)
			return APUS_EQOS;
		at += length + (text[at + length] == ',');
	}
	return check_all(&p);
}

int qos_words_add_partition(struct qos_words *words, const char *name)
{
	struct apus_qos *qos = &words->qos;

	if (qos->partition_count == QOS_PARTITIONS_MAX)
		return APUS_ELIMIT;
	words->partitions[qos->partition_count++] = name;
	qos->partitions = words->partitions;
	return 0;
}

/* ---- printing ----------------------------------------------------------------------------------- */

void qos_visit_words(const struct apus_qos *qos, bool is_writer,
		     void (*visit)(const char *name, const char *value, void *user), void *user)
{
	char value[VALUE_BYTES_MAX];

	for (size_t i = 0; i < WORD_COUNT; i++) {
		if (!table[i].print || table[i].side == (is_writer ? READERS : WRITERS))
			continue;
		table[i].print(qos, value);
		if (*value)
			visit(table[i].name, value, user);
	}
}

/* A text that grows; `full` once something did not fit. */
struct text {
	char *out;
	size_t bytes, at;
	bool full;
};

static void append(struct text *t, const char *before, const char *name, const char *value)
{
	int n = snprintf(t->out + t->at, t->bytes - t->at, "%s%s%s", t->at ? before : "", name,
			 value);

	if (n < 0 || (size_t)n >= t->bytes - t->at)
		t->full = true;
	else
		t->at += (size_t)n;
}

static void append_word(const char *name, const char *value, void *user)
{
	append(user, ",", name, "=");
	append(user, "", value, "");
}

int qos_to_words(const struct apus_qos *qos, bool is_writer, char *text_out, size_t text_bytes)
{
	struct text t = {text_out, text_bytes, 0, false};

	*text_out = '\0';
	qos_visit_words(qos, is_writer, append_word, &t);
	for (uint32_t i = 0; i < qos->partition_count; i++)
		append(&t, i ? ";" : ",", i ? "" : "partition=", qos->partitions[i]);
	return t.full ? APUS_ELIMIT : 0;
}
