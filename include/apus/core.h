/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Result codes, identities and time units shared by the whole public API.
 *
 * Every public function that can fail returns 0 (or, where declared beside the function, a positive
 * value) on success and one of the negative APUS_E… codes on failure. A failed call changes nothing
 * and leaves its outputs untouched unless its comment says otherwise.
 */
#ifndef APUS_CORE_H
#define APUS_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Marks a function as part of the exported ABI; everything else is hidden. */
#if defined(__GNUC__)
#define APUS_API __attribute__((visibility("default")))
#else
#define APUS_API
#endif

/** Semantic version of this header. Compare with apus_version() to detect a mismatched library. */
#define APUS_VERSION_MAJOR 0
#define APUS_VERSION_MINOR 1
#define APUS_VERSION_PATCH 0

/** A duration that never ends, in every field and argument that ends in `_ns`. */
#define APUS_INFINITE_NS INT64_MAX

/** Result codes. 0 is success; all failures are negative and stable across versions. */
enum apus_result {
	APUS_OK = 0,
	APUS_EINVAL = -1,      /**< an argument is outside its documented range */
	APUS_ENOMEM = -2,      /**< the operating system refused memory at creation time */
	APUS_ELIMIT = -3,      /**< a declared capacity is exhausted */
	APUS_ETIMEDOUT = -4,   /**< the stated time passed first */
	APUS_EAGAIN = -5,      /**< nothing to do now; try again later */
	APUS_ENOTSUP = -6,     /**< well-formed, but this build or route cannot do it */
	APUS_EQOS = -7,        /**< the QoS contradicts itself */
	APUS_EFILTER = -8,     /**< the filter expression does not compile */
	APUS_EIO = -9,         /**< the kernel refused an operation */
	APUS_ENODEV = -10,     /**< no such network interface or address */
	APUS_EADDRINUSE = -11, /**< all ports in the permitted range are taken */
	APUS_EDEADLK = -12,    /**< refused inside a callback because it would wait for itself */
	APUS_EIMMUTABLE = -13, /**< the field cannot change after creation */
	APUS_ECLOSED = -14, /**< the entity was deleted, or belongs to the parent of this process */
	APUS_EENCODING = -15, /**< bytes that do not decode as the type requires */
	APUS_ENOENT = -16,    /**< no such entity, setting, type or instance */
	APUS_EEXIST = -17,    /**< the name or identity is already taken */
	APUS_EPERM = -18,     /**< the operating system denies the right */
};

/**
 * Returns a short constant English description of a result code ("limit reached").
 * Never NULL; unknown codes give "unknown result". Any thread; does not block or allocate.
 */
APUS_API const char *apus_strerror(int result);

/** Returns the library's version as "MAJOR.MINOR.PATCH". Static storage; any thread. */
APUS_API const char *apus_version(void);

/** Globally unique identity of an entity: 12 bytes participant prefix, 4 bytes entity id, in wire
 *  order (RTPS 2.5 §8.2.4.1). */
struct apus_guid {
	uint8_t bytes[16];
};

/** Local handle of one instance of one keyed topic; 0 is "no instance". Unique per reader or writer,
 *  not comparable between them (DDS 1.4 §2.2.2.5). */
typedef uint64_t apus_instance;

#define APUS_INSTANCE_NONE ((apus_instance)0)

#ifdef __cplusplus
}
#endif

#endif
