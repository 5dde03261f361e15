/* SPDX-License-Identifier: Apache-2.0 */
/* What a participant tells about itself and its domain: reports, visits, counters. */
#include "control/domain.h"

#include "control/visit.h"

#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* --- report -------------------------------------------------------------------------------------- */

/* A text that grows in the caller's buffer; `overflow` if it did not fit. */
struct text {
	char *at;
	size_t left;
	bool overflow;
};

__attribute__((format(printf, 2, 3))) static void line(struct text *t, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(t->at, t->left, format, args);
	va_end(args);
	if (n < 0 || (size_t)n >= t->left) {
		t->overflow = true;
		return;
	}
	t->at += n;
	t->left -= (size_t)n;
}

static void report_worker(struct text *t, const struct apus_participant *p, uint32_t i)
{
	const struct apus_dp_worker *w = p->workers[i];
	const struct apus_dp_queue *q = w->config.queue;

	line(t, "worker.%u: %s, port %u, %s%s%s\n", i, w->spawned ? "spawned" : "driven",
	     q->unicast_port, apus_dp_queue_kind_name(q->kind),
	     q->fallback_reason[0] ? " because " : "", q->fallback_reason);
}

static void report_pages(struct text *t, const struct apus_participant *p)
{
	uint32_t huge = 0, ordinary = 0;

	for (const struct apus_writer *w = p->writers; w; w = w->next)
		*(w->dp->cache.pool.segment.huge ? &huge : &ordinary) += 1;
	for (const struct apus_reader *r = p->readers; r; r = r->next)
		*(r->dp->pool.segment.huge ? &huge : &ordinary) += 1;
	line(t, "pages: %u pools on 2 MiB pages, %u on ordinary ones\n", huge, ordinary);
}

int apus_participant_report(const struct apus_participant *participant, char *text_out,
			    size_t text_bytes)
{
	struct apus_participant *p = (struct apus_participant *)participant;
	struct text t = {text_out, text_bytes, false};
	char warning[256];

	if (!text_out || text_bytes == 0)
		return APUS_EINVAL;
	if (!apus_dp_alive(p->fork_count))
		return APUS_ECLOSED;
	text_out[0] = '\0';
	pthread_mutex_lock(&p->lock);
	line(&t, "domain: %u\nparticipant.index: %u\n", p->config.domain, p->participant_idx);
	for (size_t i = 0; i < p->interface_count; i++) {
		const struct apus_dp_netif *n = &p->interfaces[i];
		char address[INET6_ADDRSTRLEN];

		line(&t, "interface: %s %s%s\n", n->name,
		     inet_ntop(n->family == AF_INET6 ? AF_INET6 : AF_INET,
			       n->family == AF_INET6 ? n->ipv6 : n->ipv4, address, sizeof(address)),
		     n->loopback ? " (loopback)" : "");
	}
	if (p->port && p->plugin->port_warning(p->port, warning, sizeof(warning)))
		line(&t, "warning: %s\n", warning);
	line(&t, "metatraffic: port %u\n", p->control->config.queue->unicast_port);
	for (uint32_t i = 0; i < p->worker_count; i++)
		report_worker(&t, p, i);
	report_pages(&t, p);
	pthread_mutex_unlock(&p->lock);
	return t.overflow ? APUS_ELIMIT : 0;
}

/* --- visits -------------------------------------------------------------------------------------- */

int apus_visit_participants(struct apus_participant *participant,
			    bool (*visit)(const struct apus_participant_info *, void *), void *user)
{
	int n;

	if (!apus_dp_alive(participant->fork_count))
		return APUS_ECLOSED;
	pthread_mutex_lock(&participant->lock);
	n = apus_ctl_visit_participants(participant->graph, visit, user);
	pthread_mutex_unlock(&participant->lock);
	return n;
}

int apus_visit_endpoints(struct apus_participant *participant,
			 bool (*visit)(const struct apus_endpoint_info *, void *), void *user)
{
	int n;

	if (!apus_dp_alive(participant->fork_count))
		return APUS_ECLOSED;
	pthread_mutex_lock(&participant->lock);
	n = apus_ctl_visit_endpoints(participant->graph, visit, user);
	pthread_mutex_unlock(&participant->lock);
	return n;
}

/* --- counters ------------------------------------------------------------------------------------ */

/* A counter of a struct: its name and where it stands. */
struct named {
	const char *name;
	size_t offset;
};

#define COUNTER(type, field, text)                 \
	{                                          \
		text, offsetof(struct type, field) \
	}

static const struct named worker_counters[] = {
	COUNTER(apus_dp_worker_counters, rx_submessages, "rx.submessages"),
	COUNTER(apus_dp_worker_counters, rx_malformed, "rx.malformed"),
	COUNTER(apus_dp_worker_counters, rx_not_rtps, "rx.not_rtps"),
	COUNTER(apus_dp_worker_counters, rx_own, "rx.own"),
	COUNTER(apus_dp_worker_counters, rx_other_dest, "rx.other_destination"),
	COUNTER(apus_dp_worker_counters, rx_unmatched, "rx.unmatched"),
	COUNTER(apus_dp_worker_counters, rx_skipped, "rx.skipped"),
	COUNTER(apus_dp_worker_counters, adoptions, "worker.adoptions"),
	COUNTER(apus_dp_worker_counters, pulses, "worker.pulses"),
	COUNTER(apus_dp_worker_counters, pulses_lost, "worker.pulses_lost"),
};

static const struct named queue_counters[] = {
	COUNTER(apus_dp_queue_counters, rx, "queue.rx"),
	COUNTER(apus_dp_queue_counters, rx_bytes, "queue.rx_bytes"),
	COUNTER(apus_dp_queue_counters, rx_truncated, "queue.rx_truncated"),
	COUNTER(apus_dp_queue_counters, rx_starved, "queue.rx_starved"),
	COUNTER(apus_dp_queue_counters, rx_placed, "queue.rx_placed"),
	COUNTER(apus_dp_queue_counters, rx_errors, "queue.rx_errors"),
	COUNTER(apus_dp_queue_counters, tx, "queue.tx"),
	COUNTER(apus_dp_queue_counters, tx_bytes, "queue.tx_bytes"),
	COUNTER(apus_dp_queue_counters, tx_dropped, "queue.tx_dropped"),
	COUNTER(apus_dp_queue_counters, tx_segmented, "queue.tx_segmented"),
	COUNTER(apus_dp_queue_counters, segment_refusals, "queue.segment_refusals"),
	COUNTER(apus_dp_queue_counters, ring_switches, "queue.ring_switches"),
	COUNTER(apus_dp_queue_counters, foreign_calls, "queue.foreign_calls"),
	COUNTER(apus_dp_queue_counters, syscalls, "queue.syscalls"),
	COUNTER(apus_dp_queue_counters, reattached, "queue.reattached"),
};

static const struct named graph_counters[] = {
	COUNTER(apus_ctl_graph_counters, refused_participants, "discovery.refused.participants"),
	COUNTER(apus_ctl_graph_counters, refused_local, "discovery.refused.local"),
	COUNTER(apus_ctl_graph_counters, refused_writers, "discovery.refused.writers"),
	COUNTER(apus_ctl_graph_counters, refused_readers, "discovery.refused.readers"),
	COUNTER(apus_ctl_graph_counters, refused_bytes, "discovery.refused.bytes"),
	COUNTER(apus_ctl_graph_counters, refused_matches, "discovery.refused.matches"),
	COUNTER(apus_ctl_graph_counters, refused_qos, "discovery.refused.qos"),
	COUNTER(apus_ctl_graph_counters, refused_orphans, "discovery.refused.orphans"),
	COUNTER(apus_ctl_graph_counters, unmatched_full, "discovery.unmatched_full"),
	COUNTER(apus_ctl_graph_counters, stale, "discovery.stale"),
};

static const struct named discovery_counters[] = {
	COUNTER(apus_ctl_discovery_counters, announcements_sent, "discovery.announcements"),
	COUNTER(apus_ctl_discovery_counters, answers_withheld, "discovery.answers_withheld"),
	COUNTER(apus_ctl_discovery_counters, asked_again, "discovery.asked_again"),
	COUNTER(apus_ctl_discovery_counters, datagrams_withheld, "discovery.datagrams_withheld"),
	COUNTER(apus_ctl_discovery_counters, restarted, "discovery.restarted"),
	COUNTER(apus_ctl_discovery_counters, outdated, "discovery.outdated"),
	COUNTER(apus_ctl_discovery_counters, participants_heard, "discovery.heard"),
	COUNTER(apus_ctl_discovery_counters, own, "discovery.own"),
	COUNTER(apus_ctl_discovery_counters, foreign, "discovery.foreign"),
	COUNTER(apus_ctl_discovery_counters, orphans, "discovery.orphans"),
	COUNTER(apus_ctl_discovery_counters, lapsed, "discovery.lapsed"),
	COUNTER(apus_ctl_discovery_counters, departed, "discovery.departed"),
	COUNTER(apus_ctl_discovery_counters, server_announcements,
		"discovery.server_announcements"),
	COUNTER(apus_ctl_discovery_counters, relayed, "discovery.relayed"),
	COUNTER(apus_ctl_discovery_counters, impostors, "discovery.impostors"),
};

static const struct named publisher_counters[] = {
	COUNTER(apus_ctl_publisher_counters, published, "snapshots.published"),
	COUNTER(apus_ctl_publisher_counters, reclaimed, "snapshots.reclaimed"),
	COUNTER(apus_ctl_publisher_counters, deferred, "snapshots.deferred"),
	COUNTER(apus_ctl_publisher_counters, filters_refused, "snapshots.filters_refused"),
};

static const struct named type_counters[] = {
	COUNTER(apus_ctl_types_counters, learnt, "types.learnt"),
	COUNTER(apus_ctl_types_counters, unwanted, "types.unwanted"),
	COUNTER(apus_ctl_types_counters, forged, "types.forged"),
	COUNTER(apus_ctl_types_counters, unusable, "types.unusable"),
	COUNTER(apus_ctl_types_counters, refused, "types.refused"),
	COUNTER(apus_ctl_types_counters, given_up, "types.given_up"),
};

static const struct named domain_counters[] = {
	COUNTER(apus_participant, type_counters.asked, "types.asked"),
	COUNTER(apus_participant, type_counters.answered, "types.answered"),
	COUNTER(apus_participant, type_counters.withheld, "types.withheld"),
	COUNTER(apus_participant, malformed_records, "discovery.malformed"),
	COUNTER(apus_participant, net_changes, "discovery.address_changes"),
	COUNTER(apus_participant, shm_counters.links, "shm.links"),
	COUNTER(apus_participant, shm_counters.matches, "shm.matches"),
	COUNTER(apus_participant, shm_counters.fallbacks, "shm.fallbacks"),
	COUNTER(apus_participant, shm_counters.deaths, "shm.deaths"),
	COUNTER(apus_participant, shm_counters.malformed, "shm.malformed"),
};

static const struct named reader_counters[] = {
	COUNTER(apus_dp_reader_counters, received, "reader.received"),
	COUNTER(apus_dp_reader_counters, delivered, "reader.delivered"),
	COUNTER(apus_dp_reader_counters, duplicates, "reader.duplicates"),
	COUNTER(apus_dp_reader_counters, beyond, "reader.beyond_window"),
	COUNTER(apus_dp_reader_counters, held, "reader.held"),
	COUNTER(apus_dp_reader_counters, held_full, "reader.held_full"),
	COUNTER(apus_dp_reader_counters, too_large, "reader.too_large"),
	COUNTER(apus_dp_reader_counters, bad_key, "reader.bad_key"),
	COUNTER(apus_dp_reader_counters, no_slot, "reader.no_slot"),
	COUNTER(apus_dp_reader_counters, fragments, "reader.fragments"),
	COUNTER(apus_dp_reader_counters, bad_fragment, "reader.bad_fragment"),
	COUNTER(apus_dp_reader_counters, late_fragments, "reader.late_fragments"),
	COUNTER(apus_dp_reader_counters, assembly_full, "reader.assembly_full"),
	COUNTER(apus_dp_reader_counters, incomplete, "reader.incomplete"),
	COUNTER(apus_dp_reader_counters, nack_frags_sent, "reader.nack_frags"),
	COUNTER(apus_dp_reader_counters, heartbeats, "reader.heartbeats"),
	COUNTER(apus_dp_reader_counters, gaps, "reader.gaps"),
	COUNTER(apus_dp_reader_counters, acknacks_sent, "reader.acknacks"),
	COUNTER(apus_dp_reader_counters, other_route, "reader.other_route"),
	COUNTER(apus_dp_reader_counters, shm_broken, "reader.shm_broken"),
	COUNTER(apus_dp_reader_counters, lent, "reader.lent"),
	COUNTER(apus_dp_reader_counters, matches_refused, "reader.matches_refused"),
	COUNTER(apus_dp_reader_counters, filter_info, "reader.filter_info"),
	COUNTER(apus_dp_reader_counters, results[APUS_DP_STORED], "reader.stored"),
	COUNTER(apus_dp_reader_counters, results[APUS_DP_DISPLACED], "reader.displaced"),
	COUNTER(apus_dp_reader_counters, results[APUS_DP_NOTICE], "reader.notices"),
	COUNTER(apus_dp_reader_counters, results[APUS_DP_IGNORED], "reader.ignored"),
	COUNTER(apus_dp_reader_counters, results[APUS_DP_REJECTED_FILTER],
		"reader.rejected.filter"),
	COUNTER(apus_dp_reader_counters, results[APUS_DP_REJECTED_OWNERSHIP],
		"reader.rejected.ownership"),
	COUNTER(apus_dp_reader_counters, results[APUS_DP_REJECTED_RATE], "reader.rejected.rate"),
	COUNTER(apus_dp_reader_counters, results[APUS_DP_REJECTED_ORDER], "reader.rejected.order"),
	COUNTER(apus_dp_reader_counters, results[APUS_DP_REJECTED_SET], "reader.rejected.set"),
	COUNTER(apus_dp_reader_counters, results[APUS_DP_WITHHELD], "reader.withheld"),
	COUNTER(apus_dp_reader_counters, results[APUS_DP_EXPIRED], "reader.expired"),
	COUNTER(apus_dp_reader_counters, results[APUS_DP_REFUSED], "reader.refused"),
	COUNTER(apus_dp_reader_counters, results[APUS_DP_MALFORMED], "reader.malformed"),
	COUNTER(apus_dp_reader_counters, values_refused, "reader.values_refused"),
};

static const struct named inbox_counters[] = {
	COUNTER(apus_dp_inbox_counters, refusals[APUS_DP_REFUSED_INSTANCES],
		"reader.refused.instances"),
	COUNTER(apus_dp_inbox_counters, refusals[APUS_DP_REFUSED_SAMPLES],
		"reader.refused.samples"),
	COUNTER(apus_dp_inbox_counters, refusals[APUS_DP_REFUSED_PER_INSTANCE],
		"reader.refused.per_instance"),
	COUNTER(apus_dp_inbox_counters, refusals[APUS_DP_REFUSED_SLOTS], "reader.refused.slots"),
	COUNTER(apus_dp_inbox_counters, sets_released, "reader.sets_released"),
	COUNTER(apus_dp_inbox_counters, sets_dropped, "reader.sets_dropped"),
	COUNTER(apus_dp_inbox_counters, late, "reader.late"),
};

static const struct named writer_counters[] = {
	COUNTER(apus_dp_writer_counters, written, "writer.written"),
	COUNTER(apus_dp_writer_counters, batches, "writer.batches"),
	COUNTER(apus_dp_writer_counters, displaced, "writer.displaced"),
	COUNTER(apus_dp_writer_counters, expired, "writer.expired"),
	COUNTER(apus_dp_writer_counters, data_sent, "writer.data"),
	COUNTER(apus_dp_writer_counters, repairs, "writer.repairs"),
	COUNTER(apus_dp_writer_counters, group_repairs, "writer.group_repairs"),
	COUNTER(apus_dp_writer_counters, suppressed, "writer.suppressed"),
	COUNTER(apus_dp_writer_counters, fragments, "writer.fragments"),
	COUNTER(apus_dp_writer_counters, nack_frags, "writer.nack_frags"),
	COUNTER(apus_dp_writer_counters, gaps, "writer.gaps"),
	COUNTER(apus_dp_writer_counters, filtered, "writer.filtered"),
	COUNTER(apus_dp_writer_counters, filter_info, "writer.filter_info"),
	COUNTER(apus_dp_writer_counters, heartbeats, "writer.heartbeats"),
	COUNTER(apus_dp_writer_counters, acknacks, "writer.acknacks"),
	COUNTER(apus_dp_writer_counters, acknacks_stale, "writer.acknacks_stale"),
	COUNTER(apus_dp_writer_counters, acknacks_forged, "writer.acknacks_forged"),
	COUNTER(apus_dp_writer_counters, refused_full, "writer.refused_full"),
	COUNTER(apus_dp_writer_counters, refused_instances, "writer.refused_instances"),
	COUNTER(apus_dp_writer_counters, matches_refused, "writer.matches_refused"),
	COUNTER(apus_dp_writer_counters, shm_displaced, "writer.shm_displaced"),
	COUNTER(apus_dp_writer_counters, demotions, "writer.demotions"),
	COUNTER(apus_dp_writer_counters, returns, "writer.returns"),
	COUNTER(apus_dp_writer_counters, demoted_lost, "writer.demoted_lost"),
};

typedef void visit_fn(const struct apus_stat *, void *);

/* Reports each counter of a table, summed over `count` structs. */
static int report(const struct named *table, size_t n, const void *const *structs, uint32_t count,
		  visit_fn *visit, void *user)
{
	for (size_t i = 0; i < n; i++) {
		struct apus_stat stat = {table[i].name, 0};

		for (uint32_t k = 0; k < count; k++)
			stat.value += apus_counter_get(
				(const void *)((const char *)structs[k] + table[i].offset));
		visit(&stat, user);
	}
	return (int)n;
}

#define REPORT(table, structs, count) \
	report(table, APUS_ARRAY_LENGTH(table), structs, count, visit, user)

int apus_ctl_domain_visit_port(const struct apus_dp_plugin *plugin, struct apus_dp_port *port,
			       visit_fn *visit, void *user)
{
	struct apus_dp_port_stat stat;
	uint32_t n = 0;

	while (port && plugin->port_stat(port, n, &stat)) {
		visit(&(struct apus_stat){stat.name, stat.value}, user);
		n++;
	}
	return (int)n;
}

int apus_visit_stats(struct apus_participant *participant,
		     void (*visit)(const struct apus_stat *, void *), void *user)
{
	struct apus_participant *p = participant;
	const void *workers[APUS_CTL_CORES_MAX + 1] = {&p->control->counters};
	const void *queues[APUS_CTL_CORES_MAX + 1] = {&p->control->config.queue->counters};
	const void *one;
	int n;

	if (!apus_dp_alive(p->fork_count))
		return APUS_ECLOSED;
	for (uint32_t i = 0; i < p->worker_count; i++) {
		workers[i + 1] = &p->workers[i]->counters;
		queues[i + 1] = &p->workers[i]->config.queue->counters;
	}
	n = REPORT(worker_counters, workers, p->worker_count + 1);
	n += REPORT(queue_counters, queues, p->worker_count + 1);
	one = apus_ctl_graph_counters(p->graph);
	n += REPORT(graph_counters, &one, 1);
	one = apus_ctl_discovery_counters(p->discovery);
	n += REPORT(discovery_counters, &one, 1);
	one = apus_ctl_publisher_counters(p->publisher);
	n += REPORT(publisher_counters, &one, 1);
	one = apus_ctl_types_counters(p->types);
	n += REPORT(type_counters, &one, 1);
	one = p;
	n += REPORT(domain_counters, &one, 1);
	return n + apus_ctl_domain_visit_port(p->plugin, p->port, visit, user);
}

int apus_ctl_domain_visit_reader(struct apus_reader *reader, visit_fn *visit, void *user)
{
	const void *one = &reader->dp->counters, *inbox = &reader->dp->inbox.counters;

	return REPORT(reader_counters, &one, 1) + REPORT(inbox_counters, &inbox, 1);
}

int apus_visit_reader_stats(struct apus_reader *reader,
			    void (*visit)(const struct apus_stat *, void *), void *user)
{
	if (!apus_dp_alive(reader->fork_count))
		return APUS_ECLOSED;
	apus_dp_worker_take_turn(reader->worker);
	apus_dp_reader_count_skipped(reader->dp);
	apus_dp_worker_end_turn(reader->worker);
	return apus_ctl_domain_visit_reader(reader, visit, user);
}

int apus_visit_writer_stats(struct apus_writer *writer,
			    void (*visit)(const struct apus_stat *, void *), void *user)
{
	const void *one = &writer->dp->counters;

	if (!apus_dp_alive(writer->fork_count))
		return APUS_ECLOSED;
	return REPORT(writer_counters, &one, 1);
}
