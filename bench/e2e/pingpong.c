/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Round trips between two processes over UDP on 127.0.0.1: Apus through its public API, beside plain
 * sockets that carry the same samples and do nothing else.
 *
 * Two pinned processes, both polling; Apus's workers are driven from the same loop, as an application
 * that owns its thread would. A sample is written from a struct and read back into one on both sides of
 * both contenders. Variants take turns within each round, since the speed of a shared machine drifts;
 * each round is headed by a cache-line ping-pong that tells how it was. The figure to compare is the ratio
 * of medians of one run: absolute values and tails belong to the machine.
 */
#include "common.h"
#include "histogram.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WARM_UP         200 /* round trips of each block that are not counted */
#define GIVE_UP_NS      (100 * NS_PER_MS)
#define MATCH_NS        (10 * NS_PER_SEC)
#define POLLS_PER_CLOCK 1024

enum kind { PLAIN, BEST_EFFORT, RELIABLE, KINDS };
static const char *const kind_names[KINDS] = {"plain", "best_effort", "reliable"};

/* Orders of the leader, in the low byte; the rest makes each differ from the last. */
enum { ORDER_STOP = 0xff, ORDER_LINE = 0xfe, ORDER_MATCH = 0xfd };
/* Numbers of the meeting. */
enum { FAILED_MATCH };

struct link {
	struct apus_writer *writer;
	struct apus_reader *reader;
};

/* One process's end of everything. */
struct side {
	int fd;
	struct sockaddr_in peer;
	struct apus_participant *participant;
	struct link link[SIZES_MAX][KINDS]; /* PLAIN unused */
	_Alignas(16) uint8_t out[BYTES_MAX], in[BYTES_MAX];
};

struct result {
	struct histogram total, round;
	uint64_t lost;
	double round_p50[ROUNDS_MAX];
};

static struct sized_type types[SIZES_MAX];

/* ---- opening ---- */

static void open_links(struct side *s, const struct options *o, const char *out, const char *in)
{
	struct apus_qos w, r;

	s->participant = open_participant(o->domain, o->transport, NULL);
	for (uint32_t i = 0; i < o->size_count; i++)
		for (int kind = BEST_EFFORT; kind < KINDS; kind++) {
			apus_qos_writer_default(&w);
			apus_qos_reader_default(&r);
			w.reliability = r.reliability =
				kind == RELIABLE ? APUS_RELIABLE : APUS_BEST_EFFORT;
			s->link[i][kind].writer =
				open_writer(s->participant, out, &types[i], o->bytes[i], &w);
			s->link[i][kind].reader =
				open_reader(s->participant, in, &types[i], o->bytes[i], &r);
		}
}

/* False if some endpoint found no counterpart in time. */
static bool await_matches(struct side *s, const struct options *o)
{
	bool all = true;

	for (uint32_t i = 0; i < o->size_count; i++)
		for (int kind = BEST_EFFORT; kind < KINDS; kind++)
			all = all &&
			      apus_writer_wait_matched(s->link[i][kind].writer, 1, MATCH_NS) == 0 &&
			      apus_reader_wait_matched(s->link[i][kind].reader, 1, MATCH_NS) == 0;
	return all;
}

/* ---- plain sockets ---- */

static void plain_send(struct side *s, uint32_t bytes)
{
	sendto(s->fd, s->out, bytes, 0, (struct sockaddr *)&s->peer, sizeof(s->peer));
}

/* One look; true if a datagram came. */
static bool plain_poll(struct side *s)
{
	struct sockaddr_in from;
	socklen_t from_bytes = sizeof(from);

	return recvfrom(s->fd, s->in, sizeof(s->in), 0, (struct sockaddr *)&from, &from_bytes) > 0;
}

/* ---- Apus ---- */

static void apus_send(const struct link *l, const void *sample)
{
	int rc = apus_write(l->writer, sample);

	errno = 0;
	if (rc != 0)
		die(apus_strerror(rc));
}

/* One look: a turn of the worker and, if that did anything, the oldest sample, read into s->in. */
static bool apus_poll(struct side *s, const struct link *l, const struct sized_type *type)
{
	struct apus_sample sample;
	int rc;

	if (apus_worker_poll(s->participant, 0) <= 0 || apus_take(l->reader, &sample, 1, NULL) != 1)
		return false;
	rc = apus_type_decode(&type->type, sample.payload, sample.payload_bytes, false, s->in, NULL,
			      0);
	apus_return(l->reader, &sample, 1);
	return rc == 0;
}

/* ---- both ---- */

struct block {
	struct side *side;
	enum kind kind;
	uint32_t bytes;
	const struct link *link;
	const struct sized_type *type;
};

static struct block block_of(struct side *s, const struct options *o, uint32_t variant)
{
	uint32_t i = variant / KINDS;
	enum kind kind = (enum kind)(variant % KINDS);

	return (struct block){s, kind, o->bytes[i], &s->link[i][kind], &types[i]};
}

static inline void put(const struct block *b, const void *sample)
{
	if (b->kind == PLAIN)
		plain_send(b->side, b->bytes);
	else
		apus_send(b->link, sample);
}

static inline bool look(const struct block *b)
{
	return b->kind == PLAIN ? plain_poll(b->side) : apus_poll(b->side, b->link, b->type);
}

static uint64_t number_in(const uint8_t *sample)
{
	uint64_t number;

	memcpy(&number, sample, sizeof(number));
	return number;
}

/* Sends one sample and waits for it to come back. Returns ns, or 0 if it did not. */
static uint64_t round_trip(const struct block *b, uint64_t number)
{
	struct side *s = b->side;
	int64_t start = now_ns();

	memcpy(s->out, &number, sizeof(number));
	put(b, s->out);
	for (uint32_t polls = 1;; polls++) {
		if (look(b) && number_in(s->in) == number)
			return (uint64_t)(now_ns() - start);
		if (polls % POLLS_PER_CLOCK == 0 && now_ns() - start > GIVE_UP_NS)
			return 0;
	}
}

static void run_block(const struct block *b, int64_t duration_ns, struct result *r, uint32_t round)
{
	static uint64_t number;
	int64_t end;

	memset(&r->round, 0, sizeof(r->round));
	for (int i = 0; i < WARM_UP; i++)
		round_trip(b, ++number);
	end = now_ns() + duration_ns;
	do {
		uint64_t ns = round_trip(b, ++number);

		if (ns > 0)
			histogram_add(&r->round, ns);
		else
			r->lost++;
	} while (now_ns() < end);
	r->round_p50[round] = (double)histogram_quantile(&r->round, 0.5);
	histogram_merge(&r->total, &r->round);
}

/* ---- the echoing process ---- */

static void echo_block(const struct block *b, struct meeting *m, uint32_t order)
{
	struct side *s = b->side;

	while (order_stands(m, order)) {
		if (!look(b))
			continue;
		if (b->kind == PLAIN)
			memcpy(s->out, s->in, b->bytes);
		put(b, s->in);
	}
}

static void __attribute__((noreturn)) echo_main(struct meeting *m, const struct options *o)
{
	static struct side s;
	uint32_t order = 0;

	s.fd = open_socket(0, &m->port[1]);
	open_links(&s, o, "bench_pong", "bench_ping");
	pin(o->core[1]);
	poll_while_waiting(s.participant);
	for (;;) {
		uint32_t what;

		order = next_order(m, order);
		what = order & 0xff;
		if (what == ORDER_MATCH) {
			s.peer = loopback_address(m->port[0]);
			m->number[FAILED_MATCH] = !await_matches(&s, o);
		}
		begin_order(m, order);
		if (what == ORDER_LINE)
			poll_while_waiting(NULL);
		if (what == ORDER_STOP)
			break;
		if (what == ORDER_LINE) {
			hand_line_over(m, 1);
		} else if (what != ORDER_MATCH) {
			struct block b = block_of(&s, o, what);

			echo_block(&b, m, order);
		}
	}
	apus_participant_destroy(s.participant);
	close(s.fd);
	exit(EXIT_DONE);
}

/* ---- results ---- */

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Ratios of a variant's medians to plain sockets' of the same round, in ascending order. */
static void round_ratios(const struct result *r, const struct result *plain, uint32_t rounds,
			 double *out)
{
	for (uint32_t i = 0; i < rounds; i++)
		out[i] = plain->round_p50[i] > 0 ? r->round_p50[i] / plain->round_p50[i] : 0;
	qsort(out, rounds, sizeof(*out), by_value);
}

static void print_row(const struct options *o, const struct result *results, uint32_t variant)
{
	const struct result *r = &results[variant], *plain = &results[variant - variant % KINDS];
	const struct histogram *h = &r->total;
	double ratio[ROUNDS_MAX];
	uint64_t p50 = histogram_quantile(h, 0.5),
		 plain_p50 = histogram_quantile(&plain->total, 0.5);
	double overall = plain_p50 ? (double)p50 / (double)plain_p50 : 0;

	round_ratios(r, plain, o->rounds, ratio);
	if (!o->json) {
		printf("%6u  %-12s %7.2f %7.2f %7.2f %8.2f %9.2f %8llu %4llu   %.2f (%.2f, %.2f…%.2f)\n",
		       o->bytes[variant / KINDS], kind_names[variant % KINDS], (double)p50 / 1e3,
		       (double)histogram_quantile(h, 0.9) / 1e3,
		       (double)histogram_quantile(h, 0.99) / 1e3,
		       (double)histogram_quantile(h, 0.999) / 1e3, (double)h->max_ns / 1e3,
		       (unsigned long long)h->count, (unsigned long long)r->lost, overall,
		       ratio[o->rounds / 2], ratio[0], ratio[o->rounds - 1]);
		return;
	}
	printf("%s{\"bytes\":%u,\"kind\":\"%s\",\"count\":%llu,\"lost\":%llu,\"min_ns\":%llu,"
	       "\"p50_ns\":%llu,\"p90_ns\":%llu,\"p99_ns\":%llu,\"p999_ns\":%llu,\"max_ns\":%llu,"
	       "\"ratio_to_plain\":%.3f,\"round_ratio\":{\"median\":%.3f,\"low\":%.3f,"
	       "\"high\":%.3f},\"histogram\":",
	       variant ? "," : "", o->bytes[variant / KINDS], kind_names[variant % KINDS],
	       (unsigned long long)h->count, (unsigned long long)r->lost,
	       (unsigned long long)h->min_ns, (unsigned long long)p50,
	       (unsigned long long)histogram_quantile(h, 0.9),
	       (unsigned long long)histogram_quantile(h, 0.99),
	       (unsigned long long)histogram_quantile(h, 0.999), (unsigned long long)h->max_ns,
	       overall, ratio[o->rounds / 2], ratio[0], ratio[o->rounds - 1]);
	histogram_json(h, stdout);
	printf("}");
}

static void print_results(const struct options *o, const struct side *s,
			  const struct result *results, const double *line_ns)
{
	print_head("pingpong", o, s->participant, line_ns,
		   "round trip, us            p50     p90     p99    p99.9       max    "
		   "count lost   p50 of plain (rounds: median, range)");
	for (uint32_t v = 0; v < o->size_count * KINDS; v++)
		print_row(o, results, v);
	printf(o->json ? "]}\n" : "");
}

/* ---- the asking process ---- */

static int lead(struct meeting *m, pid_t echo, const struct options *o)
{
	static struct result results[SIZES_MAX * KINDS];
	static double line_ns[ROUNDS_MAX];
	static struct side s;
	uint32_t variants = o->size_count * KINDS, serial = 0;
	int64_t block_ns = (int64_t)o->seconds * NS_PER_SEC / (o->rounds * variants);
	bool matched;

	s.fd = open_socket(0, &m->port[0]);
	open_links(&s, o, "bench_ping", "bench_pong");
	matched = await_matches(&s, o);
	pin(o->core[0]);
	poll_while_waiting(s.participant);
	give_order(m, echo, ++serial << 8 | ORDER_MATCH);
	poll_while_waiting(NULL);
	s.peer = loopback_address(m->port[1]);
	matched = matched && !m->number[FAILED_MATCH];
	for (uint32_t round = 0; matched && round < o->rounds; round++) {
		give_order(m, echo, ++serial << 8 | ORDER_LINE);
		line_ns[round] = hand_line_over(m, 0);
		for (uint32_t v = 0; v < variants; v++) {
			struct block b = block_of(&s, o, v);

			give_order(m, echo, ++serial << 8 | v);
			run_block(&b, block_ns, &results[v], round);
		}
	}
	give_order(m, echo, ++serial << 8 | ORDER_STOP);
	if (matched)
		print_results(o, &s, results, line_ns);
	else
		fprintf(stderr, "%s: the two participants did not find each other\n", program_name);
	apus_participant_destroy(s.participant);
	close(s.fd);
	if (await_follower(echo) != EXIT_DONE)
		return EXIT_FAILED;
	return matched ? EXIT_DONE : EXIT_TIMED_OUT;
}

static const char usage[] =
	"usage: pingpong [options]\n"
	"  --seconds N         time measured, all variants together, 1 to 3600 (default 5)\n"
	"  --rounds N          blocks of each variant, 1 to 1000 (default 5)\n"
	"  --bytes N[,N]...    sample sizes, multiples of 8 from 16 to 32768 (default 64,1024)\n"
	"  --cores A,B         where the two processes run (default: the first two)\n"
	"  --transport KIND    auto, io_uring or socket (default auto)\n"
	"  --domain N          DDS domain, 0 to 232 (default 177)\n"
	"  --json              one JSON object, with full histograms, instead of a table\n"
	"Times round trips of Apus beside plain sockets, between two processes on 127.0.0.1.\n"
	"Exit codes: 0 done, 1 no match in time, 2 wrong usage, 3 failure.\n";

int main(int argc, char **argv)
{
	struct options o = {.bytes = {64, 1024},
			    .size_count = 2,
			    .seconds = 5,
			    .rounds = 5,
			    .domain = 177,
			    .core = {-1, -1},
			    .transport = "auto"};
	struct meeting *m;
	pid_t echo;

	program_name = "pingpong";
	parse_options(argc, argv, usage, &o);
	for (uint32_t i = 0; i < o.size_count; i++)
		sized_type_init(&types[i], o.bytes[i]);
	m = meeting_create();
	echo = fork_follower(o.seconds * 2 + 60);
	if (echo == 0)
		echo_main(m, &o);
	return lead(m, echo, &o);
}
