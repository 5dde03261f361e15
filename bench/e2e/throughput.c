/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One-way streams between two processes over UDP on 127.0.0.1: how many samples a second arrive, by Apus's
 * public API, by plain sockets, which carry the same samples and do nothing else, and with --peers by Cyclone
 * DDS, Fast DDS and ZeroMQ.
 *
 * Plain sockets come twice: a system call for each datagram (what one apus_write() after another can come
 * near), and bursts of sendmmsg and recvmmsg (a ceiling: nobody delays or repairs anything). Samples above
 * PIECE_BYTES go in pieces. Unreliable senders do not wait for the receiver, so what the socket buffer cannot
 * hold is lost and shown; a reliable writer is held back by its history. Both processes are pinned; ours and
 * plain sockets poll, the peers have threads of their own and are left alone with the core. Variants take
 * turns in rounds.
 */
#include "common.h"
#include "peer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BURST              64
#define HISTORY            1024        /* samples a writer and a reader keep … */
#define HISTORY_BATCH      8192        /* … in batches … */
#define HISTORY_BYTES      (32u << 20) /* … and at most so many bytes of them */
#define BATCH_BYTES        16384
#define MANY               256
#define PIECE_BYTES        60000 /* of what plain sockets send */
#define BATCHED_MAX        1024  /* larger samples are not batched */
#define LENT_MIN           4096  /* smaller samples are not lent */
#define POLL_EVERY         8     /* writes between two turns of the writer's worker */
#define POLL_EVERY_BATCHED 256
#define MATCH_NS           (10 * NS_PER_SEC)
#define DRAIN_NS           (50 * NS_PER_MS)
#define RECEIVE_BYTES      (1 << 20) /* as socket.receive_bytes of a participant */

enum kind {
	PLAIN_BURST,
	PLAIN_SINGLE,
	BEST_EFFORT,
	RELIABLE,
	BATCH_BEST_EFFORT,
	BATCH_RELIABLE,
	MANY_RELIABLE,
	LENT_BEST_EFFORT,
	LENT_RELIABLE,
	CYCLONE_BEST_EFFORT,
	CYCLONE_RELIABLE,
	CYCLONE_BATCH_BEST_EFFORT,
	CYCLONE_BATCH,
	FASTDDS_BEST_EFFORT,
	FASTDDS_RELIABLE,
	ZEROMQ_TCP,
	KINDS
};

enum stack { PLAIN, APUS, CYCLONE, FASTDDS, ZEROMQ };

static const struct {
	const char *name;
	enum stack stack;
	bool reliable, batch;
} kinds[KINDS] = {
	[PLAIN_BURST] = {"plain_burst", PLAIN, false, false},
	[PLAIN_SINGLE] = {"plain_single", PLAIN, false, false},
	[BEST_EFFORT] = {"best_effort", APUS, false, false},
	[RELIABLE] = {"reliable", APUS, true, false},
	[BATCH_BEST_EFFORT] = {"best_effort_batched", APUS, false, true},
	[BATCH_RELIABLE] = {"reliable_batched", APUS, true, true},
	[MANY_RELIABLE] = {"reliable_many", APUS, true, true},
	[LENT_BEST_EFFORT] = {"best_effort_lent", APUS, false, false},
	[LENT_RELIABLE] = {"reliable_lent", APUS, true, false},
	[CYCLONE_BEST_EFFORT] = {"cyclone_best_effort", CYCLONE, false, false},
	[CYCLONE_RELIABLE] = {"cyclone_reliable", CYCLONE, true, false},
	[CYCLONE_BATCH_BEST_EFFORT] = {"cyclone_best_effort_batched", CYCLONE, false, true},
	[CYCLONE_BATCH] = {"cyclone_reliable_batched", CYCLONE, true, true},
	[FASTDDS_BEST_EFFORT] = {"fastdds_best_effort", FASTDDS, false, false},
	[FASTDDS_RELIABLE] = {"fastdds_reliable", FASTDDS, true, false},
	[ZEROMQ_TCP] = {"zeromq_tcp", ZEROMQ, true, false},
};

enum { ORDER_STOP = 0xff, ORDER_MATCH = 0xfe, ORDER_REPORT = 0xfd, ORDER_LINE = 0xfc };
/* Numbers of the meeting: what the receiver reports of a block. */
enum { FAILED_MATCH, RECEIVED, ELAPSED_NS, DISORDERED };

struct count {
	uint64_t received, disordered, last;
	int64_t first_ns, last_ns;
};

struct side {
	int fd;
	struct sockaddr_in peer;
	struct apus_participant *participant;
	struct apus_writer *writer[SIZES_MAX][KINDS]; /* sender */
	struct apus_reader *reader[SIZES_MAX][KINDS]; /* receiver */
	void *peer_end[SIZES_MAX][KINDS];
	struct count count; /* of peers, whose threads have the samples */
	struct mmsghdr header[BURST];
	struct iovec iov[BURST];
	_Alignas(16) uint8_t memory[BURST * 65536];
};

struct result {
	uint64_t sent, received, disordered;
	double rate[ROUNDS_MAX]; /* samples a second received */
};

static struct sized_type types[SIZES_MAX];

static const struct peer *peer_of(enum kind kind)
{
	return kinds[kind].stack == CYCLONE   ? peer_cyclone
	       : kinds[kind].stack == FASTDDS ? peer_fastdds
	       : kinds[kind].stack == ZEROMQ  ? peer_zeromq
					      : NULL;
}

/* Filled and read where the library keeps it, as plain sockets fill and read their buffers. */
static bool is_lent(enum kind kind)
{
	return kind == LENT_BEST_EFFORT || kind == LENT_RELIABLE;
}

static bool takes_part(const struct options *o, uint32_t size, enum kind kind)
{
	if (kinds[kind].batch && o->bytes[size] > BATCHED_MAX)
		return false;
	if (is_lent(kind) && o->bytes[size] < LENT_MIN)
		return false;
	if (o->only && !strstr(kinds[kind].name, o->only))
		return false;
	if (kinds[kind].stack <= APUS)
		return true;
	return o->peers && peer_of(kind) &&
	       (o->bytes[size] == 16 || o->bytes[size] == 256 || o->bytes[size] == 4096 ||
		o->bytes[size] == 1048576);
}

static uint32_t history_of(const struct options *o, uint32_t size, enum kind kind)
{
	uint32_t n = kinds[kind].batch ? HISTORY_BATCH : HISTORY;

	return n <= HISTORY_BYTES / o->bytes[size] ? n : HISTORY_BYTES / o->bytes[size];
}

/* ---- opening ---- */

static void init_side(struct side *s, const struct options *o, uint16_t *port_out)
{
	s->fd = open_socket(RECEIVE_BYTES, port_out);
	for (int i = 0; i < BURST; i++) {
		s->iov[i].iov_base = s->memory + (size_t)i * 65536;
		s->header[i].msg_hdr.msg_iov = &s->iov[i];
		s->header[i].msg_hdr.msg_iovlen = 1;
	}
	memset(s->memory, 1, sizeof(s->memory)); /* first touch */
	s->participant = open_participant(o->domain, o->transport, NULL);
}

static struct apus_qos qos_of(const struct options *o, uint32_t size, enum kind kind,
			      bool is_writer)
{
	struct apus_qos q;

	if (is_writer)
		apus_qos_writer_default(&q);
	else
		apus_qos_reader_default(&q);
	q.reliability = kinds[kind].reliable ? APUS_RELIABLE : APUS_BEST_EFFORT;
	q.history = APUS_KEEP_ALL;
	q.max_samples = q.max_samples_per_instance = history_of(o, size, kind);
	q.max_sample_bytes = o->bytes[size] + 8;
	q.max_blocking_ns = NS_PER_SEC;
	if (is_writer && kinds[kind].batch && kind != MANY_RELIABLE) {
		q.batch_bytes = BATCH_BYTES;
		q.batch_delay_ns = NS_PER_MS;
	}
	return q;
}

static void note(struct count *c, const void *sample)
{
	uint64_t number;

	memcpy(&number, sample, sizeof(number));
	c->disordered += number <= c->last;
	c->last = number;
	c->received++;
}

static void note_of_peer(void *user, const void *sample)
{
	struct count *c = &((struct side *)user)->count;

	note(c, sample);
	/* The clock now and then: it stands for the time of the last sample. */
	if (c->received % 64 == 1 || c->received < 64)
		c->last_ns = now_ns();
	if (c->received == 1)
		c->first_ns = c->last_ns;
}

static void open_one(struct side *s, const struct options *o, uint32_t size, enum kind kind,
		     bool sender)
{
	struct apus_qos q = qos_of(o, size, kind, sender);
	struct peer_options p = {.domain = o->domain + kinds[kind].stack,
				 .writer = sender,
				 .reliable = kinds[kind].reliable,
				 .batch = kinds[kind].batch,
				 .bytes = o->bytes[size],
				 .history = history_of(o, size, kind),
				 .on_sample = note_of_peer,
				 .user = s};
	char name[32];

	snprintf(name, sizeof(name), "bench_stream_%d", kind);
	if (kinds[kind].stack == APUS && sender)
		s->writer[size][kind] =
			open_writer(s->participant, name, &types[size], o->bytes[size], &q);
	else if (kinds[kind].stack == APUS)
		s->reader[size][kind] =
			open_reader(s->participant, name, &types[size], o->bytes[size], &q);
	else
		s->peer_end[size][kind] = peer_of(kind)->open(&p);
	if (kinds[kind].stack > APUS && !s->peer_end[size][kind])
		die("a peer cannot be opened");
}

static void open_endpoints(struct side *s, const struct options *o, bool sender)
{
	for (uint32_t i = 0; i < o->size_count; i++)
		for (int kind = BEST_EFFORT; kind < KINDS; kind++)
			if (takes_part(o, i, kind))
				open_one(s, o, i, kind, sender);
}

static bool await_match(struct side *s, uint32_t size, enum kind kind, bool sender)
{
	int64_t end = now_ns() + MATCH_NS;

	if (kinds[kind].stack == APUS)
		return (sender ? apus_writer_wait_matched(s->writer[size][kind], 1, MATCH_NS)
			       : apus_reader_wait_matched(s->reader[size][kind], 1, MATCH_NS)) == 0;
	while (!peer_of(kind)->matched(s->peer_end[size][kind])) {
		if (now_ns() > end)
			return false;
		apus_worker_poll(s->participant, 0);
		usleep(1000);
	}
	return true;
}

/* False if some endpoint found no counterpart in time. */
static bool await_matches(struct side *s, const struct options *o, bool sender)
{
	bool all = true;

	for (uint32_t i = 0; i < o->size_count; i++)
		for (int kind = BEST_EFFORT; kind < KINDS; kind++)
			if (takes_part(o, i, kind))
				all = all && await_match(s, i, kind, sender);
	return all;
}

/* ---- sending; each returns how many samples it has sent ---- */

/* A sample above PIECE_BYTES in pieces of a datagram each; only the first has the number. */
static uint64_t send_pieces(struct side *s, uint32_t bytes, uint64_t number)
{
	uint32_t n = 0;

	for (uint32_t at = 0; at < bytes; at += PIECE_BYTES, n++) {
		uint64_t mark = at == 0 ? number : 0;

		memcpy(s->iov[n].iov_base, &mark, sizeof(mark));
		s->iov[n].iov_len = bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES;
		s->header[n].msg_hdr.msg_name = &s->peer;
		s->header[n].msg_hdr.msg_namelen = sizeof(s->peer);
	}
	return sendmmsg(s->fd, s->header, n, 0) == (int)n;
}

static uint64_t send_burst(struct side *s, uint32_t bytes, uint64_t number)
{
	int sent;

	if (bytes > PIECE_BYTES)
		return send_pieces(s, bytes, number);
	for (int i = 0; i < BURST; i++) {
		uint64_t n = number + (uint64_t)i;

		memcpy(s->iov[i].iov_base, &n, sizeof(n));
		s->iov[i].iov_len = bytes;
		s->header[i].msg_hdr.msg_name = &s->peer;
		s->header[i].msg_hdr.msg_namelen = sizeof(s->peer);
	}
	sent = sendmmsg(s->fd, s->header, BURST, 0);
	return sent > 0 ? (uint64_t)sent : 0;
}

static uint64_t send_single(struct side *s, uint32_t bytes, uint64_t number)
{
	if (bytes > PIECE_BYTES)
		return send_pieces(s, bytes, number);
	memcpy(s->memory, &number, sizeof(number));
	return sendto(s->fd, s->memory, bytes, 0, (struct sockaddr *)&s->peer, sizeof(s->peer)) > 0;
}

static uint64_t send_apus(struct side *s, struct apus_writer *writer, uint64_t number,
			  uint32_t poll_every)
{
	int rc;

	memcpy(s->memory, &number, sizeof(number));
	rc = apus_write(writer, s->memory);
	errno = 0;
	if (rc != 0)
		die(apus_strerror(rc));
	if (number % poll_every == 0)
		apus_worker_poll(s->participant, 0);
	return 1;
}

static uint64_t send_lent(struct side *s, struct apus_writer *writer, uint64_t number)
{
	void *sample;
	int rc = apus_loan(writer, &sample);

	if (rc == 0) {
		memcpy(sample, &number, sizeof(number));
		rc = apus_write_loaned(writer, sample);
	}
	errno = 0;
	if (rc != 0)
		die(apus_strerror(rc));
	if (number % POLL_EVERY == 0)
		apus_worker_poll(s->participant, 0);
	return 1;
}

static uint64_t send_many(struct side *s, struct apus_writer *writer, uint32_t bytes,
			  uint64_t number)
{
	int sent;

	for (uint32_t i = 0; i < MANY; i++) {
		uint64_t n = number + i;

		memcpy(s->memory + (size_t)i * bytes, &n, sizeof(n));
	}
	sent = apus_write_many(writer, s->memory, MANY);
	errno = 0;
	if (sent < 0)
		die(apus_strerror(sent));
	apus_worker_poll(s->participant, 0);
	return (uint64_t)sent;
}

static uint64_t send_peer(struct side *s, uint32_t size, enum kind kind, uint64_t number)
{
	memcpy(s->memory, &number, sizeof(number));
	return peer_of(kind)->write(s->peer_end[size][kind], s->memory);
}

static uint64_t send_some(struct side *s, const struct options *o, uint32_t variant,
			  uint64_t number)
{
	uint32_t size = variant / KINDS;
	enum kind kind = (enum kind)(variant % KINDS);

	switch (kind) {
	case PLAIN_BURST: return send_burst(s, o->bytes[size], number);
	case PLAIN_SINGLE: return send_single(s, o->bytes[size], number);
	case MANY_RELIABLE: return send_many(s, s->writer[size][kind], o->bytes[size], number);
	case LENT_BEST_EFFORT:
	case LENT_RELIABLE: return send_lent(s, s->writer[size][kind], number);
	default: break;
	}
	if (kinds[kind].stack > APUS)
		return send_peer(s, size, kind, number);
	return send_apus(s, s->writer[size][kind], number,
			 kinds[kind].batch ? POLL_EVERY_BATCHED : POLL_EVERY);
}

/* What is on its way may arrive; a reliable writer knows when it has. */
static void drain(struct side *s, uint32_t variant)
{
	enum kind kind = (enum kind)(variant % KINDS);
	struct apus_writer *writer = s->writer[variant / KINDS][kind];
	int64_t end = now_ns() + DRAIN_NS;

	if (kinds[kind].stack == APUS) {
		apus_writer_flush(writer);
		if (kinds[kind].reliable && apus_writer_wait_acked(writer, 2 * NS_PER_SEC) != 0)
			fprintf(stderr, "%s: not everything was acknowledged\n", program_name);
	} else if (kinds[kind].stack > APUS) {
		peer_of(kind)->drain(s->peer_end[variant / KINDS][kind]);
	}
	while (now_ns() < end)
		usleep(1000);
}

/* *took_ns: how long it sent, without what it waited for afterwards. */
static uint64_t send_block(struct side *s, const struct options *o, uint32_t variant,
			   int64_t duration_ns, int64_t *took_ns)
{
	int64_t begun = now_ns(), end = begun + duration_ns;
	uint64_t sent = 0;

	/* Numbers begin at 1; the clock is looked at now and then only. */
	do {
		for (int i = 0; i < 16; i++)
			sent += send_some(s, o, variant, sent + 1);
	} while (now_ns() < end);
	*took_ns = now_ns() - begun;
	drain(s, variant);
	return sent;
}

/* ---- receiving ---- */

/* A sample in pieces counts when its last, short piece comes. */
static void note_piece(struct count *c, const uint8_t *piece, uint32_t length, uint32_t bytes)
{
	if (bytes <= PIECE_BYTES)
		note(c, piece);
	else if (length < PIECE_BYTES)
		c->received++;
}

static void receive_burst(struct side *s, uint32_t bytes, struct count *c)
{
	int n;

	for (int i = 0; i < BURST; i++) {
		s->iov[i].iov_len = bytes < PIECE_BYTES ? bytes : PIECE_BYTES;
		s->header[i].msg_hdr.msg_name = NULL;
		s->header[i].msg_hdr.msg_namelen = 0;
	}
	n = recvmmsg(s->fd, s->header, BURST, MSG_DONTWAIT, NULL);
	for (int i = 0; i < n; i++)
		note_piece(c, s->iov[i].iov_base, s->header[i].msg_len, bytes);
}

static void receive_single(struct side *s, uint32_t bytes, struct count *c)
{
	ssize_t n = recv(s->fd, s->memory, bytes < PIECE_BYTES ? bytes : PIECE_BYTES, 0);

	if (n > 0)
		note_piece(c, s->memory, (uint32_t)n, bytes);
}

static void note_sample(struct side *s, const struct apus_reader *reader,
			const struct apus_sample *sample, const struct apus_type *type, bool lent,
			struct count *c)
{
	const void *image = lent ? apus_sample_image(reader, sample) : NULL;

	if (image)
		note(c, image);
	else if (apus_type_decode(type, sample->payload, sample->payload_bytes, false, s->memory,
				  NULL, 0) == 0)
		note(c, s->memory);
}

static void receive_apus(struct side *s, struct apus_reader *reader, const struct apus_type *type,
			 bool lent, struct count *c)
{
	struct apus_sample samples[BURST];
	int n;

	if (apus_worker_poll(s->participant, 0) <= 0)
		return;
	while ((n = apus_take(reader, samples, BURST, NULL)) > 0) {
		for (int i = 0; i < n; i++)
			note_sample(s, reader, &samples[i], type, lent, c);
		apus_return(reader, samples, (uint32_t)n);
		if (n < BURST)
			break;
	}
}

static void report_count(struct meeting *m, const struct count *c)
{
	m->number[RECEIVED] = c->received;
	m->number[DISORDERED] = c->disordered;
	m->number[ELAPSED_NS] = (uint64_t)(c->last_ns - c->first_ns);
}

/* The peer's own threads receive; this one only stays out of their way. Nothing is on its way at either end of
 * a block but what a peer still has when it ends, and that is lost. */
static void receive_peer(struct side *s, struct meeting *m, uint32_t order)
{
	s->count = (struct count){0};
	while (order_stands(m, order))
		usleep(1000);
	report_count(m, &s->count);
}

static void receive_block(struct side *s, struct meeting *m, const struct options *o,
			  uint32_t order)
{
	uint32_t variant = order & 0xff, size = variant / KINDS;
	enum kind kind = (enum kind)(variant % KINDS);
	struct count c = {0};

	if (kinds[kind].stack > APUS) {
		receive_peer(s, m, order);
		return;
	}
	while (order_stands(m, order)) {
		uint64_t before = c.received;

		if (kind == PLAIN_BURST)
			receive_burst(s, o->bytes[size], &c);
		else if (kind == PLAIN_SINGLE)
			receive_single(s, o->bytes[size], &c);
		else
			receive_apus(s, s->reader[size][kind], &types[size].type, is_lent(kind),
				     &c);
		if (c.received == before)
			continue;
		c.last_ns = now_ns();
		if (before == 0)
			c.first_ns = c.last_ns;
	}
	report_count(m, &c);
}

static void __attribute__((noreturn)) receiver_main(struct meeting *m, const struct options *o)
{
	static struct side s;
	uint32_t order = 0;

	init_side(&s, o, &m->port[1]);
	pin(o->core[1]); /* first, so that the peers' threads are there too */
	open_endpoints(&s, o, false);
	poll_while_waiting(s.participant);
	for (;;) {
		order = next_order(m, order);
		if ((order & 0xff) == ORDER_MATCH)
			m->number[FAILED_MATCH] = !await_matches(&s, o, false);
		begin_order(m, order);
		if ((order & 0xff) == ORDER_LINE)
			poll_while_waiting(NULL);
		if ((order & 0xff) == ORDER_STOP)
			break;
		if ((order & 0xff) == ORDER_LINE)
			hand_line_over(m, 1);
		else if ((order & 0xff) < ORDER_LINE)
			receive_block(&s, m, o, order);
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

static double median(const double *values, uint32_t count)
{
	double sorted[ROUNDS_MAX];

	memcpy(sorted, values, count * sizeof(*values));
	qsort(sorted, count, sizeof(*sorted), by_value);
	return sorted[count / 2];
}

static void print_row(const struct options *o, const struct result *results, uint32_t variant)
{
	const struct result *r = &results[variant];
	double rate = median(r->rate, o->rounds);
	double single = median(results[variant - variant % KINDS + PLAIN_SINGLE].rate, o->rounds);
	/* What was still on its way when a block ended arrives in the next. */
	double lost = r->sent > r->received
			      ? 100.0 * (double)(r->sent - r->received) / (double)r->sent
			      : 0;
	uint32_t bytes = o->bytes[variant / KINDS];

	if (!o->json) {
		printf("%7u  %-27s %12.0f %10.1f %9.2f %10llu   %.2f\n", bytes,
		       kinds[variant % KINDS].name, rate, rate * bytes / 1e6, lost,
		       (unsigned long long)r->disordered, single > 0 ? rate / single : 0);
		return;
	}
	printf("%s{\"bytes\":%u,\"kind\":\"%s\",\"samples_per_second\":%.0f,\"sent\":%llu,"
	       "\"received\":%llu,\"disordered\":%llu,\"ratio_to_plain_single\":%.3f}",
	       variant ? "," : "", bytes, kinds[variant % KINDS].name, rate,
	       (unsigned long long)r->sent, (unsigned long long)r->received,
	       (unsigned long long)r->disordered, single > 0 ? rate / single : 0);
}

static void print_results(const struct options *o, const struct side *s,
			  const struct result *results, const double *line_ns)
{
	print_head(
		"throughput", o, s->participant, line_ns,
		"  bytes  kind                           samples/s       MB/s    lost % disordered   "
		"of plain_single");
	for (uint32_t v = 0; v < o->size_count * KINDS; v++)
		if (takes_part(o, v / KINDS, (enum kind)(v % KINDS)))
			print_row(o, results, v);
	printf(o->json ? "]}\n" : "");
}

/* A receiver that got the first few of a stream and no more was not fast: the time is the sender's, if that is longer. */
static void collect(struct meeting *m, pid_t receiver, uint32_t order, struct result *r,
		    uint32_t round, int64_t sent_ns)
{
	uint64_t ns;

	give_order(m, receiver, order);
	ns = m->number[ELAPSED_NS] > (uint64_t)sent_ns ? m->number[ELAPSED_NS] : (uint64_t)sent_ns;
	r->received += m->number[RECEIVED];
	r->disordered += m->number[DISORDERED];
	r->rate[round] = (double)m->number[RECEIVED] * 1e9 / (double)ns;
}

static int lead(struct meeting *m, pid_t receiver, const struct options *o)
{
	static struct result results[SIZES_MAX * KINDS];
	static struct side s;
	double line_ns[ROUNDS_MAX];
	uint32_t variants = o->size_count * KINDS, serial = 0;
	int64_t block_ns, sent_ns;
	uint32_t taking_part = 0;
	bool matched;

	for (uint32_t v = 0; v < variants; v++)
		taking_part += takes_part(o, v / KINDS, (enum kind)(v % KINDS));
	block_ns = (int64_t)o->seconds * NS_PER_SEC / (o->rounds * taking_part);
	init_side(&s, o, &m->port[0]);
	pin(o->core[0]);
	open_endpoints(&s, o, true);
	matched = await_matches(&s, o, true);
	poll_while_waiting(s.participant);
	give_order(m, receiver, ++serial << 8 | ORDER_MATCH);
	poll_while_waiting(NULL);
	s.peer = loopback_address(m->port[1]);
	matched = matched && !m->number[FAILED_MATCH];
	for (uint32_t round = 0; matched && round < o->rounds; round++) {
		give_order(m, receiver, ++serial << 8 | ORDER_LINE);
		line_ns[round] = hand_line_over(m, 0);
		for (uint32_t v = 0; v < variants; v++) {
			if (!takes_part(o, v / KINDS, (enum kind)(v % KINDS)))
				continue;
			give_order(m, receiver, ++serial << 8 | v);
			results[v].sent += send_block(&s, o, v, block_ns, &sent_ns);
			collect(m, receiver, ++serial << 8 | ORDER_REPORT, &results[v], round,
				sent_ns);
		}
	}
	give_order(m, receiver, ++serial << 8 | ORDER_STOP);
	if (matched)
		print_results(o, &s, results, line_ns);
	else
		fprintf(stderr, "%s: the two participants did not find each other\n", program_name);
	apus_participant_destroy(s.participant);
	close(s.fd);
	if (await_follower(receiver) != EXIT_DONE)
		return EXIT_FAILED;
	return matched ? EXIT_DONE : EXIT_TIMED_OUT;
}

static const char usage[] =
	"usage: throughput [options]\n"
	"  --seconds N         time measured, all variants together, 1 to 3600 (default 6)\n"
	"  --rounds N          blocks of each variant, 1 to 1000 (default 3)\n"
	"  --bytes N[,N]...    sample sizes, multiples of 8 from 16 to 1048576 (default 16,256,4096)\n"
	"  --peers             Cyclone DDS, Fast DDS, ZeroMQ too, where built; 16,256,4096,1048576 bytes\n"
	"  --only TEXT         kinds with this in their name\n"
	"  --cores A,B         where the two processes run (default: the first two)\n"
	"  --transport KIND    auto, io_uring or socket (default auto)\n"
	"  --domain N          DDS domain, 0 to 232 (default 178)\n"
	"  --json              one JSON object instead of a table\n"
	"Counts samples a second of Apus beside plain sockets, on 127.0.0.1.\n"
	"Exit codes: 0 done, 1 no match in time, 2 wrong usage, 3 failure.\n";

int main(int argc, char **argv)
{
	struct options o = {.bytes = {16, 256, 4096},
			    .size_count = 3,
			    .seconds = 6,
			    .rounds = 3,
			    .domain = 178,
			    .core = {-1, -1},
			    .transport = "auto"};
	struct meeting *m;
	pid_t receiver;

	program_name = "throughput";
	parse_options(argc, argv, usage, &o);
	for (uint32_t i = 0; i < o.size_count; i++)
		sized_type_init(&types[i], o.bytes[i]);
	m = meeting_create();
	receiver = fork_follower(o.seconds * 4 + 120);
	if (receiver == 0)
		receiver_main(m, &o);
	return lead(m, receiver, &o);
}
