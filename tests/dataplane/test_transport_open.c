/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: what a queue is opened with is honoured or refused with a reason: kinds, ports, groups,
 * bounds, interfaces. Method: loopback only; what the host must refuse (io_uring, long segments) is
 * refused by a seccomp filter or a small MTU in a child process with a network namespace of its
 * own.
 */
#include "transport_util.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static enum apus_dp_queue_kind kind_of(void **state)
{
	return *(enum apus_dp_queue_kind *)*state;
}

static struct apus_dp_queue *open_in_group(enum apus_dp_queue_kind kind, struct apus_dp_group group)
{
	struct apus_dp_queue_config config;

	home_config(kind, &config);
	config.groups[0] = group;
	config.group_count = 1;
	return open_queue(&config);
}

static void send_one(struct apus_dp_queue *q, struct apus_dp_addr to, uint8_t value)
{
	struct apus_dp_tx tx = tx_of(to, &value, 1);

	assert_int_equal(apus_dp_queue_tx(q, &tx, 1), 1);
}

/* Expects one datagram of that one byte. */
static void receive_one(struct apus_dp_queue *q, uint8_t value)
{
	struct apus_dp_rx rx;

	assert_int_equal(receive(q, 1, &rx), 1);
	assert_int_equal(rx.length, 1);
	assert_int_equal(rx.bytes[0], value);
	apus_dp_queue_release(q, &rx, 1);
}

static void two_queues_share_a_group(void **state)
{
	struct apus_dp_group group = group_of(10, 17410), other = group_of(11, 17410);
	struct apus_dp_queue *a = open_home(kind_of(state));
	struct apus_dp_queue *b = open_in_group(kind_of(state), group);
	struct apus_dp_queue *c = open_in_group(kind_of(state), group);
	struct apus_dp_queue *d = open_in_group(kind_of(state), other);
	struct apus_dp_rx rx;

	send_one(a, group.group, 42);
	receive_one(b, 42);
	assert_int_equal(receive(c, 1, &rx), 1);
	assert_int_equal(rx.socket_idx, 1);
	assert_memory_equal(rx.from.ip + 12, home, 4);
	assert_int_equal(rx.from.port, a->unicast_port);
	assert_silent(b);
	assert_silent(d); /* same port, other group */
	apus_dp_queue_close(a);
	apus_dp_queue_close(b);
	apus_dp_queue_close(c);
	apus_dp_queue_close(d);
}

static void groups_are_joined_and_left(void **state)
{
	struct apus_dp_queue *a = open_home(kind_of(state)), *b = open_home(kind_of(state));
	struct apus_dp_group group = group_of(20, 17420), no_group = {addr_of(a)};

	assert_int_equal(apus_dp_queue_leave(b, &group), APUS_ENOENT);
	assert_int_equal(apus_dp_queue_join(b, &no_group), APUS_EINVAL);
	for (uint8_t i = 0; i < 60; i++) {
		assert_int_equal(apus_dp_queue_join(b, &group), 0);
		assert_int_equal(apus_dp_queue_join(b, &group), APUS_EEXIST);
		send_one(a, group.group, i);
		receive_one(b, i);
		send_one(a, addr_of(b), (uint8_t)(i + 100));
		receive_one(b, (uint8_t)(i + 100));
		assert_int_equal(apus_dp_queue_leave(b, &group), 0);
		assert_int_equal(apus_dp_queue_leave(b, &group), APUS_ENOENT);
		send_one(a, group.group, i);
		assert_silent(b);
	}
	apus_dp_queue_close(a);
	apus_dp_queue_close(b);
}

/* The ninth group is refused and changes nothing; each of the eight is heard, at its own place. */
static void eight_groups_are_the_limit(void **state)
{
	struct apus_dp_queue *a = open_home(kind_of(state)), *b = open_home(kind_of(state));
	struct apus_dp_group group;
	unsigned seen = 0;
	struct apus_dp_rx rx;

	for (uint8_t i = 0; i < 8; i++) {
		group = group_of((uint8_t)(30 + i), 17430);
		assert_int_equal(apus_dp_queue_join(b, &group), 0);
	}
	group = group_of(38, 17430);
	assert_int_equal(apus_dp_queue_join(b, &group), APUS_ELIMIT);
	for (uint8_t i = 0; i < 8; i++) {
		send_one(a, group_of((uint8_t)(30 + i), 17430).group, i);
		assert_int_equal(receive(b, 1, &rx), 1);
		assert_int_equal(rx.bytes[0], i);
		seen |= 1u << rx.socket_idx;
		apus_dp_queue_release(b, &rx, 1);
	}
	assert_int_equal(seen, 0x1fe);
	apus_dp_queue_close(a);
	apus_dp_queue_close(b);
}

/* Unicast never runs dry (one more is sent for each taken), bursts are of 1: the group's one
 * datagram comes nevertheless, within 4 times the interval at which groups are looked at. */
static void a_busy_socket_does_not_starve_groups(void **state)
{
	struct apus_dp_group group = group_of(40, 17440);
	struct apus_dp_queue *a = open_home(kind_of(state));
	struct apus_dp_queue *b = open_in_group(kind_of(state), group);
	struct apus_dp_rx rx;
	int from_group = 0;

	assert_int_equal(apus_dp_queue_rx(b, 1, &rx), 0);
	for (int i = 0; i < 4; i++)
		send_one(a, addr_of(b), 1);
	send_one(a, group.group, 2);
	for (int i = 0; i < 32; i++) {
		send_one(a, addr_of(b), 1);
		assert_int_equal(apus_dp_queue_rx(b, 1, &rx), 1);
		from_group += rx.bytes[0] == 2;
		apus_dp_queue_release(b, &rx, 1);
	}
	assert_int_equal(from_group, 1);
	apus_dp_queue_close(a);
	apus_dp_queue_close(b);
}

static void a_taken_port_is_refused(void **state)
{
	struct apus_dp_queue_config config;
	struct apus_dp_queue *a = open_home(kind_of(state)), *b = NULL;
	char why[128] = "", expected[64];

	home_config(kind_of(state), &config);
	config.unicast_port = a->unicast_port;
	assert_int_equal(apus_dp_queue_open(&config, why, sizeof(why), &b), APUS_EADDRINUSE);
	assert_null(b);
	snprintf(expected, sizeof(expected), "UDP port %u: Address already in use",
		 a->unicast_port);
	assert_string_equal(why, expected);
	apus_dp_queue_close(a);
	b = open_queue(&config);
	assert_int_equal(b->unicast_port, config.unicast_port);
	apus_dp_queue_close(b);
}

/* With loopback interfaces only, the socket is bound to 127.0.0.1 and 127.0.0.2 does not reach
 * it; with any other interface it is bound to every address. (The other one here is lo under
 * false colours.) */
static void loopback_only_stays_home(void **state)
{
	const uint8_t second[4] = {127, 0, 0, 2};
	struct apus_dp_queue_config config;
	struct apus_dp_queue *a, *b, *c;

	home_config(kind_of(state), &config);
	b = open_queue(&config);
	config.interfaces[0].loopback = false;
	a = open_queue(&config);
	c = open_queue(&config);
	send_one(a, apus_dp_addr_v4(second, b->unicast_port), 1);
	assert_silent(b);
	send_one(a, apus_dp_addr_v4(second, c->unicast_port), 2);
	receive_one(c, 2);
	send_one(a, addr_of(c), 3);
	receive_one(c, 3);
	apus_dp_queue_close(a);
	apus_dp_queue_close(b);
	apus_dp_queue_close(c);
}

/* Each fault alone; the output stays untouched. */
static void wrong_configurations_are_refused(void **state)
{
	struct apus_dp_queue_config good, c;
	struct apus_dp_queue *q = NULL;

	home_config(kind_of(state), &good);
#define REFUSED(change, code)                                                         \
	do {                                                                          \
		char why[128] = "";                                                   \
		c = good;                                                             \
		change;                                                               \
		assert_int_equal(apus_dp_queue_open(&c, why, sizeof(why), &q), code); \
		assert_null(q);                                                       \
		assert_true(why[0] != '\0');                                          \
	} while (0)
	REFUSED(c.kind = (enum apus_dp_queue_kind)3, APUS_EINVAL);
	REFUSED(c.interface_count = 0, APUS_EINVAL);
	REFUSED(c.interface_count = 9, APUS_EINVAL);
	REFUSED(c.interfaces[0].ifindex = 0x7ffffff, APUS_ENODEV);
	REFUSED(c.group_count = 9, APUS_EINVAL);
	REFUSED(c.group_count = 1, APUS_EINVAL);
	REFUSED((c.groups[0] = c.groups[1] = group_of(1, 17450), c.group_count = 2), APUS_EEXIST);
	REFUSED(c.rx_buffer_count = 0, APUS_EINVAL);
	REFUSED(c.rx_buffer_count = 16385, APUS_EINVAL);
	REFUSED(c.rx_buffer_bytes = 63, APUS_EINVAL);
	REFUSED(c.rx_buffer_bytes = 65536, APUS_EINVAL);
	REFUSED(c.group_poll_interval = 0, APUS_EINVAL);
	REFUSED(c.adopt_fd = true, APUS_EINVAL);
#undef REFUSED
}

static void locators_convert(void **state)
{
	struct apus_dp_addr addr = apus_dp_addr_v4(home, 7411), back;
	struct apus_locator locator = apus_dp_addr_to_locator(&addr), bad;

	(void)state;
	assert_int_equal(locator.kind, 1);
	assert_int_equal(locator.port, 7411);
	assert_memory_equal(locator.address, "\0\0\0\0\0\0\0\0\0\0\0\0\x7f\0\0\1", 16);
	locator.address[0] = 9; /* a peer's rubbish in the unused bytes */
	assert_true(apus_dp_addr_from_locator(&locator, &back));
	assert_true(apus_dp_addr_equal(&addr, &back));
	bad = locator, bad.kind = 16;
	assert_false(apus_dp_addr_from_locator(&bad, &back));
	bad = locator, bad.port = 0;
	assert_false(apus_dp_addr_from_locator(&bad, &back));
	bad = locator, bad.port = 65536;
	assert_false(apus_dp_addr_from_locator(&bad, &back));
	locator.kind = 2; /* all 16 bytes count then */
	assert_true(apus_dp_addr_from_locator(&locator, &back));
	assert_int_equal(back.family, AF_INET6);
	assert_memory_equal(back.ip, locator.address, 16);
	bad = apus_dp_addr_to_locator(&back);
	assert_memory_equal(&bad, &locator, sizeof(bad));
	assert_true(apus_dp_addr_is_multicast(&(struct apus_dp_addr){AF_INET6, 1, {0xff, 2}}));
	assert_false(apus_dp_addr_is_multicast(&addr));
	assert_true(apus_dp_addr_is_multicast(&(struct apus_dp_addr){AF_INET, 1, {[12] = 239}}));
	assert_false(apus_dp_addr_is_multicast(&(struct apus_dp_addr){AF_INET, 1, {[12] = 240}}));
}

/* Runs a check in a child process, which may then ruin its environment. Returns its exit code. */
static int in_child(int (*check)(void))
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0)
		_exit(check());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

static bool refuse_io_uring(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {APUS_ARRAY_LENGTH(code), code};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

#define SKIP 77

/* In a child cmocka's assertions would carry on in the parent's place: say where, and fail. */
#define CHECK(condition)                                                        \
	do {                                                                    \
		if (!(condition)) {                                             \
			fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
			return 1;                                               \
		}                                                               \
	} while (0)

static int falls_back(void)
{
	struct apus_dp_queue_config config;
	struct apus_dp_queue *a = NULL, *b = NULL;
	char why[128] = "";
	struct apus_dp_tx tx;
	struct apus_dp_rx rx;

	if (!refuse_io_uring())
		return SKIP;
	home_config(APUS_DP_QUEUE_AUTO, &config);
	CHECK(apus_dp_queue_open(&config, why, sizeof(why), &a) == 0);
	CHECK(a->kind == APUS_DP_QUEUE_SOCKET);
	CHECK(strstr(a->fallback_reason, "io_uring") != NULL);
	tx = tx_of(addr_of(a), "y", 1);
	CHECK(apus_dp_queue_tx(a, &tx, 1) == 1);
	CHECK(receive(a, 1, &rx) == 1 && rx.bytes[0] == 'y');
	config.kind = APUS_DP_QUEUE_URING;
	CHECK(apus_dp_queue_open(&config, why, sizeof(why), &b) == APUS_ENOTSUP && !b);
	CHECK(strstr(why, "io_uring") != NULL);
	config.kind = APUS_DP_QUEUE_SOCKET;
	CHECK(apus_dp_queue_open(&config, why, sizeof(why), &b) == 0);
	CHECK(b->fallback_reason[0] == '\0');
	apus_dp_queue_close(a);
	apus_dp_queue_close(b);
	return 0;
}

static void refused_io_uring_is_reported(void **state)
{
	int rc = in_child(falls_back);

	(void)state;
	if (rc == SKIP)
		skip();
	assert_int_equal(rc, 0);
}

/* A namespace whose loopback has an MTU of 1,500, so that the kernel refuses to cut pieces of
 * 2,000. */
static bool small_world(void)
{
	struct ifreq request = {.ifr_name = "lo"};
	int fd;

	if (unshare(CLONE_NEWNET) != 0)
		return false;
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	request.ifr_flags = IFF_UP | IFF_LOOPBACK | IFF_RUNNING;
	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &request) != 0)
		return false;
	request.ifr_mtu = 1500;
	return ioctl(fd, SIOCSIFMTU, &request) == 0;
}

static int refused_segments_go_singly(void)
{
	static uint8_t bytes[10][2000];
	struct apus_dp_queue_config config;
	struct apus_dp_queue *a = NULL;
	struct apus_dp_tx tx[10];
	struct apus_dp_rx rx[10];

	if (!small_world())
		return SKIP;
	home_config(APUS_DP_QUEUE_SOCKET, &config);
	CHECK(config.interfaces[0].mtu_bytes == 1500);
	CHECK(apus_dp_queue_open(&config, NULL, 0, &a) == 0);
	for (uint32_t size = 2000; size >= 1472; size -= 528)
		for (int round = 0; round < 2; round++) {
			for (uint32_t i = 0; i < 10; i++) {
				fill(bytes[i], i, size);
				tx[i] = tx_of(addr_of(a), bytes[i], size);
			}
			CHECK(apus_dp_queue_tx(a, tx, 10) == 10);
			CHECK(receive(a, 10, rx) == 10);
			for (uint32_t i = 0; i < 10; i++)
				CHECK(rx[i].length == size &&
				      memcmp(rx[i].bytes, bytes[i], size) == 0);
			apus_dp_queue_release(a, rx, 10);
		}
	/* Refused once, then not tried again; the shorter ones are still cut by the kernel. */
	CHECK(count_of(&a->counters.segment_refusals) == 1);
	CHECK(count_of(&a->counters.tx_segmented) == 20);
	CHECK(count_of(&a->counters.tx) == 40);
	CHECK(count_of(&a->counters.tx_dropped) == 0);
	apus_dp_queue_close(a);
	return 0;
}

static void refused_segments_are_sent_singly(void **state)
{
	int rc = in_child(refused_segments_go_singly);

	(void)state;
	if (rc == SKIP)
		skip();
	assert_int_equal(rc, 0);
}

static enum apus_dp_queue_kind uring = APUS_DP_QUEUE_URING, sockets = APUS_DP_QUEUE_SOCKET;
static enum apus_dp_queue_kind automatic = APUS_DP_QUEUE_AUTO;

#define EACH(f)                                                                                \
	{#f " (sockets)", f, NULL, NULL, &sockets}, {#f " (io_uring)", f, NULL, NULL, &uring}, \
	{                                                                                      \
#f " (auto)", f, NULL, NULL, &automatic                                        \
	}

static const struct CMUnitTest tests[] = {
	EACH(two_queues_share_a_group),
	EACH(groups_are_joined_and_left),
	EACH(eight_groups_are_the_limit),
	EACH(a_busy_socket_does_not_starve_groups),
	EACH(a_taken_port_is_refused),
	EACH(loopback_only_stays_home),
	EACH(wrong_configurations_are_refused),
	cmocka_unit_test(locators_convert),
	cmocka_unit_test(refused_io_uring_is_reported),
	cmocka_unit_test(refused_segments_are_sent_singly),
};

static int choose_kinds(void **state)
{
	struct apus_dp_queue *q = open_home(APUS_DP_QUEUE_AUTO);

	(void)state;
	if (q->kind != APUS_DP_QUEUE_URING) {
		print_message("io_uring is refused here (%s): sockets only\n", q->fallback_reason);
		uring = APUS_DP_QUEUE_SOCKET;
	}
	apus_dp_queue_close(q);
	return 0;
}

int main(void)
{
	return cmocka_run_group_tests(tests, choose_kinds, NULL);
}
