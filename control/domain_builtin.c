/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The built-in endpoints: they live on the control worker and run on the same protocol engine as everybody
 * else's. What they receive goes to discovery, what discovery wants sent goes out through them.
 */
#include "control/domain.h"

#include <string.h>
#include <sys/random.h>

/* Largest discovery payload accepted: whatever one datagram can carry. */
#define RX_PAYLOAD_BYTES 65000
/* Discovery samples out of order, per reader. */
#define HELD_MAX 64
/* Fragmented discovery samples (long filters, type objects) put together at a time. */
#define ASSEMBLY_MAX 8
/* Messages about types that may be on their way. */
#define TYPE_SAMPLES 32

static const struct {
	uint32_t writer, reader;
	bool transient_local;
} topics[APUS_CTL_BUILTINS] = {
	[APUS_CTL_PUBLICATIONS] = {APUS_CTL_EID_PUBLICATIONS_WRITER,
				   APUS_CTL_EID_PUBLICATIONS_READER, true},
	[APUS_CTL_SUBSCRIPTIONS] = {APUS_CTL_EID_SUBSCRIPTIONS_WRITER,
				    APUS_CTL_EID_SUBSCRIPTIONS_READER, true},
	[APUS_CTL_MESSAGE] = {APUS_CTL_EID_MESSAGE_WRITER, APUS_CTL_EID_MESSAGE_READER, true},
	[APUS_CTL_TYPE_REQUEST] = {APUS_CTL_EID_TYPE_REQUEST_WRITER,
				   APUS_CTL_EID_TYPE_REQUEST_READER, false},
	[APUS_CTL_TYPE_REPLY] = {APUS_CTL_EID_TYPE_REPLY_WRITER, APUS_CTL_EID_TYPE_REPLY_READER,
				 false},
};

/* --- what comes in ------------------------------------------------------------------------------- */

/* Whose end a dispose announces: by key payload, else by key hash (Fast DDS sends no payload). */
static bool gone_guid(const struct apus_dp_sink_sample *s,
		      enum apus_wire_verdict (*decode)(const uint8_t *, size_t, struct apus_guid *),
		      struct apus_guid *guid_out)
{
	if (s->payload && decode(s->payload, s->payload_bytes, guid_out) == APUS_WIRE_ACCEPT)
		return true;
	if (!s->key_hash)
		return false;
	memcpy(guid_out->bytes, s->key_hash, 16);
	return true;
}

static bool participant_gone(struct apus_participant *p, const struct apus_dp_sink_sample *s,
			     struct apus_guid *gone_out)
{
	if (gone_guid(s, apus_wire_participant_key_decode, gone_out))
		return true;
	apus_counter_add(&p->malformed_records, 1);
	return false;
}

static bool participant_record(struct apus_participant *p, const struct apus_dp_sink_sample *s,
			       struct apus_wire_participant_record *record_out)
{
	if (s->payload && !s->key_only &&
	    apus_wire_participant_decode(s->payload, s->payload_bytes, record_out) ==
		    APUS_WIRE_ACCEPT)
		return true;
	apus_counter_add(&p->malformed_records, 1);
	return false;
}

/* Does a Discovery Server speak of somebody else? */
static bool is_relayed(struct apus_participant *p, const struct apus_prefix *prefix,
		       const struct apus_prefix *source)
{
	return !apus_prefix_equal(prefix, source) &&
	       apus_ctl_discovery_trusts(p->discovery, source);
}

/* What anybody says, in any order: each of itself. What servers tell of others comes in order, see below. */
static void on_spdp(void *user, const struct apus_dp_sink_sample *s, struct apus_mono now)
{
	struct apus_participant *p = user;
	struct apus_prefix source = apus_guid_prefix(&s->writer), prefix;
	struct apus_ctl_heard heard = {.source = source};
	struct apus_wire_participant_record record;
	struct apus_guid gone;

	if (s->change) {
		if (!participant_gone(p, s, &gone))
			return;
		prefix = apus_guid_prefix(&gone);
		if (!is_relayed(p, &prefix, &source))
			apus_ctl_discovery_on_participant_gone(p->discovery, &gone, &source);
		return;
	}
	if (!s->from || !participant_record(p, s, &record) ||
	    is_relayed(p, &record.prefix, &source))
		return;
	heard.seq = s->seq;
	heard.stamp = s->source;
	heard.from = *s->from;
	heard.bytes = s->datagram_bytes;
	apus_ctl_discovery_on_participant(p->discovery, &record, &heard, now);
}

/* What a matched Discovery Server tells of others. Of itself it has told on_spdp(). */
static void on_spdp_of_server(void *user, const struct apus_dp_sink_sample *s, struct apus_mono now)
{
	struct apus_participant *p = user;
	struct apus_prefix source = apus_guid_prefix(&s->writer), prefix;
	struct apus_ctl_heard heard = {.source = source, .stamp = s->source};
	struct apus_wire_participant_record record;
	struct apus_guid gone;

	if (s->change) {
		if (!participant_gone(p, s, &gone))
			return;
		prefix = apus_guid_prefix(&gone);
		if (!apus_prefix_equal(&prefix, &source))
			apus_ctl_discovery_on_participant_gone(p->discovery, &gone, &source);
		return;
	}
	if (!participant_record(p, s, &record) || apus_prefix_equal(&record.prefix, &source))
		return;
	heard.seq = s->related_seq;
	heard.bytes = s->payload_bytes;
	apus_ctl_discovery_on_participant(p->discovery, &record, &heard, now);
}

/* The number of a record among those of its endpoint's participant. Passed on by a Discovery Server it has one of
 * the server's, and beside it the first one, if its participant told that; 0: it did not. */
static apus_seq generation(const struct apus_dp_sink_sample *s, const struct apus_guid *endpoint)
{
	struct apus_prefix of = apus_guid_prefix(endpoint), from = apus_guid_prefix(&s->writer);
	struct apus_prefix related = apus_guid_prefix(&s->related_writer);

	if (apus_prefix_equal(&of, &from))
		return s->seq;
	return s->related_seq > 0 && apus_prefix_equal(&of, &related) ? s->related_seq : 0;
}

static void on_sedp(struct apus_participant *p, bool is_writer, const struct apus_dp_sink_sample *s,
		    struct apus_mono now)
{
	struct apus_prefix source = apus_guid_prefix(&s->writer);
	struct apus_guid gone;

	if (s->change) {
		if (gone_guid(s, apus_wire_endpoint_key_decode, &gone))
			apus_ctl_discovery_on_endpoint_gone(p->discovery, &gone, &source, now);
		else
			apus_counter_add(&p->malformed_records, 1);
		return;
	}
	if (!s->payload || s->key_only ||
	    apus_wire_endpoint_decode(s->payload, s->payload_bytes, is_writer, p->scratch) !=
		    APUS_WIRE_ACCEPT) {
		apus_counter_add(&p->malformed_records, 1);
		return;
	}
	apus_ctl_discovery_on_relayed_endpoint(p->discovery, p->scratch, &source, s->seq,
					       generation(s, &p->scratch->guid), now);
}

static void on_publication(void *user, const struct apus_dp_sink_sample *s, struct apus_mono now)
{
	on_sedp(user, true, s, now);
}

static void on_subscription(void *user, const struct apus_dp_sink_sample *s, struct apus_mono now)
{
	on_sedp(user, false, s, now);
}

/* An assertion of liveliness is a sign of life of its participant, and of its writers. Nobody asserts for
 * somebody else. */
static void on_message(void *user, const struct apus_dp_sink_sample *s, struct apus_mono now)
{
	struct apus_participant *p = user;
	struct apus_prefix source = apus_guid_prefix(&s->writer);
	struct apus_wire_liveliness message;

	if (s->change || !s->payload)
		return;
	if (apus_wire_liveliness_decode(s->payload, s->payload_bytes, &message) !=
		    APUS_WIRE_ACCEPT ||
	    !apus_prefix_equal(&message.prefix, &source)) {
		apus_counter_add(&p->malformed_records, 1);
		return;
	}
	apus_ctl_discovery_on_evidence(p->discovery, &source, 0, false, now);
	apus_ctl_domain_on_alive(p, &message, now);
}

void apus_ctl_domain_evidence(void *user, const struct apus_prefix *source, uint32_t bytes,
			      bool proved, struct apus_mono now)
{
	struct apus_participant *p = user;

	apus_ctl_discovery_on_evidence(p->discovery, source, bytes, proved, now);
}

/* While the built-in endpoints are being made there is no discovery, and nobody to send to. */
bool apus_ctl_domain_may_send(void *user, const struct apus_prefix *dest, uint32_t bytes)
{
	struct apus_participant *p = user;

	return p->discovery && apus_ctl_discovery_may_send(p->discovery, dest, bytes);
}

void apus_ctl_domain_regressed(void *user, const struct apus_prefix *source, struct apus_mono now)
{
	struct apus_participant *p = user;

	if (p->discovery)
		apus_ctl_discovery_on_regress(p->discovery, source, now);
}

bool apus_ctl_domain_may_hear(void *user, const struct apus_prefix *source,
			      const struct apus_dp_addr *from)
{
	struct apus_participant *p = user;

	return !p->discovery || apus_ctl_discovery_may_hear(p->discovery, source, from);
}

/* --- what goes out ------------------------------------------------------------------------------- */

/* Writes one discovery sample into a writer's cache and to its matches. Under lock and control turn. */
static int write_marked(struct apus_dp_writer *w, const struct apus_guid *key,
			const uint8_t *payload, size_t payload_bytes, bool gone,
			const struct apus_dp_marks *marks)
{
	struct apus_dp_write change = {
		.kind = gone ? APUS_DISPOSE_UNREGISTER : APUS_ALIVE,
		.key_only = gone,
		.source = apus_wall_now(),
		.key = key->bytes,
		.key_bytes = 16,
		.key_hash = key->bytes, /* a 16-byte key is its own hash */
		.payload_bytes = (uint32_t)payload_bytes,
		.marks = *marks,
	};
	uint32_t slot;
	int rc;

	if (payload_bytes > w->config.cache.payload_bytes_max)
		return APUS_ELIMIT;
	slot = apus_dp_cache_acquire_for(&w->cache, (uint32_t)payload_bytes);
	if (slot == APUS_SHM_NO_SLOT)
		return APUS_ELIMIT;
	memcpy(apus_dp_cache_payload(&w->cache, slot), payload, payload_bytes);
	rc = apus_dp_writer_write(w, slot, &change, apus_mono_now());
	if (rc != 0)
		apus_dp_cache_abandon(&w->cache, slot);
	return rc == APUS_EAGAIN ? APUS_ELIMIT : rc;
}

static int write_sample(struct apus_dp_writer *w, const struct apus_guid *key,
			const uint8_t *payload, size_t payload_bytes, bool gone)
{
	const struct apus_dp_marks none = {0};

	return write_marked(w, key, payload, payload_bytes, gone, &none);
}

/* To a group through every link: a host on one of them may not be reachable through the others. */
static void put_announcement(struct apus_participant *p, const struct apus_dp_addr *to,
			     struct apus_wall stamp, const struct apus_wire_data_out *data)
{
	struct apus_dp_out *out = &p->control->out;
	struct apus_wire_data_out d = *data;
	struct apus_dp_addr groups[APUS_CTL_GROUPS_MAX];
	uint32_t group_count;

	if (!apus_dp_addr_is_multicast(to)) {
		apus_dp_out_data(out, to, NULL, stamp, &d);
		return;
	}
	group_count = apus_ctl_domain_groups(p, to->port, groups);
	for (size_t i = 0; i < p->interface_count; i++) {
		bool again = false;

		for (size_t k = 0; k < i; k++)
			again |= p->interfaces[k].ifindex == p->interfaces[i].ifindex;
		if (again)
			continue;
		apus_dp_out_interface(out, (int16_t)i);
		for (uint32_t k = 0; k < group_count; k++) {
			d = *data;
			apus_dp_out_data(out, &groups[k], NULL, stamp, &d);
		}
	}
	apus_dp_out_interface(out, -1);
}

/* Puts a new announcement into the writer, where its number and timestamp are kept. A Discovery Server finds it
 * there, too. Interop: one of Fast DDS 2.9.1 heeds only announcements that name themselves as the related sample. */
static bool renew_announcement(struct apus_participant *p, const struct apus_guid *key,
			       const uint8_t *payload, size_t payload_bytes)
{
	struct apus_dp_writer *w = p->spdp_writer;
	struct apus_dp_marks marks = {0};
	bool same = w->cache.tail != APUS_SHM_NO_SLOT &&
		    w->cache.entries[w->cache.tail].payload_bytes == payload_bytes &&
		    memcmp(apus_dp_cache_payload(&w->cache, w->cache.tail), payload,
			   payload_bytes) == 0;

	if (same)
		return true;
	if (p->config.server_count) {
		marks.related_writer = w->config.guid;
		marks.related_seq = w->last + 1;
	}
	if (write_marked(w, key, payload, payload_bytes, false, &marks) != 0)
		return false;
	p->spdp_stamp = apus_wall_now();
	return true;
}

/* SPDP is stateless and repeats one sample: it is built straight into the datagram, always with the same
 * sequence number and source timestamp unless its contents changed. By these two others tell a repetition
 * from a participant that has started anew. */
static void put_spdp(struct apus_participant *p, const struct apus_dp_addr *to,
		     const struct apus_guid *key, const uint8_t *payload, size_t payload_bytes,
		     bool gone, bool to_server)
{
	struct apus_dp_writer *w = p->spdp_writer;
	struct apus_wire_data_out d = {
		.writer = w->eid,
		.seq = w->last + (gone ? 1 : 0),
		.payload = payload,
		.payload_bytes = (uint32_t)payload_bytes,
		.key_only = gone,
	};

	if (gone) {
		d.qos.key_hash = key->bytes;
		d.qos.status_info = APUS_WIRE_STATUS_DISPOSED | APUS_WIRE_STATUS_UNREGISTERED;
	}
	if (to_server) {
		d.qos.related_guid = &w->config.guid;
		d.qos.related_seq = d.seq;
		d.qos.related_fastdds = true;
	}
	put_announcement(p, to, gone ? apus_wall_now() : p->spdp_stamp, &d);
}

/* With servers, the announcement for them is what decides about numbers: it changes whenever this one does, and
 * goes out first. */
static void announce(void *user, const struct apus_dp_addr *to, const struct apus_guid *key,
		     const uint8_t *payload, size_t payload_bytes, bool gone)
{
	struct apus_participant *p = user;

	if (gone || p->config.server_count || renew_announcement(p, key, payload, payload_bytes))
		put_spdp(p, to, key, payload, payload_bytes, gone, false);
}

static void announce_client(void *user, const struct apus_dp_addr *to, const struct apus_guid *key,
			    const uint8_t *payload, size_t payload_bytes, bool gone)
{
	struct apus_participant *p = user;

	if (gone || renew_announcement(p, key, payload, payload_bytes))
		put_spdp(p, to, key, payload, payload_bytes, gone, true);
}

static struct apus_dp_writer *builtin_writer(struct apus_participant *p, struct apus_eid eid)
{
	for (int i = 0; i < APUS_CTL_BUILTINS; i++)
		if (topics[i].writer == eid.value)
			return p->builtin[i].writer;
	return NULL;
}

static int write_builtin(void *user, struct apus_eid eid, const struct apus_guid *key,
			 const uint8_t *payload, size_t payload_bytes, bool gone)
{
	struct apus_dp_writer *w = builtin_writer(user, eid);

	return w ? write_sample(w, key, payload, payload_bytes, gone) : APUS_EINVAL;
}

/* How long the creation of an endpoint waits for others to acknowledge the end of earlier ones: longer than
 * somebody just heard of takes to answer. */
#define ROOM_WAIT_NS APUS_NS_PER_SEC

/* Can a record that nobody has heard of yet be kept? Under lock. */
static bool has_room(struct apus_participant *p, int which)
{
	struct apus_dp_writer *w = p->builtin[which].writer;
	bool room;

	apus_dp_worker_take_turn(p->control);
	room = w->cache.keys.count < w->cache.limits.max_instances ||
	       apus_dp_cache_evict(&w->cache, w->min_acked) > 0;
	apus_dp_worker_end_turn(p->control);
	return room;
}

void apus_ctl_domain_await_room(struct apus_participant *p, bool is_writer)
{
	int which = is_writer ? APUS_CTL_PUBLICATIONS : APUS_CTL_SUBSCRIPTIONS;
	struct apus_mono deadline = apus_mono_add(apus_mono_now(), ROOM_WAIT_NS);
	bool room;

	for (;;) {
		pthread_mutex_lock(&p->lock);
		room = has_room(p, which);
		pthread_mutex_unlock(&p->lock);
		/* A worker's own thread would wait for itself. */
		if (room || apus_dp_worker_thread || !apus_mono_before(apus_mono_now(), deadline))
			return;
		apus_dp_pass_time(p->control);
	}
}

static void ask_again(void *user, const struct apus_guid *writer, apus_seq from)
{
	struct apus_participant *p = user;
	int which = apus_guid_eid(writer).value == APUS_CTL_EID_PUBLICATIONS_WRITER
			    ? APUS_CTL_PUBLICATIONS
			    : APUS_CTL_SUBSCRIPTIONS;

	apus_dp_reader_ask_from(p->builtin[which].reader, writer, from, apus_mono_now());
}

/* Workers are made before discovery takes its first turn, and stay. */
static struct apus_mono heard(void *user, const struct apus_prefix *participant)
{
	const struct apus_participant *p = user;
	struct apus_mono latest = {0};

	for (uint32_t i = 0; i < p->worker_count; i++) {
		struct apus_mono at = apus_dp_heard_at(&p->workers[i]->heard, participant);

		if (apus_mono_before(latest, at))
			latest = at;
	}
	return latest;
}

static void greet(void *user, const struct apus_prefix *participant)
{
	struct apus_participant *p = user;

	for (int i = 0; i < APUS_CTL_BUILTINS; i++) {
		struct apus_guid reader =
			apus_guid_make(participant, (struct apus_eid){topics[i].reader});

		apus_dp_writer_greet(p->builtin[i].writer, &reader);
	}
}

struct apus_ctl_discovery_ops apus_ctl_domain_ops(struct apus_participant *p)
{
	return (struct apus_ctl_discovery_ops){.announce = announce,
					       .write = write_builtin,
					       .ask_again = ask_again,
					       .user = p,
					       .announce_client = announce_client,
					       .heard = heard,
					       .greet = greet};
}

/* --- life ---------------------------------------------------------------------------------------- */

/* Endpoints are made one by one, but often many: their records leave together, a moment later. */
#define SEDP_BATCH_BYTES    16384
#define SEDP_BATCH_DELAY_NS (APUS_NS_PER_MS / 2)

/* A record is a few hundred bytes, unless it has a long filter or many partitions: 512 with the slot's head. */
#define SMALL_RECORD_BYTES 452

/* Never 0, which would mean that nothing is to be proved. */
static uint64_t random_secret(void)
{
	uint64_t secret = 0;

	if (getrandom(&secret, sizeof(secret), 0) != sizeof(secret))
		secret = (uint64_t)apus_mono_now().ns * UINT64_C(0x9e3779b97f4a7c15);
	return secret | 1;
}

static int make_writer(struct apus_participant *p, uint32_t eid, bool reliable,
		       bool transient_local, uint32_t instances, struct apus_dp_writer **writer_out)
{
	struct apus_dp_writer_config c = {
		.guid = apus_guid_make(&p->prefix, (struct apus_eid){eid}),
		.reliable = reliable,
		.transient_local = transient_local,
		.match_max = p->config.participants,
		.proof_secret = reliable && eid != APUS_CTL_EID_SPDP_WRITER ? random_secret() : 0,
		.related_fastdds = eid == APUS_CTL_EID_SPDP_WRITER,
		.batch_bytes = instances > 4 ? SEDP_BATCH_BYTES : 0,
		.batch_delay_ns = SEDP_BATCH_DELAY_NS,
		.cache = {.max_samples = instances,
			  .max_instances = instances,
			  .max_samples_per_instance = 1,
			  .depth = 1,
			  .payload_bytes_max = APUS_WIRE_RECORD_PAYLOAD_MAX,
			  .key_bytes_max = 16,
			  .small_bytes = SMALL_RECORD_BYTES},
	};
	int rc = apus_dp_writer_create(p->control, &c, writer_out);

	return rc ? rc : apus_dp_worker_add_writer(p->control, *writer_out);
}

/* The writers of the TypeLookup service: keyless, volatile, each sample for one participant. */
static int make_type_writer(struct apus_participant *p, uint32_t eid, uint32_t payload_bytes,
			    struct apus_dp_writer **writer_out)
{
	struct apus_dp_writer_config c = {
		.guid = apus_guid_make(&p->prefix, (struct apus_eid){eid}),
		.reliable = true,
		.directed = true,
		.match_max = p->config.participants,
		.cache = {.max_samples = TYPE_SAMPLES,
			  .max_instances = 1,
			  .max_samples_per_instance = TYPE_SAMPLES,
			  .depth = TYPE_SAMPLES,
			  .payload_bytes_max = payload_bytes},
	};
	int rc = apus_dp_writer_create(p->control, &c, writer_out);

	return rc ? rc : apus_dp_worker_add_writer(p->control, *writer_out);
}

static int make_pair_writer(struct apus_participant *p, int which,
			    struct apus_dp_writer **writer_out)
{
	uint32_t instances = which == APUS_CTL_MESSAGE ? 4 : 2 * p->config.local_endpoints;

	if (which == APUS_CTL_TYPE_REQUEST)
		return make_type_writer(p, topics[which].writer, APUS_WIRE_TYPE_REQUEST_BYTES,
					writer_out);
	if (which == APUS_CTL_TYPE_REPLY)
		return make_type_writer(p, topics[which].writer, APUS_CTL_TYPE_REPLY_BYTES,
					writer_out);
	return make_writer(p, topics[which].writer, true, topics[which].transient_local, instances,
			   writer_out);
}

static int make_reader(struct apus_participant *p, uint32_t eid, bool reliable,
		       bool transient_local, apus_dp_sink_fn *sink,
		       struct apus_dp_reader **reader_out)
{
	struct apus_dp_reader_config c = {
		.guid = apus_guid_make(&p->prefix, (struct apus_eid){eid}),
		.reliable = reliable,
		.transient_local = transient_local,
		.stateless = !reliable,
		.payload_bytes_max = RX_PAYLOAD_BYTES,
		.match_max = p->config.participants,
		.held_max = HELD_MAX,
		.assembly_max = ASSEMBLY_MAX,
		.sink = sink,
		.sink_user = p,
	};
	int rc = apus_dp_reader_create(p->control, &c, reader_out);

	return rc ? rc : apus_dp_worker_add_reader(p->control, *reader_out);
}

static int open_pair(struct apus_participant *p, int which)
{
	static apus_dp_sink_fn *const sinks[APUS_CTL_BUILTINS] = {
		[APUS_CTL_PUBLICATIONS] = on_publication,
		[APUS_CTL_SUBSCRIPTIONS] = on_subscription,
		[APUS_CTL_MESSAGE] = on_message,
		[APUS_CTL_TYPE_REQUEST] = apus_ctl_domain_on_type_request,
		[APUS_CTL_TYPE_REPLY] = apus_ctl_domain_on_type_reply,
	};
	struct apus_ctl_builtin_pair *b = &p->builtin[which];
	struct apus_ctl_local local = {.owner = NULL};
	int rc = make_pair_writer(p, which, &b->writer);

	if (rc == 0)
		rc = make_reader(p, topics[which].reader, true, topics[which].transient_local,
				 sinks[which], &b->reader);
	if (rc != 0)
		return rc;
	local.writer_port = &b->writer->port;
	rc = apus_ctl_graph_add_builtin(p->graph, (struct apus_eid){topics[which].writer}, &local,
					&b->writer_endpoint);
	if (rc != 0)
		return rc;
	local.writer_port = NULL;
	local.reader_port = &b->reader->port;
	return apus_ctl_graph_add_builtin(p->graph, (struct apus_eid){topics[which].reader}, &local,
					  &b->reader_endpoint);
}

/* With Discovery Servers SPDP is a reliable topic like the others. */
static int open_server_pair(struct apus_participant *p)
{
	struct apus_ctl_local local = {.writer_port = &p->spdp_writer->port};
	struct apus_ctl_endpoint *unread;
	int rc = make_reader(p, APUS_CTL_EID_SPDP_READER, true, true, on_spdp_of_server,
			     &p->spdp_server_reader);

	if (rc == 0)
		rc = apus_ctl_graph_add_builtin(
			p->graph, (struct apus_eid){APUS_CTL_EID_SPDP_WRITER}, &local, &unread);
	if (rc != 0)
		return rc;
	local = (struct apus_ctl_local){.reader_port = &p->spdp_server_reader->port};
	return apus_ctl_graph_add_builtin(p->graph, (struct apus_eid){APUS_CTL_EID_SPDP_READER},
					  &local, &unread);
}

int apus_ctl_domain_open_builtin(struct apus_participant *p)
{
	int rc;

	apus_dp_worker_take_turn(p->control);
	rc = make_writer(p, APUS_CTL_EID_SPDP_WRITER, p->config.server_count > 0, true, 1,
			 &p->spdp_writer);
	if (rc == 0)
		rc = make_reader(p, APUS_CTL_EID_SPDP_READER, false, false, on_spdp,
				 &p->spdp_reader);
	if (rc == 0 && p->config.server_count)
		rc = open_server_pair(p);
	for (int i = 0; rc == 0 && i < APUS_CTL_BUILTINS; i++)
		rc = open_pair(p, i);
	apus_dp_worker_end_turn(p->control);
	return rc;
}

static void drop_writer(struct apus_participant *p, struct apus_dp_writer *w)
{
	if (w && apus_dp_worker_writer(p->control, w->eid) == w)
		apus_dp_worker_remove_writer(p->control, w);
	apus_dp_writer_destroy(w);
}

static void drop_reader(struct apus_participant *p, struct apus_dp_reader *r)
{
	for (uint32_t i = 0; r && i < p->control->reader_count; i++)
		if (p->control->readers[i] ==
		    r) { /* not by entity id: both of SPDP have the same */
			apus_dp_worker_remove_reader(p->control, r);
			break;
		}
	apus_dp_reader_destroy(r);
}

/* No thread runs the control worker any more, and its snapshots are gone. */
void apus_ctl_domain_close_builtin(struct apus_participant *p)
{
	if (!p->control)
		return;
	for (int i = 0; i < APUS_CTL_BUILTINS; i++) {
		drop_writer(p, p->builtin[i].writer);
		drop_reader(p, p->builtin[i].reader);
	}
	drop_writer(p, p->spdp_writer);
	drop_reader(p, p->spdp_reader);
	drop_reader(p, p->spdp_server_reader);
}
