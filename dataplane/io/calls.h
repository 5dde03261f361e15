/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The socket calls of the data plane, without what a C library does around them. In a process of several threads those
 * of glibc are cancellation points: two atomic exchanges a call, 26 ns of the 190 that an empty recvfrom() takes. And a
 * thread must not be cancelled here at all, since it holds the turn and nobody would give it back.
 *
 * Arguments, results and errno are those of the calls of the same names; none blocks, for the callers say MSG_DONTWAIT.
 * Where a system has no such number (socketcall) the library's own call serves.
 */
#ifndef APUS_DATAPLANE_IO_CALLS_H
#define APUS_DATAPLANE_IO_CALLS_H

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static inline ssize_t apus_dp_sys_recvfrom(int fd, void *to, size_t bytes, int flags,
					   struct sockaddr *from, socklen_t *from_bytes)
{
#ifdef SYS_recvfrom
	return syscall(SYS_recvfrom, fd, to, bytes, flags, from, from_bytes);
#else
	return recvfrom(fd, to, bytes, flags, from, from_bytes);
#endif
}

static inline ssize_t apus_dp_sys_recvmsg(int fd, struct msghdr *message, int flags)
{
#ifdef SYS_recvmsg
	return syscall(SYS_recvmsg, fd, message, flags);
#else
	return recvmsg(fd, message, flags);
#endif
}

static inline int apus_dp_sys_recvmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
#ifdef SYS_recvmmsg
	return (int)syscall(SYS_recvmmsg, fd, messages, count, flags, NULL);
#else
	return recvmmsg(fd, messages, count, flags, NULL);
#endif
}

/** to: NULL for a connected socket. */
static inline ssize_t apus_dp_sys_sendto(int fd, const void *from, size_t bytes, int flags,
					 const struct sockaddr *to, socklen_t to_bytes)
{
#ifdef SYS_sendto
	return syscall(SYS_sendto, fd, from, bytes, flags, to, to_bytes);
#else
	return sendto(fd, from, bytes, flags, to, to_bytes);
#endif
}

static inline ssize_t apus_dp_sys_sendmsg(int fd, const struct msghdr *message, int flags)
{
#ifdef SYS_sendmsg
	return syscall(SYS_sendmsg, fd, message, flags);
#else
	return sendmsg(fd, message, flags);
#endif
}

static inline int apus_dp_sys_sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
#ifdef SYS_sendmmsg
	return (int)syscall(SYS_sendmmsg, fd, messages, count, flags);
#else
	return sendmmsg(fd, messages, count, flags);
#endif
}

#endif
