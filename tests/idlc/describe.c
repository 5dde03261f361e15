/* SPDX-License-Identifier: Apache-2.0 */
/* See describe.h. Trusted types only: recursion is as deep as the type. */
#include "describe.h"
#include <stdio.h>

void describe_type(const struct apus_type *type)
{
	printf("{\"kind\":%u,\"ext\":%u,\"bound\":%u,\"size\":%u", type->kind, type->extensibility,
	       type->bound, type->size_bytes);
	if (type->element) {
		printf(",\"element\":");
		describe_type(type->element);
	}
	printf(",\"labels\":{");
	for (uint32_t i = 0; i < type->label_count; i++)
		printf("%s\"%d\":\"%s\"", i ? "," : "", type->labels[i].value,
		       type->labels[i].name);
	printf("},\"members\":[");
	for (uint32_t i = 0; i < type->member_count; i++) {
		const struct apus_member *m = &type->members[i];

		printf("%s{\"name\":\"%s\",\"id\":%u,\"optional\":%d,\"must\":%d,\"default\":%d,"
		       "\"key\":%d,\"cases\":[",
		       i ? "," : "", m->name, m->id, m->optional, m->must_understand || m->key,
		       m->is_default, m->key);
		for (uint32_t c = 0; c < m->case_count; c++)
			printf("%s%lld", c ? "," : "", (long long)m->cases[c]);
		printf("],\"type\":");
		describe_type(m->type);
		printf("}");
	}
	printf("]}");
}
