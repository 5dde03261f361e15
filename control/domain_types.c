/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The TypeLookup service (XTypes 1.3 §7.6.3.3): what others ask about types is answered, and what we want to
 * know is asked, through two pairs of built-in endpoints on the control worker.
 *
 * No amplifier: only participants that have proved to be where they say are answered, each within a budget of
 * bytes, and an answer goes to the asker alone. Requests are repeated, so what is refused or lost is no loss.
 */
#include "control/assign.h"
#include "control/domain.h"

#include <stdlib.h>
#include <string.h>

/* Bytes of answers a participant may cause at once, and in each second after that. */
#define ANSWER_BYTES ((int64_t)256 * 1024)
/* What a request for dependencies counts at least: its answer may be short after a long walk. */
#define DEPENDENCIES_BYTES ((int64_t)4 * 1024)
/* Types asked for in one request: a small answer each, usually less than one datagram together. */
#define ASK_MAX 16
/* Answers to a getTypeDependencies request in one reply. */
#define DEPENDENCIES_MAX 256

/* What one participant may still cause. Full at first, and again after a second without a request. */
struct apus_ctl_type_credit {
	struct apus_prefix prefix;
	struct apus_mono at;
	int64_t bytes;
};

/* Verdicts remembered; a pair has one place. */
#define VERDICTS 256

/* Whether a reader's type is assignable from a writer's, as long as no more is known of types. */
struct apus_ctl_type_verdict {
	struct apus_wire_type_hash writer, reader; /* kind NONE: free */
	struct apus_type_consistency policy;
	uint64_t version;
	int result;
};

/* --- life ---------------------------------------------------------------------------------------- */

int apus_ctl_domain_open_types(struct apus_participant *p)
{
	struct apus_ctl_types_config c = {
		.entries = p->config.types,
		.bytes = p->config.type_bytes,
	};
	int rc;

	memcpy(&c.seed, p->prefix.bytes + 4, sizeof(c.seed));
	rc = apus_ctl_types_create(&c, &p->types);
	if (rc != 0)
		return rc;
	p->type_credit = calloc(p->config.participants + 1, sizeof(*p->type_credit));
	p->type_reply = malloc(APUS_CTL_TYPE_REPLY_BYTES);
	p->type_verdicts = calloc(VERDICTS, sizeof(*p->type_verdicts));
	return p->type_credit && p->type_reply && p->type_verdicts ? 0 : APUS_ENOMEM;
}

void apus_ctl_domain_close_types(struct apus_participant *p)
{
	apus_ctl_domain_forget_found(p);
	apus_ctl_types_destroy(p->types);
	free(p->type_credit);
	free(p->type_reply);
	free(p->type_verdicts);
}

/* --- sending ------------------------------------------------------------------------------------- */

/* Writes a message for one participant. Under lock and control turn. */
static int send_one(struct apus_dp_writer *w, const struct apus_prefix *to, const uint8_t *payload,
		    int payload_bytes)
{
	struct apus_dp_write change = {
		.kind = APUS_ALIVE,
		.source = apus_wall_now(),
		.payload_bytes = (uint32_t)payload_bytes,
		.to = to,
	};
	uint32_t slot;
	int rc;

	if (payload_bytes < 0)
		return payload_bytes;
	slot = apus_dp_cache_acquire(&w->cache);
	if (slot == APUS_SHM_NO_SLOT)
		return APUS_ELIMIT;
	memcpy(apus_dp_cache_payload(&w->cache, slot), payload, (size_t)payload_bytes);
	rc = apus_dp_writer_write(w, slot, &change, apus_mono_now());
	if (rc != 0)
		apus_dp_cache_abandon(&w->cache, slot);
	return rc;
}

/* --- answering ----------------------------------------------------------------------------------- */

static void refill(struct apus_ctl_type_credit *c, const struct apus_prefix *prefix,
		   struct apus_mono now)
{
	int64_t elapsed_ns = now.ns - c->at.ns;

	if (!apus_prefix_equal(&c->prefix, prefix) || elapsed_ns >= APUS_NS_PER_SEC)
		c->bytes = ANSWER_BYTES;
	else if (elapsed_ns > 0)
		c->bytes += ANSWER_BYTES * elapsed_ns / APUS_NS_PER_SEC;
	if (c->bytes > ANSWER_BYTES)
		c->bytes = ANSWER_BYTES;
	c->prefix = *prefix;
	c->at = now;
}

static int encode_types(struct apus_participant *p, const struct apus_wire_type_request *r)
{
	struct apus_wire_type_answer answers[APUS_WIRE_TYPE_REQUEST_IDS];
	struct apus_wire_type_hash minimal[APUS_WIRE_TYPE_REQUEST_IDS];
	uint32_t count = 0;

	for (uint32_t i = 0; i < r->hash_count; i++) {
		struct apus_wire_type_answer *a = &answers[count];

		a->hash = r->hashes[i];
		if (!apus_ctl_types_bytes(p->types, &a->hash, &a->object, &a->object_bytes))
			continue;
		minimal[count++] = apus_ctl_types_minimal_of(p->types, &a->hash);
	}
	return apus_wire_type_reply_encode(r->identity, answers, minimal, count, p->type_reply,
					   APUS_CTL_TYPE_REPLY_BYTES);
}

struct dependency_list {
	const struct apus_ctl_types *types;
	uint32_t skip, count;
	bool more;
	struct apus_wire_type_answer answers[DEPENDENCIES_MAX];
};

static bool list_dependency(void *user, const struct apus_wire_type_hash *hash)
{
	struct dependency_list *l = user;
	struct apus_wire_type_answer *a = &l->answers[l->count];

	if (l->skip > 0) {
		l->skip--;
		return true;
	}
	if (l->count == DEPENDENCIES_MAX) {
		l->more = true;
		return false;
	}
	a->hash = *hash;
	a->object_bytes = 0;
	apus_ctl_types_bytes(l->types, hash, &a->object, &a->object_bytes);
	l->count++;
	return true;
}

/* The order of a walk is the same each time, so a number tells where to go on. */
static int encode_dependencies(struct apus_participant *p, const struct apus_wire_type_request *r)
{
	struct dependency_list l;

	l.types = p->types;
	l.skip = r->continuation;
	l.count = 0;
	l.more = false;
	apus_ctl_types_dependencies(p->types, r->hashes, r->hash_count, list_dependency, &l);
	return apus_wire_type_dependencies_encode(r->identity, l.answers, l.count,
						  l.more ? r->continuation + l.count : 0,
						  p->type_reply, APUS_CTL_TYPE_REPLY_BYTES);
}

static void answer(struct apus_participant *p, const struct apus_wire_type_request *r,
		   const struct apus_prefix *source, struct apus_mono now)
{
	struct apus_ctl_participant *asker = apus_ctl_graph_participant(p->graph, source);
	struct apus_ctl_type_credit *credit;
	int64_t least = r->dependencies ? DEPENDENCIES_BYTES : 0;
	int bytes;

	if (!asker || !apus_ctl_discovery_proved(p->discovery, asker)) {
		apus_counter_add(&p->type_counters.withheld, 1);
		return;
	}
	credit = &p->type_credit[asker->idx];
	refill(credit, source, now);
	if (credit->bytes < least) {
		apus_counter_add(&p->type_counters.withheld, 1);
		return;
	}
	bytes = r->dependencies ? encode_dependencies(p, r) : encode_types(p, r);
	if (bytes > credit->bytes ||
	    send_one(p->builtin[APUS_CTL_TYPE_REPLY].writer, source, p->type_reply, bytes) != 0) {
		apus_counter_add(&p->type_counters.withheld, 1);
		return;
	}
	credit->bytes -= bytes > least ? bytes : least;
	apus_counter_add(&p->type_counters.answered, 1);
}

/* Interop: Cyclone DDS 0.10.2 sends requests to all; it names a participant, or one of all zeros and expects
 * whoever can to answer. Then we speak only if we have something to say. */
static bool is_for_us(const struct apus_participant *p, const struct apus_wire_type_request *r)
{
	static const struct apus_prefix anybody;

	if (apus_prefix_equal(&r->server, &p->prefix))
		return true;
	if (!apus_prefix_equal(&r->server, &anybody))
		return false;
	for (uint32_t i = 0; i < r->hash_count; i++)
		if (apus_ctl_types_get(p->types, &r->hashes[i]))
			return true;
	return false;
}

void apus_ctl_domain_on_type_request(void *user, const struct apus_dp_sink_sample *s,
				     struct apus_mono now)
{
	struct apus_participant *p = user;
	struct apus_prefix source = apus_guid_prefix(&s->writer);
	struct apus_wire_type_request request;
	enum apus_wire_verdict verdict;

	if (s->change || !s->payload)
		return;
	verdict = apus_wire_type_request_decode(s->payload, s->payload_bytes, &request);
	if (verdict == APUS_WIRE_MALFORMED)
		apus_counter_add(&p->malformed_records, 1);
	if (verdict != APUS_WIRE_ACCEPT)
		return;
	if (!request.has_server || !is_for_us(p, &request))
		return;
	answer(p, &request, &source, now);
}

/* --- asking -------------------------------------------------------------------------------------- */

void apus_ctl_domain_on_type_reply(void *user, const struct apus_dp_sink_sample *s,
				   struct apus_mono now)
{
	struct apus_participant *p = user;
	struct apus_prefix source = apus_guid_prefix(&s->writer);
	struct apus_wire_type_pairs pairs;
	struct apus_wire_type_hash hash;
	enum apus_wire_verdict verdict;
	const uint8_t *object;
	size_t object_bytes;

	if (s->change || !s->payload)
		return;
	verdict = apus_wire_type_reply_decode(s->payload, s->payload_bytes, &pairs);
	if (verdict == APUS_WIRE_ACCEPT) {
		while (apus_wire_type_pairs_next(&pairs, &hash, &object, &object_bytes))
			if (hash.kind != APUS_WIRE_EK_NONE)
				apus_ctl_types_learn(p->types, &hash, object, object_bytes, &source,
						     now);
		if (apus_wire_value_bad(&pairs.value))
			verdict = APUS_WIRE_MALFORMED;
	}
	if (verdict == APUS_WIRE_MALFORMED)
		apus_counter_add(&p->malformed_records, 1);
}

/* Whom to ask for a type: whoever announced it, unless that was ourselves. */
static const struct apus_prefix *owner(const struct apus_participant *p,
				       const struct apus_wire_endpoint_record *record,
				       struct apus_prefix *prefix)
{
	*prefix = apus_guid_prefix(&record->guid);
	return apus_prefix_equal(prefix, &p->prefix) ? NULL : prefix;
}

/* Looks after all that two types are made of. */
static bool is_there(struct apus_participant *p, const struct apus_wire_endpoint_record *record,
		     struct apus_mono now)
{
	struct apus_prefix prefix;

	return apus_ctl_types_closure(p->types, &record->types.minimal, owner(p, record, &prefix),
				      now) == APUS_CTL_CLOSURE_COMPLETE;
}

static bool both_there(struct apus_participant *p, const struct apus_wire_endpoint_record *writer,
		       const struct apus_wire_endpoint_record *reader)
{
	struct apus_mono now = apus_mono_now();
	bool known = is_there(p, writer, now);

	return is_there(p, reader, now) && known;
}

static int judge(struct apus_participant *p, const struct apus_wire_endpoint_record *writer,
		 const struct apus_wire_endpoint_record *reader)
{
	return apus_ctl_types_assignable(p->types, &reader->types.minimal, &writer->types.minimal,
					 &reader->qos.consistency, NULL) == APUS_CTL_ASSIGNABLE
		       ? APUS_POLICY_NONE
		       : APUS_POLICY_TYPE;
}

int apus_ctl_domain_assignable(void *user, const struct apus_wire_endpoint_record *writer,
			       const struct apus_wire_endpoint_record *reader)
{
	struct apus_participant *p = user;
	const struct apus_wire_type_hash *w = &writer->types.minimal, *r = &reader->types.minimal;
	uint32_t at = (w->bytes[0] ^ r->bytes[0] << 3 ^ r->bytes[1]) % VERDICTS;
	struct apus_ctl_type_verdict *v = &p->type_verdicts[at];
	uint64_t version = apus_ctl_types_version(p->types);

	if (v->version == version && apus_wire_type_hash_equal(&v->writer, w) &&
	    apus_wire_type_hash_equal(&v->reader, r) &&
	    memcmp(&v->policy, &reader->qos.consistency, sizeof(v->policy)) == 0)
		return v->result;
	/* What is missing is asked for, so that this is no verdict to remember. */
	if (!both_there(p, writer, reader))
		return APUS_POLICY_TYPE;
	v->result = judge(p, writer, reader);
	v->writer = *w;
	v->reader = *r;
	v->policy = reader->qos.consistency;
	v->version = version;
	return v->result;
}

/* What endpoints refer to is kept, the rest of what was learnt is dropped. */
static void clear_out(struct apus_participant *p)
{
	struct apus_ctl_endpoint *e = NULL;

	apus_ctl_types_keep_begin(p->types);
	while ((e = apus_ctl_graph_next_endpoint(p->graph, e))) {
		if (e->is_builtin)
			continue;
		apus_ctl_types_keep(p->types, &e->record->types.minimal);
		apus_ctl_types_keep(p->types, &e->record->types.complete);
	}
	apus_ctl_types_keep_end(p->types);
}

int apus_ctl_domain_add_type(struct apus_participant *p, const struct apus_type *type)
{
	int rc = apus_ctl_types_add_local(p->types, type);

	/* Our own types go before what others told and nobody uses any more. */
	if (rc == APUS_ELIMIT) {
		clear_out(p);
		rc = apus_ctl_types_add_local(p->types, type);
	}
	return rc;
}

struct apus_mono apus_ctl_domain_types_turn(struct apus_participant *p, struct apus_mono now)
{
	struct apus_dp_writer *w = p->builtin[APUS_CTL_TYPE_REQUEST].writer;
	struct apus_wire_type_hash hashes[ASK_MAX];
	uint8_t payload[APUS_WIRE_TYPE_REQUEST_BYTES];
	struct apus_prefix from;
	struct apus_mono due;
	uint32_t count;

	if (apus_ctl_types_full(p->types))
		clear_out(p);
	if (apus_ctl_types_news(p->types))
		apus_ctl_graph_types_changed(p->graph);
	while ((count = apus_ctl_types_next_request(p->types, now, &from, hashes, ASK_MAX, &due)) >
	       0) {
		int bytes = apus_wire_type_request_encode(&w->config.guid, w->last + 1, &from,
							  hashes, count, payload, sizeof(payload));

		if (send_one(w, &from, payload, bytes) == 0)
			apus_counter_add(&p->type_counters.asked, 1);
	}
	return due;
}
