/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host on an interface that the kernel does not serve: an engine behind a packet socket. For check_kernel.py.
 *
 * Usage: kernel_port INTERFACE
 * It has 10.77.0.2/24 and fd77::2/64, listens to 239.255.7.7 and ff15::77, sends back what comes to port 7007, and has
 * nobody at other ports. It ends with its standard input, and then writes its counters that are not 0.
 */
#include "ip/ip.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define ECHO_PORT 7007

static int packet_socket;

static int open_port(const char *interface)
{
	struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL)};
	struct packet_mreq promiscuous = {.mr_type = PACKET_MR_PROMISC};
	int size = 8 << 20, fd = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL));

	address.sll_ifindex = promiscuous.mr_ifindex = (int)if_nametoindex(interface);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
	    setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &promiscuous, sizeof(promiscuous)) !=
		    0) {
		perror(interface);
		exit(1);
	}
	setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
	setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size));
	return fd;
}

static struct apus_ip *make(void)
{
	struct apus_ip_config c;
	struct apus_ip *ip = NULL;
	char why[128];

	apus_ip_config_default(&c);
	memcpy(c.mac, (const uint8_t[]){2, 0x77, 0, 0, 0, 2}, 6);
	memcpy(c.ipv4, (const uint8_t[]){10, 77, 0, 2}, 4);
	c.ipv4_prefix_bits = 24;
	c.ipv6 = true;
	inet_pton(AF_INET6, "fd77::2", c.ipv6_global);
	c.ipv6_prefix_bits = 64;
	c.accept_partial_checksums = true;
	if (apus_ip_create(&c, why, sizeof(why), &ip) != 0) {
		fprintf(stderr, "%s\n", why);
		exit(1);
	}
	return ip;
}

static void transmit(const uint8_t *frame, uint32_t bytes)
{
	if (send(packet_socket, frame, bytes, 0) != (ssize_t)bytes)
		perror("send");
}

static void send_frames(struct apus_ip *ip, struct apus_ip_send *out)
{
	uint8_t frame[2048];
	struct apus_ip_frame f;

	while (apus_ip_send_next(ip, out, frame, &f)) {
		apus_ip_gather(out->parts, out->part_count, f.payload_offset, f.payload_bytes,
			       frame + f.header_bytes);
		transmit(frame, f.header_bytes + f.payload_bytes);
	}
}

static void answer(struct apus_ip *ip, const struct apus_ip_datagram *d, struct apus_mono now)
{
	struct iovec part = {(void *)d->payload, d->payload_bytes};
	struct apus_ip_send out;

	if (d->to.port != ECHO_PORT)
		apus_ip_unreachable(ip, d, now);
	else if (apus_ip_send_begin(ip, &d->from, ECHO_PORT, &part, 1, now, &out) == 0)
		send_frames(ip, &out);
}

static void send_waiting(struct apus_ip *ip, struct apus_mono now)
{
	struct apus_ip_send out;
	const uint8_t *frame;
	uint32_t bytes;

	while ((frame = apus_ip_next_control(ip, &bytes)) != NULL)
		transmit(frame, bytes);
	while (apus_ip_next_parked(ip, now, &out))
		send_frames(ip, &out);
}

static void receive_all(struct apus_ip *ip, struct apus_mono now)
{
	static uint8_t frame[65536];
	struct apus_ip_datagram d;
	ssize_t bytes;

	while ((bytes = recv(packet_socket, frame, sizeof(frame), MSG_DONTWAIT)) >= 0) {
		if (apus_ip_input(ip, frame, (uint32_t)bytes, 0, now, &d) == APUS_IP_UDP) {
			answer(ip, &d, now);
			apus_ip_release(ip, d.buffer_idx);
		}
		send_waiting(ip, now);
	}
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	packet_socket = open_port(argv[1]);
	struct apus_ip *ip = make();
	struct pollfd waits[2] = {{0, POLLIN, 0}, {packet_socket, POLLIN, 0}};
	struct apus_mono now = apus_mono_now();
	struct apus_ip_endpoint four = {.family = AF_INET}, six = {.family = AF_INET6};

	inet_pton(AF_INET, "239.255.7.7", four.ip + 12);
	inet_pton(AF_INET6, "ff15::77", six.ip);
	if (apus_ip_join(ip, &four, now) != 0 || apus_ip_join(ip, &six, now) != 0)
		return 1;
	puts("ready");
	fflush(stdout);
	while (!(waits[0].revents & (POLLIN | POLLHUP))) {
		poll(waits, 2, 10);
		now = apus_mono_now();
		receive_all(ip, now);
		apus_ip_tick(ip, now);
		send_waiting(ip, now);
	}
	for (uint32_t i = 0; i < APUS_IP_COUNT_MAX; i++)
		if (apus_ip_count_get(ip, (enum apus_ip_count)i))
			printf("%s %llu\n", apus_ip_count_name((enum apus_ip_count)i),
			       (unsigned long long)apus_ip_count_get(ip, (enum apus_ip_count)i));
	apus_ip_destroy(ip);
	return 0;
}
