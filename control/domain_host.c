/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asking the participants of this host what they share; see <apus/host.h>. They are asked in groups of AT_ONCE, all of
 * a group at the same time, so that a hundred stopped processes take no longer than a few.
 */
#include "control/shm_internal.h"
#include "control/shm_report.h"

#include <apus/host.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define AT_ONCE   32
#define NAMES_MAX 65536u

/* Somebody who is being asked. */
struct asked {
	const char *name;
	int fd; /* -1: nothing is expected of it any more */
	enum apus_host_state state;
	uint32_t pid;
	int report; /* memfd, or -1 */
};

struct names {
	char (*items)[APUS_SHM_LINK_NAME + 1];
	uint32_t count, capacity;
	bool failed;
};

struct visit {
	bool (*visit)(const struct apus_host_row *row, void *user);
	void *user;
	bool stopped;
};

int apus_host_directory(const char *directory, char *path_out, size_t path_bytes)
{
	return apus_shm_directory(directory, path_out, path_bytes);
}

/* ---- names ----------------------------------------------------------------------------------------- */

static bool add_name(struct names *n, const char *name)
{
	if (n->count == n->capacity) {
		uint32_t capacity = n->capacity ? 2 * n->capacity : 64;
		void *grown = realloc(n->items, capacity * sizeof(n->items[0]));

		if (!grown || capacity > NAMES_MAX) {
			n->items = grown ? grown : n->items;
			return false;
		}
		n->items = grown;
		n->capacity = capacity;
	}
	strcpy(n->items[n->count++], name);
	return true;
}

/* Sockets with a name of a length we give; 0 or APUS_E…. */
static int collect_names(const char *path, struct names *n)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	int rc = 0;

	if (!dir)
		return APUS_EIO;
	while (rc == 0 && (entry = readdir(dir))) {
		struct stat st;

		if (entry->d_name[0] == '.' || strlen(entry->d_name) > APUS_SHM_LINK_NAME ||
		    fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
		    !S_ISSOCK(st.st_mode))
			continue;
		if (!add_name(n, entry->d_name))
			rc = APUS_ENOMEM;
	}
	closedir(dir);
	return rc;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* ---- asking ---------------------------------------------------------------------------------------- */

static void ask(const char *path, struct asked *a)
{
	struct apus_ctl_shm_message m = {.kind = APUS_CTL_SHM_ASK};
	struct ucred cred;
	socklen_t bytes = sizeof(cred);

	a->report = -1;
	a->fd = apus_shm_connect(path, a->name);
	if (a->fd < 0) {
		a->state = a->fd == APUS_ENOENT   ? APUS_HOST_DEAD
			   : a->fd == APUS_EAGAIN ? APUS_HOST_SILENT
						  : APUS_HOST_FOREIGN;
		a->fd = -1;
		return;
	}
	if (getsockopt(a->fd, SOL_SOCKET, SO_PEERCRED, &cred, &bytes) == 0)
		a->pid = (uint32_t)cred.pid;
	apus_ctl_shm_sign(NULL, &m);
	a->state = apus_shm_send(a->fd, &m, sizeof(m), NULL, 0) == 0 ? APUS_HOST_SILENT
								     : APUS_HOST_FOREIGN;
}

static void end_asking(struct asked *a)
{
	if (a->fd >= 0)
		close(a->fd);
	a->fd = -1;
}

static void hear(struct asked *a)
{
	struct apus_shm_message raw;
	struct apus_ctl_shm_message m;
	int rc = apus_shm_receive(a->fd, &raw);

	if (rc == APUS_EAGAIN)
		return;
	a->state = APUS_HOST_FOREIGN;
	if (rc == 0 && raw.length == sizeof(m) && raw.fd_count == 1) {
		memcpy(&m, raw.bytes, sizeof(m));
		if (apus_ctl_shm_is_ours(&m) && m.kind == APUS_CTL_SHM_TOLD) {
			a->report = raw.fds[0];
			raw.fds[0] = -1;
			a->state = APUS_HOST_ALIVE;
		}
	}
	if (rc == 0)
		apus_shm_message_close(&raw);
	end_asking(a);
}

static void await_answers(struct asked *asked, uint32_t count, int64_t timeout_ns)
{
	struct apus_mono end = apus_mono_add(apus_mono_now(), timeout_ns);

	for (;;) {
		struct pollfd fds[AT_ONCE];
		uint32_t idx[AT_ONCE], waiting = 0;
		int64_t left_ms = (end.ns - apus_mono_now().ns) / APUS_NS_PER_MS;

		for (uint32_t i = 0; i < count; i++)
			if (asked[i].fd >= 0) {
				fds[waiting] = (struct pollfd){.fd = asked[i].fd, .events = POLLIN};
				idx[waiting++] = i;
			}
		if (waiting == 0 || left_ms < 0)
			return;
		if (poll(fds, waiting, (int)left_ms + 1) < 0 && errno != EINTR)
			return;
		for (uint32_t i = 0; i < waiting; i++)
			if (fds[i].revents)
				hear(&asked[idx[i]]);
	}
}

/* ---- rows ------------------------------------------------------------------------------------------ */

static void emit(struct visit *v, const struct apus_host_row *row)
{
	if (!v->stopped)
		v->stopped = !v->visit(row, v->user);
}

static void emit_row(struct visit *v, const struct apus_ctl_shm_report_row *shared)
{
	struct apus_ctl_shm_report_row r = *shared; /* nobody changes it while we look */
	struct apus_host_row row = {.kind = (enum apus_host_kind)r.kind,
				    .state = r.dead ? APUS_HOST_DEAD : APUS_HOST_ALIVE,
				    .name = r.topic,
				    .pid = r.pid,
				    .writer = r.writer,
				    .reader = r.reader,
				    .bytes = r.bytes,
				    .slot_bytes = r.slot_bytes,
				    .slots = r.slots,
				    .slots_used = r.slots_used,
				    .waiting = r.waiting};

	if (r.kind < APUS_HOST_POOL || r.kind > APUS_HOST_BORROWED)
		return;
	r.topic[sizeof(r.topic) - 1] = '\0';
	emit(v, &row);
}

/* Maps a report; NULL if it is none. */
static const struct apus_ctl_shm_report *open_report(int fd, size_t *bytes_out, uint32_t *rows_out)
{
	const struct apus_ctl_shm_report *report;
	uint32_t rows, size, magic;
	void *base;

	if (apus_shm_map(fd, sizeof(*report), false, &base) != 0)
		return NULL;
	report = base;
	rows = report->row_count;
	size = report->size;
	magic = report->magic;
	apus_shm_unmap(base, sizeof(*report));
	*bytes_out = sizeof(*report) + (size_t)rows * sizeof(report->rows[0]);
	*rows_out = rows;
	if (magic != APUS_CTL_SHM_REPORT || size != sizeof(report->rows[0]) ||
	    rows > APUS_CTL_SHM_ROWS_MAX || apus_shm_map(fd, *bytes_out, false, &base) != 0)
		return NULL;
	return base;
}

static void show(struct visit *v, struct asked *a)
{
	size_t bytes = 0;
	uint32_t rows = 0;
	const struct apus_ctl_shm_report *report =
		a->report >= 0 ? open_report(a->report, &bytes, &rows) : NULL;
	struct apus_host_row row = {.kind = APUS_HOST_PROCESS, .name = a->name, .pid = a->pid};

	if (a->report >= 0 && !report)
		a->state = APUS_HOST_FOREIGN;
	row.state = a->state;
	row.bytes = report ? report->bytes : 0;
	emit(v, &row);
	for (uint32_t i = 0; report && i < rows; i++)
		emit_row(v, &report->rows[i]);
	if (report)
		apus_shm_unmap((void *)(uintptr_t)report, bytes);
	if (a->report >= 0)
		close(a->report);
}

static void visit_group(const char *path, const struct names *n, uint32_t first, int64_t timeout_ns,
			struct visit *v)
{
	struct asked asked[AT_ONCE] = {{0}};
	uint32_t count = n->count - first < AT_ONCE ? n->count - first : AT_ONCE;

	for (uint32_t i = 0; i < count; i++) {
		asked[i].name = n->items[first + i];
		ask(path, &asked[i]);
	}
	await_answers(asked, count, timeout_ns);
	for (uint32_t i = 0; i < count; i++) {
		end_asking(&asked[i]);
		show(v, &asked[i]);
	}
}

int apus_host_visit(const char *directory, int64_t timeout_ns,
		    bool (*visit)(const struct apus_host_row *row, void *user), void *user)
{
	struct visit v = {visit, user, false};
	struct names n = {0};
	char path[108];
	int rc = timeout_ns < 1 || timeout_ns > 60 * APUS_NS_PER_SEC
			 ? APUS_EINVAL
			 : apus_shm_directory(directory, path, sizeof(path));

	if (rc == 0)
		rc = collect_names(path, &n);
	if (rc == 0 && n.count > 0)
		qsort(n.items, n.count, sizeof(n.items[0]), by_name);
	for (uint32_t i = 0; rc == 0 && i < n.count && !v.stopped; i += AT_ONCE)
		visit_group(path, &n, i, timeout_ns, &v);
	free(n.items);
	return rc ? rc : (int)n.count;
}

/* ---- what is left over ----------------------------------------------------------------------------- */

struct cleaning {
	void (*removed)(const char *name, void *user);
	void *user;
	int count;
};

static void note_dead(void *user, const char *name, bool alive)
{
	struct cleaning *c = user;

	if (alive)
		return;
	c->count++;
	c->removed(name, c->user);
}

int apus_host_clean(const char *directory, bool dry_run,
		    void (*removed)(const char *name, void *user), void *user)
{
	struct cleaning c = {removed, user, 0};
	char path[108];
	int rc = apus_shm_directory(directory, path, sizeof(path));

	if (rc == 0)
		rc = apus_shm_sweep(path, !dry_run, note_dead, &c);
	return rc < 0 ? rc : c.count;
}
