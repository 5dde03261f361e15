/* SPDX-License-Identifier: Apache-2.0 */
/* Creating, changing and deleting writers and readers: graph, discovery and data plane in one step. */
#include "control/domain.h"
#include "control/domain_shm.h"

#include "control/filter.h"
#include "dataplane/keyplan.h"

#include <apus/filter_class.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Entity kinds of user endpoints (RTPS 2.5 table 9.1). */
#define KIND_WRITER_KEYED   0x02u
#define KIND_WRITER_KEYLESS 0x03u
#define KIND_READER_KEYLESS 0x04u
#define KIND_READER_KEYED   0x07u
#define KEY_BYTES_MAX       1024
/* Fragmented samples a reader puts together at a time; one where no sample is larger than a fragment. */
#define ASSEMBLY_MAX       4u
#define UNFRAGMENTED_BYTES 256u
/* Out-of-order samples a reader holds back: as many as fit HELD_BYTES, within bounds. The others are asked
 * for again. */
#define HELD_MIN   4u
#define HELD_MAX   256u
#define HELD_SMALL 16u
#define HELD_BYTES (16u * 1024 * 1024)
/* Places for samples that stay in their writers' slots; and loans of a writer. */
#define LENT_MAX  1024u
#define LOANS_MAX 65536u
/* Arena of a sample that apus_write_cdr() checks. */
#define ARENA_BYTES ((size_t)256 * 1024)

/* Endpoints made in a row: the first are published each by itself, the others together after this delay. A
 * pause ends the row. */
#define ROW_FIRST    8u
#define ROW_DELAY_NS (APUS_NS_PER_MS / 2)
#define ROW_PAUSE_NS (2 * APUS_NS_PER_MS)
/* Matches of a writer that are a crowd, and how long readers that join it wait for others, for each. */
#define CROWD_MIN      256u
#define CROWD_DELAY_NS 5000

/* Which instance of a filter class evaluates for the endpoints of a worker. */
static uint32_t context_of(const struct apus_participant *p, const struct apus_dp_worker *worker)
{
	uint32_t context = 0;

	while (context < p->worker_count && p->workers[context] != worker)
		context++;
	return context;
}

/* --- checks shared by both kinds ----------------------------------------------------------------- */

static int check_options(const struct apus_participant *p, const struct apus_endpoint_options *o,
			 bool is_writer)
{
	size_t n;

	if (!o || !o->topic || !o->type || apus_type_check(o->type) != 0)
		return APUS_EINVAL;
	n = strlen(o->topic);
	if (n == 0 || n > APUS_WIRE_NAME_BYTES || o->worker_idx >= p->worker_count)
		return APUS_EINVAL;
	if (is_writer && (o->filter_expression || o->filter_name || o->filter_class ||
			  o->filter_parameter_count || o->value_bytes))
		return APUS_EINVAL;
	if (o->loans > (is_writer ? LOANS_MAX : 0))
		return APUS_EINVAL;
	if (o->filter_class &&
	    (!o->filter_class[0] || strlen(o->filter_class) > APUS_CTL_CLASS_BYTES))
		return APUS_EINVAL;
	return 0;
}

int apus_ctl_domain_complete_qos(const struct apus_participant *p,
				 const struct apus_endpoint_options *o, bool is_writer,
				 struct apus_qos *qos)
{
	int rc;

	if (o->qos)
		*qos = *o->qos;
	else if (is_writer)
		apus_qos_writer_default(qos);
	else
		apus_qos_reader_default(qos);
	rc = apus_ctl_domain_join(p, o, is_writer, qos);
	if (rc == 0)
		rc = apus_qos_check(qos, is_writer, NULL);
	if (rc != 0)
		return rc;
	if (qos->durability > APUS_TRANSIENT_LOCAL)
		return APUS_ENOTSUP;
	if (!apus_type_is_keyed(o->type))
		qos->max_instances = 1;
	else if (qos->max_instances == 0)
		qos->max_instances = p->config.history_instances;
	if (qos->max_samples_per_instance == 0) {
		qos->max_samples_per_instance = p->config.history_samples_per_instance;
		if (qos->max_samples_per_instance < qos->depth)
			qos->max_samples_per_instance = qos->depth;
		if (qos->max_samples && qos->max_samples_per_instance > qos->max_samples)
			qos->max_samples_per_instance = qos->max_samples;
	}
	if (qos->max_samples == 0) {
		qos->max_samples = p->config.history_samples;
		if (qos->max_samples < qos->max_samples_per_instance)
			qos->max_samples = qos->max_samples_per_instance;
	}
	if (qos->max_matches == 0)
		qos->max_matches = p->config.matches_per_endpoint;
	return 0;
}

static int representation_of(const struct apus_qos *qos)
{
	return qos->representation_count ? qos->representations[0] : APUS_XCDR1;
}

/* Payload room with encapsulation header: as QoS says, else the type's bound if configuration allows for it. */
static uint32_t payload_bytes(const struct apus_participant *p, const struct apus_type *type,
			      const struct apus_qos *qos)
{
	size_t v1 = apus_type_max_bytes(type, APUS_XCDR1);
	size_t v2 = apus_type_max_bytes(type, APUS_XCDR2);
	size_t bound = (v1 > v2 ? v1 : v2) + APUS_WIRE_ENCAP_BYTES;
	uint32_t bytes = qos->max_sample_bytes;

	if (bytes == 0)
		bytes = v1 && v2 && bound < p->config.sample_bytes ? (uint32_t)bound
								   : p->config.sample_bytes;
	return bytes;
}

/* False: no sample of the type fits, as all are of one size, which is larger. */
static bool has_room(const struct apus_participant *p, const struct apus_type *type,
		     const struct apus_qos *qos)
{
	size_t bytes = ((type->size_bytes + 3) & ~(size_t)3) + APUS_WIRE_ENCAP_BYTES;

	return !(type->plain_xcdr1 || type->plain_xcdr2) || bytes <= payload_bytes(p, type, qos);
}

static struct apus_guid next_guid(struct apus_participant *p, uint32_t kind)
{
	struct apus_eid eid = {(++p->entity_key & 0xffffff) << 8 | kind};

	return apus_guid_make(&p->prefix, eid);
}

/* Announces and admits an endpoint. Its type is known first: whoever hears of it may ask. Under lock; takes
 * the control turn. */
static int announce(struct apus_participant *p, struct apus_wire_endpoint_record *record,
		    const struct apus_ctl_local *local, struct apus_ctl_endpoint **endpoint_out)
{
	int rc = apus_ctl_domain_add_type(p, local->type);

	if (rc != 0)
		return rc;

	apus_dp_worker_take_turn(p->control);
	rc = apus_ctl_discovery_add_local(p->discovery, record, local, endpoint_out);
	apus_dp_worker_end_turn(p->control);
	return rc;
}

static void withdraw(struct apus_participant *p, struct apus_ctl_endpoint *endpoint,
		     const struct apus_guid *guid)
{
	apus_ctl_publisher_forget(p->publisher, endpoint);
	apus_dp_worker_take_turn(p->control);
	apus_ctl_discovery_remove_local(p->discovery, guid);
	apus_dp_worker_end_turn(p->control);
}

void apus_ctl_domain_changed(struct apus_participant *p)
{
	/* Timers armed meanwhile have ended its sleep already. */
	if (apus_ctl_domain_settle(p) || p->filters_due.ns)
		apus_dp_worker_wake(p->control);
}

/* The most matches that an endpoint of this participant has which a new one is matched with; 0: there is none. Such pairs
 * are in force when the call returns, but of a reader in a crowd. */
static uint32_t most_matches(const struct apus_participant *p, const struct apus_ctl_endpoint *e)
{
	const struct apus_ctl_match *m = NULL;
	uint32_t most = 0;

	while ((m = apus_ctl_graph_next_match(p->graph, e, m))) {
		const struct apus_ctl_endpoint *other =
			apus_ctl_graph_endpoint_at(p->graph, e->is_writer ? m->reader : m->writer);

		if (other->is_local && other->match_count > most)
			most = other->match_count;
	}
	return most;
}

/* A new endpoint takes part at once, but of many made in a row those after the first few do so together, a
 * moment later: each publication on its own costs a datagram for every match. So does a reader that joins a crowd,
 * however fast it comes: a snapshot costs as much as there are matches, and N readers must not cost N of them. */
static void created(struct apus_participant *p, const struct apus_ctl_endpoint *e)
{
	uint32_t most = most_matches(p, e);
	bool crowded = !e->is_writer && most >= CROWD_MIN;
	struct apus_mono now = apus_mono_now();

	if (now.ns - p->row_last.ns > ROW_PAUSE_NS)
		p->row_count = 0;
	p->row_last = now;
	p->row_count += p->row_count < ROW_FIRST;
	if (!crowded && (p->row_count < ROW_FIRST || most)) {
		apus_ctl_domain_changed(p);
	} else if (!p->settle_due.ns) {
		p->settle_due =
			apus_mono_add(now, crowded ? (int64_t)most * CROWD_DELAY_NS : ROW_DELAY_NS);
		apus_dp_worker_wake(p->control);
	}
}

/* --- writers ------------------------------------------------------------------------------------- */

static int make_dp_writer(struct apus_participant *p, struct apus_writer *w,
			  const struct apus_qos *qos)
{
	bool keyed = w->plan->max_bytes != 0;
	struct apus_dp_writer_config c = {
		.guid = next_guid(p, keyed ? KIND_WRITER_KEYED : KIND_WRITER_KEYLESS),
		.reliable = qos->reliability == APUS_RELIABLE,
		.transient_local = qos->durability == APUS_TRANSIENT_LOCAL,
		.match_max = qos->max_matches,
		.deadline_ns = qos->deadline_ns,
		.liveliness = qos->liveliness,
		.lease_ns = qos->lease_ns,
		.lifespan_ns = qos->lifespan_ns,
		.publisher = w->publisher ? &w->publisher->dp : NULL,
		.batch_bytes = qos->batch_bytes,
		.batch_delay_ns = qos->batch_delay_ns,
		.cache = {.max_samples = qos->max_samples,
			  .max_instances = qos->max_instances,
			  .max_samples_per_instance = qos->max_samples_per_instance,
			  .depth = qos->history == APUS_KEEP_LAST ? qos->depth : 0,
			  .payload_bytes_max = payload_bytes(p, w->type, qos),
			  .key_bytes_max = w->plan->max_bytes,
			  .lent_slots = apus_ctl_domain_shm_lent(p, payload_bytes(p, w->type, qos)),
			  .loaned_slots = w->loan_max},
	};
	size_t size = (w->type->size_bytes + 15) & ~(size_t)15;
	int rc = apus_dp_writer_create(w->worker, &c, &w->dp);

	if (rc != 0)
		return rc;
	w->scratch_bytes = size + ARENA_BYTES;
	apus_dp_worker_take_turn(w->worker);
	rc = apus_dp_worker_reserve_scratch(w->worker, w->scratch_bytes);
	apus_dp_worker_end_turn(w->worker);
	return rc;
}

/* Under lock. */
static int register_writer(struct apus_participant *p, struct apus_writer *w,
			   const struct apus_endpoint_options *o, const struct apus_qos *qos)
{
	struct apus_wire_endpoint_source source = {
		.guid = w->dp->config.guid,
		.is_writer = true,
		.group = w->publisher ? w->publisher->dp.eid : (struct apus_eid){0},
		.max_sample_bytes = w->dp->config.cache.payload_bytes_max,
		.topic = o->topic,
		.type = o->type_name ? o->type_name : o->type->name,
		.qos = qos,
		.type_information = o->type->type_information,
		.type_information_bytes = o->type->type_information_bytes,
	};
	struct apus_ctl_local local = {.owner = w,
				       .writer_port = &w->dp->port,
				       .type = w->type,
				       .board = &w->board,
				       .context = context_of(p, w->worker)};
	int rc = apus_wire_endpoint_record_make(&source, p->scratch);

	if (rc != 0)
		return rc;
	apus_ctl_domain_add_locators(p, w->worker, p->scratch);
	apus_dp_worker_take_turn(w->worker);
	rc = apus_dp_worker_add_writer(w->worker, w->dp);
	apus_dp_worker_end_turn(w->worker);
	if (rc != 0)
		return rc;
	rc = announce(p, p->scratch, &local, &w->endpoint);
	if (rc == 0)
		return 0;
	apus_dp_worker_take_turn(w->worker);
	apus_dp_worker_remove_writer(w->worker, w->dp);
	apus_dp_worker_end_turn(w->worker);
	return rc;
}

static void free_writer(struct apus_writer *w)
{
	apus_dp_writer_destroy(w->dp);
	apus_dp_keyplan_release(w->plan);
	free(w);
}

int apus_writer_create(struct apus_participant *participant,
		       const struct apus_endpoint_options *options, struct apus_writer **writer_out)
{
	struct apus_writer *w;
	struct apus_qos qos;
	int rc;

	if (!apus_dp_alive(participant->fork_count))
		return APUS_ECLOSED;
	rc = check_options(participant, options, true);
	if (rc == 0)
		rc = apus_ctl_domain_complete_qos(participant, options, true, &qos);
	if (rc == 0 && options->loans &&
	    !apus_wire_says_plain(options->type, representation_of(&qos) == APUS_XCDR2))
		rc = APUS_ENOTSUP;
	if (rc == 0 && !has_room(participant, options->type, &qos))
		rc = APUS_ELIMIT;
	if (rc != 0)
		return rc;
	w = calloc(1, sizeof(*w) + strlen(options->topic) + 1);
	if (!w)
		return APUS_ENOMEM;
	w->participant = participant;
	w->worker = participant->workers[options->worker_idx];
	w->type = options->type;
	memcpy(w->topic, options->topic, strlen(options->topic));
	w->publisher = options->publisher;
	w->representation = representation_of(&qos);
	w->fixed = apus_wire_fixed_of(w->type, w->representation);
	/* Relaxed: nobody else knows it yet. */
	atomic_store_explicit(&w->autodispose, qos.autodispose, memory_order_relaxed);
	w->qos = qos;
	w->qos.partitions = NULL;
	w->max_blocking_ns = qos.max_blocking_ns;
	w->loan_max = options->loans;
	w->fork_count = participant->fork_count;
	apus_ctl_domain_await_room(participant, true);
	pthread_mutex_lock(&participant->lock);
	rc = apus_dp_keyplan_acquire(w->type, KEY_BYTES_MAX, &w->plan);
	if (rc == 0)
		rc = make_dp_writer(participant, w, &qos);
	if (rc == 0)
		rc = register_writer(participant, w, options, &qos);
	if (rc == 0) {
		w->next = participant->writers;
		w->link = &participant->writers;
		if (w->next)
			w->next->link = &w->next;
		participant->writers = w;
		if (w->publisher)
			w->publisher->member_count++;
		if (apus_dp_is_finite(w->dp->config.lease_ns)) /* it looks at all writers */
			apus_ctl_domain_alive_changed(participant);
		created(participant, w->endpoint);
	}
	pthread_mutex_unlock(&participant->lock);
	if (rc != 0) {
		free_writer(w);
		return rc;
	}
	rc = apus_ctl_domain_listen_begin(w, NULL);
	if (rc != 0)
		apus_writer_destroy(w);
	else
		*writer_out = w;
	return rc;
}

void apus_writer_destroy(struct apus_writer *writer)
{
	struct apus_participant *p;

	if (!writer || !apus_dp_alive(writer->fork_count))
		return;
	p = writer->participant;
	apus_ctl_domain_listen_end(p, &writer->listening, &writer->deaf);
	apus_ctl_domain_conditions_end(p, &writer->conditions);
	pthread_mutex_lock(&p->lock);
	*writer->link = writer->next;
	if (writer->next)
		writer->next->link = writer->link;
	/* First out of the worker, so that nothing uses the port any more; then out of the domain. */
	apus_dp_worker_take_turn(writer->worker);
	apus_dp_worker_remove_writer(writer->worker, writer->dp);
	apus_dp_worker_end_turn(writer->worker);
	withdraw(p, writer->endpoint, &writer->dp->config.guid);
	if (writer->publisher)
		writer->publisher->member_count--;
	if (apus_dp_is_finite(writer->dp->config.lease_ns))
		apus_ctl_domain_alive_changed(p);
	apus_ctl_domain_shm_forget(p, writer);
	apus_ctl_domain_changed(p);
	pthread_mutex_unlock(&p->lock);
	free_writer(writer);
}

/* --- readers ------------------------------------------------------------------------------------- */

static uint32_t held_max(uint32_t payload_bytes, uint32_t max_samples)
{
	uint32_t n = HELD_BYTES / payload_bytes;

	/* One that keeps few samples is not meant for a fast stream: thousands of them must stay small. */
	if (max_samples <= HELD_MIN)
		return HELD_MIN;
	if (n > HELD_SMALL && n > max_samples)
		n = max_samples > HELD_SMALL ? max_samples : HELD_SMALL;
	if (n < HELD_MIN)
		return HELD_MIN;
	return n < HELD_MAX ? n : HELD_MAX;
}

/* Samples a reader keeps where writers of other processes have put them. */
static uint32_t lent_max(const struct apus_participant *p, const struct apus_type *type,
			 const struct apus_qos *qos)
{
	uint32_t n = qos->max_samples < LENT_MAX ? qos->max_samples : LENT_MAX;

	if (!p->shm || p->config.shm_lend == APUS_CTL_LEND_OFF)
		return 0;
	if (p->config.shm_lend == APUS_CTL_LEND_ALL)
		return n;
	return type->plain_xcdr1 || type->plain_xcdr2 ? n : 0;
}

static int make_dp_reader(struct apus_participant *p, struct apus_reader *r,
			  const struct apus_qos *qos)
{
	bool keyed = apus_type_is_keyed(r->type);
	struct apus_dp_reader_config c = {
		.guid = next_guid(p, keyed ? KIND_READER_KEYED : KIND_READER_KEYLESS),
		.reliable = qos->reliability == APUS_RELIABLE,
		.transient_local = qos->durability == APUS_TRANSIENT_LOCAL,
		.type = r->type,
		.representation = representation_of(qos),
		.payload_bytes_max = payload_bytes(p, r->type, qos),
		.match_max = qos->max_matches,
		.held_max = held_max(payload_bytes(p, r->type, qos), qos->max_samples),
		.assembly_max =
			payload_bytes(p, r->type, qos) > UNFRAGMENTED_BYTES ? ASSEMBLY_MAX : 1,
		.subscriber = r->subscriber ? &r->subscriber->dp : NULL,
		.lent_max = lent_max(p, r->type, qos),
		.lend_any = p->config.shm_lend == APUS_CTL_LEND_ALL,
		.user = r,
		.inbox = {.exclusive = qos->ownership == APUS_EXCLUSIVE,
			  .separation_ns = qos->time_filter_ns,
			  .late = qos->time_filter_late,
			  .lifespan_ns = qos->lifespan_ns,
			  .coherent =
				  qos->coherent_access && qos->access_scope > APUS_SCOPE_INSTANCE,
			  .history = {.keep_all = qos->history == APUS_KEEP_ALL,
				      .depth = qos->depth,
				      .max_samples = qos->max_samples,
				      .max_samples_per_instance = qos->max_samples_per_instance,
				      .max_loans = qos->max_samples,
				      .deadline_ns = qos->deadline_ns,
				      .by_source = qos->destination_order == APUS_BY_SOURCE,
				      .by_instance = !(qos->ordered_access &&
						       qos->access_scope > APUS_SCOPE_INSTANCE),
				      .purge_no_writers_ns = apus_ctl_domain_purge_delay(
					      qos->autopurge_no_writers_ns),
				      .purge_disposed_ns = apus_ctl_domain_purge_delay(
					      qos->autopurge_disposed_ns),
				      .instances = {.capacity = qos->max_instances}}},
	};

	memcpy(&c.inbox.history.instances.seed, p->prefix.bytes + 4, 8);
	return apus_dp_reader_create(r->worker, &c, &r->dp);
}

int apus_ctl_domain_compile(const struct apus_participant *p, const struct apus_type *type,
			    const char *expression, const char *const *parameters, uint32_t count,
			    struct apus_dp_predicate **predicate_out,
			    struct apus_filter_error *error)
{
	struct apus_ctl_filter_limits limits = apus_ctl_domain_filter_limits(p);

	*predicate_out = NULL;
	if (!expression)
		return 0;
	if (!p->config.filtering)
		return APUS_ENOTSUP;
	return apus_ctl_filter_compile(type, expression, parameters, count, &limits, predicate_out,
				       error);
}

/* Classes of the application get text within the limits, as theirs. */
static int check_text(const struct apus_participant *p, const char *expression,
		      const char *const *parameters, uint32_t count)
{
	if (count > p->config.filter_parameters ||
	    strlen(expression) > p->config.filter_expression_bytes)
		return APUS_ELIMIT;
	for (uint32_t i = 0; i < count; i++)
		if (!parameters || !parameters[i])
			return APUS_EINVAL;
		else if (strlen(parameters[i]) > p->config.filter_parameter_bytes)
			return APUS_ELIMIT;
	return 0;
}

/* A class of the application has no way to say where it stumbled: all of the expression is at fault. */
static void blame_expression(const char *class_name, const char *expression,
			     struct apus_filter_error *error)
{
	if (!error)
		return;
	error->position = 0;
	error->length = (uint32_t)strlen(expression);
	snprintf(error->reason, sizeof(error->reason), "refused by filter class '%.64s'",
		 class_name);
	for (char *c = error->reason; *c; c++)
		if (*c < 0x20 || *c > 0x7e)
			*c = '?';
}

/* The filter of a reader, by its class; the name of another class needs the lock. NULL: no filter. */
static int compile_for(struct apus_participant *p, const struct apus_reader *r,
		       const char *type_name, const char *expression, const char *const *parameters,
		       uint32_t count, struct apus_dp_predicate **predicate_out,
		       struct apus_filter_error *error)
{
	const struct apus_filter_source source = {expression, parameters, count, r->type,
						  type_name};
	int rc;

	if (!expression ||
	    (!p->config.disable_builtin_sql && strcmp(r->filter_class, APUS_CTL_FILTER_CLASS) == 0))
		return apus_ctl_domain_compile(p, r->type, expression, parameters, count,
					       predicate_out, error);
	*predicate_out = NULL;
	if (!p->config.filtering)
		return APUS_ENOTSUP;
	rc = check_text(p, expression, parameters, count);
	if (rc != 0)
		return rc;
	rc = apus_ctl_domain_compile_custom(p, r->filter_class, &source, context_of(p, r->worker),
					    predicate_out);
	if (rc == APUS_EFILTER)
		blame_expression(r->filter_class, expression, error);
	return rc;
}

static int reader_record(struct apus_participant *p, struct apus_reader *r,
			 const struct apus_endpoint_options *o, const struct apus_qos *qos)
{
	char name[APUS_WIRE_NAME_BYTES + 1];
	struct apus_wire_endpoint_source source = {
		.guid = r->dp->config.guid,
		.topic = o->topic,
		.type = o->type_name ? o->type_name : o->type->name,
		.qos = qos,
		.type_information = o->type->type_information,
		.type_information_bytes = o->type->type_information_bytes,
	};
	int rc;

	if (o->filter_expression) {
		source.filter_name = o->filter_name;
		if (!o->filter_name) {
			snprintf(name, sizeof(name), "%.200s_filtered_%u", o->topic,
				 r->dp->eid.value >> 8);
			source.filter_name = name;
		}
		source.filter_class = r->filter_class;
		source.filter_expression = o->filter_expression;
		source.filter_parameters = o->filter_parameters;
		source.filter_parameter_count = o->filter_parameter_count;
	}
	rc = apus_wire_endpoint_record_make(&source, p->scratch);
	if (rc == 0)
		apus_ctl_domain_add_locators(p, r->worker, p->scratch);
	return rc;
}

static void unregister_reader(struct apus_reader *r)
{
	apus_dp_worker_take_turn(r->worker);
	apus_dp_worker_remove_reader(r->worker, r->dp);
	apus_dp_worker_end_turn(r->worker);
}

/* Under lock. The predicate passes on, also on failure. */
static int register_reader(struct apus_participant *p, struct apus_reader *r,
			   const struct apus_endpoint_options *o, const struct apus_qos *qos,
			   struct apus_dp_predicate *predicate)
{
	struct apus_ctl_local local = {
		.owner = r, .reader_port = &r->dp->port, .type = r->type, .board = &r->board};
	int rc = reader_record(p, r, o, qos);

	if (rc == 0) {
		apus_dp_worker_take_turn(r->worker);
		rc = apus_dp_worker_add_reader(r->worker, r->dp);
		apus_dp_worker_end_turn(r->worker);
	}
	if (rc != 0) {
		apus_ctl_filter_free(predicate);
		return rc;
	}
	rc = announce(p, p->scratch, &local, &r->endpoint);
	if (rc != 0) {
		apus_ctl_filter_free(predicate);
		unregister_reader(r);
		return rc;
	}
	if (!predicate)
		return 0;
	r->filter_generation = 1;
	rc = apus_ctl_publisher_set_filter(p->publisher, r->endpoint, predicate, 1);
	if (rc != 0) {
		unregister_reader(r);
		withdraw(p, r->endpoint, &r->dp->config.guid);
		apus_ctl_domain_changed(p);
	}
	return rc;
}

/* Under lock. */
static int build_reader(struct apus_participant *p, struct apus_reader *r,
			const struct apus_endpoint_options *o, const struct apus_qos *qos)
{
	struct apus_dp_predicate *predicate;
	int rc = compile_for(p, r, o->type_name ? o->type_name : o->type->name,
			     o->filter_expression, o->filter_parameters, o->filter_parameter_count,
			     &predicate, o->filter_error);

	if (rc != 0)
		return rc;
	rc = make_dp_reader(p, r, qos);
	if (rc != 0) {
		apus_ctl_filter_free(predicate);
		return rc;
	}
	return register_reader(p, r, o, qos, predicate);
}

/* With its arena of values and its texts. NULL without memory. */
static struct apus_reader *allocate_reader(const struct apus_endpoint_options *o)
{
	const char *class_name = o->filter_class ? o->filter_class : APUS_CTL_FILTER_CLASS;
	size_t topic_bytes = strlen(o->topic) + 1, class_bytes = strlen(class_name) + 1;
	struct apus_reader *r = calloc(1, sizeof(*r) + o->value_bytes + topic_bytes + class_bytes);
	char *texts;

	if (!r)
		return NULL;
	r->values = (uint8_t *)(r + 1);
	r->value_bytes = o->value_bytes;
	texts = (char *)r->values + o->value_bytes;
	r->topic = memcpy(texts, o->topic, topic_bytes);
	r->filter_class = memcpy(texts + topic_bytes, class_name, class_bytes);
	return r;
}

int apus_reader_create(struct apus_participant *participant,
		       const struct apus_endpoint_options *options, struct apus_reader **reader_out)
{
	struct apus_reader *r;
	struct apus_qos qos;
	int rc;

	if (!apus_dp_alive(participant->fork_count))
		return APUS_ECLOSED;
	rc = check_options(participant, options, false);
	if (rc == 0)
		rc = apus_ctl_domain_complete_qos(participant, options, false, &qos);
	if (rc == 0 && !has_room(participant, options->type, &qos))
		rc = APUS_ELIMIT;
	if (rc != 0)
		return rc;
	r = allocate_reader(options);
	if (!r)
		return APUS_ENOMEM;
	r->participant = participant;
	r->worker = participant->workers[options->worker_idx];
	r->type = options->type;
	r->subscriber = options->subscriber;
	r->qos = qos;
	r->qos.partitions = NULL;
	r->fork_count = participant->fork_count;
	apus_ctl_domain_await_room(participant, false);
	pthread_mutex_lock(&participant->lock);
	rc = build_reader(participant, r, options, &qos);
	if (rc == 0) {
		r->next = participant->readers;
		r->link = &participant->readers;
		if (r->next)
			r->next->link = &r->next;
		participant->readers = r;
		if (r->subscriber)
			r->subscriber->member_count++;
		created(participant, r->endpoint);
	}
	pthread_mutex_unlock(&participant->lock);
	if (rc != 0) {
		apus_dp_reader_destroy(r->dp);
		free(r);
		return rc;
	}
	rc = apus_ctl_domain_listen_begin(NULL, r);
	if (rc != 0)
		apus_reader_destroy(r);
	else
		*reader_out = r;
	return rc;
}

void apus_reader_destroy(struct apus_reader *reader)
{
	struct apus_participant *p;

	if (!reader || !apus_dp_alive(reader->fork_count))
		return;
	p = reader->participant;
	apus_ctl_domain_listen_end(p, &reader->listening, &reader->deaf);
	apus_ctl_domain_conditions_end(p, &reader->conditions);
	pthread_mutex_lock(&p->lock);
	*reader->link = reader->next;
	if (reader->next)
		reader->next->link = reader->link;
	unregister_reader(reader);
	withdraw(p, reader->endpoint, &reader->dp->config.guid);
	if (reader->subscriber)
		reader->subscriber->member_count--;
	apus_ctl_domain_changed(p);
	pthread_mutex_unlock(&p->lock);
	apus_dp_reader_destroy(reader->dp);
	free(reader);
}

void apus_ctl_domain_delete_entities(struct apus_participant *p)
{
	while (p->writers)
		apus_writer_destroy(p->writers);
	while (p->readers)
		apus_reader_destroy(p->readers);
	while (p->publishers)
		apus_publisher_destroy(p->publishers);
	while (p->subscribers)
		apus_subscriber_destroy(p->subscribers);
}

/* --- changing a filter ---------------------------------------------------------------------------- */

/* The reader's present record with another filter, in p->scratch. */
static int refilter_record(struct apus_participant *p, struct apus_reader *r,
			   const char *expression, const char *const *parameters, uint32_t count)
{
	const struct apus_wire_endpoint_record *old = r->endpoint->record;
	const char *partitions[APUS_WIRE_PARTITIONS_MAX];
	char name[APUS_WIRE_NAME_BYTES + 1];
	struct apus_qos qos;
	struct apus_wire_endpoint_source source = {
		.guid = old->guid,
		.topic = apus_wire_record_text(old, old->topic),
		.type = apus_wire_record_text(old, old->type),
		.qos = &qos,
		.type_information = (const uint8_t *)old->text + old->information_offset,
		.type_information_bytes = old->information_bytes,
	};
	int rc;

	apus_wire_endpoint_record_qos(old, partitions, &qos);
	if (expression) {
		if (old->filter.present)
			snprintf(name, sizeof(name), "%s",
				 apus_wire_record_text(old, old->filter.name));
		else
			snprintf(name, sizeof(name), "%.200s_filtered_%u", source.topic,
				 r->dp->eid.value >> 8);
		source.filter_name = name;
		source.filter_class = r->filter_class;
		source.filter_expression = expression;
		source.filter_parameters = parameters;
		source.filter_parameter_count = count;
	}
	rc = apus_wire_endpoint_record_make(&source, p->scratch);
	if (rc == 0)
		apus_ctl_domain_add_locators(p, r->worker, p->scratch);
	return rc;
}

/* Under lock. The predicate passes on, also on failure. Room in the publisher is reserved before the change
 * is announced, and what cannot fail any more is done last: a refused change leaves no trace. */
static int install_filter(struct apus_participant *p, struct apus_reader *r,
			  struct apus_dp_predicate *predicate, const char *expression,
			  const char *const *parameters, uint32_t count)
{
	uint64_t generation = r->filter_generation + 1;
	struct apus_ctl_shared_filter *reserved = NULL;
	int rc = refilter_record(p, r, expression, parameters, count);

	if (rc == 0)
		rc = apus_ctl_publisher_reserve_filter(p->publisher, r->endpoint, predicate,
						       p->scratch, &reserved);
	if (rc < 0) {
		apus_ctl_filter_free(predicate);
		return rc;
	}
	apus_dp_worker_take_turn(p->control);
	rc = apus_ctl_discovery_change_local(p->discovery, p->scratch, r->endpoint->generation + 1);
	apus_dp_worker_end_turn(p->control);
	if (rc < 0) {
		apus_ctl_publisher_cancel_filter(p->publisher, reserved);
		return rc;
	}
	apus_ctl_publisher_commit_filter(p->publisher, r->endpoint, reserved, generation);
	r->filter_generation = generation;
	return 0;
}

/* The owning worker has pruned once it has had a turn at the new epoch. */
static void await_adoption(struct apus_reader *r)
{
	apus_dp_worker_take_turn(r->worker);
	apus_dp_worker_end_turn(r->worker);
}

int64_t apus_reader_set_filter(struct apus_reader *reader, const char *expression,
			       const char *const *parameters, uint32_t parameter_count,
			       struct apus_filter_error *error_out)
{
	struct apus_participant *p = reader->participant;
	struct apus_dp_predicate *predicate;
	int64_t result;
	int rc;

	if (!apus_dp_alive(reader->fork_count))
		return APUS_ECLOSED;
	/* The slow part, before anything is touched; a class of the application needs the lock. */
	pthread_mutex_lock(&p->lock);
	rc = compile_for(
		p, reader,
		apus_wire_record_text(reader->endpoint->record, reader->endpoint->record->type),
		expression, parameters, parameter_count, &predicate, error_out);
	if (rc != 0) {
		pthread_mutex_unlock(&p->lock);
		return rc;
	}
	rc = install_filter(p, reader, predicate, expression, parameters, parameter_count);
	result = rc ? rc : (int64_t)reader->filter_generation;
	while (rc == 0 && apus_ctl_domain_settle(p)) {
		/* All retired snapshots are in use: let the workers move on. */
		pthread_mutex_unlock(&p->lock);
		apus_dp_pass_time(reader->worker);
		pthread_mutex_lock(&p->lock);
	}
	apus_dp_worker_wake(p->control);
	pthread_mutex_unlock(&p->lock);
	if (rc == 0)
		await_adoption(reader);
	return result;
}
