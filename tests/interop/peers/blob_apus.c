/* SPDX-License-Identifier: Apache-2.0 */
/* Apus publisher or subscriber of Blob; command line and output in blob.h. */
#include "blob.h"

#include <apus/apus.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(int result, const char *what)
{
	if (result >= 0)
		return;
	fprintf(stderr, "blob-apus: %s: %s\n", what, apus_strerror(result));
	exit(3);
}

static struct apus_participant *join(const struct blob_options *o)
{
	struct apus_config *config = apus_config_create();
	struct apus_participant *participant;
	char domain[16], why[256] = "";

	snprintf(domain, sizeof(domain), "%d", o->domain);
	must(apus_config_set(config, "domain", domain, NULL, 0), "domain");
	for (int i = 0; i < o->setting_count; i++) {
		char *key = strdup(o->settings[i]), *value = key ? strchr(key, '=') : NULL;

		if (!value)
			exit(2);
		*value++ = '\0';
		must(apus_config_set(config, key, value, why, sizeof(why)), why);
		free(key);
	}
	must(apus_participant_create(config, &participant, why, sizeof(why)), why);
	apus_config_destroy(config);
	return participant;
}

static void make_qos(const struct blob_options *o, struct apus_qos *qos)
{
	if (o->publish)
		apus_qos_writer_default(qos);
	else
		apus_qos_reader_default(qos);
	qos->reliability = o->reliable ? APUS_RELIABLE : APUS_BEST_EFFORT;
	qos->history = o->reliable ? APUS_KEEP_ALL : APUS_KEEP_LAST;
	qos->depth = o->reliable ? 1 : (uint32_t)o->depth;
	qos->max_samples = qos->max_samples_per_instance = (uint32_t)o->depth;
	qos->max_instances = 2;
	qos->max_sample_bytes = (o->size_max + BLOB_OVERHEAD_BYTES + 3) & ~3u;
	qos->max_blocking_ns = (int64_t)((o->blocking_s > 0 ? o->blocking_s : o->timeout_s) * 1e9);
}

static void print_stat(const struct apus_stat *stat, void *user)
{
	(void)user;
	printf("{\"event\":\"stat\",\"name\":\"%s\",\"value\":%llu}\n", stat->name,
	       (unsigned long long)stat->value);
}

/* How long writes took that ended, and how many were refused because the history stayed full. */
static struct {
	int64_t longest_ns;
	int refused;
} blocked;

/* Writes one sample; with --blocking as often as it takes. */
static void write_one(const struct blob_options *o, struct apus_writer *writer,
		      const struct apus_blob *blob, int64_t give_up_ns)
{
	int rc;

	do {
		int64_t begun_ns = blob_now_ns(), took_ns;

		rc = apus_write(writer, blob);
		took_ns = blob_now_ns() - begun_ns;
		if (took_ns > blocked.longest_ns)
			blocked.longest_ns = took_ns;
		blocked.refused += rc == APUS_ETIMEDOUT;
	} while (rc == APUS_ETIMEDOUT && o->blocking_s > 0 && blob_now_ns() < give_up_ns &&
		 !blob_stopped());
	must(rc, "write");
}

static int publish(const struct blob_options *o, struct apus_participant *participant,
		   const struct apus_endpoint_options *options)
{
	int64_t give_up_ns = blob_now_ns() + (int64_t)(o->timeout_s * 1e9), begun_ns;
	uint8_t *pattern = blob_pattern(o);
	struct apus_writer *writer;
	bool acked = !o->reliable;
	int code;

	must(apus_writer_create(participant, options, &writer), "writer");
	if (apus_writer_wait_matched(writer, 1, (int64_t)(o->timeout_s * 1e9)) != 0)
		return blob_print_done(0, true, 0);
	blob_sleep(0.5); /* the other side may learn of the match later */
	begun_ns = blob_now_ns();
	for (int i = 0; i < o->size_count && !blob_stopped(); i++) {
		struct apus_blob blob = {1, {o->sizes[i], o->sizes[i], pattern}};

		write_one(o, writer, &blob, give_up_ns);
		if (o->rate_hz > 0)
			blob_sleep(1 / o->rate_hz);
	}
	while (!acked && !blob_stopped() && blob_now_ns() < give_up_ns)
		acked = apus_writer_wait_acked(writer, 100000000) == 0;
	code = blob_print_done(o->size_count, !acked, begun_ns);
	printf("{\"event\":\"blocked\",\"refused\":%d,\"longest_us\":%lld}\n", blocked.refused,
	       (long long)(blocked.longest_ns / 1000));
	blob_sleep(o->linger_s);
	apus_visit_writer_stats(writer, print_stat, NULL);
	apus_visit_stats(participant, print_stat, NULL);
	return code;
}

/* Prints one sample: kid at 4, length at 8, data at 12 of the payload, in the writer's byte order. */
static void print_taken(const struct blob_options *o, const uint8_t *pattern,
			const struct apus_sample *s)
{
	const uint8_t *p = s->payload;
	uint32_t bytes;

	memcpy(&bytes, p + 8, 4);
	if ((p[1] & 1) == 0)
		bytes = __builtin_bswap32(bytes);
	if (s->payload_bytes < BLOB_OVERHEAD_BYTES ||
	    bytes > s->payload_bytes - BLOB_OVERHEAD_BYTES)
		bytes = UINT32_MAX; /* prints as not exact */
	blob_print_sample(o, pattern, p + BLOB_OVERHEAD_BYTES, bytes);
}

static int subscribe(const struct blob_options *o, struct apus_participant *participant,
		     const struct apus_endpoint_options *options)
{
	int64_t give_up_ns = blob_now_ns() + (int64_t)(o->timeout_s * 1e9), begun_ns = 0;
	uint8_t *pattern = blob_pattern(o);
	struct apus_reader *reader;
	int taken = 0, code;

	must(apus_reader_create(participant, options, &reader), "reader");
	while (taken < o->size_count && !blob_stopped() && blob_now_ns() < give_up_ns) {
		struct apus_sample s;

		if (apus_reader_wait(reader, 50000000) != 0 || apus_take(reader, &s, 1, NULL) != 1)
			continue;
		begun_ns = begun_ns ? begun_ns : blob_now_ns();
		if (s.info.valid_data) {
			print_taken(o, pattern, &s);
			taken++;
		}
		must(apus_return(reader, &s, 1), "return");
	}
	code = blob_print_done(taken, taken < o->size_count && !blob_stopped(), begun_ns);
	blob_sleep(o->linger_s);
	apus_visit_reader_stats(reader, print_stat, NULL);
	apus_visit_stats(participant, print_stat, NULL);
	return code;
}

int main(int argc, char **argv)
{
	static struct blob_options o;
	struct apus_endpoint_options options = {.type = &apus_blob_type};
	struct apus_participant *participant;
	struct apus_qos qos;
	int code;

	blob_parse(argc, argv, &o);
	make_qos(&o, &qos);
	options.topic = o.topic;
	options.qos = &qos;
	participant = join(&o);
	code = o.publish ? publish(&o, participant, &options)
			 : subscribe(&o, participant, &options);
	apus_participant_destroy(participant);
	return code;
}
