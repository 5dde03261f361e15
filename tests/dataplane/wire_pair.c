/* SPDX-License-Identifier: Apache-2.0 */
/* Two workers joined by a wire in memory; see wire_pair.h. */
#include "wire_pair.h"

#include <stdlib.h>
#include <string.h>

uint32_t wire_random(uint64_t *state, uint32_t n)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return (uint32_t)((*state >> 11) % n);
}

/* --- the wire ------------------------------------------------------------------------------------ */

static void put(struct wire *w, const struct apus_dp_tx *tx)
{
	struct wire_datagram *d = &w->ring[w->tail % WIRE_DATAGRAMS];

	if (w->tail - w->head == (w->capacity ? w->capacity : WIRE_DATAGRAMS)) {
		w->overflow++;
		return;
	}
	d->length = 0;
	d->to = tx->to;
	for (int i = 0; i < tx->iov_count; i++) {
		if (d->length + tx->iov[i].iov_len > WIRE_BYTES)
			abort();
		memcpy(d->bytes + d->length, tx->iov[i].iov_base, tx->iov[i].iov_len);
		d->length += (uint32_t)tx->iov[i].iov_len;
	}
	w->tail++;
	if (w->tail - w->head >= 2 && wire_random(&w->random, 100) < w->reorder_percent) {
		struct wire_datagram *e = &w->ring[(w->tail - 2) % WIRE_DATAGRAMS];
		struct wire_datagram swap = *d;

		*d = *e;
		*e = swap;
	}
}

static int queue_tx(struct apus_dp_queue *q, const struct apus_dp_tx *tx, int n)
{
	struct wire *w = ((struct wire_queue *)q)->out;

	for (int i = 0; i < n; i++) {
		w->sent++;
		w->last_to = tx[i].to;
		for (int k = 0; k < tx[i].iov_count; k++)
			w->sent_bytes += tx[i].iov[k].iov_len;
		if (wire_random(&w->random, 100) < w->loss_percent) {
			w->dropped++;
			continue;
		}
		put(w, &tx[i]);
		if (wire_random(&w->random, 100) < w->duplicate_percent)
			put(w, &tx[i]);
	}
	return n;
}

/* Puts the payload of a datagram where it is expected, and nonsense where it was. */
static void place(struct apus_dp_queue *q, struct wire_datagram *d)
{
	struct apus_dp_rx_place *p = &q->place;

	if (!p->base || d->length <= p->head_bytes)
		return;
	p->placed_bytes = d->length - p->head_bytes;
	if (p->placed_bytes > p->room_bytes)
		p->placed_bytes = p->room_bytes;
	memcpy(p->base, d->bytes + p->head_bytes, p->placed_bytes);
	memset(d->bytes + p->head_bytes, 0xa5, p->placed_bytes);
	p->buffer = d->bytes;
	apus_counter_add(&q->counters.rx_placed, 1);
}

/* The first of a burst may be placed. */
static int queue_rx(struct apus_dp_queue *q, int max, struct apus_dp_rx *out)
{
	struct wire *w = ((struct wire_queue *)q)->in;
	int n = 0;

	for (; n < max && w->head + (uint32_t)n != w->tail; n++) {
		struct wire_datagram *d = &w->ring[(w->head + (uint32_t)n) % WIRE_DATAGRAMS];

		if (n == 0)
			place(q, d);
		out[n] = (struct apus_dp_rx){.bytes = d->bytes, .length = d->length};
	}
	return n;
}

static void queue_release(struct apus_dp_queue *q, const struct apus_dp_rx *rx, int n)
{
	(void)rx;
	((struct wire_queue *)q)->in->head += (uint32_t)n;
}

static int queue_fd(struct apus_dp_queue *q)
{
	(void)q;
	return APUS_EIO;
}

static void queue_close(struct apus_dp_queue *q)
{
	(void)q;
}

static const struct apus_dp_queue_ops ops = {.rx = queue_rx,
					     .release = queue_release,
					     .tx = queue_tx,
					     .fd = queue_fd,
					     .close = queue_close};

/* --- sides --------------------------------------------------------------------------------------- */

static void side_init(struct wire_pair *p, struct wire_side *s, uint8_t id, uint16_t vendor,
		      uint32_t fragment_bytes, struct wire *in, struct wire *out)
{
	struct apus_dp_worker_config c = {
		.queue = &s->queue.base,
		.epoch = &p->epoch,
		.endpoint_max = 8,
		.match_max = 16,
		.heartbeat_ns = 100 * APUS_NS_PER_MS,
		.pace_bytes = 64 * 1024,
		.nack_suppression_ns = 500 * APUS_NS_PER_US,
		.fragment_bytes = fragment_bytes,
	};

	s->queue.base.ops = &ops;
	s->queue.base.kind = APUS_DP_QUEUE_OTHER;
	s->queue.base.mtu_bytes = WIRE_BYTES;
	s->queue.base.place_min_bytes = 1;
	s->queue.in = in;
	s->queue.out = out;
	memset(s->prefix.bytes, id, sizeof(s->prefix.bytes));
	s->prefix.bytes[0] = (uint8_t)(vendor >> 8);
	s->prefix.bytes[1] = (uint8_t)vendor;
	c.prefix = s->prefix;
	if (apus_dp_worker_create(&c, &s->worker) != 0)
		abort();
}

void wire_pair_init(struct wire_pair *p, uint64_t seed)
{
	wire_pair_init_as(p, seed, 0x01ee, 1344);
}

void wire_pair_init_as(struct wire_pair *p, uint64_t seed, uint16_t vendor, uint32_t fragment_bytes)
{
	memset(p, 0, sizeof(*p));
	/* Relaxed: single-threaded test. */
	atomic_store_explicit(&p->epoch.current, 1, memory_order_relaxed);
	p->a_to_b.random = seed * 2 + 1;
	p->b_to_a.random = seed * 7 + 3;
	side_init(p, &p->a, 0xaa, vendor, fragment_bytes, &p->b_to_a, &p->a_to_b);
	side_init(p, &p->b, 0xbb, vendor, fragment_bytes, &p->a_to_b, &p->b_to_a);
	/* Well behind what the workers read from the clock while they adopt, and always at the same phase of
	 * the timer wheel: so a run with the same seed is the same run. */
	p->now.ns = ((apus_mono_now().ns + APUS_NS_PER_SEC) >> 28 << 28) + (INT64_C(1) << 28);
}

void wire_pair_fini(struct wire_pair *p)
{
	apus_dp_worker_destroy(p->a.worker);
	apus_dp_worker_destroy(p->b.worker);
}

void wire_set(struct wire_pair *p, uint32_t loss, uint32_t duplicate, uint32_t reorder)
{
	p->a_to_b.loss_percent = p->b_to_a.loss_percent = loss;
	p->a_to_b.duplicate_percent = p->b_to_a.duplicate_percent = duplicate;
	p->a_to_b.reorder_percent = p->b_to_a.reorder_percent = reorder;
}

static void poll_side(struct wire_side *s, struct apus_mono now)
{
	if (!apus_dp_worker_try_turn(s->worker))
		abort();
	apus_dp_worker_poll(s->worker, now);
	apus_dp_worker_end_turn(s->worker);
}

void wire_run(struct wire_pair *p, int64_t ns)
{
	for (int64_t t = 0; t < ns; t += 100 * APUS_NS_PER_US) {
		p->now.ns += 100 * APUS_NS_PER_US;
		poll_side(&p->a, p->now);
		poll_side(&p->b, p->now);
	}
}

/* --- endpoints ----------------------------------------------------------------------------------- */

/* ShapeType whose colour is no key. */
static const struct apus_type *keyless_shape(void)
{
	static struct apus_member members[4];
	static struct apus_type type;

	type = apus_shape_type;
	memcpy(members, apus_shape_type.members, sizeof(members));
	members[0].key = false;
	type.members = members;
	return &type;
}

static const struct apus_type *type_of(const struct wire_options *o)
{
	if (o->keyless)
		return keyless_shape();
	return o->blob_bytes ? &apus_blob_type : &apus_shape_type;
}

/* Encapsulation header, kid, length, data. */
static uint32_t payload_bytes_max(const struct wire_options *o)
{
	return o->blob_bytes ? (o->blob_bytes + 12 + 3) & ~3u : 256;
}

static void make_writer(struct wire_pair *p, struct wire_endpoints *e, const struct wire_options *o)
{
	struct apus_dp_writer_config c = {
		.guid = apus_guid_make(&p->a.prefix,
				       (struct apus_eid){0x00000102 + (o->number << 8)}),
		.reliable = o->reliable,
		.transient_local = o->transient_local,
		.match_max = 4,
		.publisher = o->publisher,
		.batch_bytes = o->batch_bytes,
		.batch_delay_ns = o->batch_delay_ns,
		.proof_secret = o->proof_secret,
		.cache = {.max_samples = o->max_samples,
			  .lent_slots = o->lent_slots,
			  .max_instances = 16,
			  .max_samples_per_instance = o->max_samples,
			  .depth = o->keep_all ? 0 : o->depth,
			  .payload_bytes_max = payload_bytes_max(o),
			  .key_bytes_max = e->plan.max_bytes},
	};

	if (apus_dp_writer_create(p->a.worker, &c, &e->writer) != 0)
		abort();
	apus_dp_worker_take_turn(p->a.worker);
	apus_dp_worker_add_writer(p->a.worker, e->writer);
	apus_dp_worker_end_turn(p->a.worker);
}

static void make_reader(struct wire_pair *p, struct wire_endpoints *e, const struct wire_options *o)
{
	uint32_t max = o->reader_max_samples ? o->reader_max_samples : o->max_samples;
	struct apus_dp_reader_config c = {
		.guid = apus_guid_make(&p->b.prefix,
				       (struct apus_eid){0x00000207 + (o->number << 8)}),
		.reliable = o->reliable,
		.transient_local = o->transient_local,
		.type = type_of(o),
		.payload_bytes_max = payload_bytes_max(o),
		.match_max = 4,
		.held_max = o->blob_bytes ? 8 : 64,
		.assembly_max = o->assembly_max,
		.inbox = {.lifespan_ns = APUS_INFINITE_NS,
			  .history = {.keep_all = o->keep_all && !o->reader_depth,
				      .depth = o->reader_depth ? o->reader_depth : o->depth,
				      .by_source = o->by_source,
				      .by_instance = o->by_instance,
				      .max_samples = max,
				      .max_samples_per_instance = max,
				      .max_loans = 64,
				      .deadline_ns = APUS_INFINITE_NS,
				      .instances = {.capacity = 16, .seed = 1}}},
	};

	if (apus_dp_reader_create(p->b.worker, &c, &e->reader) != 0)
		abort();
	apus_dp_worker_take_turn(p->b.worker);
	apus_dp_worker_add_reader(p->b.worker, e->reader);
	apus_dp_worker_end_turn(p->b.worker);
}

void wire_endpoints_init(struct wire_pair *p, struct wire_endpoints *e,
			 const struct wire_options *options)
{
	memset(e, 0, sizeof(*e));
	if (apus_wire_keyplan_init(&e->plan, type_of(options), 0) != 0)
		abort();
	make_writer(p, e, options);
	make_reader(p, e, options);
}

/* An index of one filter; NULL without one. */
static struct apus_dp_filter_index *index_of(const struct apus_dp_predicate *predicate)
{
	struct block {
		const struct apus_dp_predicate *filters[1];
		uint32_t rest[1];
	};
	struct apus_dp_filter_index *index;
	struct block *block;

	if (!predicate)
		return NULL;
	index = calloc(1, sizeof(*index) + sizeof(*block));
	if (!index)
		abort();
	block = (struct block *)(index + 1);
	block->filters[0] = predicate;
	index->filters = block->filters;
	index->rest = block->rest;
	index->filter_count = index->rest_count = 1;
	return index;
}

void wire_match(struct wire_pair *p, struct wire_endpoints *e, bool matched,
		const struct wire_options *o)
{
	static const uint8_t ip[4] = {127, 0, 0, 1};
	struct apus_dp_writer_snapshot *ws = calloc(1, sizeof(*ws) + sizeof(ws->match[0]));
	struct apus_dp_reader_snapshot *rs = calloc(1, sizeof(*rs) + sizeof(rs->match[0]));
	uint64_t retired;

	if (!ws || !rs)
		abort();
	e->match_id += matched;
	ws->generation = rs->generation = ++e->generation;
	ws->match_count = rs->match_count = matched;
	ws->index = index_of(matched ? o->predicate : NULL);
	if (matched) {
		ws->match[0] = (struct apus_dp_reader_match){
			.guid = e->reader->config.guid,
			.match_id = e->match_id,
			.reliable = o->reliable,
			.transient_local = o->transient_local,
			.unicast = apus_dp_addr_v4(ip, 2),
			.predicate = o->predicate,
			.shm = o->shm_out,
		};
		rs->match[0] = (struct apus_dp_writer_match){
			.guid = e->writer->config.guid,
			.match_id = e->match_id,
			.reliable = o->reliable,
			.transient_local = o->transient_local,
			.lease_ns = APUS_INFINITE_NS,
			.lifespan_ns = APUS_INFINITE_NS,
			.unicast = apus_dp_addr_v4(ip, 1),
			.shm = o->shm_in,
		};
	}
	if (matched && o->signature) {
		ws->match[0].filter_info = true;
		memset(ws->match[0].filter_signature, o->signature, 16);
		rs->match[0].filter_trusted = true;
		rs->filter = o->predicate;
		rs->filter_generation = 1;
		memset(rs->filter_signature, o->reader_signature, 16);
	}
	apus_dp_writer_publish(&p->epoch, &e->writer->port, ws, &retired);
	apus_dp_reader_publish(&p->epoch, &e->reader->port, rs, &retired);
	poll_side(&p->b, p->now);
	poll_side(&p->a, p->now);
	free(e->filter_index);
	free(e->writer_snapshot); /* both sides have had a turn at the new epoch */
	free(e->reader_snapshot);
	e->writer_snapshot = ws;
	e->filter_index = (struct apus_dp_filter_index *)(uintptr_t)ws->index;
	e->reader_snapshot = rs;
}

static void drop_reader(struct wire_pair *p, struct wire_endpoints *e)
{
	apus_dp_worker_take_turn(p->b.worker);
	apus_dp_worker_remove_reader(p->b.worker, e->reader);
	apus_dp_worker_end_turn(p->b.worker);
	apus_dp_reader_destroy(e->reader);
}

void wire_renew_reader(struct wire_pair *p, struct wire_endpoints *e,
		       const struct wire_options *options)
{
	drop_reader(p, e);
	make_reader(p, e, options);
}

void wire_endpoints_fini(struct wire_pair *p, struct wire_endpoints *e)
{
	apus_dp_worker_take_turn(p->a.worker);
	apus_dp_worker_remove_writer(p->a.worker, e->writer);
	apus_dp_worker_end_turn(p->a.worker);
	drop_reader(p, e);
	apus_dp_writer_destroy(e->writer);
	free(e->filter_index);
	free(e->writer_snapshot);
	free(e->reader_snapshot);
}

int wire_write(struct wire_pair *p, struct wire_endpoints *e, const char *color, int32_t x,
	       enum apus_change kind)
{
	return wire_write_at(p, e, color, x, kind, 1000000 + x);
}

int wire_write_at(struct wire_pair *p, struct wire_endpoints *e, const char *color, int32_t x,
		  enum apus_change kind, int64_t source_ns)
{
	struct apus_shape shape = {.x = x, .y = 2 * x, .shapesize = 30};
	uint8_t key[256], hash[16];
	struct apus_dp_write change = {.kind = (uint8_t)kind,
				       .key_only = kind != APUS_ALIVE,
				       .source = {source_ns},
				       .key = key,
				       .key_hash = hash};
	struct apus_dp_cache *cache = &e->writer->cache;
	uint32_t slot;
	int rc;

	strncpy(shape.color, color, sizeof(shape.color) - 1);
	apus_dp_worker_take_turn(p->a.worker);
	slot = apus_dp_cache_acquire(cache);
	change.payload_bytes =
		(uint32_t)apus_type_encode(&apus_shape_type, &shape, APUS_XCDR1, change.key_only,
					   apus_dp_cache_payload(cache, slot), 256);
	change.key_bytes = (uint32_t)apus_wire_key_from_sample(&e->plan, &shape, key, sizeof(key));
	apus_wire_key_hash(&e->plan, key, change.key_bytes, hash);
	rc = apus_dp_writer_write(e->writer, slot, &change, p->now);
	if (rc != 0)
		apus_dp_cache_abandon(cache, slot);
	apus_dp_worker_end_turn(p->a.worker);
	return rc;
}

int wire_write_blob(struct wire_pair *p, struct wire_endpoints *e, uint32_t bytes)
{
	static const uint8_t head[8] = {0, 1, 0, 0, 1, 0, 0, 0};
	struct apus_blob blob = {.kid = 1};
	uint8_t key[16], hash[16], *payload;
	struct apus_dp_write change = {.kind = APUS_ALIVE,
				       .source = {1000000},
				       .key = key,
				       .key_hash = hash,
				       .payload_bytes = bytes + 12};
	struct apus_dp_cache *cache = &e->writer->cache;
	uint32_t slot;
	int rc;

	apus_dp_worker_take_turn(p->a.worker);
	slot = apus_dp_cache_acquire(cache);
	payload = apus_dp_cache_payload(cache, slot);
	memcpy(payload, head, sizeof(head));
	memcpy(payload + 8, &bytes, 4);
	for (uint32_t i = 0; i < bytes; i++)
		payload[12 + i] = wire_blob_byte(i);
	change.key_bytes = (uint32_t)apus_wire_key_from_sample(&e->plan, &blob, key, sizeof(key));
	apus_wire_key_hash(&e->plan, key, change.key_bytes, hash);
	rc = apus_dp_writer_write(e->writer, slot, &change, p->now);
	if (rc != 0)
		apus_dp_cache_abandon(cache, slot);
	apus_dp_worker_end_turn(p->a.worker);
	return rc;
}
