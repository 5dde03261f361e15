/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the three blob programs (blob-apus, blob-cyclone, blob-fastdds) share: one command line, one
 * pattern of bytes, one output format. They write or take samples of "Blob" (kid, sequence<octet>) in
 * a given list of sizes; byte i of every sample is (31 i + 7) mod 256, so that a fragment in the wrong
 * place shows. One instance, kid 1.
 *
 * Output: one JSON object a line on stdout:
 *   {"event":"sample","bytes":n,"exact":bool}               sub, one a sample
 *   {"event":"stat","name":"writer.repairs","value":n}      Apus, at the end
 *   {"event":"done","timed_out":bool,"samples":n,"ms":n}    ms from the first write or sample to the end
 * Exit codes: 0 done (also after SIGTERM), 1 timed out, 2 wrong usage, 3 the library failed.
 */
#ifndef INTEROP_BLOB_H
#define INTEROP_BLOB_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BLOB_SIZES_MAX 16384
/* Largest data member. */
#define BLOB_BYTES_MAX (51u * 1024 * 1024)
/* Encapsulation header, kid, length. */
#define BLOB_OVERHEAD_BYTES 12

/* The command line, decoded. */
struct blob_options {
	bool publish, reliable;
	const char *topic;
	const char *interface; /* IPv4 address */
	int domain;
	uint32_t sizes[BLOB_SIZES_MAX];
	int size_count;
	uint32_t size_max;
	int message_bytes; /* Fast DDS: largest datagram; 0 = its default */
	int nack_delay_ms; /* Cyclone DDS */
	int depth;         /* samples that a history holds */
	double rate_hz;    /* pub: samples a second; 0 = as fast as accepted */
	double timeout_s, linger_s;
	double blocking_s; /* Apus: max_blocking_time; refused writes are repeated. 0 = timeout_s */
	const char *settings[16]; /* Apus: KEY=VALUE */
	int setting_count;
};

/* Fills *options, or prints why not and exits with 2. Installs handlers for SIGTERM and SIGINT. */
void blob_parse(int argc, char **argv, struct blob_options *options);
bool blob_stopped(void);
/* Monotonic nanoseconds. */
int64_t blob_now_ns(void);
/* Sleeps so long, or until a signal. */
void blob_sleep(double seconds);

/* size_max bytes of the pattern; allocated once, owned by the caller until exit. */
uint8_t *blob_pattern(const struct blob_options *options);
/* Prints one taken sample. `pattern` is from blob_pattern(). */
void blob_print_sample(const struct blob_options *options, const uint8_t *pattern, const void *data,
		       uint32_t bytes);
/* Prints the last line and returns the exit code. begun_ns: 0 if nothing ever began. */
int blob_print_done(int samples, bool timed_out, int64_t begun_ns);

#ifdef __cplusplus
}
#endif

#endif
