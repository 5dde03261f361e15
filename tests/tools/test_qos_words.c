/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: QoS words mean what they say, and whatever is wrong in them is refused with its place.
 * Method: each word alone with the fields it must set; each mistake with its whole message and
 * position; words printed and read back; texts at the capacities.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <apus/type.h>
#include "tools/qos_words.h"

#define MS INT64_C(1000000)

static struct qos_words words;
static struct qos_error error;

static const struct apus_qos *accepted(const char *text, bool is_writer)
{
	qos_words_init(&words, is_writer);
	memset(&error, 0, sizeof(error));
	if (qos_words_parse(&words, text, is_writer, &error) != 0)
		fail_msg("%s refused: %s", text, error.reason);
	return &words.qos;
}

static void refused(const char *text, bool is_writer, size_t position, size_t length,
		    const char *reason)
{
	qos_words_init(&words, is_writer);
	assert_int_equal(qos_words_parse(&words, text, is_writer, &error), APUS_EQOS);
	assert_string_equal(error.reason, reason);
	assert_int_equal(error.position, position);
	assert_int_equal(error.length, length);
}

static void nothing_is_the_default(void **state)
{
	(void)state;
	assert_int_equal(accepted("", true)->reliability, APUS_RELIABLE);
	assert_int_equal(accepted("", false)->reliability, APUS_BEST_EFFORT);
	assert_false(words.history_given);
	assert_int_equal(words.qos.partition_count, 0);
}

static void each_word(void **state)
{
	const struct apus_qos *q;

	(void)state;
	assert_int_equal(accepted("reliability=best_effort", true)->reliability, APUS_BEST_EFFORT);
	assert_int_equal(accepted("reliability=reliable", false)->reliability, APUS_RELIABLE);
	assert_int_equal(accepted("durability=transient_local", true)->durability,
			 APUS_TRANSIENT_LOCAL);
	assert_int_equal(accepted("durability=volatile", true)->durability, APUS_VOLATILE);
	q = accepted("history=keep_last:7", true);
	assert_int_equal(q->history, APUS_KEEP_LAST);
	assert_int_equal(q->depth, 7);
	assert_true(words.history_given);
	assert_int_equal(accepted("history=keep_all", true)->history, APUS_KEEP_ALL);
	assert_int_equal(accepted("deadline=100ms", true)->deadline_ns, 100 * MS);
	q = accepted("liveliness=automatic:2s", true);
	assert_int_equal(q->liveliness, APUS_AUTOMATIC);
	assert_int_equal(q->lease_ns, 2000 * MS);
	q = accepted("liveliness=manual_by_topic:inf", false);
	assert_int_equal(q->liveliness, APUS_MANUAL_BY_TOPIC);
	assert_int_equal(q->lease_ns, APUS_INFINITE_NS);
	assert_int_equal(accepted("ownership=exclusive", true)->ownership, APUS_EXCLUSIVE);
	assert_int_equal(accepted("strength=-2147483648", true)->strength, INT32_MIN);
	assert_int_equal(accepted("lifespan=5s", true)->lifespan_ns, 5000 * MS);
	assert_int_equal(accepted("time_filter=0.5ms", false)->time_filter_ns, MS / 2);
	assert_int_equal(accepted("max_samples=2147483647", true)->max_samples, INT32_MAX);
	assert_int_equal(accepted("max_instances=1", true)->max_instances, 1);
	q = accepted("representation=xcdr2", true);
	assert_int_equal(q->representation_count, 1);
	assert_int_equal(q->representations[0], APUS_XCDR2);
	q = accepted("representation=xcdr2;xcdr1", false);
	assert_int_equal(q->representation_count, 2);
	assert_int_equal(q->representations[0], APUS_XCDR2);
	assert_int_equal(q->representations[1], APUS_XCDR1);
}

static void partitions(void **state)
{
	const struct apus_qos *q;

	(void)state;
	q = accepted("partition=A;robot/*,reliability=reliable", false);
	assert_int_equal(q->partition_count, 2);
	assert_string_equal(q->partitions[0], "A");
	assert_string_equal(q->partitions[1], "robot/*");
	assert_int_equal(qos_words_add_partition(&words, ""), 0);
	assert_int_equal(q->partition_count, 3);
	assert_string_equal(q->partitions[2], "");
}

static void partition_capacities(void **state)
{
	char text[QOS_PARTITION_BYTES_MAX + 64] = "partition=0";

	(void)state;
	for (int i = 1; i < QOS_PARTITIONS_MAX; i++)
		sprintf(text + strlen(text), ";%d", i);
	assert_int_equal(accepted(text, true)->partition_count, QOS_PARTITIONS_MAX);
	assert_string_equal(words.qos.partitions[63], "63");
	assert_int_equal(qos_words_add_partition(&words, "one more"), APUS_ELIMIT);
	strcat(text, ";64");
	qos_words_init(&words, true);
	assert_int_equal(qos_words_parse(&words, text, true, &error), APUS_EQOS);
	assert_int_equal(error.position, 10);

	memset(text, 'p', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	refused(text, true, 0, sizeof(text) - 1, "the word is too long");
	memcpy(text, "partition=", 10);
	text[10 + 256] = '\0';
	refused(text, true, 0, 266, "partition: a name has at most 255 bytes");
	text[10 + 255] = '\0';
	assert_int_equal(accepted(text, true)->partition_count, 1);
}

static void wrong_names(void **state)
{
	(void)state;
	refused("reliablity=reliable", true, 0, 10,
		"no such QoS word: reliablity; did you mean reliability?");
	refused("history=keep_all,wings=2", true, 17, 5, "no such QoS word: wings");
	refused("Reliability=reliable", true, 0, 11,
		"no such QoS word: Reliability; did you mean reliability?");
	refused(" reliability=reliable", true, 0, 12,
		"no such QoS word:  reliability; did you mean reliability?");
	refused("reliability", true, 0, 11, "reliability: not of the form name=value");
	refused("=reliable", true, 0, 0, "no such QoS word: ");
	refused(",", true, 0, 1, "a word is missing at a comma");
	refused("strength=1,", true, 10, 1, "a word is missing at a comma");
	refused("strength=1,,lifespan=1s", true, 11, 1, "a word is missing at a comma");
	refused("strength=1,strength=1", true, 11, 8, "strength is given twice");
}

static void wrong_values(void **state)
{
	static const char *const texts[] = {
		"reliability=certain",
		"reliability=",
		"reliability=reliable|best_effort",
		"durability=transient",
		"durability=persistent",
		"history=keep_last:0",
		"history=keep_last",
		"history=keep_last:",
		"history=keep_last:2147483648",
		"history=keep_all:3",
		"deadline=100",
		"deadline=-1ms",
		"liveliness=automatic",
		"liveliness=automatic:",
		"liveliness=automatic:0s",
		"liveliness=by_hand:2s",
		"ownership=mine",
		"strength=2147483648",
		"strength=1.5",
		"lifespan=0s",
		"lifespan=soon",
		"partition=",
		"partition=A;;B",
		"partition=A;",
		"max_samples=0",
		"max_instances=-1",
		"representation=xcdr3",
		"representation=xcdr1;",
		"representation=xcdr1;xcdr1",
	};

	(void)state;
	refused("strength=1,reliability=certain", true, 23, 7,
		"reliability=certain: should be reliable or best_effort");
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		const char *value = strchr(texts[i], '=') + 1;

		qos_words_init(&words, true);
		if (qos_words_parse(&words, texts[i], true, &error) != APUS_EQOS)
			fail_msg("%s is not refused", texts[i]);
		assert_int_equal(error.position, value - texts[i]);
		assert_int_equal(error.length, strlen(value));
		assert_non_null(strstr(error.reason, ": should be "));
	}
}

static void without_effect(void **state)
{
	(void)state;
	refused("user_data=x", true, 0, 9,
		"user_data has no effect in this version and is therefore refused");
	refused("transport_priority=3", true, 0, 18,
		"transport_priority has no effect in this version and is therefore refused");
	refused("batch=1400:2ms", false, 0, 5, "batch is for writers only");
	refused("autodispose=off", false, 0, 11, "autodispose is for writers only");
	refused("autopurge_disposed=1s", true, 0, 18, "autopurge_disposed is for readers only");
	refused("type_consistency=allow", true, 0, 16, "type_consistency is for readers only");
	refused("strength=3", false, 0, 8, "strength is for writers only");
	refused("time_filter=1ms", true, 0, 11, "time_filter is for readers only");
}

static void contradictions(void **state)
{
	(void)state;
	refused("time_filter=20ms,deadline=10ms", false, 17, 13,
		"deadline: it must not be shorter than the time_filter");
	accepted("time_filter=20ms,deadline=20ms", false);
	assert_true(accepted("reliability=reliable,time_filter=20ms,time_filter_late=on", false)
			    ->time_filter_late);
	refused("reliability=reliable,time_filter_late=on", false, 21, 19,
		"time-based filter: time_filter_late needs a time_filter, reliability=reliable and "
		"no coherent sets");
	refused("time_filter_late=on", true, 0, 16, "time_filter_late is for readers only");
	refused("history=keep_last:5,max_samples=4", true, 20, 13,
		"resource limits: max_samples is too small for the history");
	accepted("history=keep_last:5,max_samples=5", true);
	accepted("history=keep_all,max_samples=1", true);
}

static void groups_and_lifecycle(void **state)
{
	static const char *const bad[] = {
		"presentation=",
		"presentation=topic;ordered;coherent",
		"presentation=topic;",
		"presentation=topic;coherent;coherent",
		"presentation=coherent",
		"batch=3:1ms",
		"batch=1400",
		"batch=65537:1ms",
		"batch=1400:0ms",
		"autodispose=yes",
		"destination_order=0",
	};
	const struct apus_qos *qos;
	struct qos_error error;

	(void)state;
	qos = accepted("presentation=group;coherent;ordered,destination_order=by_source,"
		       "autodispose=off,batch=1400:2ms,latency_budget=3ms",
		       true);
	assert_int_equal(qos->access_scope, APUS_SCOPE_GROUP);
	assert_true(qos->coherent_access && qos->ordered_access && !qos->autodispose);
	assert_int_equal(qos->destination_order, APUS_BY_SOURCE);
	assert_int_equal(qos->batch_bytes, 1400);
	assert_int_equal(qos->batch_delay_ns, 2000000);
	assert_int_equal(qos->latency_budget_ns, 3000000);
	qos = accepted("presentation=topic;ordered,autopurge_no_writers=0s,autopurge_disposed=2s,"
		       "type_consistency=disallow;validate",
		       false);
	assert_true(!qos->coherent_access && qos->ordered_access);
	assert_int_equal(qos->autopurge_no_writers_ns, 0);
	assert_int_equal(qos->autopurge_disposed_ns, INT64_C(2000000000));
	assert_int_equal(qos->consistency.kind, APUS_DISALLOW_TYPE_COERCION);
	assert_true(qos->consistency.force_type_validation);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		qos_words_init(&words, true);
		if (qos_words_parse(&words, bad[i], true, &error) != APUS_EQOS)
			fail_msg("%s is not refused", bad[i]);
	}
}

static void printed(const char *text, bool is_writer, const char *expected)
{
	char out[512], again[512];

	assert_int_equal(qos_to_words(accepted(text, is_writer), is_writer, out, sizeof(out)), 0);
	assert_string_equal(out, expected);
	assert_int_equal(qos_to_words(accepted(out, is_writer), is_writer, again, sizeof(again)),
			 0);
	assert_string_equal(again, expected);
}

static void printing(void **state)
{
	char out[512];

	(void)state;
	printed("", true, "reliability=reliable,durability=volatile,history=keep_last:1");
	printed("history=keep_all,partition=A;B*,strength=-3,ownership=exclusive", true,
		"reliability=reliable,durability=volatile,history=keep_all,ownership=exclusive,"
		"strength=-3,partition=A;B*");
	printed("time_filter=1500us,deadline=2s,liveliness=manual_by_topic:1min,lifespan=1h,"
		"representation=xcdr2;xcdr1,durability=transient_local",
		false,
		"reliability=best_effort,durability=transient_local,history=keep_last:1,deadline=2s,"
		"liveliness=manual_by_topic:1min,lifespan=1h,time_filter=1500us,"
		"representation=xcdr2;xcdr1");

	printed("presentation=group;coherent,destination_order=by_source,latency_budget=1ms,"
		"type_consistency=disallow",
		false,
		"reliability=best_effort,durability=volatile,history=keep_last:1,"
		"presentation=group;coherent,latency_budget=1ms,destination_order=by_source,"
		"type_consistency=disallow");

	/* What peers announce, beyond our words; and a buffer that is too small. */
	accepted("", true);
	words.qos.durability = 9;
	words.qos.liveliness = 7;
	words.qos.representations[0] = 1;
	words.qos.representation_count = 1;
	assert_int_equal(qos_to_words(&words.qos, true, out, sizeof(out)), 0);
	assert_string_equal(out, "reliability=reliable,durability=unknown,history=keep_last:1,"
				 "liveliness=unknown:inf,representation=other");
	assert_int_equal(qos_to_words(&words.qos, true, out, 30), APUS_ELIMIT);
	assert_true(strlen(out) < 30);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_the_default),
		cmocka_unit_test(each_word),
		cmocka_unit_test(partitions),
		cmocka_unit_test(partition_capacities),
		cmocka_unit_test(wrong_names),
		cmocka_unit_test(wrong_values),
		cmocka_unit_test(without_effect),
		cmocka_unit_test(groups_and_lifecycle),
		cmocka_unit_test(contradictions),
		cmocka_unit_test(printing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
