/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The counter file: control copies every counter of the participant and its endpoints into a file four times a second,
 * which others read. Names stand beside values, so a reader needs no table of ours.
 *
 * A sequence number in front is odd while a copy is under way. What needs a worker's turn is taken only if the turn is
 * free; else the values of the last copy stay.
 *
 * Neither side maps the file: others may cut it short and its disk may be full, which a mapping answers with SIGBUS.
 * It is written from a copy of our own with pwrite() and read with pread(); what fails is counted and tried again.
 */
#include "control/domain.h"

#include "dataplane/observe.h"

#include <apus/relay.h>
#include <apus/stats.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC      UINT64_C(0x3154415453535041) /* "APSSTAT1" */
#define ROW_STATS  160
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
	uint64_t sequence; /* odd: being written */
	int64_t mono_ns;
	struct row rows[];
};

#define SEQUENCE_AT offsetof(struct apus_ctl_stats_file, sequence)
#define MONO_AT     offsetof(struct apus_ctl_stats_file, mono_ns)
#define ROWS_AT     offsetof(struct apus_ctl_stats_file, rows)

struct apus_ctl_stats_keeper {
	struct apus_ctl_stats_keeper *next;
	int fd;          /* holds the lock on the file; -1 in a forked child */
	uint64_t failed; /* updates the file did not take */
	char path[PATH_MAX];
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

/* All keepers of this process. A forked child shares their open files and so their locks, and would hold them after
 * the keeper's end: it closes what it was given. keepers_lock is held while a lock exists that is not in the list. */
static pthread_mutex_t keepers_lock = PTHREAD_MUTEX_INITIALIZER;
static struct apus_ctl_stats_keeper *keepers;

static void before_fork(void)
{
	pthread_mutex_lock(&keepers_lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&keepers_lock);
}

static void in_child(void)
{
	for (struct apus_ctl_stats_keeper *k = keepers; k; k = k->next) {
		close(k->fd);
		k->fd = -1;
	}
	keepers = NULL;
	pthread_mutex_unlock(&keepers_lock);
}

static void watch_forks(void)
{
	pthread_atfork(before_fork, after_fork, in_child);
}

/* The path as it is named from everywhere: the working directory may change before the file is removed. */
static bool make_absolute(const char *path, char *out, size_t out_bytes)
{
	const char *slash = strrchr(path, '/');
	char *name = strdup(path), *dir = NULL;
	int n = -1;

	if (name && slash)
		name[slash == path ? 1 : slash - path] = '\0';
	if (name)
		dir = realpath(slash ? name : ".", NULL);
	if (dir)
		n = snprintf(out, out_bytes, "%s/%s", dir, slash ? slash + 1 : path);
	free(dir);
	free(name);
	return n > 0 && (size_t)n < out_bytes;
}

/* Writing beyond the process's limit would be answered with SIGXFSZ. */
static bool is_permitted(size_t bytes)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_FSIZE, &limit) == 0 && bytes <= limit.rlim_cur;
}

static bool write_at(int fd, const void *bytes, size_t count, size_t offset)
{
	for (size_t done = 0; done < count;) {
		ssize_t n = pwrite(fd, (const char *)bytes + done, count - done,
				   (off_t)(offset + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		done += (size_t)n;
	}
	return true;
}

/* Takes all its blocks now, so that no update and no reader finds the disk full. Returns an errno. */
static int reserve(int fd, size_t bytes)
{
	int rc;

	if (!is_permitted(bytes))
		return EFBIG;
	do
		rc = posix_fallocate(fd, 0, (off_t)bytes);
	while (rc == EINTR);
	return rc;
}

/* Under keepers_lock. Only our own file is removed: another may have taken its name. */
static void let_go(struct apus_ctl_stats_keeper *k)
{
	struct stat st;

	if (fstat(k->fd, &st) == 0 && is_named(k->path, &st))
		unlink(k->path);
	close(k->fd);
	k->fd = -1;
}

/* Under keepers_lock: claims, sizes and heads the file. Returns 0 or an APUS_E.... */
static int keep(struct apus_ctl_stats_keeper *k, const struct apus_ctl_stats_file *head, char *why,
		size_t why_bytes)
{
	size_t bytes = file_bytes(head->row_max);
	int error;

	k->fd = APUS_EAGAIN;
	for (int i = 0; i < 8 && k->fd == APUS_EAGAIN; i++)
		k->fd = claim(k->path);
	if (k->fd < 0) {
		snprintf(why, why_bytes,
			 k->fd == APUS_EEXIST ? "stats.file: \"%s\" is kept by another participant"
			 : k->fd == APUS_EINVAL
				 ? "stats.file: \"%s\" is there, and is no counter file"
				 : "stats.file: cannot write \"%s\"",
			 k->path);
		return k->fd == APUS_EEXIST ? APUS_EEXIST : APUS_EIO;
	}
	error = reserve(k->fd, bytes);
	if (error == 0 && write_at(k->fd, head, sizeof(*head), 0))
		return 0;
	snprintf(why, why_bytes, "stats.file: no room for the %zu bytes of \"%s\": %s", bytes,
		 k->path, strerror(error ? error : errno));
	let_go(k);
	return APUS_EIO;
}

static int enroll(struct apus_ctl_stats_keeper *k, const struct apus_ctl_stats_file *head,
		  char *why, size_t why_bytes)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	int rc;

	pthread_once(&once, watch_forks);
	pthread_mutex_lock(&keepers_lock);
	rc = keep(k, head, why, why_bytes);
	if (rc == 0) {
		k->next = keepers;
		keepers = k;
	}
	pthread_mutex_unlock(&keepers_lock);
	return rc;
}

int apus_ctl_stats_keep(const char *path, uint32_t row_max, char *why, size_t why_bytes,
			struct apus_ctl_stats_file **file_out,
			struct apus_ctl_stats_keeper **keeper_out)
{
	struct apus_ctl_stats_keeper *k = calloc(1, sizeof(*k));
	struct apus_ctl_stats_file *f = calloc(1, file_bytes(row_max));
	int rc = APUS_ENOMEM;

	if (k && f && !make_absolute(path, k->path, sizeof(k->path))) {
		snprintf(why, why_bytes, "stats.file: cannot write \"%s\"", path);
		rc = APUS_EIO;
	} else if (k && f) {
		f->row_bytes = sizeof(struct row);
		f->row_max = row_max;
		f->pid = (uint32_t)getpid();
		f->magic = MAGIC;
		rc = enroll(k, f, why, why_bytes);
	}
	if (rc != 0) {
		free(k);
		free(f);
		return rc;
	}
	*file_out = f;
	*keeper_out = k;
	return 0;
}

void apus_ctl_stats_drop(struct apus_ctl_stats_file *f, struct apus_ctl_stats_keeper *k)
{
	struct apus_ctl_stats_keeper **at = &keepers;

	if (!k)
		return;
	pthread_mutex_lock(&keepers_lock);
	while (*at && *at != k)
		at = &(*at)->next;
	if (*at)
		*at = k->next;
	if (k->fd >= 0)
		let_go(k);
	pthread_mutex_unlock(&keepers_lock);
	free(k);
	free(f);
}

int apus_ctl_domain_stats_open(struct apus_participant *p, char *why, size_t why_bytes)
{
	uint32_t row_max = 1 + p->config.local_endpoints + match_rows(p);

	if (p->config.stats_file[0] == '\0')
		return 0;
	return apus_ctl_stats_keep(p->config.stats_file, row_max, why, why_bytes, &p->stats,
				   &p->stats_keeper);
}

void apus_ctl_domain_stats_close(struct apus_participant *p)
{
	apus_ctl_stats_drop(p->stats, p->stats_keeper);
	p->stats_keeper = NULL;
	p->stats = NULL;
}

/* A file that others have cut short, or made longer, gets its size back: no reader takes it otherwise. */
static bool has_size(int fd, size_t bytes)
{
	struct stat st;

	if (!is_permitted(bytes) || fstat(fd, &st) != 0)
		return false;
	return st.st_size == (off_t)bytes || ftruncate(fd, (off_t)bytes) == 0;
}

/* Writes the odd number, the whole head and the rows, and the even number, each in a call of its own: who reads the
 * same even number before and after has seen no half copy. If one fails the number stays odd until the next. */
static bool publish(const struct apus_ctl_stats_keeper *k, struct apus_ctl_stats_file *f)
{
	f->sequence |= 1;
	if (!has_size(k->fd, file_bytes(f->row_max)) ||
	    !write_at(k->fd, &f->sequence, sizeof(f->sequence), SEQUENCE_AT))
		return false;
	/* seq_cst both times: orders the copies to the file, pairs with try_rows(). */
	atomic_thread_fence(memory_order_seq_cst);
	if (!write_at(k->fd, f, ROWS_AT + f->row_count * sizeof(struct row), 0))
		return false;
	atomic_thread_fence(memory_order_seq_cst);
	f->sequence++;
	return write_at(k->fd, &f->sequence, sizeof(f->sequence), SEQUENCE_AT);
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
	struct apus_dp_graph_status graph;
	struct row *r;
	uint64_t behind;
	uint32_t last;

	apus_dp_board_mine(&w->board, &graph);
	r = begin_row(p->stats, APUS_STATS_WRITER, &w->dp->config.guid, topic_of(w->endpoint),
		      graph.current);

	if (!r)
		return;
	apus_visit_writer_stats(w, put_stat, r);
	put(r, "status.transitions", graph.transitions);
	put(r, "status.incompatible", graph.incompatible);
	put(r, "status.inconsistent", graph.inconsistent);
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
	struct apus_dp_liveliness_cursor none = {0, 0};
	struct apus_dp_liveliness live;
	struct apus_dp_graph_status graph;
	struct row *r;
	apus_instance last;

	apus_dp_board_mine(&rd->board, &graph);
	r = begin_row(p->stats, APUS_STATS_READER, &rd->dp->config.guid, topic_of(rd->endpoint),
		      graph.current);

	if (!r)
		return;
	if (apus_dp_worker_try_turn(rd->worker)) {
		apus_dp_reader_count_skipped(rd->dp);
		apus_dp_worker_end_turn(rd->worker);
	}
	apus_ctl_domain_visit_reader(rd, put_stat, r);
	put(r, "status.transitions", graph.transitions);
	put(r, "status.incompatible", graph.incompatible);
	put(r, "status.inconsistent", graph.inconsistent);
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
	put(r, "stats.failed_updates", p->stats_keeper->failed);
	f->mono_ns = now.ns;
	p->stats_keeper->failed += !publish(p->stats_keeper, f);
	return p->stats_due;
}

struct apus_mono apus_ctl_stats_relay_turn(struct apus_ctl_stats_file *f,
					   struct apus_ctl_stats_keeper *k,
					   struct apus_relay *relay, const char *name,
					   uint32_t queue_count, struct apus_mono now)
{
	static const struct apus_guid none;
	struct row *r;

	f->row_count = 0;
	r = begin_row(f, APUS_STATS_RELAY, &none, name, queue_count);
	apus_relay_visit(relay, put_stat, r);
	put(r, "stats.failed_updates", k->failed);
	f->mono_ns = now.ns;
	k->failed += !publish(k, f);
	return apus_mono_add(now, PERIOD_NS);
}

/* --- reading ------------------------------------------------------------------------------------- */

struct apus_stats {
	uint32_t row_max, pid;
	int fd;           /* also to ask for its keeper's lock */
	struct row *copy; /* row_max */
};

static bool read_at(int fd, void *bytes, size_t count, size_t offset)
{
	for (size_t done = 0; done < count;) {
		ssize_t n = pread(fd, (char *)bytes + done, count - done, (off_t)(offset + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		done += (size_t)n;
	}
	return true;
}

int apus_stats_open(const char *path, struct apus_stats **stats_out)
{
	struct apus_ctl_stats_file head;
	struct apus_stats *s;
	struct stat st;
	int fd;

	if (!path || !stats_out)
		return APUS_EINVAL;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return APUS_ENOENT;
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || !read_at(fd, &head, sizeof(head), 0) ||
	    head.magic != MAGIC || head.row_bytes != sizeof(struct row) || head.row_max == 0 ||
	    st.st_size != (off_t)file_bytes(head.row_max)) {
		close(fd);
		return APUS_EENCODING;
	}
	s = calloc(1, sizeof(*s));
	if (!s) {
		close(fd);
		return APUS_ENOMEM;
	}
	s->fd = fd;
	s->row_max = head.row_max;
	s->pid = head.pid;
	*stats_out = s;
	return 0;
}

void apus_stats_close(struct apus_stats *stats)
{
	if (!stats)
		return;
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
	return stats->pid;
}

int64_t apus_stats_time_ns(const struct apus_stats *stats)
{
	int64_t mono_ns = 0;

	return read_at(stats->fd, &mono_ns, sizeof(mono_ns), MONO_AT) ? mono_ns : 0;
}

/* Reads what publish() has written; 0 if it is being written, or has been cut short. The file is another's: every
 * number in it is bounded. */
static uint32_t try_rows(struct apus_stats *s)
{
	struct apus_ctl_stats_file head;
	uint64_t before, after;
	uint32_t count;

	if (!read_at(s->fd, &before, sizeof(before), SEQUENCE_AT) || !before)
		return 0;
	/* A keeper that was killed in the middle will not finish: what there is of its last update has to do. */
	if ((before & 1) && !apus_stats_is_stale(s))
		return 0;
	/* seq_cst both times: orders the copies from the file, pairs with publish(). */
	atomic_thread_fence(memory_order_seq_cst);
	if (!read_at(s->fd, &head, sizeof(head), 0))
		return 0;
	count = head.row_count < s->row_max ? head.row_count : s->row_max;
	if (!read_at(s->fd, s->copy, count * sizeof(struct row), ROWS_AT))
		return 0;
	atomic_thread_fence(memory_order_seq_cst);
	if (!read_at(s->fd, &after, sizeof(after), SEQUENCE_AT) || after != before)
		return 0;
	return count;
}

/* One consistent copy; the number of its rows, or 0. */
static uint32_t copy_rows(struct apus_stats *s)
{
	for (int i = 0; i < TRIES; i++) {
		uint32_t count = try_rows(s);

		if (count > 0)
			return count;
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
		.kind = copy.kind <= APUS_STATS_RELAY ? (enum apus_stats_kind)copy.kind
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
