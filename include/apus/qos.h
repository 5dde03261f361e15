/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quality of service (DDS 1.4 §2.2.3): one plain struct for writers and readers.
 *
 * Fill it with apus_qos_writer_default() or apus_qos_reader_default(), then change fields. A field
 * whose policy does not apply to the entity must keep its default; a policy that this version cannot
 * honour is refused at creation, never ignored.
 */
#ifndef APUS_QOS_H
#define APUS_QOS_H

#include <apus/core.h>

#ifdef __cplusplus
extern "C" {
#endif

enum apus_reliability { APUS_BEST_EFFORT = 0, APUS_RELIABLE = 1 };
enum apus_durability {
	APUS_VOLATILE = 0,
	APUS_TRANSIENT_LOCAL = 1,
	APUS_TRANSIENT = 2,
	APUS_PERSISTENT = 3
};
enum apus_history { APUS_KEEP_LAST = 0, APUS_KEEP_ALL = 1 };
enum apus_liveliness {
	APUS_AUTOMATIC = 0,
	APUS_MANUAL_BY_PARTICIPANT = 1,
	APUS_MANUAL_BY_TOPIC = 2
};
enum apus_ownership { APUS_SHARED = 0, APUS_EXCLUSIVE = 1 };
enum apus_destination_order { APUS_BY_RECEPTION = 0, APUS_BY_SOURCE = 1 };
/** How far the types of a writer and a reader may differ (XTypes 1.3 §7.6.3.4). */
enum apus_type_coercion {
	APUS_DISALLOW_TYPE_COERCION = 0, /**< they must be the same */
	APUS_ALLOW_TYPE_COERCION = 1     /**< the reader's must be assignable from the writer's */
};
enum apus_access_scope { APUS_SCOPE_INSTANCE = 0, APUS_SCOPE_TOPIC = 1, APUS_SCOPE_GROUP = 2 };

/** Policy ids as DDS numbers them (DDS 1.4 §2.2.3, IDL PSM), used in status and diagnostics. */
enum apus_policy {
	APUS_POLICY_NONE = 0,
	APUS_POLICY_DURABILITY = 2,
	APUS_POLICY_PRESENTATION = 3,
	APUS_POLICY_DEADLINE = 4,
	APUS_POLICY_LATENCY_BUDGET = 5,
	APUS_POLICY_OWNERSHIP = 6,
	APUS_POLICY_OWNERSHIP_STRENGTH = 7,
	APUS_POLICY_LIVELINESS = 8,
	APUS_POLICY_TIME_BASED_FILTER = 9,
	APUS_POLICY_PARTITION = 10,
	APUS_POLICY_RELIABILITY = 11,
	APUS_POLICY_DESTINATION_ORDER = 12,
	APUS_POLICY_HISTORY = 13,
	APUS_POLICY_RESOURCE_LIMITS = 14,
	APUS_POLICY_WRITER_DATA_LIFECYCLE = 16,
	APUS_POLICY_READER_DATA_LIFECYCLE = 17,
	APUS_POLICY_TRANSPORT_PRIORITY = 20,
	APUS_POLICY_LIFESPAN = 21,
	APUS_POLICY_DATA_REPRESENTATION = 23,
	APUS_POLICY_TYPE_CONSISTENCY = 24,
	APUS_POLICY_COUNT = 25, /**< one more than the last: size of tables by policy */
	/* Not DDS policies, but reasons for which two endpoints do not match. */
	APUS_POLICY_TOPIC = 1000,
	APUS_POLICY_TYPE = 1001,
	/* Not a DDS policy either: batch_bytes and batch_delay_ns. */
	APUS_POLICY_BATCH = 1002,
};

/** At most this many data representations are offered or accepted by one endpoint. */
#define APUS_REPRESENTATIONS_MAX 4

/** Type consistency enforcement of a reader. It decides where both sides announce their types and these
 *  differ; what a reader ignores here it must be able to do without. */
struct apus_type_consistency {
	uint8_t kind;                /**< enum apus_type_coercion; default allow */
	bool ignore_sequence_bounds; /**< default true: longer sequences are refused by sample */
	bool ignore_string_bounds;   /**< default true: longer strings are refused by sample */
	bool ignore_member_names;    /**< default false; true: members are told apart by id only */
	bool prevent_type_widening; /**< default false; true: the writer may have no further members */
	bool force_type_validation; /**< default false; true: without type information on both sides
				      *   there is no match */
};

/** The QoS of one writer or reader. All durations in nanoseconds, APUS_INFINITE_NS for "never"; deadline, lease and
 *  lifespan are more than 0. */
struct apus_qos {
	uint8_t reliability; /**< enum apus_reliability; writer default reliable, reader best effort */
	uint8_t durability;        /**< enum apus_durability; default volatile */
	uint8_t history;           /**< enum apus_history; default keep last */
	uint8_t liveliness;        /**< enum apus_liveliness; default automatic */
	uint8_t ownership;         /**< enum apus_ownership; default shared; RxO, must be equal */
	uint8_t destination_order; /**< enum apus_destination_order; default by reception */
	uint8_t access_scope;      /**< enum apus_access_scope; default instance */
	bool coherent_access;      /**< default false */
	bool ordered_access;       /**< default false */
	bool autodispose;          /**< writer: unregister also disposes; default true */

	uint32_t depth; /**< keep last: samples kept per instance, 1…; default 1 */

	/* Resource limits: capacities reserved at creation. 0 = take the participant's configured default. */
	uint32_t max_samples;              /**< samples of all instances together */
	uint32_t max_instances;            /**< instances; keyed topics only */
	uint32_t max_samples_per_instance; /**< must not be smaller than depth */
	uint32_t
		max_sample_bytes; /**< payload with header; 0 = what the setting sample.bytes says, or
				   *   the type's bound if that is less */
	uint32_t max_matches;     /**< matched remote endpoints */

	int64_t max_blocking_ns;   /**< reliability: longest wait of a write; default 100 ms */
	int64_t deadline_ns;       /**< default infinite */
	int64_t latency_budget_ns; /**< default 0; a matching hint, nothing is delayed for it */
	int64_t lease_ns;          /**< liveliness lease; default infinite */
	int64_t lifespan_ns;       /**< default infinite */
	int64_t time_filter_ns;    /**< reader: minimum separation per instance; default 0 */
	/** Reliable reader with a time filter, without coherent access; default false. The last sample of an
	 *  instance that the filter suppressed is delivered when the separation has passed, or before the notice
	 *  or departure that ends its writer's part in the instance; the next separation runs from there.
	 *  Costs one payload an instance. Does not count as an assertion of its writer. */
	bool time_filter_late;
	int32_t strength; /**< writer: ownership strength; default 0 */

	/** Writer: samples are gathered until their payloads reach batch_bytes (4…65536; 0, the default: each
	 *  leaves at once), at most for batch_delay_ns, which is kept to a millisecond or two;
	 *  APUS_INFINITE_NS: until apus_writer_flush(). Both or neither. A batch also ends where keep last or
	 *  a full history would give up a sample that has not been sent: keep at least as many samples as
	 *  are to be gathered. Samples gathered in fast succession share a source time: it
	 *  may be that of a sample before it in the batch, some microseconds older, and batch_delay_ns at
	 *  the very most. */
	uint32_t batch_bytes;
	int64_t batch_delay_ns; /**< see above */

	/** Reader data lifecycle (DDS 1.4 §2.2.3.22): how long an instance without writers is kept with what was
	 *  not taken, and the samples of one that was disposed of; 0: they go at once, default infinite. */
	int64_t autopurge_no_writers_ns;
	int64_t autopurge_disposed_ns;
	int32_t transport_priority; /**< announced only; default 0 */

	/** Partition names or patterns; NULL/0 = the default partition. Copied at creation. */
	const char *const *partitions;
	uint32_t partition_count;

	/** Representations in order of preference (enum apus_representation). A writer uses the first.
	 *  count 0 = the default: XCDR1 offered by writers of final types, both accepted by readers. */
	int16_t representations[APUS_REPRESENTATIONS_MAX];
	uint32_t representation_count;

	struct apus_type_consistency consistency; /**< reader */
};

/** Fills `*qos` with the DDS defaults for a writer (RTPS 2.5 table 9.20: reliable). */
APUS_API void apus_qos_writer_default(struct apus_qos *qos);
/** Fills `*qos` with the DDS defaults for a reader (best effort). */
APUS_API void apus_qos_reader_default(struct apus_qos *qos);

/**
 * Checks that a QoS does not contradict itself (depth above max_samples_per_instance, deadline below
 * the time filter, limits below each other, out-of-range enumerations …).
 * is_writer: which kind of endpoint it is for. policy_out (may be NULL): the first offending policy.
 * Returns 0 or APUS_EQOS. Any thread.
 */
APUS_API int apus_qos_check(const struct apus_qos *qos, bool is_writer, int *policy_out);

/**
 * Compares what a writer offers with what a reader requests, in the fixed order durability,
 * presentation, deadline, latency budget, ownership, liveliness, reliability, destination order, data
 * representation, and then partitions (DDS 1.4 §2.2.3). Returns APUS_POLICY_NONE if they are
 * compatible, else the first policy that fails (enum apus_policy). Any thread.
 */
APUS_API int apus_qos_mismatch(const struct apus_qos *offered, const struct apus_qos *requested);

/** Name of a policy id ("reliability"); "unknown" for others. Static storage. */
APUS_API const char *apus_policy_name(int policy);

#ifdef __cplusplus
}
#endif

#endif
