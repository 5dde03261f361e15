/* SPDX-License-Identifier: Apache-2.0 */
/* A thread on which nobody joins a fan-out group: see fanout.h. */
#include "dpdk/fanout.h"

#include <linux/filter.h>
#include <linux/if_packet.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

struct errand {
	void (*work)(void *arg, bool ignored);
	void *arg;
};

/* The low word of an argument of a system call. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define LOW_WORD(i) (offsetof(struct seccomp_data, args) + 8 * (i))
#else
#define LOW_WORD(i) (offsetof(struct seccomp_data, args) + 8 * (i) + 4)
#endif
#define LOAD(at)               BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at)
#define GO_ON_IF(value, steps) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, steps)

/* Of this thread alone, and of no other ABI of the kernel's than the one this is compiled for: calls of another have other
 * numbers, and at worst join a group. */
static bool ignore_fanout(void)
{
	struct sock_filter code[] = {
		LOAD(offsetof(struct seccomp_data, nr)),
		GO_ON_IF(SYS_setsockopt, 5),
		LOAD(LOW_WORD(1)),
		GO_ON_IF(SOL_PACKET, 3),
		LOAD(LOW_WORD(2)),
		GO_ON_IF(PACKET_FANOUT, 1),
		/* An error of 0 is success. */
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0;
}

static void *run(void *arg)
{
	struct errand *e = arg;

	e->work(e->arg, ignore_fanout());
	return NULL;
}

bool apus_dpdk_without_fanout(void (*work)(void *arg, bool ignored), void *arg)
{
	struct errand e = {work, arg};
	sigset_t all, before;
	pthread_t thread;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&thread, NULL, run, &e);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc != 0)
		return false;
	pthread_join(thread, NULL);
	return true;
}
