/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: a reader that overwrites all it can write stops its own traffic and nobody else's; what it may only read it
 * cannot write.
 * Method: 1,000 rounds of a writer with two readers, over memory of which another process overwrites the second one's
 * page all the time, words and whole, with random and with plausible numbers. In each round the first reader has to
 * have everything once and in order, and all slots have to be free at the end. Then a process that stores into a
 * writer's payload, which has to fault.
 */
#include "dataplane/shm_match.h"
#include "shm/link.h"
#include "wire_pair.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define CAPACITY 8
#define QUOTA    6
#define ROUNDS   1000
#define SAMPLES  16

static const struct wire_options options = {
	.reliable = true, .keep_all = true, .max_samples = 32, .lent_slots = 2 * QUOTA};

/* One reader's end and what it shares. */
struct end {
	struct apus_shm_ring_out *cells;
	struct apus_dp_shm_page *page;
	struct apus_dp_shm_out out;
	struct apus_dp_shm_in in;
	struct apus_dp_reader_snapshot *snapshot;
};

struct fixture {
	struct wire_pair p;
	struct wire_endpoints e[2]; /* both readers are of the first one's writer */
	struct end ends[2];
	struct apus_dp_writer_snapshot *snapshot;
	size_t page_bytes;
	uint64_t matches;
};

static void *shared(size_t bytes)
{
	void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(base, MAP_FAILED);
	return base;
}

static void begin(struct fixture *f)
{
	struct wire_options o = options;

	memset(f, 0, sizeof(*f));
	wire_pair_init(&f->p, 1);
	for (uint32_t i = 0; i < 2; i++) {
		o.number = i;
		wire_endpoints_init(&f->p, &f->e[i], &o);
	}
	f->page_bytes = apus_dp_shm_page_bytes(f->e[0].writer->cache.pool.slot_count);
	for (int i = 0; i < 2; i++) {
		f->ends[i].cells = shared(apus_shm_ring_bytes(CAPACITY, 0));
		f->ends[i].page = shared(f->page_bytes);
	}
}

/* Publishes matches, or their end, to all three. */
static void publish(struct fixture *f, bool matched)
{
	struct apus_dp_writer_snapshot *ws = calloc(1, sizeof(*ws) + 2 * sizeof(ws->match[0]));
	struct apus_dp_reader_snapshot *old[2] = {f->ends[0].snapshot, f->ends[1].snapshot};
	uint64_t retired;

	ws->generation = ++f->matches;
	ws->match_count = matched ? 2 : 0;
	for (int i = 0; i < 2; i++) {
		struct apus_dp_reader_snapshot *rs = calloc(1, sizeof(*rs) + sizeof(rs->match[0]));

		ws->match[i] =
			(struct apus_dp_reader_match){.guid = f->e[i].reader->config.guid,
						      .match_id = 2 * f->matches + (uint64_t)i,
						      .reliable = true,
						      .shm = &f->ends[i].out};
		rs->generation = f->matches;
		rs->match_count = matched;
		rs->match[0] = (struct apus_dp_writer_match){.guid = f->e[0].writer->config.guid,
							     .match_id = ws->match[i].match_id,
							     .reliable = true,
							     .lease_ns = APUS_INFINITE_NS,
							     .lifespan_ns = APUS_INFINITE_NS,
							     .shm = &f->ends[i].in};
		apus_dp_reader_publish(&f->p.epoch, &f->e[i].reader->port, rs, &retired);
		f->ends[i].snapshot = rs;
	}
	apus_dp_writer_publish(&f->p.epoch, &f->e[0].writer->port, ws, &retired);
	wire_run(&f->p, APUS_NS_PER_MS);
	free(f->snapshot);
	free(old[0]);
	free(old[1]);
	f->snapshot = ws;
}

static void connect_ends(struct fixture *f)
{
	struct apus_shm_pool *pool = &f->e[0].writer->cache.pool;

	for (int i = 0; i < 2; i++) {
		struct end *end = &f->ends[i];

		memset(end->cells, 0, apus_shm_ring_bytes(CAPACITY, 0));
		memset(end->page, 0, f->page_bytes);
		assert_int_equal(apus_dp_shm_out_init(&end->out, end->cells, end->page, CAPACITY, 0,
						      pool, QUOTA, -1),
				 0);
		assert_int_equal(apus_dp_shm_in_init(&end->in, end->cells, end->page, CAPACITY, 0,
						     pool->segment.base, pool->segment.bytes,
						     pool->slot_bytes, pool->slot_count, QUOTA),
				 0);
	}
	publish(f, true);
}

static void disconnect(struct fixture *f)
{
	publish(f, false);
	apus_dp_worker_take_turn(f->p.a.worker);
	for (int i = 0; i < 2; i++) {
		apus_dp_shm_out_drop(&f->ends[i].out);
		apus_dp_shm_out_fini(&f->ends[i].out);
	}
	apus_dp_worker_end_turn(f->p.a.worker);
}

/* Takes all that a reader has. Returns how many; checks the numbers if they are to be right. */
static int take(struct fixture *f, int i, int32_t *next)
{
	struct apus_sample s[64];
	int n;

	apus_dp_worker_take_turn(f->p.b.worker);
	n = apus_dp_reader_access(f->e[i].reader, NULL, true, f->p.now, s, 64);
	for (int k = 0; k < n; k++) {
		struct apus_shape shape;
		int rc = s[k].info.valid_data
				 ? apus_type_decode(&apus_shape_type, s[k].payload,
						    s[k].payload_bytes, false, &shape, NULL, 0)
				 : -1;

		if (next && s[k].info.valid_data) {
			assert_int_equal(rc, 0);
			assert_int_equal(shape.x, (*next)++);
		}
		apus_dp_reader_return(f->e[i].reader, &s[k]);
	}
	apus_dp_worker_end_turn(f->p.b.worker);
	return n;
}

static void scribble(struct fixture *f, uint64_t *random)
{
	uint64_t *words = (uint64_t *)f->ends[1].page;
	uint32_t count = (uint32_t)(f->page_bytes / sizeof(*words));
	uint32_t at = wire_random(random, count);

	switch (wire_random(random, 5)) {
	case 0: words[at] = wire_random(random, 40); break;
	case 1: words[at] = *random; break;
	case 2: words[at] = ~words[at]; break;
	case 3: break;
	default:
		for (uint32_t i = 0; i < count; i++)
			words[i] ^= (uint64_t)wire_random(random, UINT32_MAX)
				    << wire_random(random, 33);
	}
}

/* What the other process does for ever. */
static void scribble_on(struct fixture *f)
{
	uint64_t random = 77;

	alarm(250);
	for (;;) {
		scribble(f, &random);
		/* Now and then it leaves something as it is. */
		for (uint32_t pause = wire_random(&random, 20000); pause; pause--)
			__asm__ volatile("" ::: "memory");
	}
}

static void test_scribbling_reader(void **state)
{
	static struct fixture f;
	uint32_t slots, broken = 0;
	uint64_t random = 5;
	pid_t scribbler;

	(void)state;
	begin(&f);
	slots = f.e[0].writer->cache.pool.free_count;
	scribbler = fork();
	assert_true(scribbler >= 0);
	if (scribbler == 0)
		scribble_on(&f);
	for (int round = 0; round < ROUNDS; round++) {
		int32_t next = 1;

		connect_ends(&f);
		for (int32_t x = 1; x <= SAMPLES; x++) {
			assert_int_equal(wire_write(&f.p, &f.e[0], "RED", x, APUS_ALIVE), 0);
			if (x > round % 8) /* whether the other gets to run or not */
				scribble(&f, &random);
			wire_run(&f.p, APUS_NS_PER_MS / 2);
			if (x % 4 == 0)
				(void)take(&f, 0, &next);
		}
		assert_int_equal(next, SAMPLES + 1);
		(void)take(&f, 1, NULL);
		broken += f.ends[1].out.ring.broken;
		assert_false(f.ends[0].out.ring.broken);
		assert_int_equal(f.ends[0].out.false_returns, 0);
		disconnect(&f);
		(void)take(&f, 0, NULL);
		(void)take(&f, 1, NULL);
		assert_int_equal(f.e[0].writer->cache.pool.free_count, slots);
	}
	kill(scribbler, SIGKILL);
	assert_int_equal(waitpid(scribbler, NULL, 0), scribbler);
	assert_true(broken > ROUNDS / 10);
	for (int i = 0; i < 2; i++) {
		munmap(f.ends[i].cells, apus_shm_ring_bytes(CAPACITY, 0));
		munmap(f.ends[i].page, f.page_bytes);
		wire_endpoints_fini(&f.p, &f.e[i]);
		free(f.ends[i].snapshot);
	}
	free(f.snapshot);
	wire_pair_fini(&f.p);
}

/* In a process of its own: exits with what went wrong, or is killed by the store. */
static void store_into(const struct apus_shm_pool *pool)
{
	volatile uint8_t *slot;
	void *base;

	if (apus_shm_map(pool->segment.fd, pool->segment.bytes, true, &base) != APUS_EPERM)
		_exit(1);
	if (apus_shm_map(pool->segment.fd, pool->segment.bytes, false, &base) != 0)
		_exit(2);
	if (mprotect(base, pool->segment.bytes, PROT_READ | PROT_WRITE) == 0 || errno != EACCES)
		_exit(3);
	slot = base;
	if (slot[APUS_DP_SLOT_PAYLOAD] != 42)
		_exit(4);
	signal(SIGSEGV, SIG_DFL);
	slot[APUS_DP_SLOT_PAYLOAD] = 1;
	_exit(5);
}

static void test_payload_is_read_only(void **state)
{
	struct apus_shm_pool pool;
	uint8_t *slot;
	int status;
	pid_t pid;

	(void)state;
	assert_int_equal(apus_shm_pool_init(&pool, 256, 4, APUS_SHM_OWN), 0);
	assert_int_equal(apus_shm_seal(&pool.segment), 0);
	slot = apus_shm_pool_slot(&pool, 0);
	slot[APUS_DP_SLOT_PAYLOAD] = 42;
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		store_into(&pool);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGSEGV);
	slot[APUS_DP_SLOT_PAYLOAD]++; /* its owner goes on writing */
	assert_int_equal(slot[APUS_DP_SLOT_PAYLOAD], 43);
	apus_shm_pool_fini(&pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_scribbling_reader),
		cmocka_unit_test(test_payload_is_read_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
