/* SPDX-License-Identifier: Apache-2.0 */
/* One writer and many filtered readers; see fan.h. */
#include "fan.h"

#include "control/filter.h"
#include "control/filter_index.h"

#include <stdlib.h>
#include <string.h>

static uint32_t reader_of(const struct apus_dp_addr *to)
{
	return (uint32_t)to->ip[13] << 16 | (uint32_t)to->ip[14] << 8 | to->ip[15];
}

static int queue_tx(struct apus_dp_queue *q, const struct apus_dp_tx *tx, int n)
{
	struct fan *fan = (struct fan *)q;
	uint8_t bytes[65536];

	fan->datagrams += (uint64_t)n;
	for (int i = 0; fan->hear && i < n; i++) {
		uint32_t length = 0;

		for (int k = 0; k < tx[i].iov_count; k++) {
			memcpy(bytes + length, tx[i].iov[k].iov_base, tx[i].iov[k].iov_len);
			length += (uint32_t)tx[i].iov[k].iov_len;
		}
		fan->hear(fan, reader_of(&tx[i].to), bytes, length);
	}
	return n;
}

static int queue_rx(struct apus_dp_queue *q, int max, struct apus_dp_rx *out)
{
	(void)q;
	(void)max;
	(void)out;
	return 0;
}

static void queue_release(struct apus_dp_queue *q, const struct apus_dp_rx *rx, int n)
{
	(void)q;
	(void)rx;
	(void)n;
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

static struct apus_prefix prefix_of(uint32_t number)
{
	struct apus_prefix p = {.bytes = {0x01, 0xee}};

	p.bytes[9] = (uint8_t)(number >> 16);
	p.bytes[10] = (uint8_t)(number >> 8);
	p.bytes[11] = (uint8_t)number;
	return p;
}

static struct apus_guid guid_of(uint32_t reader)
{
	struct apus_prefix p = prefix_of(reader + 1);

	return apus_guid_make(&p, (struct apus_eid){0x207});
}

static struct apus_guid local_guid_of(uint32_t reader)
{
	struct apus_prefix p = prefix_of(0);

	return apus_guid_make(&p, (struct apus_eid){(reader << 8) + 0x207});
}

void fan_join(struct fan *fan, uint32_t i)
{
	struct apus_dp_reader_config c = {
		.guid = local_guid_of(i),
		.type = &apus_shape_type,
		.payload_bytes_max = 256,
		.match_max = 1,
		.held_max = 1,
		.inbox = {.lifespan_ns = APUS_INFINITE_NS,
			  .history = {.depth = 1,
				      .max_samples = 4,
				      .max_samples_per_instance = 4,
				      .max_loans = 1,
				      .deadline_ns = APUS_INFINITE_NS,
				      .instances = {.capacity = 2, .seed = 1}}}};
	struct apus_dp_reader_snapshot *s = calloc(1, sizeof(*s) + sizeof(s->match[0]));
	uint64_t retired;

	if (!s || apus_dp_reader_create(fan->worker, &c, &fan->readers[i]) != 0)
		abort();
	s->generation = s->filter_generation = 1;
	s->filter = fan->predicates[i];
	s->match_count = 1;
	s->match[0] = (struct apus_dp_writer_match){.guid = fan->writer->config.guid,
						    .match_id = i + 1,
						    .local = true,
						    .reliable = fan->writer->config.reliable,
						    .lease_ns = APUS_INFINITE_NS,
						    .lifespan_ns = APUS_INFINITE_NS};
	fan->reader_snapshots[i] = s;
	apus_dp_worker_take_turn(fan->worker);
	apus_dp_worker_add_reader(fan->worker, fan->readers[i]);
	apus_dp_worker_end_turn(fan->worker);
	apus_dp_reader_publish(&fan->epoch, &fan->readers[i]->port, s, &retired);
}

void fan_leave(struct fan *fan, uint32_t i)
{
	apus_dp_worker_take_turn(fan->worker);
	apus_dp_worker_remove_reader(fan->worker, fan->readers[i]);
	apus_dp_worker_end_turn(fan->worker);
	apus_dp_reader_destroy(fan->readers[i]);
	free(fan->reader_snapshots[i]);
	fan->readers[i] = NULL;
}

/* Readers of the worker itself, with what control would publish for them. */
static void make_readers(struct fan *fan)
{
	fan->readers = calloc(fan->count, sizeof(*fan->readers));
	fan->reader_snapshots = calloc(fan->count, sizeof(*fan->reader_snapshots));
	if (!fan->readers || !fan->reader_snapshots)
		abort();
	for (uint32_t i = 0; i < fan->count; i++)
		fan_join(fan, i);
}

static void drop_readers(struct fan *fan)
{
	for (uint32_t i = 0; fan->readers && i < fan->count; i++)
		if (fan->readers[i])
			fan_leave(fan, i);
	free(fan->readers);
	free(fan->reader_snapshots);
}

static void make_worker(struct fan *fan, uint32_t count, const struct fan_options *o)
{
	struct apus_dp_worker_config c = {.queue = &fan->queue,
					  .epoch = &fan->epoch,
					  .endpoint_max = o->local ? count + 1 : 1,
					  .match_max = o->local ? count : 1,
					  .heartbeat_ns = 100 * APUS_NS_PER_MS,
					  .pace_bytes = 64 * 1024,
					  .nack_suppression_ns = 500 * APUS_NS_PER_US,
					  .fragment_bytes = 1344,
					  .prefix = prefix_of(0)};
	struct apus_dp_writer_config w = {
		.guid = apus_guid_make(&c.prefix, (struct apus_eid){0x102}),
		.reliable = o->reliable,
		.match_max = count,
		.batch_bytes = o->batch_bytes,
		.batch_delay_ns = APUS_NS_PER_MS,
		.cache = {.max_samples = o->max_samples,
			  .max_instances = 16384,
			  .max_samples_per_instance = o->max_samples,
			  .depth = o->depth,
			  .payload_bytes_max = 256,
			  .key_bytes_max = fan->plan.max_bytes}};

	if (apus_dp_worker_create(&c, &fan->worker) != 0 ||
	    apus_dp_writer_create(fan->worker, &w, &fan->writer) != 0)
		abort();
	apus_dp_worker_take_turn(fan->worker);
	apus_dp_worker_add_writer(fan->worker, fan->writer);
	apus_dp_worker_end_turn(fan->worker);
}

static void compile_all(struct fan *fan, fan_expression_fn *expression)
{
	struct apus_ctl_index_filter *filters = calloc(fan->count, sizeof(*filters));
	uint32_t n = 0;
	char text[128];

	fan->predicates = calloc(fan->count, sizeof(*fan->predicates));
	fan->terms = calloc(fan->count, sizeof(*fan->terms));
	if (!filters || !fan->predicates || !fan->terms)
		abort();
	for (uint32_t i = 0; i < fan->count; i++) {
		const char *wanted = expression(fan->user, i, text);

		if (!wanted)
			continue;
		if (apus_ctl_filter_compile_term(&apus_shape_type, wanted, NULL, 0, NULL,
						 &fan->predicates[i], &fan->terms[i], NULL) != 0)
			abort();
		if (fan->local)
			fan->snapshot->match[i].local_generation = !fan->unaware;
		else
			fan->snapshot->match[i].predicate = fan->predicates[i];
		fan->snapshot->match[i].filter_id = n;
		filters[n++] = (struct apus_ctl_index_filter){fan->predicates[i], &fan->terms[i]};
	}
	if (n && apus_ctl_filter_index_build(&apus_shape_type, filters, n, &fan->index) != 0)
		abort();
	fan->snapshot->index = fan->index;
	free(filters);
}

static bool is_reliable(const struct fan *fan, uint32_t reader)
{
	return fan->writer->config.reliable &&
	       (fan->best_effort_every == 0 || reader % fan->best_effort_every != 0);
}

static void publish(struct fan *fan, fan_expression_fn *expression)
{
	static uint64_t generation;
	uint64_t retired;

	fan->snapshot =
		calloc(1, sizeof(*fan->snapshot) + fan->count * sizeof(fan->snapshot->match[0]));
	if (!fan->snapshot)
		abort();
	fan->snapshot->match_count = fan->count;
	fan->snapshot->generation = ++generation;
	for (uint32_t i = 0; i < fan->count; i++) {
		uint32_t address = i / fan->per_address;
		struct apus_dp_addr to = {.family = 2, .port = 7400};

		to.ip[12] = 127;
		to.ip[13] = (uint8_t)(address >> 16);
		to.ip[14] = (uint8_t)(address >> 8);
		to.ip[15] = (uint8_t)address;
		fan->snapshot->match[i] =
			(struct apus_dp_reader_match){.guid = guid_of(i),
						      .match_id = i + 1,
						      .reliable = is_reliable(fan, i),
						      .unicast = to};
		if (fan->local) {
			fan->snapshot->match[i].guid = local_guid_of(i);
			fan->snapshot->match[i].unicast.family = 0;
			fan->snapshot->match[i].local = true;
		}
	}
	compile_all(fan, expression);
	if (fan->local)
		make_readers(fan);
	apus_dp_writer_publish(&fan->epoch, &fan->writer->port, fan->snapshot, &retired);
	fan_run(fan, APUS_NS_PER_MS / 10);
}

static void drop_filters(struct fan *fan)
{
	for (uint32_t i = 0; i < fan->count; i++)
		apus_ctl_filter_free(fan->predicates[i]);
	free(fan->predicates);
	free(fan->terms);
	apus_ctl_filter_index_free(fan->index);
	free(fan->snapshot);
	fan->index = NULL;
}

void fan_init(struct fan *fan, uint32_t count, fan_expression_fn *expression, void *user,
	      const struct fan_options *options)
{
	memset(fan, 0, sizeof(*fan));
	fan->queue.ops = &ops;
	fan->queue.kind = APUS_DP_QUEUE_OTHER;
	fan->queue.mtu_bytes = 1472;
	fan->count = count;
	fan->per_address = options->per_address ? options->per_address : 1;
	fan->best_effort_every = options->best_effort_every;
	fan->user = user;
	fan->local = options->local;
	fan->unaware = options->unaware;
	/* Relaxed: one thread. */
	atomic_store_explicit(&fan->epoch.current, 1, memory_order_relaxed);
	fan->now.ns = ((apus_mono_now().ns + APUS_NS_PER_SEC) >> 28 << 28) + (INT64_C(1) << 28);
	if (apus_wire_keyplan_init(&fan->plan, &apus_shape_type, 0) != 0)
		abort();
	make_worker(fan, count, options);
	publish(fan, expression);
	/* One answer derives everything anew, which all at once would do as well: so they answer in silence. */
	for (uint32_t i = 0; options->reliable && i + 1 < count; i++) {
		if (!is_reliable(fan, i))
			continue;
		fan->writer->states[i].awaited = false;
		fan->writer->states[i].heard = fan->now;
		fan->writer->states[i].ack_count = 1;
	}
	if (options->reliable)
		fan_ack(fan, count - 1, 0, 0, 1);
	fan_run(fan, APUS_NS_PER_MS);
}

void fan_refilter(struct fan *fan, fan_expression_fn *expression)
{
	struct fan old = *fan;

	publish(fan, expression);
	old.count = fan->count;
	drop_filters(&old);
}

void fan_fini(struct fan *fan)
{
	fan->hear = NULL;
	apus_dp_worker_take_turn(fan->worker);
	apus_dp_worker_remove_writer(fan->worker, fan->writer);
	apus_dp_worker_end_turn(fan->worker);
	drop_readers(fan); /* after the writer, which would look for each among all */
	apus_dp_writer_destroy(fan->writer);
	apus_dp_worker_destroy(fan->worker);
	drop_filters(fan);
}

int fan_write(struct fan *fan, const char *color, int32_t x)
{
	struct apus_dp_cache *cache = &fan->writer->cache;
	struct apus_shape shape = {.x = x, .y = 2 * x, .shapesize = 30};
	uint8_t key[256], hash[16];
	struct apus_dp_write change = {.source = {fan->now.ns}, .key = key};
	uint32_t slot;
	int rc;

	strncpy(shape.color, color, sizeof(shape.color) - 1);
	apus_dp_worker_take_turn(fan->worker);
	slot = apus_dp_cache_acquire(cache);
	if (slot == APUS_SHM_NO_SLOT)
		abort();
	change.payload_bytes =
		(uint32_t)apus_type_encode(&apus_shape_type, &shape, APUS_XCDR1, false,
					   apus_dp_cache_payload(cache, slot), 256);
	change.key_bytes =
		(uint32_t)apus_wire_key_from_sample(&fan->plan, &shape, key, sizeof(key));
	if (apus_dp_keytable_find(&cache->keys, key, change.key_bytes) == APUS_DP_NO_KEY) {
		apus_wire_key_hash(&fan->plan, key, change.key_bytes, hash);
		change.key_hash = hash;
	}
	rc = apus_dp_writer_write(fan->writer, slot, &change, fan->now);
	if (rc != 0)
		apus_dp_cache_abandon(cache, slot);
	apus_dp_worker_end_turn(fan->worker);
	return rc;
}

void fan_run(struct fan *fan, int64_t ns)
{
	for (int64_t t = 0; t < ns; t += 100 * APUS_NS_PER_US) {
		fan->now.ns += 100 * APUS_NS_PER_US;
		apus_dp_worker_take_turn(fan->worker);
		apus_dp_worker_poll(fan->worker, fan->now);
		apus_dp_worker_end_turn(fan->worker);
	}
}

void fan_ack(struct fan *fan, uint32_t reader, apus_seq seq, uint32_t missing, uint32_t count)
{
	struct apus_guid guid = guid_of(reader);
	struct apus_wire_acknack a = {.reader = apus_guid_eid(&guid),
				      .writer = fan->writer->eid,
				      .set = {.base = seq + 1},
				      .count = count,
				      .final = true};

	for (uint32_t i = 0; i < 32; i++)
		if (missing >> i & 1)
			apus_wire_seqset_add(&a.set, seq + 1 + i);
	apus_dp_worker_take_turn(fan->worker);
	apus_dp_writer_acknack(fan->writer, &guid, &a, NULL, fan->now);
	apus_dp_worker_end_turn(fan->worker);
}
