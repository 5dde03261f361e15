/* SPDX-License-Identifier: Apache-2.0 */
/* Topics, types, QoS and filters from the command line; see endpoint.h. */
#include "tools/endpoint.h"

#include <string.h>

#ifdef APUS_HAVE_IDL
#include "tools/idlc/load.h"
#endif
#include "tools/terminal.h"

#define TOPIC_BYTES_MAX     255
#define PARTITION_BYTES_MAX 255

#ifdef APUS_HAVE_IDL
static const struct apus_type *type_from_file(const char *path, const char *name)
{
	char reason[256];
	const struct apus_type *type = idl_load(path, name, reason, sizeof(reason));

	if (!type)
		complain("--idl %s: %s", path, reason);
	return type;
}
#else
static const struct apus_type *type_from_file(const char *path, const char *name)
{
	(void)name;
	complain("--idl %s: this build has no IDL front end (libcycloneddsidl)", path);
	return NULL;
}
#endif

const struct apus_type *endpoint_type(const char *idl_path, const char *name)
{
	const struct apus_type *type;

	if (idl_path)
		return type_from_file(idl_path, name);
	type = apus_type_builtin(name ? name : "ShapeType");
	if (!type)
		complain(
			"--type %s: no such type; there are ShapeType, ShapeTypeExtended and Blob; "
			"--idl FILE brings others",
			name);
	return type;
}

int endpoint_check_topic(const char *topic)
{
	size_t bytes = strlen(topic);

	if (bytes == 0 || bytes > TOPIC_BYTES_MAX)
		return complain("the topic name has %zu bytes; 1 to %d are allowed", bytes,
				TOPIC_BYTES_MAX);
	return EXIT_DONE;
}

int endpoint_qos(const char *text, const struct option_list *partitions, bool is_writer,
		 struct qos_words *words)
{
	struct qos_error error;

	qos_words_init(words, is_writer);
	if (qos_words_parse(words, text, is_writer, &error) != 0) {
		complain("--qos, position %zu: %s", error.position, error.reason);
		point_at(text, error.position, error.length);
		return EXIT_USAGE;
	}
	for (uint32_t i = 0; i < partitions->count; i++) {
		if (strlen(partitions->items[i]) > PARTITION_BYTES_MAX)
			return complain("--partition %.40s…: longer than %d bytes",
					partitions->items[i], PARTITION_BYTES_MAX);
		if (qos_words_add_partition(words, partitions->items[i]) != 0)
			return complain("--partition %s: more than %d partitions",
					partitions->items[i], QOS_PARTITIONS_MAX);
	}
	return EXIT_DONE;
}

int endpoint_complain_filter(const char *expression, const struct apus_filter_error *error)
{
	complain("filter, position %u: %s", error->position, error->reason);
	point_at(expression, error->position, error->length);
	return EXIT_USAGE;
}

int endpoint_complain_create(const char *what, int result)
{
	if (result == APUS_EQOS)
		return complain("cannot create the %s: %s", what, apus_strerror(result));
	if (result == APUS_ELIMIT)
		return complain_failed(
			"cannot create the %s: %s; see `apus config` for limits.… and "
			"history.…",
			what, apus_strerror(result));
	return complain_failed("cannot create the %s: %s", what, apus_strerror(result));
}
