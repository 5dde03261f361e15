/* SPDX-License-Identifier: Apache-2.0 */
/* Command line, pattern and output of the blob programs. See blob.h. */
#include "blob.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static volatile sig_atomic_t stopped;

static const char help[] =
	"usage: %s pub|sub --topic T --sizes LIST [options]\n"
	"  --sizes LIST      N, LOW-HIGH:STEP or NxCOUNT, separated by commas\n"
	"  --domain N  --interface ADDR  --best-effort  --depth N (64)  --rate HZ\n"
	"  --message-bytes N   Fast DDS: largest datagram\n"
	"  --nack-delay MS     Cyclone DDS: its reader asks again after that (100)\n"
	"  --set KEY=VALUE     Apus: a setting, repeatable\n"
	"  --blocking S        Apus: max_blocking_time; refused writes are repeated\n"
	"  --timeout S (60)  --linger S (0)\n";

static void wrong(const char *what, const char *value)
{
	fprintf(stderr, "blob: %s '%s' (try --help)\n", what, value);
	exit(2);
}

static void add_size(struct blob_options *o, unsigned long bytes)
{
	if (bytes > BLOB_BYTES_MAX || o->size_count == BLOB_SIZES_MAX)
		wrong("size out of range, or too many:", "--sizes");
	o->sizes[o->size_count++] = (uint32_t)bytes;
	if (bytes > o->size_max)
		o->size_max = (uint32_t)bytes;
}

static void add_sizes(struct blob_options *o, char *list)
{
	for (char *word = strtok(list, ","); word; word = strtok(NULL, ",")) {
		unsigned long low, high, step;
		char end;

		if (sscanf(word, "%lu-%lu:%lu%c", &low, &high, &step, &end) == 3 && step > 0) {
			for (; low <= high; low += step)
				add_size(o, low);
		} else if (sscanf(word, "%lux%lu%c", &low, &high, &end) == 2) {
			while (high-- > 0)
				add_size(o, low);
		} else if (sscanf(word, "%lu%c", &low, &end) == 1) {
			add_size(o, low);
		} else {
			wrong("not a size:", word);
		}
	}
}

static const struct option long_options[] = {{"topic", required_argument, NULL, 't'},
					     {"sizes", required_argument, NULL, 's'},
					     {"domain", required_argument, NULL, 'd'},
					     {"interface", required_argument, NULL, 'i'},
					     {"best-effort", no_argument, NULL, 'b'},
					     {"depth", required_argument, NULL, 'k'},
					     {"message-bytes", required_argument, NULL, 'm'},
					     {"nack-delay", required_argument, NULL, 'n'},
					     {"set", required_argument, NULL, 'x'},
					     {"rate", required_argument, NULL, 'r'},
					     {"timeout", required_argument, NULL, 'T'},
					     {"linger", required_argument, NULL, 'l'},
					     {"blocking", required_argument, NULL, 'B'},
					     {"help", no_argument, NULL, 'h'},
					     {NULL, 0, NULL, 0}};

static void take_option(int code, struct blob_options *o, const char *program)
{
	switch (code) {
	case 't': o->topic = optarg; break;
	case 's': add_sizes(o, optarg); break;
	case 'd': o->domain = atoi(optarg); break;
	case 'i': o->interface = optarg; break;
	case 'b': o->reliable = false; break;
	case 'k': o->depth = atoi(optarg); break;
	case 'm': o->message_bytes = atoi(optarg); break;
	case 'n': o->nack_delay_ms = atoi(optarg); break;
	case 'r': o->rate_hz = atof(optarg); break;
	case 'T': o->timeout_s = atof(optarg); break;
	case 'B': o->blocking_s = atof(optarg); break;
	case 'l': o->linger_s = atof(optarg); break;
	case 'x':
		if (o->setting_count == 16)
			wrong("too many settings, at", optarg);
		o->settings[o->setting_count++] = optarg;
		break;
	case 'h': printf(help, program); exit(0);
	default: exit(2); /* getopt has said why */
	}
}

static void on_signal(int signal)
{
	(void)signal;
	stopped = 1;
}

void blob_parse(int argc, char **argv, struct blob_options *options)
{
	struct sigaction action = {.sa_handler = on_signal};
	int code;

	*options = (struct blob_options){.reliable = true,
					 .interface = "127.0.0.1",
					 .depth = 64,
					 .nack_delay_ms = 100,
					 .timeout_s = 60};
	while ((code = getopt_long(argc, argv, "", long_options, NULL)) != -1)
		take_option(code, options, argv[0]);
	if (argc - optind != 1 || !options->topic || options->size_count == 0 || options->depth < 1)
		wrong("expected one word, --topic and --sizes, at", argv[argc - 1]);
	options->publish = strcmp(argv[optind], "pub") == 0;
	if (!options->publish && strcmp(argv[optind], "sub") != 0)
		wrong("expected pub or sub, not", argv[optind]);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
}

bool blob_stopped(void)
{
	return stopped;
}

int64_t blob_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void blob_sleep(double seconds)
{
	struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};

	if (!stopped)
		nanosleep(&t, NULL);
}

uint8_t *blob_pattern(const struct blob_options *options)
{
	uint8_t *bytes = malloc(options->size_max + 1);

	if (!bytes)
		exit(3);
	for (uint32_t i = 0; i <= options->size_max; i++)
		bytes[i] = (uint8_t)(31 * i + 7);
	return bytes;
}

void blob_print_sample(const struct blob_options *options, const uint8_t *pattern, const void *data,
		       uint32_t bytes)
{
	bool exact =
		bytes <= options->size_max && (bytes == 0 || memcmp(data, pattern, bytes) == 0);

	printf("{\"event\":\"sample\",\"bytes\":%u,\"exact\":%s}\n", bytes,
	       exact ? "true" : "false");
	fflush(stdout);
}

int blob_print_done(int samples, bool timed_out, int64_t begun_ns)
{
	long long ms = begun_ns ? (blob_now_ns() - begun_ns) / 1000000 : 0;

	printf("{\"event\":\"done\",\"timed_out\":%s,\"samples\":%d,\"ms\":%lld}\n",
	       timed_out ? "true" : "false", samples, ms);
	fflush(stdout);
	return timed_out ? 1 : 0;
}
