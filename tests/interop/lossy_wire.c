/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bad Ethernet cable between two network namespaces, for kernels without netem: a tap device in each, and
 * this process in between, which loses, duplicates and reorders IPv4 packets at random (ARP passes).
 *
 * Usage: lossy_wire NAMESPACE_A NAMESPACE_B LOSS DUPLICATE REORDER   (percent each)
 * Creates va in the first and vb in the second, prints {"ready":true}, and runs until it is killed or its parent
 * ends. A packet that is reordered is held back until up to three later ones have passed, 2 ms at most.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <unistd.h>

#define FRAME_BYTES 2048
#define BURST       64
#define HOLD_MS     2

struct side {
	int fd;
	uint8_t held[FRAME_BYTES];
	ssize_t held_bytes; /* 0 = none */
	int held_for;       /* packets that are still to pass it */
};

static uint32_t loss, duplicate, reorder;
static uint64_t state = 88172645463325252u;

static uint32_t percent(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)(state >> 33) % 100;
}

static void fail(const char *what)
{
	fprintf(stderr, "lossy_wire: %s: %s\n", what, strerror(errno));
	exit(3);
}

static int open_tap(const char *ns_name, const char *device)
{
	struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI};
	char path[256];
	int ns, fd;

	snprintf(path, sizeof(path), "/var/run/netns/%s", ns_name);
	ns = open(path, O_RDONLY | O_CLOEXEC);
	if (ns < 0 || setns(ns, CLONE_NEWNET) != 0)
		fail(path);
	close(ns);
	fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		fail("/dev/net/tun");
	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", device);
	if (ioctl(fd, TUNSETIFF, &request) != 0)
		fail("tap device");
	return fd;
}

static void deliver(int to, const uint8_t *frame, ssize_t bytes)
{
	(void)!write(to, frame, (size_t)bytes);
}

static void let_go(struct side *from, int to)
{
	deliver(to, from->held, from->held_bytes);
	from->held_bytes = 0;
}

static void pass(struct side *from, int to, const uint8_t *frame, ssize_t bytes)
{
	bool is_ip = bytes > 14 && frame[12] == 0x08 && frame[13] == 0x00;

	if (is_ip && percent() < loss)
		return;
	if (is_ip && from->held_bytes == 0 && percent() < reorder) {
		memcpy(from->held, frame, (size_t)bytes);
		from->held_bytes = bytes;
		from->held_for = 1 + (int)(percent() % 3);
		return;
	}
	deliver(to, frame, bytes);
	if (is_ip && percent() < duplicate)
		deliver(to, frame, bytes);
	if (from->held_bytes && --from->held_for == 0)
		let_go(from, to);
}

static void drain(struct side *from, int to)
{
	uint8_t frame[FRAME_BYTES];

	for (int i = 0; i < BURST; i++) {
		ssize_t n = read(from->fd, frame, sizeof(frame));

		if (n <= 0)
			return;
		pass(from, to, frame, n);
	}
}

int main(int argc, char **argv)
{
	static struct side sides[2];

	if (argc != 6) {
		fprintf(stderr,
			"usage: lossy_wire NAMESPACE_A NAMESPACE_B LOSS DUPLICATE REORDER\n");
		return 2;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	loss = (uint32_t)atoi(argv[3]);
	duplicate = (uint32_t)atoi(argv[4]);
	reorder = (uint32_t)atoi(argv[5]);
	sides[0].fd = open_tap(argv[1], "va");
	sides[1].fd = open_tap(argv[2], "vb");
	printf("{\"ready\":true}\n");
	fflush(stdout);
	for (;;) {
		struct pollfd fds[2] = {{.fd = sides[0].fd, .events = POLLIN},
					{.fd = sides[1].fd, .events = POLLIN}};
		bool held = sides[0].held_bytes || sides[1].held_bytes;

		if (poll(fds, 2, held ? HOLD_MS : -1) == 0)
			for (int i = 0; i < 2; i++)
				if (sides[i].held_bytes)
					let_go(&sides[i], sides[1 - i].fd);
		for (int i = 0; i < 2; i++)
			drain(&sides[i], sides[1 - i].fd);
	}
}
