/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of types: TypeObjects by their hash (XTypes 1.3 §7.3.4.9), our own and those learnt from
 * peers, and which ones are to be asked of whom.
 *
 * An object learnt is stored only if it was wanted, if its bytes have the hash it was wanted by, and if it
 * parses: nobody can put an object in the place of another. Whatever it refers to is wanted in turn, of the
 * same participant. Objects found wanting are asked for again a few times, with growing pauses, then given
 * up until somebody wants them anew.
 *
 * Time is an argument. Thread rule: calls are serialised by control's lock. Memory is allocated when objects
 * are learnt, within the budgets of the configuration; when these are spent, objects of peers that no one
 * keeps are dropped (apus_ctl_types_keep()).
 */
#ifndef APUS_CONTROL_TYPES_H
#define APUS_CONTROL_TYPES_H

#include <apus/type.h>

#include "base/atomics.h"
#include "base/clock.h"
#include "base/guid.h"
#include "wire/typelookup.h"

struct apus_ctl_types;

/** Budgets. */
struct apus_ctl_types_config {
	uint32_t entries; /**< objects known or wanted, at least 1 */
	uint64_t bytes;   /**< of the objects learnt, as serialised and as parsed */
	uint64_t seed;    /**< random: keeps strangers from choosing colliding keys */
};

/** Events, one counter each. */
struct apus_ctl_types_counters {
	struct apus_counter learnt;   /**< objects taken from replies */
	struct apus_counter unwanted; /**< objects nobody had asked for, or known already */
	struct apus_counter forged;   /**< bytes that do not have the hash they came under */
	struct apus_counter unusable; /**< objects that do not parse, or of kinds we do not know */
	struct apus_counter refused;  /**< a budget is spent */
	struct apus_counter given_up; /**< asked for several times without an answer */
};

/** Creates an empty store. Returns 0 or APUS_ENOMEM. */
int apus_ctl_types_create(const struct apus_ctl_types_config *config,
			  struct apus_ctl_types **types_out);
/** Destroys it with all objects learnt. NULL is allowed. */
void apus_ctl_types_destroy(struct apus_ctl_types *types);

/**
 * Makes the objects of a local type known: those of its type_mapping, which must outlive the store. A type
 * without a mapping is no error. Returns 0, APUS_EINVAL (a mapping that is none), APUS_ELIMIT, APUS_ENOMEM.
 */
int apus_ctl_types_add_local(struct apus_ctl_types *types, const struct apus_type *type);

/** The object of this name, NULL if it is not known. Lives until the next call that learns or keeps. */
const struct apus_wire_type_object *apus_ctl_types_get(const struct apus_ctl_types *types,
						       const struct apus_wire_type_hash *hash);
/** Its bytes, with DHEADER; false if it is not known. */
bool apus_ctl_types_bytes(const struct apus_ctl_types *types,
			  const struct apus_wire_type_hash *hash, const uint8_t **object_out,
			  uint32_t *object_bytes_out);
/** The minimal hash that goes with a complete one of a local type; kind NONE if that is not known. */
struct apus_wire_type_hash apus_ctl_types_minimal_of(const struct apus_ctl_types *types,
						     const struct apus_wire_type_hash *complete);

/** What a type and all it refers to are. */
enum apus_ctl_closure {
	APUS_CTL_CLOSURE_COMPLETE,
	APUS_CTL_CLOSURE_WANTED, /**< some objects are missing, and asked for */
	APUS_CTL_CLOSURE_MISSING /**< some are missing, and no one is asked, or has answered */
};

/** Looks whether a type and all it refers to are known. from: whom to ask for what is missing; NULL: nobody.
 *  Cost: linear in the objects known. */
enum apus_ctl_closure apus_ctl_types_closure(struct apus_ctl_types *types,
					     const struct apus_wire_type_hash *hash,
					     const struct apus_prefix *from, struct apus_mono now);

/** Calls `visit` for each different hash some known types refer to, directly or not, themselves left out, until it
 *  returns false; unknown ones too, perhaps more than once. The order is the same each time. For TypeDependencies.
 *  Cost: linear in the objects known, however many types are asked for. */
void apus_ctl_types_dependencies(struct apus_ctl_types *types,
				 const struct apus_wire_type_hash *hashes, uint32_t count,
				 bool (*visit)(void *user, const struct apus_wire_type_hash *hash),
				 void *user);

/**
 * The next request that is due: whom to ask (one participant a request) and for what. Returns the number of
 * hashes (at most `max`), 0 if nothing is due; then *due_out is when something will be.
 */
uint32_t apus_ctl_types_next_request(struct apus_ctl_types *types, struct apus_mono now,
				     struct apus_prefix *from_out,
				     struct apus_wire_type_hash *hashes_out, uint32_t max,
				     struct apus_mono *due_out);

/**
 * An object arrived in a reply of `from`. Returns 1 if it was learnt, 0 if not (counted). What it refers to
 * is wanted from the same participant.
 */
int apus_ctl_types_learn(struct apus_ctl_types *types, const struct apus_wire_type_hash *hash,
			 const uint8_t *object, size_t object_bytes, const struct apus_prefix *from,
			 struct apus_mono now);

/** Grows with each object learnt or dropped: results that depend on objects hold as long as it is the same. */
uint64_t apus_ctl_types_version(const struct apus_ctl_types *types);

/** True once after an object became known that had been wanted, learnt or our own: what had waited for it is to be
 *  judged again. */
bool apus_ctl_types_news(struct apus_ctl_types *types);

/**
 * Clearing out: between begin and end, what is still needed is kept with all it refers to; the rest of what
 * was learnt or wanted is dropped. full: a budget was spent since the last time.
 */
bool apus_ctl_types_full(const struct apus_ctl_types *types);
void apus_ctl_types_keep_begin(struct apus_ctl_types *types);
void apus_ctl_types_keep(struct apus_ctl_types *types, const struct apus_wire_type_hash *hash);
void apus_ctl_types_keep_end(struct apus_ctl_types *types);

const struct apus_ctl_types_counters *apus_ctl_types_counters(const struct apus_ctl_types *types);

#endif
