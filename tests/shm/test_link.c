/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: two processes find each other by name, pass memory that only its owner can write and that cannot shrink
 * under the other, and notice each other's death; what is malformed or left over is refused or cleared away without
 * a descriptor lost.
 * Method: a directory of this test's own under /tmp; children made by fork and killed.
 */
#include "shm/link.h"

#include <apus/core.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char directory[64];

static int descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static int setup(void **state)
{
	(void)state;
	snprintf(directory, sizeof(directory), "/tmp/apus-test-link-%d", (int)getpid());
	return 0;
}

static void ignore(void *user, const char *name, bool alive)
{
	(void)name;
	*(int *)user += alive;
}

static int teardown(void **state)
{
	int alive = 0;

	(void)state;
	apus_shm_sweep(directory, true, ignore, &alive);
	rmdir(directory);
	return 0;
}

static void make_directory(void)
{
	char path[64];

	assert_int_equal(apus_shm_directory(directory, path, sizeof(path)), 0);
	assert_string_equal(path, directory);
}

static void test_directory(void **state)
{
	char path[64], link[80], longer[200];

	(void)state;
	make_directory();
	make_directory(); /* it is there already */
	/* Others may enter; somebody's link; a name that no socket could have. */
	assert_int_equal(chmod(directory, 0750), 0);
	assert_int_equal(apus_shm_directory(directory, path, sizeof(path)), APUS_EPERM);
	assert_int_equal(chmod(directory, 0700), 0);
	snprintf(link, sizeof(link), "%s-link", directory);
	assert_int_equal(symlink(directory, link), 0);
	assert_int_equal(apus_shm_directory(link, path, sizeof(path)), APUS_EPERM);
	unlink(link);
	memset(longer, 'x', sizeof(longer));
	longer[0] = '/';
	longer[100] = '\0';
	assert_int_equal(apus_shm_directory(longer, longer + 100, 100), APUS_ELIMIT);
	assert_int_equal(apus_shm_directory("/proc/no", path, sizeof(path)), APUS_EIO);
}

static void test_names(void **state)
{
	int listener, again, before = descriptors();

	(void)state;
	make_directory();
	assert_int_equal(apus_shm_connect(directory, "nobody"), APUS_ENOENT);
	assert_int_equal(apus_shm_listen(directory, "a/b"), APUS_EINVAL);
	assert_int_equal(apus_shm_listen(directory, ".."), APUS_EINVAL);
	assert_int_equal(apus_shm_listen(directory, ""), APUS_EINVAL);
	listener = apus_shm_listen(directory, "somebody");
	assert_true(listener >= 0);
	assert_int_equal(apus_shm_listen(directory, "somebody"), APUS_EADDRINUSE);
	assert_int_equal(apus_shm_accept(listener) >= 0, true); /* of the attempt above */
	/* Killed: the name is left, and nobody answers. */
	close(listener);
	assert_int_equal(apus_shm_connect(directory, "somebody"), APUS_ENOENT);
	again = apus_shm_listen(directory, "somebody");
	assert_true(again >= 0);
	assert_int_equal(apus_shm_accept(again), APUS_EAGAIN);
	apus_shm_unlisten(directory, "somebody", again);
	assert_int_equal(apus_shm_connect(directory, "somebody"), APUS_ENOENT);
	assert_int_equal(descriptors(), before + 1); /* the one accepted */
}

static void connect_pair(int *a, int *b, int *listener)
{
	make_directory();
	*listener = apus_shm_listen(directory, "pair");
	assert_true(*listener >= 0);
	*a = apus_shm_connect(directory, "pair");
	assert_true(*a >= 0);
	*b = apus_shm_accept(*listener);
	assert_true(*b >= 0);
}

static void test_memory(void **state)
{
	struct apus_shm_segment segment;
	struct apus_shm_message m;
	int a, b, listener, before = descriptors();
	void *seen, *own;

	(void)state;
	connect_pair(&a, &b, &listener);
	assert_int_equal(apus_shm_segment_create(10000, APUS_SHM_OWN, &segment), 0);
	assert_int_equal(apus_shm_seal(&segment), 0);
	assert_int_equal(apus_shm_send(a, "here", 5, &segment.fd, 1), 0);
	assert_int_equal(apus_shm_receive(b, &m), 0);
	assert_int_equal(m.length, 5);
	assert_int_equal(m.fd_count, 1);
	assert_int_equal(apus_shm_map(m.fds[0], segment.bytes + 1, false, &seen), APUS_EINVAL);
	assert_int_equal(apus_shm_map(m.fds[0], 0, false, &seen), APUS_EINVAL);
	/* Only the owner writes, whatever the receiver tries. */
	assert_int_equal(apus_shm_map(m.fds[0], 10000, true, &own), APUS_EPERM);
	assert_int_equal(apus_shm_map(m.fds[0], 10000, false, &seen), 0);
	assert_int_equal(mprotect(seen, 10000, PROT_READ | PROT_WRITE), -1);
	assert_int_equal(ftruncate(m.fds[0], 0), -1);
	strcpy(segment.base, "written later");
	assert_string_equal(seen, "written later");
	apus_shm_message_close(&m);
	/* The mapping outlives the owner. */
	apus_shm_segment_destroy(&segment);
	assert_string_equal(seen, "written later");
	apus_shm_unmap(seen, 10000);
	close(a);
	assert_int_equal(apus_shm_receive(b, &m), APUS_ECLOSED);
	close(b);
	apus_shm_unlisten(directory, "pair", listener);
	assert_int_equal(descriptors(), before);
}

/* Memory that could shrink under its reader, or is none. */
static void test_refuses_memory(void **state)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING), file;
	void *base;

	(void)state;
	assert_int_equal(ftruncate(fd, 8192), 0);
	assert_int_equal(apus_shm_map(fd, 4096, false, &base), APUS_EPERM);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	assert_int_equal(apus_shm_map(fd, 4096, false, &base), 0);
	apus_shm_unmap(base, 4096);
	close(fd);
	file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	assert_int_equal(apus_shm_map(file, 16, false, &base), APUS_EPERM);
	close(file);
	assert_int_equal(apus_shm_map(-1, 16, false, &base), APUS_EPERM);
}

static void test_malformed(void **state)
{
	int a, b, listener, fds[16], before = descriptors();
	struct apus_shm_message m;
	char large[300] = {0};
	struct iovec iov = {large, 1};
	char room[CMSG_SPACE(sizeof(fds))] = {0};
	struct msghdr h = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = room,
			   .msg_controllen = sizeof(room)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&h);

	(void)state;
	connect_pair(&a, &b, &listener);
	assert_int_equal(apus_shm_receive(b, &m), APUS_EAGAIN);
	assert_int_equal(apus_shm_send(a, large, 300, NULL, 0), APUS_EINVAL);
	assert_int_equal(apus_shm_send(a, large, 0, NULL, 0), APUS_EINVAL);
	assert_int_equal(apus_shm_send(a, large, 1, fds, 5), APUS_EINVAL);
	/* Too long. */
	assert_int_equal(send(a, large, 300, 0), 300);
	assert_int_equal(apus_shm_receive(b, &m), APUS_EENCODING);
	/* Sixteen descriptors. */
	for (int i = 0; i < 16; i++)
		fds[i] = a;
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(fds));
	memcpy(CMSG_DATA(c), fds, sizeof(fds));
	assert_int_equal(sendmsg(a, &h, 0), 1);
	assert_int_equal(apus_shm_receive(b, &m), APUS_EENCODING);
	/* Nobody reads: the sender is told, and does not wait. */
	while (apus_shm_send(a, large, 200, NULL, 0) == 0)
		;
	assert_int_equal(apus_shm_send(a, large, 200, NULL, 0), APUS_EAGAIN);
	close(b);
	assert_int_equal(apus_shm_send(a, large, 200, NULL, 0), APUS_ECLOSED);
	close(a);
	apus_shm_unlisten(directory, "pair", listener);
	assert_int_equal(descriptors(), before);
}

/* A process passes a descriptor of itself, is stopped, which is not death, and is killed, which is. */
static void test_presence(void **state)
{
	struct apus_shm_message m;
	int listener, b = -1, status;
	pid_t child;

	(void)state;
	make_directory();
	listener = apus_shm_listen(directory, "parent");
	assert_true(listener >= 0);
	child = fork();
	if (child == 0) {
		int a = apus_shm_connect(directory, "parent"), self = apus_shm_self();

		if (a < 0 || self < 0 || apus_shm_send(a, "me", 2, &self, 1) != 0)
			_exit(1);
		/* Whatever it closes or forks, it is this process that counts. */
		close(self);
		alarm(60);
		for (;;)
			pause();
	}
	while ((b = apus_shm_accept(listener)) < 0)
		usleep(1000);
	while (apus_shm_receive(b, &m) == APUS_EAGAIN)
		usleep(1000);
	assert_int_equal(m.fd_count, 1);
	assert_false(apus_shm_is_dead(m.fds[0]));
	kill(child, SIGSTOP);
	waitpid(child, &status, WUNTRACED);
	assert_false(apus_shm_is_dead(m.fds[0]));
	kill(child, SIGKILL);
	/* A zombie is dead, too. */
	while (!apus_shm_is_dead(m.fds[0]))
		usleep(1000);
	waitpid(child, &status, 0);
	assert_true(apus_shm_is_dead(m.fds[0]));
	apus_shm_message_close(&m);
	close(b);
	apus_shm_unlisten(directory, "parent", listener);
}

static void test_sweep(void **state)
{
	int dead, alive, living = 0, file;
	char path[128];

	(void)state;
	make_directory();
	dead = apus_shm_listen(directory, "dead");
	alive = apus_shm_listen(directory, "alive");
	close(dead);
	snprintf(path, sizeof(path), "%s/file", directory);
	file = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	close(file);
	assert_int_equal(apus_shm_sweep(directory, false, ignore, &living), 2);
	assert_int_equal(living, 1);
	assert_int_equal(apus_shm_sweep(directory, true, ignore, &living), 2);
	assert_int_equal(apus_shm_sweep(directory, true, ignore, &living), 1);
	assert_int_equal(unlink(path), 0); /* not ours, not touched */
	apus_shm_unlisten(directory, "alive", alive);
	assert_int_equal(apus_shm_sweep("/tmp/apus-there-is-none", true, ignore, &living), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_directory), cmocka_unit_test(test_names),
		cmocka_unit_test(test_memory),    cmocka_unit_test(test_refuses_memory),
		cmocka_unit_test(test_malformed), cmocka_unit_test(test_presence),
		cmocka_unit_test(test_sweep),
	};

	alarm(120);
	return cmocka_run_group_tests(tests, setup, teardown);
}
