/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One member of a crowd: a participant with a writer and a reader on each of the topics Crowd0…,
 * which does nothing but report how many remote and local endpoints each side has matched.
 *
 * Prints {"writer_matches":n,"reader_matches":n} (sums over its endpoints) whenever one changes.
 * Ends on SIGTERM, or by itself after three minutes. Run by cases_discovery.py.
 */
#include <apus/apus.h>

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define TOPICS_MAX 32
#define TURNS_MAX  1800

struct member {
	struct apus_participant *participant;
	struct apus_writer *writers[TOPICS_MAX];
	struct apus_reader *readers[TOPICS_MAX];
	int topic_count;
};

static volatile sig_atomic_t stopped;

static void on_signal(int signal)
{
	(void)signal;
	stopped = 1;
}

static void must(int result, const char *what)
{
	if (result == 0)
		return;
	fprintf(stderr, "crowd: %s: %s\n", what, apus_strerror(result));
	exit(3);
}

static void join(struct member *m, const char *domain, const char *lease)
{
	struct apus_config *config = apus_config_create();
	char why[256] = "";
	int result;

	must(apus_config_set(config, "domain", domain, NULL, 0), "domain");
	must(apus_config_set(config, "lease", lease, NULL, 0), "lease");
	must(apus_config_set(config, "announce.period", "1s", NULL, 0), "announce.period");
	result = apus_participant_create(config, &m->participant, why, sizeof(why));
	must(result, why);
	apus_config_destroy(config);
}

static void open_endpoints(struct member *m)
{
	for (int i = 0; i < m->topic_count; i++) {
		struct apus_endpoint_options options = {.type = &apus_shape_type};
		char topic[32];

		snprintf(topic, sizeof(topic), "Crowd%d", i);
		options.topic = topic;
		must(apus_writer_create(m->participant, &options, &m->writers[i]), "writer");
		must(apus_reader_create(m->participant, &options, &m->readers[i]), "reader");
	}
}

static void report_changes(const struct member *m)
{
	const struct timespec turn = {.tv_nsec = 100000000};
	unsigned writer_matches = 0, reader_matches = 0;

	for (int n = 0; n < TURNS_MAX && !stopped; n++) {
		unsigned writers = 0, readers = 0;

		for (int i = 0; i < m->topic_count; i++) {
			writers += apus_writer_matched(m->writers[i]);
			readers += apus_reader_matched(m->readers[i]);
		}
		if (writers != writer_matches || readers != reader_matches) {
			printf("{\"writer_matches\":%u,\"reader_matches\":%u}\n", writers, readers);
			fflush(stdout);
		}
		writer_matches = writers, reader_matches = readers;
		nanosleep(&turn, NULL);
	}
}

int main(int argc, char **argv)
{
	static const struct option long_options[] = {
		{"domain", required_argument, NULL, 'd'},
		{"topics", required_argument, NULL, 't'},
		{"lease", required_argument, NULL, 'l'},
		{NULL, 0, NULL, 0},
	};
	struct member member = {.topic_count = 5};
	const char *domain = "0", *lease = "20s";
	int code;

	while ((code = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		switch (code) {
		case 'd': domain = optarg; break;
		case 't': member.topic_count = atoi(optarg); break;
		case 'l': lease = optarg; break;
		default: return 2;
		}
	}
	if (member.topic_count < 1 || member.topic_count > TOPICS_MAX)
		return 2;
	signal(SIGTERM, on_signal);
	signal(SIGINT, on_signal);
	join(&member, domain, lease);
	open_endpoints(&member);
	report_changes(&member);
	apus_participant_destroy(member.participant);
	return 0;
}
