/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: a whole participant that shares memory may die between any two of its steps: while it listens, connects,
 * greets, offers, maps, accepts, writes, takes, returns, detaches or leaves. The others go on: no sample of a living
 * writer is missed or comes twice at a living reader, every slot is free or held by the living, and no name and no
 * match of the dead is left.
 * Method: one to three writers and one to three readers live through a session, in processes of their own, through
 * the public API; into it come victims, writers and readers in turn, so that there are one to four on each side. The
 * files that touch shared memory or speak of it are compiled with APUS_SHM_POINTS: the first two victims note which
 * points there are and how often each is passed; the others die at each in turn, at a random passage, and every
 * fourth at a random instant. Sessions take turns between payloads in slots and payloads in the ring.
 * APUS_CRASH_ROUNDS: how many victims (60). Not under sanitizers: they do not like processes that die.
 */
#include "stress_util.h"

#include "control/domain.h"
#include "tests/api/block_type.h"

#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define LIVING    3 /* of each kind, at most */
#define ROUNDS    60
#define SESSION   20 /* victims of a session */
#define POINTS    512
#define SAMPLES   24 /* of a victim */
#define HELD      3  /* samples an application keeps */
#define IDS       (1 << 20)
#define PATIENCE  (20 * SEC)
#define VICTIM_ID 16

/* --- points -------------------------------------------------------------------------------------- */

struct point {
	char file[24];
	int line;
	bool after;
	uint32_t passed[2]; /* by readers and by writers, while notes were taken */
	uint32_t killed;
};

/* What all processes share. Words are written by one process each. */
static struct board {
	struct point points[POINTS];
	_Atomic uint32_t point_count;
	_Atomic bool noting;
	_Atomic bool go, stop; /* writers begin, and end */
	_Atomic uint32_t ready[2 * LIVING];
	_Atomic uint32_t written[LIVING],
		kept[LIVING];          /* by living writers: samples; in the history */
	_Atomic uint32_t done[LIVING]; /* living readers that have everything */
	char failure[256];
	_Atomic bool failed;
} * board;

static bool noting, is_writer_here;
static uint32_t kill_at = POINTS;
static _Atomic int64_t kill_in;

static uint32_t find_point(const char *name, int line, bool after)
{
	uint32_t i = 0, count = atomic_load(&board->point_count);

	while (i < count && (board->points[i].line != line || board->points[i].after != after ||
			     strcmp(board->points[i].file, name) != 0))
		i++;
	return i;
}

static void note_point(const char *name, int line, bool after)
{
	uint32_t i;

	while (atomic_exchange(&board->noting, true))
		sched_yield();
	i = find_point(name, line, after);
	if (i == atomic_load(&board->point_count) && i < POINTS - 1) {
		snprintf(board->points[i].file, sizeof(board->points[i].file), "%s", name);
		board->points[i].line = line;
		board->points[i].after = after;
		atomic_store(&board->point_count, i + 1);
	}
	board->points[i].passed[is_writer_here]++;
	atomic_store(&board->noting, false);
}

void apus_shm_point(const char *file, int line, bool after)
{
	const char *name;

	if (!noting && (kill_at == POINTS || board->points[kill_at].line != line))
		return;
	name = strrchr(file, '/') ? strrchr(file, '/') + 1 : file;
	if (noting)
		note_point(name, line, after);
	else if (find_point(name, line, after) == kill_at && atomic_fetch_sub(&kill_in, 1) == 0)
		kill(getpid(), SIGKILL);
}

/* --- a process ----------------------------------------------------------------------------------- */

static char directory[64];
static bool in_ring; /* this session's payloads */

static const struct apus_member small_members[] = {
	{.name = "id", .type = &apus_type_uint32, .offset_bytes = 0, .id = 0, .key = true},
	{.name = "number", .type = &apus_type_uint32, .offset_bytes = 4, .id = 1},
};
static const struct apus_type small_type = {.name = "Small",
					    .kind = APUS_KIND_STRUCT,
					    .size_bytes = 8,
					    .align_bytes = 4,
					    .members = small_members,
					    .member_count = 2,
					    .plain_xcdr1 = true,
					    .plain_xcdr2 = true};

/* Notes what is wrong, for the parent to report, and ends the process. */
__attribute__((format(printf, 1, 2), noreturn)) static void give_up(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	if (!atomic_exchange(&board->failed, true))
		vsnprintf(board->failure, sizeof(board->failure), format, list);
	va_end(list);
	_exit(1);
}

static int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * SEC + ts.tv_nsec;
}

static struct apus_participant *open_participant(void)
{
	const char *const settings[] = {"shm",         "on", "shm.directory", directory,
					"shm.readers", "6",  "shm.slots",     "48",
					"shm.matches", "16", "worker.idle",   "block",
					NULL};
	struct apus_config *c = apus_config_create();
	struct apus_participant *p;
	char why[256], domain[8];

	snprintf(domain, sizeof(domain), "%d", 112 + 12 * ((int)getppid() % 9));
	if (apus_config_set(c, "interfaces", "lo", why, sizeof(why)) != 0 ||
	    apus_config_set(c, "domain", domain, why, sizeof(why)) != 0)
		give_up("%s", why);
	for (int i = 0; settings[i]; i += 2)
		if (apus_config_set(c, settings[i], settings[i + 1], why, sizeof(why)) != 0)
			give_up("%s", why);
	if (apus_participant_create(c, &p, why, sizeof(why)) != 0)
		give_up("participant: %s", why);
	apus_config_destroy(c);
	return p;
}

static void options_of(bool is_writer, struct apus_qos *qos, struct apus_endpoint_options *o)
{
	stress_qos(is_writer, qos);
	qos->max_samples_per_instance = qos->max_samples = 64;
	qos->max_instances = 64;
	*o = (struct apus_endpoint_options){.topic = in_ring ? "small" : "large",
					    .type = in_ring ? &small_type : &block_type,
					    .qos = qos};
}

static void write_one(struct apus_writer *w, uint32_t id, uint32_t number)
{
	struct block b = {.id = id, .number = number};
	int rc;

	memset(b.data, (int)(number & 0xff), sizeof(b.data));
	rc = apus_write(w, &b);
	if (rc != 0)
		give_up("writer %u cannot write %u: %s", id, number, apus_strerror(rc));
}

static struct apus_writer *open_writer(struct apus_participant *p)
{
	struct apus_endpoint_options o;
	struct apus_writer *w;
	struct apus_qos qos;

	options_of(true, &qos, &o);
	if (apus_writer_create(p, &o, &w) != 0)
		give_up("no writer");
	return w;
}

/* One that lives: writes until it is to stop, then says what its history holds. */
static void living_writer(uint32_t idx, uint32_t readers)
{
	struct apus_participant *p = open_participant();
	struct apus_writer *w = open_writer(p);
	uint32_t number = 0;

	if (apus_writer_wait_matched(w, readers, PATIENCE) != 0)
		give_up("writer %u is not matched", idx);
	atomic_store(&board->ready[idx], 1);
	while (!atomic_load(&board->go))
		stress_sleep(MSEC);
	while (!atomic_load(&board->stop)) {
		write_one(w, idx, ++number);
		atomic_store(&board->written[idx], number);
		stress_sleep(4 * MSEC);
	}
	for (;;) {
		apus_dp_worker_take_turn(w->worker);
		atomic_store(&board->kept[idx], w->dp->cache.count);
		apus_dp_worker_end_turn(w->worker);
		stress_sleep(MSEC);
	}
}

/* What one reader has had of each writer. */
struct seen {
	uint32_t last[IDS / 64];
};

static void check_sample(struct seen *seen, const struct apus_sample *s, bool from_first)
{
	uint32_t id, number;

	if (!s->info.valid_data)
		return;
	memcpy(&id, (const char *)s->payload + 4, 4);
	memcpy(&number, (const char *)s->payload + 8, 4);
	if (id >= IDS / 64 || number == 0)
		give_up("sample %u of writer %u", number, id);
	if (seen->last[id] ? number != seen->last[id] + 1
			   : from_first && id < LIVING && number != 1)
		give_up("sample %u of writer %u came behind %u", number, id, seen->last[id]);
	seen->last[id] = number;
	for (uint32_t i = 12; !in_ring && i < 12 + DATA; i += 511)
		if (((const uint8_t *)s->payload)[i] != (number & 0xff))
			give_up("sample %u of writer %u is torn", number, id);
}

/* Takes what there is, and gives back what it had before. */
static uint32_t take_some(struct apus_reader *r, struct apus_sample held[HELD], uint32_t had,
			  struct seen *seen, bool from_first)
{
	struct apus_sample s[HELD];
	int n;

	(void)apus_reader_wait(r, 20 * MSEC);
	n = apus_take(r, s, HELD, NULL);
	if (n < 0)
		give_up("take: %s", apus_strerror(n));
	for (int i = 0; i < n; i++)
		check_sample(seen, &s[i], from_first);
	apus_return(r, held, had);
	memcpy(held, s, sizeof(*s) * (uint32_t)n);
	return (uint32_t)n;
}

static struct apus_reader *open_reader(struct apus_participant *p)
{
	struct apus_endpoint_options o;
	struct apus_reader *r;
	struct apus_qos qos;

	options_of(false, &qos, &o);
	if (apus_reader_create(p, &o, &r) != 0)
		give_up("no reader");
	return r;
}

static void living_reader(uint32_t idx, uint32_t writers)
{
	static struct seen seen;
	struct apus_reader *r = open_reader(open_participant());
	struct apus_sample held[HELD];
	uint32_t had = 0;
	bool all = false;

	if (apus_reader_wait_matched(r, writers, PATIENCE) != 0)
		give_up("reader %u is not matched", idx);
	atomic_store(&board->ready[LIVING + idx], 1);
	while (!all) {
		all = atomic_load(&board->stop); /* before the numbers are looked at */
		had = take_some(r, held, had, &seen, true);
		for (uint32_t w = 0; w < writers; w++)
			all &= seen.last[w] == atomic_load(&board->written[w]);
	}
	apus_return(r, held, had);
	atomic_store(&board->done[idx], 1);
	for (;;)
		had = take_some(r, held, 0, &seen, true), apus_return(r, held, had);
}

static void victim_writes(uint32_t id)
{
	struct apus_participant *p = open_participant();
	struct apus_writer *w = open_writer(p);

	(void)apus_writer_wait_matched(w, 1, SEC);
	for (uint32_t number = 1; number <= SAMPLES; number++)
		write_one(w, id, number);
	apus_participant_destroy(p);
}

static void victim_reads(void)
{
	static struct seen seen;
	struct apus_participant *p = open_participant();
	struct apus_reader *r = open_reader(p);
	struct apus_sample held[HELD];
	uint32_t had = 0;

	(void)apus_reader_wait_matched(r, 1, SEC);
	for (int i = 0; i < SAMPLES / 2; i++)
		had = take_some(r, held, had, &seen, false);
	apus_return(r, held, had);
	apus_participant_destroy(p);
}

/* --- the parent ---------------------------------------------------------------------------------- */

static pid_t pids[2 * LIVING];
static uint32_t writer_count, reader_count, next_victim = VICTIM_ID;

static void check_board(void)
{
	if (atomic_load(&board->failed))
		fail_msg("%s", board->failure);
}

static pid_t begin_child(void)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		alarm(600);
	}
	return pid;
}

static void begin_session(void)
{
	atomic_store(&board->go, false);
	atomic_store(&board->stop, false);
	memset(board->ready, 0, sizeof(board->ready));
	memset(board->written, 0, sizeof(board->written));
	memset(board->done, 0, sizeof(board->done));
	for (uint32_t i = 0; i < 2 * LIVING; i++) {
		bool is_writer = i < LIVING;

		pids[i] = 0;
		if (i % LIVING >= (is_writer ? writer_count : reader_count))
			continue;
		pids[i] = begin_child();
		if (pids[i] == 0 && is_writer)
			living_writer(i, reader_count);
		else if (pids[i] == 0)
			living_reader(i - LIVING, writer_count);
	}
	for (int64_t end = now_ns() + 2 * PATIENCE;;) {
		uint32_t ready = 0;

		check_board();
		for (uint32_t i = 0; i < 2 * LIVING; i++)
			ready += board->ready[i];
		if (ready == writer_count + reader_count)
			break;
		assert_true(now_ns() < end);
		stress_sleep(MSEC);
	}
	atomic_store(&board->go, true);
}

/* What the living say of what they share. */
struct account {
	uint32_t strangers; /* matches with somebody who is not alive */
	uint32_t pools, pool_slots, lent_slots;
};

static bool count_row(const struct apus_host_row *row, void *user)
{
	struct account *a = user;
	bool known = false;

	for (uint32_t i = 0; i < 2 * LIVING; i++)
		known |= pids[i] && (uint32_t)pids[i] == row->pid;
	if (row->kind == APUS_HOST_LENT || row->kind == APUS_HOST_BORROWED)
		a->strangers += !known;
	if (row->kind == APUS_HOST_LENT)
		a->lent_slots += row->slots_used;
	if (row->kind == APUS_HOST_POOL) {
		a->pools++;
		a->pool_slots += row->slots_used;
	}
	return true;
}

static uint32_t names(void)
{
	struct dirent *entry;
	uint32_t n = 0;
	DIR *dir = opendir(directory);

	while (dir && (entry = readdir(dir)))
		n += entry->d_name[0] != '.';
	if (dir)
		closedir(dir);
	return n;
}

/* Waits until nothing of the dead is left, but the name of one that had met nobody: the next to start removes it. */
static void await_clean(bool ask, const char *what)
{
	struct account a;

	for (int64_t end = now_ns() + PATIENCE;; stress_sleep(MSEC / 2)) {
		check_board();
		a = (struct account){0};
		if (names() <= writer_count + reader_count + 1 &&
		    (!ask ||
		     (apus_host_visit(directory, 5 * SEC, count_row, &a) >= 0 && a.strangers == 0)))
			return;
		if (now_ns() > end)
			fail_msg("%s: %u names, %u matches of the dead", what, names(),
				 a.strangers);
	}
}

static void ignore(const char *name, void *user)
{
	(void)name;
	(void)user;
}

/* All have everything, and every slot is in a history or free. */
static void end_session(void)
{
	struct account a = {0};
	uint32_t kept = 0, done;

	atomic_store(&board->stop, true);
	for (int64_t end = now_ns() + 2 * PATIENCE;; stress_sleep(MSEC)) {
		check_board();
		done = 0;
		for (uint32_t i = 0; i < reader_count; i++)
			done += atomic_load(&board->done[i]);
		if (done == reader_count)
			break;
		if (now_ns() > end)
			fail_msg("%u of %u living readers have everything", done, reader_count);
	}
	for (int64_t end = now_ns() + PATIENCE;; stress_sleep(MSEC)) {
		a = (struct account){0};
		kept = 0;
		for (uint32_t i = 0; i < writer_count; i++)
			kept += atomic_load(&board->kept[i]);
		if (apus_host_visit(directory, 5 * SEC, count_row, &a) >= 0 && a.strangers == 0 &&
		    a.pools == writer_count && a.lent_slots == 0 && a.pool_slots == kept)
			break;
		if (now_ns() > end)
			fail_msg("%u pools, %u slots used, %u of histories, %u lent, %u dead",
				 a.pools, a.pool_slots, kept, a.lent_slots, a.strangers);
	}
	for (uint32_t i = 0; i < 2 * LIVING; i++) {
		if (!pids[i])
			continue;
		kill(pids[i], SIGKILL);
		assert_int_equal(waitpid(pids[i], NULL, 0), pids[i]);
	}
	assert_true(apus_host_clean(directory, false, ignore, NULL) >= 0);
	assert_int_equal(names(), 0);
}

/* in_ns: when the parent kills it, if no point does; 0: never. */
static void run_victim(bool is_writer, uint32_t point, uint32_t passage, bool takes_notes,
		       int64_t in_ns, bool ask)
{
	uint32_t id = next_victim++;
	int64_t begun = now_ns();
	char what[96];
	pid_t pid = begin_child();
	int status;

	if (pid == 0) {
		is_writer_here = is_writer;
		noting = takes_notes;
		kill_at = point;
		kill_in = passage;
		if (is_writer)
			victim_writes(id);
		else
			victim_reads();
		_exit(0);
	}
	while (waitpid(pid, &status, WNOHANG) == 0) {
		if (in_ns && now_ns() - begun > in_ns)
			kill(pid, SIGKILL);
		if (now_ns() - begun > 2 * PATIENCE)
			fail_msg("a victim does not come to its end");
		stress_sleep(MSEC / 5);
	}
	check_board();
	if (WIFSIGNALED(status) && point < POINTS)
		board->points[point].killed++;
	snprintf(what, sizeof(what), "%s dead at %s:%d %d", is_writer ? "writer" : "reader",
		 point < POINTS ? board->points[point].file : "-",
		 point < POINTS ? board->points[point].line : 0, (int)passage);
	await_clean(ask, what);
}

static int number_of_rounds(void)
{
	const char *text = getenv("APUS_CRASH_ROUNDS");

	return text && atoi(text) > 0 ? atoi(text) : ROUNDS;
}

static void test_deaths(void **state)
{
	uint32_t random = (uint32_t)getpid() * 2654435761u, never = 0, count = 0;
	int rounds = number_of_rounds();

	(void)state;
	for (int i = 0; i < rounds; i++) {
		const struct point *p;
		bool is_writer;

		if (i % SESSION == 0) {
			int n = i / SESSION;

			in_ring = n % 2;
			writer_count = 1 + (uint32_t)n % LIVING;
			reader_count = 1 + (uint32_t)(n / LIVING) % LIVING;
			begin_session();
			if (n < 2) { /* either kind of payload */
				run_victim(true, POINTS, 0, true, 0, true);
				run_victim(false, POINTS, 0, true, 0, true);
			}
		}
		random = random * 1664525u + 1013904223u;
		count = atomic_load(&board->point_count);
		p = &board->points[(uint32_t)i % count];
		is_writer = random >> 16 & 1;
		if (!p->passed[is_writer]) /* who never comes there cannot be killed there */
			is_writer = !is_writer;
		if (i % 4 == 3)
			run_victim(random >> 17 & 1, POINTS, 0, false,
				   1 + (int64_t)(random % 20000000), i % 8 == 7);
		else
			run_victim(is_writer, (uint32_t)i % count,
				   (random >> 4) % (p->passed[is_writer] / 2 + 1), false, 0,
				   i % 8 == 0);
		if (i % SESSION == SESSION - 1 || i == rounds - 1)
			end_session();
	}
	assert_in_range(count, 30, POINTS - 1);
	for (uint32_t i = 0; i < count; i++)
		never += board->points[i].killed == 0;
	print_message("%d rounds, %u points, %u of them killed nobody\n", rounds, count, never);
}

static int setup(void **state)
{
	(void)state;
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	snprintf(directory, sizeof(directory), "/tmp/apus-test-deaths-%d", (int)getpid());
	return board == MAP_FAILED;
}

static int teardown(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 2 * LIVING; i++)
		if (pids[i])
			kill(pids[i], SIGKILL);
	(void)apus_host_clean(directory, false, ignore, NULL);
	return rmdir(directory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_deaths),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
