/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `apus pub`: writes samples given as JSON, then disposes and unregisters what it is told to, and stays
 * until reliable readers have acknowledged everything.
 *
 * All words are checked before the domain is joined: a mistake sends nothing. Only lines of stdin are
 * checked as they come.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/commands.h"
#include "tools/endpoint.h"
#include "tools/json.h"
#include "tools/lines.h"
#include "tools/session.h"
#include "tools/terminal.h"

#define ARENA_BYTES  (1u << 20)
#define REASON_BYTES 512
#define NS_PER_SEC   INT64_C(1000000000)

/** Longest sleep in a call that does not see signals. */
#define SLICE_NS (NS_PER_SEC / 20)

/** A publisher further behind its rate than this does not catch up: it was stopped, not slow. */
#define LAG_NS_MAX NS_PER_SEC

struct values {
	struct session_options session;
	const char *type, *idl, *qos, *increment;
	int64_t period_ns, count, wait_matched, linger_ns, timeout_ns;
	struct option_list partitions, endings;
};

#define OPTION(name, argument, help, kind, tag, field, min, max) \
	OPTION_ROW(name, argument, help, kind, tag, offsetof(struct values, field), min, max)

static const struct option options[] = {
	OPTION("type", "NAME", "type of the topic (default ShapeType, or the only one in FILE)",
	       OPTION_TEXT, 0, type, 0, 0),
	OPTION("idl", "FILE", "IDL file that declares the type", OPTION_TEXT, 0, idl, 0, 0),
	OPTION("qos", "K=V,...", "QoS words, see below", OPTION_TEXT, 0, qos, 0, 0),
	OPTION("partition", "P", "write into this partition too", OPTION_LIST, 0, partitions, 0, 0),
	OPTION("rate", "HZ", "samples a second (default: as fast as possible)", OPTION_RATE, 0,
	       period_ns, 0, 0),
	OPTION("count", "N", "write N samples, repeating the given ones", OPTION_NUMBER, 0, count,
	       0, INT64_MAX),
	OPTION("increment", "FIELD", "add 1 to this integer with each repetition", OPTION_TEXT, 0,
	       increment, 0, 0),
	OPTION("wait-matched", "N", "start once N readers are matched", OPTION_NUMBER, 0,
	       wait_matched, 0, UINT32_MAX),
	OPTION("dispose", "JSON", "at the end, dispose the instance with this key", OPTION_LIST,
	       'd', endings, 0, 0),
	OPTION("unregister", "JSON", "at the end, unregister the instance with this key",
	       OPTION_LIST, 'u', endings, 0, 0),
	OPTION("linger", "S", "stay S seconds after the end, for late readers", OPTION_SECONDS, 0,
	       linger_ns, 0, 0),
	OPTION("timeout", "S", "longest wait for readers or acknowledgements (default 60)",
	       OPTION_SECONDS, 0, timeout_ns, 0, 0),
	SESSION_OPTIONS(struct values),
};

/* One run. */
struct publisher {
	const struct values *values;
	const struct apus_type *type;
	const struct apus_member *increment; /* NULL = none */
	char **samples;                      /* JSON texts of the command line */
	int sample_count;
	struct session session;
	struct apus_writer *writer;
	void *sample, *arena;
	int64_t written;
	int64_t next_ns; /* when the next sample is due */
};

/* ---- samples ------------------------------------------------------------------------------------ */

static int parse(struct publisher *p, const char *where, int64_t number, const char *text,
		 bool key_only)
{
	char reason[REASON_BYTES];

	if (json_to_sample(p->type, text, key_only, p->sample, p->arena, ARENA_BYTES, reason,
			   sizeof(reason)) >= 0)
		return EXIT_DONE;
	if (number)
		return complain("%s %lld: %s", where, (long long)number, reason);
	return complain("%s %s: %s", where, text, reason);
}

static size_t integer_bytes(const struct apus_type *type)
{
	switch (type->kind) {
	case APUS_KIND_INT8:
	case APUS_KIND_UINT8:
	case APUS_KIND_INT16:
	case APUS_KIND_UINT16:
	case APUS_KIND_INT32:
	case APUS_KIND_UINT32:
	case APUS_KIND_INT64:
	case APUS_KIND_UINT64: return type->size_bytes;
	default: return 0;
	}
}

/* Adds to an integer of any width; it wraps at the end of its range. Little-endian hosts only, as the
 * library. */
static void add(struct publisher *p, uint64_t rounds)
{
	void *place = (char *)p->sample + p->increment->offset_bytes;
	size_t bytes = integer_bytes(p->increment->type);
	uint64_t value = 0;

	memcpy(&value, place, bytes);
	value += rounds;
	memcpy(place, &value, bytes);
}

static int check_increment(struct publisher *p)
{
	const char *name = p->values->increment;

	if (!name)
		return EXIT_DONE;
	if (p->sample_count == 0)
		return complain("--increment %s: only samples on the command line are repeated",
				name);
	for (uint32_t i = 0; i < p->type->member_count; i++) {
		const struct apus_member *member = &p->type->members[i];

		if (strcmp(member->name, name) != 0)
			continue;
		if (!integer_bytes(member->type) || member->optional || member->external)
			return complain("--increment %s: not an integer", name);
		p->increment = member;
		return EXIT_DONE;
	}
	return complain("--increment %s: %s has no such field", name, p->type->name);
}

/* Everything the command line holds, before anything is sent. */
static int check_words(struct publisher *p)
{
	const struct option_list *endings = &p->values->endings;
	int rc = check_increment(p);

	for (int i = 0; i < p->sample_count && rc == EXIT_DONE; i++)
		rc = parse(p, "sample", i + 1, p->samples[i], false);
	if (rc == EXIT_DONE && endings->count && !apus_type_is_keyed(p->type))
		return complain("--dispose, --unregister: %s has no key", p->type->name);
	for (uint32_t i = 0; i < endings->count && rc == EXIT_DONE; i++)
		rc = parse(p, endings->tags[i] == 'd' ? "--dispose" : "--unregister", 0,
			   endings->items[i], true);
	return rc;
}

/* ---- writing ------------------------------------------------------------------------------------ */

static int stopped(const struct publisher *p)
{
	note("stopped after %lld samples", (long long)p->written);
	return EXIT_TIMED_OUT;
}

static int complain_write(const struct publisher *p, int result)
{
	const char *hint = "";

	if (result == APUS_ELIMIT)
		hint = ": the sample is too large (sample.bytes) or there are too many instances "
		       "(history.instances, max_instances=N)";
	if (result == APUS_EENCODING)
		return complain("sample %lld: %s", (long long)p->written + 1,
				apus_strerror(result));
	return complain_failed("sample %lld: %s%s", (long long)p->written + 1,
			       apus_strerror(result), hint);
}

/* A full history empties as readers acknowledge; each attempt waits for max_blocking_ns in the library. */
static int write_change(struct publisher *p, enum apus_change kind)
{
	int64_t deadline = session_deadline(p->values->timeout_ns);
	int rc;

	for (;;) {
		rc = apus_write_as(p->writer, p->sample, kind, INT64_MIN);
		if (rc == 0)
			return EXIT_DONE;
		if (session_stopped(&p->session))
			return stopped(p);
		if (rc != APUS_ETIMEDOUT)
			return complain_write(p, rc);
		if (session_now_ns() >= deadline)
			break;
		/* A best-effort writer does not wait by itself. */
		session_wait(&p->session, -1, session_deadline(NS_PER_SEC / 1000));
	}
	complain("sample %lld: the history is full and readers do not acknowledge",
		 (long long)p->written + 1);
	return EXIT_TIMED_OUT;
}

/* Sleeps until the next sample is due. */
static int keep_rate(struct publisher *p)
{
	int64_t now = session_now_ns();

	if (p->values->period_ns == 0)
		return session_stopped(&p->session) ? stopped(p) : EXIT_DONE;
	if (p->next_ns < now - LAG_NS_MAX)
		p->next_ns = now;
	if (session_wait(&p->session, -1, p->next_ns) == SESSION_STOPPED)
		return stopped(p);
	p->next_ns += p->values->period_ns;
	return EXIT_DONE;
}

static int write_sample(struct publisher *p)
{
	int rc = keep_rate(p);

	if (rc == EXIT_DONE)
		rc = write_change(p, APUS_ALIVE);
	if (rc == EXIT_DONE)
		p->written++;
	return rc;
}

static int write_words(struct publisher *p)
{
	int64_t count = p->values->count >= 0 ? p->values->count : p->sample_count;
	int rc = EXIT_DONE;

	while (p->written < count && rc == EXIT_DONE) {
		int i = (int)(p->written % p->sample_count);

		rc = parse(p, "sample", i + 1, p->samples[i], false);
		if (rc == EXIT_DONE && p->increment)
			add(p, (uint64_t)(p->written / p->sample_count));
		if (rc == EXIT_DONE)
			rc = write_sample(p);
	}
	return rc;
}

static int write_stdin(struct publisher *p)
{
	struct lines lines = {.fd = STDIN_FILENO};
	int rc = EXIT_DONE;
	char *line;

	if (isatty(STDIN_FILENO))
		note("type one JSON object a line; Ctrl-D ends");
	while (rc == EXIT_DONE && (p->values->count < 0 || p->written < p->values->count)) {
		enum lines_result got = lines_next(&lines, &p->session, &line);

		if (got == LINES_END)
			break;
		if (got == LINES_STOPPED)
			rc = stopped(p);
		else if (got == LINES_FAILED)
			rc = EXIT_USAGE;
		else
			rc = parse(p, "stdin, line", (int64_t)lines.number, line, false);
		if (rc == EXIT_DONE)
			rc = write_sample(p);
	}
	lines_fini(&lines);
	return rc;
}

static int write_endings(struct publisher *p)
{
	const struct option_list *endings = &p->values->endings;
	int rc = EXIT_DONE;

	for (uint32_t i = 0; i < endings->count && rc == EXIT_DONE; i++) {
		bool dispose = endings->tags[i] == 'd';

		rc = parse(p, dispose ? "--dispose" : "--unregister", 0, endings->items[i], true);
		if (rc == EXIT_DONE)
			rc = write_change(p, dispose ? APUS_DISPOSE : APUS_UNREGISTER);
	}
	return rc;
}

/* ---- waiting ------------------------------------------------------------------------------------ */

static int wait_matched(struct publisher *p, uint32_t count)
{
	return apus_writer_wait_matched(p->writer, count, SLICE_NS);
}

static int wait_acked(struct publisher *p, uint32_t count)
{
	(void)count;
	return apus_writer_wait_acked(p->writer, SLICE_NS);
}

/* Repeats a wait of the library in slices, so that signals are seen; complains when time is over. */
static int wait_for(struct publisher *p, int (*wait)(struct publisher *, uint32_t), uint32_t count,
		    const char *what)
{
	int64_t deadline = session_deadline(p->values->timeout_ns);
	int rc;

	while ((rc = wait(p, count)) == APUS_ETIMEDOUT) {
		if (session_stopped(&p->session))
			return stopped(p);
		if (session_now_ns() < deadline)
			continue;
		complain("%s within %.9g s; %u readers are matched", what,
			 (double)p->values->timeout_ns / NS_PER_SEC,
			 apus_writer_matched(p->writer));
		return EXIT_TIMED_OUT;
	}
	return rc == 0 ? EXIT_DONE : complain_failed("%s: %s", what, apus_strerror(rc));
}

/* Everything is written: a signal only cuts the stay short. */
static void linger(struct publisher *p)
{
	if (p->values->linger_ns > 0)
		session_wait(&p->session, -1, session_deadline(p->values->linger_ns));
}

static int publish(struct publisher *p, bool reliable)
{
	uint32_t wanted = (uint32_t)p->values->wait_matched;
	int rc = EXIT_DONE;

	if (wanted > 0)
		rc = wait_for(p, wait_matched, wanted, "not enough matched readers");
	p->next_ns = session_now_ns();
	if (rc == EXIT_DONE)
		rc = p->sample_count ? write_words(p) : write_stdin(p);
	if (rc == EXIT_DONE)
		rc = write_endings(p);
	if (rc == EXIT_DONE && reliable)
		rc = wait_for(p, wait_acked, 0, "not all samples acknowledged");
	if (rc == EXIT_DONE && apus_writer_matched(p->writer) == 0)
		note("%lld samples written, but no reader is matched; --wait-matched 1 waits for one",
		     (long long)p->written);
	else if (rc == EXIT_DONE)
		note("%lld samples written", (long long)p->written);
	if (rc == EXIT_DONE)
		linger(p);
	return rc;
}

/* ---- setting up --------------------------------------------------------------------------------- */

/* Nothing written is to be lost between writer and reader unless somebody asks for less: a reliable
 * volatile writer keeps what is not acknowledged. Late joiners of a durable one get the last value. */
static void complete_qos(struct qos_words *words)
{
	struct apus_qos *qos = &words->qos;

	if (!words->history_given && qos->reliability == APUS_RELIABLE &&
	    qos->durability == APUS_VOLATILE)
		qos->history = APUS_KEEP_ALL;
}

static int open_and_publish(struct publisher *p, const char *topic, const struct qos_words *words)
{
	struct apus_endpoint_options endpoint = {
		.topic = topic, .type = p->type, .qos = &words->qos};
	int rc = session_open(&p->session, &p->values->session, "apus pub");

	if (rc != EXIT_DONE)
		return rc;
	rc = apus_writer_create(p->session.participant, &endpoint, &p->writer);
	if (rc != 0) {
		rc = endpoint_complain_create("writer", rc);
	} else {
		session_report(&p->session, &p->values->session);
		rc = publish(p, words->qos.reliability == APUS_RELIABLE);
	}
	session_close(&p->session);
	return rc;
}

static int check_and_run(struct publisher *p, const char *topic)
{
	static struct qos_words words;
	int rc = endpoint_check_topic(topic);

	if (rc == EXIT_DONE)
		rc = endpoint_qos(p->values->qos, &p->values->partitions, true, &words);
	if (rc != EXIT_DONE)
		return rc;
	p->type = endpoint_type(p->values->idl, p->values->type);
	if (!p->type)
		return EXIT_USAGE;
	complete_qos(&words);
	p->sample = calloc(1, p->type->size_bytes);
	p->arena = malloc(ARENA_BYTES);
	rc = p->sample && p->arena ? check_words(p) : complain_failed("no memory");
	if (rc == EXIT_DONE)
		rc = open_and_publish(p, topic, &words);
	free(p->sample);
	free(p->arena);
	return rc;
}

static int run(const struct command *command, int argc, char **argv)
{
	static struct values values = {.qos = "", .count = -1, .timeout_ns = 60 * NS_PER_SEC};
	struct publisher publisher = {.values = &values};
	int word_count, rc;

	session_options_default(&values.session);
	rc = options_parse(command, argc, argv, &values, &word_count);
	if (rc != EXIT_DONE)
		return rc < 0 ? EXIT_DONE : rc;
	if (word_count == 0)
		return complain("a topic is wanted: apus pub %s", command->words);
	publisher.samples = argv + 1;
	publisher.sample_count = word_count - 1;
	return check_and_run(&publisher, argv[0]);
}

const struct command cmd_pub = {
	"pub",
	"TOPIC [OPTIONS] [JSON...]",
	"Write samples into a topic.",
	"Samples are JSON objects on the command line, else one a line on stdin.\n"
	"Ends when all are written and, if reliable, acknowledged by all matched readers.\n"
	"1,000 different samples: apus pub Square --count 1000 --increment x \\\n"
	"  '{\"color\":\"RED\",\"x\":0,\"y\":0,\"shapesize\":30}'\n\n" ENDPOINT_QOS_HELP
	"The history of reliable volatile writers is keep_all unless given, else keep_last:1.\n",
	options,
	sizeof(options) / sizeof(options[0]),
	run,
};
