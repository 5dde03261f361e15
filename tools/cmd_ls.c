/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `apus ls`: what is in a domain, why endpoints of one topic do not match, and where data goes if they do.
 *
 * The JSON form is one object a line; "kind" tells which: participant, topic, writer, reader, mismatch,
 * route, type.
 * Lines of a topic's endpoints follow its own.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/commands.h"
#include "tools/guid.h"
#include "tools/json.h"
#include "tools/listing.h"
#include "tools/qos_words.h"
#include "tools/session.h"
#include "tools/terminal.h"
#include "tools/text.h"

/* How long others may take to tell a type, and the longest text of one. */
#define LOOKUP_NS INT64_C(2000000000)
#define IDL_BYTES ((size_t)256 * 1024)
/* What two others have agreed on between them no third party sees. */
#define ROUTES_REMARK                                                                                  \
	"\nroutes are by what is announced: two processes of this host that have shm=on share memory " \
	"instead, see `apus shm ls`"
#define QOS_BYTES (QOS_PARTITIONS_MAX * 256 + 1024)

struct values {
	struct session_options session;
	int64_t wait_ns;
	bool json, types, routes;
};

static const struct option options[] = {
	SESSION_OPTIONS(struct values),
	{"wait", "S", "listen for S seconds first (default 1)", OPTION_SECONDS, 0,
	 offsetof(struct values, wait_ns), 0, 0},
	{"types", NULL, "show the types of topics, asked of who uses them", OPTION_FLAG, 0,
	 offsetof(struct values, types), 0, 0},
	{"routes", NULL, "show where the data of each match goes, and why", OPTION_FLAG, 0,
	 offsetof(struct values, routes), 0, 0},
	{"json", NULL, "one JSON object a line", OPTION_FLAG, 0, offsetof(struct values, json), 0,
	 0},
};

/* ---- JSON --------------------------------------------------------------------------------------- */

static void json_text(const char *text)
{
	size_t bytes = 6 * strlen(text) + 3;
	char *json = malloc(bytes);

	if (json && text_to_json(text, json, bytes) >= 0)
		fputs(json, stdout);
	else
		fputs("null", stdout);
	free(json);
}

static void json_field(const char *name, const char *text)
{
	printf(",\"%s\":", name);
	json_text(text);
}

static void json_list(const char *name, const char *const *texts, uint32_t count)
{
	printf("\"%s\":[", name);
	for (uint32_t i = 0; i < count; i++) {
		fputs(i ? "," : "", stdout);
		json_text(texts[i]);
	}
	putchar(']');
}

static void json_guid(const char *name, const struct apus_guid *guid)
{
	char text[GUID_TEXT_BYTES];

	printf(",\"%s\":\"%s\"", name, guid_to_text(guid, text));
}

/* Both are indexed by enum apus_known. */
static const char *const known_words[] = {"directly", "server", "by_server"};
static const char *const known_texts[] = {"", "  (discovery server)", "  (by a server's word)"};

static void json_participant(const struct apus_participant_info *p)
{
	char lease[DURATION_TEXT_BYTES];

	fputs("{\"kind\":\"participant\"", stdout);
	json_guid("guid", &p->guid);
	json_field("name", p->name);
	json_field("vendor", p->vendor);
	json_field("lease", duration_to_text(p->lease_ns, lease));
	printf(",\"local\":%s,\"known\":\"%s\",", p->local ? "true" : "false",
	       known_words[p->known]);
	json_list("locators", p->locators, p->locator_count);
	fputs("}\n", stdout);
}

static void json_topic(const struct apus_endpoint_info *endpoints, size_t count)
{
	size_t writers = 0;

	for (size_t i = 0; i < count; i++)
		writers += endpoints[i].is_writer;
	fputs("{\"kind\":\"topic\"", stdout);
	json_field("topic", endpoints->topic);
	printf(",\"writers\":%zu,\"readers\":%zu}\n", writers, count - writers);
}

static void json_word(const char *name, const char *value, void *user)
{
	(void)user;
	printf("\"%s\":", name);
	json_text(value);
	putchar(',');
}

static void json_filter(const struct apus_endpoint_info *e)
{
	if (!e->filter_expression && !e->filter_class)
		return;
	fputs(",\"filter\":{\"class\":", stdout);
	json_text(e->filter_class ? e->filter_class : "");
	json_field("expression", e->filter_expression ? e->filter_expression : "");
	putchar(',');
	json_list("parameters", e->filter_parameters, e->filter_parameter_count);
	putchar('}');
}

static void json_endpoint(const struct apus_endpoint_info *e)
{
	printf("{\"kind\":\"%s\"", e->is_writer ? "writer" : "reader");
	json_guid("guid", &e->guid);
	json_field("topic", e->topic);
	json_field("type", e->type_name);
	printf(",\"local\":%s,\"qos\":{", e->local ? "true" : "false");
	qos_visit_words(e->qos, e->is_writer, json_word, NULL);
	json_list("partition", e->qos->partitions, e->qos->partition_count);
	putchar('}');
	json_filter(e);
	putchar(',');
	json_list("locators", e->locators, e->locator_count);
	fputs("}\n", stdout);
}

static void json_mismatch(const struct apus_endpoint_info *writer,
			  const struct apus_endpoint_info *reader, const char *policy,
			  const char *why)
{
	fputs("{\"kind\":\"mismatch\"", stdout);
	json_field("topic", writer->topic);
	json_guid("writer", &writer->guid);
	json_guid("reader", &reader->guid);
	json_field("policy", policy);
	if (*why)
		json_field("why", why);
	fputs("}\n", stdout);
}

static void json_way(const char *name, const char *address, int reason)
{
	printf(",\"%s\":{\"address\":", name);
	json_text(address);
	json_field("why", apus_route_reason_text(reason));
	putchar('}');
}

static void json_route(const struct apus_endpoint_info *writer,
		       const struct apus_endpoint_info *reader, const struct apus_route *route)
{
	fputs("{\"kind\":\"route\"", stdout);
	json_field("topic", writer->topic);
	json_guid("writer", &writer->guid);
	json_guid("reader", &reader->guid);
	json_way("data", route->data, route->data_reason);
	if (*route->multicast)
		json_field("multicast", route->multicast);
	json_way("acknowledgements", route->acks, route->acks_reason);
	fputs("}\n", stdout);
}

static void json_type(const struct apus_endpoint_info *e, const char *idl, const char *why)
{
	fputs("{\"kind\":\"type\"", stdout);
	json_field("topic", e->topic);
	json_field("type", e->type_name);
	json_field(idl ? "idl" : "why", idl ? idl : why);
	fputs("}\n", stdout);
}

/* ---- text --------------------------------------------------------------------------------------- */

/* Names and expressions come from strangers: what could move the cursor is shown as '?'. */
static void put_safe(const char *text)
{
	for (; *text; text++)
		putchar((unsigned char)*text < ' ' || *text == 127 ? '?' : *text);
}

static void text_coloured(enum ink colour, const char *text)
{
	fputs(ink(stdout, colour), stdout);
	put_safe(text);
	fputs(ink(stdout, INK_NONE), stdout);
}

static void text_locators(const char *const *locators, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		fputs("        ", stdout);
		text_coloured(INK_DIM, locators[i]);
		putchar('\n');
	}
}

static void text_participant(const struct apus_participant_info *p)
{
	char guid[GUID_TEXT_BYTES], lease[DURATION_TEXT_BYTES];

	fputs("participant ", stdout);
	text_coloured(INK_NAME, guid_to_text(&p->guid, guid));
	fputs("  ", stdout);
	put_safe(p->vendor);
	if (*p->name) {
		fputs("  ", stdout);
		text_coloured(INK_STRONG, p->name);
	}
	printf("  lease %s%s\n", duration_to_text(p->lease_ns, lease),
	       p->local ? "  (this command)" : known_texts[p->known]);
	text_locators(p->locators, p->locator_count);
}

static void text_topic(const struct apus_endpoint_info *endpoints, size_t count)
{
	(void)count;
	fputs("\ntopic ", stdout);
	text_coloured(INK_STRONG, endpoints->topic);
	putchar('\n');
}

static void text_filter(const struct apus_endpoint_info *e)
{
	if (!e->filter_expression && !e->filter_class)
		return;
	fputs("        filter ", stdout);
	put_safe(e->filter_class ? e->filter_class : "?");
	fputs(": ", stdout);
	text_coloured(INK_GOOD, e->filter_expression ? e->filter_expression : "");
	for (uint32_t i = 0; i < e->filter_parameter_count; i++) {
		printf("  %%%u = ", i);
		put_safe(e->filter_parameters[i]);
	}
	putchar('\n');
}

static void text_endpoint(const struct apus_endpoint_info *e)
{
	char guid[GUID_TEXT_BYTES], words[QOS_BYTES];

	printf("  %s ", e->is_writer ? "writer" : "reader");
	text_coloured(INK_NAME, guid_to_text(&e->guid, guid));
	fputs("  ", stdout);
	put_safe(e->type_name);
	fputs("  ", stdout);
	qos_to_words(e->qos, e->is_writer, words, sizeof(words));
	put_safe(words);
	putchar('\n');
	text_filter(e);
	text_locators(e->locators, e->locator_count);
}

static void text_mismatch(const struct apus_endpoint_info *writer,
			  const struct apus_endpoint_info *reader, const char *policy,
			  const char *why)
{
	char guid[GUID_TEXT_BYTES];

	printf("  %sno match%s: writer %s", ink(stdout, INK_BAD), ink(stdout, INK_NONE),
	       guid_to_text(&writer->guid, guid));
	printf(" and reader %s differ in ", guid_to_text(&reader->guid, guid));
	text_coloured(INK_BAD, policy);
	if (*why) {
		fputs(": ", stdout);
		put_safe(why);
	}
	putchar('\n');
}

static void text_way(const char *what, const char *address, int reason)
{
	printf("        %s ", what);
	text_coloured(*address ? INK_GOOD : INK_BAD, *address ? address : "nowhere");
	printf(" (%s)\n", apus_route_reason_text(reason));
}

static void text_route(const struct apus_endpoint_info *writer,
		       const struct apus_endpoint_info *reader, const struct apus_route *route)
{
	char guid[GUID_TEXT_BYTES];

	printf("  match: writer %s", guid_to_text(&writer->guid, guid));
	printf(" and reader %s\n", guid_to_text(&reader->guid, guid));
	text_way("data to", route->data, route->data_reason);
	if (*route->multicast)
		printf("        or, with other readers there, to %s\n", route->multicast);
	text_way("acknowledgements to", route->acks, route->acks_reason);
}

static void text_type(const struct apus_endpoint_info *e, const char *idl, const char *why)
{
	fputs("  type ", stdout);
	put_safe(e->type_name);
	if (!idl) {
		fputs(" is not told: ", stdout);
		put_safe(why);
		putchar('\n');
		return;
	}
	fputs("\n    ", stdout);
	for (; *idl; idl++) {
		putchar(*idl == '\n' || ((unsigned char)*idl >= ' ' && *idl != 127) ? *idl : '?');
		if (*idl == '\n' && idl[1] && idl[1] != '\n')
			fputs("    ", stdout);
	}
}

/* ---- the listing -------------------------------------------------------------------------------- */

/* One way of showing each thing. */
struct form {
	void (*participant)(const struct apus_participant_info *p);
	void (*topic)(const struct apus_endpoint_info *endpoints, size_t count);
	void (*endpoint)(const struct apus_endpoint_info *e);
	void (*mismatch)(const struct apus_endpoint_info *writer,
			 const struct apus_endpoint_info *reader, const char *policy,
			 const char *why);
	void (*route)(const struct apus_endpoint_info *writer,
		      const struct apus_endpoint_info *reader, const struct apus_route *route);
	/* idl NULL: `why` tells why there is none. */
	void (*type)(const struct apus_endpoint_info *e, const char *idl, const char *why);
};

static const struct form json_form = {json_participant, json_topic, json_endpoint,
				      json_mismatch,    json_route, json_type};
static const struct form text_form = {text_participant, text_topic, text_endpoint,
				      text_mismatch,    text_route, text_type};

/* What differs; types are compared where others tell them soon. */
static int mismatch(struct apus_participant *participant, const struct apus_endpoint_info *writer,
		    const struct apus_endpoint_info *reader, char *why, size_t why_bytes)
{
	int64_t end = session_deadline(LOOKUP_NS);
	int policy = apus_pair_mismatch(participant, &writer->guid, &reader->guid, why, why_bytes);

	while (policy == APUS_EAGAIN && session_now_ns() < end) {
		nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
		policy = apus_pair_mismatch(participant, &writer->guid, &reader->guid, why,
					    why_bytes);
	}
	/* It has gone meanwhile, or tells nothing: what was heard before must do. */
	return policy >= 0 ? policy : apus_endpoint_mismatch(writer, reader);
}

static void show_route(const struct form *form, struct apus_participant *participant,
		       const struct apus_endpoint_info *writer,
		       const struct apus_endpoint_info *reader)
{
	struct apus_route route;

	/* One of them may have gone meanwhile. */
	if (apus_pair_route(participant, &writer->guid, &reader->guid, &route) == 0)
		form->route(writer, reader, &route);
}

/* What keeps pairs from matching and, if wanted, where the data of those that match goes. */
static void show_pairs(const struct form *form, struct apus_participant *participant,
		       const struct apus_endpoint_info *endpoints, size_t count, bool routes)
{
	size_t readers = 0;
	char why[256];

	while (readers < count && endpoints[readers].is_writer)
		readers++;
	for (size_t w = 0; w < readers; w++) {
		for (size_t r = readers; r < count; r++) {
			int policy = mismatch(participant, &endpoints[w], &endpoints[r], why,
					      sizeof(why));

			if (policy != APUS_POLICY_NONE)
				form->mismatch(&endpoints[w], &endpoints[r],
					       apus_policy_name(policy), why);
			else if (routes)
				show_route(form, participant, &endpoints[w], &endpoints[r]);
		}
	}
}

static bool same_hash(const struct apus_endpoint_info *a, const struct apus_endpoint_info *b)
{
	if (!a->complete_hash || !b->complete_hash)
		return !a->complete_hash && !b->complete_hash &&
		       strcmp(a->type_name, b->type_name) == 0;
	return memcmp(a->complete_hash, b->complete_hash, APUS_TYPE_HASH_BYTES) == 0;
}

static void show_type(const struct form *form, struct apus_participant *participant,
		      const struct apus_endpoint_info *e)
{
	char *idl = malloc(IDL_BYTES);
	const struct apus_type *type;
	int rc = idl ? apus_type_lookup(participant, &e->guid, LOOKUP_NS, &type) : APUS_ENOMEM;

	if (rc == 0)
		rc = apus_type_to_idl(type, idl, IDL_BYTES);
	if (rc == APUS_ENOENT)
		form->type(e, NULL, "it is not announced");
	else
		form->type(e, rc >= 0 ? idl : NULL, rc >= 0 ? "" : apus_strerror(rc));
	free(idl);
}

/* Each different type of a topic once. */
static void show_types(const struct form *form, struct apus_participant *participant,
		       const struct apus_endpoint_info *endpoints, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		size_t before = 0;

		while (before < i && !same_hash(&endpoints[before], &endpoints[i]))
			before++;
		if (before == i)
			show_type(form, participant, &endpoints[i]);
	}
}

static void show(const struct form *form, const struct listing *l,
		 struct apus_participant *participant, const struct values *values)
{
	size_t count;

	for (size_t i = 0; i < l->participant_count; i++)
		form->participant(&l->participants[i]);
	for (size_t first = 0; first < l->endpoint_count; first += count) {
		const struct apus_endpoint_info *endpoints = &l->endpoints[first];

		count = listing_topic_length(l, first);
		form->topic(endpoints, count);
		for (size_t i = 0; i < count; i++)
			form->endpoint(&endpoints[i]);
		show_pairs(form, participant, endpoints, count, values->routes);
		if (values->types)
			show_types(form, participant, endpoints, count);
	}
}

static int list(struct session *session, const struct values *values)
{
	struct listing listing = {0};
	int rc;

	if (session_wait(session, -1, session_deadline(values->wait_ns)) == SESSION_STOPPED)
		return EXIT_TIMED_OUT;
	rc = listing_collect(session->participant, &listing);
	if (rc != 0)
		rc = complain_failed("cannot list the domain: %s", apus_strerror(rc));
	else
		show(values->json ? &json_form : &text_form, &listing, session->participant,
		     values);
	if (rc == 0 && values->routes && !values->json && listing.endpoint_count > 0)
		puts(ROUTES_REMARK);
	listing_fini(&listing);
	return rc;
}

static int run(const struct command *command, int argc, char **argv)
{
	static struct values values = {.wait_ns = 1000000000};
	struct session session;
	int word_count, rc;

	session_options_default(&values.session);
	values.session.see_all = true;
	rc = options_parse(command, argc, argv, &values, &word_count);
	if (rc != EXIT_DONE)
		return rc < 0 ? EXIT_DONE : rc;
	if (word_count > 0)
		return complain("%s: `apus ls` takes no further word", argv[0]);
	rc = session_open(&session, &values.session, "apus ls");
	if (rc != EXIT_DONE)
		return rc;
	session_report(&session, &values.session);
	rc = list(&session, &values);
	session_close(&session);
	return rc;
}

const struct command cmd_ls = {
	"ls",
	"[--domain N] [--wait S] [--types] [--routes] [--json]",
	"List participants, topics and endpoints, and why endpoints do not match.",
	"With --json, \"kind\" is participant, topic, writer, reader, mismatch, route or type; a mismatch names\n"
	"the first policy that differs. --routes shows addresses as this host, with these settings, chooses\n"
	"them; other processes of one host that share memory (shm=on) send no data there: `apus shm ls` shows them.\n"
	"QoS is shown in the words that pub and sub understand.\n",
	options,
	sizeof(options) / sizeof(options[0]),
	run,
};
