/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Apus with the peers' command line and output (peer.h), for cases that compare what each side reports of the same
 * QoS. Statuses come from listeners, called by apus_participant_dispatch().
 */
#include "peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <apus/apus.h>

#define MS INT64_C(1000000)

struct peer {
	const struct peer_options *options;
	struct apus_participant *participant;
	struct apus_writer *writer;
	struct apus_reader *reader;
	int64_t give_up_ns;
	int current, samples, not_alive;
	bool changed; /* the deadline */
	struct peer_status now, status;
};

static int must(int result, const char *what)
{
	if (result < 0) {
		fprintf(stderr, "peer-apus: %s: %s\n", what, apus_strerror(result));
		exit(3);
	}
	return result;
}

/* --- statuses ------------------------------------------------------------------------------------ */

static void on_matched(struct peer *p, const struct apus_matched_status *m)
{
	p->current = (int)m->current;
	peer_print_matched((int)m->current, (int)m->total);
}

static void on_publication_matched(struct apus_writer *w, const struct apus_matched_status *m,
				   void *user)
{
	(void)w;
	on_matched(user, m);
}

static void on_subscription_matched(struct apus_reader *r, const struct apus_matched_status *m,
				    void *user)
{
	(void)r;
	on_matched(user, m);
}

static void on_offered(struct apus_writer *w, const struct apus_incompatible_status *s, void *user)
{
	(void)w;
	(void)user;
	peer_print_incompatible(s->last_policy, (int)s->total);
}

static void on_requested(struct apus_reader *r, const struct apus_incompatible_status *s,
			 void *user)
{
	(void)r;
	(void)user;
	peer_print_incompatible(s->last_policy, (int)s->total);
}

static void on_offered_missed(struct apus_writer *w, const struct apus_deadline_status *s,
			      void *user)
{
	(void)w;
	((struct peer *)user)->now.deadline = (int)s->total;
}

static void on_requested_missed(struct apus_reader *r, const struct apus_deadline_status *s,
				void *user)
{
	(void)r;
	((struct peer *)user)->now.deadline = (int)s->total;
}

static void on_lost(struct apus_writer *w, const struct apus_liveliness_lost_status *s, void *user)
{
	(void)w;
	((struct peer *)user)->now.lost = (int)s->total;
}

static void on_liveliness(struct apus_reader *r, const struct apus_liveliness_status *s, void *user)
{
	struct peer *p = user;

	(void)r;
	p->now.alive = (int)s->alive;
	p->now.not_alive = (int)s->not_alive;
}

static void poll_status(struct peer *p)
{
	apus_participant_dispatch(p->participant);
	peer_print_status(&p->now, &p->status);
}

/* --- opening ------------------------------------------------------------------------------------- */

static void set_qos(const struct peer_options *o, struct apus_qos *q)
{
	if (o->publish)
		apus_qos_writer_default(q);
	else
		apus_qos_reader_default(q);
	q->reliability = o->reliable ? APUS_RELIABLE : APUS_BEST_EFFORT;
	q->durability = o->transient_local ? APUS_TRANSIENT_LOCAL : APUS_VOLATILE;
	q->history = o->keep_all ? APUS_KEEP_ALL : APUS_KEEP_LAST;
	q->depth = (uint32_t)o->depth;
	q->ownership = o->exclusive ? APUS_EXCLUSIVE : APUS_SHARED;
	q->strength = o->publish ? o->strength : 0;
	q->liveliness = (uint8_t)o->liveliness;
	q->destination_order = o->by_source ? APUS_BY_SOURCE : APUS_BY_RECEPTION;
	q->latency_budget_ns = o->latency_ms * MS;
	q->partitions = o->partitions;
	q->partition_count = (uint32_t)o->partition_count;
	if (o->deadline_ms)
		q->deadline_ns = o->deadline_ms * MS;
	if (o->lifespan_ms)
		q->lifespan_ns = o->lifespan_ms * MS;
	if (o->live_ms)
		q->lease_ns = o->live_ms * MS;
}

static void open_participant(struct peer *p)
{
	const struct peer_options *o = p->options;
	struct apus_config *c = apus_config_create();
	char domain[16], text[32], why[256] = "";

	snprintf(domain, sizeof(domain), "%d", o->domain);
	must(apus_config_set(c, "domain", domain, why, sizeof(why)), why);
	must(apus_config_set(c, "interfaces", o->interface, why, sizeof(why)), why);
	must(apus_config_set(c, "worker.idle", "block", why, sizeof(why)), why);
	if (o->lease_s > 0) {
		snprintf(text, sizeof(text), "%.0fms", o->lease_s * 1e3);
		must(apus_config_set(c, "lease", text, why, sizeof(why)), why);
		snprintf(text, sizeof(text), "%.0fms", o->lease_s * 1e3 / 3);
		must(apus_config_set(c, "announce.period", text, why, sizeof(why)), why);
	}
	must(apus_participant_create(c, &p->participant, why, sizeof(why)), why);
	apus_config_destroy(c);
}

static void open_peer(struct peer *p)
{
	struct apus_listener l = {
		.user = p,
		.on_offered_incompatible_qos = on_offered,
		.on_publication_matched = on_publication_matched,
		.on_liveliness_lost = on_lost,
		.on_offered_deadline_missed = on_offered_missed,
		.on_requested_incompatible_qos = on_requested,
		.on_subscription_matched = on_subscription_matched,
		.on_liveliness_changed = on_liveliness,
		.on_requested_deadline_missed = on_requested_missed,
	};

	open_participant(p);
	must(apus_participant_set_listener(p->participant, &l), "listener");
}

static void open_endpoint(struct peer *p)
{
	const struct peer_options *o = p->options;
	struct apus_qos qos;
	struct apus_endpoint_options e = {.topic = o->topic, .type = &apus_shape_type, .qos = &qos};

	set_qos(o, &qos);
	if (o->publish)
		must(apus_writer_create(p->participant, &e, &p->writer), "writer");
	else
		must(apus_reader_create(p->participant, &e, &p->reader), "reader");
}

/* --- working ------------------------------------------------------------------------------------- */

static bool timed_out(const struct peer *p)
{
	return peer_mono_ns() >= p->give_up_ns;
}

static void report(struct peer *p, const struct apus_sample *s)
{
	struct apus_shape shape = {0};
	struct peer_sample out = {
		.writer = s->info.writer.bytes,
		.color = shape.color,
		.valid = s->info.valid_data,
		.source_ns = s->info.source_time_ns,
	};

	apus_type_decode(&apus_shape_type, s->payload, s->payload_bytes, !s->info.valid_data,
			 &shape, NULL, 0);
	out.x = shape.x, out.y = shape.y, out.shapesize = shape.shapesize;
	out.state = s->info.valid_data || s->info.instance_state == APUS_STATE_ALIVE ? "alive"
		    : s->info.instance_state == APUS_STATE_DISPOSED                  ? "disposed"
										     : "no_writers";
	peer_print_sample(&out);
	*(s->info.valid_data ? &p->samples : &p->not_alive) += 1;
}

static void change_deadline(struct peer *p)
{
	struct apus_qos qos;

	if (!p->options->later_deadline_ms || p->changed || p->samples == 0)
		return;
	p->changed = true;
	must(p->writer ? apus_writer_qos(p->writer, &qos, NULL, 0)
		       : apus_reader_qos(p->reader, &qos, NULL, 0),
	     "QoS");
	qos.deadline_ns = p->options->later_deadline_ms * MS;
	must(p->writer ? apus_writer_set_qos(p->writer, &qos, NULL)
		       : apus_reader_set_qos(p->reader, &qos, NULL),
	     "change of QoS");
}

static int subscribe(struct peer *p)
{
	const struct peer_options *o = p->options;
	int64_t linger_until = 0;
	struct apus_sample s;

	while (!peer_stopped()) {
		apus_reader_wait(p->reader, 5 * MS);
		while (apus_take(p->reader, &s, 1, NULL) == 1) {
			report(p, &s);
			apus_return(p->reader, &s, 1);
		}
		change_deadline(p);
		poll_status(p);
		if (o->count && p->samples >= o->count && p->not_alive >= o->not_alive &&
		    !linger_until)
			linger_until = peer_mono_ns() + (int64_t)(o->linger_s * 1e9);
		if (linger_until && peer_mono_ns() >= linger_until)
			break;
		if (!linger_until && timed_out(p))
			return peer_print_done(p->samples, true, false);
	}
	return peer_print_done(p->samples, false, false);
}

static int join_repeatedly(struct peer *p)
{
	int code = 0;

	for (int n = 1; n <= p->options->joins && code == 0 && !peer_stopped(); n++) {
		peer_join(p->options, n);
		open_endpoint(p);
		p->samples = 0;
		p->give_up_ns = peer_mono_ns() + (int64_t)(p->options->timeout_s * 1e9);
		code = subscribe(p);
		apus_reader_destroy(p->reader);
	}
	return code;
}

static void write_samples(struct peer *p)
{
	const struct peer_options *o = p->options;
	int64_t next_ns = peer_mono_ns();

	for (int n = 1; (!o->count || n <= o->count) && !peer_stopped() && !timed_out(p); n++) {
		struct apus_shape shape = {
			.x = peer_x(o, n), .y = 2 * peer_x(o, n), .shapesize = o->size};

		snprintf(shape.color, sizeof(shape.color), "%s", peer_color(o, n));
		must(apus_write(p->writer, &shape), "write");
		p->samples++;
		change_deadline(p);
		poll_status(p);
		if (o->rate_hz > 0) {
			next_ns += (int64_t)(1e9 / o->rate_hz);
			peer_sleep_until(next_ns);
		}
	}
}

static int publish(struct peer *p)
{
	const struct peer_options *o = p->options;
	int64_t linger_until, assert_until, pause_ms = o->assert_ms ? o->assert_ms : 5;
	bool acknowledged = false;

	while (apus_writer_matched(p->writer) < (uint32_t)o->wait_matched) {
		poll_status(p);
		if (peer_stopped() || timed_out(p))
			return peer_print_done(0, !peer_stopped(), false);
		peer_sleep_until(peer_mono_ns() + MS);
	}
	peer_settle(o);
	write_samples(p);
	if (o->reliable)
		acknowledged = apus_writer_wait_acked(p->writer, 5000 * MS) == 0;
	linger_until = peer_mono_ns() + (int64_t)(o->linger_s * 1e9);
	assert_until = peer_mono_ns() + (int64_t)(o->linger_s * 0.5e9);
	while (!peer_stopped() && peer_mono_ns() < linger_until) {
		if (o->assert_ms && peer_mono_ns() < assert_until)
			apus_writer_assert_liveliness(p->writer);
		poll_status(p);
		peer_sleep_until(peer_mono_ns() + pause_ms * MS);
	}
	return peer_print_done(p->samples, false, acknowledged);
}

int main(int argc, char **argv)
{
	struct peer_options options;
	struct peer p = {.options = &options};
	int code;

	peer_parse(argc, argv, &options);
	peer_catch_signals();
	open_peer(&p);
	if (!options.joins)
		open_endpoint(&p);
	p.give_up_ns = peer_mono_ns() + (int64_t)(options.timeout_s * 1e9);
	peer_print_ready(&options, "apus");
	code = options.publish ? publish(&p) : options.joins ? join_repeatedly(&p) : subscribe(&p);
	apus_participant_destroy(p.participant);
	return code;
}
