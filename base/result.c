/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of the public result codes, and the library's version. */
#include <apus/core.h>

#define STR(x)  #x
#define XSTR(x) STR(x)

const char *apus_strerror(int result)
{
	switch (result) {
	case APUS_OK: return "success";
	case APUS_EINVAL: return "invalid argument";
	case APUS_ENOMEM: return "out of memory";
	case APUS_ELIMIT: return "limit reached";
	case APUS_ETIMEDOUT: return "timed out";
	case APUS_EAGAIN: return "try again";
	case APUS_ENOTSUP: return "not supported";
	case APUS_EQOS: return "inconsistent QoS";
	case APUS_EFILTER: return "invalid filter expression";
	case APUS_EIO: return "operation refused by the kernel";
	case APUS_ENODEV: return "no such network interface or address";
	case APUS_EADDRINUSE: return "all ports taken";
	case APUS_EDEADLK: return "refused inside a callback";
	case APUS_EIMMUTABLE: return "cannot change after creation";
	case APUS_ECLOSED: return "entity deleted";
	case APUS_EENCODING: return "invalid encoding";
	case APUS_ENOENT: return "not found";
	case APUS_EEXIST: return "already exists";
	case APUS_EPERM: return "permission denied";
	default: return "unknown result";
	}
}

const char *apus_version(void)
{
	return XSTR(APUS_VERSION_MAJOR) "." XSTR(APUS_VERSION_MINOR) "." XSTR(APUS_VERSION_PATCH);
}
