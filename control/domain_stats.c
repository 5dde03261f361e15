/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The counter file: control copies every counter of the participant and its endpoints into a file four times a second,
 * which others map read-only. Names stand beside values, so a reader needs no table of ours.
 *
 * A sequence number in front is odd while a copy is under way. What needs a worker's turn is taken only if the turn is
 * free; else the values of the last copy stay.
 */
#include "control/domain.h"

#include "dataplane/observe.h"

#include <apus/stats.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC      UINT64_C(0x3154415453535041) /* "APSSTAT1" */
#define ROW_STATS  96
#define NAME_BYTES 40
#define PERIOD_NS  (250 * APUS_NS_PER_MS)
#define TRIES      1000
#define MATCH_ROWS 4096 /* more matches are counted, not shown */

struct value {
	char name[NAME_BYTES];
	uint64_t value;
};

struct row {
	uint32_t kind; /* enum apus_stats_kind */
	uint32_t matched;
	uint32_t stat_count;
	uint32_t flags;
	uint8_t guid[16];
	char topic[256];
	struct value stats[ROW_STATS];
};

struct apus_ctl_stats_file {
	uint64_t magic;
	uint32_t row_bytes, row_max;
	uint32_t pid, row_count;
	_Atomic uint64_t sequence; /* odd: being written */
	_Atomic int64_t mono_ns;
	struct row rows[];
};

#define BEHIND    1u
#define NOT_ALIVE 2u
#define SILENT    4u

/* --- keeping ------------------------------------------------------------------------------------- */

static size_t file_bytes(uint32_t row_max)
{
	return sizeof(struct apus_ctl_stats_file) + (size_t)row_max * sizeof(struct row);
}

static uint32_t match_rows(const struct apus_participant *p)
{
	return p->config.matches < MATCH_ROWS ? p->config.matches : MATCH_ROWS;
}

/* The keeper's lock: it ends with the keeper, however that ends, and can be asked for without being taken. */
static struct flock whole(short type)
{
	return (struct flock){.l_type = type, .l_whence = SEEK_SET};
}

/* Whether the path still names this file. */
static bool is_named(const char *path, const struct stat *file)
{
	struct stat st;

	return lstat(path, &st) == 0 && st.st_dev == file->st_dev && st.st_ino == file->st_ino;
}

/* What a keeper that was killed left behind goes, under its lock, and is not written over: others may have it
 * mapped. Returns APUS_EAGAIN: look again; APUS_EINVAL: it is no counter file. */
static int discard(const char *path, int fd)
{
	uint64_t magic = 0;

	if (pread(fd, &magic, sizeof(magic), 0) != sizeof(magic) || magic != MAGIC)
		return APUS_EINVAL;
	return unlink(path) == 0 ? APUS_EAGAIN : APUS_EIO;
}

/* An empty file of that name, locked, or APUS_EEXIST, APUS_EINVAL, APUS_EIO, APUS_EAGAIN. */
static int claim(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
	struct flock lock = whole(F_WRLCK);
	struct stat st;
	int rc = 0;

	if (fd < 0)
		return APUS_EIO;
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
		rc = APUS_EINVAL;
	else if (fcntl(fd, F_OFD_SETLK, &lock) != 0)
		rc = APUS_EEXIST;
	else if (fstat(fd, &st) != 0 || !is_named(path, &st))
		rc = APUS_EAGAIN; /* somebody else has just discarded it */
	else if (st.st_size > 0)
		rc = discard(path, fd);
	if (rc == 0)
		return fd;
	close(fd);
	return rc;
}

int apus_ctl_domain_stats_open(struct apus_participant *p, char *why, size_t why_bytes)
{
	const char *path = p->config.stats_file;
	uint32_t row_max = 1 + p->config.local_endpoints + match_rows(p);
	void *map = MAP_FAILED;
	int fd = APUS_EAGAIN;

	if (path[0] == '\0')
		return 0;
	for (int i = 0; i < 8 && fd == APUS_EAGAIN; i++)
		fd = claim(path);
	if (fd == APUS_EEXIST) {
		snprintf(why, why_bytes, "stats.file: \"%s\" is kept by another participant", path);
		return APUS_EEXIST;
	}
	if (fd >= 0 && ftruncate(fd, (off_t)file_bytes(row_max)) == 0)
		map = mmap(NULL, file_bytes(row_max), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED) {
		if (fd >= 0)
			close(fd);
		snprintf(why, why_bytes,
			 fd == APUS_EINVAL ? "stats.file: \"%s\" is there, and is no counter file"
					   : "stats.file: cannot write \"%s\"",
			 path);
		return APUS_EIO;
	}
	p->stats = map;
	p->stats_fd = fd;
	p->stats->row_bytes = sizeof(struct row);
	p->stats->row_max = row_max;
	p->stats->pid = (uint32_t)getpid();
	p->stats->magic = MAGIC;
	return 0;
}

void apus_ctl_domain_stats_close(struct apus_participant *p)
{
	if (!p->stats)
		return;
	unlink(p->config.stats_file);
	close(p->stats_fd);
	munmap(p->stats, file_bytes(p->stats->row_max));
	p->stats = NULL;
}

/* The last place of a row is kept for saying how many found none. */
static void put(struct row *r, const char *name, uint64_t value)
{
	struct value *last = &r->stats[ROW_STATS - 1];

	if (r->stat_count == ROW_STATS) {
		last->value++;
		return;
	}
	if (r->stat_count == ROW_STATS - 1) {
		name = "stats.dropped";
		value = 1;
	}
	snprintf(r->stats[r->stat_count].name, NAME_BYTES, "%s", name);
	r->stats[r->stat_count++].value = value;
}

static void put_stat(const struct apus_stat *stat, void *user)
{
	put(user, stat->name, stat->value);
}

static struct row *begin_row(struct apus_ctl_stats_file *f, uint32_t kind,
			     const struct apus_guid *guid, const char *topic, uint32_t matched)
{
	struct row *r;

	if (f->row_count == f->row_max)
		return NULL;
	r = &f->rows[f->row_count++];
	r->kind = kind;
	memcpy(r->guid, guid->bytes, 16);
	snprintf(r->topic, sizeof(r->topic), "%.255s", topic);
	r->matched = matched;
	r->stat_count = 0;
	r->flags = 0;
	return r;
}

/* A row of a match; NULL, and counted, if all are taken. Places of endpoints are never given to matches. */
static struct row *begin_match(struct apus_participant *p, uint32_t kind,
			       const struct apus_guid *guid, const char *topic)
{
	if (p->stats_matches == match_rows(p)) {
		p->stats_unshown++;
		return NULL;
	}
	p->stats_matches++;
	return begin_row(p->stats, kind, guid, topic, 1);
}

static const char *topic_of(const struct apus_ctl_endpoint *e)
{
	return e->record ? apus_wire_record_text(e->record, e->record->topic) : "";
}

/* Under the worker's turn. */
static void put_matched_readers(struct apus_participant *p, const struct apus_writer *w)
{
	for (uint32_t i = 0; i < w->dp->match_count; i++) {
		const struct apus_dp_writer_state *s = &w->dp->states[w->dp->order[i]];
		apus_seq behind = s->reliable && !s->awaited
					  ? w->dp->last - apus_dp_writer_acked_by(w->dp, s)
					  : 0;
		struct row *r = begin_match(p, APUS_STATS_MATCHED_READER, &s->guid, w->topic);

		if (!r)
			continue;
		put(r, "match.behind", behind > 0 ? (uint64_t)behind : 0);
		put(r, "match.silent", s->demoted);
		put(r, "match.awaited", s->awaited);
		r->flags = (s->demoted ? SILENT : 0) | (behind > 0 ? BEHIND : 0);
	}
}

/* Under the worker's turn; lapses have been booked. */
static void put_matched_writers(struct apus_participant *p, const struct apus_reader *rd)
{
	const struct apus_dp_peers *peers = &rd->dp->inbox.peers;

	for (uint32_t i = 0; i < peers->capacity; i++) {
		const struct apus_dp_peer *peer = &peers->peers[i];
		struct row *r;

		if (!peer->used)
			continue;
		r = begin_match(p, APUS_STATS_MATCHED_WRITER, &peer->guid, rd->topic);
		if (!r)
			continue;
		put(r, "match.alive", peer->lease.alive);
		put(r, "match.losses", peer->lease.losses);
		r->flags = peer->lease.alive ? 0 : NOT_ALIVE;
	}
}

static void put_writer(struct apus_participant *p, struct apus_writer *w, struct apus_mono now)
{
	struct row *r = begin_row(p->stats, APUS_STATS_WRITER, &w->dp->config.guid,
				  topic_of(w->endpoint), (uint32_t)w->graph.current);
	uint64_t behind;
	uint32_t last;

	if (!r)
		return;
	apus_visit_writer_stats(w, put_stat, r);
	put(r, "status.transitions", w->graph.transitions);
	put(r, "status.incompatible", w->graph.incompatible);
	put(r, "status.inconsistent", w->graph.inconsistent);
	if (!apus_dp_worker_try_turn(w->worker))
		return;
	apus_dp_writer_expire(w->dp, now);
	behind = (uint64_t)(w->dp->last - w->dp->min_acked);
	put(r, "status.behind", behind);
	put(r, "status.liveliness_lost", w->dp->lease.losses);
	put(r, "status.deadline_missed", apus_dp_writer_deadlines(w->dp, now, &last));
	put_matched_readers(p, w);
	apus_dp_worker_end_turn(w->worker);
	r->flags = behind ? BEHIND : 0;
}

static void put_reader(struct apus_participant *p, struct apus_reader *rd, struct apus_mono now)
{
	struct row *r = begin_row(p->stats, APUS_STATS_READER, &rd->dp->config.guid,
				  topic_of(rd->endpoint), (uint32_t)rd->graph.current);
	struct apus_dp_liveliness_cursor none = {0, 0};
	struct apus_dp_liveliness live;
	apus_instance last;

	if (!r)
		return;
	apus_visit_reader_stats(rd, put_stat, r);
	put(r, "status.transitions", rd->graph.transitions);
	put(r, "status.incompatible", rd->graph.incompatible);
	put(r, "status.inconsistent", rd->graph.inconsistent);
	if (!apus_dp_worker_try_turn(rd->worker))
		return;
	apus_dp_reader_expire(rd->dp, now);
	apus_dp_peers_observe(&rd->dp->inbox.peers, &none, now, &live);
	put(r, "status.lost", rd->dp->inbox.counters.lost + rd->dp->window_lost);
	put(r, "status.rejected", rd->dp->inbox.counters.rejected);
	put(r, "status.available", rd->dp->inbox.counters.available);
	put(r, "status.waiting", rd->dp->inbox.history.sample_count);
	put(r, "status.alive", live.alive_count);
	put(r, "status.not_alive", live.not_alive_count);
	put(r, "status.liveliness_losses", live.losses);
	put(r, "status.deadline_missed", apus_dp_reader_deadlines(rd->dp, now, &last));
	put_matched_writers(p, rd);
	apus_dp_worker_end_turn(rd->worker);
	r->flags = live.not_alive_count ? NOT_ALIVE : 0;
}

struct apus_mono apus_ctl_domain_stats_turn(struct apus_participant *p, struct apus_mono now)
{
	struct apus_ctl_stats_file *f = p->stats;
	struct apus_guid self = apus_participant_guid(p);
	struct row *r;

	if (!f)
		return (struct apus_mono){INT64_MAX};
	if (now.ns < p->stats_due.ns)
		return p->stats_due;
	p->stats_due = apus_mono_add(now, PERIOD_NS);
	/* seq_cst both times: who reads the same even number before and after has seen no half copy. */
	atomic_fetch_add(&f->sequence, 1);
	f->row_count = 0;
	p->stats_matches = p->stats_unshown = 0;
	r = begin_row(f, APUS_STATS_PARTICIPANT, &self, p->config.participant_name, 0);
	apus_visit_stats(p, put_stat, r);
	for (struct apus_writer *w = p->writers; w; w = w->next)
		put_writer(p, w, now);
	for (struct apus_reader *rd = p->readers; rd; rd = rd->next)
		put_reader(p, rd, now);
	for (uint32_t i = 1; i < f->row_count; i++)
		r->matched += f->rows[i].kind <= APUS_STATS_READER ? f->rows[i].matched : 0;
	put(r, "stats.unshown_matches", p->stats_unshown);
	/* Relaxed: published by the sequence number. */
	atomic_store_explicit(&f->mono_ns, now.ns, memory_order_relaxed);
	atomic_fetch_add(&f->sequence, 1);
	return p->stats_due;
}

/* --- reading ------------------------------------------------------------------------------------- */

struct apus_stats {
	const struct apus_ctl_stats_file *file;
	size_t bytes;
	uint32_t row_max;
	int fd;           /* to ask for its keeper's lock */
	struct row *copy; /* row_max */
};

int apus_stats_open(const char *path, struct apus_stats **stats_out)
{
	struct apus_stats *s;
	struct stat st;
	void *map;
	int fd;

	if (!path || !stats_out)
		return APUS_EINVAL;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return APUS_ENOENT;
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) ||
	    st.st_size < (off_t)sizeof(struct apus_ctl_stats_file)) {
		close(fd);
		return APUS_EENCODING;
	}
	map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	s = calloc(1, sizeof(*s));
	if (map == MAP_FAILED || !s) {
		close(fd);
		if (map != MAP_FAILED)
			munmap(map, (size_t)st.st_size);
		free(s);
		return APUS_ENOMEM;
	}
	s->fd = fd;
	s->file = map;
	s->bytes = (size_t)st.st_size;
	s->row_max = s->file->row_max;
	if (s->file->magic != MAGIC || s->file->row_bytes != sizeof(struct row) ||
	    s->row_max == 0 || file_bytes(s->row_max) != s->bytes) {
		apus_stats_close(s);
		return APUS_EENCODING;
	}
	*stats_out = s;
	return 0;
}

void apus_stats_close(struct apus_stats *stats)
{
	if (!stats)
		return;
	munmap((void *)(uintptr_t)stats->file, stats->bytes);
	close(stats->fd);
	free(stats->copy);
	free(stats);
}

bool apus_stats_is_stale(const struct apus_stats *stats)
{
	struct flock lock = whole(F_RDLCK);

	return fcntl(stats->fd, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
}

uint32_t apus_stats_pid(const struct apus_stats *stats)
{
	return stats->file->pid;
}

int64_t apus_stats_time_ns(const struct apus_stats *stats)
{
	/* Relaxed: a number to look at. */
	return atomic_load_explicit(&stats->file->mono_ns, memory_order_relaxed);
}

/* One consistent copy; the number of its rows, or 0. The file is another's: every number in it is bounded. */
static uint32_t copy_rows(struct apus_stats *s)
{
	for (int i = 0; i < TRIES; i++) {
		/* seq_cst, pairs with the writer's additions. */
		uint64_t before = atomic_load(&s->file->sequence);
		uint32_t count = s->file->row_count;

		if (count > s->row_max)
			count = s->row_max;
		if (!(before & 1) && before) {
			memcpy(s->copy, s->file->rows, count * sizeof(struct row));
			atomic_thread_fence(memory_order_seq_cst);
			if (atomic_load(&s->file->sequence) == before)
				return count;
		}
		usleep(1000);
	}
	return 0;
}

static bool show(const struct row *r, bool (*visit)(const struct apus_stats_row *, void *),
		 void *user)
{
	struct apus_stat stats[ROW_STATS];
	struct row copy = *r;
	struct apus_stats_row out = {
		.kind = copy.kind <= APUS_STATS_MATCHED_WRITER ? (enum apus_stats_kind)copy.kind
							       : APUS_STATS_PARTICIPANT,
		.topic = copy.topic,
		.problem = copy.flags & NOT_ALIVE ? "not alive"
			   : copy.flags & SILENT  ? "silent"
			   : copy.flags & BEHIND  ? "behind"
						  : "",
		.matched = copy.matched,
		.stats = stats,
		.stat_count = copy.stat_count < ROW_STATS ? copy.stat_count : ROW_STATS,
	};

	copy.topic[sizeof(copy.topic) - 1] = '\0';
	memcpy(out.guid.bytes, copy.guid, 16);
	for (uint32_t i = 0; i < out.stat_count; i++) {
		copy.stats[i].name[NAME_BYTES - 1] = '\0';
		stats[i] = (struct apus_stat){copy.stats[i].name, copy.stats[i].value};
	}
	return visit(&out, user);
}

int apus_stats_visit(struct apus_stats *stats, bool (*visit)(const struct apus_stats_row *, void *),
		     void *user)
{
	uint32_t count, i;

	if (!stats || !visit)
		return APUS_EINVAL;
	if (!stats->copy)
		stats->copy = malloc(stats->row_max * sizeof(struct row));
	if (!stats->copy)
		return APUS_ENOMEM;
	count = copy_rows(stats);
	if (count == 0)
		return APUS_EAGAIN;
	for (i = 0; i < count; i++)
		if (!show(&stats->copy[i], visit, user))
			break;
	return (int)i;
}
