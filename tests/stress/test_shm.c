/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: processes that share rings may be killed at any instant. A writer whose readers die gets every slot back
 * once and goes on serving the living, who miss nothing; readers of a writer that dies have in order what it had
 * published, whole, and their memory stays valid.
 * Method: ROUNDS rounds of each. The writer's payload and cells go to the readers as memfds that only it can write,
 * through a socket; the reader to die gets SIGKILL after a random time of up to some milliseconds. Each payload is
 * a number repeated, so that a torn one shows. Not under sanitizers: they do not like processes that die in the
 * middle of everything.
 */
#include "shm/bell.h"
#include "shm/link.h"
#include "shm/pool.h"
#include "shm/returns.h"
#include "shm/ring.h"

#include <apus/core.h>

#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define CAPACITY 16
#define SLOTS    40
#define WORDS    32 /* of a payload */
#define READERS  2
#define ROUNDS   150
#define LAST     UINT64_MAX /* the descriptor that ends a stream */

struct page {
	struct apus_shm_ring_in ring;
	struct apus_shm_bell bell;
	apus_shm_word returned[APUS_SHM_RETURN_WORDS(SLOTS)];
};

/* The writer's view of one reader. */
struct reader {
	pid_t pid;
	int socket; /* to the reader, -1: none */
	int pidfd;
	struct apus_shm_segment cells, page;
	struct apus_shm_ring_writer ring;
	struct apus_shm_held held;
};

static struct apus_shm_pool pool;
static char directory[64];

static void nap(long us)
{
	struct timespec ts = {us / 1000000, us % 1000000 * 1000};

	nanosleep(&ts, NULL);
}

/* --- a reader's process -------------------------------------------------------------------------- */

/* Whole and of this number? */
static void check_payload(const void *slots, uint64_t slot, uint64_t number)
{
	const volatile uint64_t *w =
		(const volatile uint64_t *)((const char *)slots + slot * pool.slot_bytes);

	if (slot >= SLOTS)
		_exit(3);
	for (int i = 0; i < WORDS; i++)
		if (w[i] != number)
			_exit(4);
}

/* Takes everything in order; exits with 0 at the end of the stream, else with what was wrong. */
static void consume(const void *slots, const struct apus_shm_ring_out *cells, struct page *page)
{
	struct apus_shm_ring_reader ring;
	struct apus_shm_desc d;
	uint64_t next = 1;

	apus_shm_ring_reader_init(&ring, cells, &page->ring, CAPACITY, 0);
	for (;;) {
		switch (apus_shm_ring_peek(&ring, &d)) {
		case APUS_SHM_NOTHING: sched_yield(); continue;
		case APUS_SHM_BROKEN: _exit(5);
		case APUS_SHM_DONE: break;
		}
		if (d.word[0] == LAST)
			_exit(d.word[1] == next - 1 ? 0 : 6);
		if (d.word[0] != next++)
			_exit(7);
		check_payload(slots, d.word[1], d.word[0]);
		apus_shm_return(page->returned, (uint32_t)d.word[1]);
		apus_shm_ring_advance(&ring);
		apus_shm_ring_give(&ring);
	}
}

static void reader_main(void)
{
	struct apus_shm_message m;
	void *slots, *cells, *page;
	int fd = apus_shm_connect(directory, "writer"), self = apus_shm_self();

	alarm(100);
	if (fd < 0 || self < 0 || apus_shm_send(fd, "reader", 6, &self, 1) != 0)
		_exit(1);
	while (apus_shm_receive(fd, &m) == APUS_EAGAIN)
		sched_yield();
	if (m.fd_count != 3 ||
	    apus_shm_map(m.fds[0], (size_t)SLOTS * pool.slot_bytes, false, &slots) != 0 ||
	    apus_shm_map(m.fds[1], apus_shm_ring_bytes(CAPACITY, 0), false, &cells) != 0 ||
	    apus_shm_map(m.fds[2], sizeof(struct page), true, &page) != 0)
		_exit(2);
	consume(slots, cells, page);
}

/* --- the writer's -------------------------------------------------------------------------------- */

static void start_reader(struct reader *r, int listener)
{
	struct apus_shm_message m;
	int fds[3];

	r->pid = fork();
	assert_true(r->pid >= 0);
	if (r->pid == 0)
		reader_main();
	assert_int_equal(
		apus_shm_segment_create(apus_shm_ring_bytes(CAPACITY, 0), APUS_SHM_OWN, &r->cells),
		0);
	assert_int_equal(apus_shm_segment_create(sizeof(struct page), APUS_SHM_OWN, &r->page), 0);
	assert_int_equal(apus_shm_seal(&r->cells), 0);
	apus_shm_ring_writer_init(&r->ring, r->cells.base, r->page.base, CAPACITY, 0);
	assert_int_equal(
		apus_shm_held_init(&r->held, SLOTS, ((struct page *)r->page.base)->returned), 0);
	while ((r->socket = apus_shm_accept(listener)) < 0)
		nap(100);
	while (apus_shm_receive(r->socket, &m) == APUS_EAGAIN)
		nap(100);
	assert_int_equal(m.fd_count, 1);
	r->pidfd = m.fds[0];
	fds[0] = pool.segment.fd;
	fds[1] = r->cells.fd;
	fds[2] = r->page.fd;
	assert_int_equal(apus_shm_send(r->socket, "memory", 6, fds, 3), 0);
}

static void slot_back(void *user, uint32_t slot)
{
	(void)user;
	apus_shm_pool_release(&pool, slot);
}

static void end_reader(struct reader *r)
{
	apus_shm_held_drop(&r->held, slot_back, NULL);
	apus_shm_held_fini(&r->held);
	apus_shm_segment_destroy(&r->cells);
	apus_shm_segment_destroy(&r->page);
	close(r->socket);
	close(r->pidfd);
	memset(r, 0, sizeof(*r));
}

/* Gives one sample to all the readers there are; waits for those that are alive. */
static void publish(struct reader *readers, uint64_t number)
{
	uint32_t slot = apus_shm_pool_acquire(&pool);
	struct apus_shm_desc d = {{number, slot}};
	uint64_t *payload;

	assert_int_not_equal(slot, APUS_SHM_NO_SLOT);
	payload = apus_shm_pool_slot(&pool, slot);
	for (int i = 0; i < WORDS; i++)
		payload[i] = number;
	for (int i = 0; i < READERS; i++) {
		struct reader *r = &readers[i];

		while (r->pid && apus_shm_ring_push(&r->ring, &d) != APUS_SHM_DONE) {
			apus_shm_held_collect(&r->held, r->held.words, slot_back, NULL, NULL);
			if (apus_shm_is_dead(r->pidfd)) {
				waitpid(r->pid, NULL, 0);
				end_reader(r);
			}
		}
		if (!r->pid)
			continue;
		apus_shm_held_add(&r->held, slot);
		apus_shm_pool_hold(&pool, slot);
		apus_shm_held_collect(&r->held, r->held.words, slot_back, NULL, NULL);
	}
	apus_shm_pool_release(&pool, slot);
}

/* One reader is killed while the writer serves both; the other must have had everything. */
static void kill_a_reader(int listener)
{
	struct reader readers[READERS] = {0};
	uint64_t number = 0, until = 400 + (uint64_t)(rand() % 400);
	uint64_t kill_at = (uint64_t)rand() % until;
	struct apus_shm_desc last = {{LAST, 0}};
	int status, victim = rand() % READERS;

	for (int i = 0; i < READERS; i++)
		start_reader(&readers[i], listener);
	while (number < until) {
		publish(readers, ++number);
		if (number == kill_at)
			kill(readers[victim].pid, SIGKILL);
	}
	last.word[1] = number;
	for (int i = 0; i < READERS; i++) {
		struct reader *r = &readers[i];

		if (!r->pid)
			continue;
		while (apus_shm_ring_push(&r->ring, &last) == APUS_SHM_NOTHING &&
		       !apus_shm_is_dead(r->pidfd))
			sched_yield();
		assert_int_equal(waitpid(r->pid, &status, 0), r->pid);
		if (i == victim)
			assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
		else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
			fail_msg("the living reader ended with %x", status);
		end_reader(r);
	}
	assert_int_equal(pool.free_count, SLOTS);
}

static void test_readers_die(void **state)
{
	int listener = apus_shm_listen(directory, "writer");

	(void)state;
	assert_true(listener >= 0);
	for (int i = 0; i < ROUNDS; i++)
		kill_a_reader(listener);
	apus_shm_unlisten(directory, "writer", listener);
}

/* --- a writer that dies -------------------------------------------------------------------------- */

static void writer_main(struct reader *r)
{
	for (uint64_t number = 1;; number++)
		publish(r, number);
}

/* The writer is a child that shares its memory by inheriting it; the parent reads what it has published. */
static void kill_the_writer(void)
{
	struct reader readers[READERS] = {0};
	struct reader *r = &readers[0];
	struct apus_shm_ring_reader ring;
	struct page *page;
	struct apus_shm_desc d;
	uint64_t next = 1;
	pid_t writer;
	bool dead = false;

	assert_int_equal(
		apus_shm_segment_create(apus_shm_ring_bytes(CAPACITY, 0), APUS_SHM_OWN, &r->cells),
		0);
	assert_int_equal(apus_shm_segment_create(sizeof(struct page), APUS_SHM_OWN, &r->page), 0);
	page = r->page.base;
	apus_shm_ring_writer_init(&r->ring, r->cells.base, &page->ring, CAPACITY, 0);
	assert_int_equal(apus_shm_held_init(&r->held, SLOTS, page->returned), 0);
	r->pid = getpid();
	r->pidfd = apus_shm_self();
	writer = fork();
	if (writer == 0)
		writer_main(readers);
	apus_shm_ring_reader_init(&ring, r->cells.base, &page->ring, CAPACITY, 0);
	for (int kill_in = rand() % 3000;;) {
		enum apus_shm_ring_result result = apus_shm_ring_peek(&ring, &d);

		assert_int_not_equal(result, APUS_SHM_BROKEN);
		if (!dead && kill_in-- == 0) {
			kill(writer, SIGKILL);
			waitpid(writer, NULL, 0);
			dead = true;
			continue; /* it may have published until then */
		}
		if (result == APUS_SHM_NOTHING && dead)
			break;
		if (result == APUS_SHM_NOTHING)
			continue;
		assert_int_equal(d.word[0], next++);
		check_payload(pool.segment.base, d.word[1], d.word[0]);
		apus_shm_return(page->returned, (uint32_t)d.word[1]);
		apus_shm_ring_advance(&ring);
		apus_shm_ring_give(&ring);
	}
	apus_shm_held_fini(&r->held);
	apus_shm_segment_destroy(&r->cells);
	apus_shm_segment_destroy(&r->page);
	close(r->pidfd);
}

static void test_writer_dies(void **state)
{
	(void)state;
	for (int i = 0; i < ROUNDS; i++)
		kill_the_writer();
}

static int setup(void **state)
{
	char path[64];

	(void)state;
	srand((unsigned)getpid());
	snprintf(directory, sizeof(directory), "/tmp/apus-test-shm-%d", (int)getpid());
	if (apus_shm_directory(directory, path, sizeof(path)) != 0)
		return 1;
	return apus_shm_pool_init(&pool, WORDS * sizeof(uint64_t), SLOTS, APUS_SHM_OWN);
}

static int teardown(void **state)
{
	(void)state;
	apus_shm_pool_fini(&pool);
	return rmdir(directory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_readers_die),
		cmocka_unit_test(test_writer_dies),
	};

	alarm(280);
	return cmocka_run_group_tests(tests, setup, teardown);
}
