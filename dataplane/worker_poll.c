/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reception: datagrams to submessages, submessages to the endpoints they are for. Nothing a datagram says
 * is acted on unless it comes from an endpoint that one of ours is matched with; the only exception is
 * the announcement of a participant (SPDP), which goes to the stateless reader.
 */
#include "dataplane/reader.h"
#include "dataplane/shm_match.h"
#include "dataplane/worker.h"
#include "dataplane/writer.h"

#define RX_BURST 64
/* About so many bytes are taken from the queue at once: what the first level of a core's own cache and a part of
 * the second hold, with the slots they are copied into. More would be read from further away. */
#define RX_BURST_BYTES  98304
#define EID_SPDP_WRITER 0x000100c2u

/* One datagram under interpretation. */
struct context {
	struct apus_dp_worker *worker;
	const struct apus_wire_receiver *receiver;
	const struct apus_dp_addr *from;
	uint32_t credit; /* bytes of the datagram not yet credited to a participant */
	struct apus_mono now;
	bool evidence; /* matched traffic addressed to us has been seen, from: */
	struct apus_prefix evident;
	/* The writer of the latest submessage, for the next is mostly of the same. Matches change when a turn
	 * begins, not within a datagram. eid 0: none. */
	struct apus_eid writer_eid;
	struct apus_guid writer;
	struct apus_dp_reader_state *found; /* its first state */
};

/* Reports what the datagram has shown so far. A relay may speak for several participants in one. */
static void report_evidence(struct context *c, bool proved)
{
	const struct apus_dp_worker_config *config = &c->worker->config;

	if (c->evidence && config->evidence)
		config->evidence(config->control_user, &c->evident, c->credit, proved, c->now);
	else if (c->evidence)
		apus_dp_heard_note(&c->worker->heard, &c->evident, c->now);
	c->credit = 0;
	c->evidence = false;
}

static void note_evidence(struct context *c, bool proved)
{
	if (c->evidence && !apus_prefix_equal(&c->evident, &c->receiver->source))
		report_evidence(c, false);
	if (!c->evidence)
		c->evident = c->receiver->source;
	c->evidence = true;
	if (proved)
		report_evidence(c, true);
}

static struct apus_guid source_guid(const struct context *c, struct apus_eid eid)
{
	return apus_guid_make(&c->receiver->source, eid);
}

/* The next state, from `s` on, of a reader that this submessage is for. */
static struct apus_dp_reader_state *next_for(struct apus_dp_reader_state *s,
					     const struct apus_guid *writer, struct apus_eid reader)
{
	for (; s; s = s->chain_next)
		if (apus_guid_equal(&s->guid, writer) &&
		    (reader.value == 0 || s->reader->eid.value == reader.value))
			return s;
	return NULL;
}

/* Sets c->writer and c->found. */
static void find_writer(struct context *c, struct apus_eid writer)
{
	const struct apus_dp_worker *w = c->worker;

	c->writer_eid = writer;
	c->writer = source_guid(c, writer);
	c->found = next_for(w->by_writer[apus_guid_hash(&c->writer) & w->by_writer_mask],
			    &c->writer, (struct apus_eid){0});
}

/* The first state of a reader that a submessage of `writer` is for; next_for(…, &c->writer, …) goes on. */
static struct apus_dp_reader_state *first_for(struct context *c, struct apus_eid writer,
					      struct apus_eid reader)
{
	struct apus_dp_reader_state *s;

	if (c->writer_eid.value != writer.value || writer.value == 0)
		find_writer(c, writer);
	s = next_for(c->found, &c->writer, reader);
	if (s)
		note_evidence(c, false);
	else
		apus_counter_add(&c->worker->counters.rx_unmatched, 1);
	return s;
}

static void on_spdp(struct context *c, const struct apus_wire_data *data)
{
	struct apus_guid writer = source_guid(c, data->writer);
	struct apus_dp_origin origin = {c->from, c->credit, c->receiver->timestamp};

	c->credit = 0;
	for (uint32_t i = 0; i < c->worker->reader_count; i++) {
		struct apus_dp_reader *r = c->worker->readers[i];

		if (r->config.stateless)
			apus_dp_reader_stateless(r, &writer, data, &origin, c->now);
	}
}

/* SPDP comes from anybody; a Discovery Server is matched, too, and what it tells of others is heard in order. */
static bool spdp_is_matched(const struct context *c)
{
	struct apus_guid writer = source_guid(c, (struct apus_eid){EID_SPDP_WRITER});
	const struct apus_dp_worker *w = c->worker;

	return next_for(w->by_writer[apus_guid_hash(&writer) & w->by_writer_mask], &writer,
			(struct apus_eid){0}) != NULL;
}

static void on_data(struct context *c, const struct apus_wire_data *data)
{
	struct apus_dp_origin origin = {c->from, c->credit, c->receiver->timestamp};
	struct apus_dp_reader_state *s;

	if (data->writer.value == EID_SPDP_WRITER) {
		on_spdp(c, data);
		if (!spdp_is_matched(c))
			return;
	}
	for (s = first_for(c, data->writer, data->reader); s;
	     s = next_for(s->chain_next, &c->writer, data->reader))
		apus_dp_reader_data(s, data, &origin, c->now);
}

static void on_data_frag(struct context *c, const struct apus_wire_data_frag *frag)
{
	struct apus_dp_origin origin = {c->from, c->credit, c->receiver->timestamp};
	struct apus_dp_reader_state *s;

	for (s = first_for(c, frag->writer, frag->reader); s;
	     s = next_for(s->chain_next, &c->writer, frag->reader))
		apus_dp_reader_frag(s, frag, &origin, c->now);
}

static void on_heartbeat_frag(struct context *c, const struct apus_wire_heartbeat_frag *hb)
{
	struct apus_dp_reader_state *s;

	for (s = first_for(c, hb->writer, hb->reader); s;
	     s = next_for(s->chain_next, &c->writer, hb->reader))
		apus_dp_reader_heartbeat_frag(s, hb, c->now);
}

static void on_nack_frag(struct context *c, const struct apus_wire_nack_frag *nack)
{
	struct apus_guid reader = source_guid(c, nack->reader);
	struct apus_dp_writer *w = apus_dp_worker_writer(c->worker, nack->writer);

	if (w && apus_dp_writer_nack_frag(w, &reader, nack, c->now))
		note_evidence(c, false);
	else
		apus_counter_add(&c->worker->counters.rx_unmatched, 1);
}

static void on_heartbeat(struct context *c, const struct apus_wire_heartbeat *hb)
{
	const struct apus_dp_worker_config *config = &c->worker->config;
	struct apus_dp_reader_state *s;

	s = config->regressed ? first_for(c, hb->writer, hb->reader) : NULL;
	if (s && hb->last >= 0 && hb->last + 1 < s->window.next)
		config->regressed(config->control_user, &c->receiver->source, c->now);
	for (s = first_for(c, hb->writer, hb->reader); s;
	     s = next_for(s->chain_next, &c->writer, hb->reader))
		apus_dp_reader_heartbeat(s, hb, c->now);
}

static void on_gap(struct context *c, const struct apus_wire_gap *gap)
{
	struct apus_dp_reader_state *s;

	for (s = first_for(c, gap->writer, gap->reader); s;
	     s = next_for(s->chain_next, &c->writer, gap->reader))
		apus_dp_reader_gap(s, gap, c->now);
}

static void on_acknack(struct context *c, const struct apus_wire_acknack *acknack)
{
	struct apus_guid reader = source_guid(c, acknack->reader);
	struct apus_dp_writer *w = apus_dp_worker_writer(c->worker, acknack->writer);
	unsigned answer = w ? apus_dp_writer_acknack(w, &reader, acknack, c->from, c->now) : 0;

	if (answer)
		note_evidence(c, answer & APUS_DP_ANSWER_PROVED);
	else
		apus_counter_add(&c->worker->counters.rx_unmatched, 1);
}

/* Are so many submessages from somebody we hear, and to us? Counts them. */
static bool concern_us(const struct context *c, uint32_t count)
{
	struct apus_dp_worker *w = c->worker;
	const struct apus_dp_worker_config *config = &w->config;

	apus_counter_add(&w->counters.rx_submessages, count);
	if (config->may_hear &&
	    !config->may_hear(config->control_user, &c->receiver->source, c->from))
		return false;
	if (!c->receiver->has_dest || apus_prefix_equal(&c->receiver->dest, &config->prefix))
		return true;
	apus_counter_add(&w->counters.rx_other_dest, count);
	return false;
}

/* A run for one reader goes to it as a whole; several have each sample in turn, for they may share an order. */
static void on_run(struct context *c, const struct apus_wire_run *run)
{
	struct apus_dp_origin origin = {c->from, c->credit, c->receiver->timestamp};
	struct apus_dp_reader_state *s = NULL;

	if (!concern_us(c, run->count))
		return;
	if (run->writer.value != EID_SPDP_WRITER) {
		s = first_for(c, run->writer, run->reader);
		if (!s)
			apus_counter_add(&c->worker->counters.rx_unmatched, run->count - 1);
		if (!s)
			return;
	}
	if (s && !next_for(s->chain_next, &c->writer, run->reader)) {
		apus_dp_reader_run(s, run, &origin, c->now);
		return;
	}
	for (uint32_t i = 0; i < run->count; i++) {
		struct apus_wire_data data;

		apus_wire_run_data(run, i, &data);
		on_data(c, &data);
	}
}

static void on_submessage(struct context *c, const struct apus_wire_submessage *m)
{
	if (m->id == APUS_WIRE_INFO_SRC)
		c->writer_eid.value = 0; /* the next writer is another's */
	if (!concern_us(c, 1))
		return;
	switch (m->id) {
	case APUS_WIRE_DATA: on_data(c, &m->data); break;
	case APUS_WIRE_HEARTBEAT: on_heartbeat(c, &m->heartbeat); break;
	case APUS_WIRE_GAP: on_gap(c, &m->gap); break;
	case APUS_WIRE_ACKNACK: on_acknack(c, &m->acknack); break;
	case APUS_WIRE_DATA_FRAG: on_data_frag(c, &m->data_frag); break;
	case APUS_WIRE_NACK_FRAG: on_nack_frag(c, &m->nack_frag); break;
	case APUS_WIRE_HEARTBEAT_FRAG: on_heartbeat_frag(c, &m->heartbeat_frag); break;
	default: break; /* INFO_… acted on the receiver */
	}
}

void apus_dp_worker_datagram(struct apus_dp_worker *worker, const uint8_t *bytes, size_t length,
			     const struct apus_dp_addr *from, struct apus_mono now)
{
	struct apus_wire_message m;
	struct apus_wire_submessage sub;
	struct apus_wire_run run;
	struct context c = {.worker = worker,
			    .receiver = &m.receiver,
			    .from = from,
			    .credit = (uint32_t)length,
			    .now = now};
	enum apus_wire_verdict v = apus_wire_open(&m, bytes, length);

	if (v != APUS_WIRE_ACCEPT) {
		apus_counter_add(v == APUS_WIRE_SKIP ? &worker->counters.rx_not_rtps
						     : &worker->counters.rx_malformed,
				 1);
		return;
	}
	if (apus_prefix_equal(&m.receiver.source, &worker->config.prefix) &&
	    !worker->config.hear_own) {
		apus_counter_add(&worker->counters.rx_own, 1);
		return;
	}
	for (;;) {
		if (apus_wire_next_run(&m, &run)) {
			on_run(&c, &run);
			continue;
		}
		v = apus_wire_next(&m, &sub);
		if (v == APUS_WIRE_END)
			break;
		if (v == APUS_WIRE_ACCEPT) {
			on_submessage(&c, &sub);
		} else if (v == APUS_WIRE_MALFORMED) {
			apus_counter_add(&worker->counters.rx_malformed, 1);
			break;
		} else {
			apus_counter_add(&worker->counters.rx_skipped, 1);
		}
	}
	report_evidence(&c, false);
}

/* After a wrong guess 1, 3, 7 … datagrams pass without one. */
#define WRONG_MAX 6

/* Tells the queue where the payload of the next datagram should go, if that can be guessed. */
static void expect(struct apus_dp_worker *w)
{
	struct apus_dp_expected *e = &w->expected;
	struct apus_dp_rx_place *place = &w->config.queue->place;

	place->base = NULL;
	place->buffer = NULL;
	if (APUS_UNLIKELY(e->next.reader && e->pausing == 0))
		apus_dp_reader_place(&e->next, place);
}

/* Is what was placed all payload, as far as its own bytes tell? It is handled first: after anything else the memory
 * there may be used for something else. */
static bool stays_placed(const struct apus_dp_rx_place *place, const struct apus_dp_rx *first)
{
	return first->bytes == place->buffer && !first->truncated &&
	       apus_wire_is_frag_payload(first->bytes, first->length, place->head_bytes,
					 place->placed_bytes);
}

static void judge_guess(struct apus_dp_expected *e, bool right)
{
	if (right) {
		e->wrong = 0;
		return;
	}
	e->wrong += e->wrong < WRONG_MAX;
	e->pausing = (UINT32_C(1) << e->wrong) - 1;
}

/* Handles the one whose payload was placed. */
static void interpret_placed(struct apus_dp_worker *w, const struct apus_dp_rx *rx,
			     const struct apus_dp_guess *guess, struct apus_mono now)
{
	struct apus_dp_expected *e = &w->expected;
	struct apus_dp_rx_place *place = &w->config.queue->place;

	e->right = false;
	if (stays_placed(place, rx)) {
		e->placed = place->base;
		e->payload = rx->bytes + place->head_bytes;
		e->current = *guess;
	} else {
		apus_dp_queue_unplace(w->config.queue);
	}
	if (!rx->truncated)
		apus_dp_worker_datagram(w, rx->bytes, rx->length, &rx->from, now);
	e->placed = NULL;
	judge_guess(e, e->right);
}

static int receive(struct apus_dp_worker *w, struct apus_mono now)
{
	struct apus_dp_queue *q = w->config.queue;
	struct apus_dp_expected *e = &w->expected;
	struct apus_dp_guess guess;
	struct apus_dp_rx rx[RX_BURST];
	uint32_t largest = RX_BURST_BYTES / RX_BURST;
	int n;

	expect(w);
	n = apus_dp_queue_rx(q, w->rx_burst ? w->rx_burst : RX_BURST, rx);
	if (n == 0)
		return 0;
	guess = e->next;
	e->next.reader = NULL;
	e->pausing -= e->pausing > 0;
	for (int i = 0; i < n; i++) {
		if (rx[i].length > largest)
			largest = rx[i].length;
		if (rx[i].truncated)
			apus_counter_add(&w->counters.rx_malformed, 1);
		e->datagram = rx[i].bytes;
		if (i == 0 && q->place.buffer)
			interpret_placed(w, rx, &guess, now);
		else if (!rx[i].truncated)
			apus_dp_worker_datagram(w, rx[i].bytes, rx[i].length, &rx[i].from, now);
	}
	e->datagram = NULL;
	apus_dp_queue_release(q, rx, n);
	w->rx_burst = RX_BURST_BYTES / (int)largest;
	if (w->rx_burst == 0)
		w->rx_burst = 1;
	return n;
}

/* A worker that polls for readers in shared memory looks at the network so often, and where samples come through shared
 * memory all the time: it costs a system call, as much time as some of them. */
#define NET_LOOK_NS      (5 * APUS_NS_PER_US)
#define NET_LOOK_BUSY_NS (20 * APUS_NS_PER_US)

static bool is_net_due(struct apus_dp_worker *w, struct apus_mono now)
{
	/* Somebody who sleeps on a descriptor was woken by the network. */
	if (w->shm_first && w->event_fd < 0 && now.ns >= w->net_looked.ns &&
	    now.ns - w->net_looked.ns < (w->shm_busy ? NET_LOOK_BUSY_NS : NET_LOOK_NS))
		return false;
	w->shm_busy = false;
	w->net_looked = now;
	return true;
}

int apus_dp_worker_poll(struct apus_dp_worker *worker, struct apus_mono now)
{
	int work;

	if (worker->shm_dozing)
		apus_dp_shm_awake(worker);
	work = is_net_due(worker, now) ? receive(worker, now) : 0;
	if (worker->shm_first)
		work += apus_dp_shm_receive(worker, now);
	work += apus_dp_wheel_run(&worker->wheel, now);
	apus_dp_worker_finish(worker, now);
	return work;
}
