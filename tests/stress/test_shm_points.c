/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: of one to four processes that write and one to four that read, one dies between any two of its steps on shared
 * memory. Then all slots are free or held by the living, the living writers' samples have come to the living readers
 * once, in order and whole, nobody waits for the dead, and no name of the dead is left.
 * Method: the files of shm/ are compiled with APUS_SHM_POINTS, so that each access to shared memory is a labelled
 * point before and after which the victim may kill itself. The first round notes which points there are and how
 * often each is passed; the others go through all of them in turn, at a random one of the passages, and every fourth
 * kills at a random instant instead. APUS_CRASH_ROUNDS: how many (300). Not under sanitizers: they do not like
 * processes that die in the middle of everything.
 */
#include "shm/bell.h"
#include "shm/link.h"
#include "shm/pool.h"
#include "shm/returns.h"
#include "shm/ring.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define SIDE     4 /* processes of each kind at most */
#define CAPACITY 8
#define SLOTS    48
#define QUOTA    10
#define WORDS    8 /* of a payload */
#define SAMPLES  60
#define HANDFUL  3 /* slots a reader keeps */
#define ROUNDS   300
#define POINTS   128
#define LAST     UINT64_MAX

/* --- points -------------------------------------------------------------------------------------- */

struct point {
	char file[24];
	int line;
	bool after;
	uint32_t passed[2]; /* in the round that takes notes, by readers and by the writer */
	uint32_t killed;
};

/* What all processes of the test share beside the rings. */
static struct board {
	struct point points[POINTS];
	uint32_t point_count;
	_Atomic bool noting;
	_Atomic uint32_t dead_readers, dead_writers; /* bits; the parent has seen it */
} * board;

static bool is_writer_here;
static bool noting;                        /* this process takes notes */
static uint32_t kill_at = POINTS, kill_in; /* the point, and the passage */

static uint32_t find_point(const char *name, int line, bool after)
{
	uint32_t i = 0;

	while (i < board->point_count &&
	       (board->points[i].line != line || board->points[i].after != after ||
		strcmp(board->points[i].file, name) != 0))
		i++;
	return i;
}

static void note_point(const char *name, int line, bool after)
{
	struct point *p;
	uint32_t i;

	while (atomic_exchange(&board->noting, true))
		sched_yield();
	i = find_point(name, line, after);
	p = &board->points[i];
	if (i == board->point_count && i < POINTS - 1) {
		snprintf(p->file, sizeof(p->file), "%s", name);
		p->line = line;
		p->after = after;
		board->point_count++;
	}
	p->passed[is_writer_here]++;
	atomic_store(&board->noting, false);
}

void apus_shm_point(const char *file, int line, bool after)
{
	const char *name = strrchr(file, '/') ? strrchr(file, '/') + 1 : file;

	if (noting)
		note_point(name, line, after);
	else if (kill_at < POINTS && find_point(name, line, after) == kill_at && kill_in-- == 0)
		kill(getpid(), SIGKILL);
}

/* --- what they share ----------------------------------------------------------------------------- */

struct page {
	struct apus_shm_ring_in ring;
	struct apus_shm_bell bell;
	apus_shm_word returned[APUS_SHM_RETURN_WORDS(SLOTS)];
};

/* One writer's memory, and that of each of its pairs. Even readers are reliable, odd ones displace. */
struct writer {
	struct apus_shm_pool pool;
	struct apus_shm_segment cells[SIDE], pages[SIDE];
};

static struct writer writers[SIDE];
static int bells[SIDE]; /* of readers */
static int writer_count, reader_count;
static char directory[64];

static bool is_reliable(int reader)
{
	return reader % 2 == 0;
}

static struct page *page_of(int w, int r)
{
	return writers[w].pages[r].base;
}

static bool is_gone(const _Atomic uint32_t *bits, int i)
{
	/* Relaxed: the parent has waited for the process; nothing else goes with it. */
	return atomic_load_explicit(bits, memory_order_relaxed) >> i & 1;
}

static void make_memory(void)
{
	for (int w = 0; w < writer_count; w++) {
		assert_int_equal(apus_shm_pool_init(&writers[w].pool, WORDS * sizeof(uint64_t),
						    SLOTS, APUS_SHM_OWN),
				 0);
		for (int r = 0; r < reader_count; r++) {
			assert_int_equal(apus_shm_segment_create(apus_shm_ring_bytes(CAPACITY, 0),
								 APUS_SHM_OWN,
								 &writers[w].cells[r]),
					 0);
			assert_int_equal(apus_shm_segment_create(sizeof(struct page), APUS_SHM_OWN,
								 &writers[w].pages[r]),
					 0);
		}
	}
	for (int r = 0; r < reader_count; r++)
		assert_true((bells[r] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) >= 0);
}

static void free_memory(void)
{
	for (int w = 0; w < writer_count; w++) {
		apus_shm_pool_fini(&writers[w].pool);
		for (int r = 0; r < reader_count; r++) {
			apus_shm_segment_destroy(&writers[w].cells[r]);
			apus_shm_segment_destroy(&writers[w].pages[r]);
		}
	}
	for (int r = 0; r < reader_count; r++)
		close(bells[r]);
}

/* --- a writer's process; exits with 0, or what was wrong ----------------------------------------- */

struct to {
	struct apus_shm_ring_writer ring;
	struct apus_shm_held held;
	bool gone;
};

static void slot_back(void *user, uint32_t slot)
{
	apus_shm_pool_release(user, slot);
}

static void collect(struct writer *me, struct to *to)
{
	uint64_t false_returns = 0;

	apus_shm_held_collect(&to->held, to->held.words, slot_back, &me->pool, &false_returns);
	if (false_returns)
		_exit(11);
}

static void look_for_death(struct writer *me, struct to *to, int r)
{
	if (!to->gone && is_gone(&board->dead_readers, r)) {
		apus_shm_held_drop(&to->held, slot_back, &me->pool);
		to->gone = true;
	}
}

static void displaced(struct writer *me, struct to *to, const struct apus_shm_desc *old)
{
	if (!apus_shm_held_remove(&to->held, (uint32_t)old->word[1]))
		_exit(12);
	apus_shm_pool_release(&me->pool, (uint32_t)old->word[1]);
}

/* False: no room. */
static bool push(struct writer *me, struct to *to, int r, const struct apus_shm_desc *d)
{
	struct apus_shm_desc old;
	bool has_old = false, done;

	if (to->held.count >= QUOTA) {
		collect(me, to);
		if (to->held.count >= QUOTA && !is_reliable(r) &&
		    apus_shm_ring_take_back(&to->ring, &old) == APUS_SHM_DONE)
			displaced(me, to, &old);
		if (to->held.count >= QUOTA)
			return false;
	}
	if (is_reliable(r))
		return apus_shm_ring_push(&to->ring, d) == APUS_SHM_DONE;
	done = apus_shm_ring_push_over(&to->ring, d, &old, &has_old) == APUS_SHM_DONE;
	if (has_old)
		displaced(me, to, &old);
	return done;
}

static void ring_bell(int w, int r)
{
	uint64_t one = 1;

	if (apus_shm_bell_signal(&page_of(w, r)->bell))
		(void)!write(bells[r], &one, sizeof(one));
}

static void give(struct writer *me, int w, struct to *to, int r, const struct apus_shm_desc *d,
		 bool is_last)
{
	/* The end of the stream has no slot, and must not be displaced: nothing comes behind it. */
	while (!to->gone && !(is_last ? apus_shm_ring_push(&to->ring, d) == APUS_SHM_DONE
				      : push(me, to, r, d))) {
		look_for_death(me, to, r);
		if (!is_reliable(r) && !is_last)
			return;
		sched_yield();
	}
	if (to->gone)
		return;
	if (!is_last) {
		apus_shm_held_add(&to->held, (uint32_t)d->word[1]);
		apus_shm_pool_hold(&me->pool, (uint32_t)d->word[1]);
	}
	ring_bell(w, r);
}

static void publish(struct writer *me, int w, struct to *to, uint64_t number)
{
	uint32_t slot = apus_shm_pool_acquire(&me->pool);
	struct apus_shm_desc d = {{number, slot}};
	uint64_t *payload;

	if (slot == APUS_SHM_NO_SLOT)
		_exit(13);
	payload = apus_shm_pool_slot(&me->pool, slot);
	for (int i = 0; i < WORDS; i++)
		payload[i] = number;
	for (int r = 0; r < reader_count; r++)
		give(me, w, &to[r], r, &d, false);
	apus_shm_pool_release(&me->pool, slot);
}

static void write_all(int w)
{
	struct writer *me = &writers[w];
	struct apus_shm_desc last = {{LAST, 0}};
	struct to to[SIDE] = {0};
	uint32_t held = 1;

	for (int r = 0; r < reader_count; r++) {
		apus_shm_ring_writer_init(&to[r].ring, me->cells[r].base, &page_of(w, r)->ring,
					  CAPACITY, 0);
		if (apus_shm_held_init(&to[r].held, SLOTS, page_of(w, r)->returned) != 0)
			_exit(14);
	}
	for (uint64_t number = 1; number <= SAMPLES; number++)
		publish(me, w, to, number);
	last.word[1] = SAMPLES;
	for (int r = 0; r < reader_count; r++)
		give(me, w, &to[r], r, &last, true);
	while (held) {
		held = 0;
		for (int r = 0; r < reader_count; r++) {
			look_for_death(me, &to[r], r);
			if (!to[r].gone)
				collect(me, &to[r]);
			held += to[r].held.count;
		}
		sched_yield();
	}
	if (me->pool.free_count != SLOTS)
		_exit(15);
}

/* --- a reader's ---------------------------------------------------------------------------------- */

struct from {
	struct apus_shm_ring_reader ring;
	uint64_t last; /* number */
	uint32_t kept[HANDFUL], kept_count;
	bool done;
};

static void check_payload(int w, uint64_t slot, uint64_t number)
{
	const volatile uint64_t *word;

	if (slot >= SLOTS)
		_exit(21);
	word = apus_shm_pool_slot(&writers[w].pool, (uint32_t)slot);
	for (int i = 0; i < WORDS; i++)
		if (word[i] != number)
			_exit(22);
}

/* Keeps a slot, and gives the oldest back. */
static void keep(struct from *f, struct page *page, uint32_t slot)
{
	if (f->kept_count == HANDFUL) {
		apus_shm_return(page->returned, f->kept[0]);
		memmove(f->kept, f->kept + 1, sizeof(f->kept) - sizeof(f->kept[0]));
		f->kept_count--;
	}
	f->kept[f->kept_count++] = slot;
}

static void let_go(struct from *f, struct page *page)
{
	for (uint32_t i = 0; i < f->kept_count; i++)
		apus_shm_return(page->returned, f->kept[i]);
	f->kept_count = 0;
	f->done = true;
}

/* One attempt to claim the oldest of a ring that displaces. */
static enum apus_shm_ring_result claim(struct apus_shm_ring_reader *ring, struct apus_shm_desc *d)
{
	enum apus_shm_ring_result result = apus_shm_ring_look(ring, d);
	uint64_t lost;

	return result == APUS_SHM_DONE ? apus_shm_ring_claim(ring, &lost) : result;
}

/* Takes one sample; false: there is none. */
static bool take(struct from *f, int w, int r)
{
	struct page *page = page_of(w, r);
	enum apus_shm_ring_result result;
	struct apus_shm_desc d;

	result = is_reliable(r) ? apus_shm_ring_peek(&f->ring, &d) : claim(&f->ring, &d);
	if (result == APUS_SHM_BROKEN)
		_exit(23);
	if (result == APUS_SHM_NOTHING)
		return false;
	if (d.word[0] == LAST) {
		if (is_reliable(r) && f->last != d.word[1])
			_exit(24);
		let_go(f, page);
		if (is_reliable(r)) {
			apus_shm_ring_advance(&f->ring);
			apus_shm_ring_give(&f->ring);
		}
		return true;
	}
	if (is_reliable(r) ? d.word[0] != f->last + 1 : d.word[0] <= f->last)
		_exit(25);
	f->last = d.word[0];
	check_payload(w, d.word[1], d.word[0]);
	for (uint32_t i = 0; i < f->kept_count; i++)
		if (f->kept[i] == d.word[1])
			_exit(26); /* ours already */
	keep(f, page, (uint32_t)d.word[1]);
	if (is_reliable(r)) {
		apus_shm_ring_advance(&f->ring);
		apus_shm_ring_give(&f->ring);
	}
	return true;
}

static void doze(struct from *from, int r)
{
	struct pollfd p = {.fd = bells[r], .events = POLLIN};
	bool quiet = true;
	uint64_t count;

	for (int w = 0; w < writer_count; w++)
		if (!from[w].done)
			quiet &= apus_shm_bell_doze(&page_of(w, r)->bell, &from[w].ring);
	/* Long, for a lost bell is to show; not for ever, for the parent tells of deaths by other means. */
	if (quiet)
		(void)poll(&p, 1, 50);
	(void)!read(bells[r], &count, sizeof(count));
	for (int w = 0; w < writer_count; w++)
		apus_shm_bell_wake(&page_of(w, r)->bell);
}

static void read_all(int r)
{
	struct from from[SIDE] = {0};
	int left = writer_count;

	for (int w = 0; w < writer_count; w++)
		apus_shm_ring_reader_init(&from[w].ring, writers[w].cells[r].base,
					  &page_of(w, r)->ring, CAPACITY, 0);
	while (left) {
		bool any = false;

		left = 0;
		for (int w = 0; w < writer_count; w++) {
			bool dead = is_gone(&board->dead_writers, w);

			if (from[w].done)
				continue;
			left++;
			if (take(&from[w], w, r))
				any = true;
			else if (dead) /* asked before the ring was looked at */
				let_go(&from[w], page_of(w, r));
		}
		if (!any && left)
			doze(from, r);
	}
}

/* --- rounds -------------------------------------------------------------------------------------- */

static int number_of_rounds(void)
{
	const char *text = getenv("APUS_CRASH_ROUNDS");

	return text && atoi(text) > 0 ? atoi(text) : ROUNDS;
}

/* A process with a name in the directory, as participants have. */
static pid_t start(bool is_writer, int idx, uint32_t at, uint32_t in)
{
	char name[16];
	pid_t pid = fork();
	int fd;

	assert_true(pid >= 0);
	if (pid)
		return pid;
	alarm(120);
	is_writer_here = is_writer;
	noting = at > POINTS;
	kill_at = noting ? POINTS : at;
	kill_in = in;
	snprintf(name, sizeof(name), "%c%d", is_writer ? 'w' : 'r', idx);
	fd = apus_shm_listen(directory, name);
	if (fd < 0)
		_exit(31);
	if (is_writer)
		write_all(idx);
	else
		read_all(idx);
	apus_shm_unlisten(directory, name, fd);
	_exit(0);
}

static void ignore(void *user, const char *name, bool alive)
{
	(void)name;
	if (alive)
		++*(int *)user;
}

static void check_directory(void)
{
	struct dirent *entry;
	int alive = 0;
	DIR *dir;

	assert_true(apus_shm_sweep(directory, true, ignore, &alive) >= 0);
	assert_int_equal(alive, 0);
	dir = opendir(directory);
	while ((entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			fail_msg("%s is left", entry->d_name);
	closedir(dir);
}

struct victim {
	bool is_writer;
	int idx;
	uint32_t point, passage; /* point POINTS: by the parent */
};

static void run(const struct victim *v, uint32_t random)
{
	pid_t pids[2 * SIDE], victim = 0;
	int count = writer_count + reader_count;

	make_memory();
	atomic_store(&board->dead_readers, 0);
	atomic_store(&board->dead_writers, 0);
	/* Readers first, so that a writer does not wait for one that is not there yet. */
	for (int i = 0; i < count; i++) {
		bool is_writer = i >= reader_count;
		int idx = is_writer ? i - reader_count : i;
		bool chosen = v && v->is_writer == is_writer && v->idx == idx;

		pids[i] = start(is_writer, idx,
				chosen ? v->point
				: v    ? POINTS
				       : POINTS + 1,
				chosen ? v->passage : 0);
		if (chosen)
			victim = pids[i];
	}
	if (v && v->point == POINTS) {
		struct timespec ts = {0, random % 3000000};

		nanosleep(&ts, NULL);
		kill(victim, SIGKILL);
	}
	for (int n = 0; n < count; n++) {
		int status, i = 0;
		pid_t pid = waitpid(-1, &status, 0);

		while (i < count && pids[i] != pid)
			i++;
		assert_true(i < count);
		if (!(WIFEXITED(status) && WEXITSTATUS(status) == 0) &&
		    !(pid == victim && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL))
			fail_msg(
				"%s %d ended with %x; %d writers, %d readers, victim %s %d at %s:%d",
				i < reader_count ? "reader" : "writer",
				i < reader_count ? i : i - reader_count, status, writer_count,
				reader_count, v && v->is_writer ? "writer" : "reader",
				v ? v->idx : -1,
				v && v->point < POINTS ? board->points[v->point].file : "-",
				v && v->point < POINTS ? board->points[v->point].line : 0);
		/* Relaxed, as in is_gone(). */
		atomic_fetch_or_explicit(
			i < reader_count ? &board->dead_readers : &board->dead_writers,
			1u << (i < reader_count ? i : i - reader_count), memory_order_relaxed);
		if (v && pid == victim && WIFSIGNALED(status) && v->point < POINTS)
			board->points[v->point].killed++;
	}
	check_directory();
	free_memory();
}

static void test_points(void **state)
{
	uint32_t random = (uint32_t)getpid() * 2654435761u, never = 0;
	int rounds = number_of_rounds();

	(void)state;
	writer_count = 1;
	reader_count = 2; /* both kinds */
	run(NULL, 0);
	assert_in_range(board->point_count, 20, POINTS - 1);
	for (int i = 0; i < rounds; i++) {
		uint32_t point = (uint32_t)i % board->point_count;
		struct victim v = {.point = i % 4 == 3 ? POINTS : point};

		random = random * 1664525u + 1013904223u;
		writer_count = 1 + (int)(random >> 8) % SIDE;
		reader_count = 1 + (int)(random >> 12) % SIDE;
		v.is_writer = random >> 16 & 1;
		if (v.point < POINTS) /* who never comes there cannot be killed there */
			v.is_writer = board->points[point].passed[1] &&
				      (v.is_writer || !board->points[point].passed[0]);
		v.idx = (int)(random >> 20) % (v.is_writer ? writer_count : reader_count);
		v.passage = (random >> 4) % (board->points[point].passed[v.is_writer] / 4 + 1);
		run(&v, random);
	}
	for (uint32_t i = 0; i < board->point_count; i++)
		if (board->points[i].killed == 0) {
			never++;
			print_message("nobody died %s %s:%d\n",
				      board->points[i].after ? "behind" : "before",
				      board->points[i].file, board->points[i].line);
		}
	print_message("%d rounds, %u points, %u of them killed nobody\n", rounds,
		      board->point_count, never);
}

static int setup(void **state)
{
	char path[64];

	(void)state;
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	snprintf(directory, sizeof(directory), "/tmp/apus-test-points-%d", (int)getpid());
	return board == MAP_FAILED || apus_shm_directory(directory, path, sizeof(path)) != 0;
}

static int teardown(void **state)
{
	(void)state;
	return rmdir(directory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_points),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
