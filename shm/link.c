/* SPDX-License-Identifier: Apache-2.0 */
/* Connections between processes of one host; see link.h. */
#include "shm/link.h"
#include "shm/atomic.h"

#include <apus/core.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG  64
#define ATTEMPTS 8

/* --- the directory ------------------------------------------------------------------------------- */

static int check_directory(const char *path)
{
	struct stat st;

	if (mkdir(path, 0700) != 0 && errno != EEXIST)
		return errno == EACCES || errno == EPERM ? APUS_EPERM : APUS_EIO;
	/* Not through a link that somebody else has put there. */
	if (lstat(path, &st) != 0)
		return APUS_EIO;
	if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077) != 0)
		return APUS_EPERM;
	return 0;
}

int apus_shm_directory(const char *configured, char *path_out, size_t path_bytes)
{
	const char *run = getenv("XDG_RUNTIME_DIR");
	int n;

	if (configured)
		n = snprintf(path_out, path_bytes, "%s", configured);
	else if (run && run[0] == '/')
		n = snprintf(path_out, path_bytes, "%s/apus", run);
	else
		n = snprintf(path_out, path_bytes, "/tmp/apus-%u", (unsigned)geteuid());
	if (n < 0 || (size_t)n >= path_bytes ||
	    (size_t)n + 1 + APUS_SHM_LINK_NAME >= sizeof(((struct sockaddr_un *)0)->sun_path))
		return APUS_ELIMIT;
	return check_directory(path_out);
}

static int address_of(const char *directory, const char *name, struct sockaddr_un *out)
{
	int n;

	if (name[0] == '\0' || name[0] == '.' || strchr(name, '/') ||
	    strlen(name) > APUS_SHM_LINK_NAME)
		return APUS_EINVAL;
	memset(out, 0, sizeof(*out));
	out->sun_family = AF_UNIX;
	n = snprintf(out->sun_path, sizeof(out->sun_path), "%s/%s", directory, name);
	return n < 0 || (size_t)n >= sizeof(out->sun_path) ? APUS_EINVAL : 0;
}

static int new_socket(void)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	return fd < 0 ? APUS_EIO : fd;
}

/* --- connections --------------------------------------------------------------------------------- */

int apus_shm_connect(const char *directory, const char *name)
{
	struct sockaddr_un to;
	int rc = address_of(directory, name, &to), fd;

	if (rc != 0)
		return rc;
	fd = new_socket();
	if (fd < 0)
		return fd;
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0) {
		APUS_SHM_POINT(true);
		return fd;
	}
	rc = errno == EAGAIN                            ? APUS_EAGAIN
	     : errno == ENOENT || errno == ECONNREFUSED ? APUS_ENOENT
							: APUS_EIO;
	close(fd);
	return rc;
}

/* A name that nobody answers at is left over: connecting is refused. */
static int clear_name(const char *directory, const char *name, const struct sockaddr_un *at)
{
	int fd = apus_shm_connect(directory, name);

	if (fd >= 0)
		close(fd);
	if (fd >= 0 || fd == APUS_EAGAIN)
		return APUS_EADDRINUSE;
	if (fd != APUS_ENOENT)
		return fd;
	return unlink(at->sun_path) == 0 || errno == ENOENT ? 0 : APUS_EIO;
}

int apus_shm_clear(const char *directory, const char *name)
{
	struct sockaddr_un at;
	int rc = address_of(directory, name, &at);

	return rc ? rc : clear_name(directory, name, &at);
}

/* One attempt; APUS_EAGAIN if the name was taken away before anybody could be answered there. */
static int listen_once(const char *directory, const char *name, const struct sockaddr_un *at)
{
	int fd = new_socket(), rc;

	if (fd < 0)
		return fd;
	if (bind(fd, (const struct sockaddr *)at, sizeof(*at)) != 0) {
		rc = errno == EADDRINUSE ? APUS_EADDRINUSE : APUS_EIO;
		close(fd);
		return rc;
	}
	APUS_SHM_POINT(true);
	if (listen(fd, BACKLOG) != 0) {
		apus_shm_unlisten(directory, name, fd);
		return APUS_EIO;
	}
	APUS_SHM_POINT(true);
	/* Until it listened it looked like one of a dead process: somebody may have swept it. */
	if (access(at->sun_path, F_OK) == 0)
		return fd;
	close(fd);
	return APUS_EAGAIN;
}

int apus_shm_listen(const char *directory, const char *name)
{
	struct sockaddr_un at;
	int rc = address_of(directory, name, &at);

	if (rc == 0)
		rc = clear_name(directory, name, &at);
	if (rc != 0)
		return rc;
	for (int i = 0; i < ATTEMPTS; i++) {
		rc = listen_once(directory, name, &at);
		if (rc != APUS_EAGAIN)
			return rc;
	}
	return APUS_EIO;
}

void apus_shm_unlisten(const char *directory, const char *name, int fd)
{
	struct sockaddr_un at;

	APUS_SHM_POINT(false);
	if (address_of(directory, name, &at) == 0)
		(void)unlink(at.sun_path);
	APUS_SHM_POINT(true);
	close(fd);
}

int apus_shm_accept(int listener)
{
	struct ucred peer;
	socklen_t bytes = sizeof(peer);
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0)
		return APUS_EAGAIN;
	APUS_SHM_POINT(true);
	/* The directory's mode keeps others out; a privileged process may still come in. */
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.uid == geteuid())
		return fd;
	close(fd);
	return APUS_EAGAIN;
}

/* --- messages ------------------------------------------------------------------------------------ */

union control {
	struct cmsghdr header;
	char room[CMSG_SPACE(APUS_SHM_LINK_FDS * sizeof(int))];
};

int apus_shm_send(int fd, const void *bytes, uint32_t length, const int *fds, uint32_t fd_count)
{
	struct iovec iov = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = length};
	union control c;
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};

	if (length == 0 || length > sizeof(((struct apus_shm_message *)0)->bytes) ||
	    fd_count > APUS_SHM_LINK_FDS)
		return APUS_EINVAL;
	if (fd_count) {
		memset(&c, 0, sizeof(c));
		m.msg_control = &c;
		m.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
		c.header.cmsg_level = SOL_SOCKET;
		c.header.cmsg_type = SCM_RIGHTS;
		c.header.cmsg_len = CMSG_LEN(fd_count * sizeof(int));
		memcpy(CMSG_DATA(&c.header), fds, fd_count * sizeof(int));
	}
	APUS_SHM_POINT(false);
	if (sendmsg(fd, &m, MSG_NOSIGNAL) == (ssize_t)length) {
		APUS_SHM_POINT(true);
		return 0;
	}
	return errno == EAGAIN || errno == ENOBUFS || errno == ETOOMANYREFS ? APUS_EAGAIN
									    : APUS_ECLOSED;
}

static void take_descriptors(struct msghdr *m, struct apus_shm_message *out)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < n && out->fd_count < APUS_SHM_LINK_FDS; i++)
			memcpy(&out->fds[out->fd_count++], CMSG_DATA(c) + i * sizeof(int),
			       sizeof(int));
	}
}

int apus_shm_receive(int fd, struct apus_shm_message *message_out)
{
	struct iovec iov = {.iov_base = message_out->bytes, .iov_len = sizeof(message_out->bytes)};
	union control c;
	struct msghdr m = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &c, .msg_controllen = sizeof(c)};
	ssize_t n = recvmsg(fd, &m, MSG_CMSG_CLOEXEC);

	message_out->fd_count = message_out->length = 0;
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? APUS_EAGAIN : APUS_ECLOSED;
	take_descriptors(&m, message_out);
	if (n == 0) {
		apus_shm_message_close(message_out);
		return APUS_ECLOSED;
	}
	/* What did not fit the kernel has dropped, and closed. */
	if (m.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) {
		apus_shm_message_close(message_out);
		return APUS_EENCODING;
	}
	message_out->length = (uint32_t)n;
	APUS_SHM_POINT(true);
	return 0;
}

void apus_shm_message_close(struct apus_shm_message *message)
{
	for (uint32_t i = 0; i < message->fd_count; i++)
		if (message->fds[i] >= 0)
			close(message->fds[i]);
	message->fd_count = 0;
}

/* --- presence ------------------------------------------------------------------------------------ */

int apus_shm_self(void)
{
	int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);

	return fd < 0 ? APUS_ENOTSUP : fd;
}

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

int apus_shm_listener_process(int fd)
{
	int pidfd = -1;
	socklen_t bytes = sizeof(pidfd);

	return getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &bytes) == 0 && pidfd >= 0
		       ? pidfd
		       : APUS_ENOTSUP;
}

bool apus_shm_is_dead(int pidfd)
{
	struct pollfd p = {.fd = pidfd, .events = POLLIN};

	return poll(&p, 1, 0) > 0 && (p.revents & POLLIN);
}

/* --- memory -------------------------------------------------------------------------------------- */

int apus_shm_map(int fd, size_t bytes, bool writable, void **base_out)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;
	void *base;

	if (seals < 0 || !(seals & F_SEAL_SHRINK))
		return APUS_EPERM;
	if (bytes == 0 || fstat(fd, &st) != 0 || st.st_size < 0 || (uint64_t)st.st_size < bytes)
		return APUS_EINVAL;
	base = mmap(NULL, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);
	if (base == MAP_FAILED)
		return errno == EPERM ? APUS_EPERM : APUS_ENOMEM;
	APUS_SHM_POINT(true);
	*base_out = base;
	return 0;
}

void apus_shm_unmap(void *base, size_t bytes)
{
	if (base)
		munmap(base, bytes);
}

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

int apus_shm_seal(const struct apus_shm_segment *segment)
{
	return segment->fd >= 0 && fcntl(segment->fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) == 0
		       ? 0
		       : APUS_ENOTSUP;
}

/* --- what is there ------------------------------------------------------------------------------- */

static bool answers(const char *directory, const char *name)
{
	int fd = apus_shm_connect(directory, name);

	if (fd >= 0)
		close(fd);
	/* Out of descriptors, or a socket of another kind: no reason to take it for dead. */
	return fd != APUS_ENOENT;
}

int apus_shm_sweep(const char *directory, bool remove_dead,
		   void (*found)(void *user, const char *name, bool alive), void *user)
{
	DIR *dir = opendir(directory);
	struct dirent *entry;
	int n = 0;

	if (!dir)
		return errno == ENOENT ? 0 : APUS_EIO;
	while ((entry = readdir(dir))) {
		struct sockaddr_un at;
		bool alive;

		if (address_of(directory, entry->d_name, &at) != 0 || entry->d_type != DT_SOCK)
			continue;
		alive = answers(directory, entry->d_name);
		/* It may have begun to listen meanwhile; one that begins only now looks again itself. */
		if (!alive && remove_dead && !(alive = answers(directory, entry->d_name)))
			(void)unlink(at.sun_path);
		found(user, entry->d_name, alive);
		n++;
	}
	closedir(dir);
	return n;
}
