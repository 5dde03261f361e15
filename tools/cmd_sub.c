/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `apus sub`: prints what arrives on a topic, one line a sample or change of state.
 *
 * Lines are written out as soon as nothing more is waiting, so that a pipe sees each sample at once and
 * a burst costs few system calls. The JSON form is a contract with scripts:
 * {"topic","writer","seq","source_time","state","data"}; source_time in nanoseconds since 1970, null if
 * the writer sent none; data of a line that is not alive holds the key fields.
 */
#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tools/commands.h"
#include "tools/endpoint.h"
#include "tools/guid.h"
#include "tools/json.h"
#include "tools/session.h"
#include "tools/terminal.h"

#define ARENA_BYTES      (1u << 20)
#define JSON_BYTES_FIRST (1u << 16)
#define JSON_BYTES_MAX   (1u << 28)
#define TOPIC_JSON_BYTES 2048
#define NS_PER_SEC       INT64_C(1000000000)
/* How often a guessed type is compared with what writers announce, and how long they may take to tell. */
#define WATCH_NS  INT64_C(50000000)
#define LOOKUP_NS INT64_C(3000000000)
/* While nothing is announced for want of a type: how often one looks for a writer, and for how long before the guess
 * is announced, so that it can be found by others. A reader of a wrong type would count as inconsistent at a writer. */
#define LOOK_NS  INT64_C(10000000)
#define GUESS_NS INT64_C(1000000000)

struct values {
	struct session_options session;
	const char *type, *idl, *qos, *filter;
	int64_t count, timeout_ns;
	struct option_list partitions, parameters;
	bool json, stats;
};

#define OPTION(name, argument, help, kind, field, min, max) \
	OPTION_ROW(name, argument, help, kind, 0, offsetof(struct values, field), min, max)

static const struct option options[] = {
	OPTION("type", "NAME", "type of the topic (default: see below, or the only one in FILE)",
	       OPTION_TEXT, type, 0, 0),
	OPTION("idl", "FILE", "IDL file that declares the type", OPTION_TEXT, idl, 0, 0),
	OPTION("qos", "K=V,...", "QoS words, see below", OPTION_TEXT, qos, 0, 0),
	OPTION("partition", "P", "read from this partition too", OPTION_LIST, partitions, 0, 0),
	OPTION("filter", "EXPR", "take only samples that satisfy it", OPTION_TEXT, filter, 0, 0),
	OPTION("param", "V", "value of %0, then of %1 … in the filter", OPTION_LIST, parameters, 0,
	       0),
	OPTION("count", "N", "end after N lines", OPTION_NUMBER, count, 1, INT64_MAX),
	OPTION("timeout", "S", "end after S seconds; 1 if --count is not reached", OPTION_SECONDS,
	       timeout_ns, 0, 0),
	OPTION("json", NULL, "one JSON object a line", OPTION_FLAG, json, 0, 0),
	OPTION("stats", NULL, "print the reader's counters on stderr at the end", OPTION_FLAG,
	       stats, 0, 0),
	SESSION_OPTIONS(struct values),
};

/* One run. */
struct subscriber {
	const struct values *values;
	const char *topic;
	const struct apus_type *type;
	struct session session;
	struct apus_reader *reader; /* NULL while a filter or a guess waits for its type */
	int64_t guess_ns;           /* monotonic: when a guess is announced, writer or not */
	void *sample, *arena;
	char *json; /* of one sample; grows */
	size_t json_bytes;
	char topic_json[TOPIC_JSON_BYTES];
	int64_t printed;
	const struct qos_words *words;
	bool given_up; /* on finding the type out */
	/* Why the filter does not fit the guessed type; while there is no reader. */
	struct apus_filter_error filter_error;
};

/* ---- printing ----------------------------------------------------------------------------------- */

/* A line without data tells how the instance ended. If it has been born again meanwhile, it had been
 * left without writers or disposed; disposal is what only a writer can have said. */
static const char *state_name(const struct apus_sample_info *info)
{
	if (info->valid_data)
		return "alive";
	return info->instance_state == APUS_STATE_NO_WRITERS ? "no_writers" : "disposed";
}

/* Returns 0 or a negative APUS_E… code. */
static int to_json(struct subscriber *s, bool key_only)
{
	while (sample_to_json(s->type, s->sample, key_only, s->json, s->json_bytes) < 0) {
		char *more;

		if (s->json_bytes >= JSON_BYTES_MAX)
			return APUS_ELIMIT;
		more = realloc(s->json, 2 * s->json_bytes);
		if (!more)
			return APUS_ENOMEM;
		s->json = more;
		s->json_bytes *= 2;
	}
	return 0;
}

static void print_json(const struct subscriber *s, const struct apus_sample_info *info)
{
	char writer[GUID_TEXT_BYTES];

	printf("{\"topic\":%s,\"writer\":\"%s\",\"seq\":%" PRId64 ",\"source_time\":",
	       s->topic_json, guid_to_text(&info->writer, writer), info->seq);
	if (info->source_time_ns == INT64_MIN)
		fputs("null", stdout);
	else
		printf("%" PRId64, info->source_time_ns);
	printf(",\"state\":\"%s\",\"data\":%s}\n", state_name(info), s->json);
}

static void print_time(int64_t wall_ns)
{
	time_t seconds = (time_t)(wall_ns / NS_PER_SEC);
	struct tm tm;
	char text[16];

	if (wall_ns < 0 || !localtime_r(&seconds, &tm)) {
		fputs("--:--:--.------", stdout);
		return;
	}
	strftime(text, sizeof(text), "%H:%M:%S", &tm);
	printf("%s.%06d", text, (int)(wall_ns % NS_PER_SEC / 1000));
}

static void print_text(const struct subscriber *s, const struct apus_sample_info *info)
{
	char writer[GUID_TEXT_BYTES];
	const char *plain = ink(stdout, INK_NONE);

	fputs(ink(stdout, INK_DIM), stdout);
	print_time(info->source_time_ns);
	printf("%s  %s%-10s%s  %s%s%s  %s%s #%" PRId64 "%s\n", plain,
	       ink(stdout, info->valid_data ? INK_GOOD : INK_BAD), state_name(info), plain,
	       ink(stdout, INK_STRONG), s->json, plain, ink(stdout, INK_DIM),
	       guid_to_text(&info->writer, writer), info->seq, plain);
}

/* What cannot be printed is told and left out: one writer's bad sample must not end what is shown of all
 * others. */
static void print(struct subscriber *s, const struct apus_sample *sample)
{
	bool key_only = !sample->info.valid_data;
	char writer[GUID_TEXT_BYTES];
	int rc = apus_type_decode(s->type, sample->payload, sample->payload_bytes, key_only,
				  s->sample, s->arena, ARENA_BYTES);

	if (rc >= 0)
		rc = to_json(s, key_only);
	if (rc < 0) {
		complain("sample %" PRId64 " of writer %s is left out: %s", sample->info.seq,
			 guid_to_text(&sample->info.writer, writer), apus_strerror(rc));
		return;
	}
	if (s->values->json)
		print_json(s, &sample->info);
	else
		print_text(s, &sample->info);
	s->printed++;
}

/* ---- taking ------------------------------------------------------------------------------------- */

static bool enough(const struct subscriber *s)
{
	return s->values->count > 0 && s->printed >= s->values->count;
}

/* A reader that has gone away, as `head` does, is not worth a message of its own; a full disk is. */
static int complain_output(void)
{
	struct pollfd output = {STDOUT_FILENO, 0, 0};

	if (poll(&output, 1, 0) == 1 && output.revents & POLLERR)
		return EXIT_FAILED;
	return complain_failed("cannot write to the standard output");
}

/* Prints what is there. One by one is in order of reception; a batch comes instance by instance. */
static int drain(struct subscriber *s)
{
	struct apus_sample sample;
	int n;

	if (!s->reader)
		return EXIT_DONE;
	do {
		n = apus_take(s->reader, &sample, 1, NULL);
		if (n < 0)
			return complain_failed("cannot take: %s", apus_strerror(n));
		if (n > 0) {
			print(s, &sample);
			apus_return(s->reader, &sample, 1);
		}
	} while (n > 0 && !enough(s) && !session_stopped(&s->session));
	return fflush(stdout) != 0 || ferror(stdout) ? complain_output() : EXIT_DONE;
}

/* ---- a type nobody named ------------------------------------------------------------------------ */

/* A writer of the topic that does not write the type at hand. */
struct other_writer {
	const struct subscriber *s;
	struct apus_guid guid;
	char type_name[256];
	bool any;   /* writer at all */
	bool found; /* and of another type */
};

/* Nobody has named the type, and nothing has come yet that shows it. */
static bool is_guess(const struct subscriber *s)
{
	return !s->values->type && !s->values->idl && !s->given_up && s->printed == 0;
}

static bool look_for_other(const struct apus_endpoint_info *e, void *user)
{
	struct other_writer *o = user;

	if (!e->is_writer || e->local || strcmp(e->topic, o->s->topic) != 0)
		return true;
	o->any = true;
	o->found = strcmp(e->type_name, o->s->type->name) != 0;
	o->guid = e->guid;
	snprintf(o->type_name, sizeof(o->type_name), "%s", e->type_name);
	return false;
}

static int open_reader(struct subscriber *s);

static int complain_unfit(const struct subscriber *s)
{
	return endpoint_complain_filter(s->values->filter, &s->filter_error);
}

/* The guess is right, or there is nobody to tell. Returns an exit code. */
static int keep_guess(struct subscriber *s, bool confirmed)
{
	if (s->reader)
		return EXIT_DONE;
	if (s->filter_error.reason[0])
		return confirmed ? complain_unfit(s) : EXIT_DONE;
	return confirmed || session_now_ns() >= s->guess_ns ? open_reader(s) : EXIT_DONE;
}

/* The first writer of the topic decides: where it writes another type, the reader is made anew with that.
 * Returns an exit code. */
static int follow_writer(struct subscriber *s)
{
	struct other_writer other = {.s = s};
	const struct apus_type *type;
	int rc;

	apus_visit_endpoints(s->session.participant, look_for_other, &other);
	if (!other.found)
		return keep_guess(s, other.any);
	type = apus_type_builtin(other.type_name);
	rc = type ? 0 : apus_type_lookup(s->session.participant, &other.guid, LOOKUP_NS, &type);
	if (rc != 0) {
		s->given_up = true;
		complain(
			"topic %s has the type %s, which its writer does not tell (%s); --idl FILE brings it",
			s->topic, other.type_name, apus_strerror(rc));
		return s->reader ? EXIT_DONE : EXIT_USAGE;
	}
	free(s->sample);
	s->sample = calloc(1, type->size_bytes);
	if (!s->sample)
		return complain_failed("no memory");
	if (s->reader)
		apus_reader_destroy(s->reader);
	s->reader = NULL;
	s->type = type;
	/* XCDR1 is what a writer offers by default; what is not final may come as XCDR2 only. Both are read. */
	return open_reader(s);
}

static int subscribe(struct subscriber *s)
{
	int64_t deadline = session_deadline(s->values->timeout_ns);
	enum session_event event = SESSION_READY;
	int rc = EXIT_DONE;

	while (rc == EXIT_DONE && event == SESSION_READY && !enough(s)) {
		bool watch = is_guess(s);
		int64_t until = watch ? session_deadline(s->reader ? WATCH_NS : LOOK_NS) : deadline;

		event = session_wait(&s->session, s->reader ? apus_reader_fd(s->reader) : -1,
				     until < deadline ? until : deadline);
		rc = drain(s);
		if (event == SESSION_TIME_OVER && watch && session_now_ns() < deadline) {
			event = SESSION_READY;
			if (rc == EXIT_DONE && s->printed == 0)
				rc = follow_writer(s);
		}
	}
	if (rc == EXIT_DONE && s->filter_error.reason[0] && !s->reader)
		return complain_unfit(s); /* nobody has told another type */
	if (rc != EXIT_DONE || s->values->count == 0 || enough(s))
		return rc;
	complain("%s after %" PRId64 " of %" PRId64 " samples; %u writers are matched",
		 event == SESSION_STOPPED ? "stopped" : "time is over", s->printed,
		 s->values->count, s->reader ? apus_reader_matched(s->reader) : 0);
	return EXIT_TIMED_OUT;
}

static void print_stat(const struct apus_stat *stat, void *user)
{
	(void)user;
	fprintf(stderr, "%s %" PRIu64 "\n", stat->name, stat->value);
}

/* ---- setting up --------------------------------------------------------------------------------- */

static int open_reader(struct subscriber *s)
{
	struct apus_filter_error error = {0, 0, ""};
	struct apus_endpoint_options endpoint = {
		.topic = s->topic,
		.type = s->type,
		.qos = &s->words->qos,
		.filter_expression = s->values->filter,
		.filter_parameters = s->values->parameters.items,
		.filter_parameter_count = s->values->parameters.count,
		.filter_error = &error,
	};
	int rc = apus_reader_create(s->session.participant, &endpoint, &s->reader);

	if (rc == 0)
		return EXIT_DONE;
	if (rc == APUS_EFILTER)
		return endpoint_complain_filter(s->values->filter, &error);
	return endpoint_complain_create("reader", rc);
}

static int open_and_subscribe(struct subscriber *s)
{
	int rc = session_open(&s->session, &s->values->session, "apus sub");

	if (rc != EXIT_DONE)
		return rc;
	if (s->filter_error.reason[0])
		note("the filter does not fit %s (%s); a writer of %s is to tell its type",
		     s->type->name, s->filter_error.reason, s->topic);
	else if (is_guess(s))
		s->guess_ns = session_deadline(GUESS_NS);
	else
		rc = open_reader(s);
	if (rc == EXIT_DONE) {
		session_report(&s->session, &s->values->session);
		rc = subscribe(s);
		if (s->values->stats && s->reader)
			apus_visit_reader_stats(s->reader, print_stat, NULL);
	}
	session_close(&s->session);
	return rc;
}

/* Before anything is announced. What a guessed type does not have, the writer's may; that something is missing
 * at the end of the expression no type will change. */
static int check_filter(struct subscriber *s)
{
	const struct values *v = s->values;
	struct apus_filter_error error;
	int rc;

	if (!v->filter)
		return v->parameters.count ? complain("--param %s: there is no --filter",
						      v->parameters.items[0])
					   : EXIT_DONE;
	rc = apus_filter_check(s->type, v->filter, v->parameters.items, v->parameters.count,
			       &error);
	if (rc == APUS_EFILTER && is_guess(s) && error.length > 0) {
		s->filter_error = error;
		return EXIT_DONE;
	}
	if (rc == APUS_EFILTER)
		return endpoint_complain_filter(v->filter, &error);
	return rc == 0 ? EXIT_DONE : complain_failed("--filter: %s", apus_strerror(rc));
}

static int check_and_run(struct subscriber *s)
{
	static struct qos_words words;
	int rc = endpoint_check_topic(s->topic);

	if (rc == EXIT_DONE)
		rc = endpoint_qos(s->values->qos, &s->values->partitions, false, &words);
	if (rc != EXIT_DONE)
		return rc;
	s->type = endpoint_type(s->values->idl, s->values->type);
	if (!s->type)
		return EXIT_USAGE;
	rc = check_filter(s);
	if (rc != EXIT_DONE)
		return rc;
	/* A line for each sample is what the command is for. */
	if (!words.history_given)
		words.qos.history = APUS_KEEP_ALL;
	s->words = &words;
	text_to_json(s->topic, s->topic_json, sizeof(s->topic_json));
	s->json_bytes = JSON_BYTES_FIRST;
	s->json = malloc(s->json_bytes);
	s->sample = calloc(1, s->type->size_bytes);
	s->arena = malloc(ARENA_BYTES);
	rc = s->json && s->sample && s->arena ? open_and_subscribe(s)
					      : complain_failed("no memory");
	free(s->json);
	free(s->sample);
	free(s->arena);
	return rc;
}

static int run(const struct command *command, int argc, char **argv)
{
	static struct values values = {.qos = "", .timeout_ns = APUS_INFINITE_NS};
	static struct subscriber subscriber = {.values = &values};
	int word_count, rc;

	session_options_default(&values.session);
	rc = options_parse(command, argc, argv, &values, &word_count);
	if (rc != EXIT_DONE)
		return rc < 0 ? EXIT_DONE : rc;
	if (word_count == 0)
		return complain("a topic is wanted: apus sub %s", command->words);
	if (word_count > 1)
		return complain("%s: one topic is wanted, and no further word", argv[1]);
	subscriber.topic = argv[0];
	return check_and_run(&subscriber);
}

const struct command cmd_sub = {
	"sub",
	"TOPIC [OPTIONS]",
	"Print what arrives on a topic.",
	"With --json: {\"topic\",\"writer\",\"seq\",\"source_time\",\"state\",\"data\"}; source_time in\n"
	"nanoseconds since 1970, state one of alive, disposed, no_writers. Without --count and\n"
	"--timeout it runs until SIGINT or SIGTERM.\n\n"
	"Without --type and --idl the type is ShapeType, until a writer of the topic says otherwise:\n"
	"then it is that writer's, asked of it. The reader is announced once a writer is known, or after a\n"
	"second without one. A filter that does not fit ShapeType waits for the writer.\n\n" ENDPOINT_QOS_HELP
	"The history is keep_all unless given, and the reader best effort: it may miss what is sent while\n"
	"it is being matched, or faster than it takes. reliability=reliable misses nothing.\n",
	options,
	sizeof(options) / sizeof(options[0]),
	run,
};
