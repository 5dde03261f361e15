/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goal: types have one identity for Apus and for Cyclone DDS 0.10.2, and each answers what the other asks of its
 * types.
 * Method: a participant of each in this process, in a network namespace of its own (tests/interop starts it
 * there). Every shape of shapes.py has a topic with an endpoint of each.
 *
 * Usage: typeids hashes   Apus readers under `type_matching = strict` and Cyclone writers, then the reverse:
 *                         all match, and both hashes that Cyclone announces are those of our own records
 *        typeids evolved  writers of the older, readers of the newer type and the reverse: all match; types
 *                         that are not assignable do not
 *        typeids lookup   Cyclone knows no type and asks Apus for each, complete and minimal
 *        typeids build    Apus knows no type, asks Cyclone for each, and builds descriptors equal to its own
 *        typeids publish  Cyclone writes one sample of s::new_a each 50 ms for 15 s, for `apus sub`
 */
#include <apus/apus.h>

#include <dds/dds.h>
#include <dds/ddsi/ddsi_xqos.h>
#include <dds/ddsi/ddsi_typelib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHAPE(name)                                \
	extern const struct apus_type name##_type; \
	extern const dds_topic_descriptor_t name##_desc;
#include "shapes_table.h"
#undef SHAPE

/* The C image of s::new_a on Cyclone's side, as its header has it. */
typedef enum { n_RED, n_GREEN, n_BLUE } n_Color;
typedef struct {
	int32_t a;
	int16_t b;
} s_part_new_a;
typedef struct {
	int32_t k;
	char *note;
	s_part_new_a part;
	struct {
		uint32_t _maximum, _length;
		s_part_new_a *_buffer;
		bool _release;
	} parts;
	int32_t added;
	char *text;
	n_Color color;
	int32_t *maybe;
} s_new_a;

struct shape {
	const char *name;
	const struct apus_type *type;
	const dds_topic_descriptor_t *desc;
};

static const struct shape shapes[] = {
#define SHAPE(name) {#name, &name##_type, &name##_desc},
#include "shapes_table.h"
};
#define SHAPE_COUNT (sizeof(shapes) / sizeof(shapes[0]))

static struct apus_participant *apus;
static dds_entity_t cyclone;
static unsigned int failures;

static void expect(bool good, const char *name, const char *what)
{
	if (good)
		return;
	failures++;
	fprintf(stderr, "%s: %s\n", name, what);
}

static void must(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "typeids: %s\n", what);
	exit(2);
}

static int64_t now_ns(void)
{
	return dds_time();
}

static void rest(void)
{
	dds_sleepfor(DDS_MSECS(20));
}

static void open_both(const char *type_matching)
{
	struct apus_config *config = apus_config_create();
	char why[256] = "";

	must(apus_config_set(config, "type_matching", type_matching, why, sizeof(why)) == 0, why);
	apus_config_set(config, "limits.local_endpoints", "1024", why, sizeof(why));
	must(apus_config_set(config, "worker.idle", "block", why, sizeof(why)) == 0, why);
	must(apus_config_set(config, "history.samples", "8", why, sizeof(why)) == 0, why);
	must(apus_config_set(config, "history.instances", "8", why, sizeof(why)) == 0, why);
	must(apus_config_set(config, "history.samples_per_instance", "1", why, sizeof(why)) == 0,
	     why);
	must(apus_participant_create(config, &apus, why, sizeof(why)) == 0, why);
	apus_config_destroy(config);
	cyclone = dds_create_participant(0, NULL, NULL);
	must(cyclone > 0, "cannot create a Cyclone participant");
}

static dds_entity_t cyclone_endpoint(const dds_topic_descriptor_t *desc, const char *topic,
				     bool writer)
{
	dds_qos_t *qos = dds_create_qos();
	dds_entity_t t, e;

	dds_qset_reliability(qos, DDS_RELIABILITY_RELIABLE, DDS_SECS(1));
	t = dds_create_topic(cyclone, desc, topic, NULL, NULL);
	must(t > 0, "cannot create a Cyclone topic");
	e = writer ? dds_create_writer(cyclone, t, qos, NULL)
		   : dds_create_reader(cyclone, t, qos, NULL);
	must(e > 0, "cannot create a Cyclone endpoint");
	dds_delete_qos(qos);
	return e;
}

static struct apus_qos endpoint_qos(const struct apus_type *type, bool writer)
{
	struct apus_qos qos;

	if (writer)
		apus_qos_writer_default(&qos);
	else
		apus_qos_reader_default(&qos);
	qos.reliability = APUS_RELIABLE;
	qos.max_sample_bytes = 4096;
	/* Cyclone writes types that are not final as XCDR2 only. */
	qos.representations[0] = APUS_XCDR2;
	qos.representations[1] = APUS_XCDR1;
	qos.representation_count = writer ? 1 : 2;
	if (writer && type->extensibility == APUS_FINAL)
		qos.representations[0] = APUS_XCDR2;
	return qos;
}

static struct apus_reader *apus_reader_of(const struct apus_type *type, const char *topic,
					  const char *type_name,
					  const struct apus_type_consistency *consistency)
{
	struct apus_qos qos = endpoint_qos(type, false);
	struct apus_endpoint_options o = {
		.topic = topic, .type = type, .type_name = type_name, .qos = &qos};
	struct apus_reader *r = NULL;

	if (consistency)
		qos.consistency = *consistency;
	must(apus_reader_create(apus, &o, &r) == 0, topic);
	return r;
}

static struct apus_writer *apus_writer_of(const struct apus_type *type, const char *topic,
					  const char *type_name)
{
	struct apus_qos qos = endpoint_qos(type, true);
	struct apus_endpoint_options o = {
		.topic = topic, .type = type, .type_name = type_name, .qos = &qos};
	struct apus_writer *w = NULL;

	must(apus_writer_create(apus, &o, &w) == 0, topic);
	return w;
}

static uint32_t cyclone_matched(dds_entity_t e, bool writer)
{
	dds_publication_matched_status_t p = {0};
	dds_subscription_matched_status_t s = {0};

	if (writer)
		dds_get_publication_matched_status(e, &p);
	else
		dds_get_subscription_matched_status(e, &s);
	return writer ? p.current_count : s.current_count;
}

/* ---- hashes ------------------------------------------------------------------------------------- */

/* The hashes local and remote endpoints of one topic announce. */
struct announced {
	char topic[64];
	uint8_t hash[2][2][APUS_TYPE_HASH_BYTES]; /* local, complete */
	bool has[2][2];
};

static struct announced announced[SHAPE_COUNT];

static bool note(const struct apus_endpoint_info *e, void *user)
{
	(void)user;
	for (size_t i = 0; i < SHAPE_COUNT; i++) {
		const uint8_t *hashes[2] = {e->minimal_hash, e->complete_hash};

		if (strcmp(shapes[i].name, e->topic) != 0)
			continue;
		for (int k = 0; k < 2; k++) {
			announced[i].has[e->local][k] = hashes[k] != NULL;
			if (hashes[k])
				memcpy(announced[i].hash[e->local][k], hashes[k],
				       APUS_TYPE_HASH_BYTES);
		}
	}
	return true;
}

static void compare_hashes(void)
{
	static const char *const what[2] = {"minimal hashes differ", "complete hashes differ"};

	memset(announced, 0, sizeof(announced));
	apus_visit_endpoints(apus, note, NULL);
	for (size_t i = 0; i < SHAPE_COUNT; i++)
		for (int k = 0; k < 2; k++)
			expect(announced[i].has[0][k] && announced[i].has[1][k] &&
				       memcmp(announced[i].hash[0][k], announced[i].hash[1][k],
					      APUS_TYPE_HASH_BYTES) == 0,
			       shapes[i].name, what[k]);
}

/* All of one side against all of the other, until both sides count one match each. */
static void hashes_between(bool cyclone_writes)
{
	static dds_entity_t theirs[SHAPE_COUNT];
	static struct apus_reader *readers[SHAPE_COUNT];
	static struct apus_writer *writers[SHAPE_COUNT];
	int64_t end = now_ns() + DDS_SECS(20);
	size_t matched = 0;

	for (size_t i = 0; i < SHAPE_COUNT; i++) {
		theirs[i] = cyclone_endpoint(shapes[i].desc, shapes[i].name, cyclone_writes);
		if (cyclone_writes)
			readers[i] = apus_reader_of(shapes[i].type, shapes[i].name, NULL, NULL);
		else
			writers[i] = apus_writer_of(shapes[i].type, shapes[i].name, NULL);
	}
	while (matched < SHAPE_COUNT && now_ns() < end) {
		matched = 0;
		rest();
		for (size_t i = 0; i < SHAPE_COUNT; i++)
			matched += cyclone_matched(theirs[i], cyclone_writes) == 1 &&
				   (cyclone_writes ? apus_reader_matched(readers[i])
						   : apus_writer_matched(writers[i])) == 1;
	}
	for (size_t i = 0; i < SHAPE_COUNT; i++) {
		expect(cyclone_matched(theirs[i], cyclone_writes) == 1, shapes[i].name,
		       "Cyclone does not match");
		expect((cyclone_writes ? apus_reader_matched(readers[i])
				       : apus_writer_matched(writers[i])) == 1,
		       shapes[i].name, "Apus does not match");
	}
	compare_hashes();
	for (size_t i = 0; i < SHAPE_COUNT; i++) {
		dds_delete(theirs[i]);
		if (cyclone_writes)
			apus_reader_destroy(readers[i]);
		else
			apus_writer_destroy(writers[i]);
	}
}

static void hashes(void)
{
	open_both("strict");
	hashes_between(true);
	hashes_between(false);
	printf("{\"shapes\":%zu,\"failures\":%u}\n", SHAPE_COUNT, failures);
}

/* ---- lookup ------------------------------------------------------------------------------------- */

static void stat_line(const struct apus_stat *stat, void *user)
{
	(void)user;
	if (strncmp(stat->name, "types.", 6) == 0)
		fprintf(stderr, "%s %llu\n", stat->name, (unsigned long long)stat->value);
}

static void get_object(const dds_builtintopic_endpoint_t *ep, ddsi_typeid_kind_t kind)
{
	const dds_typeinfo_t *info = NULL;
	dds_typeobj_t *object = NULL;
	dds_typeid_t *id;
	dds_return_t rc;

	must(dds_builtintopic_get_endpoint_type_info((dds_builtintopic_endpoint_t *)ep, &info) ==
			     0 &&
		     info,
	     "no type information");
	id = ddsi_typeinfo_typeid(info, kind);
	rc = dds_get_typeobj(cyclone, id, DDS_SECS(3), &object);
	expect(rc == 0 && object, ep->topic_name, dds_strretcode(rc));
	if (object)
		dds_free_typeobj(object);
	ddsi_typeid_fini(id);
	dds_free(id);
}

static void lookup(void)
{
	int64_t end = now_ns() + DDS_SECS(20);
	unsigned int seen = 0;
	dds_entity_t publications;

	open_both("names");
	publications = dds_create_reader(cyclone, DDS_BUILTIN_TOPIC_DCPSPUBLICATION, NULL, NULL);
	for (size_t i = 0; i < SHAPE_COUNT; i++)
		apus_writer_of(shapes[i].type, shapes[i].name, NULL);
	while (seen < SHAPE_COUNT && now_ns() < end) {
		dds_sample_info_t si;
		void *sample = NULL;

		if (dds_take(publications, &sample, &si, 1, 1) != 1) {
			rest();
			continue;
		}
		if (si.valid_data &&
		    strncmp(((dds_builtintopic_endpoint_t *)sample)->topic_name, "s_", 2) == 0) {
			get_object(sample, DDSI_TYPEID_KIND_COMPLETE);
			get_object(sample, DDSI_TYPEID_KIND_MINIMAL);
			seen++;
		}
		dds_return_loan(publications, &sample, 1);
	}
	expect(seen == SHAPE_COUNT, "lookup", "not every writer was discovered");
	apus_visit_stats(apus, stat_line, NULL);
	printf("{\"types\":%u,\"failures\":%u}\n", seen, failures);
}

/* ---- build -------------------------------------------------------------------------------------- */

static bool same_types(const struct apus_type *a, const struct apus_type *b);

/* The ids of union members are on no wire. */
static bool same_members(const struct apus_member *a, const struct apus_member *b, bool of_union)
{
	bool same = strcmp(a->name, b->name) == 0 && (of_union || a->id == b->id) &&
		    a->offset_bytes == b->offset_bytes && a->key == b->key &&
		    a->optional == b->optional && a->external == b->external &&
		    a->must_understand == b->must_understand && a->is_default == b->is_default &&
		    a->case_count == b->case_count && same_types(a->type, b->type);

	for (uint32_t i = 0; same && i < a->case_count; i++)
		same = a->cases[i] == b->cases[i];
	if (!same)
		fprintf(stderr,
			"member %s id %u offset %u default %d case_count %u / %s id %u offset %u default %d case_count %u\n",
			a->name, a->id, a->offset_bytes, a->is_default, a->case_count, b->name,
			b->id, b->offset_bytes, b->is_default, b->case_count);
	return same;
}

/* TypeObjects list labels by value, IDL as it likes. */
static bool has_label(const struct apus_type *type, const struct apus_label *label)
{
	for (uint32_t i = 0; i < type->label_count; i++)
		if (type->labels[i].value == label->value &&
		    strcmp(type->labels[i].name, label->name) == 0)
			return true;
	return false;
}

/* Interop: Cyclone DDS 0.10.2 says char of int8 and octet of uint8. */
static bool same_kind(uint8_t found, uint8_t own)
{
	return found == own || (found == APUS_KIND_OCTET && own == APUS_KIND_UINT8) ||
	       (found == APUS_KIND_CHAR && own == APUS_KIND_INT8);
}

/* All but defaults, which Cyclone's TypeObjects do not say (of enums neither), and names of nested types. */
static bool same_types(const struct apus_type *a, const struct apus_type *b)
{
	bool same = same_kind(a->kind, b->kind) && a->size_bytes == b->size_bytes &&
		    a->align_bytes == b->align_bytes && a->bound == b->bound &&
		    a->extensibility == b->extensibility && a->label_count == b->label_count &&
		    (a->bit_bound ? a->bit_bound : 32) == (b->bit_bound ? b->bit_bound : 32) &&
		    a->member_count == b->member_count && !a->element == !b->element &&
		    a->plain_xcdr1 == b->plain_xcdr1 && a->plain_xcdr2 == b->plain_xcdr2;

	if (!same)
		fprintf(stderr,
			"kind %u/%u size %u/%u align %u/%u bound %u/%u labels %u/%u plain %d%d/%d%d\n",
			a->kind, b->kind, a->size_bytes, b->size_bytes, a->align_bytes,
			b->align_bytes, a->bound, b->bound, a->label_count, b->label_count,
			a->plain_xcdr1, a->plain_xcdr2, b->plain_xcdr1, b->plain_xcdr2);
	if (same && a->element)
		same = same_types(a->element, b->element);
	for (uint32_t i = 0; same && i < a->label_count; i++)
		same = has_label(b, &a->labels[i]);
	for (uint32_t i = 0; same && i < a->member_count; i++)
		same = same_members(&a->members[i], &b->members[i], a->kind == APUS_KIND_UNION);
	return same;
}

struct found {
	struct apus_guid guid[SHAPE_COUNT];
	bool has[SHAPE_COUNT];
	size_t count;
};

static bool find(const struct apus_endpoint_info *e, void *user)
{
	struct found *f = user;

	for (size_t i = 0; i < SHAPE_COUNT && !e->local; i++)
		if (strcmp(shapes[i].name, e->topic) == 0 && !f->has[i]) {
			f->guid[i] = e->guid;
			f->has[i] = true;
			f->count++;
		}
	return true;
}

static void build(void)
{
	static struct found f;
	static char text[65536];
	int64_t end = now_ns() + DDS_SECS(20);

	open_both("names");
	for (size_t i = 0; i < SHAPE_COUNT; i++)
		cyclone_endpoint(shapes[i].desc, shapes[i].name, true);
	while (f.count < SHAPE_COUNT && now_ns() < end) {
		rest();
		apus_visit_endpoints(apus, find, &f);
	}
	for (size_t i = 0; i < SHAPE_COUNT; i++) {
		const struct apus_type *type = NULL;
		int rc = f.has[i] ? apus_type_lookup(apus, &f.guid[i], DDS_SECS(5), &type)
				  : APUS_ENOENT;

		expect(rc == 0, shapes[i].name, apus_strerror(rc));
		if (rc != 0)
			continue;
		expect(strcmp(type->name, shapes[i].type->name) == 0, shapes[i].name, "name");
		expect(same_types(type, shapes[i].type), shapes[i].name, "another descriptor");
		expect(apus_type_to_idl(type, text, sizeof(text)) > 0, shapes[i].name, "no text");
		apus_reader_of(type, shapes[i].name, NULL, NULL);
	}
	if (getenv("TYPEIDS_TEXT"))
		fputs(text, stderr);
	apus_visit_stats(apus, stat_line, NULL);
	printf("{\"types\":%zu,\"failures\":%u}\n", f.count, failures);
}

/* ---- publish ------------------------------------------------------------------------------------ */

static void publish(void)
{
	s_part_new_a part = {1, 2};
	s_new_a sample = {.k = 7,
			  .note = "hello",
			  .part = {4, 5},
			  .parts = {1, 1, &part, false},
			  .added = 42,
			  .text = "world",
			  .color = n_GREEN};
	dds_entity_t writer;

	cyclone = dds_create_participant(0, NULL, NULL);
	must(cyclone > 0, "cannot create a Cyclone participant");
	writer = cyclone_endpoint(&s_new_a_desc, "Typed", true);
	printf("{\"event\":\"ready\"}\n");
	fflush(stdout);
	for (int i = 0; i < 300; i++) {
		must(dds_write(writer, &sample) == 0, "cannot write");
		dds_sleepfor(DDS_MSECS(50));
	}
}

/* ---- evolved ------------------------------------------------------------------------------------ */

#define EVOLVING "s::evolving"

/* One side of a pair, by whoever implements it. */
struct side {
	const struct apus_type *type;
	const dds_topic_descriptor_t *desc;
};

static bool pair_matches(const char *topic, const struct side *writer, const struct side *reader,
			 bool cyclone_writes, bool wanted,
			 const struct apus_type_consistency *consistency)
{
	const struct side *theirs = cyclone_writes ? writer : reader;
	dds_topic_descriptor_t desc = *theirs->desc;
	int64_t end = now_ns() + (wanted ? DDS_SECS(5) : DDS_MSECS(500));
	dds_entity_t e;
	struct apus_reader *r = NULL;
	struct apus_writer *w = NULL;
	bool ours = false, both = false;

	desc.m_typename = EVOLVING;
	e = cyclone_endpoint(&desc, topic, cyclone_writes);
	if (cyclone_writes)
		r = apus_reader_of(reader->type, topic, EVOLVING, consistency);
	else
		w = apus_writer_of(writer->type, topic, EVOLVING);
	while (!both && now_ns() < end) {
		rest();
		ours = (r ? apus_reader_matched(r) : apus_writer_matched(w)) == 1;
		both = ours && cyclone_matched(e, cyclone_writes) == 1;
	}
	if (both != wanted)
		fprintf(stderr, "%s: ours %d, Cyclone's %u, wanted %d\n", topic, ours,
			cyclone_matched(e, cyclone_writes), wanted);
	dds_delete(e);
	if (r)
		apus_reader_destroy(r);
	else
		apus_writer_destroy(w);
	return both == wanted;
}

static void evolved(void)
{
	static const struct apus_type_consistency narrow = {.kind = APUS_ALLOW_TYPE_COERCION,
							    .ignore_string_bounds = true,
							    .ignore_sequence_bounds = true,
							    .prevent_type_widening = true};
	static const struct apus_type_consistency never = {.kind = APUS_DISALLOW_TYPE_COERCION};
	const struct side versions[2][2] = {
		{{&s_old_a_type, &s_old_a_desc}, {&s_new_a_type, &s_new_a_desc}},
		{{&s_old_m_type, &s_old_m_desc}, {&s_new_m_type, &s_new_m_desc}}};
	const struct side other = {&s_key_two_a_type, &s_key_two_a_desc};
	char topic[64];

	open_both("names");
	for (int kind = 0; kind < 2; kind++)
		for (int newer = 0; newer < 2; newer++)
			for (int cyclone_writes = 0; cyclone_writes < 2; cyclone_writes++) {
				const struct side *w = &versions[kind][newer];
				const struct side *r = &versions[kind][!newer];

				snprintf(topic, sizeof(topic), "evolved_%s_%s_writes_%s",
					 kind ? "m" : "a", cyclone_writes ? "cyclone" : "apus",
					 newer ? "new" : "old");
				expect(pair_matches(topic, w, r, cyclone_writes, true, NULL), topic,
				       "should match");
				if (!cyclone_writes)
					continue;
				strcat(topic, "_narrow");
				if (newer)
					expect(pair_matches(topic, w, r, true, false, &narrow),
					       topic, "widening");
				strcat(topic, "_never");
				expect(pair_matches(topic, w, r, true, false, &never), topic,
				       "coercion is forbidden");
			}
	expect(pair_matches("other_cyclone", &other, &versions[0][0], true, false, NULL), "other",
	       "should not match");
	expect(pair_matches("other_apus", &other, &versions[0][0], false, false, NULL), "other",
	       "should not match");
	apus_visit_stats(apus, stat_line, NULL);
	printf("{\"failures\":%u}\n", failures);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";

	if (strcmp(mode, "hashes") == 0)
		hashes();
	else if (strcmp(mode, "lookup") == 0)
		lookup();
	else if (strcmp(mode, "build") == 0)
		build();
	else if (strcmp(mode, "publish") == 0)
		publish();
	else if (strcmp(mode, "evolved") == 0)
		evolved();
	else
		must(false, "which test?");
	if (apus)
		apus_participant_destroy(apus);
	dds_delete(DDS_CYCLONEDDS_HANDLE);
	return failures ? 1 : 0;
}
