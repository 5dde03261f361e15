/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cyclone DDS (0.10) publisher or subscriber of ShapeType, run by the interop tests and the demo.
 * Command line and output: peer.h. The domain is configured here and nowhere else, so that no
 * CYCLONEDDS_URI of the machine can make it leave the loopback interface.
 */
#include "peer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dds/dds.h>

#include "shape.h"

#define WRITERS_MAX 64
#define TAKE_MAX    64

struct peer {
	const struct peer_options *options;
	dds_entity_t participant, topic, group, endpoint, waitset;
	int64_t give_up_ns;
	int current, incompatible; /* as last printed */
	struct peer_status status; /* the same */
	int samples, not_alive;
	int writer_count; /* cache of publication handle -> GUID; departed writers must stay known */
	struct {
		dds_instance_handle_t handle;
		uint8_t guid[16];
	} writers[WRITERS_MAX];
};

static dds_entity_t must(dds_entity_t result, const char *what)
{
	if (result < 0) {
		fprintf(stderr, "peer-cyclone: %s: %s\n", what, dds_strretcode(-result));
		exit(3);
	}
	return result;
}

/* Cyclone wants to know whether it is given a name or an address. */
static bool is_address(const char *interface)
{
	return strchr(interface, ':') || strspn(interface, "0123456789.") == strlen(interface);
}

static void create_domain(const struct peer_options *o)
{
	char xml[4096], peers[2048] = "", extra[256] = "";
	size_t used = 0;

	for (int i = 0; i < o->peer_count && used < sizeof(peers); i++)
		used += (size_t)snprintf(peers + used, sizeof(peers) - used,
					 "<Peer Address=\"%s\"/>", o->peers[i]);
	used = 0;
	if (o->lease_s > 0)
		used += (size_t)snprintf(extra, sizeof(extra),
					 "<LeaseDuration>%.3fs</LeaseDuration>", o->lease_s);
	snprintf(
		xml, sizeof(xml),
		"<Domain Id=\"any\"><General><Transport>%s</Transport><Interfaces><NetworkInterface %s=\"%s\" multicast=\"%s\"/>"
		"</Interfaces><AllowMulticast>%s</AllowMulticast></General><Discovery>%s"
		"<ParticipantIndex>auto</ParticipantIndex>"
		"<MaxAutoParticipantIndex>100</MaxAutoParticipantIndex><Peers>%s</Peers></Discovery>"
		/* %.0d prints nothing for 0. */
		"<Internal>%s%.0d%s</Internal></Domain>",
		strchr(o->interface, ':') ? "udp6" : "udp",
		is_address(o->interface) ? "address" : "name", o->interface,
		o->multicast ? "true" : "false", o->multicast ? "true" : "false", extra, peers,
		o->heartbeat_ms ? "<HeartbeatInterval>" : "", o->heartbeat_ms,
		o->heartbeat_ms ? "ms</HeartbeatInterval>" : "");
	must(dds_create_domain((dds_domainid_t)o->domain, xml), "domain");
}

static dds_qos_t *make_qos(const struct peer_options *o)
{
	dds_qos_t *qos = dds_create_qos();
	dds_history_kind_t history = o->keep_all ? DDS_HISTORY_KEEP_ALL : DDS_HISTORY_KEEP_LAST;

	dds_qset_reliability(qos,
			     o->reliable ? DDS_RELIABILITY_RELIABLE : DDS_RELIABILITY_BEST_EFFORT,
			     DDS_SECS(10));
	dds_qset_durability(qos, o->transient_local ? DDS_DURABILITY_TRANSIENT_LOCAL
						    : DDS_DURABILITY_VOLATILE);
	dds_qset_history(qos, history, o->depth);
	/* The depth a late joiner gets is the durability service's, by default 1. */
	dds_qset_durability_service(qos, 0, history, o->depth, DDS_LENGTH_UNLIMITED,
				    DDS_LENGTH_UNLIMITED, DDS_LENGTH_UNLIMITED);
	dds_qset_ownership(qos, o->exclusive ? DDS_OWNERSHIP_EXCLUSIVE : DDS_OWNERSHIP_SHARED);
	if (o->deadline_ms)
		dds_qset_deadline(qos, DDS_MSECS(o->deadline_ms));
	dds_qset_liveliness(qos, (dds_liveliness_kind_t)o->liveliness,
			    o->live_ms ? DDS_MSECS(o->live_ms) : DDS_INFINITY);
	if (o->latency_ms)
		dds_qset_latency_budget(qos, DDS_MSECS(o->latency_ms));
	if (o->by_source)
		dds_qset_destination_order(qos, DDS_DESTINATIONORDER_BY_SOURCE_TIMESTAMP);
	if (o->publish) {
		dds_qset_writer_data_lifecycle(qos, false);
		dds_qset_ownership_strength(qos, o->strength);
		if (o->lifespan_ms)
			dds_qset_lifespan(qos, DDS_MSECS(o->lifespan_ms));
	}
	return qos;
}

static void open_peer(struct peer *p)
{
	const struct peer_options *o = p->options;
	dds_qos_t *group_qos = dds_create_qos();

	create_domain(o);
	p->participant =
		must(dds_create_participant((dds_domainid_t)o->domain, NULL, NULL), "participant");
	p->topic = must(dds_create_topic(p->participant, &ShapeType_desc, o->topic, NULL, NULL),
			"topic");
	if (o->partition_count) {
		const char *names[PEER_LIST_MAX];

		memcpy(names, o->partitions, sizeof(names));
		dds_qset_partition(group_qos, (uint32_t)o->partition_count, names);
	}
	p->group = o->publish ? must(dds_create_publisher(p->participant, group_qos, NULL),
				     "publisher")
			      : must(dds_create_subscriber(p->participant, group_qos, NULL),
				     "subscriber");
	p->waitset = must(dds_create_waitset(p->participant), "waitset");
	dds_delete_qos(group_qos);
}

static void open_endpoint(struct peer *p)
{
	dds_qos_t *qos = make_qos(p->options);

	if (p->options->publish) {
		p->endpoint = must(dds_create_writer(p->group, p->topic, qos, NULL), "writer");
		dds_set_status_mask(p->endpoint, DDS_PUBLICATION_MATCHED_STATUS |
							 DDS_OFFERED_INCOMPATIBLE_QOS_STATUS);
	} else {
		p->endpoint = must(dds_create_reader(p->group, p->topic, qos, NULL), "reader");
		dds_set_status_mask(p->endpoint, DDS_SUBSCRIPTION_MATCHED_STATUS |
							 DDS_REQUESTED_INCOMPATIBLE_QOS_STATUS |
							 DDS_DATA_AVAILABLE_STATUS);
	}
	must(dds_waitset_attach(p->waitset, p->endpoint, 0), "attach");
	dds_delete_qos(qos);
}

static void poll_times(struct peer *p)
{
	struct peer_status s = {0};

	if (p->options->publish) {
		dds_offered_deadline_missed_status_t deadline = {0};
		dds_liveliness_lost_status_t lost = {0};

		dds_get_offered_deadline_missed_status(p->endpoint, &deadline);
		dds_get_liveliness_lost_status(p->endpoint, &lost);
		s.deadline = (int)deadline.total_count, s.lost = (int)lost.total_count;
	} else {
		dds_requested_deadline_missed_status_t deadline = {0};
		dds_liveliness_changed_status_t live = {0};

		dds_get_requested_deadline_missed_status(p->endpoint, &deadline);
		dds_get_liveliness_changed_status(p->endpoint, &live);
		s.deadline = (int)deadline.total_count;
		s.alive = (int)live.alive_count, s.not_alive = (int)live.not_alive_count;
	}
	peer_print_status(&s, &p->status);
}

/* Reads both statuses and prints what changed. Returns the number of matched endpoints. */
static int poll_status(struct peer *p)
{
	int current, total, incompatible;
	uint32_t policy;

	if (p->options->publish) {
		dds_publication_matched_status_t matched = {0};
		dds_offered_incompatible_qos_status_t refused = {0};

		dds_get_publication_matched_status(p->endpoint, &matched);
		dds_get_offered_incompatible_qos_status(p->endpoint, &refused);
		current = (int)matched.current_count, total = (int)matched.total_count;
		policy = refused.last_policy_id, incompatible = (int)refused.total_count;
	} else {
		dds_subscription_matched_status_t matched = {0};
		dds_requested_incompatible_qos_status_t refused = {0};

		dds_get_subscription_matched_status(p->endpoint, &matched);
		dds_get_requested_incompatible_qos_status(p->endpoint, &refused);
		current = (int)matched.current_count, total = (int)matched.total_count;
		policy = refused.last_policy_id, incompatible = (int)refused.total_count;
	}
	if (current != p->current)
		peer_print_matched(current, total);
	if (incompatible != p->incompatible)
		peer_print_incompatible((int)policy, incompatible);
	p->current = current, p->incompatible = incompatible;
	poll_times(p);
	return current;
}

static bool timed_out(const struct peer *p)
{
	return peer_mono_ns() >= p->give_up_ns;
}

static void wait_event(struct peer *p, int64_t until_ns)
{
	int64_t left = until_ns - peer_mono_ns();
	dds_attach_t triggered;

	if (left > DDS_MSECS(50))
		left = DDS_MSECS(50);
	if (left > 0)
		dds_waitset_wait(p->waitset, &triggered, 1, left);
}

static const uint8_t *writer_guid(struct peer *p, dds_instance_handle_t handle)
{
	dds_builtintopic_endpoint_t *data;

	for (int i = 0; i < p->writer_count; i++)
		if (p->writers[i].handle == handle)
			return p->writers[i].guid;
	data = dds_get_matched_publication_data(p->endpoint, handle);
	if (!data)
		return NULL;
	p->writer_count = p->writer_count % WRITERS_MAX + 1;
	p->writers[p->writer_count - 1].handle = handle;
	memcpy(p->writers[p->writer_count - 1].guid, data->key.v, 16);
	dds_builtintopic_free_endpoint(data);
	return p->writers[p->writer_count - 1].guid;
}

static const char *state_name(dds_instance_state_t state)
{
	if (state == DDS_IST_NOT_ALIVE_DISPOSED)
		return "disposed";
	return state == DDS_IST_NOT_ALIVE_NO_WRITERS ? "no_writers" : "alive";
}

/*
 * A state change that met samples not yet taken has no sample of its own: the last of them carries it.
 * Report it as the change of its own that it would otherwise have been.
 */
static bool carries_change(const dds_sample_info_t *info, const dds_sample_info_t *next)
{
	return info->valid_data && info->instance_state != DDS_IST_ALIVE &&
	       (!next || next->instance_handle != info->instance_handle);
}

static void report(struct peer *p, const ShapeType *shape, const dds_sample_info_t *info,
		   bool valid)
{
	struct peer_sample sample = {
		.writer = writer_guid(p, info->publication_handle),
		.color = shape->color,
		.x = shape->x,
		.y = shape->y,
		.shapesize = shape->shapesize,
		.valid = valid,
		/* A sample's own state is alive; the instance state is the newest. */
		.state = valid ? "alive" : state_name(info->instance_state),
		.source_ns = info->source_timestamp,
	};

	peer_print_sample(&sample);
	*(valid ? &p->samples : &p->not_alive) += 1;
}

static void take_all(struct peer *p)
{
	static ShapeType shapes[TAKE_MAX];
	static dds_sample_info_t infos[TAKE_MAX];
	static void *pointers[TAKE_MAX];
	int n;

	for (int i = 0; i < TAKE_MAX; i++)
		pointers[i] = &shapes[i];
	while ((n = must(dds_take(p->endpoint, pointers, infos, TAKE_MAX, TAKE_MAX), "take")) > 0) {
		for (int i = 0; i < n; i++) {
			const dds_sample_info_t *next = i + 1 < n ? &infos[i + 1] : NULL;

			report(p, &shapes[i], &infos[i], infos[i].valid_data);
			if (carries_change(&infos[i], next))
				report(p, &shapes[i], &infos[i], false);
		}
	}
}

static bool satisfied(const struct peer *p)
{
	return p->options->count && p->samples >= p->options->count &&
	       p->not_alive >= p->options->not_alive;
}

static int subscribe(struct peer *p)
{
	int64_t linger_until = 0;

	while (!peer_stopped()) {
		poll_status(p);
		take_all(p);
		if (satisfied(p) && !linger_until)
			linger_until = peer_mono_ns() + (int64_t)(p->options->linger_s * 1e9);
		if (linger_until && peer_mono_ns() >= linger_until)
			break;
		if (!linger_until && timed_out(p))
			return peer_print_done(p->samples, true, false);
		wait_event(p, linger_until ? linger_until : p->give_up_ns);
	}
	return peer_print_done(p->samples, false, false);
}

static int join_repeatedly(struct peer *p)
{
	int code = 0;

	for (int n = 1; n <= p->options->joins && code == 0 && !peer_stopped(); n++) {
		peer_join(p->options, n);
		open_endpoint(p);
		p->samples = p->current = 0;
		p->give_up_ns = peer_mono_ns() + (int64_t)(p->options->timeout_s * 1e9);
		code = subscribe(p);
		dds_delete(p->endpoint);
	}
	return code;
}

/* Waits until `wanted` readers match, printing changes. False when time or patience ended. */
static bool await_readers(struct peer *p, int wanted)
{
	while (poll_status(p) < wanted) {
		if (peer_stopped() || timed_out(p))
			return false;
		wait_event(p, p->give_up_ns);
	}
	return true;
}

static void write_samples(struct peer *p)
{
	const struct peer_options *o = p->options;
	int64_t next_ns = peer_mono_ns();

	for (int n = 1; (!o->count || n <= o->count) && !peer_stopped() && !timed_out(p); n++) {
		ShapeType shape = {.x = peer_x(o, n), .y = 2 * peer_x(o, n), .shapesize = o->size};

		snprintf(shape.color, sizeof(shape.color), "%s", peer_color(o, n));
		must(dds_write(p->endpoint, &shape), "write");
		p->samples++;
		poll_status(p);
		if (o->rate_hz > 0) {
			next_ns += (int64_t)(1e9 / o->rate_hz);
			peer_sleep_until(next_ns);
		}
	}
}

static void end_instances(struct peer *p)
{
	ShapeType shape = {.x = 0};

	if (p->options->dispose) {
		snprintf(shape.color, sizeof(shape.color), "%s", p->options->dispose);
		must(dds_dispose(p->endpoint, &shape), "dispose");
	}
	if (p->options->unregister) {
		snprintf(shape.color, sizeof(shape.color), "%s", p->options->unregister);
		must(dds_unregister_instance(p->endpoint, &shape), "unregister");
	}
}

static int publish(struct peer *p)
{
	bool acknowledged = false;
	int64_t linger_until, assert_until;

	if (!await_readers(p, p->options->wait_matched))
		return peer_print_done(0, !peer_stopped(), false);
	peer_settle(p->options);
	write_samples(p);
	end_instances(p);
	while (p->options->reliable && !acknowledged && !peer_stopped() && !timed_out(p))
		acknowledged = dds_wait_for_acks(p->endpoint, DDS_MSECS(100)) == DDS_RETCODE_OK;
	linger_until = peer_mono_ns() + (int64_t)(p->options->linger_s * 1e9);
	assert_until = peer_mono_ns() + (int64_t)(p->options->linger_s * 0.5e9);
	while (!peer_stopped() && peer_mono_ns() < linger_until) {
		if (p->options->assert_ms && peer_mono_ns() < assert_until)
			dds_assert_liveliness(p->options->liveliness == 1 ? p->participant
									  : p->endpoint);
		poll_status(p);
		if (p->options->assert_ms)
			peer_sleep_until(peer_mono_ns() + p->options->assert_ms * 1000000);
		else
			wait_event(p, linger_until);
	}
	return peer_print_done(p->samples, p->options->reliable && !acknowledged && !peer_stopped(),
			       acknowledged);
}

int main(int argc, char **argv)
{
	struct peer_options options;
	struct peer p = {.options = &options};
	int code;

	peer_parse(argc, argv, &options);
	if (options.filter) {
		fprintf(stderr, "peer-cyclone: Cyclone DDS has no SQL filter ('--filter')\n");
		return 2;
	}
	peer_catch_signals();
	open_peer(&p);
	if (!options.joins)
		open_endpoint(&p);
	p.give_up_ns = peer_mono_ns() + (int64_t)(options.timeout_s * 1e9);
	peer_print_ready(&options, "cyclone");
	code = options.publish ? publish(&p) : options.joins ? join_repeatedly(&p) : subscribe(&p);
	dds_delete(p.participant);
	return code;
}
