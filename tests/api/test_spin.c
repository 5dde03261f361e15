/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: while everyone spins, publishing and taking through shared memory neither call the kernel nor allocate.
 * Method: two participants, whose workers poll; a thread that writes and takes, copies and loans, under a seccomp filter
 * that traps whatever it asks of the kernel, and with counted allocations. Only giving up the processor to a thread
 * that holds a worker's turn and does not run is allowed: nobody spins then.
 */
#include "allocations.h"
#include "block_type.h"
#include "route_pair.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define TIMES 3200
#define BATCH 64

static _Atomic int trapped, last_trapped;
static struct apus_writer *writer;
static struct apus_reader *reader;
static uint64_t allocated;
static const char *wrong;

static void on_trap(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)context;
	trapped++;
	last_trapped = info->si_syscall;
}

/* From here on this thread gets a signal for each system call but to give up the processor, and what it ends with. */
static int trap_calls(void)
{
#define ALLOW(nr, to) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, to, 0)
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		ALLOW(SYS_sched_yield, 6),
		ALLOW(SYS_rt_sigreturn, 5),
		ALLOW(SYS_rt_sigprocmask, 4),
		ALLOW(SYS_madvise, 3),
		ALLOW(SYS_munmap, 2),
		ALLOW(SYS_exit, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return -1;
	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}

static bool is_right(bool right, const char *what)
{
	if (!right)
		wrong = what;
	return right;
}

/* Every other one is filled in place. */
static bool write_one(uint32_t number)
{
	static struct block copy;
	void *sample = &copy;

	if (number % 2 && !is_right(apus_loan(writer, &sample) == 0, "loan"))
		return false;
	((struct block *)sample)->id = 1;
	((struct block *)sample)->number = number;
	return is_right(
		(number % 2 ? apus_write_loaned(writer, sample) : apus_write(writer, sample)) == 0,
		"write");
}

static bool take_one(uint32_t number)
{
	const struct block *seen;
	struct apus_sample s;
	int n;

	while ((n = apus_take(reader, &s, 1, NULL)) == 0)
		;
	seen = n == 1 ? apus_sample_image(reader, &s) : NULL;
	return is_right(seen && seen->number == number && apus_return(reader, &s, 1) == 0,
			"sample");
}

/* Some at a time: on a busy machine every change of threads takes long. */
static bool exchange(void)
{
	uint32_t written = 0, taken = 0;

	while (taken < TIMES) {
		for (int i = 0; i < BATCH; i++)
			if (!write_one(++written))
				return false;
		for (int i = 0; i < BATCH; i++)
			if (!take_one(++taken))
				return false;
	}
	return true;
}

static void *spin(void *arg)
{
	int before;

	(void)arg;
	if (trap_calls() != 0) {
		wrong = "no seccomp";
		return NULL;
	}
	allocations_begin();
	(void)exchange();
	allocated = allocations_end();
	before = trapped;
	(void)syscall(SYS_getppid);
	if (trapped != before + 1)
		wrong = "the trap does not work";
	trapped = before;
	return NULL;
}

static void test_spinning(void **state)
{
	/* The writer's worker is driven, by nobody: it has nothing to do for this. */
	static const char *const polls[] = {"worker.mode", "spawned", "worker.idle", "poll", NULL};
	struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
	struct apus_qos wq, rq;
	struct apus_endpoint_options w = {
		.topic = "Spin", .type = &block_type, .qos = &wq, .loans = 1};
	struct apus_endpoint_options r = {.topic = "Spin", .type = &block_type, .qos = &rq};
	struct route_pair p;
	pthread_t thread;

	(void)state;
	apus_qos_writer_default(&wq);
	apus_qos_reader_default(&rq);
	wq.reliability = rq.reliability = APUS_RELIABLE;
	wq.history = rq.history = APUS_KEEP_ALL;
	wq.max_samples = wq.max_samples_per_instance = rq.max_samples =
		rq.max_samples_per_instance = 256;
	p = (struct route_pair){.route = ROUTE_SHM};
	snprintf(p.directory, sizeof(p.directory), "/tmp/apus-test-route-%d", (int)getpid());
	p.w = route_participant(&p, 112, NULL);
	p.r = route_participant(&p, 112, polls);
	assert_int_equal(apus_writer_create(p.w, &w, &writer), 0);
	assert_int_equal(apus_reader_create(p.r, &r, &reader), 0);
	assert_int_equal(apus_writer_wait_matched(writer, 1, 60 * SEC), 0);
	assert_int_equal(apus_reader_wait_matched(reader, 1, 60 * SEC), 0);
	assert_int_equal(sigaction(SIGSYS, &action, NULL), 0);
	assert_int_equal(pthread_create(&thread, NULL, spin, NULL), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	if (wrong && strcmp(wrong, "no seccomp") == 0) {
		print_message("%s here\n", wrong);
		wrong = NULL;
	}
	if (wrong)
		fail_msg("%s", wrong);
	if (trapped)
		fail_msg("%d system calls, the last was number %d", trapped, last_trapped);
	assert_int_equal(allocated, 0);
	assert_true(route_reader_stat(reader, "reader.lent") > TIMES / 4);
	route_close(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_spinning),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
