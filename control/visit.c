/* SPDX-License-Identifier: Apache-2.0 */
/* The graph as the public API shows it, and the public rule of who matches. */
#include "control/visit.h"

#include <string.h>

#define LOCATOR_TEXT_BYTES   80
#define PARTICIPANT_LOCATORS (4 * APUS_WIRE_LOCATORS_MAX)

/* Vendors whose numbers were seen or are registered with the OMG (RTPS 2.5 §8.3.3.1.3). */
static const struct {
	uint16_t id;
	const char *name;
} vendors[] = {
	{APUS_WIRE_VENDOR, "Apus"}, {0x0101, "Connext DDS"}, {0x0102, "OpenSplice"},
	{0x0103, "OpenDDS"},        {0x010a, "CoreDX DDS"},  {0x010f, "Fast DDS"},
	{0x0110, "Cyclone DDS"},    {0x0112, "RustDDS"},     {0x0114, "Dust DDS"},
};

const char *apus_ctl_vendor_name(uint16_t vendor)
{
	for (size_t i = 0; i < APUS_ARRAY_LENGTH(vendors); i++)
		if (vendors[i].id == vendor)
			return vendors[i].name;
	return NULL;
}

/* Texts of locators while a callback runs. */
struct locator_texts {
	uint32_t count;
	char text[PARTICIPANT_LOCATORS][LOCATOR_TEXT_BYTES];
	const char *pointer[PARTICIPANT_LOCATORS];
};

static void add_locators(struct locator_texts *texts, const struct apus_wire_locators *locators,
			 const char *role)
{
	for (uint32_t i = 0; i < locators->count && texts->count < PARTICIPANT_LOCATORS; i++) {
		char *text = texts->text[texts->count];

		apus_ctl_locator_text(&locators->at[i], text, LOCATOR_TEXT_BYTES);
		strncat(text, role, LOCATOR_TEXT_BYTES - strlen(text) - 1);
		texts->pointer[texts->count++] = text;
	}
}

static bool show_participant(const struct apus_ctl_participant *p,
			     bool (*visit)(const struct apus_participant_info *, void *),
			     void *user)
{
	static const char hex[] = "0123456789abcdef";
	char unknown[] = "vendor XX.XX";
	struct locator_texts texts = {.count = 0};
	struct apus_participant_info info = {
		.guid = apus_guid_make(&p->record.prefix,
				       (struct apus_eid){APUS_CTL_EID_PARTICIPANT}),
		.name = p->record.name,
		.vendor = apus_ctl_vendor_name(p->record.vendor),
		.lease_ns = p->record.lease_ns,
		.local = p->local,
		.known = p->role == APUS_CTL_SERVER    ? APUS_KNOWN_SERVER
			 : p->role == APUS_CTL_RELAYED ? APUS_KNOWN_BY_SERVER
						       : APUS_KNOWN_DIRECTLY,
		.locators = texts.pointer,
	};

	for (int i = 0; i < 4; i++)
		unknown[i + 7 + (i > 1)] = hex[p->record.vendor >> (12 - 4 * i) & 15];
	if (!info.vendor)
		info.vendor = unknown;
	add_locators(&texts, &p->record.default_unicast, " (default)");
	add_locators(&texts, &p->record.default_multicast, " (default multicast)");
	add_locators(&texts, &p->record.metatraffic_unicast, " (metatraffic)");
	add_locators(&texts, &p->record.metatraffic_multicast, " (metatraffic multicast)");
	info.locator_count = texts.count;
	return visit(&info, user);
}

int apus_ctl_visit_participants(const struct apus_ctl_graph *graph,
				bool (*visit)(const struct apus_participant_info *, void *),
				void *user)
{
	struct apus_ctl_participant *p = NULL;
	int count = 0;

	while ((p = apus_ctl_graph_next_participant(graph, p))) {
		count++;
		if (!show_participant(p, visit, user))
			break;
	}
	return count;
}

static bool show_endpoint(const struct apus_ctl_endpoint *e,
			  bool (*visit)(const struct apus_endpoint_info *, void *), void *user)
{
	const struct apus_wire_endpoint_record *r = e->record;
	const char *partitions[APUS_WIRE_PARTITIONS_MAX];
	const char *parameters[APUS_WIRE_FILTER_PARAMETERS_MAX];
	struct locator_texts texts = {.count = 0};
	struct apus_qos qos;
	struct apus_endpoint_info info = {
		.guid = e->guid,
		.is_writer = e->is_writer,
		.local = e->is_local,
		.topic = apus_wire_record_text(r, r->topic),
		.type_name = apus_wire_record_text(r, r->type),
		.qos = &qos,
		.locators = texts.pointer,
	};

	apus_wire_endpoint_record_qos(r, partitions, &qos);
	if (r->filter.present) {
		info.filter_class = apus_wire_record_text(r, r->filter.class_name);
		info.filter_expression = apus_wire_record_text(r, r->filter.expression);
		info.filter_parameters = parameters;
		info.filter_parameter_count = apus_wire_endpoint_record_parameters(r, parameters);
	}
	if (r->types.minimal.kind)
		info.minimal_hash = r->types.minimal.bytes;
	if (r->types.complete.kind)
		info.complete_hash = r->types.complete.bytes;
	if (e->locators) {
		add_locators(&texts, &e->locators->unicast, "");
		add_locators(&texts, &e->locators->multicast, " (multicast)");
	}
	info.locator_count = texts.count;
	return visit(&info, user);
}

int apus_ctl_visit_endpoints(const struct apus_ctl_graph *graph,
			     bool (*visit)(const struct apus_endpoint_info *, void *), void *user)
{
	struct apus_ctl_endpoint *e = NULL;
	int count = 0;

	while ((e = apus_ctl_graph_next_endpoint(graph, e))) {
		if (e->is_builtin)
			continue;
		count++;
		if (!show_endpoint(e, visit, user))
			break;
	}
	return count;
}

int apus_endpoint_mismatch(const struct apus_endpoint_info *writer,
			   const struct apus_endpoint_info *reader)
{
	if (strcmp(writer->topic, reader->topic) != 0)
		return APUS_POLICY_TOPIC;
	if (strcmp(writer->type_name, reader->type_name) != 0)
		return APUS_POLICY_TYPE;
	return apus_qos_mismatch(writer->qos, reader->qos);
}
