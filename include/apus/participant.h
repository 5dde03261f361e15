/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Participants, writers and readers.
 *
 * Thread rule for the whole file unless a call says otherwise: any thread may call; a call on an
 * entity that another thread is deleting is the caller's error. Data calls (write, take, read …) run
 * in the caller's thread under the turn of the entity's worker; they allocate nothing.
 *
 * After fork() every handle is dead in the child: calls return APUS_ECLOSED.
 */
#ifndef APUS_PARTICIPANT_H
#define APUS_PARTICIPANT_H

#include <apus/config.h>
#include <apus/core.h>
#include <apus/filter.h>
#include <apus/qos.h>
#include <apus/type.h>

#ifdef __cplusplus
extern "C" {
#endif

struct apus_participant;
struct apus_writer;
struct apus_reader;
struct apus_publisher;  /* <apus/group.h> */
struct apus_subscriber; /* <apus/group.h> */

/* ---- participants -------------------------------------------------------------------------- */

/**
 * Joins a domain: opens ports, starts the control thread and the configured workers.
 * config may be NULL (defaults); it is copied. why/why_bytes (may be NULL/0) receive a sentence on failure.
 * Returns 0, APUS_EINVAL, APUS_ENODEV (interface), APUS_EADDRINUSE (ports), APUS_ENOMEM, APUS_EIO,
 * APUS_EEXIST (stats.file is kept by another participant).
 */
APUS_API int apus_participant_create(const struct apus_config *config,
				     struct apus_participant **participant_out, char *why,
				     size_t why_bytes);
/** Deletes the participant and all its entities; announces the departure. Blocks briefly (< 1 s), and as long as a
 *  listener is being called by another thread. Returns 0 (NULL included), APUS_EDEADLK (inside a callback of one
 *  of its listeners: nothing is done), APUS_ECLOSED. */
APUS_API int apus_participant_destroy(struct apus_participant *participant);
/** GUID of the participant. */
APUS_API struct apus_guid apus_participant_guid(const struct apus_participant *participant);
/** Number of workers (1…). */
APUS_API uint32_t apus_participant_worker_count(const struct apus_participant *participant);
/** What was chosen and why (transport kind, fall-backs, interfaces, ports, huge pages), one `key: value`
 *  a line, as text for people and logs. Returns 0 or APUS_ELIMIT. */
APUS_API int apus_participant_report(const struct apus_participant *participant, char *text_out,
				     size_t text_bytes);

/**
 * One turn of worker `idx` (mode driven): receives, admits, sends, runs timers; never blocks.
 * Returns the amount of work done (datagrams and timers; 0 = idle), APUS_EINVAL (no such worker),
 * APUS_EAGAIN (another thread holds the turn), APUS_ENOTSUP (the worker is spawned).
 */
APUS_API int apus_worker_poll(struct apus_participant *participant, uint32_t idx);
/**
 * A descriptor for driven workers that sleep: readable (level-triggered) while worker `idx` has something to
 * receive, a timer that is due, a change of its matches to adopt, or a listener to call. It is lowered by an
 * apus_worker_poll() that returns 0, so poll until then before sleeping. Costs a system call whenever an earlier
 * timer is started. Owned by the participant.
 * Returns it, APUS_EINVAL, APUS_ENOTSUP (the worker is spawned), APUS_EIO, APUS_ECLOSED.
 */
APUS_API int apus_worker_fd(struct apus_participant *participant, uint32_t idx);

/* ---- writers ------------------------------------------------------------------------------- */

/** How to create a writer or reader. Zero-initialise, then set topic, type and what else is needed. */
struct apus_endpoint_options {
	const char *topic;            /**< 1…255 bytes; copied */
	const struct apus_type *type; /**< must outlive the participant */
	const char *type_name;        /**< registered name; NULL = type->name */
	const struct apus_qos *qos;   /**< NULL = the defaults; copied */
	uint32_t worker_idx;          /**< the worker that owns the endpoint; default 0 */
	/** Writers, readers: the group to join, or NULL. Same participant and worker; the QoS is silent about
	 *  presentation or says what the group says (else APUS_EINVAL). See <apus/group.h>. */
	struct apus_publisher *publisher;
	struct apus_subscriber *subscriber;

	uint32_t
		value_bytes; /**< readers: arena for what one value holds by pointer (unbounded strings,
			       *   sequences, optional and external members), see apus_take_next(); 0: none */
	uint32_t
		loans; /**< writers: samples apus_loan() lends at a time, up to 65536; 0: none. Types
			 *   that it cannot lend: APUS_ENOTSUP */

	/* Readers only: a content filter, or NULL. */
	const char
		*filter_name; /**< name of the filtered topic; NULL = "<topic>_filtered" + number */
	/** NULL: the built-in "DDSSQL", else one registered before (<apus/filter_class.h>); for good. */
	const char *filter_class;
	const char *filter_expression; /**< see <apus/filter.h> */
	const char *const *filter_parameters;
	uint32_t filter_parameter_count;
	struct apus_filter_error
		*filter_error; /**< out, may be NULL: where and why it does not compile */
};

/**
 * Creates a writer. Returns 0, APUS_EINVAL (topic, type, worker), APUS_EQOS, APUS_ENOTSUP (a policy this
 * version cannot honour), APUS_ELIMIT (endpoints of the participant; or a type all of whose samples are of one size,
 * which is above max_sample_bytes), APUS_ENOMEM. Endpoints that come and go
 * faster than the other participants acknowledge make it wait, for a second at most; then APUS_ELIMIT.
 */
APUS_API int apus_writer_create(struct apus_participant *participant,
				const struct apus_endpoint_options *options,
				struct apus_writer **writer_out);
/** Deletes a writer: unregisters nothing by itself, announces its end; unacknowledged samples are gone. */
APUS_API void apus_writer_destroy(struct apus_writer *writer);
/** GUID of the writer. */
APUS_API struct apus_guid apus_writer_guid(const struct apus_writer *writer);
/** Name of the topic it writes; lives as long as the writer. */
APUS_API const char *apus_writer_topic(const struct apus_writer *writer);

/** Changes the ownership strength the writer offers; readers follow it from the next sample on. Returns 0,
 *  APUS_EINVAL (shared ownership: it would have no effect), APUS_ECLOSED, APUS_ELIMIT (not announced: the history
 *  of discovery is full; call again). */
APUS_API int apus_writer_set_strength(struct apus_writer *writer, int32_t strength);

/**
 * Changes the QoS of a writer. `qos` is the whole QoS; what differs from the present one must be changeable:
 * deadline, latency budget, ownership strength, lifespan, partitions, autodispose, transport priority.
 * The writer is announced and matched again. Misses of the old deadline stay counted; the new period begins at
 * once where one was running, else with the next sample. Samples written keep their lifespan.
 * policy_out (may be NULL): the policy at fault, with APUS_EQOS and APUS_EIMMUTABLE.
 * Returns 0, APUS_EQOS, APUS_EIMMUTABLE (another policy differs), APUS_EINVAL, APUS_ELIMIT (not announced: the
 * history of discovery is full; call again), APUS_ENOMEM, APUS_ECLOSED. Refused, it changes nothing.
 */
APUS_API int apus_writer_set_qos(struct apus_writer *writer, const struct apus_qos *qos,
				 int *policy_out);
/** The QoS as it is, with what creation completed. names_out (room for `max` names) backs qos_out->partitions; the
 *  names stay valid until the endpoint's QoS or filter is changed. Returns 0, APUS_ELIMIT (more than `max`
 *  partitions), APUS_EINVAL, APUS_ECLOSED. */
APUS_API int apus_writer_qos(struct apus_writer *writer, struct apus_qos *qos_out,
			     const char **names_out, uint32_t max);

/** How a sample ends or begins, for apus_write_as(). */
enum apus_change {
	APUS_ALIVE = 0,
	APUS_DISPOSE = 1,
	APUS_UNREGISTER = 2,
	APUS_DISPOSE_UNREGISTER = 3
};

/**
 * Writes one sample (the in-memory image of the writer's type).
 * A reliable KEEP_ALL writer whose history is full waits up to max_blocking_ns.
 * Returns 0, APUS_EENCODING (a string or sequence beyond its bound), APUS_ELIMIT (sample too large, or too
 * many instances), APUS_ETIMEDOUT, APUS_EDEADLK (would wait inside a callback).
 */
APUS_API int apus_write(struct apus_writer *writer, const void *sample);
/** Like apus_write(), for a change of instance state: only the key members of `sample` matter unless
 *  kind is APUS_ALIVE. source_time_ns: wall clock ns, or INT64_MIN for now. */
APUS_API int apus_write_as(struct apus_writer *writer, const void *sample, enum apus_change kind,
			   int64_t source_time_ns);
/**
 * Writes `count` samples (an array of in-memory images) in few turns, with one source time: what one call
 * after another costs is paid once, and small samples share datagrams.
 * A reliable KEEP_ALL writer whose history is full waits up to max_blocking_ns in all.
 * Returns how many were written, in order; fewer than `count` if one was refused, for which alone the next
 * call gives the error. If the first was refused: that error, as apus_write().
 */
APUS_API int apus_write_many(struct apus_writer *writer, const void *samples, uint32_t count);
/**
 * Sends what a batch (qos batch_bytes) still holds. Returns 0, APUS_ECLOSED. Any thread; does not block
 * beyond the turn. While the publisher is suspended nothing is sent.
 */
APUS_API int apus_writer_flush(struct apus_writer *writer);
/** Like apus_write_as(), for a change that answers the sample `related_seq` (> 0) of `related_writer`
 *  (PID_RELATED_SAMPLE_IDENTITY): a reader can select by it. */
APUS_API int apus_write_related(struct apus_writer *writer, const void *sample,
				enum apus_change kind, int64_t source_time_ns,
				const struct apus_guid *related_writer, int64_t related_seq);
/**
 * Lends a sample to fill in place: memory of the writer's, for the in-memory image of its type, that holds whatever was
 * there before; every member is to be written. It becomes the sample by apus_write_loaned(), without a copy, and is the
 * caller's until then. Any thread may fill it; nothing else of the writer waits for that. Deleting the writer ends all
 * loans. Types whose memory image is their CDR image only: plain_xcdr1 or plain_xcdr2, as the representation the
 * writer offers has it.
 * Returns 0, APUS_ENOTSUP (another type), APUS_ELIMIT (as many are lent as its options say), APUS_ECLOSED.
 */
APUS_API int apus_loan(struct apus_writer *writer, void **sample_out);
/**
 * Writes a lent sample, which is the caller's no more: readers of other processes on this host read it where it is.
 * Returns as apus_write(), and APUS_EINVAL if it is not lent. Refused, the sample stays lent.
 */
APUS_API int apus_write_loaned(struct apus_writer *writer, void *sample);
/** Gives a lent sample back unwritten. Returns 0, APUS_EINVAL (not lent), APUS_ECLOSED. */
APUS_API int apus_discard_loan(struct apus_writer *writer, void *sample);
/** Marks the instance of `sample` as disposed. Errors as apus_write(). */
APUS_API int apus_dispose(struct apus_writer *writer, const void *sample);
/** Ends this writer's registration of the instance (and disposes it if autodispose). */
APUS_API int apus_unregister(struct apus_writer *writer, const void *sample);
/** Writes an already serialised sample (CDR with encapsulation header, either byte order). Errors as
 *  apus_write(); APUS_EENCODING also if it is no sample of the type, or in another representation than the
 *  writer offers (the first of its QoS): its readers may not understand that. */
APUS_API int apus_write_cdr(struct apus_writer *writer, const void *payload, size_t payload_bytes);
/** Waits until every matched reliable reader has acknowledged all samples written before the call.
 *  Returns 0 or APUS_ETIMEDOUT, APUS_EDEADLK. */
APUS_API int apus_writer_wait_acked(struct apus_writer *writer, int64_t timeout_ns);
/** Number of readers matched now. A volatile reliable reader of another process counts once it has
 *  answered: from then on every sample written is for it. */
APUS_API uint32_t apus_writer_matched(const struct apus_writer *writer);
/** Waits until at least `count` readers are matched. Returns 0 or APUS_ETIMEDOUT. */
APUS_API int apus_writer_wait_matched(struct apus_writer *writer, uint32_t count,
				      int64_t timeout_ns);

/* ---- readers ------------------------------------------------------------------------------- */

/** Instance states (DDS 1.4 §2.2.2.5.1.3); values are mask bits. */
enum apus_instance_state {
	APUS_STATE_ALIVE = 1,
	APUS_STATE_DISPOSED = 2,
	APUS_STATE_NO_WRITERS = 4,
};

/** What is known of one sample beside its data (DDS 1.4 §2.2.2.5.1). */
struct apus_sample_info {
	struct apus_guid writer;
	int64_t seq;               /**< sequence number of the writer */
	int64_t source_time_ns;    /**< wall clock of the writer; INT64_MIN if it sent none */
	int64_t reception_time_ns; /**< monotonic clock at admission */
	apus_instance instance;    /**< APUS_INSTANCE_NONE for keyless types */
	uint8_t instance_state;    /**< enum apus_instance_state, at the time of the call */
	bool valid_data;           /**< false: only the key members are meaningful */
	bool read_before;          /**< sample state READ */
	bool view_new;             /**< view state NEW */
	uint32_t disposed_generation_count; /**< of the instance, when the sample was received */
	uint32_t no_writers_generation_count;
	int32_t sample_rank;     /**< samples of the same instance behind it in this result */
	int32_t generation_rank; /**< generations between it and the last of them in this result … */
	int32_t absolute_generation_rank; /**< … and the latest of the instance that was received */
	struct apus_guid related_writer; /**< the sample it answers; valid if … */
	int64_t related_seq;             /**< … not 0 */
	uint64_t
		filter_generation; /**< the generation of the reader's filter it was admitted under */
};

/** A sample lent by a reader until apus_return(). The payload is CDR with encapsulation header; of a
 *  sample without valid data it is a key-only payload. */
struct apus_sample {
	const void *payload;
	uint32_t payload_bytes;
	uint32_t reserved; /**< the library's; do not change */
	struct apus_sample_info info;
};

/** Which samples a take or read wants; NULL = all. */
struct apus_select {
	uint8_t instance_states; /**< mask of enum apus_instance_state; 0 = any */
	uint8_t sample_states;   /**< 1 = read, 2 = not read; 0 = any */
	uint8_t view_states;     /**< 1 = new, 2 = not new; 0 = any */
	apus_instance instance;  /**< this instance only; APUS_INSTANCE_NONE = any */
	/** Of the first instance behind `instance` (NONE: the first of all) that has what the rest asks for, and
	 *  of no other. The order is total, and the same as long as an instance is known; `instance` may be
	 *  one that is not known any more. */
	bool next_instance;
	/** Only samples that answer sample `related_seq` of this writer (0: any of it); NULL = all. */
	const struct apus_guid *related_writer;
	int64_t related_seq;
};

/** Creates a reader. Returns as apus_writer_create(), and APUS_EFILTER with *options->filter_error. */
APUS_API int apus_reader_create(struct apus_participant *participant,
				const struct apus_endpoint_options *options,
				struct apus_reader **reader_out);
/**
 * Changes the QoS of a reader, as apus_writer_set_qos(). Changeable are deadline, latency budget, minimum separation
 * (but not whether suppressed samples come late), lifespan, partitions, and the purge delays, which then run
 * from the change. Samples in the history keep their lifespan.
 */
APUS_API int apus_reader_set_qos(struct apus_reader *reader, const struct apus_qos *qos,
				 int *policy_out);
/** As apus_writer_qos(). */
APUS_API int apus_reader_qos(struct apus_reader *reader, struct apus_qos *qos_out,
			     const char **names_out, uint32_t max);
/** Deletes a reader. Samples still lent become invalid. */
APUS_API void apus_reader_destroy(struct apus_reader *reader);
/** GUID of the reader. */
APUS_API struct apus_guid apus_reader_guid(const struct apus_reader *reader);
/** Name of the topic it reads (not of a filtered topic); lives as long as the reader. */
APUS_API const char *apus_reader_topic(const struct apus_reader *reader);

/**
 * Takes up to `max` samples, oldest first, those of an instance one after another unless access is ordered
 * at topic or group scope (DDS 1.4 §2.2.2.5.3.8): they leave the reader's history but stay valid until
 * apus_return(). Returns their number (0 = none), APUS_ELIMIT if too many samples are lent already.
 * A reader that has none looks at its matches through shared memory; everything else comes by its worker, so a driven one
 * is to be polled between some calls.
 */
APUS_API int apus_take(struct apus_reader *reader, struct apus_sample *samples_out, uint32_t max,
		       const struct apus_select *select);
/** Like apus_take(), but the samples stay in the history, marked as read. */
APUS_API int apus_read(struct apus_reader *reader, struct apus_sample *samples_out, uint32_t max,
		       const struct apus_select *select);
/** apus_take() and apus_read() of the first instance behind `previous` (APUS_INSTANCE_NONE: the first of all)
 *  that has what `select` asks for; select->instance must be APUS_INSTANCE_NONE. */
APUS_API int apus_take_next_instance(struct apus_reader *reader, struct apus_sample *samples_out,
				     uint32_t max, apus_instance previous,
				     const struct apus_select *select);
/** The same, reading. */
APUS_API int apus_read_next_instance(struct apus_reader *reader, struct apus_sample *samples_out,
				     uint32_t max, apus_instance previous,
				     const struct apus_select *select);
/** The instance that `sample` (the in-memory image; only its key members matter) belongs to;
 *  APUS_INSTANCE_NONE if the reader does not know it, or the type has no key. */
APUS_API apus_instance apus_reader_lookup_instance(struct apus_reader *reader, const void *sample);
/** Writes the key of an instance the reader knows as a key-only payload (CDR with encapsulation header), dead
 *  ones included. Returns its length, APUS_ENOENT, APUS_ELIMIT (payload_bytes). */
APUS_API int apus_reader_instance_key(struct apus_reader *reader, apus_instance instance,
				      void *payload_out, size_t payload_bytes);
/**
 * Takes the next sample and deserialises it into `*value_out`, memory of the caller's as large as the
 * reader's type; nothing is lent. What the value holds by pointer is in the reader's arena
 * (`value_bytes` of its options) and stays valid until the next of these three calls for the same reader,
 * which therefore must not overlap. Without valid data the key members are set, and the others zero.
 * info_out may be NULL. Allocates nothing.
 * Returns 1, 0 (nothing to take), APUS_EENCODING (not a sample of the type), APUS_ELIMIT (larger than
 * the arena, or too many samples are lent). What cannot be deserialised is taken nevertheless and counted
 * as reader.values_refused; the value is all zero then, never half-filled.
 */
APUS_API int apus_take_next(struct apus_reader *reader, void *value_out,
			    struct apus_sample_info *info_out, const struct apus_select *select);
/** Like apus_take_next(), but the sample stays in the history, marked as read. */
APUS_API int apus_read_next(struct apus_reader *reader, void *value_out,
			    struct apus_sample_info *info_out, const struct apus_select *select);
/**
 * The value of a lent sample, without copies where that can be: as apus_type_view(), with the reader's
 * arena. Valid until the sample is returned or the next of these three calls, whichever is first.
 * Returns 0, APUS_EENCODING, APUS_ELIMIT (counted as above; the sample stays lent, so that
 * apus_type_decode() can try with a larger arena).
 */
APUS_API int apus_sample_value(struct apus_reader *reader, const struct apus_sample *sample,
			       void *value_out);
/**
 * The memory image of a lent sample where it lies, without a copy: only of types for which it is the CDR image
 * (plain_xcdr1, plain_xcdr2), sent in this byte order. Else NULL, and apus_sample_value() makes one. Valid until the
 * sample is returned. It may lie in memory of another process (setting shm.lend), which a faulty writer can change: any
 * value may be met then, and two reads may differ. Any thread.
 */
APUS_API const void *apus_sample_image(const struct apus_reader *reader,
				       const struct apus_sample *sample);
/** Gives lent samples back. Returns 0, APUS_EINVAL if one was not lent (the others are returned). */
APUS_API int apus_return(struct apus_reader *reader, struct apus_sample *samples, uint32_t count);
/** Waits until the reader has samples, up to timeout_ns. Returns 0 or APUS_ETIMEDOUT. Sleeps, unless the
 *  reader's worker is driven: then it polls the worker. */
APUS_API int apus_reader_wait(struct apus_reader *reader, int64_t timeout_ns);
/** An eventfd that is readable while the reader may have something new, for epoll and io_uring loops
 *  (level-triggered). Owned by the reader: only wait for it; a take or read that returns fewer samples than
 *  asked for lowers it, unless the limit of lent samples cut it short. Negative APUS_E… on error. */
APUS_API int apus_reader_fd(struct apus_reader *reader);
/** Number of writers matched now. */
APUS_API uint32_t apus_reader_matched(const struct apus_reader *reader);
/** Waits until at least `count` writers are matched. Returns 0 or APUS_ETIMEDOUT. */
APUS_API int apus_reader_wait_matched(struct apus_reader *reader, uint32_t count,
				      int64_t timeout_ns);

/**
 * Replaces the reader's filter (expression NULL: removes it). The new filter is compiled before anything
 * is touched; queued samples that do not satisfy it are removed; it is announced to writers.
 * Returns the new generation (positive), APUS_EFILTER with *error_out, APUS_ELIMIT.
 */
APUS_API int64_t apus_reader_set_filter(struct apus_reader *reader, const char *expression,
					const char *const *parameters, uint32_t parameter_count,
					struct apus_filter_error *error_out);

/* ---- what is known of the domain ----------------------------------------------------------- */

/** By whose word a participant is known. */
enum apus_known {
	APUS_KNOWN_DIRECTLY = 0, /**< its own; or it is this one */
	APUS_KNOWN_SERVER,       /**< its own, and it is one of the configured discovery.servers */
	APUS_KNOWN_BY_SERVER,    /**< that of such a server */
};

/** A participant of the domain, this one included. Pointers are valid during the callback. */
struct apus_participant_info {
	struct apus_guid guid;
	const char *name;   /**< "" if none was announced */
	const char *vendor; /**< "Cyclone DDS", "Fast DDS", "Apus", … or "vendor XX.XX" */
	int64_t lease_ns;
	bool local;                  /**< this participant */
	int known;                   /**< enum apus_known */
	const char *const *locators; /**< text form "udp4://127.0.0.1:7411 (default)" */
	uint32_t locator_count;
};

/** Bytes of a type's hash. */
#define APUS_TYPE_HASH_BYTES 14

/** A writer or reader of the domain. Pointers are valid during the callback. */
struct apus_endpoint_info {
	struct apus_guid guid;
	bool is_writer;
	bool local;
	const char *topic;
	const char *type_name;
	const struct apus_qos *qos;
	const char *filter_class;      /**< NULL if the reader announced no filter */
	const char *filter_expression; /**< NULL likewise */
	const char *const *filter_parameters;
	uint32_t filter_parameter_count;
	const char *const *locators; /**< its own; may be 0 */
	uint32_t locator_count;
	/** EquivalenceHash (XTypes 1.3 §7.3.4.8, APUS_TYPE_HASH_BYTES) of the minimal and the complete
	 *  TypeObject of its type; NULL if not announced. */
	const uint8_t *minimal_hash;
	const uint8_t *complete_hash;
};

/** Visits every known participant in discovery order until `visit` returns false. The callback must not
 *  call into the library. Returns the number visited or a negative APUS_E…. */
APUS_API int apus_visit_participants(struct apus_participant *participant,
				     bool (*visit)(const struct apus_participant_info *, void *),
				     void *user);
/** Visits every known endpoint (local ones first, then in discovery order); as above. */
APUS_API int apus_visit_endpoints(struct apus_participant *participant,
				  bool (*visit)(const struct apus_endpoint_info *, void *),
				  void *user);

/**
 * Finds out the type of a writer or reader of the domain: of a remote one by the TypeLookup service (XTypes 1.3
 * §7.6.3.3), which its participant must offer. The descriptor may be used to create readers and writers of
 * this participant, and lives as long as that. Waits up to timeout_ns for answers.
 * Returns 0; APUS_ENOENT (no such endpoint, or it does not announce its type), APUS_ETIMEDOUT (not
 * answered), APUS_ENOTSUP (a type a descriptor cannot express, as with wstring), APUS_ELIMIT, APUS_ENOMEM.
 * Any thread but that of a callback.
 */
APUS_API int apus_type_lookup(struct apus_participant *participant,
			      const struct apus_guid *endpoint, int64_t timeout_ns,
			      const struct apus_type **type_out);

/**
 * Why a writer and a reader of the domain do not match, types compared as well, from what is known now:
 * APUS_POLICY_NONE if they do, else the first policy that differs (enum apus_policy). why_out (may be NULL)
 * receives a sentence where the types differ, else "". Two remote endpoints are compared by the rules
 * of this participant.
 * Returns the policy (0 or positive), APUS_EAGAIN (parts of the types are being asked for: try again
 * soon), APUS_ENOENT (no such endpoint), APUS_EINVAL (not a writer and a reader).
 */
APUS_API int apus_pair_mismatch(struct apus_participant *participant,
				const struct apus_guid *writer, const struct apus_guid *reader,
				char *why_out, size_t why_bytes);

/** Why traffic goes to an address, or to none. */
enum apus_route_reason {
	APUS_ROUTE_NONE = 0, /**< no address is announced that the settings and interfaces allow */
	APUS_ROUTE_UNPROVED, /**< it has not answered at any of its addresses yet */
	APUS_ROUTE_ENDPOINT, /**< the nearest of the endpoint's own addresses */
	APUS_ROUTE_PARTICIPANT, /**< the nearest of its participant's default addresses */
	APUS_ROUTE_PROCESS,     /**< both are this participant's: handed over without an address */
	APUS_ROUTE_SHM, /**< both are on this host: through shared memory, without an address */
};

/** Bytes of an address as text: "udp4://127.0.0.1:7411". */
#define APUS_LOCATOR_TEXT_BYTES 64

/** Where the traffic of a writer and a reader goes. Addresses are "" where there is none. */
struct apus_route {
	/** It is a match of this participant. Otherwise both belong to others (or do not match), and this is
	 *  where this participant would send. */
	bool matched;
	int data_reason; /**< enum apus_route_reason, of `data` */
	int acks_reason; /**< of `acks` */
	char data
		[APUS_LOCATOR_TEXT_BYTES]; /**< samples, fragments, heartbeats, gaps: the reader's */
	char multicast
		[APUS_LOCATOR_TEXT_BYTES]; /**< used instead of `data` while it reaches other readers
						  *   at the same time; never for repairs */
	char acks[APUS_LOCATOR_TEXT_BYTES]; /**< acknowledgements and requests: the writer's */
};

/**
 * Tells where the traffic of a writer and a reader of the domain goes, and why. Whether they match is not asked
 * (apus_pair_mismatch()). Returns 0, APUS_ENOENT (no such endpoint), APUS_EINVAL (not a writer and a
 * reader), APUS_ECLOSED. Any thread.
 */
APUS_API int apus_pair_route(struct apus_participant *participant, const struct apus_guid *writer,
			     const struct apus_guid *reader, struct apus_route *route_out);
/** An enum apus_route_reason in words; "unknown" for other numbers. */
APUS_API const char *apus_route_reason_text(int reason);

/** Why two endpoints do not match, by topic, type name and QoS alone: APUS_POLICY_NONE if they do, else the first policy that differs
 *  (APUS_POLICY_TOPIC and APUS_POLICY_TYPE included). */
APUS_API int apus_endpoint_mismatch(const struct apus_endpoint_info *writer,
				    const struct apus_endpoint_info *reader);

/* ---- counters ------------------------------------------------------------------------------ */

/** One named counter ("rx.malformed", "reader.rejected.filter" …). */
struct apus_stat {
	const char *name;
	uint64_t value;
};

/** Visits the counters of the participant (all workers summed). Returns their number. */
APUS_API int apus_visit_stats(struct apus_participant *participant,
			      void (*visit)(const struct apus_stat *, void *), void *user);
/** Visits the counters of one reader or writer. */
APUS_API int apus_visit_reader_stats(struct apus_reader *reader,
				     void (*visit)(const struct apus_stat *, void *), void *user);
/** The same of a writer. */
APUS_API int apus_visit_writer_stats(struct apus_writer *writer,
				     void (*visit)(const struct apus_stat *, void *), void *user);

#ifdef __cplusplus
}
#endif

#endif
