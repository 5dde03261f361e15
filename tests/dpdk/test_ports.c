/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: queues of two ports exchange datagrams, of one frame and of many, by unicast and by multicast; within a port,
 * too; and once they run neither make system calls nor allocate.
 * Method: libapus-dpdk.so is loaded as libapus does, and has two net_memif ports in this process, joined by shared
 * memory: no interface of the host is touched. Round trips run on a thread whose first system call would end the
 * process, with malloc() counted. Prints the median round trip. Exit 77 (skipped) where DPDK cannot start.
 */
#include "base/clock.h"
#include "dataplane/io/plugin.h"

#include <apus/core.h>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#define ROUNDS   20000
#define PATIENCE 2000000 /* polls of both sides without anything */

static const struct apus_dp_plugin *plugin;
static struct apus_dp_port *ports[2];
static _Atomic uint64_t allocations;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COUNTS_ALLOCATIONS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
	__has_feature(memory_sanitizer)
#define COUNTS_ALLOCATIONS 0
#endif
#endif
#ifndef COUNTS_ALLOCATIONS
extern void *__libc_malloc(size_t bytes);

void *malloc(size_t bytes)
{
	allocations++;
	return __libc_malloc(bytes);
}
#endif

static int open_port(int i)
{
	char device[128], address[32], why[512] = "";
	struct apus_dp_port_config c = {.device = device,
					.eal = "",
					.address = address,
					.gateway = "",
					.ipv6 = "",
					.neighbours = "",
					.multicast_ttl = 1,
					.poll_period_ns = APUS_NS_PER_MS,
					.hold_count = 256,
					.queue_count = 1};
	int rc;

	snprintf(device, sizeof(device),
		 "net_memif%d,role=%s,id=3,socket-abstract=yes,socket=apus-test-%d", i,
		 i == 0 ? "server" : "client", (int)getpid());
	snprintf(address, sizeof(address), "10.9.9.%d/24", i + 1);
	rc = plugin->port_open(&c, why, sizeof(why), &ports[i]);
	if (rc != 0)
		fprintf(stderr, "%s\n", why);
	return rc;
}

static struct apus_dp_queue *open_queue(int i, uint16_t udp_port, uint16_t group_port)
{
	struct apus_dp_queue_config c;
	struct apus_dp_queue *q = NULL;
	char why[256] = "";

	apus_dp_queue_config_default(&c);
	c.unicast_port = udp_port;
	if (group_port) {
		c.group_count = 1;
		c.groups[0].group = apus_dp_addr_v4((const uint8_t[]){239, 255, 0, 1}, group_port);
	}
	if (plugin->queue_open(ports[i], &c, why, sizeof(why), &q) != 0)
		fail_msg("%s", why);
	return q;
}

static struct apus_dp_addr address_of(int i, uint16_t udp_port)
{
	return apus_dp_addr_v4((const uint8_t[]){10, 9, 9, (uint8_t)(i + 1)}, udp_port);
}

static int send_to(struct apus_dp_queue *q, struct apus_dp_addr to, const void *bytes,
		   size_t length)
{
	struct apus_dp_tx tx = {.to = to, .interface_idx = -1, .iov_count = 2};

	tx.iov[0] = (struct iovec){(void *)(uintptr_t)bytes, length / 3};
	tx.iov[1] = (struct iovec){(char *)(uintptr_t)bytes + length / 3, length - length / 3};
	return apus_dp_queue_tx(q, &tx, 1);
}

/* Polls `q`, and `other` so that its port moves on, until q has something. */
static int await(struct apus_dp_queue *q, struct apus_dp_queue *other, struct apus_dp_rx *rx)
{
	struct apus_dp_rx unwanted[4];

	for (int i = 0; i < PATIENCE; i++) {
		if (apus_dp_queue_rx(q, 1, rx) == 1)
			return 1;
		if (other)
			apus_dp_queue_release(other, unwanted,
					      apus_dp_queue_rx(other, 4, unwanted));
	}
	return 0;
}

/* The link of memif comes up a moment later, and whom to send to must be asked first. */
static void meet(struct apus_dp_queue *a, struct apus_dp_queue *b)
{
	struct apus_dp_rx rx, unwanted[4];

	for (int i = 0; i < 2000; i++) {
		send_to(a, address_of(1, b->unicast_port), "hello", 5);
		for (int k = 0; k < 50; k++) {
			apus_dp_queue_release(a, unwanted, apus_dp_queue_rx(a, 4, unwanted));
			if (apus_dp_queue_rx(b, 1, &rx) == 1) {
				apus_dp_queue_release(b, &rx, 1);
				goto met;
			}
		}
		usleep(1000);
	}
	fail_msg("the ports never met");
met:
	for (int k = 0; k < 1000; k++) {
		apus_dp_queue_release(a, unwanted, apus_dp_queue_rx(a, 4, unwanted));
		apus_dp_queue_release(b, unwanted, apus_dp_queue_rx(b, 4, unwanted));
	}
}

static void every_size_arrives_whole(void **state)
{
	static const uint32_t sizes[] = {0,    1,    64,    1471,  1472, 1473,
					 2952, 2953, 20000, 60000, 65507};
	struct apus_dp_queue *a = open_queue(0, 7411, 0), *b = open_queue(1, 7411, 0);
	static uint8_t bytes[65507];
	struct apus_dp_addr from = address_of(0, 7411);
	struct apus_dp_rx rx;

	(void)state;
	meet(a, b);
	for (uint32_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 31 + i / 251);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		assert_int_equal(send_to(a, address_of(1, 7411), bytes, sizes[i]), 1);
		assert_int_equal(await(b, a, &rx), 1);
		assert_int_equal(rx.length, sizes[i]);
		assert_memory_equal(rx.bytes, bytes, sizes[i]);
		assert_true(apus_dp_addr_equal(&rx.from, &from));
		assert_int_equal(rx.socket_idx, 0);
		apus_dp_queue_release(b, &rx, 1);
	}
	apus_dp_queue_close(a);
	apus_dp_queue_close(b);
}

/* A group reaches every member on both ports but the sender's own queue, each with a copy to hold. */
static void a_group_reaches_all_members(void **state)
{
	struct apus_dp_queue *a = open_queue(0, 7411, 7400), *a2 = open_queue(0, 7413, 7400),
			     *b = open_queue(1, 7411, 7400), *b2 = open_queue(1, 0, 7400);
	struct apus_dp_addr group = apus_dp_addr_v4((const uint8_t[]){239, 255, 0, 1}, 7400);
	struct apus_dp_rx rx, held;

	(void)state;
	meet(a, b);
	assert_true(b2->unicast_port >= 49152);
	assert_int_equal(send_to(a, group, "swift", 5), 1);
	assert_int_equal(await(a2, NULL, &held), 1);
	assert_int_equal(await(b, NULL, &rx), 1);
	assert_int_equal(rx.socket_idx, 1);
	apus_dp_queue_release(b, &rx, 1);
	assert_int_equal(await(b2, NULL, &rx), 1);
	assert_memory_equal(rx.bytes, "swift", 5);
	apus_dp_queue_release(b2, &rx, 1);
	assert_int_equal(apus_dp_queue_rx(a, 1, &rx), 0);
	assert_memory_equal(held.bytes, "swift", 5);
	apus_dp_queue_release(a2, &held, 1);
	assert_int_equal(apus_dp_queue_leave(b, &(struct apus_dp_group){group}), 0);
	assert_int_equal(apus_dp_queue_leave(b, &(struct apus_dp_group){group}), APUS_ENOENT);
	assert_int_equal(apus_dp_queue_join(b2, &(struct apus_dp_group){group}), APUS_EEXIST);
	apus_dp_queue_close(a);
	apus_dp_queue_close(a2);
	apus_dp_queue_close(b);
	apus_dp_queue_close(b2);
}

/* Our own address is this process: large and small, without the wire, and held beyond the sender's end. */
static void our_own_address_is_local(void **state)
{
	static uint8_t bytes[9000] = {[8999] = 7};
	struct apus_dp_queue *a = open_queue(0, 7411, 0), *a2 = open_queue(0, 7413, 0);
	struct apus_dp_rx small, large;

	(void)state;
	assert_int_equal(send_to(a, address_of(0, 7413), "near", 4), 1);
	assert_int_equal(send_to(a, address_of(0, 7413), bytes, sizeof(bytes)), 1);
	assert_int_equal(await(a2, NULL, &small), 1);
	assert_int_equal(await(a2, NULL, &large), 1);
	apus_dp_queue_close(a);
	assert_memory_equal(small.bytes, "near", 4);
	assert_int_equal(large.length, 9000);
	assert_int_equal(large.bytes[8999], 7);
	apus_dp_queue_release(a2, &small, 1);
	apus_dp_queue_release(a2, &large, 1);
	apus_dp_queue_close(a2);
}

static void what_cannot_be_is_refused(void **state)
{
	struct apus_dp_queue *a = open_queue(0, 7411, 0), *none = NULL;
	struct apus_dp_port *same = NULL;
	struct apus_dp_port_config c = {.device = "net_memif0",
					.eal = "",
					.address = "10.9.9.7/24",
					.gateway = "",
					.ipv6 = "",
					.neighbours = "",
					.queue_count = 1};
	struct apus_dp_queue_config q;
	char why[256] = "";

	(void)state;
	apus_dp_queue_config_default(&q);
	q.unicast_port = 7411;
	assert_int_equal(plugin->queue_open(ports[0], &q, why, sizeof(why), &none),
			 APUS_EADDRINUSE);
	assert_null(none);
	assert_int_equal(plugin->port_reserve(ports[0], (const uint16_t[]){7421, 7411}, 2),
			 APUS_EADDRINUSE);
	assert_int_equal(plugin->port_reserve(ports[0], (const uint16_t[]){7421, 7420}, 2), 0);
	plugin->port_unreserve(ports[0], (const uint16_t[]){7421, 7420}, 2);
	assert_int_equal(plugin->port_open(&c, why, sizeof(why), &same), APUS_EEXIST);
	c.device = "net_no_such_driver0";
	assert_int_not_equal(plugin->port_open(&c, why, sizeof(why), &same), 0);
	assert_non_null(strstr(why, "net_no_such_driver0"));
	assert_null(same);
	apus_dp_queue_close(a);
}

/* Closing both ends in one process would race with the driver's thread: they stay, and are found again as they were. */
static void both_ends_are_closed_and_opened_again(void **state)
{
	struct apus_dp_port *before[2] = {ports[0], ports[1]};
	struct apus_dp_queue *a, *b;

	(void)state;
	for (int round = 0; round < 3; round++) {
		plugin->port_close(ports[round % 2]);
		plugin->port_close(ports[1 - round % 2]);
		assert_int_equal(open_port(0), 0);
		assert_int_equal(open_port(1), 0);
		assert_ptr_equal(ports[0], before[0]);
		assert_ptr_equal(ports[1], before[1]);
		a = open_queue(0, 7411, 0);
		b = open_queue(1, 7411, 0);
		meet(a, b);
		apus_dp_queue_close(a);
		apus_dp_queue_close(b);
	}
}

/* --- without the kernel --------------------------------------------------------------------------- */

struct trips {
	struct apus_dp_queue *a, *b;
	int64_t ns[ROUNDS];
	uint64_t allocated;
	int done;
};

#ifndef COUNTS_ALLOCATIONS
/* From here on, this thread's system calls end the process, but for those of its own end. */
static bool forbid_system_calls(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit, 4, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 3, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigprocmask, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_munmap, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}
#endif

static void *round_trips(void *arg)
{
	struct trips *t = arg;
	struct apus_dp_addr to_b = address_of(1, 7411), to_a = address_of(0, 7411);
	uint8_t bytes[64] = {0};
	struct apus_dp_rx rx;

#ifndef COUNTS_ALLOCATIONS /* sanitizers make some of their own */
	if (!forbid_system_calls())
		return NULL;
#endif
	t->allocated = allocations;
	for (; t->done < ROUNDS; t->done++) {
		int64_t before = apus_mono_now().ns;

		send_to(t->a, to_b, bytes, sizeof(bytes));
		if (!await(t->b, NULL, &rx))
			break;
		send_to(t->b, to_a, rx.bytes, rx.length);
		apus_dp_queue_release(t->b, &rx, 1);
		if (!await(t->a, NULL, &rx))
			break;
		apus_dp_queue_release(t->a, &rx, 1);
		t->ns[t->done] = apus_mono_now().ns - before;
	}
	t->allocated = allocations - t->allocated;
	return NULL;
}

static int by_size(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static void no_system_call_and_no_allocation(void **state)
{
	static struct trips t;
	pthread_t thread;

	(void)state;
	t.a = open_queue(0, 7411, 0);
	t.b = open_queue(1, 7411, 0);
	meet(t.a, t.b);
	assert_int_equal(pthread_create(&thread, NULL, round_trips, &t), 0);
	pthread_join(thread, NULL);
	assert_int_equal(t.done, ROUNDS);
	assert_int_equal(t.allocated, 0);
	qsort(t.ns, ROUNDS, sizeof(t.ns[0]), by_size);
	print_message("round trip of 64 bytes over memif, one thread: median %lld ns\n",
		      (long long)t.ns[ROUNDS / 2]);
	apus_dp_queue_close(t.a);
	apus_dp_queue_close(t.b);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_size_arrives_whole),
		cmocka_unit_test(a_group_reaches_all_members),
		cmocka_unit_test(our_own_address_is_local),
		cmocka_unit_test(what_cannot_be_is_refused),
		cmocka_unit_test(both_ends_are_closed_and_opened_again),
		cmocka_unit_test(no_system_call_and_no_allocation),
	};
	char why[512] = "";
	int rc;

	if (argc < 2 || apus_dp_plugin_load(argv[1], why, sizeof(why), &plugin) != 0) {
		fprintf(stderr, "%s\n", why);
		return 2;
	}
	if (open_port(0) != 0 || open_port(1) != 0)
		return 77;
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	plugin->port_close(ports[0]);
	plugin->port_close(ports[1]);
	return rc;
}
