/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Telling whoever asks what this participant shares with others of this host: `apus shm ls`. One answer a connection, as
 * memory rather than messages, so that no slow asker can keep anything waiting.
 *
 * Under the participant's lock, and for each writer under the turn of its worker: counts are of one instant there.
 */
#include "control/shm_internal.h"
#include "control/shm_report.h"

#include <apus/host.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static uint32_t pid_of(const struct apus_ctl_shm_peer *peer)
{
	struct ucred cred;
	socklen_t bytes = sizeof(cred);

	return peer->out >= 0 && getsockopt(peer->out, SOL_SOCKET, SO_PEERCRED, &cred, &bytes) == 0
		       ? (uint32_t)cred.pid
		       : 0;
}

static struct apus_ctl_shm_report_row *new_row(struct apus_ctl_shm_report *report, uint32_t max,
					       enum apus_host_kind kind, const char *topic)
{
	struct apus_ctl_shm_report_row *row;

	if (report->row_count == max)
		return NULL;
	row = &report->rows[report->row_count++];
	row->kind = kind;
	snprintf(row->topic, sizeof(row->topic), "%s", topic);
	return row;
}

/* Slots that this reader has given back and that are not collected yet, of 64: the writer does that when it needs them. */
static uint64_t returned_of(const struct apus_ctl_shm_route *r, uint32_t word)
{
	const struct apus_shm_held *held = &r->out.held;

	/* Relaxed: a number to show. */
	return held->returned && word < held->words
		       ? apus_shm_load(&held->returned[word], relaxed) & held->bits[word]
		       : 0;
}

static uint32_t count_returned(const struct apus_ctl_shm_route *r)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < r->out.held.words; i++)
		count += (uint32_t)__builtin_popcountll(returned_of(r, i));
	return count;
}

static bool is_reader_of(const struct apus_ctl_shm_route *r, const struct apus_writer *w)
{
	return r->is_writer && r->owner == w;
}

/* Slots of a writer's that only wait to be collected: all who had them have given them back. */
static uint32_t count_unheld(const struct apus_participant *p, const struct apus_writer *w)
{
	const struct apus_shm_pool *pool = &w->dp->cache.pool;
	uint32_t count = 0;

	for (uint32_t i = 0; 64 * i < pool->slot_count; i++) {
		uint64_t any = 0;

		for (const struct apus_ctl_shm_route *r = p->shm->routes; r; r = r->next)
			any |= is_reader_of(r, w) ? returned_of(r, i) : 0;
		for (; any; any &= any - 1) {
			uint32_t bit = (uint32_t)__builtin_ctzll(any), back = 0;

			for (const struct apus_ctl_shm_route *r = p->shm->routes; r; r = r->next)
				back += is_reader_of(r, w) && (returned_of(r, i) >> bit & 1);
			count += 64 * i + bit < pool->slot_count &&
				 pool->holds[64 * i + bit] == back;
		}
	}
	return count;
}

static void add_route(struct apus_ctl_shm_report *report, uint32_t max,
		      struct apus_ctl_shm_route *r, const char *topic)
{
	struct apus_ctl_shm_report_row *row =
		new_row(report, max, r->is_writer ? APUS_HOST_LENT : APUS_HOST_BORROWED, topic);

	if (!row)
		return;
	row->writer = r->writer;
	row->reader = r->reader;
	row->pid = pid_of(r->peer);
	row->dead = r->peer->out < 0;
	if (!r->is_writer) {
		row->bytes = r->mapped_bytes[1] + r->mapped_bytes[2];
		return;
	}
	row->bytes = r->cells.bytes + r->page.bytes;
	row->slots = r->out.quota;
	row->slots_used = r->out.held.count - count_returned(r);
	row->waiting = apus_shm_ring_waiting(&r->out.ring);
	report->bytes += row->bytes;
}

/* A writer that somebody reads, with its readers. */
static void add_writer(struct apus_participant *p, struct apus_ctl_shm_report *report, uint32_t max,
		       struct apus_writer *w)
{
	const struct apus_shm_pool *pool = &w->dp->cache.pool;
	struct apus_ctl_shm_report_row *row;
	bool is_shared = false;

	for (struct apus_ctl_shm_route *r = p->shm->routes; r; r = r->next)
		is_shared |= is_reader_of(r, w);
	row = is_shared ? new_row(report, max, APUS_HOST_POOL, w->topic) : NULL;
	if (!row)
		return;
	apus_dp_worker_take_turn(w->worker);
	row->writer = w->dp->config.guid;
	row->bytes = pool->segment.bytes;
	row->slot_bytes = pool->slot_bytes;
	row->slots = pool->slot_count;
	row->slots_used = pool->slot_count - pool->free_count - count_unheld(p, w);
	report->bytes += row->bytes;
	for (struct apus_ctl_shm_route *r = p->shm->routes; r; r = r->next)
		if (is_reader_of(r, w))
			add_route(report, max, r, w->topic);
	apus_dp_worker_end_turn(w->worker);
}

static void add_readers(struct apus_participant *p, struct apus_ctl_shm_report *report,
			uint32_t max)
{
	for (struct apus_ctl_shm_route *r = p->shm->routes; r; r = r->next) {
		const struct apus_ctl_endpoint *e;
		const struct apus_reader *reader;

		if (r->is_writer || r->state != APUS_CTL_SHM_READY)
			continue;
		e = apus_ctl_graph_endpoint(p->graph, &r->reader);
		reader = e ? e->local.owner : NULL;
		add_route(report, max, r, reader ? reader->topic : "");
	}
}

void apus_ctl_shm_tell(struct apus_participant *p, int fd)
{
	struct apus_ctl_shm_message m = {.kind = APUS_CTL_SHM_TOLD};
	struct apus_shm_segment segment;
	struct apus_ctl_shm_report *report;
	uint32_t max = 2 * p->shm->route_count; /* a pool has at least one */

	if (max > APUS_CTL_SHM_ROWS_MAX)
		max = APUS_CTL_SHM_ROWS_MAX;
	if (apus_shm_segment_create(sizeof(*report) + max * sizeof(report->rows[0]), APUS_SHM_OWN,
				    &segment) != 0)
		return;
	report = segment.base;
	report->magic = APUS_CTL_SHM_REPORT;
	report->size = sizeof(report->rows[0]);
	report->pid = (uint32_t)getpid();
	for (struct apus_writer *w = p->writers; w; w = w->next)
		add_writer(p, report, max, w);
	add_readers(p, report, max);
	apus_ctl_shm_sign(p, &m);
	(void)apus_shm_send(fd, &m, sizeof(m), &segment.fd, 1);
	apus_shm_segment_destroy(&segment);
}
