/* SPDX-License-Identifier: Apache-2.0 */
/* See describe.h. Trusted types only: recursion is as deep as the type. */
#include "describe.h"
#include <stdio.h>
#include "wire/cdr.h"

static void describe_default(const struct apus_member *m)
{
	const void *value = m->default_value;

	printf("\"init\":");
	switch (m->type->kind) {
	case APUS_KIND_BOOL: printf(*(const bool *)value ? "true" : "false"); break;
	case APUS_KIND_STRING:
		printf("\"%s\"",
		       m->type->bound ? (const char *)value : *(const char *const *)value);
		break;
	case APUS_KIND_CHAR: printf("\"%c\"", *(const char *)value); break;
	case APUS_KIND_FLOAT32: printf("%.9g", (double)*(const float *)value); break;
	case APUS_KIND_FLOAT64: printf("%.17g", *(const double *)value); break;
	case APUS_KIND_UINT64: printf("%llu", *(const unsigned long long *)value); break;
	default: printf("%lld", (long long)apus_wire_load_integer(m->type, value)); break;
	}
	putchar(',');
}

void describe_type(const struct apus_type *type)
{
	printf("{\"kind\":%u,\"ext\":%u,\"bound\":%u,\"size\":%u,\"dims\":%u", type->kind,
	       type->extensibility, type->bound, type->size_bytes,
	       type->dim_count ? type->dim_count : 1);
	if (type->element) {
		printf(",\"element\":");
		describe_type(type->element);
	}
	printf(",\"labels\":{");
	for (uint32_t i = 0; i < type->label_count; i++)
		printf("%s\"%d\":\"%s\"", i ? "," : "", type->labels[i].value,
		       type->labels[i].name);
	printf("},\"default_label\":%u,\"members\":[", type->default_label);
	for (uint32_t i = 0; i < type->member_count; i++) {
		const struct apus_member *m = &type->members[i];

		printf("%s{\"name\":\"%s\",\"id\":%u,\"optional\":%d,\"must\":%d,\"default\":%d,"
		       "\"key\":%d,\"cases\":[",
		       i ? "," : "", m->name, m->id, m->optional, m->must_understand || m->key,
		       m->is_default, m->key);
		for (uint32_t c = 0; c < m->case_count; c++)
			printf("%s%lld", c ? "," : "", (long long)m->cases[c]);
		printf("],");
		if (m->default_value)
			describe_default(m);
		printf("\"type\":");
		describe_type(m->type);
		printf("}");
	}
	printf("]}");
}
